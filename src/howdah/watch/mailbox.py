"""Mailboxes: where the hub puts messages for a subscriber.

The hub's thread fills a mailbox. A thread or a task of an event loop reads it.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, TypeAlias

from howdah.db.plan import LoopWaker, Pause, Plan, Row, Waker
from howdah.errors import QueueClosed

ROOM = 10_000
"""How many messages a mailbox holds before its reader counts as too slow."""
BYTES = 16 << 20
"""How many bytes of users' own values it holds before that, about."""
_LARGE: Final = ("data", "result", "checkpoint", "errors", "last_error")

MessageKind: TypeAlias = Literal["joined", "event", "state", "end", "counts", "whole", "lost"]


@dataclasses.dataclass(frozen=True, slots=True)
class Message:
    """News for subscribers. "lost": the mailbox was full, and everything in it was thrown away.

    One object for all subscribers that get the same, so that it is weighed once.
    """

    kind: MessageKind
    row: Row | None = None
    position: str = ""

    weight: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        weight = 0 if self.row is None else _weight([self.row.get(name) for name in _LARGE])
        object.__setattr__(self, "weight", weight)


class Mailbox:
    """The messages that one subscriber has not read yet.

    waker: ends the reader's pause. on_room: called when there is room again, after the hub has held messages back.
    loses: whether one message too many makes it lose them all; if not, it takes everything.
    """

    def __init__(self, waker: Waker, on_room: Callable[[], None], *, loses: bool = False) -> None:
        self.waker = waker
        self._on_room = on_room
        self._loses = loses
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._messages: OrderedDict[Any, Message] = OrderedDict()
        self._count = 0
        self._bytes = 0
        self._error: BaseException | None = None
        self._is_held_back = False
        self.is_lost = False

    def put(self, message: Message, key: Any = None) -> None:
        """Adds a message at the end. It replaces an unread one of the same key."""
        with self._lock:
            if self.is_lost:
                return
            replaced = self._messages.pop(key, None)
            self._bytes -= 0 if replaced is None else replaced.weight
            if self._loses and self._is_full():
                self.is_lost = True
                # The reader resumes from the position at which it joined.
                self._messages = OrderedDict((key, old) for key, old in self._messages.items() if old.kind == "joined")
                self._bytes = 0
                message = Message("lost")
            self._count += 1
            self._bytes += message.weight
            self._messages[self._count if key is None else key] = message

    def _is_full(self) -> bool:
        return len(self._messages) >= ROOM or self._bytes >= BYTES

    def fail(self, error: BaseException) -> None:
        """The reader gets this error once it has read all messages."""
        with self._lock:
            self._error = error

    def has_room(self) -> bool:
        """Whether the reader keeps up. If not, ``on_room`` is called once half of the messages are read."""
        with self._lock:
            self._is_held_back = self._is_full()
            return not self._is_held_back

    def take(self, most: int = 100) -> list[Message]:
        """The next messages. Raises the hub's error once there are no more."""
        if self._pid != os.getpid():
            # The hub runs in the parent process, and may even have held this lock at the fork.
            raise QueueClosed("this was begun in another process: begin it anew after a fork")
        with self._lock:
            taken = [self._messages.popitem(last=False)[1] for _ in range(min(most, len(self._messages)))]
            self._bytes -= sum(message.weight for message in taken)
            if not taken and self._error is not None:
                # A copy for each reader: raising adds a traceback to it.
                raise copy.copy(self._error) from self._error
            has_room = self._is_held_back and len(self._messages) <= ROOM // 2 and self._bytes <= BYTES // 2
            self._is_held_back = self._is_held_back and not has_room
        if has_room:
            self._on_room()
        return taken

    def receive(self, deadline: float | None = None) -> Plan[list[Message]]:
        """The next messages, waiting for them until the deadline (of the monotonic clock). None in time: an empty list."""
        while not (messages := self.take()):
            seconds = None if deadline is None else deadline - time.monotonic()
            if seconds is not None and seconds <= 0:
                break
            yield Pause(seconds, self.waker)
        return messages


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


def wake_all(mailboxes: Iterable[Mailbox]) -> None:
    """Wakes the readers, those of one event loop together."""
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Event]] = {}
    for mailbox in mailboxes:
        if isinstance(mailbox.waker, LoopWaker):
            by_loop.setdefault(mailbox.waker.loop, []).append(mailbox.waker.event)
        else:
            mailbox.waker.set()
    for loop, events in by_loop.items():
        with contextlib.suppress(RuntimeError):  # closed
            loop.call_soon_threadsafe(_set_all, events)


def _set_all(events: list[asyncio.Event]) -> None:
    for event in events:
        event.set()
