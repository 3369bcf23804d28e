"""Forks: a copy of this process shares no channel with it, and never acts in its place.

A handler may fork. Its copy has the same sockets, pipes and event loop, and whatever it writes, even a farewell, would be
taken for the original's. So each channel that was named here is replaced by /dev/null as soon as the copy exists. A copy
that leaves the handler, or whose loop goes on, ends at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import weakref
from collections import deque
from typing import Any, Final, NoReturn, Protocol

from howdah.model.failure import describe, loggable

EXIT_CODE: Final = 70


class Channel(Protocol):
    """A connection or a pipe."""

    def fileno(self) -> int: ...


_channels: weakref.WeakSet[Channel] = weakref.WeakSet()
_loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()


def keep_channel(channel: Channel) -> None:
    """Copies of this process do not share this channel."""
    _channels.add(channel)


def keep_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Copies of this process do not run this loop."""
    _loops.add(loop)


def end_copy(original: int, handler: str, error: BaseException | None = None) -> None:
    """Called where a handler has returned or raised: ends this process if it is a copy of the original."""
    if os.getpid() != original:
        how = "" if error is None else f" by {describe(loggable(error))}"
        _end(f"it left the handler {handler!r}{how}")


def _end(why: str) -> NoReturn:
    # Neither a traceback nor a farewell: what is buffered, open or registered here is the original's.
    message = f"howdah: process {os.getpid()} is a forked copy of a worker, and ends: {why}. End a fork by os._exit()\n"
    with contextlib.suppress(OSError):
        os.write(2, message.encode(errors="backslashreplace"))
    os._exit(EXIT_CODE)


class _NoSelector:
    """In the place of a loop's selector, which the copy shares with the original."""

    def __getattr__(self, name: str) -> Any:
        _end("its event loop went on")


class _NothingReady(deque[Any]):
    """In the place of what a loop is about to call: the original calls it."""

    def popleft(self) -> Any:
        _end("its event loop went on")


def _part_from_original() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for channel in list(_channels):
        with contextlib.suppress(Exception):  # it is closed
            os.dup2(null, channel.fileno(), inheritable=False)
    os.close(null)
    for loop in list(_loops):
        if isinstance(loop, asyncio.SelectorEventLoop):
            loop._ready, loop._selector = _NothingReady(), _NoSelector()  # type: ignore[attr-defined]
        elif not loop.is_closed():
            # The loops of others have no such part: what they were about to do comes first.
            loop.call_soon(_end, "its event loop went on")


os.register_at_fork(after_in_child=_part_from_original)
