"""Runs one plan on a connection of another driver.

What is to be done is written once, as a generator of operations; two functions carry them out, one of which awaits.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import psycopg

from howdah.db.error_mapping import mapped
from howdah.db.foreign import wire
from howdah.db.foreign.errors import as_psycopg
from howdah.db.foreign.links import Link, link_to
from howdah.db.plan import Begin, Call, GatheredCall, NextItems, Pause, PipelinedCall, Plan, Read, Row, Step, Write
from howdah.db.session import AsyncSession, SyncSession, heed_cancellation, statement_of
from howdah.errors import InvalidOption

if TYPE_CHECKING:
    from howdah.db.database import Database

R = TypeVar("R")
Operation: TypeAlias = Callable[[], Any] | NextItems | Pause


def run_blocking(database: Database, plan: Plan[R], conn: object) -> R:
    """Runs a plan on the caller's connection, which blocks."""
    operations = _Session(database.schema, link_to(conn, awaited=False)).run(plan)
    session = SyncSession(database, None)
    answer, failure = None, None
    while True:
        try:
            operation = operations.send(answer) if failure is None else operations.throw(failure)
        except StopIteration as end:
            result: R = end.value
            return result
        try:
            answer, failure = operation() if callable(operation) else session.answer(operation), None
        except BaseException as error:  # noqa: BLE001
            failure = error


async def run_awaiting(database: Database, plan: Plan[R], conn: object) -> R:
    """``run_blocking``, on a connection that is awaited."""
    operations = _Session(database.schema, link_to(conn, awaited=True)).run(plan)
    session = AsyncSession(database, None)
    answer, failure = None, None
    while True:
        try:
            operation = operations.send(answer) if failure is None else operations.throw(failure)
        except StopIteration as end:
            result: R = end.value
            return result
        try:
            doing = operation() if callable(operation) else session.answer(operation)
            answer, failure = await heed_cancellation(doing), None
        except BaseException as error:  # noqa: BLE001
            failure = error


class _Session:
    """One plan, as operations on a link."""

    def __init__(self, schema: str, link: Link) -> None:
        self._schema = schema
        self._link = link
        self._style: wire.Style = "pyformat"
        self._ends: list[Any] = []
        self._pipelined: list[Row] | None = None
        self._errors: list[tuple[psycopg.Error, Exception]] = []
        """The driver's errors, as the plan got them."""

    def run(self, plan: Plan[R]) -> Generator[Operation, Any, R]:
        try:
            self._style = yield from self._sent(self._link.style)
            result = yield from self._steps(plan)
            yield from self._end(commits=True)
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001
            failure = error
        else:
            return result
        # What is undone is a part of the caller's transaction. If that fails, the connection is lost, as the first error says.
        with contextlib.suppress(Exception):
            yield from self._end(commits=False)
        raise self._as_callers(failure)

    def _steps(self, plan: Plan[R]) -> Generator[Operation, Any, R]:
        answer, failure = None, None
        while True:
            try:
                step = plan.send(answer) if failure is None else plan.throw(failure)
            except StopIteration as end:
                result: R = end.value
                return result
            try:
                answer, failure = (yield from self._answer(step)), None
            except Exception as error:  # noqa: BLE001
                failure = error

    def _answer(self, step: Step) -> Generator[Operation, Any, Any]:
        match step:
            case Call() | Read() | Write():
                return (yield from self._rows(step))
            case GatheredCall():
                return (yield from self._rows(step.call))
            case PipelinedCall():
                # Nothing goes ahead: the connection may be in the middle of anything.
                rows, self._pipelined = self._pipelined, None
                if step.call is not None:
                    self._pipelined = yield from self._rows(step.call)
                return rows
            case Begin(discard=False):
                self._ends.append((yield from self._sent(self._link.begin)))
                return None
            case NextItems() | Pause():
                return (yield step)
        raise InvalidOption(f"{type(step).__name__} is a step of plans that run on connections of psycopg")

    def _rows(self, step: Call | Read | Write) -> Generator[Operation, Any, list[Row]]:
        text, parameters = wire.statement(*statement_of(step, self._schema), self._style)
        return wire.rows((yield from self._sent(functools.partial(self._link.fetch, text, parameters))))

    def _end(self, *, commits: bool) -> Generator[Operation, Any, None]:
        while self._ends:
            begun = self._ends.pop()
            yield from self._sent(functools.partial(self._link.end, begun, commits=commits))

    def _sent(self, operation: Callable[[], Any]) -> Generator[Operation, Any, Any]:
        try:
            return (yield operation)
        except Exception as error:
            ours = as_psycopg(error)
            if ours is None:
                raise
            self._errors.append((ours, error))
            raise ours from error

    def _as_callers(self, error: BaseException) -> BaseException:
        """An error as it leaves the verb: ours where there is one, with the driver's as its cause, and the driver's own otherwise."""
        own = self._own(error)
        if own is None:
            if (cause := self._own(error.__cause__)) is not None:
                error.__cause__ = cause
            return error
        assert isinstance(error, psycopg.Error)
        ours = mapped(error, self._schema)
        if ours is not error:
            ours.__cause__ = own
            return ours
        for note in getattr(error, "__notes__", ()):
            own.add_note(note)
        return own

    def _own(self, error: BaseException | None) -> Exception | None:
        return next((own for ours, own in self._errors if ours is error), None)
