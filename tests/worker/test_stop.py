"""SIGTERM at random moments: nothing is left without an owner, and no attempt is lost."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

from howdah import JobQueue
from tests.size import FULL
from tests.worker.ledger import times
from tests.worker.processes import Fleet, WorkerProcess

SIGNALS = 50 if FULL else 15
AT_ONCE = 3
JOBS = SIGNALS * 40
SHARES = {"work": 0.75, "work_in_a_thread": 0.2, "work_in_a_child": 0.05}


def test_sigterm_at_random_moments_strands_nothing_and_costs_no_attempt(
    dsn: str, queue: JobQueue, tmp_path: Path
) -> None:
    seed = random.randrange(1_000_000)
    print(f"the seed of the moments is {seed}")
    chance = random.Random(seed)
    with Fleet(dsn, tmp_path, "handlers_load") as fleet:
        for job_type, share in SHARES.items():
            queue.enqueue_many(job_type, ({"seconds": chance.uniform(0, 0.1)} for _ in range(int(JOBS * share))))
        for first in range(0, SIGNALS, AT_ONCE):
            names = [f"worker-{number}" for number in range(first, min(first + AT_ONCE, SIGNALS))]
            workers = [fleet.start(name, concurrency=10, grace=chance.choice([0, 20])) for name in names]
            for worker in workers:
                stop_at_a_random_moment(worker, chance)
            for worker in workers:
                # Interrupted in the middle of its work, or before it could even listen to signals.
                assert worker.ended() in (0, 6, -signal.SIGTERM)
            assert fleet.held_by(*workers) == []
            assert fleet.rows("SELECT FROM howdah.workers") == []
        assert fleet.start("last", drain=True).ended() == 0

        jobs = {job["id"]: job for job in fleet.jobs()}
        assert len(jobs) == JOBS
        assert {(job["status"], job["attempts"], job["crashes"]) for job in jobs.values()} == {("completed", 1, 0)}
        starts, ends = times(fleet.ledger.entries("START")), times(fleet.ledger.entries("END"))
        # A child process can be stopped after its last line, and before it has returned.
        surely_once = [id for id, job in jobs.items() if job["job_type"] != "work_in_a_child"]
        assert all(ends[id] == 1 for id in surely_once), "what has ended was written, and not run again"
        assert all(1 <= starts[id] <= 1 + job["interruptions"] for id, job in jobs.items())


def stop_at_a_random_moment(worker: WorkerProcess, chance: random.Random) -> None:
    """While it boots, or while it works; now and then a second time, which hurries it."""
    if chance.random() < 0.6:
        worker.await_ready()
        time.sleep(chance.uniform(0, 0.3))
    else:
        time.sleep(chance.uniform(0, 0.5))
    worker.signal(signal.SIGTERM)
    if chance.random() < 0.3:
        time.sleep(chance.uniform(0, 0.1))
        worker.signal(signal.SIGTERM)
