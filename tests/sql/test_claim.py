"""What a claim returns, in which order, and what it leaves unchanged."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howdah import InvalidOption, JobQueue
from tests.clock import TestClock
from tests.conftest import Connect, Db

TYPES = ("a", "b", "c", "d")

jobs = st.lists(
    st.tuples(
        st.sampled_from(TYPES),
        st.sampled_from([-(2**31), -5, 0, 30, 100, 150, 2**31 - 1]),
        st.integers(-5, 2),
        st.integers(0, 4),
    ),
    max_size=60,
)


def insert(db: Db, rows: list[tuple[str, int, int, int]]) -> None:
    db.execute("DELETE FROM live")
    with db.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO live (id, job_type, priority, run_at, first_due_at, created_at, attempts, max_attempts)"
            " VALUES (new_id(), %s, %s, now() + %s * interval '1 minute', now(), now(), %s, 3)",
            rows,
        )


def expected(db: Db, job_types: list[str], limit: int) -> list[uuid.UUID]:
    rows = db.execute(
        "SELECT id FROM live WHERE status = 'pending' AND job_type = ANY(%s) AND run_at <= now()"
        " AND attempts < max_attempts ORDER BY priority DESC, run_at, id LIMIT %s",
        (job_types, limit),
    )
    return [row["id"] for row in rows]


@settings(max_examples=80)
@given(rows=jobs, wanted=st.lists(st.sampled_from((*TYPES, "none")), max_size=6), limit=st.integers(0, 70))
def test_a_claim_returns_the_best_jobs_in_order_and_never_more_than_asked_for(
    db: Db, rows: list[tuple[str, int, int, int]], wanted: list[str], limit: int
) -> None:
    insert(db, rows)
    best = expected(db, wanted, limit)
    claimed = db.execute("SELECT * FROM claim('w', %s, %s)", (wanted, limit)).fetchall()
    assert [row["id"] for row in claimed] == best
    assert len(claimed) <= limit
    untouched = db.execute("SELECT count(*) AS n FROM live WHERE status = 'pending' AND token = 0").fetchone()
    assert untouched == {"n": len(rows) - len(best)}


@settings(max_examples=40)
@given(rows=jobs, locked=st.sets(st.integers(0, 59)), limit=st.integers(1, 40), start=st.integers(0, 40))
def test_a_claim_passes_over_what_others_have_locked_and_locks_nothing_else(
    db: Db, connect: Connect, rows: list[tuple[str, int, int, int]], locked: set[int], limit: int, start: int
) -> None:
    insert(db, rows)
    due = expected(db, list(TYPES), 1_000)
    held = [due[n] for n in locked if n < len(due)]
    other, claimer = connect(autocommit=False), connect(autocommit=False)
    other.execute("SELECT id FROM live WHERE id = ANY(%s) FOR UPDATE", (held,))
    claimed = claimer.execute("SELECT * FROM claim('w', %s, %s, %s)", (list(TYPES), limit, start)).fetchall()
    free = [job for job in due if job not in held]
    assert [row["id"] for row in claimed] == free[:limit]
    assert [row["status"] for row in claimed] == ["running"] * min(start, len(claimed)) + ["claimed"] * (
        len(claimed) - start
    )
    # A second claim, while the first is not committed, gets exactly what is left.
    rest = db.execute("SELECT * FROM claim('w2', %s, 1000)", (list(TYPES),)).fetchall()
    assert [row["id"] for row in rest] == free[limit:]
    other.close()
    claimer.close()


@settings(max_examples=40)
@given(rows=jobs, data=st.data())
def test_a_cursor_hides_nothing_but_what_lies_before_it(
    db: Db, rows: list[tuple[str, int, int, int]], data: st.DataObject
) -> None:
    insert(db, rows)
    wanted = list(TYPES)
    due = db.execute(
        "SELECT id, job_type, priority, run_at FROM live WHERE status = 'pending' AND run_at <= now()"
        " AND attempts < max_attempts ORDER BY priority DESC, run_at, id"
    ).fetchall()
    lanes = sorted({(row["job_type"], row["priority"]) for row in due})
    cursors = [
        data.draw(st.sampled_from([row for row in due if (row["job_type"], row["priority"]) == lane]))
        for lane in (data.draw(st.sets(st.sampled_from(lanes))) if lanes else ())
    ]
    behind = {
        row["id"] for row in due for c in cursors
        if (row["job_type"], row["priority"]) == (c["job_type"], c["priority"])
        and (row["run_at"], row["id"]) <= (c["run_at"], c["id"])
    }  # fmt: skip
    limit = data.draw(st.integers(1, 70))
    claimed = db.execute(
        "SELECT id FROM claim('w', %s, %s, 0, %s, %s, %s, %s)",
        (wanted, limit, *([c[k] for c in cursors] for k in ("job_type", "priority", "run_at", "id"))),
    ).fetchall()
    assert [row["id"] for row in claimed] == [row["id"] for row in due if row["id"] not in behind][:limit]


@pytest.mark.parametrize(
    "setting", ["enable_indexscan", "enable_nestloop", "enable_hashjoin", "enable_sort", "enable_material"]
)
def test_no_plan_makes_a_claim_take_more_than_it_was_asked_for(db: Db, setting: str) -> None:
    rng = random.Random(setting)
    insert(db, [(rng.choice(TYPES), rng.choice([30, 100, 150]), -rng.randrange(5), 0) for _ in range(500)])
    db.execute(f"SET {setting} = off".encode())
    for limit in (1, 2, 3, 7, 10, 50):
        best = expected(db, list(TYPES), limit)
        claimed = db.execute("SELECT id FROM claim('w', %s, %s)", (list(TYPES), limit)).fetchall()
        assert [row["id"] for row in claimed] == best


def test_lanes_that_were_left_out_at_first_are_found_behind_those_that_others_hold(db: Db, connect: Connect) -> None:
    types = [f"lane {n:02}" for n in range(20)]
    db.execute("DELETE FROM live")
    for lap in range(2):
        for n, job_type in enumerate(types):
            db.execute(
                "INSERT INTO live (id, job_type, priority, run_at, first_due_at, created_at, max_attempts)"
                " VALUES (new_id(), %s, 100, now() - interval '1 hour' + %s * interval '1 second', now(), now(), 3)",
                (job_type, 20 * lap + n),
            )
    due = expected(db, types, 100)
    for held, wanted in ((3, 2), (1, 3), (5, 1), (18, 4), (25, 7), (39, 2)):
        other = connect(autocommit=False)
        other.execute("SELECT id FROM live WHERE id = ANY(%s) FOR UPDATE", (due[:held],))
        claimer = connect(autocommit=False)
        rows = claimer.execute("SELECT id FROM claim('w', %s, %s)", (types, wanted)).fetchall()
        assert [row["id"] for row in rows] == due[held : held + wanted]
        other.close()
        claimer.close()


def test_a_claim_goes_on_behind_the_last_job_that_it_has_seen_where_another_holds_that_one(
    db: Db, connect: Connect
) -> None:
    insert(db, [("b", 100, -9, 0), *(("a", 100, minute, 0) for minute in range(-8, -2))])
    due = expected(db, ["a", "b"], 10)
    other = connect(autocommit=False)
    other.execute("SELECT id FROM live WHERE id = ANY(%s) FOR UPDATE", (due[2:4],))
    db.execute("SET statement_timeout = '60s'")
    rows = db.execute("SELECT id FROM claim('w', '{a,b}', 3)").fetchall()
    assert [row["id"] for row in rows] == [due[0], due[1], due[4]]


def test_many_types_interleaved_come_in_the_order_of_their_due_times(db: Db) -> None:
    names = [f"type {n}" for n in range(40)]
    rng = random.Random(1)
    insert(db, [(rng.choice(names), 100, -rng.randrange(1000), 0) for _ in range(600)])
    for limit in (1, 13, 100, 400, 600):
        best = expected(db, names, limit)
        claimed = db.execute("SELECT id FROM claim('w', %s, %s)", (names, limit)).fetchall()
        assert [row["id"] for row in claimed] == best


def test_a_paused_type_is_not_claimed_until_it_is_resumed(queue: JobQueue) -> None:
    queue.enqueue("a")
    queue.enqueue("b")
    assert queue.pause("a", "deploying")
    assert not queue.pause("a")
    assert [job.job_type for job in queue.claim(["a", "b"])] == ["b"]
    assert queue.resume("a")
    assert not queue.resume("a")
    assert [job.job_type for job in queue.claim(["a", "b"])] == ["a"]


def test_an_expired_job_is_never_claimed(queue: JobQueue, clock: TestClock) -> None:
    queue.enqueue("a", {"n": 1}, expires_at=clock.now + timedelta(seconds=5))
    queue.enqueue("b", {"n": 2})
    clock.advance(5)
    assert [job.data for job in queue.claim(["a", "b"])] == [{"n": 2}]


def test_a_bad_batch_size_is_refused(queue: JobQueue, db: Db) -> None:
    with pytest.raises(InvalidOption):
        queue.claim(["a"], -1)
    with pytest.raises(Exception, match="batch_size"):
        db.execute("SELECT * FROM claim('w', ARRAY['a'], -1)")


@pytest.fixture
def ordered(connect: Connect) -> Callable[..., None]:
    db = connect()

    def declare(**options: Any) -> None:
        db.execute(
            "SELECT declare_type('o', p_ordered => true, p_pause_on_failure => %s)", (bool(options.get("pause")),)
        )

    return declare


def test_of_an_ordered_type_one_job_is_claimed_at_a_time(queue: JobQueue, ordered: Callable[..., None]) -> None:
    ordered()
    queue.enqueue_many("o", [{"n": n} for n in range(3)])
    for n in range(3):
        (job,) = queue.claim(["o"], 10)
        assert job.data == {"n": n}
        assert queue.claim(["o"], 10) == []
        queue.complete(job)


def test_the_head_of_an_ordered_type_that_backs_off_holds_its_lane(
    queue: JobQueue, clock: TestClock, ordered: Callable[..., None]
) -> None:
    ordered()
    queue.enqueue_many("o", [{"n": n} for n in range(2)])
    (first,) = queue.claim(["o"])
    queue.fail(first, "boom", delay=60)
    assert queue.claim(["o"]) == []
    clock.advance(60)
    assert [job.data for job in queue.claim(["o"])] == [{"n": 0}]


def test_an_ordered_type_can_stop_when_one_of_its_jobs_fails(queue: JobQueue, ordered: Callable[..., None]) -> None:
    ordered(pause=True)
    queue.enqueue_many("o", [{"n": n} for n in range(2)])
    (first,) = queue.claim(["o"])
    assert queue.fail(first, "boom", give_up=True) == "failed"
    assert queue.stats()["o"].paused
    assert queue.claim(["o"]) == []
    queue.resume("o")
    assert [job.data for job in queue.claim(["o"])] == [{"n": 1}]


def test_two_claimers_with_different_snapshots_get_one_job_of_an_ordered_type(
    db: Db, connect: Connect, ordered: Callable[..., None]
) -> None:
    ordered()
    db.execute("SELECT enqueue('o')")
    first = connect(autocommit=False)
    (taken,) = first.execute("SELECT * FROM claim('w1', ARRAY['o'], 5)").fetchall()
    # A better head arrives while the first claim is not committed: it must not be claimed beside it.
    db.execute("SELECT enqueue('o', p_priority => 150)")
    assert db.execute("SELECT * FROM claim('w2', ARRAY['o'], 5)").fetchall() == []
    first.commit()
    assert db.execute("SELECT * FROM claim('w2', ARRAY['o'], 5)").fetchall() == []
    db.execute("SELECT complete(ARRAY[%s], ARRAY[%s])", (taken["id"], taken["token"]))
    assert len(db.execute("SELECT * FROM claim('w2', ARRAY['o'], 5)").fetchall()) == 1


def test_a_plain_sql_client_cannot_break_the_order_either(db: Db, ordered: Callable[..., None]) -> None:
    ordered()
    db.execute("SELECT enqueue_many('o', ARRAY['1', '2']::jsonb[])")
    rows = db.execute("UPDATE jobs SET status = 'claimed' WHERE job_type = 'o' RETURNING data").fetchall()
    assert [row["data"] for row in rows] == [1]
    assert db.execute("UPDATE jobs SET status = 'claimed' WHERE status = 'pending' RETURNING id").fetchall() == []


def test_jobs_that_were_held_or_ended_when_their_type_became_ordered_are_not_stranded(
    queue: JobQueue, ordered: Callable[..., None]
) -> None:
    ended = queue.enqueue("o", {"n": "ended"})
    (job,) = queue.claim(["o"])
    queue.complete(job)
    queue.enqueue_many("o", [{"n": n} for n in range(4)])
    held = queue.claim(["o"], 2)
    ordered()
    assert queue.claim(["o"], 10) == []
    queue.release(held[0])
    queue.fail(held[1], "boom", delay=0)
    queue.retry(ended)
    done = []
    while jobs := queue.claim(["o"], 10):
        (job,) = jobs
        done.append(job.data["n"])
        queue.complete(job)
    assert done == [0, 1, 2, 3, "ended"]
