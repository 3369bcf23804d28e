"""DBOS: durable workflows; a queue's thread claims as many as may run, and each is completed by a transaction."""

# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import os

from dbos import DBOS, DBOSClient, DBOSConfig

from benchmarks.peers.adapters import _protocol as protocol

CONCURRENCY = 1000
CONNECTIONS = 10
POLL_EVERY = 0.02  # seconds


def config() -> DBOSConfig:
    return {
        "name": "bench",
        "system_database_url": protocol.URL,
        "sys_db_pool_size": CONNECTIONS,
        "application_version": "1",
        "executor_id": str(os.getpid()),
        "log_level": "WARNING",
    }


def connected(connections: int) -> DBOSClient:
    return DBOSClient(system_database_url=protocol.URL, system_database_pool_size=connections, application_name="bench")


def send(client: DBOSClient, payload: protocol.Payload) -> None:
    client.enqueue({"workflow_name": "noop", "queue_name": "bench"}, payload["sent"])


def setup() -> None:
    DBOS(config=config())
    DBOS.launch()
    DBOS.register_queue("bench", worker_concurrency=CONCURRENCY, polling_interval_sec=POLL_EVERY)
    DBOS.destroy()


def enqueue(count: int, producers: int) -> float:
    client = connected(producers)
    return protocol.timed_threads(count, producers, lambda payload: send(client, payload))


def pickup_sender(count: int, pause: float) -> None:
    client = connected(1)
    for payload in protocol.paced(count, pause):
        send(client, payload)


async def work(handler: str, tally: protocol.Tally) -> None:
    DBOS(config=config())
    if handler == "async":

        @DBOS.workflow(name="noop")
        async def noop(sent: float) -> None:
            tally.one(sent)

    elif handler == "sync":

        @DBOS.workflow(name="noop")
        def noop_in_thread(sent: float) -> None:
            tally.one_of_threads(sent)

    else:
        raise protocol.Unsupported("it has no batch handlers")
    stop = protocol.stop_event()
    DBOS.launch()
    tally.ready()
    await stop.wait()
    DBOS.destroy()


if __name__ == "__main__":
    protocol.main(
        protocol.Adapter(
            name="dbos",
            package="dbos",
            settings=f"worker concurrency {CONCURRENCY}, {CONNECTIONS} connections, polls each {POLL_EVERY * 1000:.0f} ms",
            keeps_history=True,
            durable="PostgreSQL, synchronous_commit on",
            remaining="SELECT EXISTS (SELECT FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING'))",
            setup=setup,
            enqueue=enqueue,
            bulk=None,
            pickup_sender=pickup_sender,
            work=work,
        )
    )
