"""The worker's own connections, apart from the pool, which handlers may exhaust.

A lost connection is opened again when it is next used. If the server has no free slot for it, another connection of the
worker runs its calls meanwhile. Otherwise many workers with only some of their connections could all wait for the rest.
The log reports an outage once, and its end once, however many connections it cuts.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from typing import TypeVar

import psycopg

from howdah.db.database import AsyncConnection, Database
from howdah.db.outage import Backoff, Locked, Outage, is_cut_short, is_temporary
from howdah.db.plan import Plan
from howdah.errors import DatabaseUnavailable

log = logging.getLogger("howdah.worker")

MOST_WARNINGS = 1_000
"""How many warnings are remembered, so that none is logged by every sweep."""

R = TypeVar("R")

# SQLSTATEs that a new connection may not get: the primary may be another server by now.
_RECONNECT = ("25006", "53", "57P", "58")


class WorkerConnection:
    """One connection, used by one plan at a time."""

    def __init__(self, database: Database, outage: Outage) -> None:
        self._database = database
        self._outage = outage
        self._lock = asyncio.Lock()
        self._conn: AsyncConnection | None = None
        self._backoff = Backoff()
        self._try_at = float("-inf")
        self.others: Sequence[WorkerConnection] = ()
        """The other connections of this worker. They stand in for this one while it is lost."""
        self._warned: set[str] = set()
        self.generation = 0
        """Grows with each new connection. The locks of a session end with its connection."""

    async def run(self, plan: Plan[R]) -> R:
        """Run a plan. Raises DatabaseUnavailable in an outage; the next call tries again.

        A statement that the server cut short raises the driver's error.
        """
        async with self._lock:
            conn = self._conn
            if conn is not None and not conn.closed:
                return await self._run(conn, plan)
            if (other := await self._stand_in()) is None:
                return await self._run(None, plan)
        return await other.run(plan)

    async def run_here(self, plan: Plan[R]) -> R | None:
        """Run a plan about this session's own locks, on this connection only. None if it is not open."""
        async with self._lock:
            return await self._run(self._conn, plan) if self.is_open else None

    async def _stand_in(self) -> WorkerConnection | None:
        """Another open connection, if this one cannot be opened now."""
        other = next((each for each in self.others if each.is_open), None)
        if other is not None and time.monotonic() >= self._try_at:
            try:
                await self._connected()
            except DatabaseUnavailable:
                self._try_at = time.monotonic() + self._backoff.next()
            else:
                self._backoff.reset()
                return None
        return other

    async def _run(self, conn: AsyncConnection | None, plan: Plan[R]) -> R:
        try:
            answer = await self._database.arun(plan, conn or await self._connected())
        except DatabaseUnavailable as error:
            self._outage.began(error)
            await self._drop()
            raise
        except psycopg.errors.LockNotAvailable as error:
            await self._drop_if_broken()
            raise Locked(error) from error
        except psycopg.Error as error:
            await self._drop_if_broken()
            # The server is there; the caller may try a smaller statement.
            if is_cut_short(error) or not is_temporary(error):
                raise
            if (error.sqlstate or "").startswith(_RECONNECT):
                await self._drop()
                self._outage.began(error)
            raise DatabaseUnavailable(f"the database cannot do this now: {error}") from error
        except BaseException:
            await self._drop_if_broken()
            raise
        self._outage.ended()
        return answer

    @property
    def is_open(self) -> bool:
        return self._conn is not None and not self._conn.closed

    async def open(self) -> None:
        """Connect if necessary. Raises DatabaseUnavailable."""
        async with self._lock:
            await self._connected()

    async def close(self) -> None:
        async with self._lock:
            await self._drop()

    def _on_notice(self, notice: psycopg.errors.Diagnostic) -> None:
        """Log a warning of the database, such as one of the sweep about a job, once."""
        message = notice.message_primary or ""
        if notice.severity_nonlocalized == "WARNING" and message not in self._warned:
            if len(self._warned) >= MOST_WARNINGS:
                self._warned.clear()
            self._warned.add(message)
            log.warning("the database warns: %s", message, extra={"event": "database_warning"})

    async def _connected(self) -> AsyncConnection:
        if self._conn is None or self._conn.closed:
            self._conn = await self._database.aconnect()
            self._conn.add_notice_handler(self._on_notice)
            self.generation += 1
        return self._conn

    async def _drop_if_broken(self) -> None:
        # A connection that was interrupted in the middle of a call cannot be used again.
        if self._conn is not None and (self._conn.broken or self._conn.pgconn.transaction_status != 0):
            await self._drop()

    async def _drop(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            with contextlib.suppress(Exception):
                await conn.close()
