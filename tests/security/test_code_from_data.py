"""Nothing in a row is ever code: no type, datum, schedule or policy is imported, unpickled, formatted or called."""

from __future__ import annotations

import base64
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from howdah import JobQueue
from tests.conftest import Db
from tests.security.working import work
from tests.worker.in_process import drain


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise SystemExit('a row was run as code')",)


PICKLE = base64.b64encode(pickle.dumps(Bomb())).decode()
HOSTILE: list[Any] = [
    PICKLE,
    {"py/object": "tests.security.bait.Bait", "py/reduce": ["os.abort"]},
    {"__reduce__": ["os.system", ["false"]], "__class__": "tests.security.bait"},
    {"$type": "tests.security.bait:run", "args": ["!!python/object/apply:os.abort []"]},
    {"func": "tests.security.bait.run", "module": "tests.security.bait", "qualname": "run"},
    "{0.__class__.__init__.__globals__} %(secret)s ${jndi:ldap://x} {{7*7}}",
    ["__import__('tests.security.bait')", "tests.security.bait", "tests/security/bait.py"],
]
TYPES = ["tests.security.bait.run", "tests.security.bait:run", "os.abort", "__main__", "eval", "../bait", "%s{0}"]

WORKER = """
import importlib.abc, json, pickle, sys
from howdah import JobQueue
queue = JobQueue()
names = []

class Watch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        names.append(name)

@queue.job(max_attempts=1)
async def take(value) -> object: return value
@queue.job(max_attempts=1)
def take_in_thread(value) -> object: return value
@queue.job(max_attempts=1, process=True)
def take_in_child(value) -> object: return [value, "tests.security.bait" in sys.modules]
@queue.job(max_attempts=1)
async def seen() -> dict:
    return {"names": names, "modules": [name for name in sys.modules if "bait" in name]}

sys.meta_path.insert(0, Watch())
def refuse(*args): raise SystemExit("something was unpickled")
pickle.loads = refuse
"""


@pytest.mark.parametrize("job_type", TYPES)
def test_a_type_without_a_handler_is_never_claimed(queue: JobQueue, db: Db, job_type: str) -> None:
    @queue.job(name="other")
    async def other() -> None: ...

    job = queue.enqueue(job_type, {"n": 1})
    ran = queue.enqueue("other")
    drain(queue)
    left, done = queue.get(job), queue.get(ran)
    assert (left.status, left.attempts, left.token, done.status) == ("pending", 0, 0, "completed")


def test_nothing_is_imported_or_unpickled_for_what_is_in_a_row(dsn: str, db: Db, tmp_path: Path) -> None:
    (tmp_path / "watched.py").write_text(WORKER)
    with JobQueue(dsn) as queue:
        jobs = [
            queue.enqueue(name, {"value": value}, meta={"loader": value}, max_attempts=1)
            for name in ("take", "take_in_thread", "take_in_child")
            for value in HOSTILE
        ]
        left = [queue.enqueue(name, HOSTILE[0]) for name in TYPES]
        for number, value in enumerate(HOSTILE):
            queue.schedules.set(f"tests.security.bait {number}", "take", {"value": value}, every=3600)
            db.execute("UPDATE schedules SET next_run_at = now() - interval '1 s', next_run_known = true")
        db.execute(
            "INSERT INTO types (job_type, retry_policy) VALUES ('tests.security.bait', %s)", (Jsonb(HOSTILE[1]),)
        )
        done = work("watched", dsn, "--drain", PYTHONPATH=str(tmp_path))
        assert done.code == 0, done.err
        last = queue.enqueue("seen")
        assert work("watched", dsn, "--drain", "--types", "seen", PYTHONPATH=str(tmp_path)).code == 0
        for job in jobs:
            ended = queue.get(job)
            expected = [ended.data["value"], False] if job.job_type == "take_in_child" else ended.data["value"]
            assert (ended.status, ended.result) == ("completed", expected)
        assert {queue.get(job).status for job in left} == {"pending"}
        seen = queue.get(last).result
    assert seen["names"] or seen["modules"] == []
    assert "bait" not in json.dumps(seen)
    assert "bait" not in done.err


def test_arguments_that_name_attributes_reach_no_object(queue: JobQueue) -> None:
    """By a handler's own annotations, and by nothing else, does data become objects."""
    seen: list[dict[str, Any]] = []

    @queue.job(name="take", max_attempts=1)
    async def take(**given: Any) -> None:
        seen.append(given)

    names = {"self": 1, "__class__": "x", "job": {"id": 1}, "call_next": 2, "_attempt": 3, "conn": 4}
    job = queue.enqueue("take", names)
    drain(queue)
    assert queue.get(job).status == "completed"
    assert seen == [names]
