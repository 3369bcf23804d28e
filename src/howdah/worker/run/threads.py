"""Threads for sync handlers. Daemons, because a handler that will not end must not keep the process alive.

A thread that is done with one call goes on with the next. Another one is woken, or started, only when a call waits
while all others are at work; and then just one at a time, each of which wakes the next. So quick handlers are called
by a thread or two, which hardly ever wait for each other's turn with the interpreter; slow ones by as many as may be.

A thread cannot be stopped from outside. When its job is taken from it, it is abandoned: another thread
takes its place at once, and it ends with the call that it is in, if ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from howdah.db import forks

log = logging.getLogger("howdah.worker")

Ended: TypeAlias = Callable[[Any, BaseException | None], None]


class Threads:
    """Up to so many threads, which take calls in turn."""

    def __init__(self, most: int, *, leaked: Callable[[int], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self.pid = os.getpid()
        self._most = most
        self._leaked = leaked
        self._started = 0
        self._idle = 0
        self._closed = False
        # Appending to a deque and taking from it need no lock; what is checked and then done does.
        self._lock = threading.Lock()
        self._calls: deque[ThreadCall] = deque()
        self._bell = threading.Semaphore(0)
        self._somebody_comes = False
        """A thread is on its way to look for calls."""
        self._ended: deque[tuple[ThreadCall, Any, BaseException | None]] = deque()
        self._told = False
        """The loop is about to hear of what has ended."""

    def call(self, function: Callable[[], Any], ended: Ended, context: contextvars.Context, name: str) -> ThreadCall:
        """Runs the function in a thread. What it returns or raises is said to ``ended``, on the loop."""
        call = ThreadCall(self, function, ended, context, name)
        self._calls.append(call)
        try:
            self._send_somebody()
        except RuntimeError:
            call.abandon()
            raise
        return call

    def close(self) -> None:
        self._closed = True
        for _ in range(self._started):
            self._bell.release()

    def replace(self) -> None:
        """A thread is given up: another one takes its place."""
        self._leaked(1)
        with self._lock:
            self._started -= 1
        try:
            self._send_somebody()
        except RuntimeError as error:
            log.error("no thread takes the place of one that will not end: %s", error)

    def tell(self, call: ThreadCall, value: Any, error: BaseException | None) -> None:
        """A call has ended: all that end at about the same time are told together."""
        self._ended.append((call, value, error))
        if not self._told:
            self._told = True
            _tell(self.loop, self._settle)

    def _settle(self) -> None:
        self._told = False
        while self._ended:
            call, value, error = self._ended.popleft()
            try:
                call.ended(value, error)
            except Exception:
                log.exception("unexpected, after a call of %s in a thread", call.name)

    def _send_somebody(self) -> None:
        with self._lock:
            if self._somebody_comes or not self._calls:
                return
            if self._idle:
                self._somebody_comes = True
                self._bell.release()
            elif self._started < self._most:
                self._start_one()
            # Otherwise, whoever is done first takes it.

    def _start_one(self) -> None:
        self._somebody_comes = True
        self._started += 1
        try:
            threading.Thread(target=self._work, name="howdah-handler", daemon=True).start()
        except RuntimeError:
            # The system has no more of them. Those that are there go on.
            self._somebody_comes = False
            self._started -= 1
            if not self._started:
                raise

    def _work(self) -> None:
        thread, named = threading.current_thread(), ""
        self._arrive()
        while not self._closed:
            try:
                call = self._calls.popleft()
            except IndexError:
                thread.name, named = "howdah-handler", ""
                self._rest()
                continue
            if self._calls:
                self._send_somebody()
            if named != call.name:
                named = call.name
                thread.name = f"howdah {named}"
            call.run()
            if call.leaked:
                _tell(self.loop, self._leaked, -1)
                if not self._is_missed():
                    return
            del call

    def _is_missed(self) -> bool:
        """Whether a thread that was given up goes on after all: when none could take its place."""
        with self._lock:
            if self._started:
                return False
            self._started = 1
            return True

    def _rest(self) -> None:
        with self._lock:
            if self._calls or self._closed:
                return
            self._idle += 1
        self._bell.acquire()
        with self._lock:
            self._idle -= 1
        self._arrive()

    def _arrive(self) -> None:
        self._somebody_comes = False


class ThreadCall:
    """A call on its way through a thread."""

    __slots__ = (
        "_began",
        "_context",
        "_function",
        "_is_over",
        "_lock",
        "_threads",
        "abandoned",
        "ended",
        "leaked",
        "name",
    )

    def __init__(
        self, threads: Threads, function: Callable[[], Any], ended: Ended, context: contextvars.Context, name: str
    ) -> None:
        self.name = name
        self.abandoned = False
        self.leaked = False
        self._began = False
        self._is_over = False
        self._threads = threads
        self._function = function
        self.ended = ended
        self._context = context
        self._lock = threading.Lock()

    def run(self) -> None:
        with self._lock:
            if self.abandoned:
                return
            self._began = True
        value, error = None, None
        try:
            value = self._context.run(self._function)
        except BaseException as raised:  # noqa: BLE001
            # Also SystemExit and KeyboardInterrupt: a handler does not end the worker.
            error = raised
        forks.end_copy(self._threads.pid, self.name, error)
        if self._ends_in_time():
            self._threads.tell(self, value, error)

    def _ends_in_time(self) -> bool:
        with self._lock:
            self._is_over = True
            return not self.abandoned

    def abandon(self) -> bool:
        """Gives the thread up, and lets another take its place. False if the call has ended meanwhile."""
        with self._lock:
            if self._is_over or self.abandoned:
                return False
            self.abandoned = True
            self.leaked = self._began
        if self.leaked:
            self._threads.replace()
        return True


def _tell(loop: asyncio.AbstractEventLoop, what: Callable[..., object], *arguments: Any) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended: nobody is left to be told
        loop.call_soon_threadsafe(what, *arguments)
