"""WakaQ: Redis lists; a job is taken out before it runs. A worker is a parent and, here, one child."""

# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import logging
import os
import signal
import sys
from urllib.parse import urlsplit

from wakaq import WakaQ
from wakaq.worker import Worker

from benchmarks.peers.adapters import _protocol as protocol

ADDRESS = urlsplit(protocol.URL)


def setup() -> None:
    """It needs nothing but Redis."""


def connected() -> WakaQ:
    return WakaQ(
        queues=["default"],
        host=ADDRESS.hostname,
        port=ADDRESS.port,
        concurrency=1,
        worker_log_level=logging.WARNING,
    )


def enqueue(count: int, producers: int) -> float:
    wakaq = connected()

    @wakaq.task
    def noop(sent: float) -> None: ...

    return protocol.timed_threads(count, producers, lambda payload: noop.delay(**payload))


def pickup_sender(count: int, pause: float) -> None:
    wakaq = connected()

    @wakaq.task
    def noop(sent: float) -> None: ...

    for payload in protocol.paced(count, pause):
        noop.delay(**payload)


def work(handler: str, tally: protocol.Tally) -> None:
    if handler == "sync":
        raise protocol.Unsupported("it has processes, not threads")
    if handler == "batch":
        raise protocol.Unsupported("it has no batch handlers")
    wakaq, parent, output = connected(), os.getpid(), os.dup(1)

    @wakaq.task
    async def noop(sent: float) -> None:
        tally.one(sent)

    @wakaq.after_worker_started
    def speak_for_itself() -> None:
        # A child's output goes through its parent, which reads it once a second.
        os.dup2(output, 1)
        signal.signal(signal.SIGTERM, end)
        tally.ready()

    def end(*_: object) -> None:
        # A child that ends by itself (there may be several, one after the other) has closed its output before.
        sys.stdout = os.fdopen(output, "w")
        tally.say_summary()
        os._exit(0)

    Worker(wakaq).start()
    if os.getpid() != parent:
        end()


if __name__ == "__main__":
    protocol.main(
        protocol.Adapter(
            name="wakaq",
            package="wakaq",
            settings="one child process",
            keeps_history=False,
            durable="Redis snapshots; a job is taken out before it runs, and may be lost",
            remaining=None,
            setup=setup,
            enqueue=enqueue,
            bulk=None,
            pickup_sender=pickup_sender,
            work=work,
        )
    )
