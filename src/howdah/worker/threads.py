"""Threads for sync handlers. Daemons, because a handler that will not end must not keep the process alive.

A thread cannot be stopped from outside. When its job is taken from it, it is abandoned: another thread
takes its place at once, and it ends with the call that it is in, if ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any


class Threads:
    """A fixed number of threads that take calls in turn."""

    def __init__(self, count: int, *, leaked: Callable[[int], None]) -> None:
        self._calls: queue.SimpleQueue[ThreadCall | None] = queue.SimpleQueue()
        self._count = count
        self._leaked = leaked
        self._started = 0

    def call(self, function: Callable[[], Any], name: str) -> ThreadCall:
        """Runs the function in a thread; the call's ``future`` gets what it returns or raises."""
        call = ThreadCall(self, asyncio.get_running_loop(), function, name)
        if self._started < self._count:
            self._start()
            self._started += 1
        self._calls.put(call)
        return call

    def close(self) -> None:
        for _ in range(self._started):
            self._calls.put(None)

    def _start(self) -> None:
        threading.Thread(target=self._work, name="howdah-handler", daemon=True).start()

    def _work(self) -> None:
        thread = threading.current_thread()
        while (call := self._calls.get()) is not None:
            thread.name = f"howdah {call.name}"
            call.run()
            thread.name = "howdah-handler"
            if call.leaked:
                _tell(call.loop, self._leaked, -1)
                return
            del call


class ThreadCall:
    """A call on its way through a thread."""

    def __init__(self, threads: Threads, loop: asyncio.AbstractEventLoop, function: Callable[[], Any], name: str):
        self.future: asyncio.Future[Any] = loop.create_future()
        self.loop = loop
        self.name = name
        self.abandoned = False
        self.leaked = False
        self._began = False
        self._threads = threads
        self._function = function
        self._context = contextvars.copy_context()
        self._lock = threading.Lock()
        self._ended = False

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
        if not self._ends_in_time():
            return
        _tell(self.loop, self._settle, value, error)

    def _ends_in_time(self) -> bool:
        with self._lock:
            self._ended = True
            return not self.abandoned

    def abandon(self) -> bool:
        """Gives the thread up, and lets another take its place. False if the call has ended meanwhile."""
        with self._lock:
            if self._ended or self.abandoned:
                return False
            self.abandoned = True
            self.leaked = self._began
        if self.leaked:
            self._threads._leaked(1)
            self._threads._start()
        return True

    def _settle(self, value: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(value)
        else:
            self.future.set_exception(Raised(error))


def _tell(loop: asyncio.AbstractEventLoop, what: Callable[..., object], *arguments: Any) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended: nobody is left to be told
        loop.call_soon_threadsafe(what, *arguments)


class Raised(Exception):
    """Carries any BaseException through a future, which takes neither StopIteration nor SystemExit well."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error
