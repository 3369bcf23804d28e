"""One turn of one version, as a program. It uses what every version has, and no other module of the benchmarks.

HOWDAH_DSN=… PYTHONPATH=…/src python -m benchmarks.releases_turn fill 100000
… enqueue 3000          prints the jobs a second of one producer
… together 3000         the same of 16 tasks
… send slow 100         sends so many jobs, 50 ms apart
… work                  a worker as it comes; prints the latency of each `slow` and `single` job, and its memory
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from pathlib import Path

from howdah import JobQueue

WARM_UP = 100
TASKS = 16
APART = 0.05
BULK = 2_000
SLOW = 0.02
"""Seconds that a slow job takes."""

try:
    import uvloop  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    new_loop = asyncio.new_event_loop
else:
    new_loop = uvloop.new_event_loop

queue = JobQueue()


@queue.job
async def noop(sent: float) -> None:
    pass


@queue.job
async def single(sent: float) -> None:
    print("latency", time.time() - sent, flush=True)


@queue.job
async def slow(sent: float) -> None:
    print("latency", time.time() - sent, flush=True)
    await asyncio.sleep(SLOW)


def fill(count: int) -> None:
    for done in range(0, count, BULK):
        queue.enqueue_many("noop", [{"sent": 1.5}] * min(BULK, count - done))


def enqueue(count: int) -> float:
    for _ in range(WARM_UP):
        queue.enqueue("noop", {"sent": 1.5})
    began = time.monotonic()
    for _ in range(count):
        queue.enqueue("noop", {"sent": 1.5})
    return count / (time.monotonic() - began)


async def together(count: int) -> float:
    async def produce(each: int) -> None:
        for _ in range(each):
            await queue.aenqueue("noop", {"sent": 1.5})

    async with queue:
        await asyncio.gather(*(produce(WARM_UP // TASKS) for _ in range(TASKS)))
        began = time.monotonic()
        await asyncio.gather(*(produce(count // TASKS) for _ in range(TASKS)))
        return count / (time.monotonic() - began)


def send(job_type: str, count: int) -> None:
    """Above the jobs that wait: what is measured is the worker's way, not the line."""
    due = time.monotonic()
    for _ in range(count):
        due += APART
        time.sleep(max(due - time.monotonic(), 0))
        queue.enqueue(job_type, {"sent": time.time()}, priority=150)


async def work() -> None:
    # A worker that is asked to end ends by an exception in some versions.
    with contextlib.suppress(asyncio.CancelledError):
        await queue.run_worker(signals=True)


def peak_memory() -> float:
    """In megabytes. (Not by getrusage, which counts what the parent needed, too.)"""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) / 1e3 for line in status.splitlines() if line.startswith("VmHWM"))


def main(what: str, *arguments: str) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        if what == "work":
            runner.run(work())
            print("memory", peak_memory(), flush=True)
        elif what == "together":
            print(runner.run(together(int(arguments[0]))), flush=True)
        elif what == "enqueue":
            print(enqueue(int(arguments[0])), flush=True)
        elif what == "fill":
            fill(int(arguments[0]))
        else:
            send(arguments[0], int(arguments[1]))
    queue.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
