"""The heartbeat. It has its own thread and connection, so that a worker with a blocked loop does not look dead.

It also watches the loop: when that is blocked, the log names the handler that blocks it.
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
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from howdah import __about__
from howdah.checks.context import Context
from howdah.db.database import Database, SyncConnection
from howdah.db.outage import Backoff
from howdah.errors import WorkerUnknown
from howdah.model.failure import describe
from howdah.worker import calls
from howdah.worker.options import WorkerOptions
from howdah.worker.run.dispatcher import Dispatcher
from howdah.worker.run.log_capture import label_of

log = logging.getLogger("howdah.worker")

LOOP_LAG = 1.0
"""Seconds that the loop may be blocked before that is logged."""
FENCE_AT = 0.9
"""The part of a lease without a heartbeat after which a worker lets go of its jobs: before others may take them."""


def resident_memory() -> int | None:
    """The bytes of memory that this process uses, without its children. None where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


class Heartbeat:
    """Reports to the database that this worker is alive."""

    def __init__(
        self,
        database: Database,
        context: Context,
        options: WorkerOptions,
        dispatcher: Dispatcher,
        schedules: Sequence[str],
    ) -> None:
        """schedules: the names of those in the worker's code."""
        self._database = database
        self._context = context
        self._interval = options.heartbeat
        self._lease = options.lease
        self._dispatcher = dispatcher
        self._schedules = list(schedules)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="howdah-heartbeat", daemon=True)
        self._conn: SyncConnection | None = None
        # The wait for a connection may be cancelled; the thread that opens it continues.
        self._opening: object | None = None
        self._conn_lock = threading.Lock()
        self._backoff = Backoff(longest=self._interval)
        self._loop = asyncio.get_running_loop()
        self._watch = LoopWatch(self._loop, threading.get_ident())
        self.incarnation = uuid.uuid4()
        """The incarnation that claims use. The loop changes it, once nothing of the previous one is left."""
        self._registered = self.incarnation
        self._next_boot: uuid.UUID | None = None
        self._sent_throughput: Any = None
        self.last_success = time.monotonic()
        """When the last heartbeat was sent that is known to have reached the database."""
        self.last_error: str | None = None

    def open(self) -> None:
        """Connects, before it is started. Raises DatabaseUnavailable."""
        if self._conn is not None and not self._conn.closed:
            return
        self._opening = opening = object()
        conn = self._database.connect(self._database.dsn())
        with self._conn_lock:
            if self._opening is opening:
                self._conn = conn
                return
        conn.close()

    def close(self) -> None:
        """Close the connection, also one that is being opened. While the thread runs, it does that itself when it ends."""
        if not self._thread.is_alive():
            self._disconnect()

    def _disconnect(self) -> None:
        with self._conn_lock:
            conn, self._conn, self._opening = self._conn, None, None
        if conn is not None:
            with contextlib.suppress(Exception):
                conn.close()

    def start(self) -> None:
        """Start the heartbeats. The worker is registered under ``incarnation``."""
        self._succeeded(time.monotonic())
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    async def stopped(self) -> None:
        self.stop()
        # Without a thread of the loop's executor: handlers may use all of them.
        deadline = time.monotonic() + self._interval + 1
        while self._thread.is_alive() and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    def registration(self) -> dict[str, Any]:
        """What the database stores about this worker."""
        return {
            "lease": timedelta(seconds=self._lease),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": __about__.__version__,
            "job_types": sorted(self._dispatcher.handlers),
            "capacity": sum(group.slots for group in self._dispatcher.groups),
            "schedules": self._schedules,
        }

    def _work(self) -> None:
        # Registering counts as the first one.
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
                # For any error: the next one may get through, and nothing else sends heartbeats for this worker.
                self.last_error = describe(error)
                log.debug("a heartbeat did not get through: %s", self.last_error)
                next_beat = time.monotonic() + self._backoff.next()
                self._disconnect()
        self._disconnect()

    def _beat(self, conn: SyncConnection) -> None:
        sent = time.monotonic()
        lag = timedelta(seconds=round(self._watch.lag, 3))
        pulse = {**self._dispatcher.pulse(), "loop_lag": lag, "memory": resident_memory()}
        throughput = pulse.pop("throughput")
        # Until the answer arrives, it is unknown what the database has stored.
        stored, self._sent_throughput = self._sent_throughput, None
        changed = None if throughput == stored else throughput
        known = self._database.run(calls.heartbeat(self._context, self._registered, throughput=changed, **pulse), conn)
        self._sent_throughput = throughput if known else None
        if known:
            self._succeeded(sent)
        elif not self._stop.is_set():
            self._rejoin(conn, sent)

    def _succeeded(self, sent: float) -> None:
        self.last_success = sent
        self._dispatcher.renew(sent + self._lease * FENCE_AT)

    def _rejoin(self, conn: SyncConnection, sent: float) -> None:
        # The same until it is answered: with a new one after a lost reply, this worker would look like another.
        self._next_boot = self._next_boot or uuid.uuid4()
        try:
            self._database.run(calls.register(self._context, self._next_boot, again=True, **self.registration()), conn)
        except WorkerUnknown:
            self._loop.call_soon_threadsafe(self._on_replaced)
            raise
        self._registered, self._next_boot = self._next_boot, None
        self._loop.call_soon_threadsafe(self._on_rejoined, self._registered, sent)

    def _on_rejoined(self, incarnation: uuid.UUID, sent: float) -> None:
        log.error(
            "this worker was declared dead, and its jobs were taken from it: it has registered again",
            extra={"event": "rejoined"},
        )
        self._dispatcher.forget()
        self.incarnation = incarnation
        # Not before: until here, what waited to begin had another owner.
        self._succeeded(sent)

    def _on_replaced(self) -> None:
        self._dispatcher.forget()
        if not self._dispatcher.stops.count:
            log.error(
                "another worker has taken the name %s: this one stops. Two workers at once need two names",
                self._context.worker_id,
                extra={"event": "replaced"},
            )
            self._dispatcher.summary.replaced = True
            self._dispatcher.stops.add()


class LoopWatch:
    """Measures, from another thread, for how long the loop has been blocked."""

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
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._answer, now)
        elif self._asked is not None and now - self._asked > LOOP_LAG:
            self.lag = now - self._asked
            self._name_the_blocker()

    def _answer(self, asked: float) -> None:
        self.lag = time.monotonic() - asked
        if self._named is not None:
            log.warning("the event loop continues after %.1f s (%s)", self.lag, self._named)
        self._answered, self._named = True, None

    def _name_the_blocker(self) -> None:
        if self._named is not None:
            return
        task = asyncio.current_task(self._loop)
        self._named = label_of(task) if task else "no task"
        frame = sys._current_frames().get(self._thread_id)
        place = traceback.extract_stack(frame)[-1] if frame else None
        log.error(
            "the event loop has been blocked for %.1f s by %s%s: nothing else runs meanwhile. Make the handler"
            " a plain function (def), so that it runs in a thread, or await what blocks",
            self.lag,
            self._named,
            f" at {os.path.basename(place.filename)}:{place.lineno} in {place.name}" if place else "",  # noqa: PTH119
            extra={"event": "loop_blocked"},
        )
