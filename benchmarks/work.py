"""A worker with handlers that do nothing, as a program: what is measured runs apart from what measures.

    HOWDAH_DSN=… python -m benchmarks.work [--types 1] [--concurrency 1000] [--tell SECONDS]

It has a handler for ``noop`` and, with ``--types N``, for ``noop1`` … up to N of them; it works until SIGTERM. With
``--tell`` it prints, every so many seconds, a line of JSON: how many jobs it has handled since it began, and between
which latencies (from the ``sent`` of their data to their handler) the latest were. It uses uvloop where that is
installed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from array import array
from typing import Any

from benchmarks.program import end_with_parent
from benchmarks.server import TYPE
from howdah import JobQueue
from howdah.worker.event_loop import loop_factory

SAMPLES = 50_000
queue = JobQueue()


class Handled:
    """Counts, and keeps the latest latencies in memory that never grows: the worker's own is being watched."""

    def __init__(self) -> None:
        self.jobs = 0
        self._told = 0
        self._latencies = array("d", bytes(8 * SAMPLES))

    def note(self, sent: float) -> None:
        self._latencies[self.jobs % SAMPLES] = time.monotonic() - sent
        self.jobs += 1

    def tell(self) -> dict[str, Any]:
        new, self._told = min(self.jobs - self._told, SAMPLES), self.jobs
        latest = sorted(self._latencies[(self.jobs - 1 - back) % SAMPLES] for back in range(new))
        told: dict[str, Any] = {"at": time.monotonic(), "handled": self.jobs}
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
            told[name] = round(latest[int(share * (new - 1))] * 1000, 3) if latest else None
        return told


handled = Handled()


async def noop(sent: float) -> None:
    pass


async def noted(sent: float) -> None:
    handled.note(sent)


async def tell(pause: float) -> None:
    while True:
        await asyncio.sleep(pause)
        print(json.dumps(handled.tell()), flush=True)


async def work(concurrency: int, pause: float) -> None:
    telling = asyncio.create_task(tell(pause)) if pause else None
    try:
        await queue.run_worker(concurrency=concurrency, signals=True)
    finally:
        if telling:
            telling.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--types", type=int, default=1)
    parser.add_argument("--concurrency", type=int, default=1_000)
    parser.add_argument("--tell", type=float, default=0)
    args = parser.parse_args()
    for number in range(args.types):
        queue.job(name=f"{TYPE}{number or ''}")(noted if args.tell else noop)
    end_with_parent()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(work(args.concurrency, args.tell))


if __name__ == "__main__":
    main()
