"""Links: the worker's own connections, apart from the pool that handlers may use up.

A link that is lost is opened again when it is next used. An outage is said once, and its end once,
however many links it cuts.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from typing import TypeVar

import psycopg

from howdah.database import AsyncConnection, Database
from howdah.errors import DatabaseUnavailable
from howdah.plan import Plan

log = logging.getLogger("howdah.worker")

R = TypeVar("R")

# Deadlocks, timeouts, no room, a server that has become read-only: nothing is wrong with the call itself.
_TEMPORARY = ("25006", "40", "53", "55P03", "57", "58")
# Of these, what another connection may find otherwise: the primary may be another server by now.
_ELSEWHERE = ("25006", "53", "57P", "58")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


class Outage:
    """Whether the database can be reached, as far as this worker knows."""

    def __init__(self) -> None:
        self.since: float | None = None

    def began(self, error: BaseException) -> None:
        if self.since is None:
            self.since = time.monotonic()
            log.warning("%s; trying again until it is back", error, extra={"event": "database_lost"})

    def ended(self) -> None:
        if self.since is not None:
            lasted, self.since = time.monotonic() - self.since, None
            log.warning("the database is back after %.1f s", lasted, extra={"event": "database_back"})


class Backoff:
    """Pauses that grow with each failure, never the same for two workers."""

    def __init__(self, longest: float = _LONGEST_PAUSE) -> None:
        self._longest = longest
        self._pause = _FIRST_PAUSE

    def next(self) -> float:
        pause, self._pause = self._pause, min(self._pause * 2, self._longest)
        return pause * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        self._pause = _FIRST_PAUSE


class Link:
    """One connection, used by one plan at a time."""

    def __init__(self, database: Database, outage: Outage) -> None:
        self._database = database
        self._outage = outage
        self._lock = asyncio.Lock()
        self._conn: AsyncConnection | None = None
        self.generation = 0
        """Grows with each new connection: what a session holds (locks) is gone with the old one."""

    async def run(self, plan: Plan[R]) -> R:
        """Runs a plan. Raises DatabaseUnavailable in an outage; the next call tries again."""
        async with self._lock:
            try:
                conn = await self._connected()
                answer = await self._database.arun(plan, conn)
            except DatabaseUnavailable as error:
                self._outage.began(error)
                await self._drop()
                raise
            except psycopg.Error as error:
                await self._drop_if_broken()
                if not (error.sqlstate or "").startswith(_TEMPORARY):
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
