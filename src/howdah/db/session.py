"""Answers the steps of a plan, one after another: blocking or awaiting, on a connection of the pool or on the caller's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Any

import psycopg
import psycopg_pool
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row, tuple_row

from howdah.db import adapters
from howdah.db.error_mapping import is_outage
from howdah.db.plan import Ahead, Begin, Call, Pause, Read, Row, Script, Step, Take, Undo, Wire, Write
from howdah.db.statements import call_statement, read_statement, write_statement
from howdah.errors import InvalidOption

if TYPE_CHECKING:
    from howdah.db.database import AsyncConnection, Database, SyncConnection

# The schema was migrated since the statement was prepared, or another backend is asked for it now.
_STALE = ("0A000", "26000", "42P05")


class SyncSession:
    """Answers the steps of one plan."""

    def __init__(self, database: Database, conn: SyncConnection | None, stack: ExitStack) -> None:
        self._database = database
        self._conn = conn
        self._stack = stack
        self._begun = ExitStack()
        self._pipelined = False
        self._sent: Callable[[], list[Row]] | None = None

    def answer(self, step: Step) -> Any:
        match step:
            case Call() | Read() | Write() | Script():
                return self._rows(step)
            case Ahead():
                sent, self._sent = self._sent, None
                rows = None if sent is None else sent()
                self._sent = None if step.call is None else self._send_ahead(step.call)
                return rows
            case Wire():
                raise InvalidOption("rows as the wire has them are read by workers, which await them")
            case Begin():
                if self._conn is None:
                    self._conn = self._stack.enter_context(self._database.pool().connection())
                elif not self._conn.autocommit:
                    # Begins the caller's transaction: if ours were the outermost, it would commit.
                    self._conn.execute("SELECT")
                self._begun = self._stack.enter_context(ExitStack())
                self._begun.enter_context(self._conn.transaction(force_rollback=step.discard))
            case Undo():
                self._begun.__exit__(psycopg.Rollback, psycopg.Rollback(), None)
            case Take():
                if isinstance(step.source, AsyncIterator):
                    raise InvalidOption("an async iterable needs the verb that is awaited: aenqueue_many")
                return list(islice(step.source, step.count))
            case Pause():
                time.sleep(step.seconds)
        return None

    def _rows(self, step: Call | Read | Write | Script) -> list[Row]:
        if self._conn is not None:
            return self._execute(self._conn, step)
        pool = self._database.pool()
        try:
            return self._borrow(pool, step)
        except psycopg.OperationalError as error:
            if not _can_be_repeated(step, error):
                raise
            pool.check()
            return self._borrow(pool, step)

    def _borrow(
        self, pool: psycopg_pool.ConnectionPool[SyncConnection], step: Call | Read | Write | Script
    ) -> list[Row]:
        # Not as a context: that would also look for a transaction to commit, and each step is one of its own.
        conn = pool.getconn()
        try:
            return self._execute(conn, step)
        finally:
            pool.putconn(conn)

    def _send_ahead(self, call: Call) -> Callable[[], list[Row]]:
        assert self._conn is not None
        if not adapters.is_adapted(self._conn.adapters):
            # Somebody else's, who may be in the middle of anything.
            rows = self._execute(self._conn, call)
            return lambda: rows
        if not self._pipelined:
            self._stack.enter_context(self._conn.pipeline())
            self._pipelined = True
        cursor = psycopg.Cursor(self._conn, row_factory=dict_row)
        return cursor.execute(*_statement(call, self._database.schema), prepare=False, binary=True).fetchall

    def _execute(self, conn: SyncConnection, step: Call | Read | Write | Script) -> list[Row]:
        statement, parameters = _statement(step, self._database.schema)
        binary = _in_binary(step)
        with psycopg.Cursor(conn, row_factory=dict_row) as cursor:
            if not adapters.is_adapted(conn.adapters):
                _check_encoding(conn)
                adapters.adapt(cursor.adapters)
            try:
                cursor.execute(statement, parameters, prepare=self._database.may_prepare(conn), binary=binary)
            except psycopg.Error as error:
                if not _was_stale(conn, error):
                    raise
                cursor.execute(statement, parameters, prepare=False, binary=binary)
            return [] if cursor.rownumber is None else cursor.fetchall()


class AsyncSession:
    """``SyncSession``, awaiting."""

    def __init__(self, database: Database, conn: AsyncConnection | None, stack: AsyncExitStack) -> None:
        self._database = database
        self._conn = conn
        self._stack = stack
        self._begun = AsyncExitStack()
        self._pipelined = False
        self._sent: Callable[[], Awaitable[list[Row]]] | None = None

    async def answer(self, step: Step) -> Any:
        match step:
            case Call() | Read() | Write() | Script():
                return await self._rows(step)
            case Ahead():
                sent, self._sent = self._sent, None
                rows = None if sent is None else await sent()
                self._sent = None if step.call is None else await self._send_ahead(step.call)
                return rows
            case Wire():
                assert self._conn is not None
                return await self._wire_rows(self._conn, step)
            case Begin():
                if self._conn is None:
                    pool = await self._database.apool()
                    self._conn = await self._stack.enter_async_context(pool.connection())
                elif not self._conn.autocommit:
                    await self._conn.execute("SELECT")
                self._begun = await self._stack.enter_async_context(AsyncExitStack())
                await self._begun.enter_async_context(self._conn.transaction(force_rollback=step.discard))
            case Undo():
                await self._begun.__aexit__(psycopg.Rollback, psycopg.Rollback(), None)
            case Take():
                return await _taken(step)
            case Pause():
                await asyncio.sleep(step.seconds)
        return None

    async def _rows(self, step: Call | Read | Write | Script) -> list[Row]:
        if self._conn is not None:
            return await self._execute(self._conn, step)
        pool = await self._database.apool()
        try:
            return await self._borrow(pool, step)
        except psycopg.OperationalError as error:
            if not _can_be_repeated(step, error):
                raise
            await pool.check()
            return await self._borrow(pool, step)

    async def _borrow(
        self, pool: psycopg_pool.AsyncConnectionPool[AsyncConnection], step: Call | Read | Write | Script
    ) -> list[Row]:
        conn = await pool.getconn()
        try:
            return await self._execute(conn, step)
        finally:
            await pool.putconn(conn)

    async def _execute(self, conn: AsyncConnection, step: Call | Read | Write | Script) -> list[Row]:
        statement, parameters = _statement(step, self._database.schema)
        async with psycopg.AsyncCursor(conn, row_factory=dict_row) as cursor:
            if not adapters.is_adapted(conn.adapters):
                _check_encoding(conn)
                adapters.adapt(cursor.adapters)
            await self._send(cursor, statement, parameters, binary=_in_binary(step))
            return [] if cursor.rownumber is None else await cursor.fetchall()

    async def _send_ahead(self, call: Call) -> Callable[[], Awaitable[list[Row]]]:
        assert self._conn is not None
        if not adapters.is_adapted(self._conn.adapters):
            rows = await self._execute(self._conn, call)

            async def known() -> list[Row]:
                return rows

            return known
        if not self._pipelined:
            await self._stack.enter_async_context(self._conn.pipeline())
            self._pipelined = True
        cursor = psycopg.AsyncCursor(self._conn, row_factory=dict_row)
        await cursor.execute(*_statement(call, self._database.schema), prepare=False, binary=True)
        return cursor.fetchall

    async def _wire_rows(self, conn: AsyncConnection, step: Wire) -> adapters.WireRows:
        async with psycopg.AsyncCursor(conn, row_factory=tuple_row) as cursor:
            adapters.leave_as_it_is(cursor.adapters)
            await self._send(cursor, write_statement(self._database.schema, step.name), step.arguments, binary=True)
            return adapters.WireRows(cursor, await cursor.fetchall())

    async def _send(
        self,
        cursor: psycopg.AsyncCursor[Any],
        statement: bytes,
        parameters: Mapping[str, Any] | None,
        *,
        binary: bool,
    ) -> None:
        try:
            may_prepare = self._database.may_prepare(cursor.connection)
            await cursor.execute(statement, parameters, prepare=may_prepare, binary=binary)
        except psycopg.Error as error:
            if not _was_stale(cursor.connection, error):
                raise
            await cursor.execute(statement, parameters, prepare=False, binary=binary)


def _statement(step: Call | Read | Write | Script, schema: str) -> tuple[bytes, Mapping[str, Any] | None]:
    match step:
        case Call():
            return call_statement(schema, step.function, tuple(step.arguments), step.lock_timeout), step.arguments
        case Read():
            return read_statement(schema, step.name), step.arguments
        case Write():
            return write_statement(schema, step.name), step.arguments
        case Script():
            return step.text.encode(), None


def _in_binary(step: Call | Read | Write | Script) -> bool:
    """Whether rows come in binary. As text they would depend on DateStyle, IntervalStyle, extra_float_digits, … of the session.
    A script may be several statements, which only the protocol that knows text alone takes at once."""
    return not isinstance(step, Script)


def _check_encoding(conn: SyncConnection | AsyncConnection) -> None:
    """Values are sent as UTF-8. A session that takes them for something else would store other characters."""
    encoding = conn.pgconn.parameter_status(b"client_encoding")
    if encoding not in (b"UTF8", None):
        raise InvalidOption(
            f"conn has the client_encoding {encoding.decode()}, and Howdah sends UTF-8. Nothing was written."
            " Connect with client_encoding=utf8, or run: SET client_encoding = 'UTF8'"
        )


async def _taken(step: Take) -> list[Any]:
    if not isinstance(step.source, AsyncIterator):
        return list(islice(step.source, step.count))
    items: list[Any] = []
    while len(items) < step.count:
        try:
            items.append(await anext(step.source))
        except StopAsyncIteration:
            break
    return items


def _can_be_repeated(step: Call | Read | Write | Script, error: psycopg.OperationalError) -> bool:
    """Whether to send a step once more after its connection was lost: only where that can do no harm."""
    if isinstance(error, psycopg_pool.PoolTimeout) or not is_outage(error):
        return False
    return isinstance(step, Read) or (isinstance(step, Call) and step.repeatable)


def _was_stale(conn: SyncConnection | AsyncConnection, error: psycopg.Error) -> bool:
    """Whether a statement was refused only because it had been prepared, and can be sent again. From now on, the
    connection prepares none."""
    if error.sqlstate not in _STALE or conn.prepare_threshold is None:
        return False
    conn.prepare_threshold = None
    return conn.pgconn.transaction_status == TransactionStatus.IDLE
