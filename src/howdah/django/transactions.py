"""Transactions that a task leaves open. Django never ends them: all later tasks of the thread would be in one, and lose their writes."""

from __future__ import annotations

from typing import Any, Final

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
