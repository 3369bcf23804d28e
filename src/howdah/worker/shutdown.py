"""Stopping a worker: the first request stops it gently, the second at once. Signals are such requests.

A service manager may send the same signal to a worker twice, directly and through its parent: a repetition within ECHO
seconds does not count.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator

STOPPING = (signal.SIGTERM, signal.SIGINT)
ECHO = 0.3


class StopRequests:
    """How often a worker was asked to stop."""

    def __init__(self) -> None:
        self.count = 0
        self.first = asyncio.Event()
        self.second = asyncio.Event()

    def add(self) -> None:
        self.count += 1
        self.first.set()
        if self.count > 1:
            self.second.set()


def without_echo(stop: Callable[[], None]) -> Callable[[], None]:
    last = float("-inf")

    def on_signal() -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > ECHO:
            last = now
            stop()

    return on_signal


@contextlib.contextmanager
def handled_signals(stop: Callable[[], None]) -> Iterator[None]:
    """While inside, SIGTERM and SIGINT call ``stop``. Elsewhere than in the main thread, nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    on_signal = without_echo(stop)
    for number in STOPPING:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in STOPPING:
            loop.remove_signal_handler(number)
