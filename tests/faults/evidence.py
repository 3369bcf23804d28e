"""The evidence about a case, from outside Howdah: handlers' own notes, and the audit's triggers."""

from __future__ import annotations

import dataclasses
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import class_row

from howdah.db.adapters import adapt
from tests.worker.ledger import Entry

FINAL = ("completed", "failed", "cancelled")
HELD = ("claimed", "running")


@dataclasses.dataclass(frozen=True, slots=True)
class Transition:
    """One change of one job, as the database made it."""

    n: int
    at: datetime
    xact: int
    id: uuid.UUID
    before: str | None
    after: str | None
    token_before: int | None
    token: int | None
    holder: str | None
    worker: str | None
    deadline_at: datetime | None
    lease_until: datetime | None
    cancel_requested_at: datetime | None

    @property
    def is_claim(self) -> bool:
        return self.before == "pending" and self.after in HELD

    @property
    def is_final(self) -> bool:
        return self.after in FINAL

    @property
    def is_revival(self) -> bool:
        """An operator's retry: the ended job leaves the archive."""
        return self.before in FINAL

    @property
    def ends_a_hold(self) -> bool:
        return self.before in HELD and self.after not in HELD


@dataclasses.dataclass(frozen=True, slots=True)
class Farewell:
    """A worker that was declared dead, left, or was replaced by another of its name."""

    at: datetime
    xact: int
    worker: str
    silent_for: timedelta
    lease: timedelta
    replaced: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """A job's row, as the case leaves it."""

    id: uuid.UUID
    job_type: str
    status: str
    token: int
    attempts: int
    max_attempts: int
    crashes: int
    interruptions: int
    worker_id: str | None
    current_stage: str | None
    result: Any
    errors: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Death:
    """A worker that the suite has killed, or cut off: from then on, what it held waits to be recovered."""

    worker: str
    at: datetime


@dataclasses.dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that a verdict is made of."""

    acknowledged: frozenset[uuid.UUID]
    entries: Sequence[Entry]
    transitions: Sequence[Transition]
    farewells: Sequence[Farewell]
    jobs: Sequence[Ended]
    deaths: Sequence[Death]

    def by_job(self) -> dict[uuid.UUID, list[Transition]]:
        found = defaultdict(list)
        for each in self.transitions:
            found[each.id].append(each)
        return found


def install(dsn: str) -> None:
    """Puts the audit beside a queue that has no jobs yet."""
    with psycopg.connect(dsn) as conn:
        conn.execute(Path(__file__).with_name("audit.sql").read_bytes())


def gather(dsn: str, acknowledged: Iterable[uuid.UUID], entries: Sequence[Entry], deaths: Sequence[Death]) -> Evidence:
    """Reads what the audit has written, and how the jobs are now."""
    columns = ", ".join(field.name for field in dataclasses.fields(Ended))
    with psycopg.connect(dsn) as conn:
        # A case may have stored what Python does not read.
        adapt(conn.adapters)
        # xid8 has no type of its own in Python, and a number is all that it is.
        moves = "SELECT n, at, xact::text::bigint AS xact, id, before, after, token_before, token, holder, worker,"
        moves += " deadline_at, lease_until, cancel_requested_at FROM audit.transitions ORDER BY n"
        leaves = "SELECT at, xact::text::bigint AS xact, worker, silent_for, lease, replaced FROM audit.farewells ORDER BY at"
        return Evidence(
            acknowledged=frozenset(acknowledged),
            entries=entries,
            transitions=conn.cursor(row_factory=class_row(Transition)).execute(moves.encode()).fetchall(),
            farewells=conn.cursor(row_factory=class_row(Farewell)).execute(leaves.encode()).fetchall(),
            jobs=conn.cursor(row_factory=class_row(Ended))
            .execute(f"SELECT {columns} FROM howdah.job_details ORDER BY id".encode())
            .fetchall(),
            deaths=deaths,
        )
