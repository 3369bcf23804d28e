"""What do jobs cost that wait for signals, and how soon does a signal wake one?

A worker in a process of its own runs so many handlers, each of which waits for a signal of its own key. Then, beside an idle worker: the
statements and the rows that are read in some seconds, and the buffers of a sweep, each before the jobs were there and after. At last, in
turns: from a signal to its handler's return, and from the enqueue of a plain job to the same.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psycopg

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
    """Prints how many statements it has sent, every second."""
    end_with_parent()
    for kind in (psycopg.Cursor, psycopg.AsyncCursor):
        _count_calls_of(kind)
    threading.Thread(target=_print_count, daemon=True).start()
    asyncio.run(queue.run_worker(signals=True))


sent = itertools.count()


def _count_calls_of(kind: Any) -> None:
    execute = kind.execute

    def counted(*args: Any, **options: Any) -> Any:
        next(sent)
        return execute(*args, **options)

    kind.execute = counted


def _print_count() -> None:
    for seconds in itertools.count():
        time.sleep(1)
        # Each look takes a number itself.
        print(next(sent) - seconds, flush=True)


class Statements:
    """How many statements the worker has sent, as it prints that."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.count = 0
        self._lines = process.stdout
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._lines is not None
        for line in self._lines:
            self.count = int(line)


def measure(place: Place, jobs: int, turns: int) -> dict[str, Any]:
    # What it reads would count as read by the worker.
    place.conn.execute("ALTER SYSTEM SET autovacuum = off")
    place.conn.execute("SELECT pg_reload_conf()")
    with JobQueue(place.dsn) as ours, program("benchmarks.waiting", place, "idle", "--work") as process:
        statements = Statements(process)
        _until(place, "SELECT count(*) = 1 FROM workers")
        before = {**_idle(place, statements), "buffers of a sweep": _sweep(place)}
        began = time.monotonic()
        for first in range(0, jobs, BULK):
            ours.enqueue_many("waits", [{"key": str(n)} for n in range(first, min(first + BULK, jobs))])
        _until(place, f"SELECT count(*) = {jobs} FROM steps WHERE state = 'waiting' AND token IS NOT NULL")
        _until(place, "SELECT count(*) = 0 FROM live WHERE status <> 'pending'")
        took = time.monotonic() - began
        place.settle()
        after = {**_idle(place, statements), "buffers of a sweep": _sweep(place)}
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


def _idle(place: Place, statements: Statements) -> dict[str, float]:
    """What the worker does while nothing is due."""
    # Sessions report what they have read with some delay.
    time.sleep(IDLE)
    before, count = _counters(place), statements.count
    time.sleep(IDLE)
    read = {name: value - before[name] for name, value in _counters(place).items()}
    return {name: round(n / IDLE, 1) for name, n in {"statements/s": statements.count - count, **read}.items()}


def _counters(place: Place) -> dict[str, int]:
    place.conn.execute("SELECT pg_stat_clear_snapshot()")
    row = place.conn.execute(
        "SELECT tup_returned, blks_hit + blks_read FROM pg_stat_database WHERE datname = current_database()"
    ).fetchone()
    assert row is not None
    return dict(zip(("rows read/s", "buffers/s"), row, strict=True))


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
