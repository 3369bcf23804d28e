"""Two workers of one name at once: the later one has it, and is left alone by the earlier one."""

from __future__ import annotations

import threading

from howdah import Job, JobQueue
from tests.conftest import Db
from tests.worker.in_process import beats, ended, happened, run, until, working


def test_a_worker_that_lost_its_name_does_not_release_the_jobs_of_the_new_one(
    dsn: str, queue: JobQueue, db: Db
) -> None:
    stuck, both_may_end, runs = threading.Event(), threading.Event(), list[Job]()
    with JobQueue(dsn) as earlier:

        @earlier.job
        def stubborn() -> None:
            stuck.set()
            both_may_end.wait()

        @queue.job
        def patient(job: Job) -> None:
            runs.append(job)
            both_may_end.wait()

        async def main() -> None:
            async with working(earlier, name="namesake", heartbeat=0.1, grace=60) as first:
                await stubborn.aenqueue()
                await happened(stuck)
                async with working(queue, name="namesake") as second:
                    job = await patient.aenqueue()
                    await until(lambda: runs and first.summary.replaced)
                    # Long enough for the first to check its jobs many times.
                    await beats(db, second, 5)
                    both_may_end.set()
                    done = await ended(queue, job)
                    assert (done.status, done.attempts, done.interruptions) == ("completed", 1, 0)
                    assert len(runs) == 1

        try:
            run(main())
        finally:
            both_may_end.set()
