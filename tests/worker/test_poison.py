"""A job that kills whatever process runs it, among healthy ones that run longer than it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from howdah import JobQueue
from tests.worker.ledger import times
from tests.worker.processes import Fleet

HEALTHY = 200
SLOTS = 50
WORKER = {"concurrency": SLOTS, "threads": SLOTS, "children": 4}


@pytest.mark.parametrize("place", ["on_the_loop", "in_a_thread"])
def test_a_job_that_kills_its_worker_fails_and_no_other_job_fails_with_it(
    place: str, dsn: str, queue: JobQueue, tmp_path: Path
) -> None:
    with Fleet(dsn, tmp_path, "handlers_poison") as fleet:
        for number in range(HEALTHY):
            if number == 20:
                poison = queue.enqueue(f"poison_{place}")
            queue.enqueue(f"healthy_{place}")
        deaths = fleet.drain_as_a_supervisor_would(**WORKER)
        assert deaths == 1, "once it is a suspect it dies alone"

        jobs = {job["id"]: job for job in fleet.jobs()}
        ended = jobs.pop(poison.id)
        assert ended["status"] == "failed"
        assert "worker died 3 times" in ended["last_error"]
        assert times(fleet.ledger.entries("START"))[poison.id] == 3
        assert len(jobs) == HEALTHY
        assert {job["status"] for job in jobs.values()} == {"completed"}
        assert max(job["attempts"] for job in jobs.values()) < min(job["max_attempts"] for job in jobs.values())
        ends = times(fleet.ledger.entries("END"))
        assert all(1 <= ends[id] <= job["attempts"] for id, job in jobs.items())
        neighbours = [job for job in jobs.values() if job["attempts"] > 1]
        assert len(neighbours) < SLOTS
        assert neighbours


def test_a_suspect_whose_handler_no_child_would_find_runs_alone_in_its_worker(
    dsn: str, queue: JobQueue, tmp_path: Path
) -> None:
    with Fleet(dsn, tmp_path, "handlers_elsewhere") as fleet:
        job = queue.enqueue("die_at_first")
        assert fleet.drain_as_a_supervisor_would(**WORKER) == 1
        ended = queue.get(job)
        assert (ended.status, ended.attempts) == ("completed", 2), ended.last_error
