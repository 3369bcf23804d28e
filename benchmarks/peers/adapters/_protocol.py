"""What every adapter speaks; standard library only, because it runs in the environment of each peer.

The runner starts `python -m benchmarks.peers.adapters.NAME COMMAND …` in the repository's folder (so an adapter may have
the name of the library that it imports), with the address of a fresh database, or an empty Redis, in BENCH_URL.
The last line on stdout is one JSON object.

    setup                             installs the schema
    facts                             {"name", "version", "language", "interpreter", "settings", "keeps_history", "durable"}
    remaining                         {"sql": "SELECT EXISTS (…)"}: is any job unfinished?
    enqueue --count N --producers P   {"jobs", "seconds"}: one by one, by P producers at once
    bulk --count N                    {"jobs", "seconds"}: by the best bulk call that there is
    pickup-sender --count N --pause S {"jobs"}: one each S seconds
    work --handler async|sync|batch   a worker, until SIGTERM

With BENCH_GATE=1 `work` first loads everything, prints LOADED and waits for a line on stdin, so that several workers start
together. A worker prints READY when it polls, then `HANDLED count process` while the count grows, and at its end {"handled", "first",
"last"} and, with BENCH_LATENCY=1, "latencies" in seconds. A worker of several processes may print these from each of
them: the runner adds up. What a peer does not have it answers with {"unsupported": "why"}.

An adapter in Python fills in an `Adapter` and calls `main`. Its functions may be plain or async; async ones run on
uvloop where the environment has it. Times are of CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import os
import platform
import random
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

URL = os.environ.get("BENCH_URL", "")
REPORT_EVERY = 0.02  # seconds

Payload = dict[str, float]


class Unsupported(Exception):
    """The peer has no such thing."""


@dataclass(frozen=True)
class Adapter:
    name: str
    package: str
    """The distribution whose version is reported."""
    settings: str
    """What was tuned, in a few words, for the table."""
    keeps_history: bool
    durable: str
    remaining: str | None
    """`SELECT EXISTS (…)`, cheap, and true while any job is unfinished; None on Redis."""
    setup: Callable[[], Awaitable[None] | None]
    enqueue: Callable[[int, int], Awaitable[float] | float]
    """Enqueue so many by so many producers; returns the seconds it took, without connecting."""
    bulk: Callable[[int], Awaitable[float] | float] | None
    pickup_sender: Callable[[int, float], Awaitable[None] | None]
    """Enqueue each payload of `paced(count, pause)`, or of `apaced`."""
    work: Callable[[str, Tally], Awaitable[None] | None]
    """Run a worker for "async", "sync" or "batch" handlers until SIGTERM, or raise Unsupported."""


class Tally:
    """What a worker has handled, and when. Handlers call `one` (or `many`); the worker calls `ready` when it polls."""

    def __init__(self) -> None:
        self.handled = 0
        self.first: float | None = None
        self.last: float | None = None
        self.latencies: list[float] | None = [] if os.environ.get("BENCH_LATENCY") == "1" else None
        self._lock = threading.Lock()

    def one(self, sent: float) -> None:
        """A job is handled, on the event loop or in the only thread."""
        self.last = now = time.monotonic()
        if self.first is None:
            self.first = now
        self.handled += 1
        if self.latencies is not None:
            self.latencies.append(now - sent)

    def one_of_threads(self, sent: float) -> None:
        """The same where handlers run in several threads."""
        with self._lock:
            self.one(sent)

    def many(self, count: int) -> None:
        """A batch is handled."""
        self.last = time.monotonic()
        if self.first is None:
            self.first = self.last
        self.handled += count

    def ready(self) -> None:
        """Print that the worker polls, and report from now on. A forked child that handles jobs calls `report` itself."""
        say("READY")
        self.report()

    def report(self) -> None:
        threading.Thread(target=self._report, daemon=True).start()

    def say_summary(self) -> None:
        summary = {"handled": self.handled, "first": self.first, "last": self.last}
        say(json.dumps(summary if self.latencies is None else summary | {"latencies": self.latencies}))

    def _report(self) -> None:
        said = 0
        while True:
            time.sleep(REPORT_EVERY)
            if self.handled != said:
                said = self.handled
                say(f"HANDLED {said} {os.getpid()}")


def say(line: str) -> None:
    """Print a line at once: one write, so that lines of several processes do not mix."""
    sys.stdout.flush()
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


def payloads(count: int) -> Iterator[Payload]:
    return ({"sent": time.monotonic()} for _ in range(count))


def paced(count: int, pause: float) -> Iterator[Payload]:
    """A payload each `pause` seconds, ± 20 %, so that no poller's rhythm is met by accident."""
    for _ in range(count):
        time.sleep(pause * random.uniform(0.8, 1.2))
        yield {"sent": time.monotonic()}


async def apaced(count: int, pause: float) -> AsyncIterator[Payload]:
    for _ in range(count):
        await asyncio.sleep(pause * random.uniform(0.8, 1.2))
        yield {"sent": time.monotonic()}


async def timed_tasks(count: int, producers: int, enqueue: Callable[[Payload], Awaitable[object]]) -> float:
    """How many seconds so many tasks take to enqueue `count` payloads between them, each one after the other."""

    async def produce(share: int) -> None:
        for payload in payloads(share):
            await enqueue(payload)

    started = time.monotonic()
    if producers == 1:
        await produce(count)
    else:
        await asyncio.gather(*(produce(share) for share in shares(count, producers)))
    return time.monotonic() - started


def timed_threads(count: int, producers: int, enqueue: Callable[[Payload], object]) -> float:
    """The same with threads."""

    def produce(share: int) -> None:
        for payload in payloads(share):
            enqueue(payload)

    started = time.monotonic()
    if producers == 1:
        produce(count)
    else:
        with ThreadPoolExecutor(producers) as pool:
            list(pool.map(produce, shares(count, producers)))
    return time.monotonic() - started


def shares(count: int, producers: int) -> list[int]:
    return [count // producers + (index < count % producers) for index in range(producers)]


def stop_event() -> asyncio.Event:
    """An event that SIGTERM sets, for workers that do not listen to it themselves."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    return stop


def main(adapter: Adapter) -> None:
    """Do what the command line asks."""
    arguments = _parse()
    try:
        answer = _answer(adapter, arguments)
    except Unsupported as reason:
        answer = {"unsupported": str(reason)}
    if answer is not None:
        say(json.dumps(answer))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("setup", "facts", "remaining"):
        commands.add_parser(name)
    enqueue = commands.add_parser("enqueue")
    enqueue.add_argument("--producers", type=int, default=1)
    sender = commands.add_parser("pickup-sender")
    sender.add_argument("--pause", type=float, default=0.05)
    for command in (enqueue, sender, commands.add_parser("bulk")):
        command.add_argument("--count", type=int, required=True)
    commands.add_parser("work").add_argument("--handler", choices=["async", "sync", "batch"], default="async")
    return parser.parse_args()


def _answer(adapter: Adapter, arguments: argparse.Namespace) -> dict[str, Any] | None:
    match arguments.command:
        case "setup":
            _run(adapter.setup)
            return {"setup": True}
        case "facts":
            return _facts(adapter)
        case "remaining":
            return {"sql": adapter.remaining} if adapter.remaining else {"unsupported": "counted by the worker"}
        case "enqueue":
            return _timed(arguments.count, adapter.enqueue, arguments.count, arguments.producers)
        case "bulk":
            if adapter.bulk is None:
                raise Unsupported("it has no bulk call")
            return _timed(arguments.count, adapter.bulk, arguments.count)
        case "pickup-sender":
            _run(adapter.pickup_sender, arguments.count, arguments.pause)
            return {"jobs": arguments.count}
    tally = Tally()
    _pass_gate()
    _run(adapter.work, arguments.handler, tally)
    tally.say_summary()
    return None


def _pass_gate() -> None:
    if os.environ.get("BENCH_GATE") == "1":
        say("LOADED")
        sys.stdin.readline()


def _facts(adapter: Adapter) -> dict[str, Any]:
    return {
        "name": adapter.name,
        "version": version(adapter.package),
        "language": "Python",
        "interpreter": f"{platform.python_implementation()} {platform.python_version()}",
        "settings": adapter.settings,
        "keeps_history": adapter.keeps_history,
        "durable": adapter.durable,
    }


def _timed(jobs: int, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    return {"jobs": jobs, "seconds": _run(function, *arguments)}


def _run(function: Callable[..., Any], *arguments: Any) -> Any:
    answer = function(*arguments)
    if not inspect.iscoroutine(answer):
        return answer
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(answer)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
