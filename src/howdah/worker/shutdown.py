"""Signals: the first one stops a worker gently, the second at once.

A service manager may send the same signal to a worker twice at once, directly and through its parent:
an echo within ECHO seconds is not a second one.
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


def without_echo(stop: Callable[[], None]) -> Callable[[], None]:
    last = float("-inf")

    def heard() -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > ECHO:
            last = now
            stop()

    return heard


@contextlib.contextmanager
def handled_signals(stop: Callable[[], None]) -> Iterator[None]:
    """While inside, SIGTERM and SIGINT call ``stop``. Elsewhere than in the main thread, nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    heard = without_echo(stop)
    for number in STOPPING:
        loop.add_signal_handler(number, heard)
    try:
        yield
    finally:
        for number in STOPPING:
            loop.remove_signal_handler(number)
