"""Runs plans, blocking or awaiting, on pools of our own or on the caller's connection.

Pools are made when they are first needed: one for threads, one for each event loop, and new ones after
a fork, because a socket shared by two processes serves neither. The first use of a database looks at
its schema, so that a missing migration is said in words and not by a missing function.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Awaitable
from contextlib import AsyncExitStack, ExitStack, suppress
from typing import Any, TypeVar, cast

import psycopg
import psycopg_pool
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from howdah.config import DEFAULT_SCHEMA, configured_dsn
from howdah.db import adapters, forks, migrate, pinned_settings
from howdah.db.error_mapping import is_one_of, read_only, translated
from howdah.db.plan import Plan, Take, read
from howdah.db.session import AsyncSession, SyncSession
from howdah.embedded.server import join
from howdah.errors import InvalidOption, QueueClosed, SchemaError

R = TypeVar("R")

SyncConnection = psycopg.Connection[Any]
AsyncConnection = psycopg.AsyncConnection[Any]
Loop = asyncio.AbstractEventLoop

PREPARE_AFTER = 2
"""Statements that a connection has sent so often are prepared: then they need not be parsed and planned again."""


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
            if conn is not None or is_one_of(theirs, error):
                raise
            self.pool().drain()
            raise read_only(error) from error

    def _run(self, plan: Plan[R], conn: SyncConnection | None, theirs: list[Exception]) -> R:
        """theirs: where errors are noted that are not the database's, but come of what the caller gave to the plan."""
        with translated(self.schema, theirs), ExitStack() as stack:
            session = SyncSession(self, conn, stack)
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
            # The end of the plan, too: that is when its transaction is committed and its connection goes back.
            return await _not_deaf(self._arun(plan, conn, theirs))
        except psycopg.errors.ReadOnlySqlTransaction as error:
            if conn is not None or is_one_of(theirs, error):
                raise
            await (await self.apool()).drain()
            raise read_only(error) from error

    async def _arun(self, plan: Plan[R], conn: AsyncConnection | None, theirs: list[Exception]) -> R:
        with translated(self.schema, theirs):
            async with AsyncExitStack() as stack:
                session = AsyncSession(self, conn, stack)
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
        return self.configured or join().dsn

    def connect(self, dsn: str) -> SyncConnection:
        with translated(self.schema):
            conn = psycopg.connect(dsn, **self._connection_options(dsn))
        conn.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        forks.keep_channel(conn)
        return conn

    async def aconnect(self) -> AsyncConnection:
        # Off the loop, because this may start a server.
        dsn = await asyncio.to_thread(self.dsn) if self.configured is None else self.configured
        with translated(self.schema):
            conn = await psycopg.AsyncConnection.connect(dsn, **self._connection_options(dsn))
        await conn.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)
        forks.keep_channel(conn)
        return conn

    def pool(self) -> psycopg_pool.ConnectionPool[SyncConnection]:
        with self._lock:
            dsn = self._ready()
            if self._pools.sync is None:
                self._pools.sync = psycopg_pool.ConnectionPool(
                    dsn, open=True, configure=forks.keep_channel, **self._pool_options(dsn)
                )
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
                forks.keep_channel(conn)

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
        """What we set where the DSN does not, above all, that a silent network is noticed within half a minute; and what
        we pin whatever it says."""
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
            "context": adapters.Adapted,
            "prepare_threshold": PREPARE_AFTER if self._prepares else None,
            # A pooler knows this one, too.
            "client_encoding": "UTF8",
            **(pinned_settings.startup_options(given) if self._prepares else {}),
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
    the answer, or with an error.
    """
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    try:
        return await answer
    finally:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError


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
