"""Killed workers: their jobs are back soon, and only those that had started have cost an attempt."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from howdah import JobQueue
from tests.worker.ledger import by_job, times
from tests.worker.processes import Fleet, WorkerProcess, recovery_bound, until

JOBS = 500


def test_a_killed_workers_jobs_are_back_within_the_bound(dsn: str, queue: JobQueue, tmp_path: Path) -> None:
    with Fleet(dsn, tmp_path, "handlers_load") as fleet:
        victim, other = fleet.start_all("victim", "other", concurrency=5)
        other.await_judge()
        held = frozen_with_both_kinds(fleet, queue, victim)
        killed_at = victim.kill()
        fleet.await_drained()

        jobs = {job["id"]: job for job in fleet.jobs()}
        assert len(jobs) % JOBS == 0
        assert {job["status"] for job in jobs.values()} == {"completed"}
        starts, ends = fleet.ledger.entries("START"), fleet.ledger.entries("END")
        started = times(starts)
        prefetched = [job["id"] for job in held if job["status"] == "claimed"]
        begun = [job["id"] for job in held if job["status"] == "running"]
        # Those that ran then wait for a child process, in which they cannot crash a worker: they are back before.
        back = {id: jobs[id]["claimed_at"] for id in prefetched} | {id: taken_back_at(queue, id) for id in begun}
        for id, moment in back.items():
            assert jobs[id]["worker_id"] == "other"
            assert moment - killed_at <= timedelta(seconds=recovery_bound())
        for id in prefetched:
            assert (jobs[id]["attempts"], jobs[id]["crashes"], started[id]) == (1, 0, 1)
        for id in begun:
            assert (jobs[id]["attempts"], jobs[id]["crashes"]) == (2, 1)
            assert "worker died once" in jobs[id]["last_error"]
        for id in jobs.keys() - begun:
            assert (jobs[id]["attempts"], jobs[id]["crashes"], started[id]) == (1, 0, 1)
        last = {id: entries[-1].token for id, entries in by_job(ends).items()}
        assert last == {id: job["token"] for id, job in jobs.items()}, "the last claim is the one that completed it"


def taken_back_at(queue: JobQueue, id: uuid.UUID) -> datetime:
    (told,) = [event for event in queue.events(id, kinds=["status"]) if event.data["cause"] == "worker died"]
    return told.at


def frozen_with_both_kinds(fleet: Fleet, queue: JobQueue, victim: WorkerProcess) -> list[dict[str, Any]]:
    """The jobs of a worker that is frozen in the middle of its work, with prefetched jobs. It does not run out of work."""

    def look() -> list[dict[str, Any]]:
        if not queue.list(status="pending", limit=1):
            queue.enqueue_many("work", ({"seconds": 0.02} for _ in range(JOBS)))
        if fleet.ledger.count("END", where=lambda entry: entry.worker == victim.name) < 10:
            return []
        victim.freeze()
        held = fleet.held_by(victim)
        if {job["status"] for job in held} == {"claimed", "running"}:
            return held
        victim.thaw()
        return []

    return until(look, "the worker has prefetched jobs")
