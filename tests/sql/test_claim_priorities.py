"""Claims where there are many priorities: the same jobs, in the same order, and few pages touched for it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import Connect, Db
from tests.sql.test_claim import TYPES, expected, insert

# Most priorities with a job or two, some of them due and others not, and now and then a crowd that has one priority.
scattered = st.lists(
    st.tuples(st.sampled_from(TYPES), st.integers(-40, 40), st.integers(-4, 3), st.integers(0, 3)), max_size=120
)
crowds = st.lists(
    st.tuples(st.sampled_from(TYPES), st.integers(-40, 40), st.sampled_from([-3, 3]), st.integers(10, 40)), max_size=4
)


def mixed(rows: list[tuple[str, int, int, int]], crowds: list[tuple[str, int, int, int]]) -> list[Any]:
    return rows + [(job_type, priority, due, 0) for job_type, priority, due, size in crowds for _ in range(size)]


@settings(max_examples=60)
@given(rows=scattered, crowds=crowds, locked=st.sets(st.integers(0, 150)), limit=st.integers(1, 120), data=st.data())
def test_a_claim_is_exact_across_priorities(
    db: Db,
    connect: Connect,
    rows: list[tuple[str, int, int, int]],
    crowds: list[tuple[str, int, int, int]],
    locked: set[int],
    limit: int,
    data: st.DataObject,
) -> None:
    insert(db, mixed(rows, crowds))
    types = data.draw(st.lists(st.sampled_from(TYPES), min_size=1, unique=True))
    due = expected(db, types, 1_000)
    held = [due[n] for n in locked if n < len(due)]
    free = [job for job in due if job not in held]
    other, claimer = connect(autocommit=False), connect(autocommit=False)
    other.execute("SELECT id FROM live WHERE id = ANY(%s) FOR UPDATE", (held,))
    claimed = claimer.execute("SELECT id FROM claim('w', %s, %s)", (types, limit)).fetchall()
    assert [row["id"] for row in claimed] == free[:limit]
    # It has locked nothing else: another claim gets exactly what is left.
    rest = db.execute("SELECT id FROM claim('w2', %s, 1000)", (types,)).fetchall()
    assert [row["id"] for row in rest] == free[limit:]
    other.close()
    claimer.close()


def test_expired_and_suspect_jobs_are_not_claimed_across_priorities(db: Db) -> None:
    insert(db, [("a", n, -1, 0) for n in range(60)])
    db.execute("UPDATE live SET expires_at = now() WHERE priority % 3 = 0")
    db.execute("UPDATE live SET crashes = 1 WHERE priority % 3 = 1")
    claimed = db.execute("SELECT priority FROM claim('w', '{a}', 100, p_include_crashed => false)").fetchall()
    assert [row["priority"] for row in claimed] == [n for n in reversed(range(60)) if n % 3 == 2]


@settings(max_examples=30)
@given(st.integers(60, 400), st.sets(st.integers(0, 399), max_size=3), st.integers(1, 5), st.data())
def test_a_due_job_is_found_below_many_priorities_that_are_not_due(
    db: Db, priorities: int, due: set[int], each: int, data: st.DataObject
) -> None:
    insert(db, [("a", n, 5, 0) for n in range(priorities) for _ in range(each)])
    insert_more = [("a", n, -1, 0) for n in due if n < priorities]
    db.cursor().executemany(
        "INSERT INTO live (id, job_type, priority, run_at, first_due_at, created_at, attempts, max_attempts)"
        " VALUES (new_id(), %s, %s, now() + %s * interval '1 minute', now(), now(), %s, 3)",
        insert_more,
    )
    best = expected(db, ["a"], 10)
    cursors = data.draw(st.lists(st.integers(0, 399), max_size=5, unique=True))
    hidden = db.execute("SELECT id FROM live WHERE run_at <= now() AND priority = ANY (%s)", (cursors,)).fetchall()
    from_there = db.execute(
        "SELECT id FROM lane_heads('{a}', NULL, %s, %s, %s, %s)",
        (["a" for _ in cursors], cursors, ["2100-01-01" for _ in cursors], ["ffffffff-ffff-ffff-ffff-ffffffffffff" for _ in cursors]),
    ).fetchall()  # fmt: skip
    visible = [job for job in best if job not in {row["id"] for row in hidden}]
    assert [row["id"] for row in from_there] == visible[:1]
    assert [row["id"] for row in db.execute("SELECT id FROM claim('w', '{a}', 10)").fetchall()] == best


def test_next_due_looks_at_a_bounded_number_of_priorities(db: Db) -> None:
    insert(db, [("a", n, n + 1, 0) for n in range(99)])
    assert db.execute("SELECT next_due('{a}') BETWEEN '50 s' AND '60 s' AS so").fetchone() == {"so": True}
    insert(db, [("a", n, 300 - n, 0) for n in range(200)])
    assert db.execute("SELECT next_due('{a}') AS it").fetchone() == {
        "it": db.execute("SELECT interval '1 second' AS it").fetchone()["it"]  # type: ignore[index]
    }


@pytest.mark.parametrize("due", [True, False])
def test_few_pages_are_touched_however_many_priorities_there_are(db: Db, due: bool) -> None:
    db.execute(
        "INSERT INTO live (id, job_type, priority, run_at, first_due_at, created_at, max_attempts)"
        " SELECT new_id(), 'a', n, now() + %s::interval, now(), now(), 3 FROM generate_series(1, 5000) AS n",
        ("-1 hour" if due else "1 hour",),
    )
    db.execute("VACUUM (ANALYZE) live")

    def touched(statement: str) -> int:
        db.execute(statement.encode())
        with db.transaction(force_rollback=True):
            row = db.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}".encode()).fetchone()
        assert row is not None
        (plan,) = row["QUERY PLAN"]
        return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])

    # Hopping from one to the next would touch two or three pages for each.
    assert touched("SELECT * FROM claim('w', '{a}', 100)") <= 2_500
    assert touched("SELECT next_due('{a}')") <= 1_000
    db.execute("TRUNCATE live")
