"""The maintenance that every worker does."""

from __future__ import annotations

import logging

import pytest

from howdah import JobQueue
from tests.conftest import Db
from tests.worker.in_process import run, statuses, until, working


def test_a_job_that_the_sweep_cannot_end_is_in_the_log_once_and_the_others_are_ended(
    queue: JobQueue, db: Db, caplog: pytest.LogCaptureFixture
) -> None:
    @queue.job
    async def other() -> None: ...

    bad, *_ = [queue.enqueue("late", expires_in=0.001) for _ in range(3)]
    db.execute(
        "CREATE FUNCTION pg_temp.refuse() RETURNS trigger LANGUAGE plpgsql"
        " AS $$ BEGIN RAISE EXCEPTION 'not this job' USING ERRCODE = '22003'; END $$"
    )
    db.execute(
        "CREATE TRIGGER refuse BEFORE DELETE ON howdah.live FOR EACH ROW"
        f" WHEN (OLD.id = '{bad.id}') EXECUTE FUNCTION pg_temp.refuse()".encode()
    )

    async def main() -> None:
        async with working(queue, sweep=0.05):
            await until(lambda: statuses(db, "late") == {"cancelled": 2, "pending": 1})
            for number in range(2):
                queue.enqueue(f"also late {number}", expires_in=0.001)
                await until(lambda number=number: statuses(db, f"also late {number}") == {"cancelled": 1})  # type: ignore[misc]

    try:
        with caplog.at_level(logging.WARNING, logger="howdah.worker"):
            run(main())
    finally:
        db.execute("DROP TRIGGER refuse ON howdah.live")
    warnings = [record.getMessage() for record in caplog.records if getattr(record, "event", "") == "database_warning"]
    assert warnings == [f"the database warns: job {bad.id} could not be recovered (expired): not this job"]
