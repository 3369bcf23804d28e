"""Handlers that return and raise whatever Python lets them."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable
from typing import Any

from howdah import Job
from tests.faults.handlers import queue
from tests.worker.ledger import note

PLACES = ("on_the_loop", "in_a_thread", "in_a_child")

HUGE = int(os.environ.get("HOWDAH_TEST_HUGE", "1000000"))


class StrRaises(Exception):
    def __str__(self) -> str:
        raise ValueError("no message for you")


class StrInterrupts(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


class StrIsNoString(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]


class Unapproachable(Exception):
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"there is no {name} here")


class NotEvenAnException(BaseException):
    pass


def circle() -> BaseException:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    return one


def groups_within_groups() -> BaseException:
    error: Exception = ValueError("inside of it all")
    for _ in range(300):
        error = ExceptionGroup("a group", [error])
    return error


def too_deep() -> BaseException:
    def deeper() -> None:
        deeper()

    try:
        deeper()
    except RecursionError as error:
        return error
    raise AssertionError


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


RAISED: dict[str, Callable[[], BaseException]] = {
    "its message raises": StrRaises,
    "its message interrupts": StrInterrupts,
    "its message is no string": StrIsNoString,
    "every attribute raises": Unapproachable,
    "not even an Exception": NotEvenAnException,
    "NUL": lambda: ValueError("a\x00b"),
    "NUL in its name": lambda: type("a\x00b", (Exception,), {})("message"),
    "a lone surrogate": lambda: ValueError("a\ud800b"),
    "a huge message": lambda: ValueError("x" * HUGE),
    "a circle of causes": circle,
    "groups within groups": groups_within_groups,
    "recursion": too_deep,
    "SystemExit": lambda: SystemExit(0),
    "SystemExit with words": lambda: SystemExit("a\x00b"),
    "KeyboardInterrupt": KeyboardInterrupt,
    "CancelledError": asyncio.CancelledError,
    "GeneratorExit": GeneratorExit,
    "StopIteration": StopIteration,
    "StopAsyncIteration": StopAsyncIteration,
    "MemoryError": MemoryError,
}

RETURNED: dict[str, Callable[[], Any]] = {
    "NaN": lambda: float("nan"),
    "infinity": lambda: [1, float("-inf")],
    "NUL": lambda: {"a": "b\x00"},
    "NUL in a key": lambda: {"a\x00": "b"},
    "a lone surrogate": lambda: ["\udfff"],
    "too many digits": lambda: 10**5_000,
    "too deep": lambda: nested(5_000),
    "endless": endless,
    "an object": object,
    "a generator": lambda: (each for each in range(3)),
    "huge": lambda: "x" * HUGE,
}


@queue.job(max_attempts=1)
async def raises_on_the_loop(job: Job, what: str) -> None:
    raised(job, what)


@queue.job(max_attempts=1)
def raises_in_a_thread(job: Job, what: str) -> None:
    raised(job, what)


@queue.job(max_attempts=1, process=True)
def raises_in_a_child(job: Job, what: str) -> None:
    raised(job, what)


def raised(job: Job, what: str) -> None:
    note("START", job)
    note("END", job)
    raise RAISED[what]()


@queue.job(max_attempts=1)
async def returns_on_the_loop(job: Job, what: str) -> Any:
    return RETURNED[what]()


@queue.job(max_attempts=1)
def returns_in_a_thread(job: Job, what: str) -> Any:
    return RETURNED[what]()


@queue.job(max_attempts=1, process=True)
def returns_in_a_child(job: Job, what: str) -> Any:
    return RETURNED[what]()


@queue.job(max_attempts=1)
async def echo_on_the_loop(job: Job, value: Any) -> dict[str, Any]:
    return echoed(job, value)


@queue.job(max_attempts=1)
def echo_in_a_thread(job: Job, value: Any) -> dict[str, Any]:
    return echoed(job, value)


@queue.job(max_attempts=1, process=True)
def echo_in_a_child(job: Job, value: Any) -> dict[str, Any]:
    return echoed(job, value)


def echoed(job: Job, value: Any) -> dict[str, Any]:
    if isinstance(value, str) and len(value) > 50_000:
        value = digest(value)
    return {"token": job.token, "value": value}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
