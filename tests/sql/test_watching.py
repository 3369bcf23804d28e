"""Watchers of a type are notified when its jobs change, and only then.

A sentinel shows that nothing else came: notifications arrive in the order of their commits.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clock import TestClock
from tests.conftest import Connect, Db
from tests.sql.holding import hold, record
from tests.sql.listening import listener, received

Watch = Callable[..., Db]


@pytest.fixture
def watch(connect: Connect) -> Watch:
    """Open connections that listen, and that watch the types given."""

    def watch(*job_types: str | None) -> Db:
        conn = listener(connect)
        if job_types:
            conn.execute("SELECT add_watcher(%s)", (None if None in job_types else list(job_types),))
        return conn

    return watch


def bucket(db: Db, job_type: str) -> int:
    row = db.execute("SELECT add_watcher(ARRAY[%s]) AS buckets", (job_type,)).fetchone()
    db.execute("SELECT remove_watcher(ARRAY[%s])", (job_type,))
    assert row is not None
    (found,) = row["buckets"]
    return int(found)


def elsewhere(db: Db, job_type: str) -> str:
    """A type of another bucket."""
    return next(other for n in range(1000) if bucket(db, other := f"other {n}") != bucket(db, job_type))


# Of a running job, %(id)s under %(token)s.
NEWS = {
    "progress": "SELECT progress(ARRAY[%(id)s], ARRAY[%(token)s], ARRAY[50])",
    "a stage": "SELECT progress(ARRAY[%(id)s], ARRAY[%(token)s], ARRAY[NULL]::float8[], ARRAY['load'])",
    "an event": "SELECT record_events(ARRAY[%(id)s], ARRAY[%(token)s], ARRAY['e'])",
    "a log": "SELECT record_events(ARRAY[%(id)s], ARRAY[%(token)s], ARRAY['INFO'], p_kinds => ARRAY['log'])",
    "a completion": "SELECT complete(ARRAY[%(id)s], ARRAY[%(token)s])",
    "a failure": "SELECT fail(ARRAY[%(id)s], ARRAY[%(token)s], ARRAY['boom'])",
    "a failure for good": "SELECT fail(ARRAY[%(id)s], ARRAY[%(token)s], ARRAY['boom'], p_give_ups => ARRAY[true])",
    "a crash": "SELECT crash(ARRAY[%(id)s], ARRAY[%(token)s])",
    "an end as cancelled": "SELECT cancel_held(ARRAY[%(id)s], ARRAY[%(token)s])",
    "a snooze": "SELECT snooze(ARRAY[%(id)s], ARRAY[%(token)s])",
    "a recovery": "SELECT recover_stale_jobs('0')",
    "a plain Complete": "UPDATE jobs SET status = 'completed' WHERE id = %(id)s",
    "a plain Fail": "UPDATE jobs SET status = 'pending', last_error = 'boom' WHERE id = %(id)s",
    "a plain word of progress": "UPDATE jobs SET progress = 7 WHERE id = %(id)s",
}
# Of a pending job.
NEWS_OF_WHAT_WAITS = {
    "a cancellation": "SELECT cancel(ARRAY(SELECT id FROM live))",
    "a plain cancellation": "UPDATE jobs SET status = 'cancelled'",
    "an expiry": "SELECT recover()",
}


@pytest.mark.parametrize("news", NEWS)
def test_a_watcher_is_notified_once_and_other_sessions_are_not(db: Db, watch: Watch, news: str) -> None:
    told, untold = hold(db, 2)
    listener = watch()
    db.execute(NEWS[news].encode(), untold._asdict())
    assert received(listener, db) == []
    if "recover" in NEWS[news]:
        db.execute("SELECT claim('w', ARRAY['x'], 2, 2)")
    watcher = watch("x")
    db.execute(NEWS[news].encode(), told._asdict())
    assert received(watcher, db) == [f"news {bucket(db, 'x')}"]


@pytest.mark.parametrize("news", NEWS_OF_WHAT_WAITS)
def test_a_watcher_is_notified_of_the_end_of_a_pending_job(db: Db, watch: Watch, clock: TestClock, news: str) -> None:
    db.execute("SELECT enqueue('x', p_expires_at => clock() + interval '1 s')")
    clock.advance(2)
    watcher = watch("x")
    db.execute(NEWS_OF_WHAT_WAITS[news].encode())
    assert received(watcher, db) == [f"news {bucket(db, 'x')}"]


def test_a_new_life_notifies_watchers(db: Db, watch: Watch) -> None:
    (job,) = hold(db)
    db.execute("SELECT complete(ARRAY[%s], ARRAY[%s])", job)
    watcher = watch("x")
    db.execute("SELECT retry(ARRAY[%s])", (job.id,))
    assert received(watcher, db) == [f"news {bucket(db, 'x')}"]


@pytest.mark.parametrize("news", NEWS)
def test_a_call_that_changes_nothing_sends_no_notification(db: Db, watch: Watch, news: str) -> None:
    (job,) = hold(db)
    db.execute("SELECT complete(ARRAY[%s], ARRAY[%s])", job)
    watcher = watch("x")
    db.execute(NEWS[news].encode(), job._asdict())
    assert received(watcher, db) == []


def test_a_watcher_of_all_types_is_notified_of_each(db: Db, watch: Watch) -> None:
    watcher = watch(None)
    for job_type in ("x", elsewhere(db, "x")):
        (job,) = hold(db, job_type=job_type)
        record(db, job)
        assert received(watcher, db) == [f"news {bucket(db, job_type)}"]
    row = watcher.execute("SELECT add_watcher() AS buckets").fetchone()
    assert row == {"buckets": list(range(32))}


def test_a_watcher_of_other_types_is_not_notified(db: Db, watch: Watch) -> None:
    watcher = watch(elsewhere(db, "x"))
    record(db, *hold(db))
    assert received(watcher, db) == []


def test_a_batch_of_many_is_one_notification_for_each_bucket(db: Db, watch: Watch) -> None:
    types = ["x", elsewhere(db, "x")]
    held = [job for job_type in types for job in hold(db, 20, job_type)]
    watcher = watch(*types)
    record(db, *held)
    ids, tokens = [job.id for job in held], [job.token for job in held]
    assert sorted(received(watcher, db)) == sorted(f"news {bucket(db, job_type)}" for job_type in types)
    db.execute("SELECT complete(%s, %s)", (ids, tokens))
    assert sorted(received(watcher, db)) == sorted(f"news {bucket(db, job_type)}" for job_type in types)


def test_a_session_does_not_notify_itself(db: Db, watch: Watch) -> None:
    (job,) = hold(db)
    watcher = watch("x")
    record(watcher, job)
    assert received(watcher, db) == []


def test_a_former_watcher_is_not_notified_unless_it_began_twice(db: Db, watch: Watch) -> None:
    (job,) = hold(db)
    watcher = watch("x", "x")
    watcher.execute("SELECT add_watcher(ARRAY['x'])")
    watcher.execute("SELECT remove_watcher(ARRAY['x'])")
    record(db, job)
    assert len(received(watcher, db)) == 1
    watcher.execute("SELECT remove_watcher(ARRAY['x'])")
    record(db, job)
    assert received(watcher, db) == []


def test_a_session_that_ends_watches_no_more(db: Db, watch: Watch) -> None:
    (job,) = hold(db)
    watcher, listener = watch("x"), watch()
    pid = watcher.info.backend_pid
    db.execute("SELECT pg_terminate_backend(%s)", (pid,))
    while db.execute("SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = %s", (pid,)).fetchone() is not None:
        pass
    record(db, job)
    assert received(listener, db) == []


def test_watching_outlives_the_transaction_in_which_it_began(db: Db, watch: Watch) -> None:
    (job,) = hold(db)
    watcher = watch()
    with watcher.transaction(force_rollback=True):
        watcher.execute("SELECT add_watcher(ARRAY['x'])")
    record(db, job)
    assert len(received(watcher, db)) == 1


def test_a_notification_is_sent_on_commit_and_not_on_rollback(db: Db, connect: Connect, watch: Watch) -> None:
    (job,) = hold(db)
    watcher, writer = watch("x"), connect()
    with writer.transaction(force_rollback=True):
        record(writer, job)
    assert received(watcher, db) == []
    with writer.transaction():
        for _ in range(3):
            record(writer, job)
        assert received(watcher, db) == []
    assert len(received(watcher, db)) == 1


def test_a_writer_keeps_no_lock_and_does_not_wait_for_watchers(db: Db, connect: Connect, watch: Watch) -> None:
    (watched,), (unwatched,) = hold(db), hold(db, job_type=elsewhere(db, "x"))
    watch("x")
    writer = connect(autocommit=False)
    record(writer, watched, unwatched)
    locks = writer.execute("SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()").fetchall()
    assert locks == []


def test_watching_and_sleeping_are_two_things(db: Db, watch: Watch) -> None:
    (job,) = hold(db)
    sleeper = watch()
    sleeper.execute("SELECT add_sleeper(ARRAY['x'])")
    record(db, job)
    assert received(sleeper, db) == []
    sleeper.execute("SELECT remove_sleeper(ARRAY['x'])")
    watcher = watch("x")
    db.execute("SELECT enqueue('x')")
    assert received(watcher, db) == []


def test_a_session_that_was_not_watching_may_stop_without_a_warning(db: Db) -> None:
    notices: list[str | None] = []
    db.add_notice_handler(lambda notice: notices.append(notice.message_primary))
    db.execute("SELECT remove_watcher(ARRAY['x', 'y', NULL])")
    db.execute("SELECT remove_watcher()")
    assert notices == []
