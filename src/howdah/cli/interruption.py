"""Commands that have something to clean up end in an orderly way, whatever ends them."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Final, NoReturn

_ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
        for number in heard:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in heard:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
