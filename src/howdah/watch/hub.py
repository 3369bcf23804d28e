"""The hub: reads for all watchers and waiters of a queue, with one thread and one connection in each process.

It starts with the first subscriber, and ends some seconds after the last. Notifications make it read at once. They
are a hint: where they do not arrive (a pooler in transaction mode), it polls instead. It asks for them by advisory
locks of its session, and takes these only after an echo of its own has arrived: through such a pooler they would stay
behind in another client's session.

In an outage it tries again, and resumes from where it was: its subscribers notice nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import secrets
import selectors
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import psycopg
from psycopg import sql

from howdah.db import adapters
from howdah.db.database import Database
from howdah.db.outage import Backoff, Outage, is_temporary
from howdah.db.plan import LoopWaker, Plan, call, write
from howdah.errors import QueueClosed
from howdah.watch.mailbox import Mailbox, wake_all
from howdah.watch.readers import (
    NO_TYPES,
    EndReader,
    EndWait,
    JobReader,
    JobWatch,
    Reader,
    StreamReader,
    StreamWatch,
    Subscription,
    Types,
    WorkflowReader,
    WorkflowStreamReader,
    WorkflowStreamWatch,
    WorkflowWatch,
    union,
)

log = logging.getLogger("howdah.watching")

LINGER = 10.0
"""Seconds that the thread stays after the last subscriber has left."""

_CLOSE_WITHIN: Final = 1.0
_ECHO_WITHIN: Final = 0.3
_ASK_AGAIN_AFTER: Final = 60.0
_POLL: Final = 1.0
"""Seconds between two rounds, where notifications arrive and there are none."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25
"""The same where none arrive: short at first, then longer while nothing is found."""
_TIDY: Final = 1.0
"""Seconds that locks and subscriptions without use are kept."""
_SHARE, _LONGEST_REST = 5, 2.0
"""For each second of reading it rests so many, and so long at most."""
_BURST, _BURST_TIME = 10, 0.2
"""At most so many rounds in so many seconds."""


class Hub:
    """Reads for the subscribers of one queue in one process."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.pid = os.getpid()
        self.is_closed = False
        self.changes: deque[tuple[bool, Subscription]] = deque()
        """Subscriptions that came (True) and left since the last round. One may be listed as left twice."""
        self._lock = threading.Lock()
        self._subscriptions: set[Subscription] = set()
        self._thread: threading.Thread | None = None
        self._wakeup_send: socket.socket | None = None
        _hubs.add(self)

    # For subscribers, from any thread

    def join(self, subscription: Subscription) -> None:
        """Fills the subscription's mailbox from now on. Raises QueueClosed."""
        if self.pid != os.getpid():
            # A thread of the parent process may have held the lock.
            raise QueueClosed("this was made in another process: begin it anew after a fork")
        with self._lock:
            if self.is_closed:
                raise QueueClosed()
            if self._thread is None:
                self._thread, self._wakeup_send = self._started()
            self._subscriptions.add(subscription)
            self.changes.append((True, subscription))
        self.wake()

    def _started(self) -> tuple[threading.Thread, socket.socket]:
        wakeup_send, wakeup_recv = socket.socketpair()
        try:
            wakeup_send.setblocking(False)
            thread = threading.Thread(target=_HubThread(self, wakeup_recv).run, name="howdah-hub", daemon=True)
            thread.start()
        except BaseException:
            wakeup_send.close()
            wakeup_recv.close()
            raise
        return thread, wakeup_send

    def leave(self, subscription: Subscription) -> None:
        """Takes no lock: the garbage collector may call this, in a thread that holds it."""
        if self.pid == os.getpid() and subscription in self._subscriptions:
            self._subscriptions.discard(subscription)
            self.changes.append((False, subscription))

    def wake(self) -> None:
        """Makes it read at once."""
        wakeup_send = self._wakeup_send
        if wakeup_send is not None:
            with contextlib.suppress(OSError):  # full already, or closed
                wakeup_send.send(b"!")

    def close(self) -> None:
        """Ends it. All subscribers get QueueClosed."""
        if self.pid != os.getpid():
            return
        with self._lock:
            self.is_closed = True
            thread = self._thread
        self.fail_all(QueueClosed())
        self.wake()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_CLOSE_WITHIN)

    # For its thread

    def releases_thread(self) -> bool:
        """Whether the thread is not needed any more. If so, the next subscriber starts another one."""
        with self._lock:
            is_over = self.is_closed or not (self._subscriptions or self.changes)
            if is_over and self._wakeup_send is not None:
                self._wakeup_send.close()
                self._thread = self._wakeup_send = None
            return is_over

    def fail_all(self, error: BaseException) -> None:
        """Gives this error to every subscriber, and removes them."""
        with self._lock:
            failed = list(self._subscriptions)
            self._subscriptions.clear()
            self.changes += [(False, each) for each in failed]
        for each in failed:
            each.mailbox.fail(error)
        wake_all(each.mailbox for each in failed)

    def forget_deserted(self) -> None:
        """Removes the subscribers whose event loops were closed without closing their streams."""
        for each in list(self._subscriptions):
            if isinstance(each.mailbox.waker, LoopWaker) and each.mailbox.waker.loop.is_closed():
                self.leave(each)


_hubs: weakref.WeakSet[Hub] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for hub in list(_hubs):
        hub.close()


class _HubThread:
    """What the hub's thread does, round by round."""

    def __init__(self, hub: Hub, wakeup_recv: socket.socket) -> None:
        wakeup_recv.setblocking(False)
        self._hub = hub
        self._wakeup_recv = wakeup_recv
        self._to_wake: set[Mailbox] = set()
        self._readers: dict[type, Reader] = {
            JobWatch: JobReader(self._to_wake),
            StreamWatch: StreamReader(self._to_wake),
            WorkflowStreamWatch: WorkflowStreamReader(self._to_wake),
            WorkflowWatch: WorkflowReader(self._to_wake),
            EndWait: EndReader(self._to_wake),
        }
        self._active: list[Reader] = []
        self._last_needed = time.monotonic()
        self._connection: _Connection | None = None
        self._pending = threading.Event()
        """Set when a round is due at once."""
        self._pause = _FIRST_PAUSE
        self._tidied_at = 0.0
        self._pace = _Pace()
        self._is_failing = False
        self._outage = Outage(log)
        self._backoff = Backoff(longest=2)
        self._selector = selectors.DefaultSelector()
        self._selector.register(wakeup_recv, selectors.EVENT_READ)

    def run(self) -> None:
        try:
            while not self._is_over():
                try:
                    self._round() if self._active else self._idle()
                except Exception as error:  # noqa: BLE001
                    self._on_failure(error)
        finally:
            self._disconnect()
            self._selector.close()
            self._wakeup_recv.close()

    def _is_over(self) -> bool:
        """Lets subscribers in and out. Whether the thread is not needed any more."""
        self._pending.clear()
        while self._hub.changes:
            is_new, subscription = self._hub.changes.popleft()
            reader = self._readers[type(subscription)]
            reader.add(subscription) if is_new else reader.remove(subscription)
            self._pause = _FIRST_PAUSE
        self._active = [reader for reader in self._readers.values() if reader.subscriptions]
        if self._active and not self._hub.is_closed:
            self._last_needed = time.monotonic()
            return False
        lingers = time.monotonic() < self._last_needed + LINGER
        return (self._hub.is_closed or not lingers) and self._hub.releases_thread()

    def _round(self) -> None:
        """Reads what is new, wakes those that it concerns, and waits until there may be more."""
        if time.monotonic() >= self._tidied_at + _TIDY:
            self._tidied_at = time.monotonic()
            self._hub.forget_deserted()
        connection = self._connection or self._connect()
        connection.ask_for(union(each.types for reader in self._active for each in reader.subscriptions))
        began = time.monotonic()
        try:
            found = [reader.read(connection.run) for reader in self._active]
        finally:
            wake_all(self._to_wake)
            self._to_wake.clear()
        ended = time.monotonic()
        if self._is_failing:
            self._on_success()
        if not connection.is_tested:
            connection.listen()
            # Nothing else is sent through it meanwhile: see ``listen``.
            self._wait(_ECHO_WITHIN, until=lambda: connection.listening)
            return
        more = any(reader.more for reader in self._active)
        self._pause = _FIRST_PAUSE if any(found) else min(self._pause * 1.5, _LONGEST_PAUSE)
        self._wait(0 if more else _POLL if connection.is_notified else self._pause, until=self._pending.is_set)
        self._wait(self._pace.rest(began, ended))

    def _idle(self) -> None:
        """Without subscribers: gives the locks back, and keeps the connection for a while."""
        if self._connection is not None:
            self._connection.ask_for(NO_TYPES)
        self._wait(_POLL, until=self._pending.is_set)

    def _wait(self, seconds: float, until: Callable[[], bool] | None = None) -> None:
        """Reads notifications and wakeups for so many seconds, or until the condition holds."""
        deadline = time.monotonic() + seconds
        while (
            not (self._hub.is_closed or (until is not None and until())) and (left := deadline - time.monotonic()) > 0
        ):
            for key, _ in self._selector.select(left):
                if key.fileobj is not self._wakeup_recv:
                    assert self._connection is not None
                    self._connection.read_notifications()
                    continue
                self._pending.set()
                with contextlib.suppress(BlockingIOError):
                    while self._wakeup_recv.recv(4096):
                        pass

    def _on_failure(self, error: Exception) -> None:
        self._disconnect()
        if not is_temporary(error):
            self._hub.fail_all(error)
            return
        self._is_failing = True
        if self._active and not self._hub.is_closed:
            self._outage.began(error)
        self._wait(self._backoff.next())

    def _on_success(self) -> None:
        self._backoff.reset()
        self._is_failing = not self._outage.ended()

    def _connect(self) -> _Connection:
        self._connection = _Connection(self._hub.database, self._pending.set)
        self._selector.register(self._connection.socket, selectors.EVENT_READ)
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._selector.unregister(connection.socket)
            connection.close()


class _Connection:
    """The hub's connection, what it listens to, and the locks that it holds."""

    def __init__(self, database: Database, set_pending: Callable[[], None]) -> None:
        database.prepare()
        self._database = database
        self._set_pending = set_pending
        self._conn = database.connect(database.dsn())
        self._conn.add_notify_handler(lambda notification: self._on_notification(notification.payload))
        self.socket = self._conn.fileno()
        self.listening = False
        self._nonce = ""
        self.is_tested = False
        self.is_notified = False
        """Whether notifications arrive of all types that are watched."""
        self._watched: Types = NO_TYPES
        self._ask_at = float("-inf")
        self._last_fitted = time.monotonic()
        self._buckets: frozenset[int] = frozenset()

    def run(self, plan: Plan[Any]) -> Any:
        return self._database.run(plan, self._conn)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._conn.close()

    # Notifications

    def listen(self) -> None:
        """Listens, and has another connection send an echo.

        An echo that this connection sends itself arrives through a pooler, too. So does one that arrives while this
        connection sends anything else. Once for each connection: through a pooler, each LISTEN would stay behind in
        another session.
        """
        self.is_tested = True
        self._nonce = secrets.token_hex(8)
        try:
            channel = self.run(call("channel"))[0]["channel"]
            self._conn.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            with self._database.connect(self._database.dsn()) as other:
                self._database.run(write("echo", payload=self._nonce), other)
        except psycopg.errors.ReadOnlySqlTransaction:
            log.info("a read-only server sends no notifications: polling instead")
        except psycopg.errors.ProgramLimitExceeded:
            log.info("the server's queue of notifications is full, and none arrive: polling instead")

    def read_notifications(self) -> None:
        """Reads what has arrived. Raises if the connection was lost."""
        self._conn.pgconn.consume_input()
        while notification := self._conn.pgconn.notifies():
            self._on_notification(notification.extra.decode("utf-8", "replace"))

    def _on_notification(self, payload: str) -> None:
        word, _, rest = payload.partition(" ")
        if word == "news" and adapters.bucket_in(rest) in self._buckets:
            self._set_pending()
        elif word == "echo" and rest == self._nonce:
            self.listening = True

    # Locks

    def ask_for(self, types: Types) -> None:
        """Asks for notifications of these types. Those of types that are not watched any more end after a while."""
        now = time.monotonic()
        fits = self._watched == types or not self.listening or now < self._ask_at
        if not fits and not (_covers(self._watched, types) and now < self._last_fitted + _TIDY):
            self._watch(types)
            fits = True
        if fits:
            self._last_fitted = now
        self.is_notified = self.listening and _covers(self._watched, types)

    def _watch(self, types: Types) -> None:
        # The locks of before are released as they were taken, all at once: types share locks.
        buckets = self.run(call("add_watcher", job_types=_listed(types)))[0]["add_watcher"] if types != NO_TYPES else ()
        if types != NO_TYPES and not buckets:
            self._on_refusal()
            return
        before, self._watched = self._watched, types
        if before != NO_TYPES:
            self.run(call("remove_watcher", job_types=_listed(before)))
        self._buckets = frozenset(buckets)

    def _on_refusal(self) -> None:
        """Another session holds a lock that watchers share, as any login can."""
        if self._ask_at == float("-inf"):
            log.warning(
                "another session keeps an advisory lock that watchers share: polling instead. Which one:"
                " howdah doctor --only advisory-lock-held"
            )
        self._ask_at = time.monotonic() + _ASK_AGAIN_AFTER


def _listed(types: Types) -> list[str] | None:
    return None if types is None else sorted(types)


def _covers(some: Types, others: Types) -> bool:
    return some is None or (others is not None and some >= others)


class _Pace:
    """How soon one round may follow another."""

    def __init__(self) -> None:
        self._begun: deque[float] = deque(maxlen=_BURST)

    def rest(self, began: float, ended: float) -> float:
        """Seconds to wait after a round."""
        self._begun.append(began)
        earliest = ended + min(_SHARE * (ended - began), _LONGEST_REST)
        if len(self._begun) == _BURST:
            earliest = max(earliest, self._begun[0] + _BURST_TIME)
        return earliest - time.monotonic()
