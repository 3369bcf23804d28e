"""procrastinate: each job is fetched and finished by statements of its own; more connections than these cost it more."""

# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import asyncio
import time
from typing import Any

import psycopg
from procrastinate import App, PsycopgConnector, SyncPsycopgConnector

from benchmarks.peers.adapters import _protocol as protocol

CONCURRENCY = 20
CONNECTIONS = 3
CHUNK = 1000


async def autocommit(connection: psycopg.AsyncConnection) -> None:
    """Each call is a single statement: no need to frame it by BEGIN and COMMIT, which are round trips."""
    await connection.set_autocommit(True)


def connected(connections: int) -> App:
    pool = {"min_size": connections, "max_size": connections, "configure": autocommit}
    return App(connector=PsycopgConnector(conninfo=protocol.URL, **pool))


async def setup() -> None:
    async with connected(1).open_async() as app:
        await app.schema_manager.apply_schema_async()


def connected_blocking() -> App:
    """One that blocks is the quicker one for a single producer."""

    def configure(connection: psycopg.Connection) -> None:
        connection.autocommit = True

    return App(connector=SyncPsycopgConnector(conninfo=protocol.URL, min_size=1, max_size=1, configure=configure))


def enqueue(count: int, producers: int) -> Any:
    return enqueue_in_turn(count) if producers == 1 else enqueue_side_by_side(count, producers)


def enqueue_in_turn(count: int) -> float:
    with connected_blocking().open() as app:
        noop = app.configure_task("noop")
        return protocol.timed_threads(count, 1, lambda payload: noop.defer(**payload))


async def enqueue_side_by_side(count: int, producers: int) -> float:
    async with connected(producers).open_async() as app:
        noop = app.configure_task("noop")
        return await protocol.timed_tasks(count, producers, lambda payload: noop.defer_async(**payload))


async def bulk(count: int) -> float:
    async with connected(1).open_async() as app:
        noop, jobs = app.configure_task("noop"), list(protocol.payloads(count))
        started = time.monotonic()
        for start in range(0, count, CHUNK):
            await noop.batch_defer_async(*jobs[start : start + CHUNK])
        return time.monotonic() - started


def pickup_sender(count: int, pause: float) -> None:
    with connected_blocking().open() as app:
        noop = app.configure_task("noop")
        for payload in protocol.paced(count, pause):
            noop.defer(**payload)


async def work(handler: str, tally: protocol.Tally) -> None:
    app = connected(CONNECTIONS)
    if handler == "async":

        @app.task(name="noop")
        async def noop(sent: float) -> None:
            tally.one(sent)

    elif handler == "sync":

        @app.task(name="noop")
        def noop_in_thread(sent: float) -> None:
            tally.one_of_threads(sent)

    else:
        raise protocol.Unsupported("it has no batch handlers")
    async with app.open_async():
        worker = asyncio.create_task(app.run_worker_async(concurrency=CONCURRENCY))
        tally.ready()
        await worker


if __name__ == "__main__":
    protocol.main(
        protocol.Adapter(
            name="procrastinate",
            package="procrastinate",
            settings=f"concurrency {CONCURRENCY}, {CONNECTIONS} connections, autocommit; bulk in batches of {CHUNK}",
            keeps_history=True,
            durable="PostgreSQL, synchronous_commit on",
            remaining="SELECT EXISTS (SELECT FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))",
            setup=setup,
            enqueue=enqueue,
            bulk=bulk,
            pickup_sender=pickup_sender,
            work=work,
        )
    )
