"""Reading the stream of events, as a client in any language would."""

from __future__ import annotations

from typing import Any

from tests.conftest import Db

Rows = list[dict[str, Any]]


def read(db: Db, after: str | None = None, **options: Any) -> tuple[Rows, str]:
    """The events since a position, and the next position."""
    named = "".join(f", p_{name} => %({name})s" for name in options)
    rows = db.execute(f"SELECT * FROM read_events(%(after)s{named})".encode(), {"after": after, **options}).fetchall()
    *events, last = rows
    assert all(event["job_id"] is not None for event in events)
    position = last.pop("position")
    assert set(last.values()) == {None}
    return events, position


def read_all(db: Db, after: str | None = None, limit: int = 1000, **options: Any) -> tuple[Rows, str]:
    """The same, page by page until there is no more."""
    found: Rows = []
    while True:
        page, after = read(db, after, limit=limit, **options)
        found += page
        if len(page) < limit:
            return found, after


def now(db: Db) -> str:
    row = db.execute("SELECT stream_position() AS position").fetchone()
    assert row is not None
    return str(row["position"])
