"""However transactions interleave, every reader of the stream gets what was committed: each event once, in order.

Writers keep their transactions open, with savepoints, and end them in any order. Readers read pages of any length, alone
or inside a transaction of their own, and resume from any row that they have got, as if they had been killed after it.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections import defaultdict
from typing import Any

import psycopg
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from psycopg.rows import dict_row

from tests import servers
from tests.conftest import Db
from tests.properties.examples import state_machines
from tests.sql.holding import Held, hold

EXAMPLES = state_machines(75)
JOBS, WRITERS = 6, 3
KINDS = ("event", "log")


@dataclasses.dataclass(frozen=True)
class Told:
    """An event by its name, which no other has."""

    name: str
    job: int
    kind: str

    @property
    def job_type(self) -> str:
        return "xy"[self.job % 2]


@dataclasses.dataclass
class Writer:
    """A transaction: what it has written, and which jobs it holds locked, for each of its savepoints."""

    conn: Db
    told: list[list[Told]] = dataclasses.field(default_factory=lambda: [[]])

    def locks(self, job: int) -> bool:
        return any(told.job == job for frame in self.told for told in frame)

    def end(self) -> list[Told]:
        told = list(itertools.chain.from_iterable(self.told))
        self.told = [[]]
        return told


@dataclasses.dataclass
class Reader:
    job_type: str | None
    kind: str | None
    position: str | None
    got: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    """Names, and the positions behind them."""

    def wants(self, told: Told) -> bool:
        return self.job_type in (None, told.job_type) and self.kind in (None, told.kind)

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.got}


def reach(position: str | None) -> str:
    """The position of the stream up to which a reader that resumes there has read."""
    return (position or "").split("/")[-2 if "/" in (position or "") else 0]


class Stream(RuleBasedStateMachine):
    dsn: str

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[Db] = []
        self.db = self.connect(autocommit=True)
        for table in ("live", "archive", "archive_counts", "events"):
            self.db.execute(f"DELETE FROM {table}")
        halves = [hold(self.db, JOBS // 2, job_type) for job_type in "xy"]
        self.jobs: list[Held] = [job for pair in zip(*halves, strict=True) for job in pair]
        self.bystander = self.connect(autocommit=False)
        self.bystander.execute("SELECT pg_current_xact_id()")
        self.writers = [Writer(self.connect(autocommit=False)) for _ in range(WRITERS)]
        self.readers = [
            Reader(None, None, None),
            Reader(None, None, self.now(self.db)),
            Reader("x", None, self.now(self.db)),
            Reader("y", "log", ""),
        ]
        self.names = itertools.count(1)
        self.committed: list[Told] = []
        self.seen_at: dict[str, set[str]] = {}

    def teardown(self) -> None:
        try:
            for n in range(WRITERS):
                self.commit(n)
            for n in range(len(self.readers)):
                self.drain(n, 3)
        finally:
            for conn in self.opened:
                conn.close()

    def connect(self, *, autocommit: bool) -> Db:
        conn = psycopg.connect(
            self.dsn, autocommit=autocommit, row_factory=dict_row, options="-c search_path=howdah -c lock_timeout=60s"
        )
        self.opened.append(conn)
        return conn

    def now(self, conn: Db) -> str:
        row = conn.execute("SELECT stream_position() AS position").fetchone()
        assert row is not None
        return str(row["position"])

    # Writers

    def is_free(self, job: int, but_for: Writer | None = None) -> bool:
        return not any(writer.locks(job) for writer in self.writers if writer is not but_for)

    def write(self, conn: Db, job: int, kinds: list[str]) -> list[Told]:
        told = [Told(str(next(self.names)), job, kind) for kind in kinds]
        held, count = self.jobs[job], len(told)
        conn.execute(
            "SELECT record_events(%s, %s, %s, p_kinds => %s)",
            ([held.id] * count, [held.token] * count, [each.name for each in told], kinds),
        )
        return told

    @rule(
        n=st.integers(0, WRITERS - 1),
        job=st.integers(0, JOBS - 1),
        kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=3),
    )
    def tell(self, n: int, job: int, kinds: list[str]) -> None:
        writer = self.writers[n]
        if self.is_free(job, but_for=writer):
            writer.told[-1] += self.write(writer.conn, job, kinds)

    @rule(job=st.integers(0, JOBS - 1), kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=3))
    def tell_at_once(self, job: int, kinds: list[str]) -> None:
        if self.is_free(job):
            self.committed += self.write(self.db, job, kinds)

    @rule()
    def something_else_happens(self) -> None:
        self.db.execute("SELECT pg_current_xact_id()")

    @rule(n=st.integers(0, WRITERS - 1))
    def write_something_else(self, n: int) -> None:
        self.writers[n].conn.execute("SELECT pg_current_xact_id()")

    @rule(n=st.integers(0, WRITERS - 1))
    def savepoint(self, n: int) -> None:
        writer = self.writers[n]
        writer.conn.execute(f"SAVEPOINT s{len(writer.told)}")
        writer.told.append([])

    @precondition(lambda self: any(len(writer.told) > 1 for writer in self.writers))
    @rule(n=st.integers(0, WRITERS - 1), keep=st.booleans())
    def end_savepoint(self, n: int, keep: bool) -> None:
        writer = self.writers[n]
        if len(writer.told) == 1:
            return
        frame, name = writer.told.pop(), f"s{len(writer.told)}"
        if keep:
            writer.told[-1] += frame
        else:
            writer.conn.execute(f"ROLLBACK TO SAVEPOINT {name}")
        writer.conn.execute(f"RELEASE SAVEPOINT {name}")

    @rule(n=st.integers(0, WRITERS - 1))
    def commit(self, n: int) -> None:
        self.writers[n].conn.commit()
        self.committed += self.writers[n].end()

    @rule(n=st.integers(0, WRITERS - 1))
    def rollback(self, n: int) -> None:
        self.writers[n].conn.rollback()
        self.writers[n].end()

    # Readers

    def page(self, reader: Reader, conn: Db, limit: int, until: str | None = None) -> bool:
        """Whether there is no more."""
        *rows, last = conn.execute(
            "SELECT * FROM read_events(%s, %s, %s, %s, %s)",
            (
                reader.position,
                until,
                None if reader.job_type is None else [reader.job_type],
                None if reader.kind is None else [reader.kind],
                limit,
            ),
        ).fetchall()
        assert len(rows) <= limit
        for row in (*rows, last):
            self.seen_at.setdefault(reach(row["position"]), {told.name for told in self.committed})
        reader.got += [(row["name"], row["position"]) for row in rows]
        reader.position = last["position"]
        self.check(reader)
        return len(rows) < limit

    def check(self, reader: Reader) -> None:
        known = {told.name: told for told in self.committed}
        names = [name for name, _ in reader.got]
        assert len(names) == len(set(names)), "something was read twice"
        by_job: defaultdict[int, list[str]] = defaultdict(list)
        for name in names:
            assert name in known, "something was read that is not committed"
            assert reader.wants(known[name])
            by_job[known[name].job].append(name)
        for job, got in by_job.items():
            wanted = [told.name for told in self.committed if told.job == job and reader.wants(told)]
            assert got == wanted[: len(got)], "not in order"

    def drain(self, n: int, limit: int) -> None:
        reader = self.readers[n]
        while not self.page(reader, self.db, limit):
            pass
        assert reader.names == {told.name for told in self.committed if reader.wants(told)}, "something was missed"

    @rule(n=st.integers(0, 3), limit=st.integers(1, 5))
    def read_a_page(self, n: int, limit: int) -> None:
        reader = self.readers[n]
        if self.page(reader, self.db, limit):
            assert reader.names == {told.name for told in self.committed if reader.wants(told)}, "something was missed"

    @rule(n=st.integers(0, 3), limit=st.sampled_from([1, 2, 7, 1000]))
    def read_everything(self, n: int, limit: int) -> None:
        self.drain(n, limit)

    @rule(n=st.integers(0, 3), writer=st.integers(0, WRITERS - 1), limit=st.integers(1, 5))
    def read_inside_of_a_transaction(self, n: int, writer: int, limit: int) -> None:
        self.page(self.readers[n], self.writers[writer].conn, limit)

    @rule(n=st.integers(0, 3), back=st.integers(0, 6))
    def resume_from_a_row(self, n: int, back: int) -> None:
        reader = self.readers[n]
        if reader.got:
            reader.got = reader.got[: max(len(reader.got) - back, 1)]
            reader.position = reader.got[-1][1]

    @rule(writer=st.integers(-1, WRITERS - 1))
    def take_a_position(self, writer: int) -> None:
        position = self.now(self.db if writer < 0 else self.writers[writer].conn)
        self.seen_at.setdefault(position, {told.name for told in self.committed})

    @rule(pick=st.integers(0, 100), n=st.integers(0, 3), limit=st.sampled_from([1, 2, 7, 1000]))
    def read_until_then(self, pick: int, n: int, limit: int) -> None:
        """With a copy of the reader, which then goes on without an end."""
        if not self.seen_at:
            return
        reader = dataclasses.replace(self.readers[n], got=list(self.readers[n].got))
        until = list(self.seen_at)[pick % len(self.seen_at)]
        # What it had begun to read, it reads to its end.
        begun = self.seen_at[reach(reader.position)] if "/" in (reader.position or "") else set()
        in_reach = self.seen_at[until] | begun
        expected = reader.names | {told.name for told in self.committed if told.name in in_reach and reader.wants(told)}
        while not self.page(reader, self.db, limit, until):
            pass
        assert reader.names == expected
        while not self.page(reader, self.db, limit):
            pass
        assert reader.names == {told.name for told in self.committed if reader.wants(told)}


def test_everything_is_read_once_and_in_order(dsn: str, major: int) -> None:
    machine: Any = type("StreamHere", (Stream,), {"dsn": dsn})
    phases = [phase for phase in Phase if phase is not Phase.shrink or os.environ.get("HOWDAH_SHRINK")]
    # What differs between versions of PostgreSQL shows in fewer.
    examples = EXAMPLES if major == servers.MAJORS[0] else EXAMPLES // 3
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=examples, stateful_step_count=40, phases=phases, report_multiple_bugs=False),
    )
