"""Celery on Redis: the solo pool, which is the fastest for one process and handlers that take no time."""

# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

from celery import Celery
from celery.signals import worker_ready

from benchmarks.peers.adapters import _protocol as protocol

PREFETCH = 128
THREADS = 8

app = Celery("bench", broker=protocol.URL)
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=PREFETCH,
    worker_enable_remote_control=False,
    worker_redirect_stdouts=False,
    broker_pool_limit=16,
)


def setup() -> None:
    """It needs nothing but Redis."""


def send(payload: protocol.Payload) -> None:
    app.send_task("noop", kwargs=payload)


def enqueue(count: int, producers: int) -> float:
    send({"sent": 0.0})
    app.control.purge()  # connected by now
    return protocol.timed_threads(count, producers, send)


def pickup_sender(count: int, pause: float) -> None:
    for payload in protocol.paced(count, pause):
        send(payload)


def work(handler: str, tally: protocol.Tally) -> None:
    if handler == "batch":
        raise protocol.Unsupported("batches are in a package of others")

    @app.task(name="noop")
    def noop(sent: float) -> None:
        tally.one_of_threads(sent) if handler == "sync" else tally.one(sent)

    worker_ready.connect(lambda **_: tally.ready(), weak=False)
    pool = {"pool": "threads", "concurrency": THREADS} if handler == "sync" else {"pool": "solo"}
    quiet = {"without_gossip": True, "without_mingle": True, "without_heartbeat": True, "loglevel": "ERROR"}
    app.Worker(quiet=True, **pool, **quiet).start()


if __name__ == "__main__":
    protocol.main(
        protocol.Adapter(
            name="celery",
            package="celery",
            settings=f"solo pool ({THREADS} threads), prefetch × {PREFETCH}, results ignored, no gossip, mingle, heartbeat",
            keeps_history=False,
            durable="Redis snapshots; acknowledged before it runs",
            remaining=None,
            setup=setup,
            enqueue=enqueue,
            bulk=None,
            pickup_sender=pickup_sender,
            work=work,
        )
    )
