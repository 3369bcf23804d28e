"""What do jobs cost that wait for signals, and how soon does a signal wake one?

A worker in a process of its own runs so many handlers, each of which waits for a signal of its own key. Then, beside an idle worker: the
statements and the rows that are read in some seconds, and the buffers of a sweep, each before the jobs were there and after. At last, in
turns: from a signal to its handler's return, and from the enqueue of a plain job to the same.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.program import end_with_parent, program
from benchmarks.server import BULK, Place, server
from howdah import Job, JobQueue

JOBS = 100_000
IDLE = 20.0
"""Seconds that the idle worker is looked at."""
TURNS = 50

queue = JobQueue()


@queue.job
async def waits(job: Job, key: str) -> float:
    await job.await_signal("go", key=key)
    return time.time()


@queue.job
async def plain() -> float:
    return time.time()


def work() -> None:
    end_with_parent()
    asyncio.run(queue.run_worker(signals=True))


def measure(place: Place, jobs: int, turns: int) -> dict[str, Any]:
    # It would count as statements of the worker.
    place.conn.execute("ALTER SYSTEM SET autovacuum = off")
    place.conn.execute("SELECT pg_reload_conf()")
    with JobQueue(place.dsn) as ours, program("benchmarks.waiting", place, "idle", "--work"):
        _until(place, "SELECT count(*) = 1 FROM workers")
        before = {**_idle(place), "buffers of a sweep": _sweep(place)}
        began = time.monotonic()
        for first in range(0, jobs, BULK):
            ours.enqueue_many("waits", [{"key": str(n)} for n in range(first, min(first + BULK, jobs))])
        _until(place, f"SELECT count(*) = {jobs} FROM steps WHERE state = 'waiting' AND token IS NOT NULL")
        _until(place, "SELECT count(*) = 0 FROM live WHERE status <> 'pending'")
        took = time.monotonic() - began
        place.settle()
        after = {**_idle(place), "buffers of a sweep": _sweep(place)}
        latencies = _latencies(ours, jobs, turns)
    return {
        "jobs that wait": jobs,
        "enqueued and waiting after s": round(took, 1),
        "idle before": before,
        "idle with them": after,
        "in ms": latencies,
    }


def _latencies(ours: JobQueue, jobs: int, turns: int) -> dict[str, dict[str, float]]:
    taken: dict[str, list[float]] = {"signal to handler": [], "plain enqueue to handler": []}
    keys = {job.data["key"]: job for job in ours.list(job_type="waits", limit=turns)}
    assert len(keys) == turns <= jobs
    for key, waiting in keys.items():
        # Long enough for the worker to sleep again.
        time.sleep(0.3)
        sent = time.time()
        assert ours.signal("go", key=key).woken == 1
        taken["signal to handler"].append(ours.wait_for(waiting, 60).result - sent)
        time.sleep(0.3)
        sent = time.time()
        taken["plain enqueue to handler"].append(ours.wait_for(ours.enqueue("plain"), 60).result - sent)
    return {
        name: {"p50": _ms(statistics.median(some)), "p90": _ms(statistics.quantiles(some, n=10)[-1])}
        for name, some in taken.items()
    }


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 2)


def _idle(place: Place) -> dict[str, float]:
    """What the worker's sessions do while nothing is due."""
    time.sleep(2)
    before = _counters(place)
    time.sleep(IDLE)
    return {name: round((value - before[name]) / IDLE, 1) for name, value in _counters(place).items()}


def _counters(place: Place) -> dict[str, int]:
    place.conn.execute("SELECT pg_stat_clear_snapshot()")
    row = place.conn.execute(
        "SELECT xact_commit + xact_rollback, tup_returned, blks_hit + blks_read FROM pg_stat_database"
        " WHERE datname = current_database()"
    ).fetchone()
    assert row is not None
    return dict(zip(("transactions/s", "rows read/s", "buffers/s"), row, strict=True))


def _sweep(place: Place) -> int:
    place.one("SELECT count(*) FROM recover()")
    (plan,) = place.one("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM recover()")
    return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])


def _until(place: Place, condition: str) -> None:
    while not place.one(condition):
        time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.work:
        work()
        return
    with server() as place:
        result = measure(place.place("waiting"), args.jobs, TURNS)
    text = json.dumps(result, indent=2)
    sys.stdout.write(f"{text}\n")
    if args.out is not None:
        args.out.write_text(f"{text}\n")


if __name__ == "__main__":
    main()
