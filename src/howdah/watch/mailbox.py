"""Mailboxes: where the hub leaves what a subscriber is to hear, and the bell that it rings.

One is read by a thread or by a task of an event loop, and filled by the hub's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, TypeAlias

from howdah.db.plan import Row
from howdah.errors import QueueClosed

ROOM = 10_000
"""How many notes a mailbox holds before its reader counts as too slow."""
BYTES = 16 << 20
"""And how much of users' own values, about."""
_LARGE: Final = ("data", "result", "checkpoint", "errors", "last_error")

NoteKind: TypeAlias = Literal["joined", "event", "state", "end", "counts", "lost"]


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """Something for subscribers; "lost": there was more than it had room for, and all of it was thrown away.

    Weighed once, so one for all that get the same.
    """

    kind: NoteKind
    row: Row | None = None
    position: str = ""

    weight: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        weight = 0 if self.row is None else sum(_weight(self.row.get(name)) for name in _LARGE)
        object.__setattr__(self, "weight", weight)


class ThreadBell:
    """Wakes a thread."""

    is_deserted = False

    def __init__(self) -> None:
        self._rung = threading.Event()

    def ring(self) -> None:
        self._rung.set()

    def wait(self, seconds: float | None) -> None:
        self._rung.wait(seconds)
        self._rung.clear()


class LoopBell:
    """Wakes a task of the event loop that it is made in."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.rung = asyncio.Event()

    @property
    def is_deserted(self) -> bool:
        """Whether nobody can be woken any more."""
        return self.loop.is_closed()

    async def wait(self, seconds: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.rung.wait()
        self.rung.clear()


Bell: TypeAlias = ThreadBell | LoopBell


class Mailbox:
    """What one subscriber has not read yet.

    hungry: called when there is room again, where the hub has held something back.
    loses: whether one note too many makes it lose them all; if not, it takes whatever comes.
    """

    def __init__(self, bell: Bell, hungry: Callable[[], None], *, loses: bool = False) -> None:
        self.bell = bell
        self._hungry = hungry
        self._loses = loses
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._notes: OrderedDict[Any, Note] = OrderedDict()
        self._count = 0
        self._bytes = 0
        self._error: BaseException | None = None
        self._starves = False
        self.is_lost = False

    def put(self, note: Note, key: Any = None) -> None:
        """Adds a note; one of the same key that is still there is replaced by it, at the end of the line."""
        with self._lock:
            if self.is_lost:
                return
            replaced = self._notes.pop(key, None)
            self._bytes -= 0 if replaced is None else replaced.weight
            if self._loses and self._is_full():
                self.is_lost = True
                # Where it began is what it can begin anew from.
                self._notes = OrderedDict((key, old) for key, old in self._notes.items() if old.kind == "joined")
                self._bytes = 0
                note = Note("lost")
            self._count += 1
            self._bytes += note.weight
            self._notes[self._count if key is None else key] = note

    def _is_full(self) -> bool:
        return len(self._notes) >= ROOM or self._bytes >= BYTES

    def fail(self, error: BaseException) -> None:
        """From now on, who has read everything gets this."""
        with self._lock:
            self._error = error

    def has_room(self) -> bool:
        """Whether its reader keeps up. If not, it calls for more once half of it is read."""
        with self._lock:
            self._starves = self._is_full()
            return not self._starves

    def take(self, most: int = 100) -> list[Note]:
        """The next notes. Raises what the hub has failed with, once there are no more."""
        if self._pid != os.getpid():
            # The hub lives in the parent, and may even have held this lock.
            raise QueueClosed("this was begun in another process: begin it anew after a fork")
        with self._lock:
            taken = [self._notes.popitem(last=False)[1] for _ in range(min(most, len(self._notes)))]
            self._bytes -= sum(note.weight for note in taken)
            if not taken and self._error is not None:
                # Others raise it too, and each adds to its own what it comes through.
                raise copy.copy(self._error) from self._error
            calls = self._starves and len(self._notes) <= ROOM // 2 and self._bytes <= BYTES // 2
            self._starves = self._starves and not calls
        if calls:
            self._hungry()
        return taken


def _weight(value: Any) -> int:
    """About how many bytes a JSON value has."""
    weight, pending = 0, [value]
    while pending:
        match pending.pop():
            case str(text):
                weight += len(text)
            case dict(members):
                weight += sum(map(len, members))
                pending.extend(members.values())
            case list(members):
                pending.extend(members)
            case None:
                pass
            case _:
                weight += 8
    return weight


def ring(mailboxes: Iterable[Mailbox]) -> None:
    """Wakes their readers, those of one loop at once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Mailbox]] = {}
    for mailbox in mailboxes:
        if isinstance(mailbox.bell, LoopBell):
            by_loop.setdefault(mailbox.bell.loop, []).append(mailbox)
        else:
            mailbox.bell.ring()
    for loop, group in by_loop.items():
        with contextlib.suppress(RuntimeError):  # closed
            loop.call_soon_threadsafe(_ring_all, group)


def _ring_all(group: list[Mailbox]) -> None:
    for mailbox in group:
        assert isinstance(mailbox.bell, LoopBell)
        mailbox.bell.rung.set()
