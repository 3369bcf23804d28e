"""streaQ: on Redis streams, by coredis."""

# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import logging
import time

from streaq import Worker
from streaq.task import AsyncRegisteredTask

from benchmarks.peers.adapters import _protocol as protocol

CONCURRENCY = 100
CHUNK = 1000


def setup() -> None:
    """It needs nothing but Redis."""


def client() -> tuple[Worker[None], AsyncRegisteredTask[[float], None]]:
    worker = Worker(redis_url=protocol.URL)

    @worker.task(name="noop")
    async def noop(sent: float) -> None: ...

    return worker, noop


async def enqueue(count: int, producers: int) -> float:
    worker, noop = client()

    async def send(payload: protocol.Payload) -> None:
        await noop.enqueue(**payload)

    async with worker:
        return await protocol.timed_tasks(count, producers, send)


async def bulk(count: int) -> float:
    worker, noop = client()
    jobs = [noop.enqueue(**payload) for payload in protocol.payloads(count)]
    async with worker:
        started = time.monotonic()
        for start in range(0, count, CHUNK):
            await worker.enqueue_many(jobs[start : start + CHUNK])
        return time.monotonic() - started


async def pickup_sender(count: int, pause: float) -> None:
    worker, noop = client()
    async with worker:
        async for payload in protocol.apaced(count, pause):
            await noop.enqueue(**payload)


async def work(handler: str, tally: protocol.Tally) -> None:
    logging.getLogger("streaq").setLevel(logging.WARNING)
    worker = Worker(redis_url=protocol.URL, concurrency=CONCURRENCY)
    if handler == "async":

        @worker.task(name="noop", silent=True, ttl=0)
        async def noop(sent: float) -> None:
            tally.one(sent)

    elif handler == "sync":

        @worker.task(name="noop", silent=True, ttl=0)
        def noop_in_thread(sent: float) -> None:
            tally.one_of_threads(sent)

    else:
        raise protocol.Unsupported("it has no batch handlers")
    tally.ready()
    await worker.run_async()


if __name__ == "__main__":
    protocol.main(
        protocol.Adapter(
            name="streaq",
            package="streaq",
            settings=f"concurrency {CONCURRENCY}, uvloop, no logs; bulk in batches of {CHUNK}; no results kept",
            keeps_history=False,
            durable="Redis snapshots",
            remaining=None,
            setup=setup,
            enqueue=enqueue,
            bulk=bulk,
            pickup_sender=pickup_sender,
            work=work,
        )
    )
