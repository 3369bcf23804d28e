"""Dramatiq on Redis: its handlers are plain functions in threads."""

# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import os
import signal
import threading

THREADS = 8
PREFETCH = 1000
IDLE_POLL = 10  # milliseconds

os.environ["dramatiq_queue_prefetch"] = str(PREFETCH)  # noqa: SIM112 — so it is spelled

import dramatiq  # noqa: E402 — reads its environment when imported
from dramatiq.brokers.redis import RedisBroker  # noqa: E402

from benchmarks.peers.adapters import _protocol as protocol  # noqa: E402

broker = RedisBroker(url=protocol.URL)


def setup() -> None:
    """It needs nothing but Redis."""


def send(payload: protocol.Payload) -> None:
    message = dramatiq.Message(queue_name="default", actor_name="noop", args=(), kwargs=payload, options={})
    broker.enqueue(message)


def enqueue(count: int, producers: int) -> float:
    broker.declare_queue("default")
    return protocol.timed_threads(count, producers, send)


def pickup_sender(count: int, pause: float) -> None:
    broker.declare_queue("default")
    for payload in protocol.paced(count, pause):
        send(payload)


def work(handler: str, tally: protocol.Tally) -> None:
    if handler == "batch":
        raise protocol.Unsupported("it has no batch handlers")

    @dramatiq.actor(broker=broker, actor_name="noop")
    def noop(sent: float) -> None:
        tally.one_of_threads(sent)

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    worker = dramatiq.Worker(broker, worker_threads=THREADS, worker_timeout=IDLE_POLL)
    worker.start()
    tally.ready()
    stop.wait()
    worker.stop()


if __name__ == "__main__":
    protocol.main(
        protocol.Adapter(
            name="dramatiq",
            package="dramatiq",
            settings=f"{THREADS} threads, prefetch {PREFETCH}, idle poll within {IDLE_POLL} ms",
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
