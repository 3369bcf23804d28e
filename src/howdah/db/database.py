"""Runs plans, blocking or awaiting, on pools of our own or on the caller's connection (of another driver: ``foreign``).

Pools are made when they are first needed: one for threads, one for each event loop, and new ones after a fork, because
two processes cannot share a socket. The first use of a database checks its schema: without a migration, the error says
which command to run, instead of naming a missing function.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Generator
from contextlib import closing, suppress
from typing import Any, TypeVar

import psycopg
import psycopg_pool
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import PipelineStatus, TransactionStatus

from howdah.config import DEFAULT_SCHEMA, configured_dsn
from howdah.db import adapters, foreign, forks, migrate, pinned_settings
from howdah.db.error_mapping import is_one_of, raise_mapped, read_only
from howdah.db.gathering import LoopGathering, ThreadGathering
from howdah.db.plan import Plan, read, until_emitted
from howdah.db.prepared import AsyncPoolConnection, PoolConnection
from howdah.db.session import AsyncSession, SyncSession, heed_cancellation
from howdah.embedded.server import has_joined, join, remark
from howdah.errors import DatabaseUnavailable, QueueClosed, SchemaError

R = TypeVar("R")

SyncConnection = psycopg.Connection[Any]
AsyncConnection = psycopg.AsyncConnection[Any]
Loop = asyncio.AbstractEventLoop

PREPARE_AFTER = 2
"""A connection prepares a statement after so many times, which saves its parsing and planning."""


class Database:
    """The database of one queue."""

    def __init__(self, dsn: str | None, schema: str, *, pool_size: int, timeout: float) -> None:
        self.schema = schema
        self.configured = configured_dsn(dsn)
        self._pool_size = pool_size
        self.timeout = timeout
        self.keeps_connections = True
        """Whether the pool keeps connections that nothing uses at the moment."""
        self._lock = threading.RLock()
        self._ready_dsn: str | None = None
        self._prepares = False
        self._closed = False
        self._pools = _Pools(self)
        _databases.add(self)

    def elsewhere(self, dsn: str | None, schema: str) -> Database:
        """The same settings, for another database or schema."""
        return Database(dsn, schema, pool_size=self._pool_size, timeout=self.timeout)

    def may_prepare(self, conn: SyncConnection | AsyncConnection) -> bool | None:
        """The argument ``prepare`` of psycopg: None: as the connection has it; False: never. False if it could not be sent again."""
        can_be_repeated = (
            conn.autocommit
            and conn.pgconn.transaction_status == TransactionStatus.IDLE
            and conn.pgconn.pipeline_status == PipelineStatus.OFF
        )
        return None if self._prepares and can_be_repeated else False

    def prepare(self) -> None:
        """Checks the schema, as the first use does. Raises an error that says which command to run."""
        self._ready()

    def look_after_embedded(self) -> None:
        """Installs or upgrades the schema of the embedded server, which no administrator migrates."""
        if self.configured is None and self._ready_dsn is None:
            with suppress(SchemaError, DatabaseUnavailable, QueueClosed):
                self._ready()

    def look_after_callers(self) -> None:
        """Before a verb on the caller's connection, which may be one to the embedded server. It is not started for that."""
        if self.configured is None and self._ready_dsn is None and has_joined():
            self.look_after_embedded()

    async def alook_after_callers(self) -> None:
        """``look_after_callers``, awaiting."""
        if self.configured is None and self._ready_dsn is None and has_joined():
            await asyncio.to_thread(self.look_after_embedded)

    # Plans

    def run(self, plan: Plan[R], conn: object = None) -> R:
        """Runs a plan to its end and returns what it returns. conn: the caller's connection, instead of one of the pool."""
        if conn is not None and not isinstance(conn, psycopg.Connection):
            return foreign.run_blocking(self, plan, conn)
        session = SyncSession(self, conn)
        try:
            return session.run(plan)
        except psycopg.Error as error:
            if is_one_of(session.caller_errors, error):
                raise
            if conn is None and isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
                self.pool().drain()
                raise read_only(error) from error
            raise_mapped(error, self.schema)

    async def arun(self, plan: Plan[R], conn: object = None) -> R:
        """``run``, awaiting."""
        if conn is not None and not isinstance(conn, psycopg.AsyncConnection):
            return await foreign.run_awaiting(self, plan, conn)
        session = AsyncSession(self, conn)
        try:
            # The end of the plan, too: there its transaction is committed, and its connection goes back to the pool.
            return await heed_cancellation(session.run(plan))
        except psycopg.Error as error:
            if is_one_of(session.caller_errors, error):
                raise
            if conn is None and isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
                await (await self.apool()).drain()
                raise read_only(error) from error
            raise_mapped(error, self.schema)

    def stream(self, plan: Plan[None]) -> Generator[Any, None, None]:
        """The values that a plan emits, one by one. The plan is closed with the iterator."""
        with closing(plan):
            while (emitted := self.run(until_emitted(plan))) is not None:
                yield from emitted.values

    async def astream(self, plan: Plan[None]) -> AsyncGenerator[Any, None]:
        """``stream``, awaiting."""
        with closing(plan):
            while (emitted := await self.arun(until_emitted(plan))) is not None:
                for value in emitted.values:
                    yield value

    # Connections

    def dsn(self) -> str:
        """Where the database is. Starts the embedded server if that is it."""
        return self.configured or join().dsn

    def dsn_for_others(self) -> str:
        """For connections of the caller's own, with any driver. The embedded server has its schema then."""
        if self.configured is not None:
            return self.configured
        server = join()
        self.look_after_embedded()
        return server.portable_dsn

    def connect(self, dsn: str) -> SyncConnection:
        try:
            conn = psycopg.connect(dsn, **self._connection_options(dsn))
        except psycopg.Error as error:
            raise_mapped(error, self.schema)
        conn.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        forks.keep_channel(conn)
        return conn

    async def aconnect(self) -> AsyncConnection:
        # Off the loop, because this may start a server.
        dsn = await asyncio.to_thread(self.dsn) if self.configured is None else self.configured
        try:
            conn = await psycopg.AsyncConnection.connect(dsn, **self._connection_options(dsn))
        except psycopg.Error as error:
            raise_mapped(error, self.schema)
        await conn.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)
        forks.keep_channel(conn)
        return conn

    def pool(self) -> psycopg_pool.ConnectionPool[SyncConnection]:
        pools = self._pools
        if pools.sync is not None and pools.pid == os.getpid():
            return pools.sync
        with self._lock:
            dsn = self._ready()
            if self._pools.sync is None:
                kind = psycopg_pool.ConnectionPool if self.keeps_connections else psycopg_pool.NullConnectionPool
                self._pools.sync = kind(
                    dsn,
                    open=True,
                    connection_class=PoolConnection,
                    configure=forks.keep_channel,
                    **self._pool_options(dsn),
                )
            return self._pools.sync

    async def apool(self) -> psycopg_pool.AsyncConnectionPool[AsyncConnection]:
        # Off the loop, because the first look at a database may start one.
        dsn = self._ready_dsn if self._is_ready() else await asyncio.to_thread(self._ready)
        loop = asyncio.get_running_loop()
        if loop not in self._pools.by_loop:
            self._pools.drop_closed_loops()
            opened = self._pools.connections[loop] = weakref.WeakSet()

            async def remember(conn: AsyncConnection) -> None:
                opened.add(conn)
                forks.keep_channel(conn)

            self._pools.by_loop[loop] = psycopg_pool.AsyncConnectionPool(
                dsn or "",
                open=False,
                connection_class=AsyncPoolConnection,
                configure=remember,
                **self._pool_options(dsn or ""),
            )
            self._pools.guards[loop] = loop.create_task(_close_with_its_loop(self._pools, loop))
        pool = self._pools.by_loop[loop]
        if pool.closed:
            await pool.open()
        return pool

    def gathering(self) -> ThreadGathering:
        """What gathers the calls of threads."""
        return self._own_pools().gathering

    def loop_gathering(self) -> LoopGathering:
        """What gathers the calls of the running loop."""
        loop, gatherings = asyncio.get_running_loop(), self._own_pools().loop_gatherings
        return gatherings.get(loop) or gatherings.setdefault(loop, LoopGathering(self, loop))

    def reopen(self) -> None:
        """Allows its use after ``close``. The schema is checked again: another version may have been installed meanwhile."""
        with self._lock:
            if self._closed:
                self._closed, self._ready_dsn = False, None

    def close(self) -> None:
        with self._lock:
            self._closed = True
            pool, self._pools.sync = self._pools.sync, None
            if self._pools.pid == os.getpid():
                self._pools.drop_closed_loops()
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
            "timeout": self.timeout,
            # The pool's pauses between tries grow: a request after a long outage must not wait for its next try.
            "reconnect_timeout": self.timeout,
            "name": "howdah",
        }

    def _connection_options(self, dsn: str) -> dict[str, Any]:
        """Defaults for what the DSN does not set, and what is pinned over it. With these defaults, a lost network is
        noticed within half a minute."""
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
            # A pooler accepts this one, too.
            "client_encoding": "UTF8",
            **(pinned_settings.startup_options(given) if self._prepares else {}),
            **ours,
        }

    def _own_pools(self) -> _Pools:
        """The pools of this process."""
        if self._pools.pid != os.getpid():
            with self._lock:
                if self._pools.pid != os.getpid():
                    self._pools = _Pools(self, inherited=self._pools)
        return self._pools

    def _is_ready(self) -> bool:
        return self._ready_dsn is not None and not self._closed and self._pools.pid == os.getpid()

    def _ready(self) -> str:
        """The DSN, once its schema has been checked."""
        with self._lock:
            if self._closed:
                raise QueueClosed()
            self._own_pools()
            if self._ready_dsn is None:
                dsn = self.dsn()
                with self.connect(dsn) as conn:
                    if self.configured is None:
                        self._migrate_embedded(conn)
                    self.run(migrate.check_version(self.schema), conn)
                    self._prepares = self.reaches_its_backend(conn)
                self._ready_dsn = dsn
            return self._ready_dsn

    def _migrate_embedded(self, conn: SyncConnection) -> None:
        """No administrator migrates an embedded server. A schema that was named may be misspelt, so its installation is told."""
        migration = self.run(migrate.migrate(self.schema), conn)
        if not migration.before and self.schema != DEFAULT_SCHEMA:
            remark(f"howdah: installed the schema {self.schema} in the embedded PostgreSQL")

    def reaches_its_backend(self, conn: SyncConnection) -> bool:
        """Whether there is no pooler in between: a pooler may send each transaction to another backend, where nothing is
        prepared. It also makes up the process id that a client uses to cancel a statement, and so gives itself away.
        """
        (row,) = self.run(read("backend"), conn)
        return bool(row["pid"] == conn.info.backend_pid)


_databases: weakref.WeakSet[Database] = weakref.WeakSet()


def _renew_locks() -> None:
    # A thread that held a lock does not exist in the child, and never releases it.
    for database in _databases:
        database._lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_locks)


@atexit.register
def _close_all() -> None:
    # A pool that is open when the interpreter ends waits five seconds for each of its threads.
    for database in list(_databases):
        database.close()


class _Pools:
    """The pools of one process, and what gathers its calls."""

    def __init__(self, database: Database, inherited: _Pools | None = None) -> None:
        self.pid = os.getpid()
        self.gathering = ThreadGathering(database)
        self.loop_gatherings: dict[Loop, LoopGathering] = {}
        self.sync: psycopg_pool.ConnectionPool[SyncConnection] | None = None
        self.by_loop: dict[Loop, psycopg_pool.AsyncConnectionPool[AsyncConnection]] = {}
        self.guards: dict[Loop, asyncio.Task[None]] = {}
        self.connections: dict[Loop, weakref.WeakSet[AsyncConnection]] = {}
        # Keeps the parent's pools from the garbage collector, which would close their connections for the parent, too.
        self._inherited = inherited

    def drop_closed_loops(self) -> None:
        """Ends the connections of closed loops: their pools cannot be awaited any more."""
        for loop in [each for each in list(self.loop_gatherings) if each.is_closed()]:
            self.loop_gatherings.pop(loop, None)
        for loop in [each for each in list(self.by_loop) if each.is_closed()]:
            self.by_loop.pop(loop, None)
            self.guards.pop(loop, None)
            for conn in self.connections.pop(loop, ()):
                conn.pgconn.finish()


async def _close_with_its_loop(pools: _Pools, loop: Loop) -> None:
    """Closes the pool when its loop shuts down: asyncio.run() then cancels all tasks, and waits for them.

    A pool's tasks swallow the cancellation while they connect, so that asyncio.run() would hang on them. If all tasks
    are cancelled for another reason, the next verb makes a new pool.
    """
    try:
        await loop.create_future()
    finally:
        pool = pools.by_loop.pop(loop, None)
        if pool is not None:
            with suppress(Exception, asyncio.CancelledError):
                await pool.close(timeout=1)
