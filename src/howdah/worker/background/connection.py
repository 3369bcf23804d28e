"""Links: the worker's own connections, apart from the pool that handlers may use up.

A link that is lost is opened again when it is next used. Where the server has no room for it, another of the worker's
does its work meanwhile: many workers with some of their links each would otherwise all wait for the rest. An outage is
said once, and its end once, however many links it cuts.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import TypeVar

import psycopg

from howdah.db.database import AsyncConnection, Database
from howdah.db.outage import Backoff, Locked, Outage, is_cut_short, is_temporary
from howdah.db.plan import Plan
from howdah.errors import DatabaseUnavailable

R = TypeVar("R")

# What another connection may find otherwise: the primary may be another server by now.
_ELSEWHERE = ("25006", "53", "57P", "58")


class Link:
    """One connection, used by one plan at a time."""

    def __init__(self, database: Database, outage: Outage) -> None:
        self._database = database
        self._outage = outage
        self._lock = asyncio.Lock()
        self._conn: AsyncConnection | None = None
        self._backoff = Backoff()
        self._try_at = float("-inf")
        self.others: Sequence[Link] = ()
        """Those of the same worker, which stand in for this one."""
        self.generation = 0
        """Grows with each new connection: what a session holds (locks) is gone with the old one."""

    async def run(self, plan: Plan[R]) -> R:
        """Runs a plan. Raises DatabaseUnavailable in an outage; the next call tries again. A statement that the server has
        cut short raises the driver's error."""
        async with self._lock:
            if (other := await self._other_if_lost()) is None:
                return await self._run(plan)
        return await other.run(plan)

    async def run_here(self, plan: Plan[R]) -> R | None:
        """Runs a plan about what this very session holds, for which no other can stand in. None: it is not open."""
        async with self._lock:
            return await self._run(plan) if self.is_open else None

    async def _other_if_lost(self) -> Link | None:
        """Another that is open, if this one is not and cannot be opened."""
        other = None if self.is_open else next((each for each in self.others if each.is_open), None)
        if other is not None and time.monotonic() >= self._try_at:
            try:
                await self._connected()
            except DatabaseUnavailable:
                self._try_at = time.monotonic() + self._backoff.next()
            else:
                self._backoff.reset()
                return None
        return other

    async def _run(self, plan: Plan[R]) -> R:
        try:
            conn = await self._connected()
            answer = await self._database.arun(plan, conn)
        except DatabaseUnavailable as error:
            self._outage.began(error)
            await self._drop()
            raise
        except psycopg.errors.LockNotAvailable as error:
            await self._drop_if_broken()
            raise Locked(error) from error
        except psycopg.Error as error:
            await self._drop_if_broken()
            # The server is there; whoever asked may ask for less.
            if is_cut_short(error) or not is_temporary(error):
                raise
            if (error.sqlstate or "").startswith(_ELSEWHERE):
                await self._drop()
                self._outage.began(error)
            raise DatabaseUnavailable(f"the database could not do it now: {error}") from error
        except BaseException:
            await self._drop_if_broken()
            raise
        self._outage.ended()
        return answer

    @property
    def is_open(self) -> bool:
        return self._conn is not None and not self._conn.closed

    async def open(self) -> None:
        """Connects, if it is not. Raises DatabaseUnavailable."""
        async with self._lock:
            await self._connected()

    async def close(self) -> None:
        async with self._lock:
            await self._drop()

    async def _connected(self) -> AsyncConnection:
        if self._conn is None or self._conn.closed:
            self._conn = await self._database.aconnect()
            self.generation += 1
        return self._conn

    async def _drop_if_broken(self) -> None:
        # A connection that was interrupted in the middle of a call is not in a state to be used again.
        if self._conn is not None and (self._conn.broken or self._conn.pgconn.transaction_status != 0):
            await self._drop()

    async def _drop(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            with contextlib.suppress(Exception):
                await conn.close()
