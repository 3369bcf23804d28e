"""Sleepers are notified when jobs may be due, and only then.

A sentinel shows that nothing else came: notifications arrive in the order of their commits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.clock import TestClock
from tests.conftest import Connect, Db
from tests.sql.listening import listener, received

Listen = Callable[..., Db]


@pytest.fixture
def listen(connect: Connect, db: Db) -> Listen:
    """Open connections that listen, and that sleep on the types given."""

    def listen(*job_types: str) -> Db:
        conn = listener(connect)
        if job_types:
            conn.execute("SELECT add_sleeper(%s)", (list(job_types),))
        return conn

    return listen


def bucket(db: Db, job_type: str) -> int:
    row = db.execute("SELECT add_sleeper(ARRAY[%s]) AS buckets", (job_type,)).fetchone()
    db.execute("SELECT remove_sleeper(ARRAY[%s])", (job_type,))
    assert row is not None
    return int(row["buckets"][0])


def elsewhere(db: Db, job_type: str) -> str:
    """A type of another bucket."""
    return next(other for n in range(1000) if bucket(db, other := f"other {n}") != bucket(db, job_type))


def held(db: Db, start: int = 1) -> dict[str, Any]:
    return db.execute("SELECT id, token FROM claim('w', ARRAY['x'], 1, %s)", (start,)).fetchall()[0]


# The preparation, which returns %(id)s and %(token)s, and the call that makes a job due.
ENQUEUE = "SELECT enqueue('x')"
ENQUEUE_ALONE = "SELECT enqueue('x', p_alone => true)"
LATER = "SELECT enqueue('x', p_delay => '1 hour')"
WAYS_TO_BE_DUE = {
    "enqueue": ([], ENQUEUE),
    "enqueue with an id of one's own": ([], "SELECT enqueue('x', p_id => gen_random_uuid())"),
    "enqueue in a second": ([], "SELECT enqueue('x', p_delay => '1 second')"),
    "enqueue_many": ([], "SELECT enqueue_many('x', array_fill('{}'::jsonb, ARRAY[9]))"),
    "enqueue_each": ([], "SELECT enqueue_each('{x,x}', '{1,2}', ARRAY[gen_random_uuid(), gen_random_uuid()])"),
    "enqueue_each, one of them now": (
        [],
        "SELECT enqueue_each('{x,x}', '{1,2}', ARRAY[gen_random_uuid(), gen_random_uuid()], p_delays => '{1 hour,NULL}')",
    ),
    "a plain INSERT": ([], "INSERT INTO jobs (job_type) SELECT 'x' FROM generate_series(1, 3)"),
    "retry": ([ENQUEUE, "SELECT cancel(ARRAY(SELECT id FROM jobs))"], "SELECT retry(ARRAY(SELECT id FROM jobs))"),
    "resume_type": ([ENQUEUE, "SELECT pause_type('x')"], "SELECT resume_type('x')"),
    "reschedule": ([LATER], "SELECT reschedule(ARRAY(SELECT id FROM jobs))"),
    "reprioritise": ([ENQUEUE], "SELECT reprioritise(ARRAY(SELECT id FROM jobs), 150)"),
}
HELD_WAYS_TO_BE_DUE = {
    "release": "SELECT release(ARRAY[%(id)s], ARRAY[%(token)s], true)",
    "snooze": "SELECT snooze(ARRAY[%(id)s], ARRAY[%(token)s])",
    "fail": "SELECT fail(ARRAY[%(id)s], ARRAY[%(token)s], ARRAY['boom'], p_delays => ARRAY[interval '0'])",
    "crash": "SELECT crash(ARRAY[%(id)s], ARRAY[%(token)s])",
    "recover_stale_jobs": "SELECT recover_stale_jobs('0')",
    "a plain Fail": "UPDATE jobs SET status = 'pending', last_error = 'boom' WHERE id = %(id)s",
    "a plain RecoverStaleJobs": "UPDATE jobs SET status = 'pending', worker_id = NULL WHERE status = 'running'",
}


@pytest.mark.parametrize("way", WAYS_TO_BE_DUE)
def test_a_job_that_becomes_due_wakes_a_sleeper_on_its_type_once(db: Db, listen: Listen, way: str) -> None:
    before, statement = WAYS_TO_BE_DUE[way]
    for one in before:
        db.execute(one.encode())
    sleeper = listen("x", "y")
    db.execute(statement.encode())
    assert received(sleeper, db) == [f"wake {bucket(db, 'x')}"]


@pytest.mark.parametrize("way", HELD_WAYS_TO_BE_DUE)
def test_a_released_job_wakes_a_sleeper_on_its_type_once(db: Db, listen: Listen, way: str) -> None:
    db.execute("SELECT enqueue('x')")
    mine = held(db)
    sleeper = listen("x", "y")
    db.execute(HELD_WAYS_TO_BE_DUE[way].encode(), mine)
    assert received(sleeper, db) == [f"wake {bucket(db, 'x')}"]


def test_the_jobs_of_a_dead_worker_wake_a_sleeper(db: Db, listen: Listen, clock: TestClock) -> None:
    db.execute("SELECT register_worker('w', gen_random_uuid())")
    db.execute("SELECT enqueue('x')")
    held(db)
    sleeper = listen("x")
    clock.advance(16)
    db.execute("SELECT recover()")
    assert received(sleeper, db) == [f"wake {bucket(db, 'x')}"]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT enqueue('x', p_delay => '1 hour')",
        "SELECT enqueue('x', p_delay => '1 hour', p_id => gen_random_uuid())",
        "SELECT enqueue('x', p_key => 'k')",
        "SELECT enqueue_many('x', ARRAY['{}']::jsonb[], p_delay => '1 hour')",
        "SELECT enqueue_many('x', ARRAY['{}']::jsonb[], ARRAY['k'])",
        "SELECT enqueue_many('x', '{}')",
        "SELECT enqueue_each('{x}', '{1}', ARRAY[gen_random_uuid()], p_delays => '{1 hour}')",
        "SELECT retry(ARRAY(SELECT id FROM live))",
        "SELECT resume_type('x')",
        "SELECT reschedule(ARRAY(SELECT id FROM live), p_delay => '1 hour')",
        "SELECT cancel(ARRAY(SELECT id FROM live))",
        "SELECT release(ARRAY(SELECT id FROM live), ARRAY[1])",
        "SELECT complete(ARRAY(SELECT id FROM live), ARRAY[1])",
        "SELECT recover()",
    ],
)
def test_a_call_that_makes_nothing_due_wakes_no_sleeper(db: Db, listen: Listen, statement: str) -> None:
    db.execute("SELECT enqueue('x', p_key => 'k')")
    sleeper = listen("x")
    db.execute(statement.encode())
    assert received(sleeper, db) == []


def test_a_failure_that_is_tried_again_later_wakes_no_sleeper(db: Db, listen: Listen) -> None:
    db.execute("SELECT enqueue('x')")
    sleeper = listen("x")
    db.execute(
        "SELECT fail(ARRAY[%(id)s], ARRAY[%(token)s], ARRAY['boom'], p_delays => ARRAY[interval '1 h'])", held(db)
    )
    assert received(sleeper, db) == []


def test_without_a_sleeper_nothing_is_notified(db: Db, listen: Listen) -> None:
    awake = listen()
    db.execute("SELECT enqueue('x')")
    db.execute("SELECT enqueue_many('x', ARRAY['{}']::jsonb[])")
    assert received(awake, db) == []


def test_a_sleeper_on_other_types_is_not_woken(db: Db, listen: Listen) -> None:
    sleeper = listen(elsewhere(db, "x"))
    db.execute("SELECT enqueue('x')")
    assert received(sleeper, db) == []


def test_a_sleeper_that_has_woken_up_is_not_woken_again(db: Db, listen: Listen) -> None:
    sleeper = listen("x")
    db.execute("SELECT enqueue('x')")
    assert len(received(sleeper, db)) == 1
    sleeper.execute("SELECT remove_sleeper(ARRAY['x'])")
    db.execute("SELECT enqueue('x')")
    assert received(sleeper, db) == []


def test_a_sleeper_whose_connection_ends_is_removed(db: Db, listen: Listen) -> None:
    sleeper, awake = listen("x"), listen()
    pid = sleeper.info.backend_pid
    db.execute("SELECT pg_terminate_backend(%s)", (pid,))
    while db.execute("SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = %s", (pid,)).fetchone() is not None:
        pass
    db.execute("SELECT enqueue('x')")
    assert received(awake, db) == []


def test_sleep_outlives_the_transaction_in_which_it_began(db: Db, listen: Listen) -> None:
    sleeper = listen()
    with sleeper.transaction(force_rollback=True):
        sleeper.execute("SELECT add_sleeper(ARRAY['x'])")
    db.execute("SELECT enqueue('x')")
    assert len(received(sleeper, db)) == 1


def test_a_transaction_wakes_when_it_commits_and_not_if_it_does_not(db: Db, connect: Connect, listen: Listen) -> None:
    sleeper, producer = listen("x"), connect()
    with producer.transaction(force_rollback=True):
        producer.execute("SELECT enqueue('x')")
    assert received(sleeper, db) == []
    with producer.transaction():
        for _ in range(3):
            producer.execute("SELECT enqueue('x')")
        assert received(sleeper, db) == []
    assert len(received(sleeper, db)) == 1


def test_a_producer_keeps_no_lock_and_does_not_wait_for_a_sleeper(db: Db, connect: Connect, listen: Listen) -> None:
    listen("x")
    producer = connect(autocommit=False)
    producer.execute("SELECT enqueue(job_type) FROM unnest(ARRAY['x', %s]) AS t (job_type)", (elsewhere(db, "x"),))
    locks = producer.execute("SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()").fetchall()
    assert locks == []


def test_many_types_of_one_bucket_wake_once(db: Db, listen: Listen) -> None:
    job_types = [f"type {n}" for n in range(200)]
    sleeper = listen(*job_types)
    db.execute("SELECT notify_workers(%s::varchar[])", (job_types,))
    assert sorted(received(sleeper, db)) == sorted({f"wake {bucket(db, job_type)}" for job_type in job_types})
    assert all(0 <= bucket(db, job_type) < 32 for job_type in job_types)


def test_a_session_that_was_not_asleep_may_call_remove_sleeper_without_a_warning(db: Db) -> None:
    notices: list[str | None] = []
    db.add_notice_handler(lambda notice: notices.append(notice.message_primary))
    db.execute("SELECT remove_sleeper(ARRAY['x', 'y'])")
    assert notices == []


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT complete(ARRAY[%(id)s], ARRAY[%(token)s])",
        "SELECT fail(ARRAY[%(id)s], ARRAY[%(token)s], ARRAY['boom'], p_give_ups => ARRAY[true])",
        "SELECT cancel_held(ARRAY[%(id)s], ARRAY[%(token)s])",
        "UPDATE jobs SET status = 'completed' WHERE id = %(id)s",
    ],
)
@pytest.mark.parametrize("ordered", [True, False])
def test_an_ended_job_of_an_ordered_type_wakes_for_the_next(
    db: Db, listen: Listen, ordered: bool, statement: str
) -> None:
    db.execute("SELECT declare_type('x', p_ordered => %s)", (ordered,))
    db.execute("SELECT enqueue_many('x', array_fill('{}'::jsonb, ARRAY[2]))")
    mine, sleeper = held(db), listen("x")
    db.execute(statement.encode(), mine)
    assert received(sleeper, db) == ([f"wake {bucket(db, 'x')}"] if ordered else [])


@pytest.mark.parametrize(
    "statement", ["SELECT cancel(ARRAY[%(id)s])", "UPDATE jobs SET status = 'cancelled' WHERE id = %(id)s"]
)
def test_a_request_to_stop_a_running_job_notifies_its_worker_once(db: Db, listen: Listen, statement: str) -> None:
    db.execute("SELECT register_worker('w', gen_random_uuid())")
    db.execute("SELECT enqueue('x')")
    mine, worker = held(db), listen()
    db.execute(statement.encode(), mine)
    db.execute(statement.encode(), mine)
    assert received(worker, db) == [f"cancel {mine['id']}"]


def test_a_cancelled_job_that_did_not_run_notifies_no_worker(db: Db, listen: Listen) -> None:
    db.execute("SELECT enqueue_many('x', array_fill('{}'::jsonb, ARRAY[2]))")
    held(db, start=0)
    worker = listen()
    db.execute("SELECT cancel(ARRAY(SELECT id FROM live))")
    assert received(worker, db) == []


def test_thousands_that_are_asked_to_stop_do_not_flood_the_channel(db: Db, listen: Listen) -> None:
    db.execute("SELECT enqueue_many('x', array_fill('{}'::jsonb, ARRAY[1500]))")
    db.execute("SELECT claim('w', ARRAY['x'], 1500, 1500)")
    worker = listen()
    db.execute("SELECT cancel(ARRAY(SELECT id FROM live))")
    assert len(received(worker, db)) == 1000


def test_while_one_call_notifies_others_do_not_wait_to_send_the_same(listen: Listen, connect: Connect, db: Db) -> None:
    sleeper = listen("x")
    teller = connect(autocommit=False)
    # As an enqueue does between its call and the end of its commit.
    lock = "SELECT pg_advisory_xact_lock('howdah.live'::regclass::oid::int, 64 + abs(hashtext(%s) %% 32))"
    teller.execute(lock, ("x",))
    db.execute(ENQUEUE_ALONE)
    assert received(sleeper, db) == []
    # The end of this one is unknown.
    db.execute(ENQUEUE)
    assert received(sleeper, db) == [f"wake {bucket(db, 'x')}"]
    teller.commit()
    db.execute(ENQUEUE_ALONE)
    assert received(sleeper, db) == [f"wake {bucket(db, 'x')}"]


def test_an_open_transaction_suppresses_no_notification(listen: Listen, connect: Connect, db: Db) -> None:
    sleeper = listen("x")
    theirs = connect(autocommit=False)
    theirs.execute("SELECT")
    theirs.execute(ENQUEUE)
    db.execute(ENQUEUE)
    assert received(sleeper, db) == [f"wake {bucket(db, 'x')}"]
    theirs.commit()
    assert received(sleeper, db) == [f"wake {bucket(db, 'x')}"]
