"""Howdah's table and the seed's own plain one, side by side: the same statements, and what can be seen after each."""

from __future__ import annotations

import itertools
import uuid
from collections import deque
from collections.abc import Iterable
from datetime import datetime, timezone
from types import TracebackType
from typing import Final, Self

from psycopg import sql

from tests.conftest import Db
from tests.properties import plain_deviations as deviations
from tests.properties.plain_answers import seen
from tests.properties.plain_deviations import Row
from tests.properties.plain_sessions import Line, Rows, Session, connect, view
from tests.properties.plain_statements import COMMIT, Statement
from tests.sql import seed

Step = tuple[Statement, str]
"""A statement in one of its forms."""

COLUMNS: Final = [name for name, _ in seed.COLUMNS]
MAKE: Final = f"DROP SCHEMA IF EXISTS plain CASCADE; CREATE SCHEMA plain; SET search_path = plain; {seed.CREATE_TABLE}"
EMPTY: Final = "DELETE FROM howdah.jobs; DELETE FROM plain.jobs"
# What only Howdah has: each job in its place, the archive counted, and no events of jobs that were deleted.
STORAGE: Final = """
SELECT
    (SELECT count(*) FROM ONLY howdah.jobs) AS strays,
    (SELECT count(*) FROM howdah.live WHERE status IN ('completed', 'failed', 'cancelled')) AS ended,
    (SELECT coalesce(sum(jobs), 0) FROM howdah.archive_counts) - (SELECT count(*) FROM howdah.archive) AS miscounted,
    (SELECT count(*) FROM howdah.events AS e WHERE NOT EXISTS (SELECT FROM howdah.jobs AS j WHERE j.id = e.job_id)) AS of_none
"""


class Comparison:
    """Two sessions on both tables. A statement ends alike on both, or waits alike for the other session."""

    def __init__(self, dsn: str) -> None:
        self.control: Db = connect(dsn, "plain")
        self.control.execute(MAKE.encode())
        self.sessions = [Session(name, Line(dsn, "howdah"), Line(dsn, "plain")) for name in "AB"]
        self.transcript: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        for session in self.sessions:
            for line in session.lines:
                line.close()
        self.control.execute("DROP SCHEMA plain CASCADE")
        self.control.close()

    def stop(self) -> None:
        """Ends what the sessions have begun, wherever they are."""
        lines = [line for session in self.sessions for line in session.lines]
        for line in lines:
            if not line.has_answered(0):
                self.control.execute("SELECT pg_cancel_backend(%s)", (line.pid,))
        for line in lines:
            assert line.has_answered(60)
            line.conn.execute("ROLLBACK")
        for session in self.sessions:
            session.forget()

    def play(self, jobs: Iterable[Statement], scripts: Iterable[Iterable[Step]], turns: Iterable[int]) -> None:
        """Each session its script to the end, in these turns."""
        self.stop()
        self.control.execute(EMPTY.encode())
        self.transcript = []
        for job in jobs:
            self.step(self.sessions[0], job)
        ahead = [deque(script) for script in scripts]
        for turn in itertools.cycle(turns):
            if any(ahead) or self.one_waits:
                self.take_turn(turn, ahead)
            else:
                break
        for session in self.sessions:
            self.step(session, COMMIT)
        row = self.control.execute(STORAGE.encode()).fetchone()
        assert row == {"strays": 0, "ended": 0, "miscounted": 0, "of_none": 0}, row

    def take_turn(self, number: int, ahead: list[deque[Step]]) -> None:
        """A session that waits, or has nothing to do, leaves its turn to the other one."""
        if self.sessions[number].waits or not (ahead[number] or self.one_waits):
            number = 1 - number
        session, other = self.sessions[number], self.sessions[1 - number]
        if not ahead[number] or (other.has_hidden_locks and not ahead[number][0][0].is_control):
            # The other one waits, and for this one.
            self.step(session, COMMIT)
        else:
            self.step(session, *ahead[number].popleft())

    @property
    def one_waits(self) -> bool:
        return any(session.waits for session in self.sessions)

    def step(self, session: Session, statement: Statement, form: str = "bound") -> None:
        """Sends a statement on both lines, and compares all that can be seen after it."""
        other = self.sessions[1 - self.sessions.index(session)]
        session.look_for_deadlocks(other.waits)
        sent = session.send(statement, form)
        self.transcript.append(f"{session.name}: {sent}")
        self.settle(session, other)
        session.look_for_deadlocks(False)
        if other.waits and not session.waits:
            self.settle(other, session)
        if not self.one_waits:
            self.compare_tables()

    def settle(self, session: Session, other: Session) -> None:
        """Waits until both lines have answered, or both wait for the other session."""
        ours = self.is_blocked(session.ours, other.ours, other.waits)
        plain = self.is_blocked(session.plain, other.plain, other.waits)
        assert ours == plain, f"it is blocked: {ours}; on the plain table: {plain}"
        if not ours:
            self.conclude(session)
        elif session.committed is None:
            self.transcript.append(f"{session.name}: … waits")
            session.committed = view(self.control)

    def is_blocked(self, line: Line, other: Line, other_waits: bool) -> bool:
        """Whether a line waits for the other. Where that waits too, it is a deadlock, which ends by itself."""
        while not line.has_answered(0.002):
            row = self.control.execute("SELECT pg_blocking_pids(%s) AS pids", (line.pid,)).fetchone()
            assert row is not None
            if other.pid in row["pids"] and not other_waits:
                return True
        return False

    def conclude(self, session: Session) -> None:
        """Compares the answers. What the deviations keep from happening on ours, is undone on the plain table."""
        statement, ours, plain = session.answers()
        self.transcript.append(f"{session.name}: → {ours}; on the plain table {plain}")
        assert ours.sqlstate == plain.sqlstate, f"{ours.sqlstate}, and expected is {plain.sqlstate}"
        has_passed_over = False
        if plain.sqlstate is None and not statement.is_control:
            before = self.found_by(session)
            moved = {id for id, row in before.items() if deviations.has_moved(session.seen.get(id), row)}
            written = self.deviate(session.plain, statement, before, moved)
            has_passed_over = bool(moved) or None in written.values()
            plain = plain.corrected(written, moved)
            session.remember(statement, ours, plain)
        session.end_alone(plain)
        assert ours.seen == plain.seen, f"{ours.seen}, and expected is {plain.seen}"
        assert session.ours.status == session.plain.status, (
            f"{session.ours.status}, and expected is {session.plain.status}"
        )
        if has_passed_over and session.is_inside:
            # Its locks are no longer the same on both tables.
            self.step(session, COMMIT)

    def found_by(self, session: Session) -> Rows:
        """The rows that the statement found: as they were when it began, but for what the other session did while it waited."""
        if session.committed is None:
            return session.seen
        now = view(self.control)
        deleted = session.committed.keys() - now.keys()
        written = {id: row for id, row in now.items() if row != session.committed.get(id)}
        return {id: row for id, row in session.seen.items() if id not in deleted} | written

    def deviate(
        self, plain: Line, statement: Statement, before: Rows, moved: set[uuid.UUID]
    ) -> dict[uuid.UUID, Row | None]:
        """What is expected of each row that the statement has written, None if it is passed over. The plain table follows."""
        after = plain.view()
        written: dict[uuid.UUID, Row | None] = {}
        for id in sorted(before.keys() | after.keys()):
            old, new = before.get(id), after.get(id)
            if old is None:
                written[id] = deviations.inserted(after[id], created_at=datetime.now(timezone.utc))
            elif id in moved and (new is None or new["ctid"] != old["ctid"]):
                written[id] = None
            elif new is not None and new["ctid"] != old["ctid"]:
                written[id] = deviations.updated(old, new, names_error=statement.names_error)
            if id in written and (expected := written[id] or old) != new:
                assert expected is not None
                self.transcript.append("   a deviation")
                write(plain, expected, is_there=new is not None)
        return written

    def compare_tables(self) -> None:
        """As each transaction sees them, and as they are committed."""
        outside = [session for session in self.sessions if not session.is_inside]
        for session in [*(session for session in self.sessions if session.is_inside), *outside[:1]]:
            if not session.is_broken:
                ours, plain = ([seen(row) for row in line.view().values()] for line in session.lines)
                assert ours == plain, f"session {session.name} sees {ours}, and expected is {plain}"


def write(line: Line, row: Row, *, is_there: bool) -> None:
    names = sql.SQL(", ").join(map(sql.Identifier, COLUMNS))
    values = sql.SQL(", ").join(sql.Literal(row[column]) for column in COLUMNS)
    text = "UPDATE jobs SET ({}) = ROW({}) WHERE id = {}" if is_there else "INSERT INTO jobs ({}) VALUES ({})"
    line.conn.execute(sql.SQL(text).format(names, values, sql.Literal(row["id"])))
