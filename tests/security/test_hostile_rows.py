"""Rows that others wrote by plain SQL: an unreadable one does not block the rest."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg.types.json import Jsonb

from howdah import Job, JobQueue, Unreadable
from tests.cli.runner import howdah
from tests.conftest import Db
from tests.worker.in_process import drain

LEVELS = 11_000
"""More than any Python reads (3.11 a thousand, 3.13 ten thousand), and fewer than PostgreSQL refuses."""
UNREADABLE = {
    "digits": '{"n": ' + "9" * 5_000 + "}",
    "lists": '{"n": ' + "[" * LEVELS + "]" * LEVELS + "}",
    "objects": '{"n": ' * LEVELS + "1" + "}" * LEVELS,
}
every_kind = pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)


def inserted(db: Db, text: str, job_type: str = "work") -> Any:
    """The id of a job that psql, or a client in another language, has added: ahead of all others."""
    row = db.execute(
        "INSERT INTO jobs (job_type, data, priority, max_attempts) VALUES (%s, %s::jsonb, 200, 1) RETURNING id",
        (job_type, text),
    ).fetchone()
    assert row is not None
    return row["id"]


@every_kind
def test_an_unreadable_row_does_not_block_reading_or_claiming_others(queue: JobQueue, db: Db, text: str) -> None:
    others = [queue.enqueue("work", {"n": n}) for n in range(3)]
    bad = inserted(db, text)
    assert [job.data for job in queue.list()[1:]] == [{"n": 2}, {"n": 1}, {"n": 0}]
    assert isinstance(queue.get(bad).data, Unreadable)
    assert [job.id for job in queue.claim(["work"])] == [job.id for job in others]
    failed = queue.get(bad)
    assert (failed.status, "cannot be read" in (failed.last_error or "")) == ("failed", True)
    assert [update.kind for update in queue.watch(bad)] == ["progress", "status", "progress"]
    assert queue.wait_for(bad, timeout=30).status == "failed"


@every_kind
@pytest.mark.parametrize("kind", ["async", "thread", "batch"])
def test_a_worker_fails_it_alone(queue: JobQueue, db: Db, text: str, kind: str) -> None:
    seen: list[int] = []

    async def work(n: int) -> None:
        seen.append(n)

    def work_in_thread(n: int) -> None:
        seen.append(n)

    async def work_in_batch(jobs: list[Job]) -> None:
        seen.extend(job.data["n"] for job in jobs)

    if kind == "batch":
        queue.job(name="work", batch_size=10)(work_in_batch)
    else:
        queue.job(name="work")(work if kind == "async" else work_in_thread)
    for n in range(5):
        queue.enqueue("work", {"n": n})
    bad = inserted(db, text)
    report = drain(queue)
    assert sorted(seen) == [0, 1, 2, 3, 4]
    assert (report.counts["completed"], report.counts["failed"]) == (5, 1)
    assert queue.get(bad).status == "failed"


@pytest.mark.parametrize("column", ["result", "checkpoint", "errors", "meta", "progress_report", "retry_policy"])
def test_whatever_column_it_is_in(queue: JobQueue, db: Db, column: str) -> None:
    other, bad = queue.enqueue("work", {"n": 1}), queue.enqueue("work", {"n": 2})
    assert column.isidentifier()
    db.execute(f"UPDATE live SET {column} = %s::jsonb WHERE id = %s".encode(), (UNREADABLE["digits"], bad.id))
    assert {job.id for job in queue.list()} == {other.id, bad.id}
    assert queue.get(bad).data == {"n": 2}
    assert other.id in {job.id for job in queue.claim(["work"])}


def test_events_and_schedules_of_others_are_read_beside_it(dsn: str, queue: JobQueue, db: Db) -> None:
    queue.enqueue("work")
    (job,) = queue.claim(["work"])
    queue.event(job, "told", {"n": 1})
    db.execute(
        "SELECT * FROM record_events(ARRAY[%s]::uuid[], ARRAY[%s]::bigint[], ARRAY['told'], ARRAY[%s::jsonb])",
        (job.id, job.token, UNREADABLE["lists"]),
    )
    queue.event(job, "told", {"n": 3})
    assert [type(event.data) for event in queue.events(job)] == [dict, Unreadable, dict]
    queue.schedules.set("a", "work", {"n": 1}, every=60)
    queue.schedules.set("b", "work", {"n": 2}, every=60)
    db.execute("UPDATE schedules SET data = %s::jsonb WHERE name = 'b'", (UNREADABLE["digits"],))
    assert [type(schedule.data) for schedule in queue.schedules.list()] == [dict, Unreadable]


@every_kind
def test_the_command_shows_what_it_can(dsn: str, queue: JobQueue, db: Db, text: str) -> None:
    queue.enqueue("work", {"n": 1})
    bad = str(inserted(db, text))
    for argv in (["list"], ["list", "--json"], ["show", bad], ["show", bad, "--json"], ["stats"], ["top", "--json"]):
        shown = howdah(*argv, dsn=dsn)
        assert (shown.code, shown.err) == (0, ""), argv


def test_a_retry_policy_from_plain_sql_that_is_none_is_passed_over(queue: JobQueue, db: Db) -> None:
    @queue.job(name="work", max_attempts=2)
    async def work(n: int) -> None:
        if n == 0:
            raise ValueError("no")

    bad = queue.enqueue("work", {"n": 0}, priority=200)
    db.execute("UPDATE live SET retry_policy = %s", (Jsonb({"kind": "__import__('os').abort()", "delay": "1e999"}),))
    others = [queue.enqueue("work", {"n": n}) for n in (1, 2)]
    drain(queue)
    assert [queue.get(job).status for job in others] == ["completed", "completed"]
    assert (queue.get(bad).status, queue.get(bad).last_error) == ("pending", "ValueError: no")
