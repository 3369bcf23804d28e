"""What a claim brought, as ``writes/claim.sql`` packs it: the columns of each job, for whoever asks for one."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from howdah.db.adapters import RawRows, clamped
from howdah.model.codec import Unreadable


class ClaimedRows:
    """How the rows of one claim are read. It holds none of them: a job that runs for long must not keep all the others'."""

    def __init__(self, wired: RawRows, worker_id: str) -> None:
        self.json = wired.json
        self._wired = wired
        self._worker_id = worker_id

    def value(self, row: Sequence[Any], column: str) -> Any:
        """What is in a column of a row. Raises KeyError if there is no such column."""
        match column:
            case "worker_id":
                return self._worker_id
            case "started_at":
                return self._wired.value(row, "claimed_at") if self._wired.value(row, "status") == "running" else None
            case "created_at" | "first_due_at":
                return self._wired.value(row, column) or self._wired.value(row, "run_at")
        try:
            return self._wired.value(row, column)
        except KeyError:
            rare = self._wired.value(row, "rare") or {}
            if isinstance(rare, Unreadable):
                # Which of them is to blame is not known. Who goes on from a checkpoint must not begin anew.
                rare = {"checkpoint": rare}
            return _value(column, rare[column])


def _value(column: str, value: Any) -> Any:
    """A value that was packed as JSON."""
    if value is None:
        return None
    if column.endswith("_at"):
        return _moment(value)
    return uuid.UUID(value) if column in ("parent_id", "workflow_id") else value


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return clamped(text)
