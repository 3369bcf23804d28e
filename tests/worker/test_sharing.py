"""How workers share jobs: no worker hoards, and urgent jobs do not wait behind a backlog."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from howdah import JobQueue
from tests.worker.ledger import Entry
from tests.worker.processes import Fleet, until

SLOTS = 5


def test_two_workers_share_slow_jobs_and_both_are_busy_throughout(dsn: str, queue: JobQueue, tmp_path: Path) -> None:
    with Fleet(dsn, tmp_path, "handlers_load") as fleet:
        fleet.start_all("one", "two", concurrency=SLOTS)
        queue.enqueue_many("work", ({"seconds": 1} for _ in range(4 * SLOTS)))
        fleet.await_drained()
        entries = fleet.ledger.entries("START", "END")
        shares = Counter(entry.worker for entry in entries if entry.word == "START")
        # Where the machine keeps one of them waiting, the other may take a few more.
        assert sum(shares.values()) == 4 * SLOTS
        assert min(shares["one"], shares["two"]) >= SLOTS
        assert most_at_once(entries, "one") == most_at_once(entries, "two") == SLOTS
        assert all(job["started_at"] == job["claimed_at"] for job in fleet.jobs()), "nothing was held before its time"


def most_at_once(entries: list[Entry], worker: str) -> int:
    running = most = 0
    for entry in entries:
        if entry.worker == worker:
            running += 1 if entry.word == "START" else -1
            most = max(most, running)
    return most


def test_an_urgent_job_starts_before_the_backlog(dsn: str, queue: JobQueue, tmp_path: Path) -> None:
    slots, seconds = 2, 0.04
    with Fleet(dsn, tmp_path, "handlers_load") as fleet:
        fleet.start("worker", concurrency=slots)
        queue.enqueue_many("work", ({"seconds": seconds} for _ in range(600)))
        until(lambda: fleet.ledger.count("END") >= 20, "the worker has measured its jobs")
        urgent = queue.enqueue("work", {"seconds": seconds}, priority=150)
        enqueued = time.monotonic()
        until(lambda: fleet.ledger.count("START", where=lambda entry: entry.id == urgent.id), "it has started")
        starts = [entry for entry in fleet.ledger.entries("START") if entry.at > enqueued]
        before = [entry.id for entry in starts].index(urgent.id)
        # The worker has prefetched a tenth of a second of work, and a claim may be on its way.
        assert before <= slots * 0.1 / seconds + slots
        assert fleet.rows("SELECT FROM howdah.live WHERE status = 'pending' LIMIT 1"), "the backlog is not done yet"
