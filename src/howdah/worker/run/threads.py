"""Threads for sync handlers. They are daemons, because a handler that does not end must not keep the process alive.

A thread that has finished a call takes the next one. Another thread is woken, or started, only when a call waits while all
others are busy; and then only one at a time, each of which wakes the next. So quick handlers are called by one or two
threads, which hardly ever compete for the interpreter lock; slow ones by as many as allowed.

A thread cannot be stopped from outside. When its job is taken away, it is abandoned: another thread takes its place at
once, and it ends with its current call, if ever.
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

OnResult: TypeAlias = Callable[[Any, BaseException | None], None]

END_WITHIN = 5.0
"""Seconds that a stopping worker waits for its threads, if they have something to do at their end."""


class Threads:
    """Up to ``most`` threads, which take calls in turn."""

    def __init__(self, most: int, *, on_leak: Callable[[int], None], at_end: Callable[[], None] | None = None) -> None:
        """at_end: called in each thread before it ends."""
        self.loop = asyncio.get_running_loop()
        self.pid = os.getpid()
        self._most = most
        self._on_leak = on_leak
        self._at_end = at_end
        self._started = 0
        self._ended = 0
        self._all_ended = asyncio.Event()
        self._idle = 0
        self._closed = False
        # Appending to a deque and taking from it need no lock. A check followed by an action does.
        self._lock = threading.Lock()
        self._calls: deque[ThreadCall] = deque()
        self._calls_waiting = threading.Semaphore(0)
        self._thread_coming = False
        """A thread has been woken or started, and will look for calls."""
        self._results: deque[tuple[ThreadCall, Any, BaseException | None]] = deque()
        self._results_scheduled = False
        """The loop will process the results."""

    def call(
        self, function: Callable[[], Any], on_result: OnResult, context: contextvars.Context, name: str
    ) -> ThreadCall:
        """Run the function in a thread. ``on_result`` gets its return value or exception, on the loop."""
        call = ThreadCall(self, function, on_result, context, name)
        self._calls.append(call)
        try:
            self._wake_thread()
        except RuntimeError:
            call.abandon()
            raise
        return call

    def close(self) -> None:
        self._closed = True
        for _ in range(self._started):
            self._calls_waiting.release()

    async def ended(self) -> None:
        """Wait until closed threads have ended, within a limit, if they have something to do at their end."""
        if self._at_end is None or self._ended >= self._started:
            return
        try:
            async with asyncio.timeout(END_WITHIN):
                await self._all_ended.wait()
        except TimeoutError:
            left = self._started - self._ended
            log.error("threads for handlers that have not ended within %g s: %d", END_WITHIN, left)

    def replace(self) -> None:
        """A thread is abandoned: another one takes its place."""
        self._on_leak(1)
        with self._lock:
            self._started -= 1
        try:
            self._wake_thread()
        except RuntimeError as error:
            log.error("no thread can replace one that does not end: %s", error)

    def add_result(self, call: ThreadCall, value: Any, error: BaseException | None) -> None:
        """A call has ended. Results of about the same time reach the loop together."""
        self._results.append((call, value, error))
        if not self._results_scheduled:
            self._results_scheduled = True
            _schedule(self.loop, self._process_results)

    def _process_results(self) -> None:
        self._results_scheduled = False
        while self._results:
            call, value, error = self._results.popleft()
            try:
                call.on_result(value, error)
            except Exception:
                log.exception("unexpected error after a call of %s in a thread", call.name)

    def _wake_thread(self) -> None:
        with self._lock:
            if self._thread_coming or not self._calls:
                return
            if self._idle:
                self._thread_coming = True
                self._calls_waiting.release()
            elif self._started < self._most:
                self._start_one()
            # Otherwise the first thread that is free takes the call.

    def _start_one(self) -> None:
        self._thread_coming = True
        self._started += 1
        try:
            threading.Thread(target=self._work, name="howdah-handler", daemon=True).start()
        except RuntimeError:
            # The system has no more threads. The existing ones continue.
            self._thread_coming = False
            self._started -= 1
            if not self._started:
                raise

    def _work(self) -> None:
        if self._at_end is None:
            self._take_calls()
            return
        abandoned = True
        try:
            abandoned = not self._take_calls()
        finally:
            self._at_end()
            if not abandoned:
                _schedule(self.loop, self._on_end)

    def _on_end(self) -> None:
        self._ended += 1
        if self._ended >= self._started:
            self._all_ended.set()

    def _take_calls(self) -> bool:
        """Run calls until the end. False: this thread was abandoned, and another has taken its place."""
        thread, named = threading.current_thread(), ""
        self._thread_coming = False
        while not self._closed:
            try:
                call = self._calls.popleft()
            except IndexError:
                thread.name, named = "howdah-handler", ""
                self._rest()
                continue
            if self._calls:
                self._wake_thread()
            if named != call.name:
                named = call.name
                thread.name = f"howdah {named}"
            call.run()
            if call.leaked:
                _schedule(self.loop, self._on_leak, -1)
                if not self._may_continue():
                    return False
            del call
        return True

    def _may_continue(self) -> bool:
        """Whether an abandoned thread takes calls again: only if none could replace it."""
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
        self._calls_waiting.acquire()
        with self._lock:
            self._idle -= 1
        self._thread_coming = False


class ThreadCall:
    """A call in a thread, or on its way there."""

    __slots__ = (
        "_context",
        "_function",
        "_has_begun",
        "_is_over",
        "_lock",
        "_threads",
        "abandoned",
        "leaked",
        "name",
        "on_result",
    )

    def __init__(
        self,
        threads: Threads,
        function: Callable[[], Any],
        on_result: OnResult,
        context: contextvars.Context,
        name: str,
    ) -> None:
        self.name = name
        self.abandoned = False
        self.leaked = False
        self._has_begun = False
        self._is_over = False
        self._threads = threads
        self._function = function
        self.on_result = on_result
        self._context = context
        self._lock = threading.Lock()

    def run(self) -> None:
        with self._lock:
            if self.abandoned:
                return
            self._has_begun = True
        value, error = None, None
        try:
            value = self._context.run(self._function)
        except BaseException as raised:  # noqa: BLE001
            # Also SystemExit and KeyboardInterrupt: a handler does not end the worker.
            error = raised
        forks.end_copy(self._threads.pid, self.name, error)
        if self._ends_in_time():
            self._threads.add_result(self, value, error)

    def _ends_in_time(self) -> bool:
        with self._lock:
            self._is_over = True
            return not self.abandoned

    def withdraw(self) -> bool:
        """Take the call back. False if it has begun."""
        with self._lock:
            if self._has_begun or self.abandoned:
                return False
            self.abandoned = True
            return True

    def abandon(self) -> bool:
        """Abandon the thread, and let another take its place. False if the call has ended meanwhile."""
        with self._lock:
            if self._is_over or self.abandoned:
                return False
            self.abandoned = True
            self.leaked = self._has_begun
        if self.leaked:
            self._threads.replace()
        return True


def _schedule(loop: asyncio.AbstractEventLoop, what: Callable[..., object], *arguments: Any) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(what, *arguments)
