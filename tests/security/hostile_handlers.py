"""Handlers that end as badly as a handler can, on the loop, in threads and in child processes."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from howdah import JobQueue

queue = JobQueue()


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")

    __repr__ = __str__


class UnprintableResult:
    def __repr__(self) -> str:
        raise SystemExit("from __repr__")


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


RAISED: dict[str, BaseException] = {
    "SystemExit": SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt(),
    "CancelledError": asyncio.CancelledError(),
    "GeneratorExit": GeneratorExit(),
    "StopIteration": StopIteration(5),
    "StopAsyncIteration": StopAsyncIteration(),
    "ExceptionGroup": ExceptionGroup("several", [ValueError("a"), Unprintable()]),
    "BaseExceptionGroup": BaseExceptionGroup("all", [SystemExit(1), KeyboardInterrupt()]),
    "Unprintable": Unprintable(),
    "UnicodeDecodeError": UnicodeDecodeError("utf-8", b"\xff", 0, 1, "\ud800"),
    "MemoryError": MemoryError(),
    "NUL": ValueError("a\0b\ud800"),
}
ITSELF: list[Any] = []
ITSELF.append(ITSELF)
RETURNED: dict[str, Any] = {
    "not JSON": object(),
    "NaN": float("nan"),
    "infinity": [float("-inf")],
    "surrogate": "\ud800",
    "NUL in a key": {"a\0": 1},
    "too many digits": 10**4400,
    "too deep": nested(201),
    "far too deep": nested(50_000),
    "unprintable": UnprintableResult(),
    "too large": "x" * 100_000,
    "bytes": b"\xff",
    "itself": ITSELF,
}
FINE: dict[str, Any] = {"large": 10**400, "larger": -(10**4299), "deep": nested(190), "text": "\x7f\u2028\U0001f418"}


def misbehave(how: str) -> Any:
    if how == "closes everything":
        for stream in (sys.stdout, sys.stderr, sys.stdin):
            stream.close()
        return "closed"
    if how in RAISED:
        raise RAISED[how]
    return (RETURNED | FINE)[how]


@queue.job(max_attempts=1, name="on_the_loop")
async def on_the_loop(how: str) -> Any:
    return misbehave(how)


@queue.job(max_attempts=1, name="in_a_thread")
def in_a_thread(how: str) -> Any:
    return misbehave(how)


@queue.job(max_attempts=1, name="in_a_child", process=True)
def in_a_child(how: str) -> Any:
    return misbehave(how)
