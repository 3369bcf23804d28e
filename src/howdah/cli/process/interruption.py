"""Signals: commands with something to clean up end in an orderly way."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Final, NoReturn

_ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SOON: Final = 0.01


@contextlib.contextmanager
def interrupted_once() -> Iterator[None]:
    """The first signal raises KeyboardInterrupt. Later ones are ignored: the command is already cleaning up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # With nohup, SIGHUP stays ignored.
    signals = [number for number in _ENDS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.getsignal(number) for number in signals}

    def interrupt(_number: int, _frame: object) -> NoReturn:
        # Not restored: the process is about to end, with its own exit code.
        before.clear()
        for number in signals:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    def interrupt_again(lost: sys.UnraisableHookArgs) -> None:
        if lost.exc_type is not KeyboardInterrupt:
            previous_hook(lost)
            return
        signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, _SOON)

    # A finalizer or a callback that runs as the signal comes swallows the exception; then it is raised again.
    previous_hook, sys.unraisablehook = sys.unraisablehook, interrupt_again
    for number in signals:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook = previous_hook


class Terminal:
    """The terminal of this process, if it has one: a SIGHUP may mean that it was closed, or was sent on purpose."""

    def __init__(self) -> None:
        self._was_there = _is_there()

    def is_gone(self) -> bool:
        return self._was_there and not _is_there()


def _is_there() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
