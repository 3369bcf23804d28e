"""The heartbeat: a thread and a connection of its own, so that a blocked loop does not look like death.

It also watches the loop: when that stands still, the log names the handler that holds it up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from howdah import __about__
from howdah.checks.context import Context
from howdah.db.database import Database, SyncConnection
from howdah.db.outage import Backoff
from howdah.errors import WorkerUnknown
from howdah.model.failure import describe
from howdah.worker import calls
from howdah.worker.run.log_capture import label_of

log = logging.getLogger("howdah.worker")

LOOP_LAG = 1.0
"""Seconds that the loop may stand still before somebody is named for it."""


class Heartbeat:
    """Tells the database that this worker lives."""

    def __init__(
        self,
        database: Database,
        context: Context,
        *,
        interval: float,
        lease: float,
        facts: Mapping[str, Any],
        pulse: Callable[[], dict[str, Any]],
        rejoined: Callable[[], None],
        replaced: Callable[[], None],
    ) -> None:
        self._database = database
        self._context = context
        self._interval = interval
        self._lease = lease
        self._facts = facts
        self._pulse = pulse
        self._rejoined = rejoined
        self._replaced = replaced
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="howdah-heartbeat", daemon=True)
        self._conn: SyncConnection | None = None
        # Who waits for a connection may be cancelled; the thread that makes it goes on.
        self._opening: object | None = None
        self._changing_hands = threading.Lock()
        self._backoff = Backoff(longest=interval)
        self._loop = asyncio.get_running_loop()
        self._watch = LoopWatch(self._loop, threading.get_ident())
        self.boot = uuid.uuid4()
        """The boot that claims name: changed in the loop, once nothing is left of the one before."""
        self._beating = self.boot
        self._next_boot: uuid.UUID | None = None
        self._told_pace: Any = None
        self.last_success = time.monotonic()
        self.last_error: str | None = None

    def open(self) -> None:
        """Connects, before it is started. Raises DatabaseUnavailable."""
        if self._conn is not None and not self._conn.closed:
            return
        self._opening = opening = object()
        conn = self._database.connect(self._database.dsn())
        with self._changing_hands:
            if self._opening is opening:
                self._conn = conn
                return
        conn.close()

    def close(self) -> None:
        """Lets go of the connection, also of one that is being made. Once it beats, it does so itself when it ends."""
        if not self._thread.is_alive():
            self._let_go()

    def _let_go(self) -> None:
        with self._changing_hands:
            conn, self._conn, self._opening = self._conn, None, None
        if conn is not None:
            with contextlib.suppress(Exception):
                conn.close()

    def start(self) -> None:
        """Begins to beat. The worker has registered under ``boot``."""
        self.last_success = time.monotonic()
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    async def stopped(self) -> None:
        self.stop()
        # Not by a thread of the loop's: handlers may hold them all.
        deadline = time.monotonic() + self._interval + 1
        while self._thread.is_alive() and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    @property
    def silence(self) -> float:
        """Seconds since the last heartbeat that is known to have reached the database was sent."""
        return time.monotonic() - self.last_success

    def registration(self) -> dict[str, Any]:
        """What the database is told about this worker."""
        return {
            "lease": timedelta(seconds=self._lease),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": __about__.__version__,
            **self._facts,
        }

    def _work(self) -> None:
        # Registering was the first one.
        next_beat = time.monotonic() + self._interval
        while not self._stop.wait(max(min(next_beat - time.monotonic(), LOOP_LAG / 2), 0)):
            try:
                self._watch.look()
                if time.monotonic() < next_beat:
                    continue
                self.open()
                assert self._conn is not None
                self._beat(self._conn)
                self._backoff.reset()
                self.last_error = None
                next_beat = time.monotonic() + self._interval
            except Exception as error:  # noqa: BLE001
                # Whatever it is: the next one may get through, and nobody else beats for this worker.
                self.last_error = describe(error)
                log.debug("a heartbeat did not get through: %s", self.last_error)
                next_beat = time.monotonic() + self._backoff.next()
                self._let_go()
        self._let_go()

    def _beat(self, conn: SyncConnection) -> None:
        sent = time.monotonic()
        pulse = {**self._pulse(), "loop_lag": timedelta(seconds=round(self._watch.lag, 3))}
        pace = pulse.pop("pace")
        # While the answer is not here, nobody knows what the database has been told.
        told, self._told_pace = self._told_pace, None
        news = None if pace == told else pace
        known = self._database.run(calls.heartbeat(self._context, self._beating, pace=news, **pulse), conn)
        self._told_pace = pace if known else None
        if not known and not self._stop.is_set():
            self._rejoin(conn)
        self.last_success = sent

    def _rejoin(self, conn: SyncConnection) -> None:
        # The same until it is answered: a reply that was lost must not make this worker a stranger to itself.
        self._next_boot = self._next_boot or uuid.uuid4()
        try:
            self._database.run(calls.register(self._context, self._next_boot, again=True, **self.registration()), conn)
        except WorkerUnknown:
            self._loop.call_soon_threadsafe(self._replaced)
            raise
        self._beating, self._next_boot = self._next_boot, None
        self._loop.call_soon_threadsafe(self._begin_anew, self._beating)

    def _begin_anew(self, boot: uuid.UUID) -> None:
        self._rejoined()
        self.boot = boot


class LoopWatch:
    """Sees, from another thread, how long the loop has not come round."""

    def __init__(self, loop: asyncio.AbstractEventLoop, thread_id: int) -> None:
        self._loop = loop
        self._thread_id = thread_id
        self._asked: float | None = None
        self._answered = True
        self._named: str | None = None
        self.lag = 0.0

    def look(self) -> None:
        now = time.monotonic()
        if self._answered:
            self._asked, self._answered = now, False
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._answer, now)
        elif self._asked is not None and now - self._asked > LOOP_LAG:
            self.lag = now - self._asked
            self._name_the_blocker()

    def _answer(self, asked: float) -> None:
        self.lag = time.monotonic() - asked
        if self._named is not None:
            log.warning("the event loop goes on after %.1f s (%s)", self.lag, self._named)
        self._answered, self._named = True, None

    def _name_the_blocker(self) -> None:
        if self._named is not None:
            return
        task = asyncio.current_task(self._loop)
        self._named = label_of(task) if task else "no task"
        frame = sys._current_frames().get(self._thread_id)
        place = traceback.extract_stack(frame)[-1] if frame else None
        log.error(
            "the event loop has stood still for %.1f s, held up by %s%s: nothing else runs meanwhile. Make the handler"
            " a plain function (def), so that it runs in a thread, or await what blocks",
            self.lag,
            self._named,
            f" at {os.path.basename(place.filename)}:{place.lineno} in {place.name}" if place else "",  # noqa: PTH119
            extra={"event": "loop_blocked"},
        )
