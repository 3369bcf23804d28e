"""PgQueuer as its page about tuning advises for short jobs: a pool of asyncpg, large batches; all tables logged."""

# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator"

from __future__ import annotations

import asyncio
import json
import time

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from benchmarks.peers.adapters._protocol import (
    URL,
    Adapter,
    Payload,
    Tally,
    Unsupported,
    apaced,
    main,
    payloads,
    stop_event,
    timed_tasks,
)

BATCH_SIZE = 1000
POOL = (5, 20)
BULK = 10_000


async def connected() -> Queries:
    return Queries(AsyncpgDriver(await asyncpg.connect(URL)))


def encoded(payload: Payload) -> bytes:
    return json.dumps(payload).encode()


async def setup() -> None:
    await (await connected()).install()


async def enqueue(count: int, producers: int) -> float:
    async with asyncpg.create_pool(URL, min_size=producers, max_size=producers) as pool:
        queries = Queries(AsyncpgPoolDriver(pool))
        return await timed_tasks(count, producers, lambda payload: queries.enqueue("noop", encoded(payload)))


async def bulk(count: int) -> float:
    queries = await connected()
    started = time.monotonic()
    for offset in range(0, count, BULK):
        size = min(BULK, count - offset)
        await queries.enqueue(["noop"] * size, [encoded(payload) for payload in payloads(size)], [0] * size)
    return time.monotonic() - started


async def pickup_sender(count: int, pause: float) -> None:
    queries = await connected()
    async for payload in apaced(count, pause):
        await queries.enqueue("noop", encoded(payload))


async def work(handler: str, tally: Tally) -> None:
    pool = await asyncpg.create_pool(URL, min_size=POOL[0], max_size=POOL[1])
    queuer = PgQueuer(AsyncpgPoolDriver(pool))
    if handler == "async":

        @queuer.entrypoint("noop")
        async def noop(job: Job) -> None:
            tally.one(json.loads(job.payload)["sent"])

    elif handler == "sync":
        # It takes no plain functions; to_thread is what its own error message advises.
        @queuer.entrypoint("noop")
        async def in_thread(job: Job) -> None:
            await asyncio.to_thread(tally.one_of_threads, json.loads(job.payload)["sent"])

    else:
        raise Unsupported("a handler has one job")

    stop = stop_event()
    running = asyncio.create_task(queuer.run(batch_size=BATCH_SIZE))
    tally.ready()
    await stop.wait()
    queuer.shutdown.set()
    await running
    await pool.close()


if __name__ == "__main__":
    main(
        Adapter(
            name="pgqueuer",
            package="pgqueuer",
            settings=f"asyncpg pool of {POOL[1]}, uvloop, batch_size {BATCH_SIZE}",
            keeps_history=True,
            durable="PostgreSQL, synchronous_commit on",
            remaining="SELECT EXISTS (SELECT FROM pgqueuer)",
            setup=setup,
            enqueue=enqueue,
            bulk=bulk,
            pickup_sender=pickup_sender,
            work=work,
        )
    )
