"""RQ on Redis: the worker that does not fork, which its notes on performance advise for jobs of milliseconds."""

# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import time

from redis import Redis
from rq import Queue, SimpleWorker

from benchmarks.peers.adapters import _protocol as protocol

CHUNK = 1000
tally = protocol.Tally()


def noop(sent: float) -> None:
    tally.one(sent)


def queue() -> Queue:
    return Queue(connection=Redis.from_url(protocol.URL))


def setup() -> None:
    """It needs nothing but Redis."""


def enqueue(count: int, producers: int) -> float:
    jobs = queue()
    return protocol.timed_threads(count, producers, lambda payload: send(jobs, payload))


def send(jobs: Queue, payload: protocol.Payload) -> None:
    jobs.enqueue("__main__.noop", kwargs=payload, result_ttl=0)


def bulk(count: int) -> float:
    jobs = queue()
    prepared = [
        Queue.prepare_data("__main__.noop", kwargs=payload, result_ttl=0) for payload in protocol.payloads(count)
    ]
    started = time.monotonic()
    for start in range(0, count, CHUNK):
        jobs.enqueue_many(prepared[start : start + CHUNK])
    return time.monotonic() - started


def pickup_sender(count: int, pause: float) -> None:
    jobs = queue()
    for payload in protocol.paced(count, pause):
        send(jobs, payload)


def work(handler: str, given: protocol.Tally) -> None:
    if handler == "batch":
        raise protocol.Unsupported("it has no batch handlers")
    global tally
    tally = given
    worker = SimpleWorker([queue()], connection=Redis.from_url(protocol.URL))
    tally.ready()
    worker.work(logging_level="WARNING")


if __name__ == "__main__":
    protocol.main(
        protocol.Adapter(
            name="rq",
            package="rq",
            settings=f"SimpleWorker (no fork); bulk in batches of {CHUNK}; no results kept",
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
