"""Sessions run one plan each, step by step: blocking or awaiting, on a connection of the pool or on the caller's."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import psycopg
import psycopg_pool
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import dict_row, tuple_row

from howdah.db import adapters
from howdah.db.error_mapping import is_outage
from howdah.db.plan import (
    Begin,
    Call,
    GatheredCall,
    LoopWaker,
    NextItems,
    Pause,
    PipelinedCall,
    Plan,
    Read,
    ReadRaw,
    Rollback,
    Row,
    Script,
    Step,
    ThreadWaker,
    Write,
)
from howdah.db.prepared import AsyncPoolConnection, PoolConnection, calls_of
from howdah.db.statements import call_statement, read_statement, write_statement
from howdah.db.turns import aturn, turn
from howdah.errors import InvalidOption

if TYPE_CHECKING:
    from howdah.db.database import AsyncConnection, Database, SyncConnection

R = TypeVar("R")
Statement: TypeAlias = Call | Read | Write | Script

# The schema was migrated since the statement was prepared, or a pooler sent it to another backend.
_STALE = ("0A000", "26000", "42P05")


@dataclasses.dataclass(slots=True)
class SyncSession:
    """Runs one plan, blocking."""

    database: Database
    conn: SyncConnection | None
    caller_errors: list[Exception] = dataclasses.field(default_factory=list)
    """Errors that are not the database's: the caller's own iterable or callable raised them."""
    wait_at_most: float | None = None
    """Seconds to wait for a connection of the pool; None: as the pool has it."""
    _stack: ExitStack = dataclasses.field(default_factory=ExitStack)
    _begun: ExitStack | None = None
    _pipelined: bool = False
    _sent: Callable[[], list[Row]] | None = None

    def run(self, plan: Plan[R]) -> R:
        """Runs the plan to its end, and returns what it returns."""
        with self._stack:
            answer, failure = None, None
            while True:
                try:
                    step = plan.throw(failure) if failure else plan.send(answer)
                except StopIteration as end:
                    return cast(R, end.value)
                except psycopg.Error as error:
                    if error is not failure:
                        self.caller_errors.append(error)
                    raise
                try:
                    answer, failure = self.answer(step), None
                except Exception as error:  # noqa: BLE001
                    failure = error
                    if isinstance(step, NextItems):
                        self.caller_errors.append(error)

    def answer(self, step: Step) -> Any:
        match step:
            case Call() | Read() | Write() | Script():
                return self.rows(step)
            case GatheredCall():
                if self.conn is not None:
                    return self._execute(self.conn, step.call)
                return self.database.gathering().rows(step, self)
            case PipelinedCall():
                sent, self._sent = self._sent, None
                rows = None if sent is None else sent()
                self._sent = None if step.call is None else self._send_ahead(step.call)
                return rows
            case Begin():
                self._begin(step)
            case Rollback():
                assert self._begun is not None
                self._begun.__exit__(psycopg.Rollback, psycopg.Rollback(), None)
            case NextItems():
                if isinstance(step.source, AsyncIterator):
                    raise InvalidOption("an async iterable needs the verb that is awaited: aenqueue_many")
                return list(islice(step.source, step.count))
            case Pause(seconds, waker):
                assert not isinstance(waker, LoopWaker)
                (waker.wait if waker else time.sleep)(seconds)  # type: ignore[arg-type]
            case _:
                raise InvalidOption(f"{type(step).__name__} is a step of plans that are awaited")
        return None

    def _begin(self, step: Begin) -> None:
        if self.conn is None:
            self.conn = self._stack.enter_context(self.database.pool().connection())
        else:
            self._stack.enter_context(turn(self.conn))
            if not self.conn.autocommit:
                # Begins the caller's transaction: if ours were the outermost, it would commit.
                # With a cursor of our own: the caller's kind of rows may need a column.
                with psycopg.Cursor(self.conn, row_factory=tuple_row) as cursor:
                    cursor.execute("SELECT")
        self._begun = self._stack.enter_context(ExitStack())
        self._begun.enter_context(self.conn.transaction(force_rollback=step.discard))

    def rows(self, step: Statement) -> list[Row]:
        if self.conn is not None:
            return self._execute(self.conn, step)
        pool, repeats = self.database.pool(), 1
        while True:
            # Not as a context: that would also look for a transaction to commit, and each step is one of its own.
            conn = pool.getconn(self.wait_at_most)
            try:
                return self._execute(conn, step)
            except psycopg.OperationalError as error:
                if not repeats or not _can_be_repeated(step, error):
                    raise
            finally:
                pool.putconn(conn)
            repeats -= 1
            pool.check()

    def _send_ahead(self, call: Call) -> Callable[[], list[Row]]:
        assert self.conn is not None
        if not adapters.is_adapted(self.conn.adapters):
            # The caller's connection may be in the middle of anything.
            rows = self._execute(self.conn, call)
            return lambda: rows
        if not self._pipelined:
            self._stack.enter_context(self.conn.pipeline())
            self._pipelined = True
        cursor = psycopg.Cursor(self.conn, row_factory=dict_row)
        return cursor.execute(*statement_of(call, self.database.schema), prepare=False, binary=True).fetchall

    def _execute(self, conn: SyncConnection, step: Statement) -> list[Row]:
        if isinstance(step, Call) and step.is_frequent and isinstance(conn, PoolConnection):
            rows = self._prepared(conn, step)
            if rows is not None:
                return rows
        statement, parameters = statement_of(step, self.database.schema)
        binary = not isinstance(step, Script)
        with psycopg.Cursor(conn, row_factory=dict_row) as cursor:
            if conn is self.conn and not adapters.is_adapted(conn.adapters):
                _check_encoding(conn)
                adapters.adapt(cursor.adapters)
            try:
                cursor.execute(statement, parameters, prepare=self.database.may_prepare(conn), binary=binary)
            except psycopg.Error as error:
                if not _was_stale(conn, error):
                    raise
                cursor.execute(statement, parameters, prepare=False, binary=binary)
            return cursor.fetchall() if _has_rows(cursor) else []

    def _prepared(self, conn: PoolConnection, call: Call) -> list[Row] | None:
        if self.database.may_prepare(conn) is False or conn.prepare_threshold is None:
            return None
        calls = calls_of(conn)
        try:
            with conn.lock:
                return conn.wait(calls.rows(self.database.schema, call.function, call.given, conn.prepare_threshold))
        except psycopg.Error as error:
            if error.sqlstate not in _STALE:
                raise
            calls.forget()
            return None


@dataclasses.dataclass(slots=True)
class AsyncSession:
    """``SyncSession``, awaiting."""

    database: Database
    conn: AsyncConnection | None
    caller_errors: list[Exception] = dataclasses.field(default_factory=list)
    wait_at_most: float | None = None
    _stack: AsyncExitStack = dataclasses.field(default_factory=AsyncExitStack)
    _begun: AsyncExitStack | None = None
    _pipelined: bool = False
    _sent: Callable[[], Awaitable[list[Row]]] | None = None

    async def run(self, plan: Plan[R]) -> R:
        async with self._stack:
            answer, failure = None, None
            while True:
                try:
                    step = plan.throw(failure) if failure else plan.send(answer)
                except StopIteration as end:
                    return cast(R, end.value)
                except psycopg.Error as error:
                    if error is not failure:
                        self.caller_errors.append(error)
                    raise
                try:
                    answer, failure = await heed_cancellation(self.answer(step)), None
                except Exception as error:  # noqa: BLE001
                    failure = error
                    if isinstance(step, NextItems):
                        self.caller_errors.append(error)

    async def answer(self, step: Step) -> Any:
        match step:
            case Call() | Read() | Write() | Script():
                return await self.rows(step)
            case GatheredCall():
                if self.conn is not None:
                    return await self._execute(self.conn, step.call)
                return await self.database.loop_gathering().rows(step, self)
            case PipelinedCall():
                sent, self._sent = self._sent, None
                rows = None if sent is None else await sent()
                self._sent = None if step.call is None else await self._send_ahead(step.call)
                return rows
            case ReadRaw():
                return await self._raw_rows(step)
            case Begin():
                await self._begin(step)
            case Rollback():
                assert self._begun is not None
                await self._begun.__aexit__(psycopg.Rollback, psycopg.Rollback(), None)
            case NextItems():
                return await _next_items(step)
            case Pause(seconds, waker):
                assert not isinstance(waker, ThreadWaker)
                await (waker.wait if waker else asyncio.sleep)(seconds)  # type: ignore[arg-type]
        return None

    async def _begin(self, step: Begin) -> None:
        if self.conn is None:
            pool = await self.database.apool()
            self.conn = await self._stack.enter_async_context(pool.connection())
        else:
            await self._stack.enter_async_context(aturn(self.conn))
            if not self.conn.autocommit:
                async with psycopg.AsyncCursor(self.conn, row_factory=tuple_row) as cursor:
                    await cursor.execute("SELECT")
        self._begun = await self._stack.enter_async_context(AsyncExitStack())
        await self._begun.enter_async_context(self.conn.transaction(force_rollback=step.discard))

    async def rows(self, step: Statement) -> list[Row]:
        if self.conn is not None:
            return await self._execute(self.conn, step)
        pool, repeats = await self.database.apool(), 1
        while True:
            conn = await pool.getconn(self.wait_at_most)
            try:
                return await self._execute(conn, step)
            except psycopg.OperationalError as error:
                if not repeats or not _can_be_repeated(step, error):
                    raise
            finally:
                await pool.putconn(conn)
            repeats -= 1
            await pool.check()

    async def _prepared(self, conn: AsyncPoolConnection, call: Call) -> list[Row] | None:
        if self.database.may_prepare(conn) is False or conn.prepare_threshold is None:
            return None
        calls = calls_of(conn)
        try:
            async with conn.lock:
                return await conn.wait(
                    calls.rows(self.database.schema, call.function, call.given, conn.prepare_threshold)
                )
        except psycopg.Error as error:
            if error.sqlstate not in _STALE:
                raise
            calls.forget()
            return None

    async def _execute(self, conn: AsyncConnection, step: Statement) -> list[Row]:
        if isinstance(step, Call) and step.is_frequent and isinstance(conn, AsyncPoolConnection):
            rows = await self._prepared(conn, step)
            if rows is not None:
                return rows
        statement, parameters = statement_of(step, self.database.schema)
        async with psycopg.AsyncCursor(conn, row_factory=dict_row) as cursor:
            if conn is self.conn and not adapters.is_adapted(conn.adapters):
                _check_encoding(conn)
                adapters.adapt(cursor.adapters)
            await self._send(cursor, statement, parameters, binary=not isinstance(step, Script))
            return await cursor.fetchall() if _has_rows(cursor) else []

    async def _send_ahead(self, call: Call) -> Callable[[], Awaitable[list[Row]]]:
        assert self.conn is not None
        if not adapters.is_adapted(self.conn.adapters):
            rows = await self._execute(self.conn, call)

            async def known() -> list[Row]:
                return rows

            return known
        if not self._pipelined:
            await self._stack.enter_async_context(self.conn.pipeline())
            self._pipelined = True
        cursor = psycopg.AsyncCursor(self.conn, row_factory=dict_row)
        await cursor.execute(*statement_of(call, self.database.schema), prepare=False, binary=True)
        return cursor.fetchall

    async def _raw_rows(self, step: ReadRaw) -> adapters.RawRows:
        assert self.conn is not None
        async with psycopg.AsyncCursor(self.conn, row_factory=tuple_row) as cursor:
            adapters.leave_raw(cursor.adapters)
            await self._send(cursor, write_statement(self.database.schema, step.name), step.arguments, binary=True)
            return adapters.RawRows(cursor, await cursor.fetchall())

    async def _send(
        self,
        cursor: psycopg.AsyncCursor[Any],
        statement: bytes,
        parameters: Mapping[str, Any] | None,
        *,
        binary: bool,
    ) -> None:
        try:
            may_prepare = self.database.may_prepare(cursor.connection)
            await cursor.execute(statement, parameters, prepare=may_prepare, binary=binary)
        except psycopg.Error as error:
            if not _was_stale(cursor.connection, error):
                raise
            await cursor.execute(statement, parameters, prepare=False, binary=binary)


def statement_of(step: Statement, schema: str) -> tuple[bytes, Mapping[str, Any] | None]:
    """The SQL of a step, and its parameters.

    Their rows are asked for in binary: as text they would depend on the DateStyle, IntervalStyle and the like of the
    session. A script may be several statements, which only the protocol for text takes at once.
    """
    match step:
        case Call():
            arguments = step.given
            return call_statement(schema, step.function, tuple(arguments), step.lock_timeout), arguments
        case Read():
            return read_statement(schema, step.name), step.arguments
        case Write():
            return write_statement(schema, step.name), step.arguments
        case Script():
            return step.text.encode(), None


def _check_encoding(conn: SyncConnection | AsyncConnection) -> None:
    encoding = conn.pgconn.parameter_status(b"client_encoding")
    if encoding != b"UTF8":
        check_encoding(None if encoding is None else encoding.decode())


def check_encoding(encoding: str | None) -> None:
    """Values are sent and read as UTF-8. A session with another encoding would store other characters."""
    # PgBouncer reports the name that the client used, such as asyncpg's 'utf-8' with its quotes.
    if encoding is not None and re.sub("[^a-z0-9]", "", encoding.lower()) not in ("utf8", "unicode"):
        raise InvalidOption(
            f"conn has the client_encoding {encoding}, and Howdah sends UTF-8. Nothing was written."
            " Connect with client_encoding=utf8, or run: SET client_encoding = 'UTF8'"
        )


def _has_rows(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]) -> bool:
    """Whether a statement returns rows. In a pipeline of the caller's nothing has come back yet, and what we send there does."""
    return cursor.rownumber is not None or cursor.connection.pgconn.pipeline_status != PipelineStatus.OFF


async def _next_items(step: NextItems) -> list[Any]:
    if not isinstance(step.source, AsyncIterator):
        return list(islice(step.source, step.count))
    items: list[Any] = []
    while len(items) < step.count:
        try:
            items.append(await anext(step.source))
        except StopAsyncIteration:
            break
    return items


def _can_be_repeated(step: Statement, error: psycopg.OperationalError) -> bool:
    """Whether a step may be sent once more after its connection was lost: only where a second time changes nothing."""
    if isinstance(error, psycopg_pool.PoolTimeout) or not is_outage(error):
        return False
    return isinstance(step, Read) or (isinstance(step, Call) and step.repeatable)


def _was_stale(conn: SyncConnection | AsyncConnection, error: psycopg.Error) -> bool:
    """Whether a statement failed only because it was prepared, and can be sent again. If so, the connection
    prepares no more statements."""
    if error.sqlstate not in _STALE or conn.prepare_threshold is None:
        return False
    conn.prepare_threshold = None
    return conn.pgconn.transaction_status == TransactionStatus.IDLE


async def heed_cancellation(answer: Awaitable[R]) -> R:
    """Awaits, and raises CancelledError if the task was cancelled meanwhile.

    Until Python 3.12, ``asyncio.wait_for``, by which the driver waits, loses a cancellation that arrives together with
    the answer, or with an error.
    """
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    try:
        return await answer
    finally:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError
