"""A schedule that fires each second, two workers, and the death of one: a job for each instant, and one only."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from howdah import JobQueue
from tests.worker.ledger import times
from tests.worker.processes import FULL, Fleet, until

INSTANTS = 60 if FULL else 7


def test_every_instant_has_exactly_one_job_though_a_worker_dies(dsn: str, queue: JobQueue, tmp_path: Path) -> None:
    with Fleet(dsn, tmp_path, "handlers_schedule") as fleet:
        victim, _ = fleet.start_all("victim", "other")
        made = queue.schedule("each second", "tick", every=1, missed="all")
        assert made.next_run_at is not None
        until(lambda: fleet.ledger.count("START") >= INSTANTS // 2, "half of them have run")
        victim.kill()
        last = made.next_run_at + timedelta(seconds=INSTANTS - 1)
        until(lambda: (queue.get_schedule("each second").last_run_at or made.created_at) >= last, "the rest is fired")
        queue.delete_schedule("each second")
        fleet.await_drained()

        jobs = fleet.jobs()
        instants = [job["run_at"] for job in jobs]
        assert sorted(instants) == [made.next_run_at + timedelta(seconds=number) for number in range(len(jobs))]
        assert len(jobs) >= INSTANTS
        assert {job["status"] for job in jobs} == {"completed"}
        assert set(times(fleet.ledger.entries("START"))) == {job["id"] for job in jobs}
