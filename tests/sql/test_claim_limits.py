"""The options of a claim: limits for each type, the incarnation, crashed jobs, the oldest first; and the next due time."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from howdah import JobQueue
from tests.clock import TestClock
from tests.conftest import Connect, Db
from tests.sql.test_claim import TYPES, insert

Row = dict[str, Any]
Jobs = list[tuple[str, int, int, int]]
Limits = list[tuple[str, int | None]]

# Few priorities and due times, so that lanes are long, meet at one level and interleave.
jobs = st.tuples(st.sampled_from(TYPES), st.sampled_from([100, 100, 30]), st.integers(-9, 1), st.integers(0, 3))
crowds = st.lists(jobs, max_size=10) | st.lists(jobs, min_size=30, max_size=60)
limits = st.lists(st.tuples(st.sampled_from((*TYPES, "none")), st.none() | st.integers(0, 8)), min_size=1, max_size=6)
MANY = [(job_type, 100, -5, 0) for job_type in "aabbbbaaab" * 6]
ONE_AFTER_THE_OTHER = [(job_type, 100, -5, 0) for job_type in "a" * 30 + "b" * 20 + "cd" * 20]


def due_jobs(db: Db, *, oldest: bool = False) -> list[Row]:
    """The jobs that may be claimed, in the expected order."""
    rows = db.execute(
        "SELECT id, job_type, priority, run_at, run_at <= now() AND attempts < max_attempts AS is_due FROM live"
        " WHERE status = 'pending' ORDER BY CASE WHEN NOT %s THEN -priority::bigint END, run_at, id",
        (oldest,),
    ).fetchall()
    return [row for row in rows if row["is_due"]]


def picked(due: list[Row], wanted: Limits, batch_size: int, held: Sequence[uuid.UUID] = ()) -> list[uuid.UUID]:
    """The model: one pass over all jobs, in order."""
    room: dict[str, int] = {}
    for job_type, most in wanted:
        room[job_type] = min(room.get(job_type, batch_size), batch_size if most is None else most)
    taken: list[Row] = []
    for row in due:
        if len(taken) < batch_size and row["id"] not in held and room.get(row["job_type"], 0) > 0:
            room[row["job_type"]] -= 1
            taken.append(row)
    return [row["id"] for row in sorted(taken, key=lambda row: (-row["priority"], row["run_at"], row["id"]))]


def claim(db: Db, wanted: Limits, batch_size: int, *, oldest: bool = False) -> list[uuid.UUID]:
    rows = db.execute(
        "SELECT id FROM claim('w', %s, %s, p_limits => %s, p_oldest => %s)",
        ([job_type for job_type, _ in wanted], batch_size, [most for _, most in wanted], oldest),
    )
    return [row["id"] for row in rows]


@settings(max_examples=45)
@given(rows=crowds, wanted=limits, batch_size=st.integers(0, 70), oldest=st.booleans())
@example(rows=MANY, wanted=[("a", 3), ("b", None), ("a", 2)], batch_size=50, oldest=False)
@example(rows=MANY, wanted=[("a", 25), ("b", 25)], batch_size=30, oldest=True)
@example(
    rows=ONE_AFTER_THE_OTHER, wanted=[("a", None), ("b", 1), ("c", None), ("d", None)], batch_size=20, oldest=False
)
def test_a_claim_with_limits_agrees_with_the_model(
    db: Db, rows: Jobs, wanted: Limits, batch_size: int, oldest: bool
) -> None:
    insert(db, rows)
    expected = picked(due_jobs(db, oldest=oldest), wanted, batch_size)
    assert claim(db, wanted, batch_size, oldest=oldest) == expected
    untouched = db.execute("SELECT count(*) AS n FROM live WHERE status = 'pending' AND token = 0").fetchone()
    assert untouched == {"n": len(rows) - len(expected)}


@settings(max_examples=45)
@given(
    rows=crowds, locked=st.sets(st.integers(0, 59)), wanted=limits, batch_size=st.integers(1, 30), oldest=st.booleans()
)  # fmt: skip
@example(MANY, set(range(50)), [("a", 2), ("b", 3)], 4, False)
@example(ONE_AFTER_THE_OTHER, set(range(50)), [("a", 1), ("b", 1), ("c", None), ("d", None)], 2, False)
@example(MANY, {0, 1, 3, 7, 8, 20, 21, 22}, [("a", 1), ("b", None), ("d", 1)], 20, True)
def test_rows_that_others_lock_count_against_no_limit_and_no_row_is_locked_needlessly(
    db: Db, connect: Connect, rows: Jobs, locked: set[int], wanted: Limits, batch_size: int, oldest: bool
) -> None:  # fmt: skip
    insert(db, rows)
    due = due_jobs(db, oldest=oldest)
    held = [row["id"] for n, row in enumerate(due) if n in locked]
    with connect(autocommit=False) as other, connect(autocommit=False) as claimer:
        other.execute("SELECT id FROM live WHERE id = ANY(%s) FOR UPDATE", (held,))
        expected = picked(due, wanted, batch_size, held)
        assert claim(claimer, wanted, batch_size, oldest=oldest) == expected
        # While that is not committed, all else can be had.
        everything: Limits = [(job_type, None) for job_type in TYPES]
        assert claim(db, everything, 1_000, oldest=oldest) == picked(due, everything, 1_000, [*held, *expected])


def test_a_limit_holds_for_a_type_and_not_for_each_of_its_priorities(queue: JobQueue, db: Db) -> None:
    for priority in (30, 150, 100):
        queue.enqueue_many("slow", [{"n": n} for n in range(2)], priority=priority)
        queue.enqueue("quick", priority=priority)
    rows = db.execute(
        "SELECT job_type, priority FROM claim('w', ARRAY['slow', 'quick'], 10, p_limits => ARRAY[3, NULL])"
    ).fetchall()
    assert [(row["job_type"], row["priority"]) for row in rows] == [
        ("slow", 150), ("slow", 150), ("quick", 150), ("slow", 100), ("quick", 100), ("quick", 30),
    ]  # fmt: skip


def test_a_limited_type_is_found_behind_a_crowd_that_others_hold(db: Db, connect: Connect) -> None:
    insert(db, [("a", 100, -9, 0)] * 300 + [("b", 100, -8, 0)] * 300 + [("a", 100, -7, 0)] * 5)
    other = connect(autocommit=False)
    other.execute("SELECT id FROM live WHERE run_at < now() - interval '510 seconds' FOR UPDATE")
    rows = db.execute("SELECT job_type FROM claim('w', ARRAY['a', 'b'], 3, p_limits => ARRAY[1, 2])").fetchall()
    assert [row["job_type"] for row in rows] == ["b", "b", "a"]
    rows = db.execute("SELECT job_type FROM claim('w', ARRAY['a', 'b'], 300, p_limits => ARRAY[1, NULL])").fetchall()
    assert [row["job_type"] for row in rows] == ["b"] * 298 + ["a"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([1, -1], "a limit is -1, and must not be negative"),
        ([1], "1 limits were given for 2 job types"),
        ([], "0 limits were given for 2 job types"),
    ],
)
def test_bad_limits_are_refused(db: Db, bad: list[int], message: str) -> None:
    with pytest.raises(psycopg.Error, match=message) as refused:
        db.execute("SELECT * FROM claim('w', ARRAY['a', 'b'], p_limits => %s::int[])", (bad,))
    assert refused.value.sqlstate == "JQ001"


def test_only_the_registered_boot_of_a_worker_gets_jobs(queue: JobQueue, db: Db) -> None:
    old, new = uuid.uuid4(), uuid.uuid4()
    queue.enqueue_many("a", [{"n": n} for n in range(2)])
    statement = "SELECT * FROM claim('w', ARRAY['a'], 1, p_incarnation => %s)"
    for registered in (None, new):
        if registered:
            db.execute("SELECT register_worker('w', %s)", (registered,))
        with pytest.raises(psycopg.Error, match="worker w is not registered") as refused:
            db.execute(statement, (old,))
        assert refused.value.sqlstate == "JQ006"
        assert queue.stats()["a"].pending == 2
    (job,) = db.execute(statement, (new,)).fetchall()
    # It has no lease of its own: the heartbeat of the worker counts.
    assert (job["worker_id"], job["lease_until"]) == ("w", None)


def test_a_suspect_waits_for_a_process_of_its_own_while_other_jobs_start(db: Db) -> None:
    insert(db, [("a", 100, -minutes, 0) for minutes in (9, 8, 7, 6)])
    db.execute(
        "UPDATE live SET crashes = 1 WHERE run_at < now() - interval '450 seconds' AND run_at > now() - interval '510 seconds'"
    )
    rows = db.execute(
        "SELECT crashes, status, started_at IS NULL AS waits FROM claim('w', ARRAY['a'], 4, 3)"
    ).fetchall()
    assert [(row["crashes"], row["status"]) for row in rows] == [
        (0, "running"), (1, "claimed"), (0, "running"), (0, "claimed"),
    ]  # fmt: skip
    assert [row["waits"] for row in rows] == [False, True, False, True]


def test_the_oldest_jobs_can_be_asked_for_whatever_their_priority(queue: JobQueue, db: Db, clock: TestClock) -> None:
    db.execute("SELECT declare_type('ordered', p_ordered => true)")
    queue.enqueue("a", {"n": "expired"}, priority=1, expires_at=clock.now + timedelta(seconds=2))
    queue.enqueue("ordered", {"n": "head"}, priority=5)
    queue.enqueue("ordered", {"n": "behind"}, priority=5)
    queue.enqueue("paused", priority=2)
    queue.pause("paused")
    for n, priority in enumerate((30, -7, 150, 30, 100)):
        clock.advance(1)
        queue.enqueue("a", {"n": n}, priority=priority)
    queue.enqueue("a", {"n": "later"}, priority=3, delay=60)
    types = ["a", "ordered", "paused"]
    rows = db.execute("SELECT data FROM claim('w', %s, 3, p_oldest => true)", (types,)).fetchall()
    assert [row["data"]["n"] for row in rows] == [0, "head", 1]
    assert [job.data["n"] for job in queue.claim(types)] == [2, 4, 3]


def next_due(db: Db, *job_types: str) -> timedelta | None:
    row = db.execute("SELECT next_due(%s)", (list(job_types),)).fetchone()
    assert row is not None
    due: timedelta | None = row["next_due"]
    return due


def test_the_next_due_job_is_the_first_that_is_not_due_yet_of_any_priority(
    queue: JobQueue, db: Db, clock: TestClock
) -> None:
    assert next_due(db) is next_due(db, "a") is None
    queue.enqueue("a", priority=150)
    queue.enqueue("b", delay=5)
    assert next_due(db, "a") is None
    for delay, priority in ((90, 150), (20, 100), (30, 100), (60, 30)):
        queue.enqueue("a", delay=delay, priority=priority)
    assert next_due(db, "a", "a") == timedelta(seconds=20)
    assert next_due(db, "a", "b", "unknown") == timedelta(seconds=5)
    clock.advance(19.5)
    assert next_due(db, "a", "b") == timedelta(seconds=0.5)
    clock.advance(0.5)
    assert next_due(db, "a") == timedelta(seconds=10)
    queue.pause("a")
    assert next_due(db, "a") is None


def test_a_job_that_waits_for_others_has_no_time_to_wait_for(db: Db) -> None:
    db.execute("SELECT enqueue('a', p_run_at => 'infinity')")
    assert next_due(db, "a") is None
    db.execute("SELECT declare_type('a', p_ordered => true)")
    assert next_due(db, "a") is None


def test_an_ordered_type_is_next_due_when_its_head_is(queue: JobQueue, db: Db, clock: TestClock) -> None:
    db.execute("SELECT declare_type('o', p_ordered => true)")
    queue.enqueue("o", {"n": 1})
    assert next_due(db, "o") is None
    (head,) = queue.claim(["o"], 10)
    assert next_due(db, "o") is None
    queue.fail(head, "boom", delay=60)
    assert next_due(db, "o") == timedelta(seconds=60)
    queue.enqueue("o", {"n": 0}, delay=40, priority=150)
    assert next_due(db, "o") == timedelta(seconds=40)
    clock.advance(60)
    assert next_due(db, "o") is None
    assert [job.data["n"] for job in queue.claim(["o"], 10)] == [0]
