"""Forks: a forked copy of this process must not use its connections and pipes.

A handler may fork. The copy has the same sockets, pipes and event loop, and everything that it writes, even a goodbye to
the server, would count as the original's. So each channel that is registered here is replaced by /dev/null as soon as the
copy exists. A copy that leaves the handler, or whose event loop continues, is ended at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import sys
import weakref
from collections import deque
from typing import Any, Final, NoReturn, Protocol

from howdah.model.failure import describe, loggable

EXIT_CODE: Final = 70
_WIPE_ON_FORK: Final = 18
"""MADV_WIPEONFORK of Linux, which Python's mmap does not name."""


class Channel(Protocol):
    """A connection or a pipe."""

    def fileno(self) -> int: ...


_channels: weakref.WeakSet[Channel] = weakref.WeakSet()
_loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()


def keep_channel(channel: Channel) -> None:
    """Makes copies of this process not share this channel."""
    _channels.add(channel)


def keep_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Makes copies of this process not run this loop."""
    _loops.add(loop)


class _AsksKernel:
    def __init__(self) -> None:
        self._pid = os.getpid()

    def __getitem__(self, place: int) -> int:
        return os.getpid() == self._pid


def mark_of_original() -> mmap.mmap | _AsksKernel:
    """Its first element is 0 in every copy of this process, also in one that C code forks and Python does not know of.

    To look at it takes a twentieth of what it takes to ask the kernel for the process's id, which counts once for each job.
    """
    if sys.platform != "linux":
        return _AsksKernel()
    page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        page.madvise(_WIPE_ON_FORK)
    except OSError:  # before Linux 4.14
        return _AsksKernel()
    page[0] = 1
    return page


def end_copy(original: int, handler: str, error: BaseException | None = None) -> None:
    """Called when a handler returned or raised. Ends this process if it is a copy of the original."""
    if os.getpid() != original:
        how = "" if error is None else f" by {describe(loggable(error))}"
        _end(f"it left the handler {handler!r}{how}")


def _end(why: str) -> NoReturn:
    # Nothing is flushed, closed or called at exit: all buffers, files and handlers are the original's.
    message = f"howdah: process {os.getpid()} is a forked copy of a worker, and ends: {why}. End a fork by os._exit()\n"
    with contextlib.suppress(OSError):
        os.write(2, message.encode(errors="backslashreplace"))
    os._exit(EXIT_CODE)


class _NoSelector:
    """Replaces a loop's selector, which the copy shares with the original."""

    def __getattr__(self, name: str) -> Any:
        _end("its event loop went on")


class _NothingReady(deque[Any]):
    """Replaces the queue of callbacks that a loop is about to call: the original calls them."""

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
            # Other loops have no such attributes: their next callbacks run first.
            loop.call_soon(_end, "its event loop went on")


os.register_at_fork(after_in_child=_part_from_original)
