"""Where a job that waits stands in its lane."""

from __future__ import annotations

import dataclasses
from datetime import datetime

from howdah.checks import options
from howdah.checks.context import Connection, Context
from howdah.checks.options import JobOrId
from howdah.db.plan import Plan, call
from howdah.verbs import calls


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a pending job stands.

    ahead: how many jobs of its type come before it; at least so many where ``exact`` is False.
    per_second: how many of them the workers that live end in a second, as measured lately.
    starts_at: when it will start if that goes on; None if that cannot be said, and then ``because`` says why.
    """

    ahead: int
    exact: bool
    per_second: float | None
    starts_at: datetime | None
    because: str | None


def place(context: Context, job: JobOrId, *, conn: Connection | None = None) -> Plan[Place | None]:
    """Where a pending job stands in its lane, and when it will start. None: it is not pending. Raises JobNotFound."""
    rows = yield from call("queue_position", id=options.job_id(job))
    if not rows:
        yield from calls.get(context, job)
        return None
    return Place(**rows[0])
