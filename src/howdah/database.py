"""Runs plans, blocking or awaiting, on pools of our own or on the caller's connection.

Pools are made when they are first needed: one for threads, one for each event loop, and new ones after
a fork, because a socket shared by two processes serves neither. The first use of a database looks at
its schema, so that a missing migration is said in words and not by a missing function.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import re
import threading
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from itertools import islice
from typing import Any, TypeVar, cast

import psycopg
import psycopg_pool
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row, tuple_row

from howdah import embedded, migrate, wire
from howdah.config import DEFAULT_SCHEMA, configured_dsn
from howdah.errors import (
    BY_SQLSTATE,
    DatabaseUnavailable,
    InvalidOption,
    NotPermitted,
    QueueClosed,
    SchemaError,
    SchemaMissing,
)
from howdah.plan import Ahead, Begin, Call, Pause, Plan, Read, Row, Script, Step, Take, Undo, Wire, read
from howdah.statements import call_statement, read_statement, roles_that_may_use

R = TypeVar("R")

SyncConnection = psycopg.Connection[Any]
AsyncConnection = psycopg.AsyncConnection[Any]
Loop = asyncio.AbstractEventLoop

PREPARE_AFTER = 2
"""Statements that a connection has sent so often are prepared: then they need not be parsed and planned again."""

# What a server says while it goes down, comes up or has no room; everything else is about the call.
_UNAVAILABLE = ("08", "53", "57P01", "57P02", "57P03", "58")
# The schema was migrated since the statement was prepared, or another backend is asked for it now.
_STALE = ("0A000", "26000", "42P05")
_DENIED = "42501"
_NOT_INSTALLED = ("3F000", "42P01", "42883", "42703")


class Database:
    """The database of one queue."""

    def __init__(self, dsn: str | None, schema: str, *, pool_size: int, timeout: float) -> None:
        self.schema = schema
        self.configured = configured_dsn(dsn)
        self._pool_size = pool_size
        self._timeout = timeout
        self._lock = threading.RLock()
        self._ready_dsn: str | None = None
        self._prepares = False
        self._closed = False
        self._pools = _Pools()
        _databases.add(self)

    def elsewhere(self, dsn: str | None, schema: str) -> Database:
        """The same settings, for another place."""
        return Database(dsn, schema, pool_size=self._pool_size, timeout=self._timeout)

    def may_prepare(self, conn: SyncConnection | AsyncConnection) -> bool | None:
        """As psycopg takes it: never, or as often as the connection says. Not where it could not be sent again."""
        can_be_repeated = conn.autocommit and conn.pgconn.transaction_status == TransactionStatus.IDLE
        return None if self._prepares and can_be_repeated else False

    def prepare(self) -> None:
        """Looks at the database, as the first use of it does: raises what tells the user which command to run."""
        self._ready()

    def look_after_embedded(self) -> None:
        """Installs the schema, or brings it up to date, where nobody else would: the embedded server is ours alone."""
        if self.configured is None:
            with suppress(SchemaError):
                self._ready()

    # Plans

    def run(self, plan: Plan[R], conn: object = None) -> R:
        """Runs a plan to its end and returns what it returns."""
        if conn is not None and not isinstance(conn, psycopg.Connection):
            raise InvalidOption(
                f"conn is a psycopg.Connection here, not {type(conn).__name__}: use the a… verb for async"
            )
        theirs: list[Exception] = []
        try:
            return self._run(plan, conn, theirs)
        except psycopg.errors.ReadOnlySqlTransaction as error:
            if conn is not None or _is_one_of(theirs, error):
                raise
            self.pool().drain()
            raise _is_read_only(error) from error

    def _run(self, plan: Plan[R], conn: SyncConnection | None, theirs: list[Exception]) -> R:
        """theirs: where errors are noted that are not the database's, but come of what the caller gave to the plan."""
        with _translated(self.schema, theirs), ExitStack() as stack:
            session = _SyncSession(self, conn, stack)
            answer, failure = None, None
            while True:
                try:
                    step = plan.throw(failure) if failure else plan.send(answer)
                except StopIteration as end:
                    return cast(R, end.value)
                except psycopg.Error as error:
                    if error is not failure:
                        theirs.append(error)
                    raise
                try:
                    answer, failure = session.answer(step), None
                except Exception as error:  # noqa: BLE001
                    failure = error
                    if isinstance(step, Take):
                        theirs.append(error)

    async def arun(self, plan: Plan[R], conn: object = None) -> R:
        """``run``, awaiting."""
        if conn is not None and not isinstance(conn, psycopg.AsyncConnection):
            raise InvalidOption(
                f"conn is a psycopg.AsyncConnection here, not {type(conn).__name__}: use the verb without a…"
            )
        theirs: list[Exception] = []
        try:
            return await self._arun(plan, conn, theirs)
        except psycopg.errors.ReadOnlySqlTransaction as error:
            if conn is not None or _is_one_of(theirs, error):
                raise
            await (await self.apool()).drain()
            raise _is_read_only(error) from error

    async def _arun(self, plan: Plan[R], conn: AsyncConnection | None, theirs: list[Exception]) -> R:
        with _translated(self.schema, theirs):
            async with AsyncExitStack() as stack:
                session = _AsyncSession(self, conn, stack)
                answer, failure = None, None
                while True:
                    try:
                        step = plan.throw(failure) if failure else plan.send(answer)
                    except StopIteration as end:
                        return cast(R, end.value)
                    except psycopg.Error as error:
                        if error is not failure:
                            theirs.append(error)
                        raise
                    try:
                        answer, failure = await _not_deaf(session.answer(step)), None
                    except Exception as error:  # noqa: BLE001
                        failure = error
                        if isinstance(step, Take):
                            theirs.append(error)

    # Connections

    def dsn(self) -> str:
        """Where the database is. Starts the embedded one if that is it."""
        return self.configured or embedded.join().dsn

    def connect(self, dsn: str) -> SyncConnection:
        with _translated(self.schema):
            return psycopg.connect(dsn, **self._connection_options(dsn))

    async def aconnect(self) -> AsyncConnection:
        # Off the loop, because this may start a server.
        dsn = await asyncio.to_thread(self.dsn) if self.configured is None else self.configured
        with _translated(self.schema):
            return await psycopg.AsyncConnection.connect(dsn, **self._connection_options(dsn))

    def pool(self) -> psycopg_pool.ConnectionPool[SyncConnection]:
        with self._lock:
            dsn = self._ready()
            if self._pools.sync is None:
                self._pools.sync = psycopg_pool.ConnectionPool(dsn, open=True, **self._pool_options(dsn))
            return self._pools.sync

    async def apool(self) -> psycopg_pool.AsyncConnectionPool[AsyncConnection]:
        # Off the loop, because the first look at a database may start one.
        dsn = self._ready_dsn if self._is_ready() else await asyncio.to_thread(self._ready)
        loop = asyncio.get_running_loop()
        if loop not in self._pools.by_loop:
            self._pools.let_go()
            opened = self._pools.connections[loop] = weakref.WeakSet()

            async def remember(conn: AsyncConnection) -> None:
                opened.add(conn)

            self._pools.by_loop[loop] = psycopg_pool.AsyncConnectionPool(
                dsn or "", open=False, configure=remember, **self._pool_options(dsn or "")
            )
            self._pools.guards[loop] = loop.create_task(_close_with_its_loop(self._pools, loop))
        pool = self._pools.by_loop[loop]
        await pool.open()
        return pool

    def close(self) -> None:
        with self._lock:
            self._closed = True
            pool, self._pools.sync = self._pools.sync, None
            if self._pools.pid == os.getpid():
                self._pools.let_go()
        if pool is not None and self._pools.pid == os.getpid():
            pool.close()

    async def aclose(self) -> None:
        loop = asyncio.get_running_loop()
        pool, guard = self._pools.by_loop.pop(loop, None), self._pools.guards.pop(loop, None)
        if guard is not None:
            guard.cancel()
        if pool is not None:
            await pool.close()
        await asyncio.to_thread(self.close)

    def _pool_options(self, dsn: str) -> dict[str, Any]:
        return {
            "kwargs": self._connection_options(dsn),
            "min_size": 0,
            "max_size": self._pool_size,
            "timeout": self._timeout,
            # The pool tries ever more rarely: a request that comes after a long outage must not wait for its next try.
            "reconnect_timeout": self._timeout,
            "name": "howdah",
        }

    def _connection_options(self, dsn: str) -> dict[str, Any]:
        """What we set where the DSN does not: above all, that a silent network is noticed within half a minute."""
        defaults = {
            "fallback_application_name": "howdah",
            "connect_timeout": 10,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 30_000,
        }
        given = conninfo_to_dict(dsn)
        ours = {name: value for name, value in defaults.items() if name not in given}
        return {
            "autocommit": True,
            "context": wire.Adapted,
            "prepare_threshold": PREPARE_AFTER if self._prepares else None,
            **ours,
        }

    def _is_ready(self) -> bool:
        return self._ready_dsn is not None and not self._closed and self._pools.pid == os.getpid()

    def _ready(self) -> str:
        """The DSN, once what it leads to has been looked at."""
        with self._lock:
            if self._closed:
                raise QueueClosed()
            if self._pools.pid != os.getpid():
                self._pools = _Pools(inherited=self._pools)
            if self._ready_dsn is None:
                dsn = self.dsn()
                with self.connect(dsn) as conn:
                    # An embedded server is ours alone: nobody else would migrate it. But a schema that was
                    # named may be misspelt.
                    if self.configured is None and self.schema == DEFAULT_SCHEMA:
                        self.run(migrate.migrate(self.schema), conn)
                    self.run(migrate.check_version(self.schema), conn)
                    self._prepares = self.reaches_its_backend(conn)
                self._ready_dsn = dsn
            return self._ready_dsn

    def reaches_its_backend(self, conn: SyncConnection) -> bool:
        """Whether no pooler is in between: one may give each transaction to another backend, where nothing is prepared.

        A pooler makes up the process id by which a client may cancel what it asked for.
        """
        (row,) = self.run(read("backend"), conn)
        return bool(row["pid"] == conn.info.backend_pid)


_databases: weakref.WeakSet[Database] = weakref.WeakSet()


def _renew_locks() -> None:
    # A thread that held one of them does not exist in the child, and will never let it go.
    for database in _databases:
        database._lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_locks)


@atexit.register
def _close_all() -> None:
    # A pool that is still open when the interpreter ends waits in vain for its threads, five seconds each.
    for database in list(_databases):
        database.close()


class _Pools:
    """The pools of one process."""

    def __init__(self, inherited: _Pools | None = None) -> None:
        self.pid = os.getpid()
        self.sync: psycopg_pool.ConnectionPool[SyncConnection] | None = None
        self.by_loop: dict[Loop, psycopg_pool.AsyncConnectionPool[AsyncConnection]] = {}
        self.guards: dict[Loop, asyncio.Task[None]] = {}
        self.connections: dict[Loop, weakref.WeakSet[AsyncConnection]] = {}
        # A parent's pools are kept from the garbage collector: to close them would close them for the parent.
        self._inherited = inherited

    def let_go(self) -> None:
        """Ends the connections of loops that have ended: nobody can await their pools' closing any more."""
        for loop in [each for each in list(self.by_loop) if each.is_closed()]:
            self.by_loop.pop(loop, None)
            self.guards.pop(loop, None)
            for conn in self.connections.pop(loop, ()):
                conn.pgconn.finish()


async def _not_deaf(answer: Awaitable[R]) -> R:
    """Awaits; and if the task was cancelled meanwhile, it is.

    Until Python 3.12, ``asyncio.wait_for``, by which the driver waits, forgets a cancellation that comes together with
    the answer.
    """
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    answered = await answer
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError
    return answered


async def _close_with_its_loop(pools: _Pools, loop: Loop) -> None:
    """Who ends its loop without ``aclose`` cancels all tasks, and waits for them. A pool's would not end by that, if
    they are just making a connection: they take it for one that failed. Who cancels all tasks for another reason gets
    a new pool with the next verb."""
    try:
        await loop.create_future()
    finally:
        pool = pools.by_loop.pop(loop, None)
        if pool is not None:
            with suppress(Exception, asyncio.CancelledError):
                await pool.close(timeout=1)


class _SyncSession:
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
            case Call() | Read() | Script():
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

    def _rows(self, step: Call | Read | Script) -> list[Row]:
        if self._conn is not None:
            return self._execute(self._conn, step)
        pool = self._database.pool()
        try:
            return self._borrow(pool, step)
        except psycopg.OperationalError as error:
            again = _repeated(step, error)
            if again is None:
                raise
            pool.check()
            return self._borrow(pool, again)

    def _borrow(self, pool: psycopg_pool.ConnectionPool[SyncConnection], step: Call | Read | Script) -> list[Row]:
        # Not as a context: that would also look for a transaction to commit, and each step is one of its own.
        conn = pool.getconn()
        try:
            return self._execute(conn, step)
        finally:
            pool.putconn(conn)

    def _send_ahead(self, call: Call) -> Callable[[], list[Row]]:
        assert self._conn is not None
        if not wire.is_adapted(self._conn.adapters):
            # Somebody else's, who may be in the middle of anything.
            rows = self._execute(self._conn, call)
            return lambda: rows
        if not self._pipelined:
            self._stack.enter_context(self._conn.pipeline())
            self._pipelined = True
        cursor = psycopg.Cursor(self._conn, row_factory=dict_row)
        return cursor.execute(*_statement(call, self._database.schema), prepare=False).fetchall

    def _execute(self, conn: SyncConnection, step: Call | Read | Script) -> list[Row]:
        statement, parameters = _statement(step, self._database.schema)
        with psycopg.Cursor(conn, row_factory=dict_row) as cursor:
            if not wire.is_adapted(conn.adapters):
                wire.adapt(cursor.adapters)
            try:
                cursor.execute(statement, parameters, prepare=self._database.may_prepare(conn))
            except psycopg.Error as error:
                if not _was_stale(conn, error):
                    raise
                cursor.execute(statement, parameters, prepare=False)
            return [] if cursor.rownumber is None else cursor.fetchall()


class _AsyncSession:
    """``_SyncSession``, awaiting."""

    def __init__(self, database: Database, conn: AsyncConnection | None, stack: AsyncExitStack) -> None:
        self._database = database
        self._conn = conn
        self._stack = stack
        self._begun = AsyncExitStack()
        self._pipelined = False
        self._sent: Callable[[], Awaitable[list[Row]]] | None = None

    async def answer(self, step: Step) -> Any:
        match step:
            case Call() | Read() | Script():
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

    async def _rows(self, step: Call | Read | Script) -> list[Row]:
        if self._conn is not None:
            return await self._execute(self._conn, step)
        pool = await self._database.apool()
        try:
            return await self._borrow(pool, step)
        except psycopg.OperationalError as error:
            again = _repeated(step, error)
            if again is None:
                raise
            await pool.check()
            return await self._borrow(pool, again)

    async def _borrow(
        self, pool: psycopg_pool.AsyncConnectionPool[AsyncConnection], step: Call | Read | Script
    ) -> list[Row]:
        conn = await pool.getconn()
        try:
            return await self._execute(conn, step)
        finally:
            await pool.putconn(conn)

    async def _execute(self, conn: AsyncConnection, step: Call | Read | Script) -> list[Row]:
        statement, parameters = _statement(step, self._database.schema)
        async with psycopg.AsyncCursor(conn, row_factory=dict_row) as cursor:
            if not wire.is_adapted(conn.adapters):
                wire.adapt(cursor.adapters)
            await self._send(cursor, statement, parameters)
            return [] if cursor.rownumber is None else await cursor.fetchall()

    async def _send_ahead(self, call: Call) -> Callable[[], Awaitable[list[Row]]]:
        assert self._conn is not None
        if not wire.is_adapted(self._conn.adapters):
            rows = await self._execute(self._conn, call)

            async def known() -> list[Row]:
                return rows

            return known
        if not self._pipelined:
            await self._stack.enter_async_context(self._conn.pipeline())
            self._pipelined = True
        cursor = psycopg.AsyncCursor(self._conn, row_factory=dict_row)
        await cursor.execute(*_statement(call, self._database.schema), prepare=False)
        return cursor.fetchall

    async def _wire_rows(self, conn: AsyncConnection, step: Wire) -> wire.WireRows:
        async with psycopg.AsyncCursor(conn, row_factory=tuple_row) as cursor:
            wire.leave_as_it_is(cursor.adapters)
            await self._send(cursor, read_statement(self._database.schema, step.name), step.arguments, binary=True)
            return wire.WireRows(cursor, await cursor.fetchall())

    async def _send(
        self,
        cursor: psycopg.AsyncCursor[Any],
        statement: bytes,
        parameters: Mapping[str, Any] | None,
        *,
        binary: bool = False,
    ) -> None:
        try:
            may_prepare = self._database.may_prepare(cursor.connection)
            await cursor.execute(statement, parameters, prepare=may_prepare, binary=binary)
        except psycopg.Error as error:
            if not _was_stale(cursor.connection, error):
                raise
            await cursor.execute(statement, parameters, prepare=False, binary=binary)


def _statement(step: Call | Read | Script, schema: str) -> tuple[bytes, Mapping[str, Any] | None]:
    match step:
        case Call():
            return call_statement(schema, step.function, tuple(step.arguments)), step.arguments
        case Read():
            return read_statement(schema, step.name), step.arguments
        case Script():
            return step.text.encode(), None


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


def _repeated(step: Call | Read | Script, error: psycopg.OperationalError) -> Call | Read | None:
    """The step to send once more after its connection was lost, if that can do no harm."""
    if isinstance(error, psycopg_pool.PoolTimeout) or not _is_outage(error):
        return None
    if isinstance(step, Read):
        return step
    if isinstance(step, Call) and step.repeat is not None:
        return Call(step.function, {**step.arguments, **step.repeat}, step.repeat)
    return None


def _was_stale(conn: SyncConnection | AsyncConnection, error: psycopg.Error) -> bool:
    """Whether a statement was refused only because it had been prepared, and can be sent again. From now on, the
    connection prepares none."""
    if error.sqlstate not in _STALE or conn.prepare_threshold is None:
        return False
    conn.prepare_threshold = None
    return conn.pgconn.transaction_status == TransactionStatus.IDLE


def _is_outage(error: psycopg.Error) -> bool:
    return isinstance(error, psycopg.OperationalError) and (error.sqlstate or "08").startswith(_UNAVAILABLE)


def _is_one_of(errors: Sequence[Exception], error: Exception) -> bool:
    return any(error is each for each in errors)


def _is_read_only(error: psycopg.Error) -> DatabaseUnavailable:
    """What was the primary may be a standby by now; a new connection may find the one that took over."""
    return DatabaseUnavailable(f"the server is read-only, as after a failover: {error.diag.message_primary}")


@contextmanager
def _translated(schema: str, theirs: Sequence[Exception] = ()) -> Iterator[None]:
    """The driver's errors as ours. What is neither an outage nor ours (a deadlock, say) passes as it is."""
    try:
        yield
    except psycopg_pool.PoolClosed as error:
        raise QueueClosed() from error
    except psycopg.Error as error:
        ours = error if _is_one_of(theirs, error) else _translation(error, schema)
        if ours is error:
            raise
        raise ours from error


def _translation(error: psycopg.Error, schema: str) -> Exception:
    state = error.sqlstate or ""
    message = error.diag.message_primary or str(error)
    if state in BY_SQLSTATE:
        hint = f" {error.diag.message_hint}" if error.diag.message_hint else ""
        return BY_SQLSTATE[state](f"{message}.{hint}" if hint else message)
    if _is_outage(error):
        return DatabaseUnavailable(f"the database {_trouble(state, message)}: {message.strip()}")
    if state == _DENIED:
        return NotPermitted(f"{message}. {_who_may(message, schema)}")
    if state in _NOT_INSTALLED:
        return SchemaMissing(
            f"Howdah is not installed in schema {schema} of this database, or another version of it is ({message})."
            f" Run: {migrate.command(schema)}"
        )
    return error


def _trouble(state: str, message: str) -> str:
    if state.startswith(("53", "58")):
        return "cannot do it now"
    # While it connects, libpq knows no SQLSTATE; but who says FATAL is there, and does not want us.
    return "refused the connection" if not state and "FATAL:" in message else "cannot be reached, or went away"


def _who_may(denied: str, schema: str) -> str:
    # Whatever the server's language, what was denied is named in the message, and mostly at its end.
    named = (roles_that_may_use(name, schema) for name in reversed(re.findall("[a-z0-9_]+", denied)))
    roles = " or ".join(next(filter(None, named), ()))
    command = f"{migrate.command(schema)} --roles"
    if not roles:
        return f"This login needs a role that may, of those that {command} makes"
    return f"This login needs the role {roles}, which {command} makes"
