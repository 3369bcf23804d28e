"""Listens for wake-ups. A hint, never the truth: whatever is missed here is found by polling.

A listener that does not hear its own echo (behind a pooler in transaction mode, or on a socket that has
gone silent) is of no use: the worker then polls, says so once, and tries again later.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import uuid
from collections.abc import Callable

import psycopg
from psycopg import sql

from howdah.checks.context import Context
from howdah.db import adapters
from howdah.db.database import AsyncConnection, Database
from howdah.errors import DatabaseUnavailable
from howdah.worker import calls
from howdah.worker.background.connection import Link
from howdah.worker.background.service import Service, happens

log = logging.getLogger("howdah.worker")

ECHO_WITHIN = 2.0
RETRY_AFTER = 60.0


class Notifier(Service):
    """Hears ``wake <bucket>``, ``cancel <job>`` and its own ``echo``."""

    def __init__(
        self,
        database: Database,
        context: Context,
        writes: Link,
        *,
        interval: float,
        wake: Callable[[int | None], None],
        cancel: Callable[[uuid.UUID], None],
    ) -> None:
        super().__init__("notifier", self._listen)
        self._database = database
        self._context = context
        self._writes = writes
        self._interval = interval
        self._wake = wake
        self._cancel = cancel
        self._echo = asyncio.Event()
        self._nonce = ""
        self._warned = False
        self.listening = False

    async def _listen(self) -> None:
        conn = await self._database.aconnect()
        try:
            channel = await self._database.arun(calls.channel(self._context), conn)
            await conn.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            hearing = asyncio.create_task(self._hear(conn), name="howdah hearing")
            try:
                await self._stay(hearing)
            finally:
                self.listening = False
                hearing.cancel()
                with contextlib.suppress(asyncio.CancelledError, psycopg.Error):
                    await hearing
        except psycopg.Error as error:
            raise DatabaseUnavailable(f"the listening connection was lost: {error}") from error
        finally:
            with contextlib.suppress(Exception):
                await conn.close()

    async def _stay(self, hearing: asyncio.Task[None]) -> None:
        """Listens for as long as its own echo is heard."""
        heard = False
        while await self._hears_itself():
            heard = True
            if not self.listening:
                self.listening = True
                # What was said while nobody listened is heard by nobody: everybody looks once.
                self._wake(None)
            self._warned = False
            if not await self._quiet(hearing, self._interval):
                return
        self.listening = False
        if heard:
            # It worked until now: a new connection will do.
            return
        if not self._warned and not self.stopping.is_set():
            self._warned = True
            log.warning(
                "notifications do not arrive (a pooler in transaction mode?): polling every so often instead, which costs"
                " latency and nothing else",
                extra={"event": "polling_only"},
            )
        await self._quiet(hearing, RETRY_AFTER)

    async def _quiet(self, hearing: asyncio.Task[None], seconds: float) -> bool:
        """Waits while nothing is wrong. False: the connection was lost, or the worker stops."""
        stopping = asyncio.create_task(self.stopping.wait())
        try:
            done, _ = await asyncio.wait({stopping, hearing}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
        if hearing in done:
            hearing.result()
        return not done

    async def _hears_itself(self) -> bool:
        if self.stopping.is_set():
            return False
        self._echo.clear()
        self._nonce = secrets.token_hex(8)
        await self._writes.run(calls.echo(self._context, self._nonce))
        return await happens(self._echo, ECHO_WITHIN)

    async def _hear(self, conn: AsyncConnection) -> None:
        """Hears until the connection is lost: straight from its socket, because every wake-up waits for this."""
        loop, socket = asyncio.get_running_loop(), conn.fileno()
        lost: asyncio.Future[None] = loop.create_future()

        def hear() -> None:
            try:
                conn.pgconn.consume_input()
                while (note := conn.pgconn.notifies()) is not None:
                    self._heard(note.extra.decode("utf-8", "replace"))
            except psycopg.Error as error:
                loop.remove_reader(socket)
                if not lost.done():
                    lost.set_exception(error)

        loop.add_reader(socket, hear)
        try:
            await lost
        finally:
            loop.remove_reader(socket)

    def _heard(self, payload: str) -> None:
        word, _, rest = payload.partition(" ")
        if word == "wake" and (bucket := adapters.bucket_in(rest)) is not None:
            self._wake(bucket)
        elif word == "cancel":
            with contextlib.suppress(ValueError):
                self._cancel(uuid.UUID(rest))
        elif word == "echo" and rest == self._nonce:
            self._echo.set()
