"""Commands that have something to clean up end in an orderly way, whatever ends them."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Final, NoReturn

_ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SOON: Final = 0.01


@contextlib.contextmanager
def interrupted_once() -> Iterator[None]:
    """The first of these signals raises KeyboardInterrupt. The others change nothing: it is cleaning up already."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Who started it with nohup does not want it to hear that the terminal is gone.
    heard = [number for number in _ENDS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.getsignal(number) for number in heard}

    def interrupt(_number: int, _frame: object) -> NoReturn:
        # For good: the process is about to end, and is to say so by its exit code.
        before.clear()
        for number in heard:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    def interrupt_again(lost: sys.UnraisableHookArgs) -> None:
        if lost.exc_type is not KeyboardInterrupt:
            tell_of_lost(lost)
            return
        signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, _SOON)

    # A finalizer or a callback that happens to run as the signal comes swallows whatever is raised then.
    tell_of_lost, sys.unraisablehook = sys.unraisablehook, interrupt_again
    for number in heard:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook = tell_of_lost
