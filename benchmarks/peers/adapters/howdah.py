"""Howdah, from this repository, as it comes, on uvloop."""

from __future__ import annotations

import functools
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.peers.adapters._protocol import URL, Adapter, Tally, main, paced, payloads, timed_tasks, timed_threads
from howdah import Job, JobQueue

BATCH_SIZE = 1000
BATCHES = 2


def setup() -> None:
    with JobQueue(URL) as queue:
        queue.migrate()


def enqueue(count: int, producers: int) -> Any:
    return enqueue_in_turn(count) if producers == 1 else enqueue_side_by_side(count, producers)


def enqueue_in_turn(count: int) -> float:
    with JobQueue(URL) as queue:
        queue.stats()  # connected
        return timed_threads(count, 1, lambda payload: queue.enqueue("noop", payload))


async def enqueue_side_by_side(count: int, producers: int) -> float:
    async with JobQueue(URL) as queue:
        await queue.astats()
        return await timed_tasks(count, producers, lambda payload: queue.aenqueue("noop", payload))


def bulk(count: int) -> float:
    with JobQueue(URL) as queue:
        queue.stats()
        started = time.monotonic()
        queue.enqueue_many("noop", payloads(count))
        return time.monotonic() - started


def pickup_sender(count: int, pause: float) -> None:
    with JobQueue(URL) as queue:
        queue.stats()
        for payload in paced(count, pause):
            queue.enqueue("noop", payload)


async def work(handler: str, tally: Tally, *, options: Mapping[str, Any]) -> None:
    @asynccontextmanager
    async def lifespan(_: JobQueue) -> AsyncIterator[None]:
        tally.ready()
        yield

    queue = JobQueue(URL, lifespan=lifespan)

    if handler == "async":

        @queue.job(name="noop")
        async def noop(sent: float) -> None:
            tally.one(sent)

    elif handler == "sync":

        @queue.job(name="noop")
        def in_thread(sent: float) -> None:
            tally.one_of_threads(sent)

    else:

        @queue.job(name="noop", batch_size=BATCH_SIZE, concurrency=BATCHES)
        async def batch(jobs: list[Job]) -> None:
            tally.many(len(jobs))

    await queue.run_worker(signals=True, **options)


def adapter(name: str, settings: str, **options: int) -> Adapter:
    """options: of the worker, if it is not to be as it comes."""
    return Adapter(
        name=name,
        package="howdah",
        settings=f"psycopg, uvloop, {settings}, batch_size {BATCH_SIZE}, {BATCHES} at once",
        keeps_history=True,
        durable="PostgreSQL, synchronous_commit on",
        remaining="SELECT EXISTS (SELECT FROM howdah.live)",
        setup=setup,
        enqueue=enqueue,
        bulk=bulk,
        pickup_sender=pickup_sender,
        work=functools.partial(work, options=options),
    )


if __name__ == "__main__":
    main(adapter("howdah", "as it comes (50 slots, 10 threads)"))
