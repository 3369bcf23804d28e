"""Held jobs, and their rows in the database."""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

from tests.conftest import Db


class Held(NamedTuple):
    id: uuid.UUID
    token: int


def hold(db: Db, count: int = 1, job_type: str = "x", *, worker: str = "w", start: int | None = None) -> list[Held]:
    """New jobs, claimed; all of them running unless start is given."""
    db.execute("SELECT enqueue_many(%s, array_fill('{}'::jsonb, ARRAY[%s::int]))", (job_type, count))
    return claim(db, count, job_type, worker=worker, start=count if start is None else start)


def claim(db: Db, count: int = 1, job_type: str = "x", *, worker: str = "w", start: int = 1) -> list[Held]:
    rows = db.execute("SELECT id, token FROM claim(%s, ARRAY[%s], %s, %s)", (worker, job_type, count, start))
    return [Held(**row) for row in rows]


def record(db: Db, *jobs: Held, name: str = "e", kind: str = "event") -> list[int]:
    """Record one event for each job, and return their sequences."""
    ids, tokens = [job.id for job in jobs], [job.token for job in jobs]
    rows = db.execute(
        "SELECT seq FROM record_events(%s, %s, %s, p_kinds => %s)",
        (ids, tokens, [name] * len(jobs), [kind] * len(jobs)),
    )
    return [row["seq"] for row in rows]


def details(db: Db, job: Held) -> dict[str, Any]:
    row = db.execute("SELECT * FROM job_details WHERE id = %s", (job.id,)).fetchone()
    assert row is not None
    return row


def report(db: Db, job: Held) -> dict[str, Any]:
    found = details(db, job)["progress_report"]
    assert isinstance(found, dict)
    return found


def events(db: Db, job: Held) -> list[dict[str, Any]]:
    return db.execute("SELECT * FROM events WHERE job_id = %s ORDER BY seq", (job.id,)).fetchall()


def back_again(db: Db, job: Held) -> Held:
    """Fail this attempt of the job, and return the next."""
    db.execute("SELECT fail(ARRAY[%s], ARRAY[%s], ARRAY['boom'], p_delays => ARRAY[interval '0'])", job)
    (again,) = claim(db, job_type=details(db, job)["job_type"])
    assert again.id == job.id
    return again
