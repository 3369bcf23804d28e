"""A claim touches a bounded number of pages, whatever else is in the queue and whatever the planner knows.

Scaled down unless HOWDAH_SCALE=full (`make scale`), which makes a million of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import Connect, Db
from tests.size import FULL

EACH = 1_000_000 if FULL else 50_000
# 100 rows claimed: each is read, locked, deleted from one page and written to another, and entered in
# three indexes. A claim that waded through any of the three crowds would need thousands.
MOST_BUFFERS = 4_000
# What a claim for a worker asks for, and how long it may sleep. No limits, some that leave room for each other, some that do not.
ASKED_BY_WORKERS = (
    "SELECT * FROM claim('w', ARRAY['mine', 'nobody', 'foreign 1', 'foreign 2'], 60)",
    "SELECT * FROM claim('w', ARRAY['mine', 'nobody', 'foreign 1'], 100, p_limits => ARRAY[60, 5, 30])",
    "SELECT * FROM claim('w', ARRAY['mine', 'nobody', 'foreign 1'], 100, p_limits => ARRAY[10, NULL, NULL])",
    "SELECT * FROM claim('w', ARRAY['mine', 'nobody', 'foreign 1'], 50, p_oldest => true)",
    "SELECT * FROM claim('w', ARRAY['mine', 'nobody', 'foreign 1'], 50, p_limits => ARRAY[40, 40, 40], p_oldest => true)",
    "SELECT next_due(ARRAY['mine', 'nobody', 'foreign 1'])",
)


def fill(db: Db) -> None:
    """Other types' backlog, jobs scheduled for later in the claimed type, history, and 2,000 jobs to claim."""
    db.execute("ALTER TABLE live SET (autovacuum_enabled = off)")
    insert = (
        "INSERT INTO live (id, job_type, priority, run_at, first_due_at, created_at, max_attempts)"
        " SELECT new_id(), {job_type}, 100, {run_at}, now(), now(), 3 FROM generate_series(1, {count}) AS n"
    )
    for job_type, run_at, count in (
        ("'foreign ' || n % 50", "now()", EACH),
        ("'mine'", "now() + n * interval '1 second'", EACH),
        ("'mine'", "now() - interval '1 hour'", 2_000),
    ):
        db.execute(insert.format(job_type=job_type, run_at=run_at, count=count).encode())
    db.execute(
        "INSERT INTO archive_open (id, token, finished_at, run_at, first_due_at, created_at, priority, attempts, max_attempts,"
        " crashes, interruptions, progress, events_count, job_type, status, data)"
        " SELECT new_id(), 1, now(), now(), now(), now(), 100, 1, 3, 0, 0, 100, 0, 'mine', 'completed', '{}'"
        " FROM generate_series(1, %s)",
        (EACH,),
    )


def buffers(db: Db, statement: str, *arguments: Any) -> int:
    row = db.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}".encode(), arguments).fetchone()
    assert row is not None
    (plan,) = row["QUERY PLAN"]
    return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])


def buffers_of_a_newcomer(db: Db, statement: str) -> int:
    """What a connection needs that has made no plan before this crowd came. Its first call also reads the system's
    catalogues, which are large in a database that has seen many tests: that is not the claim's doing."""
    db.execute(statement.encode())
    return buffers(db, statement)


@pytest.fixture(params=["nothing known", "drained"])
def crowded(db: Db, request: pytest.FixtureRequest) -> Db:
    """Once with the statistics of an empty table: they are of the same queue, when it had drained."""
    fill(db)
    if request.param == "drained":
        for table in ("live", "archive_open"):
            db.execute(f"DELETE FROM {table}".encode())
            db.execute(f"VACUUM (ANALYZE, TRUNCATE off) {table}".encode())
        fill(db)
    return db


def test_a_claim_of_100_touches_a_bounded_number_of_buffers(crowded: Db, connect: Connect) -> None:
    try:
        without_statistics = [
            buffers_of_a_newcomer(connect(), "SELECT * FROM claim('w', ARRAY['mine', 'nobody', 'foreign 1'], 100)")
            for _ in range(3)
        ]
        crowded.execute("ANALYZE live")
        crowded.execute("ANALYZE archive")
        with_statistics = [
            buffers_of_a_newcomer(connect(), "SELECT * FROM claim('w', ARRAY['mine'], 100)") for _ in range(3)
        ]
        assert max(without_statistics) <= MOST_BUFFERS
        assert max(with_statistics) <= MOST_BUFFERS
        print(
            f"buffers of a claim of 100, {EACH:,} each: without statistics {without_statistics}, with {with_statistics}"
        )
    finally:
        crowded.execute("TRUNCATE live, archive, archive_counts")
        crowded.execute("ALTER TABLE live RESET (autovacuum_enabled)")


def test_what_a_worker_asks_for_touches_a_bounded_number_of_buffers(crowded: Db, connect: Connect) -> None:
    try:
        # More lanes of the same type, each with a crowd of its own that is not due.
        crowded.execute(
            "INSERT INTO live (id, job_type, priority, run_at, first_due_at, created_at, max_attempts)"
            " SELECT new_id(), 'mine', n %% 20, now() + (n - %s) * interval '1 second', now(), now(), 3"
            " FROM generate_series(1, %s) AS n",
            (EACH // 10, EACH),
        )
        without_statistics = [buffers_of_a_newcomer(connect(), statement) for statement in ASKED_BY_WORKERS]
        crowded.execute("ANALYZE live")
        with_statistics = [buffers_of_a_newcomer(connect(), statement) for statement in ASKED_BY_WORKERS]
        assert max(without_statistics) <= MOST_BUFFERS
        assert max(with_statistics) <= MOST_BUFFERS
        print(f"buffers for a worker, {EACH:,} each: without statistics {without_statistics}, with {with_statistics}")
    finally:
        crowded.execute("TRUNCATE live, archive, archive_counts")
        crowded.execute("ALTER TABLE live RESET (autovacuum_enabled)")


@pytest.fixture
def plain_index(db: Db) -> Iterator[None]:
    """The index that docs/how-to/plain-sql.md offers to loops of plain clients."""
    db.execute("CREATE INDEX live_plain ON live (priority DESC, created_at) WHERE status = 'pending'")
    yield
    db.execute("DROP INDEX live_plain")


@pytest.mark.usefixtures("plain_index")
def test_an_index_for_plain_clients_is_not_taken_for_that_of_the_lanes(db: Db, connect: Connect) -> None:
    # With statistics of an empty table, both look the same to the planner.
    db.execute(
        "INSERT INTO live (id, job_type, priority, run_at, first_due_at, created_at, max_attempts, status, attempts)"
        " SELECT new_id(), 'mine', 100, now(), now(), now(), 3, 'running', 1 FROM generate_series(1, 2000)"
    )
    db.execute("ANALYZE live")
    db.execute("DELETE FROM live")
    try:
        fill(db)
        for statement in ASKED_BY_WORKERS:
            assert buffers_of_a_newcomer(connect(), statement) <= MOST_BUFFERS, statement
        some = ", ".join(f"'{row['id']}'" for row in db.execute("SELECT id FROM live LIMIT 50").fetchall())
        for change in (
            "reprioritise(ARRAY[{}]::uuid[], 100)",
            "reschedule(ARRAY[{}]::uuid[], now())",
            "cancel(ARRAY[{}]::uuid[])",
        ):
            assert buffers_of_a_newcomer(connect(), f"SELECT * FROM {change.format(some)}") <= MOST_BUFFERS, change
    finally:
        db.execute("TRUNCATE live, archive, archive_counts")
        db.execute("ALTER TABLE live RESET (autovacuum_enabled)")


def test_a_plan_made_while_the_table_was_empty_holds_when_it_is_full(db: Db, connect: Connect) -> None:
    veteran = connect()
    for _ in range(7):
        held = veteran.execute("SELECT id, token FROM claim('w', ARRAY['mine'], 100, 50)").fetchall()
        arguments = ([row["id"] for row in held], [row["token"] for row in held])
        for function in ("start", "complete", "release"):
            veteran.execute(f"SELECT * FROM {function}(%s, %s)".encode(), arguments)
        veteran.execute("SELECT * FROM fail(%s, %s, '{}')", arguments)
        veteran.execute("SELECT * FROM progress(%s, %s, '{}')", arguments)
        veteran.execute("SELECT * FROM recover()")
        for statement in ASKED_BY_WORKERS:
            veteran.execute(statement.encode())
    try:
        fill(db)
        assert buffers(veteran, "SELECT * FROM claim('w', ARRAY['mine'], 100, 50)") <= MOST_BUFFERS
        held = veteran.execute("SELECT id, token, status FROM live WHERE worker_id = 'w' ORDER BY id").fetchall()
        waiting = [row for row in held if row["status"] == "claimed"]
        for function, rows, more in (
            ("start", waiting, ""),
            ("progress", held, ", array_fill(50, ARRAY[100])"),
            ("fail", held[:30], ", array_fill('boom'::text, ARRAY[30])"),
            ("complete", held[30:], ""),
        ):
            used = buffers(
                veteran, f"SELECT * FROM {function}(%s, %s{more})",
                [row["id"] for row in rows], [row["token"] for row in rows],
            )  # fmt: skip
            assert used <= MOST_BUFFERS, function
        # Once a minute, it counts the backlog, too.
        assert min(buffers(veteran, "SELECT * FROM recover()") for _ in range(2)) <= MOST_BUFFERS
        for statement in ASKED_BY_WORKERS:
            assert buffers(veteran, statement) <= MOST_BUFFERS, statement
        assert db.execute("SELECT count(*) AS n FROM archive WHERE claimed_at IS NOT NULL").fetchone() == {"n": 70}
    finally:
        db.execute("TRUNCATE live, archive, archive_counts")
        db.execute("ALTER TABLE live RESET (autovacuum_enabled)")


def test_jobs_that_a_claim_skips_cost_few_steps(db: Db, connect: Connect) -> None:
    db.execute("ALTER TABLE live SET (autovacuum_enabled = off)")
    try:
        expired = 20_000
        db.execute(
            "INSERT INTO live (id, job_type, priority, run_at, first_due_at, created_at, max_attempts, expires_at)"
            " SELECT new_id(), 'type ' || n %% 2, 100, now() - interval '1 hour', now(), now(), 3, now() - interval '1 minute'"
            " FROM generate_series(1, %s) AS n",
            (expired,),
        )
        db.execute("SELECT enqueue('type ' || n % 2) FROM generate_series(1, 10) AS n")
        needed = buffers(connect(), "SELECT * FROM claim('w', ARRAY['type 0', 'type 1'], 10)")
        print(f"buffers of a claim of 10 behind {expired:,}: {needed:,}")
        # Each is looked at a few times, not once for every few others.
        assert needed < expired
    finally:
        db.execute("TRUNCATE live, archive, archive_counts")
        db.execute("ALTER TABLE live RESET (autovacuum_enabled)")
