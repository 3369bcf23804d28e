"""chancy: jobs are claimed in batches as large as the queue's concurrency, and completions are written in batches."""

# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import logging
import time
from typing import Any

from chancy import Chancy, Job, Queue, Worker
from chancy.plugins.leadership import Leadership
from chancy.plugins.pruner import Pruner
from chancy.plugins.recovery import Recovery

from benchmarks.peers.adapters import _protocol as protocol

CONCURRENCY = 1000
THREADS = 50
CONNECTIONS = 5
FLUSH_EVERY = 0.02  # seconds


def connected(connections: int) -> Chancy:
    log = logging.getLogger("quiet")  # its own logger prints a line for each job
    log.setLevel(logging.WARNING)
    pool = {"min_connection_pool_size": connections, "max_connection_pool_size": connections}
    return Chancy(protocol.URL, plugins=[Leadership(), Pruner(), Recovery()], no_default_plugins=True, log=log, **pool)


def job(payload: protocol.Payload) -> Job:
    return Job(func="__main__.noop", kwargs=payload)


async def setup() -> None:
    async with connected(1) as chancy:
        await chancy.migrate()


def enqueue(count: int, producers: int) -> Any:
    return enqueue_in_turn(count) if producers == 1 else enqueue_side_by_side(count, producers)


def enqueue_in_turn(count: int) -> float:
    """One that blocks is the quicker one for a single producer."""
    with connected(1) as chancy:
        chancy.sync_pool.wait()
        return protocol.timed_threads(count, 1, lambda payload: chancy.sync_push(job(payload)))


async def enqueue_side_by_side(count: int, producers: int) -> float:
    async with connected(producers) as chancy:
        await chancy.pool.wait()
        return await protocol.timed_tasks(count, producers, lambda payload: chancy.push(job(payload)))


async def bulk(count: int) -> float:
    async with connected(1) as chancy:
        await chancy.pool.wait()
        jobs = [job(payload) for payload in protocol.payloads(count)]
        started = time.monotonic()
        async for _ in chancy.push_many(jobs):
            pass
        return time.monotonic() - started


def pickup_sender(count: int, pause: float) -> None:
    with connected(1) as chancy:
        for payload in protocol.paced(count, pause):
            chancy.sync_push(job(payload))


async def work(handler: str, tally: protocol.Tally) -> None:
    async def noop(sent: float) -> None:
        tally.one(sent)

    def noop_in_thread(sent: float) -> None:
        tally.one_of_threads(sent)

    if handler == "batch":
        raise protocol.Unsupported("it has no batch handlers")
    # Jobs name their function by its path; the queue sets how it runs.
    globals()["noop"] = noop if handler == "async" else noop_in_thread
    executor = Chancy.Executor.Async if handler == "async" else Chancy.Executor.Threaded
    concurrency = CONCURRENCY if handler == "async" else THREADS
    queue = Queue("default", executor=executor, concurrency=concurrency, eager_polling=True)
    async with connected(CONNECTIONS) as chancy:
        await chancy.declare(queue, upsert=True)
        worker = Worker(chancy)
        worker.send_outgoing_interval = FLUSH_EVERY
        async with worker:
            tally.ready()
            await worker.wait_for_shutdown()


if __name__ == "__main__":
    protocol.main(
        protocol.Adapter(
            name="chancy",
            package="chancy",
            settings=f"async executor, concurrency {CONCURRENCY} ({THREADS} threads), eager polling, completions written"
            f" each {FLUSH_EVERY * 1000:.0f} ms, without the metrics and workflow plugins",
            keeps_history=True,
            durable="PostgreSQL, synchronous_commit on; completions may be lost",
            remaining="SELECT EXISTS (SELECT FROM chancy_jobs WHERE state IN ('pending', 'retrying', 'running'))",
            setup=setup,
            enqueue=enqueue,
            bulk=bulk,
            pickup_sender=pickup_sender,
            work=work,
        )
    )
