"""What a subscriber of the hub does, written once for threads and for event loops.

A script is a generator that yields what it wants: a plan to be run, to ``Wait`` for its mailbox, or to ``Say``
something to who asked. It is closed with the one who listens to it, whatever ends that.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, Generic, TypeAlias, TypeVar

from howdah.db.database import Database
from howdah.db.outage import Backoff, is_temporary
from howdah.db.plan import Pause, Plan
from howdah.watch.mailbox import LoopBell, Mailbox, Note, ThreadBell

S = TypeVar("S")
R = TypeVar("R")


@dataclasses.dataclass(frozen=True, slots=True)
class Wait:
    """For notes, until the deadline (of the monotonic clock). Answered with a list of them; an empty one: too late."""

    mailbox: Mailbox
    deadline: float | None = None

    @property
    def seconds(self) -> float | None:
        return None if self.deadline is None else max(self.deadline - time.monotonic(), 0)


@dataclasses.dataclass(frozen=True, slots=True)
class Say(Generic[S]):
    value: S


Script: TypeAlias = Generator[Any, Any, R]
"""Yields plans, ``Wait`` and ``Say``."""


def listen(database: Database, script: Script[None]) -> Generator[Any, None, None]:
    """All that a script says, blocking in between."""
    answer: Any = None
    failure: Exception | None = None
    try:
        while True:
            try:
                step = script.throw(failure) if failure else script.send(answer)
            except StopIteration:
                return
            answer = failure = None
            if isinstance(step, Say):
                yield step.value
                continue
            try:
                answer = _waited(step) if isinstance(step, Wait) else database.run(step)
            except Exception as error:  # noqa: BLE001
                failure = error
    finally:
        script.close()


async def alisten(database: Database, script: Script[None]) -> AsyncGenerator[Any, None]:
    """``listen``, awaiting in between."""
    answer: Any = None
    failure: Exception | None = None
    try:
        while True:
            try:
                step = script.throw(failure) if failure else script.send(answer)
            except StopIteration:
                return
            answer = failure = None
            if isinstance(step, Say):
                yield step.value
                continue
            try:
                answer = await (_awaited(step) if isinstance(step, Wait) else database.arun(step))
            except Exception as error:  # noqa: BLE001
                failure = error
    finally:
        script.close()


def _waited(step: Wait) -> list[Note]:
    bell = step.mailbox.bell
    assert isinstance(bell, ThreadBell)
    notes = step.mailbox.take()
    while not notes:
        seconds = step.seconds
        bell.wait(seconds)
        notes = step.mailbox.take()
        if seconds == 0:
            break
    return notes


async def _awaited(step: Wait) -> list[Note]:
    bell = step.mailbox.bell
    assert isinstance(bell, LoopBell)
    notes = step.mailbox.take()
    while not notes:
        seconds = step.seconds
        await bell.wait(seconds)
        notes = step.mailbox.take()
        if seconds == 0:
            break
    return notes


def insist(plan: Callable[[], Plan[R]]) -> Script[R]:
    """The answer of a plan that changes nothing, however long the database cannot be reached."""
    backoff = Backoff(longest=2)
    while True:
        try:
            answer: R = yield plan()
        except Exception as error:
            if not is_temporary(error):
                raise
            yield _pause(backoff.next())
        else:
            return answer


def _pause(seconds: float) -> Plan[None]:
    yield Pause(seconds)
