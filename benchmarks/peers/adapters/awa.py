"""awa: its core is in Rust, and calls Python handlers; jobs go into its append-only queue storage."""

# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import time
from dataclasses import dataclass

from awa import AsyncClient

from benchmarks.peers.adapters import _protocol as protocol

WORKERS = 1024
CONNECTIONS = 24
CHUNK = 10_000


@dataclass
class Noop:
    sent: float


async def setup() -> None:
    client = AsyncClient(protocol.URL)
    await client.migrate()
    await client.install_queue_storage()
    await client.close()


async def enqueue(count: int, producers: int) -> float:
    client = AsyncClient(protocol.URL, max_connections=producers)
    return await protocol.timed_tasks(count, producers, lambda payload: client.insert(Noop(**payload)))


async def bulk(count: int) -> float:
    client = AsyncClient(protocol.URL)
    jobs = [Noop(**payload) for payload in protocol.payloads(count)]
    started = time.monotonic()
    for start in range(0, count, CHUNK):
        await client.enqueue_many_copy(jobs[start : start + CHUNK])
    return time.monotonic() - started


async def pickup_sender(count: int, pause: float) -> None:
    client = AsyncClient(protocol.URL)
    async for payload in protocol.apaced(count, pause):
        await client.insert(Noop(**payload))


async def work(handler: str, tally: protocol.Tally) -> None:
    if handler == "sync":
        raise protocol.Unsupported("its handlers are coroutines")
    if handler == "batch":
        raise protocol.Unsupported("it has no batch handlers")
    client = AsyncClient(protocol.URL, max_connections=CONNECTIONS)
    stop = protocol.stop_event()

    @client.task(Noop)
    async def noop(job: object) -> None:
        tally.one(job.args.sent)  # type: ignore[attr-defined]

    await client.start([{"name": "default", "max_workers": WORKERS}])
    tally.ready()
    await stop.wait()
    await client.shutdown()
    await client.close()


if __name__ == "__main__":
    protocol.main(
        protocol.Adapter(
            name="awa",
            package="awa-pg",
            settings=f"{WORKERS} workers, {CONNECTIONS} connections; bulk by COPY of {CHUNK:,};"
            " drops completed jobs after some seconds",
            keeps_history=False,
            durable="PostgreSQL, synchronous_commit on",
            # Its view of all jobs takes seconds; what was added and what was completed is in these two ledgers.
            remaining="SELECT (SELECT coalesce(sum(next_lane_seq - first_lane_seq), 0) FROM awa.ready_segments)"
            " > (SELECT coalesce(sum(completed_count), 0) FROM awa.receipt_completion_batches)",
            setup=setup,
            enqueue=enqueue,
            bulk=bulk,
            pickup_sender=pickup_sender,
            work=work,
        )
    )
