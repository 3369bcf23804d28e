"""arq on Redis: a worker that polls."""

# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from arq import create_pool, func
from arq.connections import RedisSettings
from arq.worker import Worker

from benchmarks.peers.adapters import _protocol as protocol

JOBS = 100
POLL_EVERY = 0.01  # seconds


def setup() -> None:
    """It needs nothing but Redis."""


async def enqueue(count: int, producers: int) -> float:
    redis = await create_pool(RedisSettings.from_dsn(protocol.URL))
    return await protocol.timed_tasks(count, producers, lambda payload: redis.enqueue_job("noop", **payload))


async def pickup_sender(count: int, pause: float) -> None:
    redis = await create_pool(RedisSettings.from_dsn(protocol.URL))
    async for payload in protocol.apaced(count, pause):
        await redis.enqueue_job("noop", **payload)


async def work(handler: str, tally: protocol.Tally) -> None:
    if handler == "sync":
        raise protocol.Unsupported("its handlers are coroutines")
    if handler == "batch":
        raise protocol.Unsupported("it has no batch handlers")
    logging.getLogger("arq").setLevel(logging.WARNING)

    async def noop(_context: dict[Any, Any], sent: float) -> None:
        tally.one(sent)

    settings = RedisSettings.from_dsn(protocol.URL)
    registered = func(noop, name="noop", keep_result=0)
    worker = Worker([registered], redis_settings=settings, max_jobs=JOBS, poll_delay=POLL_EVERY)
    tally.ready()
    with contextlib.suppress(asyncio.CancelledError):  # which is how it ends at SIGTERM
        await worker.async_run()
    await worker.close()


if __name__ == "__main__":
    protocol.main(
        protocol.Adapter(
            name="arq",
            package="arq",
            settings=f"{JOBS} jobs at once, polls each {POLL_EVERY * 1000:.0f} ms, uvloop; no results kept",
            keeps_history=False,
            durable="Redis snapshots",
            remaining=None,
            setup=setup,
            enqueue=enqueue,
            bulk=None,
            pickup_sender=pickup_sender,
            work=work,
        )
    )
