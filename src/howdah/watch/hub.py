"""The hub: reads for all who watch or wait, with one thread and one connection for each queue and process.

It begins with the first subscriber, and ends some seconds after the last. Notifications tell it when to read,
and are a hint: where they do not arrive (a pooler in transaction mode) it reads every so often instead. The
session's locks by which it asks for them are taken only where its own echo was heard: through such a pooler they
would stay behind with somebody else's session.

In an outage it tries again, and then goes on from where it was: its subscribers notice nothing.
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
from collections.abc import Iterator
from typing import Any, Final

import psycopg
from psycopg import sql

from howdah.db import adapters
from howdah.db.database import Database
from howdah.db.outage import Backoff, Outage, is_temporary
from howdah.db.plan import Plan, call, write
from howdah.errors import QueueClosed
from howdah.watch.mailbox import ring
from howdah.watch.readers import (
    NO_TYPES,
    EndReader,
    EndWait,
    JobReader,
    JobWatch,
    StreamReader,
    StreamWatch,
    Subscription,
    Types,
    union,
)

log = logging.getLogger("howdah.watching")

LINGER = 10.0
"""Seconds that the thread stays after the last subscriber has left."""

_FAREWELL: Final = 1.0
_ECHO_WITHIN: Final = 0.3
_ASK_AGAIN_AFTER: Final = 60.0
_POLL: Final = 1.0
"""Seconds between two rounds, where notifications arrive and there are none."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25
"""The same where none arrive: short at first, then longer while nothing is found."""
_TIDY: Final = 1.0
"""Seconds that what nobody needs any more is kept, however much news there is."""
_SHARE, _LONGEST_REST = 5, 2.0
"""For a second of reading it rests so many, and so long at most."""
_BURST, _BURST_TIME = 10, 0.2
"""However much news there is, no more rounds than this in so many seconds."""


class Hub:
    """Reads for the subscribers of one queue in one process."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.pid = os.getpid()
        self.is_closed = False
        self._lock = threading.Lock()
        self._subscriptions: set[Subscription] = set()
        self._changes: deque[tuple[bool, Subscription]] = deque()
        self._thread: threading.Thread | None = None
        self._mouth: socket.socket | None = None
        _hubs.add(self)

    # For subscribers, from any thread

    def join(self, subscription: Subscription) -> None:
        """From now on the subscription's mailbox is filled. Raises QueueClosed."""
        if self.pid != os.getpid():
            # A thread of the parent's may have held the lock.
            raise QueueClosed("this was made in another process: begin it anew after a fork")
        with self._lock:
            if self.is_closed:
                raise QueueClosed()
            if self._thread is None:
                self._thread, self._mouth = self._started()
            self._subscriptions.add(subscription)
            self._changes.append((True, subscription))
        self.poke()

    def _started(self) -> tuple[threading.Thread, socket.socket]:
        mouth, ear = socket.socketpair()
        try:
            mouth.setblocking(False)
            thread = threading.Thread(target=_Reading(self, ear).go_on, name="howdah-hub", daemon=True)
            thread.start()
        except BaseException:
            mouth.close()
            ear.close()
            raise
        return thread, mouth

    def leave(self, subscription: Subscription) -> None:
        """Without the lock: the garbage collector may call this, in a thread that holds it."""
        if self.pid == os.getpid() and subscription in self._subscriptions:
            self._subscriptions.discard(subscription)
            self._changes.append((False, subscription))

    def poke(self) -> None:
        """Makes it read at once."""
        mouth = self._mouth
        if mouth is not None:
            with contextlib.suppress(OSError):  # full of pokes already, or closed
                mouth.send(b"!")

    def close(self) -> None:
        """Ends it. Who watches or waits gets QueueClosed."""
        if self.pid != os.getpid():
            return
        with self._lock:
            self.is_closed = True
            thread = self._thread
        self.fail_all(QueueClosed())
        self.poke()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_FAREWELL)

    # For its thread

    def take_changes(self) -> Iterator[tuple[bool, Subscription]]:
        """Who has come (True) and gone since the last time. Who has gone may be told of twice."""
        while self._changes:
            yield self._changes.popleft()

    def lets_go(self) -> bool:
        """Whether nobody needs the thread any more. If so, the next subscriber starts another one."""
        with self._lock:
            is_over = self.is_closed or not (self._subscriptions or self._changes)
            if is_over and self._mouth is not None:
                self._mouth.close()
                self._thread = self._mouth = None
            return is_over

    def fail_all(self, error: BaseException) -> None:
        """Gives this error to every subscriber, and is rid of them."""
        with self._lock:
            failed = list(self._subscriptions)
            self._subscriptions.clear()
            self._changes += [(False, each) for each in failed]
        for each in failed:
            each.mailbox.fail(error)
        ring(each.mailbox for each in failed)

    def forget_deserted(self) -> None:
        """Lets go of those whose event loops have ended without a farewell."""
        for each in list(self._subscriptions):
            if each.mailbox.bell.is_deserted:
                self.leave(each)


_hubs: weakref.WeakSet[Hub] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for hub in list(_hubs):
        hub.close()


class _Reading:
    """The life of the hub's thread: round by round."""

    def __init__(self, hub: Hub, ear: socket.socket) -> None:
        ear.setblocking(False)
        self._hub = hub
        self._ear = ear
        self._readers: dict[type, Any] = {JobWatch: JobReader(), StreamWatch: StreamReader(), EndWait: EndReader()}
        self._members: set[Subscription] = set()
        self._last_needed = time.monotonic()
        self._line: _Line | None = None
        self._stirred = False
        self._pause = _FIRST_PAUSE
        self._tidied_at = 0.0
        self._pace = _Pace()
        self._outage = Outage(log)
        self._backoff = Backoff(longest=2)
        self._selector = selectors.DefaultSelector()
        self._selector.register(ear, selectors.EVENT_READ)

    def go_on(self) -> None:
        try:
            while not self._is_over():
                try:
                    self._round() if self._members else self._idle()
                except Exception as error:  # noqa: BLE001
                    self._failed(error)
        finally:
            self._hang_up()
            self._selector.close()
            self._ear.close()

    def _is_over(self) -> bool:
        self._stirred = False
        for comes, subscription in self._hub.take_changes():
            self._welcome(subscription) if comes else self._part_with(subscription)
            self._pause = _FIRST_PAUSE
        if self._members and not self._hub.is_closed:
            self._last_needed = time.monotonic()
            return False
        lingers = time.monotonic() < self._last_needed + LINGER
        return (self._hub.is_closed or not lingers) and self._hub.lets_go()

    def _welcome(self, subscription: Subscription) -> None:
        self._members.add(subscription)
        self._readers[type(subscription)].add(subscription)

    def _part_with(self, subscription: Subscription) -> None:
        if subscription in self._members:
            self._members.remove(subscription)
            self._readers[type(subscription)].remove(subscription)

    def _round(self) -> None:
        """Reads what is new, tells it, and waits until there may be more."""
        self._tidy()
        line = self._connected()
        line.ask_for(union(reader.types for reader in self._readers.values()))
        self._pace.begin()
        try:
            found = [reader.read(line.run) for reader in self._readers.values()]
        finally:
            self._tell()
        self._pace.end()
        self._outage.ended()
        self._backoff.reset()
        if not line.is_tested:
            self._test(line)
            return
        more = any(reader.more for reader in self._readers.values())
        self._pause = _FIRST_PAUSE if any(found) else min(self._pause * 1.5, _LONGEST_PAUSE)
        self._wait_for_news(0 if more else _POLL if line.is_told else self._pause)
        self._rest(self._pace.rest())

    def _idle(self) -> None:
        """Nobody is there: what the connection holds is given back, but it is kept for a while."""
        if self._line is not None:
            self._line.ask_for(NO_TYPES)
        self._wait_for_news(_POLL)

    def _tell(self) -> None:
        for reader in self._readers.values():
            rung, reader.rung = reader.rung, set()
            ring(rung)

    def _tidy(self) -> None:
        if time.monotonic() >= self._tidied_at + _TIDY:
            self._tidied_at = time.monotonic()
            self._hub.forget_deserted()

    def _failed(self, error: Exception) -> None:
        self._hang_up()
        if not is_temporary(error):
            self._hub.fail_all(error)
            return
        if self._members and not self._hub.is_closed:
            self._outage.began(error)
        self._rest(self._backoff.next())

    # The connection

    def _connected(self) -> _Line:
        if self._line is None:
            self._line = _Line(self._hub.database, self._stir)
            self._selector.register(self._line.socket, selectors.EVENT_READ)
        return self._line

    def _hang_up(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            self._selector.unregister(line.socket)
            line.close()

    def _test(self, line: _Line) -> None:
        """Whether the connection hears its own echo. Nothing else is asked of it meanwhile: see ``listen``."""
        line.listen()
        until = time.monotonic() + _ECHO_WITHIN
        while not line.listening and not self._hub.is_closed and (left := until - time.monotonic()) > 0:
            self._hear(left)

    # Time

    def _stir(self) -> None:
        self._stirred = True

    def _wait_for_news(self, seconds: float) -> None:
        """Waits until there is some, or a poke."""
        until = time.monotonic() + seconds
        while not self._stirred and not self._hub.is_closed and (left := until - time.monotonic()) > 0:
            self._hear(left)

    def _rest(self, seconds: float) -> None:
        """Waits, whatever comes."""
        until = time.monotonic() + seconds
        while not self._hub.is_closed and (left := until - time.monotonic()) > 0:
            self._hear(left)

    def _hear(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            if key.fileobj is not self._ear:
                assert self._line is not None
                self._line.hear()
                continue
            self._stir()
            with contextlib.suppress(BlockingIOError):
                while self._ear.recv(4096):
                    pass


class _Line:
    """The connection, what it listens to, and the locks that it holds."""

    def __init__(self, database: Database, stir: Any) -> None:
        database.prepare()
        self._database = database
        self._stir = stir
        self._conn = database.connect(database.dsn())
        self._conn.add_notify_handler(lambda note: self._heard(note.payload))
        self.socket = self._conn.fileno()
        self.listening = False
        self._nonce = ""
        self.is_tested = False
        self.is_told = False
        """Whether news of all that is watched comes by itself."""
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
        """Listens, and has an echo sent by another connection.

        The same one could hear itself through a pooler too; and so could this one, if it asked for anything
        while the echo is under way. Once for each connection: through a pooler, each time would be another session's.
        """
        self.is_tested = True
        self._nonce = secrets.token_hex(8)
        try:
            channel = self.run(call("channel"))[0]["channel"]
            self._conn.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            with self._database.connect(self._database.dsn()) as other:
                self._database.run(write("echo", payload=self._nonce), other)
        except psycopg.errors.ReadOnlySqlTransaction:
            log.info("notifications do not arrive from a server that is read-only: polling instead")
        except psycopg.errors.ProgramLimitExceeded:
            log.info("notifications do not arrive while the server's queue of them is full: polling instead")

    def hear(self) -> None:
        """Takes in what has arrived. Raises if that is the end of the connection."""
        self._conn.pgconn.consume_input()
        while note := self._conn.pgconn.notifies():
            self._heard(note.extra.decode("utf-8", "replace"))

    def _heard(self, payload: str) -> None:
        word, _, rest = payload.partition(" ")
        if word == "news" and adapters.bucket_in(rest) in self._buckets:
            self._stir()
        elif word == "echo" and rest == self._nonce:
            self.listening = True

    # Locks

    def ask_for(self, types: Types) -> None:
        """Has notifications of these types come; those of others are done without after a while."""
        now = time.monotonic()
        fits = self._watched == types or not self.listening or now < self._ask_at
        if not fits and not (_covers(self._watched, types) and now < self._last_fitted + _TIDY):
            self._watch(types)
            fits = True
        if fits:
            self._last_fitted = now
        self.is_told = self.listening and _covers(self._watched, types)

    def _watch(self, types: Types) -> None:
        # Those of before are given back as they were taken, all at once: types share locks.
        buckets = self.run(_of("add_watcher", types))[0]["add_watcher"] if types != NO_TYPES else ()
        if types != NO_TYPES and not buckets:
            self._refused()
            return
        before, self._watched = self._watched, types
        if before != NO_TYPES:
            self.run(_of("remove_watcher", before))
        self._buckets = frozenset(buckets)

    def _refused(self) -> None:
        """Another session keeps a lock that watchers share, as any login can."""
        if self._ask_at == float("-inf"):
            log.warning(
                "another session keeps an advisory lock that watchers share: polling instead. Which one:"
                " howdah doctor --only advisory-lock-held"
            )
        self._ask_at = time.monotonic() + _ASK_AGAIN_AFTER


def _of(function: str, types: Types) -> Plan[Any]:
    return call(function, job_types=None if types is None else sorted(types))


def _covers(some: Types, others: Types) -> bool:
    return some is None or (others is not None and some >= others)


class _Pace:
    """How soon one round may follow another."""

    def __init__(self) -> None:
        self._begun: deque[float] = deque(maxlen=_BURST)
        self._ended = 0.0

    def begin(self) -> None:
        self._begun.append(time.monotonic())

    def end(self) -> None:
        self._ended = time.monotonic()

    def rest(self) -> float:
        took = self._ended - self._begun[-1]
        earliest = self._ended + min(_SHARE * took, _LONGEST_REST)
        if len(self._begun) == _BURST:
            earliest = max(earliest, self._begun[0] + _BURST_TIME)
        return earliest - time.monotonic()
