"""Turns on a connection of the caller's. Verbs with a transaction of their own take one, and hold it until they have ended.

Threads and tasks may share a connection. Transactions that overlap there are not nested: one verb's rollback would undo what another
one has acknowledged. Within a thread or a task they are, so there a turn includes further ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator


class _Turns:
    """Of one connection."""

    def __init__(self) -> None:
        self.users = 0
        self.of_threads = threading.RLock()
        self.of_tasks = asyncio.Lock()
        self.task: asyncio.Task[object] | None = None


_guard = threading.Lock()
_turns: dict[int, _Turns] = {}
"""By the id of the connection, which lives while a verb is under way on it."""


@contextlib.contextmanager
def turn(conn: object) -> Iterator[None]:
    with _used(conn) as turns, turns.of_threads:
        yield


@contextlib.asynccontextmanager
async def aturn(conn: object) -> AsyncIterator[None]:
    task = asyncio.current_task()
    with _used(conn) as turns:
        if turns.task is task:
            yield
            return
        async with turns.of_tasks:
            turns.task = task
            try:
                yield
            finally:
                turns.task = None


@contextlib.contextmanager
def _used(conn: object) -> Iterator[_Turns]:
    with _guard:
        turns = _turns.setdefault(id(conn), _Turns())
        turns.users += 1
    try:
        yield turns
    finally:
        with _guard:
            turns.users -= 1
            if not turns.users:
                del _turns[id(conn)]
