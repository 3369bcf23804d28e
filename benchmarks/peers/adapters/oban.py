"""oban for Python: jobs are claimed in batches as large as the queue's limit; each completion is a statement."""

# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import time

from oban import Oban, worker
from oban.job import Job
from oban.schema import install
from psycopg_pool import AsyncConnectionPool

from benchmarks.peers.adapters import _protocol as protocol

LIMIT = 1000
CONNECTIONS = 5
CHUNK = 1000


def pool(connections: int) -> AsyncConnectionPool:
    """In autocommit: Oban opens a transaction where it needs one."""
    return AsyncConnectionPool(
        protocol.URL, min_size=connections, max_size=connections, kwargs={"autocommit": True}, open=False
    )


def job(payload: protocol.Payload) -> Job:
    return Job("__main__.Noop", args=payload)


async def setup() -> None:
    async with pool(1) as connections:
        await install(connections)


async def enqueue(count: int, producers: int) -> float:
    async with pool(producers) as connections, Oban(pool=connections) as oban:
        await connections.wait()
        return await protocol.timed_tasks(count, producers, lambda payload: oban.enqueue(job(payload)))


async def bulk(count: int) -> float:
    async with pool(2) as connections, Oban(pool=connections) as oban, connections.connection() as connection:
        jobs = [job(payload) for payload in protocol.payloads(count)]
        started = time.monotonic()
        for start in range(0, count, CHUNK):
            async with connection.transaction():
                await oban.enqueue_many(jobs[start : start + CHUNK], conn=connection)
        return time.monotonic() - started


async def pickup_sender(count: int, pause: float) -> None:
    async with pool(1) as connections, Oban(pool=connections) as oban:
        async for payload in protocol.apaced(count, pause):
            await oban.enqueue(job(payload))


async def work(handler: str, tally: protocol.Tally) -> None:
    if handler == "sync":
        raise protocol.Unsupported("it runs plain functions on its event loop, not in threads")
    if handler == "batch":
        raise protocol.Unsupported("batches are in its paid edition")

    class Noop:
        async def process(self, job: Job) -> None:
            tally.one(job.args["sent"])

    Noop.__qualname__ = "Noop"  # a job names its class by path
    worker()(Noop)
    stop = protocol.stop_event()
    async with pool(CONNECTIONS) as connections, Oban(pool=connections, queues={"default": LIMIT}):
        tally.ready()
        await stop.wait()


if __name__ == "__main__":
    protocol.main(
        protocol.Adapter(
            name="oban",
            package="oban",
            settings=f"limit {LIMIT}, {CONNECTIONS} connections, autocommit; bulk in transactions of {CHUNK}",
            keeps_history=True,
            durable="PostgreSQL, synchronous_commit on",
            remaining="SELECT EXISTS (SELECT FROM oban_jobs WHERE state IN ('available', 'executing', 'retryable'))",
            setup=setup,
            enqueue=enqueue,
            bulk=bulk,
            pickup_sender=pickup_sender,
            work=work,
        )
    )
