"""What Howdah's table answers where the plain one would answer otherwise: the listed deviations, for one row at a time.

Holders are not registered workers here, so what protects the jobs of these is not in it.
"""

from __future__ import annotations

from typing import Any, Final

Row = dict[str, Any]

HELD: Final = ("claimed", "running")
ENDED: Final = ("completed", "failed", "cancelled")
PAUSED: Final = "paused"
"""The one job type that is paused."""

_NEVER_NULL: Final = {"progress": 0, "events_count": 0, "attempts": 0, "max_attempts": 3}


def updated(before: Row, after: Row, *, names_error: bool) -> Row | None:
    """The row after an UPDATE that changes it like this on the plain table, or None: the UPDATE passes it over."""
    row = _without_nulls(after, created_at=before["created_at"])
    if _is_refused(before, row, names_error=names_error):
        return None
    if before["status"] in HELD and row["status"] == "pending" and row["attempts"] >= row["max_attempts"]:
        row["status"] = "failed"
        if not names_error:
            row["last_error"] = f"recovered from worker {before['worker_id'] or '(unnamed)'}, with no attempt left"
    return row


def inserted(row: Row, *, created_at: object) -> Row:
    """The row after an INSERT that adds this one to the plain table."""
    return _without_nulls(row, created_at=created_at)


def has_moved(seen: Row | None, now: Row | None) -> bool:
    """Whether a job has ended since a statement began, which waited: then it is no longer where the statement looks."""
    return seen is not None and now is not None and seen["status"] not in ENDED and now["status"] in ENDED


def _is_refused(before: Row, after: Row, *, names_error: bool) -> bool:
    was_held, is_held = before["status"] in HELD, after["status"] in HELD
    is_of_another_claim = before["worker_id"] is not None and after["worker_id"] != before["worker_id"]
    if before["status"] in ENDED:
        return True
    if was_held and is_held:
        steps_back = (before["status"], after["status"]) == ("running", "claimed")
        return bool(after["attempts"] != before["attempts"] or is_of_another_claim or steps_back)
    if was_held:
        return bool(after["attempts"] < before["attempts"] or (is_of_another_claim and after["worker_id"] is not None))
    if is_held:
        return bool(before["job_type"] == PAUSED)
    is_late_fail = names_error and after["last_error"] not in (None, before["last_error"] or "")
    return after["status"] in ("completed", "failed") or (after["status"] == "pending" and is_late_fail)


def _without_nulls(row: Row, *, created_at: object) -> Row:
    always = _NEVER_NULL | {"created_at": created_at}
    return row | {column: value for column, value in always.items() if row[column] is None}
