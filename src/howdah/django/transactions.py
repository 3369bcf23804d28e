"""Transactions that a task leaves open. Django never ends them: all later tasks of the thread would be in one, and lose their writes."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from django.db import connections

_OPEN: Final = (2, 3)
"""The states of a session inside of a transaction, as libpq numbers them. In the second, a statement has failed."""


class LeftOpen(RuntimeError):
    """A task has returned inside of a transaction."""

    def __init__(self, aliases: list[str]) -> None:
        super().__init__(
            f"the task returned inside of a transaction of {', '.join(map(repr, aliases))}, which was rolled back: leave each"
            " atomic(), and commit what was begun without it"
        )


def end() -> list[str]:
    """Closes the connections of this thread that are inside of a transaction. Returns their aliases."""
    left = [each for each in connections.all(initialized_only=True) if _is_open(each)]
    for connection in left:
        _close(connection)
    return [each.alias for each in left]


class Before(NamedTuple):
    """The connection of a test before a task."""

    connection: Any
    savepoint: str | None
    """A savepoint without atomic(): a task may itself begin a durable transaction, as it may in a worker."""
    depth: int
    blocks: int

    @classmethod
    def of(cls, connection: Any) -> Before:
        savepoint = connection.savepoint() if connection.in_atomic_block else None
        return cls(connection, savepoint, len(connection.savepoint_ids), len(connection.atomic_blocks))

    def undo_left_open(self) -> list[str]:
        """Rolls back what the task left open. Returns the connection's alias if there was something."""
        connection = self.connection
        if self.savepoint is None:
            is_left = _is_open(connection)
            if is_left:
                _close(connection)
            return [connection.alias] if is_left else []
        left = connection.savepoint_ids[self.depth :]
        del connection.savepoint_ids[self.depth :], connection.atomic_blocks[self.blocks :]
        if left:
            connection.needs_rollback = False
            # An atomic(savepoint=False) has none.
            connection.savepoint_rollback(left[0] or self.savepoint)
        return [connection.alias] if left else []

    def restore(self) -> None:
        """Without an error of the database, the task's writes stay, as they do in a worker."""
        self.undo_left_open()
        connection = self.connection
        if self.savepoint is None:
            if connection.connection is not None and connection.autocommit != connection.settings_dict["AUTOCOMMIT"]:
                connection.close()
        elif connection.connection.info.transaction_status == _OPEN[1]:
            connection.needs_rollback = False
            connection.savepoint_rollback(self.savepoint)
        else:
            connection.savepoint_commit(self.savepoint)


def _is_open(connection: Any) -> bool:
    if connection.in_atomic_block:
        return True
    raw = connection.connection
    if raw is None or not connection.settings_dict["AUTOCOMMIT"]:
        # Without autocommit, every statement begins a transaction, and the project ends them.
        return False
    info = getattr(raw, "info", None)
    return bool(getattr(raw, "in_transaction", False)) if info is None else info.transaction_status in _OPEN


def _close(connection: Any) -> None:
    connection.in_atomic_block = connection.closed_in_transaction = False
    connection.close()
