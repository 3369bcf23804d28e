"""absurd: durable tasks of SQL functions; a client has one connection, on which its worker claims and completes."""

# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import asyncio
import signal

import psycopg
from absurd_sdk import Absurd, AsyncAbsurd
from absurdctl import BUNDLED_SCHEMA_SQL

from benchmarks.peers.adapters import _protocol as protocol

CONCURRENCY = 1000
THREADS = 10
POLL_EVERY = 0.05  # seconds


def setup() -> None:
    with psycopg.connect(protocol.URL) as connection:
        connection.execute(BUNDLED_SCHEMA_SQL)
    client = Absurd(protocol.URL)
    client.create_queue()
    client.close()


def enqueue(count: int, producers: int) -> float:
    free = [Absurd(protocol.URL) for _ in range(producers)]

    def spawn(payload: protocol.Payload) -> None:
        client = free.pop()
        client.spawn("noop", payload, queue="default")
        free.append(client)

    return protocol.timed_threads(count, producers, spawn)


def pickup_sender(count: int, pause: float) -> None:
    client = Absurd(protocol.URL)
    for payload in protocol.paced(count, pause):
        client.spawn("noop", payload, queue="default")


async def work(handler: str, tally: protocol.Tally) -> None:
    if handler == "batch":
        raise protocol.Unsupported("it has no batch handlers")
    client = Absurd(protocol.URL) if handler == "sync" else AsyncAbsurd(protocol.URL)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, client.stop_worker)
    if isinstance(client, Absurd):

        @client.register_task("noop")
        def noop_in_thread(params: protocol.Payload, _context: object) -> None:
            tally.one_of_threads(params["sent"])

        tally.ready()
        await asyncio.to_thread(client.start_worker, concurrency=THREADS, poll_interval=POLL_EVERY)
    else:

        @client.register_task("noop")
        async def noop(params: protocol.Payload, _context: object) -> None:
            tally.one(params["sent"])

        tally.ready()
        await client.start_worker(concurrency=CONCURRENCY, poll_interval=POLL_EVERY)
        await client.close()


if __name__ == "__main__":
    protocol.main(
        protocol.Adapter(
            name="absurd",
            package="absurd-sdk",
            settings=f"concurrency {CONCURRENCY} ({THREADS} threads), polls each {POLL_EVERY * 1000:.0f} ms",
            keeps_history=True,
            durable="PostgreSQL, synchronous_commit on",
            remaining="SELECT EXISTS (SELECT FROM absurd.t_default WHERE state IN ('pending', 'sleeping', 'running'))",
            setup=setup,
            enqueue=enqueue,
            bulk=None,
            pickup_sender=pickup_sender,
            work=work,
        )
    )
