"""taskiq on Redis streams: its stream broker is the one that acknowledges."""

# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

from taskiq.receiver import Receiver
from taskiq_redis import RedisStreamBroker

from benchmarks.peers.adapters import _protocol as protocol

TASKS = 500
THREADS = 8
PREFETCH = 500


def setup() -> None:
    """It needs nothing but Redis."""


def stream() -> RedisStreamBroker:
    return RedisStreamBroker(protocol.URL, consumer_id="0", xread_count=PREFETCH)


async def enqueue(count: int, producers: int) -> float:
    broker = stream()
    noop = broker.register_task(lambda: None, task_name="noop")
    await broker.startup()
    return await protocol.timed_tasks(count, producers, lambda payload: noop.kiq(**payload))


async def pickup_sender(count: int, pause: float) -> None:
    broker = stream()
    noop = broker.register_task(lambda: None, task_name="noop")
    await broker.startup()
    async for payload in protocol.apaced(count, pause):
        await noop.kiq(**payload)


async def work(handler: str, tally: protocol.Tally) -> None:
    logging.getLogger("taskiq").setLevel(logging.WARNING)
    broker = stream()
    broker.is_worker_process = True

    async def noop(sent: float) -> None:
        tally.one(sent)

    def noop_in_thread(sent: float) -> None:
        tally.one_of_threads(sent)

    if handler == "batch":
        raise protocol.Unsupported("it has no batch handlers")
    broker.register_task(noop if handler == "async" else noop_in_thread, task_name="noop")
    stop = protocol.stop_event()
    with ThreadPoolExecutor(THREADS) as threads:
        receiver = Receiver(
            broker, executor=threads, validate_params=False, max_async_tasks=TASKS, max_prefetch=PREFETCH
        )
        tally.ready()
        await receiver.listen(stop)
    await broker.shutdown()


if __name__ == "__main__":
    protocol.main(
        protocol.Adapter(
            name="taskiq",
            package="taskiq",
            settings=f"RedisStreamBroker, {TASKS} tasks ({THREADS} threads), prefetch {PREFETCH}, parameters not parsed, uvloop;"
            " its stream is never trimmed",
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
