"""Runs one plan on a connection of another driver.

What is to be done is written once, as a generator of operations; two functions carry them out, one of which awaits.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import psycopg

from howdah.db.error_mapping import mapped
from howdah.db.foreign import wire
from howdah.db.foreign.errors import as_psycopg
from howdah.db.foreign.links import Link, link_to
from howdah.db.plan import Begin, Call, GatheredCall, NextItems, Pause, PipelinedCall, Plan, Read, Row, Step, Write
from howdah.db.session import AsyncSession, SyncSession, heed_cancellation, statement_of
from howdah.db.turns import aturn, turn
from howdah.errors import InvalidOption

if TYPE_CHECKING:
    from howdah.db.database import Database

R = TypeVar("R")

UNDONE_WITHIN: Final = 10.0
"""Seconds that a cancelled verb waits for the begin or the end of its transaction. Then it closes the connection."""


@dataclasses.dataclass(frozen=True, slots=True)
class Whole:
    """An operation that begins or ends a transaction. A cancellation does not interrupt it, because then nothing would tell
    whether the transaction is open: it is raised instead of the next operation."""

    operation: Callable[[], Any]

    def __call__(self) -> Any:
        return self.operation()


class TakeTurn:
    """The operation before a begin: see ``turns``."""


Operation: TypeAlias = Callable[[], Any] | NextItems | Pause | TakeTurn


def run_blocking(database: Database, plan: Plan[R], conn: object) -> R:
    """Runs a plan on the caller's connection, which blocks."""
    with contextlib.ExitStack() as stack:
        operations = _Session(database.schema, link_to(conn, awaited=False)).run(plan)
        return _carry_out(operations, SyncSession(database, None), conn, stack)


def _carry_out(
    operations: Generator[Operation, Any, R], session: SyncSession, conn: object, stack: contextlib.ExitStack
) -> R:
    answer, failure = None, None
    while True:
        try:
            operation = operations.send(answer) if failure is None else operations.throw(failure)
        except StopIteration as end:
            result: R = end.value
            return result
        try:
            if isinstance(operation, TakeTurn):
                answer, failure = stack.enter_context(turn(conn)), None
            else:
                answer, failure = operation() if callable(operation) else session.answer(operation), None
        except BaseException as error:  # noqa: BLE001
            failure = error


async def run_awaiting(database: Database, plan: Plan[R], conn: object) -> R:
    """``run_blocking``, on a connection that is awaited."""
    async with contextlib.AsyncExitStack() as stack:
        awaiting = _Awaiting(AsyncSession(database, None), link_to(conn, awaited=True), conn, stack)
        return await _acarry_out(_Session(database.schema, awaiting.link).run(plan), awaiting)


async def _acarry_out(operations: Generator[Operation, Any, R], awaiting: _Awaiting) -> R:
    answer, failure = None, None
    while True:
        try:
            operation = operations.send(answer) if failure is None else operations.throw(failure)
        except StopIteration as end:
            if awaiting.is_cancelled:
                raise asyncio.CancelledError from None
            result: R = end.value
            return result
        except Exception as error:
            if awaiting.is_cancelled:
                raise asyncio.CancelledError from error
            raise
        try:
            answer, failure = await awaiting.answer(operation), None
        except BaseException as error:  # noqa: BLE001
            failure = error


@dataclasses.dataclass(slots=True)
class _Awaiting:
    """Carries out the operations of one plan, and heeds cancellations."""

    session: AsyncSession
    link: Link
    conn: object
    stack: contextlib.AsyncExitStack
    """Left when the plan has ended."""
    is_cancelled: bool = False
    """Whether a cancellation came during an operation that it must not interrupt, and has yet to be raised."""

    async def answer(self, operation: Operation) -> Any:
        if isinstance(operation, Whole):
            return await self._to_its_end(operation())
        if self.is_cancelled:
            raise asyncio.CancelledError
        if isinstance(operation, TakeTurn):
            return await self.stack.enter_async_context(aturn(self.conn))
        return await heed_cancellation(operation() if callable(operation) else self.session.answer(operation))

    async def _to_its_end(self, doing: Awaitable[Any]) -> Any:
        task, now, end = asyncio.ensure_future(doing), asyncio.get_running_loop().time, None
        while not task.done():
            if end is not None and now() >= end:
                task.cancel()
                with contextlib.suppress(Exception):
                    await self.link.terminate()
                raise TimeoutError
            try:
                # Not asyncio.timeout: in a task that was cancelled before, the early releases of Python 3.11 raise no TimeoutError.
                await asyncio.wait({task}, timeout=None if end is None else end - now())
            except asyncio.CancelledError:
                self.is_cancelled = True
                end = end or now() + UNDONE_WITHIN
        return task.result()


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
            yield from self._commit()
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001
            failure = error
        else:
            return result
        yield from self._undo()
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
                yield TakeTurn()
                return (yield from self._sent(Whole(functools.partial(self._link.begin, self._ends))))
            case NextItems() | Pause():
                return (yield step)
        raise InvalidOption(f"{type(step).__name__} is a step of plans that run on connections of psycopg")

    def _rows(self, step: Call | Read | Write) -> Generator[Operation, Any, list[Row]]:
        text, parameters = wire.statement(*statement_of(step, self._schema), self._style)
        return wire.rows((yield from self._sent(functools.partial(self._link.fetch, text, parameters))))

    def _commit(self) -> Generator[Operation, Any, None]:
        while self._ends:
            begun = self._ends.pop()
            yield from self._sent(Whole(functools.partial(self._link.end, begun, commits=True)))

    def _undo(self) -> Generator[Operation, Any, None]:
        """Rolls back. If that fails, the connection is lost, as the first error says; or it is closed, because otherwise all
        later statements of the caller would be in our transaction, which never ends."""
        while self._ends:
            begun = self._ends.pop()
            try:
                yield Whole(functools.partial(self._link.end, begun, commits=False))
            except GeneratorExit:
                raise
            except BaseException:  # noqa: BLE001
                if begun is True:
                    with contextlib.suppress(Exception):
                        yield Whole(self._link.terminate)

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
