"""Handlers are stopped: at once if a job is cancelled, and by abandoning them if a job times out."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from howdah import JobQueue
from tests.worker.processes import Fleet, until

PLACES = ("on_the_loop", "in_a_thread", "in_a_child")
RARELY: dict[str, Any] = {"lease": 600, "heartbeat": 200, "sweep": 600, "poll": 300}
"""A rhythm in which nothing is found out by looking now and then: what arrives was sent."""


def test_cancelling_reaches_handlers_of_every_kind_at_once(dsn: str, queue: JobQueue, tmp_path: Path) -> None:
    with Fleet(dsn, tmp_path, "handlers_busy") as fleet:
        worker = fleet.start("worker", **RARELY)
        jobs = [queue.enqueue(f"cancellable_{place}") for place in PLACES]
        until(lambda: fleet.ledger.count("START") == 3, "all have begun")
        for job in jobs:
            queue.cancel(job)
        until(lambda: fleet.ledger.count("TOLD") == 3, "all were cancelled")
        fleet.await_drained()
        assert {job["status"] for job in fleet.jobs()} == {"cancelled"}
        assert fleet.ledger.count("START") == 3
        assert worker.stop() == 0


def test_handlers_that_hang_are_failed_at_their_deadline_and_free_their_slots(
    dsn: str, queue: JobQueue, tmp_path: Path
) -> None:
    with Fleet(dsn, tmp_path, "handlers_busy") as fleet:
        worker = fleet.start("worker", concurrency=1, threads=1, children=1)
        # Then a child process waits for work already: its start would be part of the time that is up.
        first = run_one_in_each_place(queue)
        hung = [queue.enqueue(f"hung_{place}", timeout=1, max_attempts=1) for place in PLACES]
        until(lambda: fleet.ledger.count("START") == 6, "they hang")
        last = run_one_in_each_place(queue)
        for job in map(queue.get, hung):
            assert job.status == "failed"
            assert "timed out" in (job.last_error or "")
        order = [entry.id for entry in fleet.ledger.entries("START")]
        assert [set(order[:3]), set(order[3:6]), set(order[6:])] == [first, {job.id for job in hung}, last]
        # Something is left of what runs on the loop or in a thread: that must not keep the worker.
        assert worker.stop() == 0


def run_one_in_each_place(queue: JobQueue) -> set[uuid.UUID]:
    jobs = [queue.enqueue(f"quick_{place}") for place in PLACES]
    assert {queue.wait_for(job, timeout=180).status for job in jobs} == {"completed"}
    return {job.id for job in jobs}
