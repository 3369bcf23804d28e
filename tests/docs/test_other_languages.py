"""The client in another language, of docs/how-to/other-languages.md, works against a real PostgreSQL."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, LiteralString

import pytest

from tests.conftest import Db
from tests.docs.pages import PAGES, ROOT, Block, blocks_of

RUBY = shutil.which("ruby")
MISSING = "Ruby with the gem pg is not installed here (Debian: apt-get install ruby ruby-pg)"
EXAMPLES = ROOT / "examples"
SHOWN = [block for page in PAGES for block in blocks_of(page) if block.language == "ruby"]


@pytest.fixture(scope="session")
def ruby() -> str:
    there = RUBY and subprocess.run([RUBY, "-rpg", "-e", ""], capture_output=True, check=False).returncode == 0
    if not there:
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    assert RUBY
    return RUBY


@pytest.fixture
def work(ruby: str, dsn: str, tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Starts a worker, which is registered when this returns."""
    with contextlib.ExitStack() as started:

        def start(*command: str, lease: float = 15, grace: float = 30, poll: float = 1) -> Process:
            options = {"WORKER_LEASE": str(lease), "WORKER_GRACE": str(grace), "WORKER_POLL": str(poll)}
            log = tmp_path / f"worker-{time.monotonic_ns()}.log"
            with log.open("w") as said:
                process = started.enter_context(
                    subprocess.Popen(
                        [ruby, "-W2", *(command or (str(EXAMPLES / "worker.rb"),))],
                        env={**os.environ, "HOWDAH_DSN": dsn, **options},
                        stdout=said,
                        stderr=subprocess.STDOUT,
                    )
                )
            started.callback(process.kill)
            worker = Process(process, log)
            _until(lambda: " works\n" in worker.said, worker)
            return worker

        yield start


class Process:
    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def said(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def ends(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(120)


Work = Callable[..., Process]


@pytest.mark.parametrize("block", SHOWN, ids=str)
def test_what_the_page_shows_is_in_the_file_that_is_run(block: Block) -> None:
    named, _, shown = block.text.partition("\n")
    file = (EXAMPLES / named.removeprefix("# ")).read_text(encoding="utf-8")
    assert any(f"\n{textwrap.indent(shown, indent)}\n" in file for indent in ("", "  "))


def test_every_file_is_shown_and_described() -> None:
    described = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    files = {file.name for file in EXAMPLES.glob("*.rb")}
    assert files == {block.text.partition("\n")[0].removeprefix("# ") for block in SHOWN}
    assert all(f"]({file})" in described for file in files)


def test_an_app_enqueues_in_its_own_transaction_and_the_worker_runs_it(ruby: str, dsn: str, db: Db, work: Work) -> None:
    done = subprocess.run(
        [ruby, "-W2", str(EXAMPLES / "producer.rb")],
        env={**os.environ, "HOWDAH_DSN": dsn},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "teapot: ordered, and its confirmation is enqueued",
        "unicorn: we are out of unicorns, and nothing is enqueued",
        "import: enqueued",
        "import: was enqueued before",
        "orders: 1",
    ]
    worker = work()
    _until(lambda: _count(db, "completed") == 2, worker)
    results = {row["job_type"]: row["result"] for row in db.execute("SELECT job_type, result FROM job_details")}
    assert results == {"example_rb_confirm": {"sent": "confirmation of order 1"}, "example_rb_import": 3}
    assert worker.ends() == 0
    assert not db.execute("SELECT FROM workers").fetchall()


def test_jobs_complete_with_results_and_a_failed_one_is_tried_again(db: Db, work: Work) -> None:
    worker = work()
    db.execute(
        "SELECT enqueue_many('example_rb_confirm', ARRAY(SELECT format('{\"order\": %s}', n)::jsonb FROM generate_series(1, 40) AS n))"
    )
    retried = _enqueue(db, "example_rb_fetch", policy='{"kind": "fixed", "delay": 0.2}')
    hopeless = _enqueue(db, "example_rb_charge")
    _until(lambda: _count(db, "completed", "failed") == 42, worker)
    orders = [
        row["result"]["sent"]
        for row in db.execute("SELECT result FROM job_details WHERE job_type = 'example_rb_confirm'")
    ]
    assert set(orders) == {f"confirmation of order {n}" for n in range(1, 41)}
    job = _job(db, retried)
    assert (job["status"], job["attempts"], job["result"]) == ("completed", 2, "attempt 2")
    assert job["errors"][0]["error"] == "IOError: the line was cut"
    assert "worker.rb" in job["errors"][0]["traceback"]
    job = _job(db, hopeless)
    assert (job["status"], job["attempts"], job["last_error"]) == ("failed", 1, "GiveUp: the card has expired")
    assert worker.ends() == 0


def test_a_sleeping_worker_is_woken(db: Db, work: Work) -> None:
    worker = work(poll=3600)
    _until(lambda: _is_true(db, "SELECT has_sleeper('example_rb_import')"), worker)
    for _ in range(3):
        job = _enqueue(db, "example_rb_import", '{"rows": 1}')
        _until(lambda job=job: _job(db, job)["status"] == "completed", worker)  # type: ignore[misc]
    assert worker.ends() == 0


def test_a_running_job_reports_and_stops_when_it_is_cancelled(db: Db, work: Work) -> None:
    worker = work()
    job = _enqueue(db, "example_rb_import", '{"rows": 2000, "pause": 0.01}')
    _until(lambda: _job(db, job)["progress"] > 0, worker)
    assert _job(db, job)["current_stage"].startswith("row ")
    db.execute("SELECT cancel(ARRAY[%s::uuid])", (job,))
    _until(lambda: _job(db, job)["status"] == "cancelled", worker)
    assert worker.ends() == 0


def test_a_result_that_cannot_be_stored_fails_its_job_and_no_other(db: Db, work: Work) -> None:
    others = [_enqueue(db, "example_rb_confirm", f'{{"order": {n}}}') for n in range(3)]
    bad = _enqueue(db, "example_rb_nul", policy='{"kind": "none"}')
    nul = 'HANDLERS["example_rb_nul"] = ->(_) { "\\0" }'
    worker = work("-r", str(EXAMPLES / "worker.rb"), "-e", f"{nul}; Worker.new.run")
    _until(lambda: _job(db, bad)["status"] == "failed", worker)
    assert _job(db, bad)["attempts"] == 3
    assert _job(db, bad)["last_error"].startswith(
        "the result cannot be stored: ERROR:  unsupported Unicode escape sequence"
    )
    assert {_job(db, job)["status"] for job in others} == {"completed"}
    assert worker.ends() == 0


def test_running_jobs_of_a_killed_worker_are_recovered_by_the_sweep_of_another(db: Db, work: Work) -> None:
    killed = work(lease=3)
    job = _enqueue(db, "example_rb_import", '{"rows": 20, "pause": 0.1}')
    _until(lambda: _job(db, job)["status"] == "running", killed)
    killed.ends(signal.SIGKILL)
    assert _job(db, job)["status"] == "running"
    other = work(lease=3)
    _until(lambda: _job(db, job)["status"] == "completed", other)
    done = _job(db, job)
    assert (done["attempts"], done["crashes"], done["result"]) == (2, 1, 20)
    assert done["errors"][0]["kind"] == "worker died"
    assert other.ends() == 0


def test_a_worker_that_was_declared_dead_registers_anew(db: Db, work: Work) -> None:
    worker = work()
    lost = _enqueue(db, "example_rb_import", '{"rows": 1000, "pause": 0.01}')
    _until(lambda: _job(db, lost)["status"] == "running", worker)
    (before,) = db.execute("SELECT worker_id, incarnation AS boot FROM workers").fetchall()
    with db.transaction():  # no heartbeat and no progress comes in between
        db.execute("SELECT FROM live WHERE id = %s FOR UPDATE", (lost,))
        db.execute("UPDATE workers SET heartbeat_at = heartbeat_at - interval '1 hour'")
        (back,) = db.execute("SELECT id, status FROM recover()").fetchall()
    assert (str(back["id"]), back["status"]) == (lost, "pending")
    later = _enqueue(db, "example_rb_confirm", '{"order": 1}')
    _until(lambda: _job(db, later)["status"] == "completed", worker)
    (after,) = db.execute("SELECT worker_id, incarnation AS boot FROM workers").fetchall()
    assert after["worker_id"] == before["worker_id"]
    assert after["boot"] != before["boot"]
    _until(lambda: "attempt 1: no longer ours" in worker.said, worker)
    db.execute("SELECT cancel(ARRAY[%s::uuid])", (lost,))
    assert worker.ends() == 0


def test_sigterm_lets_what_runs_finish_and_strands_nothing(db: Db, work: Work) -> None:
    jobs = [_enqueue(db, "example_rb_import", '{"rows": 10, "pause": 0.05}') for _ in range(12)]
    worker = work()
    _until(lambda: _count(db, "running") == 4 and _count(db, "claimed") == 4, worker)
    running = {row["id"] for row in db.execute("SELECT id FROM jobs WHERE status = 'running'")}
    assert worker.ends() == 0
    ended = [_job(db, job) for job in jobs]
    assert {job["status"] for job in ended} == {"completed", "pending"}
    assert running <= {job["id"] for job in ended if job["status"] == "completed"}
    assert all(job["attempts"] == (1 if job["status"] == "completed" else 0) for job in ended)
    assert not db.execute("SELECT FROM workers").fetchall()


def test_jobs_that_outlast_the_grace_are_released(db: Db, work: Work) -> None:
    job = _enqueue(db, "example_rb_import", '{"rows": 10, "pause": 20}')
    worker = work(grace=0.5)
    _until(lambda: _job(db, job)["status"] == "running", worker)
    assert worker.ends() == 0
    back = _job(db, job)
    assert (back["status"], back["attempts"], back["interruptions"]) == ("pending", 0, 1)


def test_a_worker_goes_on_when_its_connections_are_cut(db: Db, work: Work) -> None:
    worker = work()
    before = _enqueue(db, "example_rb_import", '{"rows": 10, "pause": 0.1}')
    _until(lambda: _job(db, before)["status"] == "running", worker)
    cut = db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%worker.rb'")
    assert cut.rowcount == 2
    after = _enqueue(db, "example_rb_confirm", '{"order": 1}')
    _until(lambda: all(_job(db, job)["status"] == "completed" for job in (before, after)), worker)
    assert _job(db, before)["attempts"] == 1
    assert worker.ends() == 0


def _enqueue(db: Db, job_type: str, data: str = "{}", policy: str | None = None) -> str:
    row = db.execute(
        "SELECT id FROM enqueue(%s, %s::jsonb, p_retry_policy => %s::jsonb)", (job_type, data, policy)
    ).fetchone()
    assert row is not None
    return str(row["id"])


def _job(db: Db, job: str) -> dict[str, Any]:
    row = db.execute("SELECT * FROM job_details WHERE id = %s", (job,)).fetchone()
    assert row is not None
    return row


def _is_true(db: Db, query: LiteralString) -> bool:
    row = db.execute(query).fetchone()
    assert row is not None
    return bool(next(iter(row.values())))


def _count(db: Db, *statuses: str) -> int:
    row = db.execute("SELECT count(*) AS jobs FROM jobs WHERE status = ANY (%s)", (list(statuses),)).fetchone()
    assert row is not None
    return int(row["jobs"])


def _until(happens: Callable[[], bool], worker: Process) -> None:
    deadline = time.monotonic() + 120
    while not happens():
        assert worker.process.poll() is None, f"the worker ended:\n{worker.said}"
        assert time.monotonic() < deadline, f"it did not happen:\n{worker.said}"
        time.sleep(0.02)
