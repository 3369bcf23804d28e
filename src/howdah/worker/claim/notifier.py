"""Listens for notifications. They are only hints: what is missed here is found by polling.

A listener that does not receive its own echo (behind a pooler in transaction mode, or on a socket that has gone silent) is
of no use. The worker then polls, logs that once, and tries again later.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import uuid

import psycopg
from psycopg import sql

from howdah.checks.context import Context
from howdah.db import adapters
from howdah.db.database import AsyncConnection, Database
from howdah.errors import DatabaseUnavailable
from howdah.worker import calls
from howdah.worker.background.reconciler import Reconciler
from howdah.worker.connection import WorkerConnection
from howdah.worker.run.dispatcher import Dispatcher
from howdah.worker.service import Service, happens

log = logging.getLogger("howdah.worker")

ECHO_WITHIN = 2.0
RETRY_AFTER = 60.0


class Notifier(Service):
    """Receives ``wake <bucket>``, ``cancel <job>``, ``advance`` and its own ``echo``."""

    def __init__(
        self,
        database: Database,
        context: Context,
        connection: WorkerConnection,
        dispatcher: Dispatcher,
        reconciler: Reconciler,
        *,
        interval: float,
    ) -> None:
        super().__init__("notifier", self._listen)
        self._database = database
        self._context = context
        self._connection = connection
        self._dispatcher = dispatcher
        self._reconciler = reconciler
        self._interval = interval
        self._echo = asyncio.Event()
        self._nonce = ""
        self._warned = False
        self.listening = False

    async def _listen(self) -> None:
        conn = await self._database.aconnect()
        try:
            channel = await self._database.arun(calls.channel(self._context), conn)
            await conn.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            receiving = asyncio.create_task(self._receive(conn), name="howdah notifications")
            try:
                await self._listen_while_echo_arrives(receiving)
            finally:
                self.listening = False
                receiving.cancel()
                with contextlib.suppress(asyncio.CancelledError, psycopg.Error):
                    await receiving
        except psycopg.Error as error:
            raise DatabaseUnavailable(f"the listening connection was lost: {error}") from error
        finally:
            with contextlib.suppress(Exception):
                await conn.close()

    async def _listen_while_echo_arrives(self, receiving: asyncio.Task[None]) -> None:
        """Listen for as long as the echo arrives."""
        worked = False
        while await self._receives_echo():
            worked = True
            if not self.listening:
                self.listening = True
                # Notifications from before are lost: all claimers look once, and cancelled jobs are looked for.
                self._dispatcher.wake()
                self._reconciler.check_soon()
                self._dispatcher.on_advance()
            self._warned = False
            if not await self._quiet(receiving, self._interval):
                return
        self.listening = False
        if worked:
            # It worked until now: a new connection will help.
            return
        if not self._warned and not self.stopping.is_set():
            self._warned = True
            log.warning(
                "notifications do not arrive (a pooler in transaction mode?): polling instead, which costs"
                " latency and nothing else",
                extra={"event": "polling_only"},
            )
        await self._quiet(receiving, RETRY_AFTER)

    async def _quiet(self, receiving: asyncio.Task[None], seconds: float) -> bool:
        """Wait while nothing is wrong. False: the connection was lost, or the worker stops."""
        stopping = asyncio.create_task(self.stopping.wait())
        try:
            done, _ = await asyncio.wait({stopping, receiving}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
        if receiving in done:
            receiving.result()
        return not done

    async def _receives_echo(self) -> bool:
        if self.stopping.is_set():
            return False
        self._echo.clear()
        self._nonce = secrets.token_hex(8)
        await self._connection.run(calls.echo(self._context, self._nonce))
        return await happens(self._echo, ECHO_WITHIN)

    async def _receive(self, conn: AsyncConnection) -> None:
        """Receive until the connection is lost, directly from its socket, because every wake-up depends on this."""
        loop, socket = asyncio.get_running_loop(), conn.fileno()
        lost: asyncio.Future[None] = loop.create_future()

        def receive() -> None:
            try:
                conn.pgconn.consume_input()
                while (note := conn.pgconn.notifies()) is not None:
                    self._on_notification(note.extra.decode("utf-8", "replace"))
            except psycopg.Error as error:
                loop.remove_reader(socket)
                if not lost.done():
                    lost.set_exception(error)

        loop.add_reader(socket, receive)
        try:
            await lost
        finally:
            loop.remove_reader(socket)

    def _on_notification(self, payload: str) -> None:
        kind, _, rest = payload.partition(" ")
        if kind == "wake" and (bucket := adapters.bucket_in(rest)) is not None:
            self._dispatcher.wake(bucket)
        elif kind == "cancel":
            with contextlib.suppress(ValueError):
                self._reconciler.job_cancelled(uuid.UUID(rest))
        elif kind == "advance":
            self._dispatcher.on_advance()
        elif kind == "echo" and rest == self._nonce:
            self._echo.set()
