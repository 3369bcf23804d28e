"""Whatever a role, or the owner, writes where spans and limits are kept: the sweep, claims, failures and retention continue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import sql
from psycopg.rows import dict_row

from howdah import JobQueue

SCHEMA = "spans_test"
Db = psycopg.Connection[dict[str, Any]]

# Up to the last that PostgreSQL knows, and beyond what can be added to a moment.
SPANS = st.one_of(
    st.builds(
        "{} years {} days {} seconds".format, *(st.integers(-n, n) for n in (178_000_000, 2_147_483_647, 10**12))
    ),
    st.builds("{} seconds".format, st.integers(-100, 100)),
    st.sampled_from(["0", "1 microsecond", "300000 years", "-300000 years", "36500 days", "36501 days"]),
)
NUMBERS = st.integers(-(2**31), 2**31 - 1)
POLICIES = st.one_of(
    st.none(),
    st.sampled_from(
        [
            '{"kind": "fixed", "delay": 1e300}',
            '{"kind": "nonsense"}',
            "[]",
            "7",
            '{"kind": "fixed", "delay": "x"}',
            "{}",
        ]
    ),
)
WRITES = st.one_of(
    st.tuples(st.sampled_from(["settings.archive_retention", "settings.cancel_grace"]), SPANS),
    st.tuples(st.sampled_from(["settings.max_crashes", "settings.max_interruptions"]), NUMBERS),
    st.tuples(st.sampled_from(["types.timeout", "types.expires_in", "schedules.timeout", "schedules.every"]), SPANS),
)
BY_HAND = st.one_of(WRITES, st.tuples(st.sampled_from(["types.retry_policy", "live.retry_policy"]), POLICIES))
REFUSED = (psycopg.errors.CheckViolation, psycopg.errors.IntervalFieldOverflow, psycopg.errors.DatetimeFieldOverflow)


@pytest.fixture
def db(server_dsn: str) -> Iterator[Db]:
    with psycopg.connect(server_dsn, autocommit=True, row_factory=dict_row) as conn:
        conn.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE".encode())
        with JobQueue(server_dsn, SCHEMA) as queue:
            queue.migrate()
        conn.execute("SELECT set_config('search_path', %s, false)", (SCHEMA,))
        yield conn
        conn.execute(f"DROP SCHEMA {SCHEMA} CASCADE".encode())


def write(db: Db, where: str, value: Any) -> bool:
    """Whether the database takes it."""
    table, column = where.split(".")
    statement = sql.SQL("UPDATE {} SET {} = %s").format(sql.Identifier(table), sql.Identifier(column))
    try:
        db.execute(statement, (value,))
    except REFUSED:
        return False
    return True


def prepare(db: Db) -> None:
    """A type with everything, jobs of it that are overdue in every way, and one that waits."""
    for table in ("live", "archive", "archive_counts", "types", "schedules", "settings"):
        db.execute(f"DELETE FROM {table}".encode())
    db.execute("INSERT INTO settings DEFAULT VALUES")
    db.execute("SELECT declare_type('x', p_timeout => '1 hour', p_expires_in => '1 day', p_retry_policy => NULL)")
    db.execute("SELECT schedule('s', 'x', p_every => '1 hour', p_timeout => '1 hour')")
    db.execute("SELECT enqueue_many('x', array_fill('{}'::jsonb, ARRAY[5]))")
    db.execute("SELECT claim('gone', ARRAY['x'], 4, 4)")


def goes_on(db: Db) -> None:
    db.execute(
        "UPDATE live SET cancel_requested_at = now() - interval '200 years', own_write = NOT own_write WHERE id = (SELECT min(id::text)::uuid FROM live WHERE status = 'running')"
    )
    db.execute(
        "UPDATE live SET lease_until = now() - interval '1 second', own_write = NOT own_write"
        " WHERE status = 'running' AND cancel_requested_at IS NULL"
    )
    swept = db.execute("SELECT status FROM recover()").fetchall()
    assert len(swept) == 4
    db.execute("UPDATE live SET run_at = now(), expires_at = NULL, own_write = NOT own_write")
    (job, *_) = db.execute("SELECT id, token FROM claim('w', ARRAY['x'], 10, 10)").fetchall()
    failed = db.execute("SELECT status FROM fail(ARRAY[%(id)s], ARRAY[%(token)s], ARRAY['e'])", job).fetchall()
    assert len(failed) == 1
    db.execute("SELECT recover_stale_jobs('0')")
    db.execute("SELECT rotate()")
    db.execute("SELECT bound_segments()")
    db.execute("SELECT prune()")


@pytest.mark.parametrize("bounded", [True, False], ids=["with the constraints", "without them"])
def test_whatever_is_written_everything_goes_on(db: Db, bounded: bool) -> None:
    if not bounded:
        # As after a restore of rows from before the constraints.
        for table in ("settings", "types", "schedules"):
            db.execute(f"ALTER TABLE {table} DROP CONSTRAINT {table}_bounds".encode())

    @settings(max_examples=60)
    @given(st.lists(WRITES if bounded else BY_HAND, max_size=4))
    def check(writes: list[tuple[str, Any]]) -> None:
        prepare(db)
        for where, value in writes:
            write(db, where, value)
        goes_on(db)

    check()


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("settings.cancel_grace", "300000 years"),
        ("settings.cancel_grace", "-1 second"),
        ("settings.archive_retention", "300000 years"),
        ("types.timeout", "-1 second"),
        ("types.timeout", "300000 years"),
        ("types.expires_in", "300000 years"),
        ("schedules.every", "300000 years"),
    ],
)
def test_what_makes_no_sense_is_refused(db: Db, where: str, value: str) -> None:
    prepare(db)
    assert not write(db, where, value)
