"""To enqueue: one job by one, from many threads at once, awaiting, and in bulk. No worker runs meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Final

from howdah.bench.arena import Arena
from howdah.bench.handlers import NOTHING
from howdah.bench.scenario import JOBS_A_SECOND, Options, Play, Round, Scenario, rate
from howdah.bench.threads import together
from howdah.queue import JobQueue
from howdah.worker.event_loop import loop_factory

THREADS: Final = 16


@contextlib.contextmanager
def _one_by_one(arena: Arena, options: Options) -> Iterator[Play]:
    with arena.open_queue() as queue:

        def play(jobs: int) -> Round:
            began = time.monotonic()
            for data in options.numbered(jobs):
                queue.enqueue(NOTHING, data)
            return rate(jobs, time.monotonic() - began)

        yield play


@contextlib.contextmanager
def _from_threads(arena: Arena, options: Options) -> Iterator[Play]:
    with arena.open_queue(pool_size=THREADS) as queue:

        def play(jobs: int) -> Round:
            items, lock = options.numbered(jobs), threading.Lock()

            def produce(stopped: threading.Event) -> None:
                while not stopped.is_set():
                    with lock:
                        data = next(items, None)
                    if data is None:
                        return
                    queue.enqueue(NOTHING, data)

            return rate(jobs, together(THREADS, produce))

        yield play


@contextlib.contextmanager
def _awaiting(arena: Arena, options: Options) -> Iterator[Play]:
    queue = arena.open_queue()

    async def enqueue(jobs: int) -> Round:
        began = time.monotonic()
        for data in options.numbered(jobs):
            await queue.aenqueue(NOTHING, data)
        return rate(jobs, time.monotonic() - began)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        yield lambda jobs: runner.run(enqueue(jobs))
        runner.run(queue.aclose())


@contextlib.contextmanager
def _in_bulk(arena: Arena, options: Options) -> Iterator[Play]:
    with arena.open_queue() as queue:
        yield lambda jobs: _bulk(queue, options, jobs)


def _bulk(queue: JobQueue, options: Options, jobs: int) -> Round:
    began = time.monotonic()
    queue.enqueue_many(NOTHING, options.numbered(jobs))
    return rate(jobs, time.monotonic() - began)


ONE_BY_ONE: Final = Scenario(
    what="enqueue",
    how="one by one",
    meaning="queue.enqueue in a loop: each job is committed before the next one",
    units={"": JOBS_A_SECOND},
    few=200,
    most=20_000,
    opened=_one_by_one,
)
FROM_THREADS: Final = Scenario(
    what="enqueue",
    how=f"{THREADS} threads",
    meaning=f"queue.enqueue from {THREADS} threads of one process at once, as a web server does",
    units={"": JOBS_A_SECOND},
    few=1_000,
    most=50_000,
    opened=_from_threads,
)
AWAITING: Final = Scenario(
    what="enqueue",
    how="async, one by one",
    meaning="await queue.aenqueue in a loop: each job is committed before the next one",
    units={"": JOBS_A_SECOND},
    few=200,
    most=20_000,
    opened=_awaiting,
)
IN_BULK: Final = Scenario(
    what="bulk",
    how="enqueue_many",
    meaning="queue.enqueue_many from a generator, all in one transaction",
    units={"": JOBS_A_SECOND},
    few=10_000,
    most=300_000,
    opened=_in_bulk,
)
