"""A bound on the jobs of a type that wait: at every door, exact where calls follow one another, and never in the way of an open one."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from howdah import JobQueue
from howdah.model.ids import new_id
from tests.clock import TestClock
from tests.conftest import Connect, Db

FULL = "JQ022"
LARGE = 1_500
"""A bound above which counts are stored."""


def bound(db: Db, most: int | None, when_full: str | None = None, job_type: str = "t") -> None:
    db.execute("SELECT set_max_pending(%s, %s, %s)", (job_type, most, when_full))


def add(db: Db, count: int = 1, job_type: str = "t") -> None:
    db.execute("SELECT enqueue_many(%s, array_fill('{}'::jsonb, ARRAY[%s]))", (job_type, count))


def waiting(db: Db, job_type: str = "t") -> int:
    row = db.execute(
        "SELECT count(*) AS n FROM live WHERE job_type = %s AND status = 'pending'", (job_type,)
    ).fetchone()
    assert row is not None
    return int(row["n"])


def add_unique(db: Db, conflict: str, *items: tuple[str, int]) -> list[str | None]:
    """What became of each item, of which there must not be two of one name."""
    rows = db.execute(
        "SELECT conflict FROM enqueue_unique('t', %s, %s)",
        ([Jsonb({"name": name, "v": v}) for name, v in items], Jsonb({"by": ["name"], "conflict": conflict})),
    )
    return [row["conflict"] for row in rows]


def found(db: Db) -> set[tuple[str, int, str]]:
    return {
        (row["data"]["name"], row["data"]["v"], row["status"]) for row in db.execute("SELECT data, status FROM jobs")
    }


def is_refused(db: Db, statement: str, parameters: Any = None) -> dict[str, Any]:
    """The detail of the error."""
    with pytest.raises(psycopg.Error) as refused:
        db.execute(statement.encode(), parameters)
    assert refused.value.sqlstate == FULL, refused.value
    detail: dict[str, Any] = json.loads(refused.value.diag.message_detail or "")
    return detail


DOORS = {
    "enqueue": "SELECT enqueue('t')",
    "enqueue with an id": "SELECT enqueue('t', p_id => new_id())",
    "enqueue with a key": "SELECT enqueue('t', p_key => 'new')",
    "enqueue_many": "SELECT enqueue_many('t', ARRAY['{}']::jsonb[])",
    "enqueue_many with keys": "SELECT enqueue_many('t', ARRAY['{}']::jsonb[], ARRAY['new'])",
    "enqueue_unique": "SELECT enqueue_unique('t', ARRAY['{\"n\": 1}']::jsonb[], '{\"by\": \"arguments\"}')",
    "INSERT": "INSERT INTO jobs (job_type) VALUES ('t')",
}


@pytest.mark.parametrize("most", [3, LARGE])
@pytest.mark.parametrize("door", DOORS)
def test_every_door_is_open_up_to_the_bound_and_then_closed(db: Db, door: str, most: int) -> None:
    bound(db, most)
    add(db, most - 1)
    db.execute(DOORS[door].encode())
    other = DOORS[door].replace("new'", "newer'").replace('"n": 1', '"n": 2')
    detail = is_refused(db, other)
    assert (detail["job_type"], detail["max_pending"], detail["pending"], detail["when_full"]) == (
        "t",
        most,
        most,
        "raise",
    )
    assert waiting(db) == most


@pytest.mark.parametrize("door", DOORS)
def test_every_door_drops_the_oldest(db: Db, door: str) -> None:
    bound(db, 3, "drop_oldest")
    ids = [db.execute("SELECT id FROM enqueue('t')").fetchone() for _ in range(3)]
    db.execute(DOORS[door].encode())
    assert waiting(db) == 3
    ended = db.execute("SELECT id, status, last_error FROM archive").fetchall()
    assert [row["id"] for row in ended] == [ids[0] and ids[0]["id"]]
    assert (ended[0]["status"], ended[0]["last_error"]) == ("cancelled", "dropped: at most 3 jobs of type t may wait")


@pytest.mark.parametrize("conflict", ["keep", "replace", "reschedule"])
def test_a_job_that_the_call_answers_with_is_not_dropped_for_another_of_it(db: Db, conflict: str) -> None:
    """The bug: it was dropped with its old data, and the new data, though reported as written, was nowhere."""
    bound(db, 2, "drop_oldest")
    add_unique(db, conflict, ("A", 1))
    add_unique(db, conflict, ("X", 1))
    assert add_unique(db, conflict, ("A", 2), ("B", 2))[1] is None
    version = 2 if conflict == "replace" else 1
    assert found(db) == {("A", version, "pending"), ("B", 2, "pending"), ("X", 1, "cancelled")}
    # No others wait: the oldest of all goes, with what the call wrote.
    add_unique(db, conflict, ("A", 3), ("B", 3), ("C", 3))
    assert waiting(db) == 2
    oldest = ("A", 3 if conflict == "replace" else 1, "cancelled")
    assert found(db) - {oldest} == {
        ("B", 3 if conflict == "replace" else 2, "pending"),
        ("C", 3, "pending"),
        ("X", 1, "cancelled"),
    }


def test_jobs_of_the_keys_of_a_bulk_are_not_dropped_for_others_of_it(db: Db) -> None:
    """The bug: the job of the key was dropped and added again, and one more than the bound waited."""
    bound(db, 2, "drop_oldest")
    first = db.execute("SELECT id FROM enqueue('t', p_key => 'a')").fetchone()
    add(db)
    row = db.execute("SELECT enqueued FROM enqueue_many('t', ARRAY['1', '2']::jsonb[], ARRAY['a', 'b'])").fetchone()
    assert (row, waiting(db)) == ({"enqueued": 1}, 2)
    assert db.execute("SELECT id FROM live WHERE key = 'a'").fetchone() == first


def test_a_job_that_gets_another_type_is_not_refused(db: Db) -> None:
    """As docs/how-to/plain-sql.md says."""
    bound(db, 1)
    add(db)
    add(db, job_type="u")
    assert db.execute("UPDATE jobs SET job_type = 't' WHERE job_type = 'u'").rowcount == 1
    assert waiting(db) == 2
    is_refused(db, "SELECT enqueue('t')")


def test_jobs_that_exist_need_no_room(db: Db) -> None:
    bound(db, 2)
    ended, live = new_id(), new_id()
    db.execute("SELECT enqueue('t', p_id => %s)", (ended,))
    db.execute("SELECT cancel(ARRAY[%s])", (ended,))
    db.execute("SELECT enqueue('t', p_id => %s, p_key => 'a')", (live,))
    add(db)
    for call in (
        f"SELECT id, created FROM enqueue('t', p_id => '{live}')",
        f"SELECT id, created FROM enqueue('t', p_id => '{ended}')",
        "SELECT id, created FROM enqueue('t', p_key => 'a')",
    ):
        row = db.execute(call.encode()).fetchone()
        assert row is not None
        assert (row["id"] in (ended, live), row["created"]) == (True, False)
    row = db.execute("SELECT enqueued FROM enqueue_many('t', ARRAY['1', '2']::jsonb[], ARRAY['a', 'a'])").fetchone()
    assert row == {"enqueued": 0}
    is_refused(db, "SELECT enqueue_many('t', ARRAY['1', '2']::jsonb[], ARRAY['a', 'b'])")
    assert waiting(db) == 2


def test_delayed_jobs_and_retries_wait_and_running_ones_do_not(db: Db, queue: JobQueue) -> None:
    bound(db, 2)
    queue.enqueue("t", retry_policy={"kind": "fixed", "delay": 3600})
    queue.enqueue("t", delay=3600)
    is_refused(db, DOORS["enqueue"])
    (job,) = queue.claim(["t"], 5)
    queue.start(job)
    queue.enqueue("t", delay=3600)
    queue.fail(job, "try it again")
    assert waiting(db) == 3
    assert is_refused(db, DOORS["enqueue"])["pending"] == 3


def test_what_comes_back_is_never_refused(db: Db, queue: JobQueue, clock: TestClock) -> None:
    for n in range(5):
        queue.enqueue("t", {"n": n})
    first, second, third, _, fifth = queue.claim(["t"], 5, "me")
    queue.fail(fifth, "for good", give_up=True)
    bound(db, 1)
    queue.enqueue("t")
    queue.release(first)
    queue.start(second)
    queue.snooze(second, delay=5)
    queue.fail(third, "again")
    queue.retry(fifth.id)
    clock.advance(3600)
    assert queue.recover_stale_jobs(60) == 1
    assert waiting(db) == 6
    assert is_refused(db, DOORS["enqueue"])["pending"] == 6


def test_a_schedule_fires_into_a_full_type_and_its_jobs_count(db: Db, queue: JobQueue, clock: TestClock) -> None:
    bound(db, 1)
    queue.enqueue("t")
    queue.schedules.set("nightly", "t", every=60)
    run = queue.schedules.run("nightly")
    assert run.created
    assert is_refused(db, DOORS["enqueue"])["pending"] == 2


def test_an_operators_bound_beats_the_handlers_until_it_is_reset(db: Db) -> None:
    db.execute("SELECT declare_type('t', p_max_pending => 2, p_when_full => 'drop_oldest')")
    backlogs = "SELECT max_pending, when_full, by_operator, pending FROM backlogs"
    assert db.execute(backlogs).fetchall() == [
        {"max_pending": 2, "when_full": "drop_oldest", "by_operator": False, "pending": 0}
    ]
    bound(db, 3, "raise")
    add(db, 3)
    db.execute("SELECT declare_type('t', p_max_pending => 1, p_when_full => 'drop_oldest')")
    is_refused(db, DOORS["enqueue"])
    assert db.execute(backlogs).fetchall() == [
        {"max_pending": 3, "when_full": "raise", "by_operator": True, "pending": 3}
    ]
    bound(db, None)
    add(db)
    assert waiting(db) == 1
    db.execute('SELECT declare_types(\'[{"job_type": "t"}]\')')
    add(db, 10)
    assert (waiting(db), db.execute(backlogs).fetchall()) == (11, [])


@pytest.mark.parametrize(
    "call",
    [
        "set_max_pending('t', 0)",
        "set_max_pending('t', 5, 'explode')",
        "set_max_pending('', 5)",
        "declare_type('t', p_max_pending => 0)",
        "declare_type('t', p_when_full => 'explode')",
    ],
)
def test_values_that_are_not_valid_are_refused(db: Db, call: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        db.execute(f"SELECT {call}".encode())
    assert refused.value.sqlstate in ("JQ001", "JQ002")


def test_in_sql_wait_is_raise_and_the_hint_names_it(db: Db) -> None:
    bound(db, 1, "wait")
    add(db)
    with pytest.raises(psycopg.Error) as refused:
        db.execute("SELECT enqueue('t')")
    assert refused.value.sqlstate == FULL
    assert "not possible within a transaction" in str(refused.value.diag.message_hint)
    row = db.execute("SELECT has_room('t') AS one, has_room('other') AS other").fetchone()
    assert row == {"one": False, "other": True}


def test_a_bulk_is_added_as_a_whole_or_not_at_all(db: Db) -> None:
    bound(db, 5)
    add(db, 3)
    detail = is_refused(db, "SELECT enqueue_many('t', array_fill('{}'::jsonb, ARRAY[3]))")
    assert (detail["pending"], detail["fits"], waiting(db)) == (3, True, 3)
    assert not is_refused(db, "SELECT enqueue_many('t', array_fill('{}'::jsonb, ARRAY[6]))")["fits"]
    is_refused(db, "INSERT INTO jobs (job_type) SELECT 't' FROM generate_series(1, 3)")
    add(db, 2)


def test_calls_that_go_together_are_added_as_far_as_there_is_room(db: Db) -> None:
    bound(db, 3)
    bound(db, 2, "drop_oldest", "d")
    add(db)
    ids = [new_id() for _ in range(9)]
    types = ["t", "u", "t", "d", "t", "u", "d", "d", "t"]
    rows = db.execute(
        "SELECT ids FROM enqueue_each(%s, array_fill('{}'::jsonb, ARRAY[9]), %s)", (types, ids)
    ).fetchall()
    added = {id for row in rows for id in row["ids"]}
    assert [types[ids.index(id)] for id in ids if id in added] == ["t", "u", "t", "d", "u", "d"]
    assert (waiting(db), waiting(db, "d"), waiting(db, "u")) == (3, 2, 2)


def test_a_bulk_larger_than_the_bound_drops_its_own_first_ones(db: Db) -> None:
    bound(db, 3, "drop_oldest")
    add(db, 2)
    db.execute("SELECT enqueue_many('t', ARRAY(SELECT to_jsonb(n) FROM generate_series(1, 7) AS n))")
    assert [row["data"] for row in db.execute("SELECT data FROM live ORDER BY id")] == [5, 6, 7]
    row = db.execute("SELECT count(*) AS n FROM archive WHERE status = 'cancelled'").fetchone()
    assert row == {"n": 6}
    db.execute("INSERT INTO jobs (job_type, data) SELECT 't', to_jsonb(n) FROM generate_series(11, 15) AS n")
    assert {row["data"] for row in db.execute("SELECT data FROM live")} <= {11, 12, 13, 14, 15}
    assert waiting(db) == 3


def test_the_least_important_go_first_then_those_due_longest_and_no_locked_one(
    db: Db, queue: JobQueue, connect: Connect
) -> None:
    names = {
        queue.enqueue("t", priority=priority, delay=delay).id: name
        for name, priority, delay in (
            ("important", 200, 0),
            ("later", 50, 3600),
            ("locked", 50, 0),
            ("first", 50, 0),
            ("middle", 100, 0),
        )
    }
    bound(db, 5, "drop_oldest")
    claimer = connect(autocommit=False)
    (locked,) = (id for id, name in names.items() if name == "locked")
    claimer.execute("SELECT FROM live WHERE id = %s FOR UPDATE", (locked,))
    for _ in range(4):
        queue.enqueue("t", priority=300)
    claimer.rollback()
    dropped = [names[row["id"]] for row in db.execute("SELECT id FROM archive ORDER BY finished_at, id")]
    assert dropped == ["first", "later", "middle", "important"]
    assert waiting(db) == 5


def test_a_lowered_bound_drops_what_is_too_many_at_once(db: Db) -> None:
    add(db, 2_500)
    bound(db, 10, "drop_oldest")
    add(db)
    assert waiting(db) == 2_501 - 1_001
    add(db)
    add(db)
    assert waiting(db) == 10


def test_an_open_transaction_holds_up_no_other_producer(db: Db, connect: Connect) -> None:
    for most, when_full in ((LARGE, "raise"), (LARGE, "drop_oldest"), (20, "drop_oldest")):
        job_type = f"{when_full} {most}"
        bound(db, most, when_full, job_type)
        late = connect(autocommit=False)
        late.execute("SELECT enqueue_many(%s, array_fill('{}'::jsonb, ARRAY[10]))", (job_type,))
        db.execute("SET statement_timeout = '20s'")
        for _ in range(5):
            add(db, 2, job_type)
        late.commit()
        assert waiting(db, job_type) == 20


def test_a_call_in_flight_is_the_most_by_which_a_bound_is_exceeded(db: Db, connect: Connect) -> None:
    bound(db, 3)
    late = connect(autocommit=False)
    add(late, 2)
    add(db, 3)
    late.commit()
    assert waiting(db) == 5
    is_refused(db, DOORS["enqueue"])


def test_rolled_back_jobs_give_their_room_back(db: Db, connect: Connect) -> None:
    bound(db, LARGE)
    add(db, LARGE - 10)
    late = connect(autocommit=False)
    add(late, 10)
    late.rollback()
    db.execute("DELETE FROM backlog_counts")  # as if a second had passed
    add(db, 10)
    is_refused(db, DOORS["enqueue"])


def test_calls_with_a_large_bound_share_a_count(db: Db) -> None:
    bound(db, LARGE)
    add(db, LARGE - 50)
    counts = "SELECT counted_no FROM backlog_counts"
    db.execute("DELETE FROM backlog_counts")
    add(db)
    db.execute("UPDATE backlog_counts SET counted_at = counted_at + interval '1 hour', took = '1 hour'")
    # A count from the future is of no use.
    add(db)
    before = db.execute(counts).fetchall()
    assert len(before) == 1
    for _ in range(48):
        # A count serves for a second, and the machine may be slow.
        db.execute("UPDATE backlog_counts SET counted_at = clock_timestamp()")
        add(db)
    assert db.execute(counts).fetchall() == before
    assert waiting(db) == LARGE


def test_a_full_type_with_a_large_bound_is_not_counted_for_each_call(db: Db, queue: JobQueue) -> None:
    bound(db, LARGE)
    add(db, LARGE)
    row = db.execute("SELECT has_room('t') AS it").fetchone()
    assert row == {"it": False}
    queue.claim(["t"], 5)
    db.execute("UPDATE backlog_counts SET took = '10 seconds', counted_at = clock_timestamp()")
    assert not is_refused(db, DOORS["enqueue"])["counted"]
    # As long as the count serves, there is no room; the next one finds it.
    db.execute("UPDATE backlog_counts SET took = '0'")
    add(db, 5)
    is_refused(db, DOORS["enqueue"])


def test_a_busy_type_does_not_close_another_that_has_room(db: Db) -> None:
    bound(db, LARGE)
    bound(db, 100_000, job_type="busy")
    add(db, LARGE // 2)
    db.execute("UPDATE backlog_counts SET took = '10 seconds', counted_at = clock_timestamp()")
    add(db, LARGE, "busy")
    add(db, LARGE // 2 - 1)
    assert waiting(db) == LARGE - 1


def test_a_job_that_comes_back_with_an_earlier_time_is_counted_again_soon(db: Db) -> None:
    bound(db, LARGE)
    add(db, LARGE - 2)
    db.execute("SELECT enqueue('t', p_run_at => now() - interval '1 day')")
    db.execute("DELETE FROM backlog_counts")
    add(db, 1)
    # From the oldest job on, as a later count does it while full ones are expensive.
    db.execute(
        "UPDATE backlog_counts SET counted_at = '-infinity', full_took = '1 hour', oldest = now() - interval '1 hour'"
    )
    add(db, 1)
    db.execute("UPDATE backlog_counts SET counted_at = '-infinity', full_at = '-infinity'")
    assert is_refused(db, DOORS["enqueue"])["pending"] == LARGE + 1


def test_the_sweep_removes_old_counts(db: Db) -> None:
    bound(db, LARGE)
    add(db)
    db.execute("UPDATE backlog_counts SET counted_at = counted_at - interval '2 minutes'")
    db.execute("SELECT recover()")
    assert db.execute("SELECT FROM backlog_counts").fetchall() == []


def test_a_strict_transaction_stores_no_count(db: Db, connect: Connect) -> None:
    bound(db, LARGE)
    strict = connect(autocommit=False)
    strict.rollback()
    strict.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    strict.execute("SELECT FROM howdah.types")
    add(db, LARGE - 5)
    db.execute("DELETE FROM backlog_counts")
    strict.execute("SELECT howdah.enqueue('t')")
    strict.commit()
    assert db.execute("SELECT FROM backlog_counts").fetchall() == []
    add(db, 4)
    is_refused(db, DOORS["enqueue"])
