"""Clients that use jobs as a plain table: what they may expect, and the deviations from a plain table.

They use the columns of the seed and nothing else. Some of them share a type with Howdah's own workers. test_deviation_N… is about row N
of the table in docs/how-to/plain-sql.md. Refused means 0 rows there, as where the WHERE does not match.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db import IntegrityError  # type: ignore[import-untyped]
from psycopg import sql
from sqlalchemy.orm import Session
from sqlalchemy.orm.exc import StaleDataError

from howdah import Job, JobQueue
from tests.clock import TestClock
from tests.conftest import Connect, Db
from tests.sql import seed
from tests.sql.plain import (
    CLAIM_BY_ID,
    MADE,
    change,
    claimed,
    details_of,
    insert,
    is_blocked,
    one,
    register,
    row_of,
    run_connected,
    running,
    running_under,
    send,
    until_blocked,
)
from tests.sql.plain_forms import FAIL, FORMS, Statement
from tests.sql.plain_orm import FAILS, AlchemyJob, DjangoJob, alchemy, django_database

BACKOFF = '{"kind": "fixed", "delay": 60}'


# Concurrent writes


def test_four_clients_that_count_lose_no_update(db: Db, connect: Connect) -> None:
    job_id = running(db)

    def count(conn: Db) -> None:
        for _ in range(200):
            assert change(conn, "UPDATE jobs SET events_count = events_count + 1 WHERE id = $1", job_id) == 1

    run_connected(connect, *[count] * 4)
    assert row_of(db, job_id)["events_count"] == 800


@pytest.mark.parametrize("operator_first", [True, False], ids=["operator first", "progress first"])
def test_an_operators_max_attempts_survives_a_progress_write_at_the_same_time(
    db: Db, connect: Connect, operator_first: bool
) -> None:
    job_id = running(db)
    operator = "UPDATE jobs SET max_attempts = 10 WHERE id = $1"
    progress = "UPDATE jobs SET progress = 40, current_stage = 'half' WHERE id = $1"
    write_both(db, connect, job_id, *((operator, progress) if operator_first else (progress, operator)))
    row = row_of(db, job_id)
    assert (row["max_attempts"], row["progress"], row["current_stage"]) == (10, 40, "half")


@pytest.mark.parametrize("operator_first", [True, False], ids=["operator first", "progress first"])
def test_howdahs_reprioritise_survives_a_plain_write_at_the_same_time(
    db: Db, connect: Connect, operator_first: bool
) -> None:
    (job_id,) = insert(db)
    operator = "SELECT reprioritise(ARRAY[$1::uuid], 150)"
    plain = "UPDATE jobs SET progress = 1, current_stage = 'seen' WHERE id = $1"
    write_both(db, connect, job_id, *((operator, plain) if operator_first else (plain, operator)))
    row = row_of(db, job_id)
    assert (row["priority"], row["progress"], row["current_stage"]) == (150, 1, "seen")


def write_both(db: Db, connect: Connect, job_id: uuid.UUID, first: str, second: str) -> None:
    """The second begins while the first has not committed, and waits for it."""
    one_conn, other = connect(), connect()
    with ThreadPoolExecutor(1) as pool:
        with one_conn.transaction():
            send(one_conn, first, job_id)
            waiting = pool.submit(send, other, second, job_id)
            until_blocked(db, other)
        waiting.result()


def test_a_statement_writes_to_the_row_as_it_is_now_and_not_as_its_snapshot_saw_it(db: Db, connect: Connect) -> None:
    job_id = running(db)
    first, second = connect(), connect()
    with ThreadPoolExecutor(1) as pool:
        with first.transaction():
            send(first, "UPDATE jobs SET data = '{\"step\": 1}', priority = 7 WHERE id = $1", job_id)
            statement = "UPDATE jobs SET data = data || '{\"seen\": true}' WHERE id = $1 RETURNING data, priority"
            waiting = pool.submit(one, second, statement, job_id)
            until_blocked(db, second)
        answer = waiting.result()
    assert answer == {"data": {"step": 1, "seen": True}, "priority": 7}


# Claims


def until_none_is_pending(conn: Db, take: Callable[[], list[uuid.UUID]], got: list[uuid.UUID]) -> None:
    while send(conn, "SELECT id FROM jobs WHERE status = 'pending' LIMIT 1"):
        got.extend(take())


def test_a_clients_own_function_named_take_pending_job_returns_no_job_twice(
    db: Db, connect: Connect, own_schema: str
) -> None:
    db.execute(
        sql.SQL("""
        CREATE FUNCTION {}.take_pending_job(p_worker text) RETURNS uuid LANGUAGE plpgsql AS $$
        DECLARE
            v_id uuid;
        BEGIN
            SELECT id INTO v_id FROM jobs WHERE status = 'pending'
            ORDER BY priority DESC, created_at LIMIT 1 FOR UPDATE SKIP LOCKED;
            UPDATE jobs SET status = 'claimed', worker_id = p_worker, claimed_at = now(), attempts = attempts + 1
            WHERE id = v_id;
            RETURN v_id;
        END
        $$""").format(sql.Identifier(own_schema))
    )
    insert(db, 120)
    got: list[uuid.UUID] = []

    def loop(conn: Db, name: str) -> None:
        def take() -> list[uuid.UUID]:
            row = one(conn, f"SELECT {own_schema}.take_pending_job($1) AS id", name)
            return [row["id"]] if row["id"] else []

        until_none_is_pending(conn, take, got)

    run_connected(connect, *(partial(loop, name=f"client-{n}") for n in range(4)))
    assert len(got) == len(set(got)) == 120


def test_compare_and_set_with_the_status_as_a_parameter_raises_nothing_and_returns_no_job_twice(
    db: Db, connect: Connect
) -> None:
    insert(db, 120)
    got: list[uuid.UUID] = []

    def loop(conn: Db, name: str) -> None:
        def take() -> list[uuid.UUID]:
            due = send(
                conn, "SELECT id FROM jobs WHERE status = $1 ORDER BY priority DESC, created_at LIMIT 5", "pending"
            )
            compare_and_set = CLAIM_BY_ID + " AND status = $3"
            return [row["id"] for row in due if change(conn, compare_and_set, name, row["id"], "pending")]

        until_none_is_pending(conn, take, got)

    run_connected(connect, *(partial(loop, name=f"client-{n}") for n in range(4)))
    assert len(got) == len(set(got)) == 120


def test_select_for_update_locks_the_row_against_plain_clients_and_against_howdah(db: Db, connect: Connect) -> None:
    first, second = insert(db, 2)
    holder, other = connect(), connect()
    with holder.transaction():
        send(holder, "SELECT id FROM jobs WHERE id = $1 FOR UPDATE", first)
        rows = send(other, "SELECT id FROM jobs WHERE status = 'pending' ORDER BY id FOR UPDATE SKIP LOCKED")
        assert [row["id"] for row in rows] == [second]
        with pytest.raises(psycopg.errors.LockNotAvailable):
            send(other, "SELECT id FROM jobs WHERE id = $1 FOR UPDATE NOWAIT", first)
        assert [row["id"] for row in send(other, seed.CLAIM, "other", ["x"], 10)] == [second]
    assert [row["id"] for row in send(other, seed.CLAIM, "other", ["x"], 10)] == [first]


def test_two_clients_that_lock_in_the_same_order_do_not_deadlock(db: Db, connect: Connect) -> None:
    """Each locks two jobs by SELECT … FOR UPDATE in the order of their ids, and then writes to them in an order of its own."""
    first, second = sorted(insert(db, 2))
    lock = "SELECT id FROM jobs WHERE id = ANY($1) ORDER BY id FOR UPDATE"
    write = "UPDATE jobs SET current_stage = $1 WHERE id = $2"
    one_conn, other = connect(), connect()
    others_first_write, second_is_written = threading.Event(), threading.Event()

    def others_work() -> None:
        with other.transaction():
            send(other, lock, [first, second])
            change(other, write, "other", first)
            others_first_write.set()
            assert second_is_written.wait(60)
            change(other, write, "other", second)

    with ThreadPoolExecutor(1) as pool, one_conn.transaction():
        send(one_conn, lock, [first, second])
        work = pool.submit(others_work)
        # It waits for the lock; where FOR UPDATE does not lock, it continues.
        while not others_first_write.is_set() and not is_blocked(db, other):
            pass
        change(one_conn, write, "one", second)
        second_is_written.set()
        change(one_conn, write, "one", first)
        assert not others_first_write.is_set()
    work.result()
    assert {row_of(db, job_id)["current_stage"] for job_id in (first, second)} == {"other"}


def test_clients_that_claim_and_fail_in_batches_do_not_deadlock(db: Db, connect: Connect) -> None:
    insert(db, 60)
    db.execute("UPDATE jobs SET max_attempts = 1000000")
    claim = (
        "UPDATE jobs SET status = 'claimed', worker_id = $1, claimed_at = NOW(), attempts = attempts + 1 WHERE id IN ("
        " SELECT id FROM jobs WHERE status = 'pending' ORDER BY priority DESC, created_at LIMIT 10 FOR UPDATE SKIP LOCKED"
        ") RETURNING id"
    )

    def loop(conn: Db, name: str) -> None:
        for _ in range(100):
            ids = [row["id"] for row in send(conn, claim, name)]
            assert change(conn, FAIL.text.replace("id = $1", "id = ANY($1)"), ids, "again") == len(ids)

    run_connected(connect, *(partial(loop, name=f"client-{n}") for n in range(4)))
    assert {row["status"] for row in send(db, "SELECT status FROM jobs")} == {"pending"}


# Recovery

SAYING_WHY = Statement(
    seed.RECOVER_STALE_JOBS.replace("claimed_at = NULL", "claimed_at = NULL,\nlast_error = 'taken back by cron'"),
    ("interval",),
)
LOOKING_AT_IT = Statement(
    seed.RECOVER_STALE_JOBS + "\nAND (last_error = '' OR last_error IS NULL OR last_error = last_error)", ("interval",)
)
RECOVERIES = {"sets last_error": SAYING_WHY, "looks at last_error": LOOKING_AT_IT}


@pytest.mark.parametrize("recovery", RECOVERIES)
@pytest.mark.parametrize("form", FORMS)
def test_a_recovery_never_takes_a_running_job_from_a_live_worker(
    db: Db, queue: JobQueue, form: str, recovery: str
) -> None:
    held = running_under(db, queue, "beats")
    before = details_of(db, held.id)
    assert FORMS[form](db, RECOVERIES[recovery], "-1 hour") == 0
    assert details_of(db, held.id) == before
    queue.complete(held)
    assert queue.get(held).status == "completed"


@pytest.mark.parametrize(
    "status",
    ["pending", "CASE WHEN attempts >= max_attempts THEN 'failed' ELSE 'pending' END"],
    ids=["pending", "CASE"],
)
def test_deviation_6_a_fail_by_another_never_takes_a_job_from_a_live_worker(
    db: Db, queue: JobQueue, status: str
) -> None:
    held = running_under(db, queue, "beats")
    value = f"'{status}'" if status == "pending" else status
    statement = (
        f"UPDATE jobs SET status = {value}, last_error = 'gone', worker_id = NULL, attempts = attempts WHERE id = $1"
    )
    assert change(db, statement, held.id) == 0
    queue.complete(held)


@pytest.mark.parametrize("recovery", RECOVERIES)
def test_a_recovery_takes_the_job_of_a_worker_that_is_dead(
    db: Db, queue: JobQueue, clock: TestClock, recovery: str
) -> None:
    held = running_under(db, queue, "beats")
    clock.advance(16)
    assert change(db, RECOVERIES[recovery].text, "-1 hour") == 1
    job = queue.get(held)
    assert (job.status, job.worker_id, job.attempts) == ("pending", None, 1)
    assert len(job.errors) == 1


# Fail


def failed_twice_with_the_same_error(
    db: Db, queue: JobQueue, clock: TestClock, fail: Callable[[uuid.UUID], int]
) -> Job[Any]:
    job_id = one(db, "SELECT id FROM enqueue('x', p_retry_policy => $1)", BACKOFF)["id"]
    for _ in range(2):
        assert change(db, CLAIM_BY_ID, "w", job_id) == 1
        assert fail(job_id) == 1
        clock.advance(61)
    return queue.get(job_id)


def assert_backed_off_twice(job: Job[Any], clock: TestClock) -> None:
    assert (job.status, job.attempts, job.worker_id, job.claimed_at) == ("pending", 2, None, None)
    assert job.last_error == "the same"
    assert [error.error for error in job.errors] == ["the same"] * 2
    assert job.run_at == clock.now - timedelta(seconds=1), "a minute after its second failure"


@pytest.mark.parametrize("form", FORMS)
def test_a_fail_with_the_same_error_twice_keeps_its_backoff_and_its_error(
    db: Db, queue: JobQueue, clock: TestClock, form: str
) -> None:
    job = failed_twice_with_the_same_error(db, queue, clock, lambda job_id: FORMS[form](db, FAIL, job_id, "the same"))
    assert_backed_off_twice(job, clock)


@pytest.mark.parametrize("form", FAILS)
def test_a_fail_by_an_orm_with_the_same_error_twice_keeps_its_backoff_and_its_error(
    dsn: str, db: Db, queue: JobQueue, clock: TestClock, form: str
) -> None:
    job = failed_twice_with_the_same_error(db, queue, clock, lambda job_id: FAILS[form](dsn, job_id, "the same"))
    assert_backed_off_twice(job, clock)


# A stale save of a whole row


def taken_over(db: Db) -> tuple[uuid.UUID, dict[str, Any]]:
    """A job of which one client has a stale row: it was recovered, and another client holds it. Also returns the current row."""
    job_id = running(db, worker="first")
    assert change(db, seed.RECOVER_STALE_JOBS, "-1 hour") == 1
    assert change(db, CLAIM_BY_ID, "second", job_id) == 1
    assert change(db, "UPDATE jobs SET status = 'running', started_at = NOW() WHERE id = $1", job_id) == 1
    return job_id, row_of(db, job_id)


STALE_ENDS = ["completed", "failed", "cancelled", "pending"]


@pytest.mark.parametrize("status", STALE_ENDS)
def test_a_stale_save_by_django_does_not_end_the_attempt_of_another(dsn: str, db: Db, status: str) -> None:
    with django_database(dsn) as alias:
        (job_id,) = insert(db)
        change(db, CLAIM_BY_ID, "first", job_id)
        stale = DjangoJob.objects.using(alias).get(pk=job_id)
        change(db, seed.RECOVER_STALE_JOBS, "-1 hour")
        change(db, CLAIM_BY_ID, "second", job_id)
        now = row_of(db, job_id)
        stale.status, stale.progress, stale.last_error = status, 100, "stale"
        # 0 rows: Django takes the row for one that is not there yet, and inserts it.
        with pytest.raises(IntegrityError, match="already"):
            stale.save()
    assert row_of(db, job_id) == now


@pytest.mark.parametrize("status", STALE_ENDS)
def test_a_stale_save_by_sqlalchemy_does_not_end_the_attempt_of_another(dsn: str, db: Db, status: str) -> None:
    with alchemy(dsn) as engine:
        (job_id,) = insert(db)
        change(db, CLAIM_BY_ID, "first", job_id)
        with Session(engine) as session:
            stale = session.get_one(AlchemyJob, job_id)
        change(db, seed.RECOVER_STALE_JOBS, "-1 hour")
        change(db, CLAIM_BY_ID, "second", job_id)
        now = row_of(db, job_id)
        stale.status, stale.progress, stale.last_error = status, 100, "stale"
        with Session(engine) as session:
            session.merge(stale)
            with pytest.raises(StaleDataError):
                session.commit()
    assert row_of(db, job_id) == now


@pytest.mark.parametrize("status", STALE_ENDS)
@pytest.mark.parametrize(
    "carried", [{"worker_id": "first"}, {"attempts": 1}, {"worker_id": "first", "attempts": 1}], ids=str
)
def test_deviation_7_a_statement_that_carries_the_holder_or_the_attempts_of_an_older_claim_ends_nothing(
    db: Db, carried: dict[str, Any], status: str
) -> None:
    job_id, now = taken_over(db)
    assigned = ", ".join(f"{name} = ${n + 3}" for n, name in enumerate(carried))
    statement = f"UPDATE jobs SET status = $1, progress = 100, {assigned} WHERE id = $2"
    assert change(db, statement, status, job_id, *carried.values()) == 0
    assert row_of(db, job_id) == now


@pytest.mark.parametrize("status", STALE_ENDS[:3])
def test_a_save_of_the_whole_row_by_the_holder_ends_its_attempt(dsn: str, db: Db, status: str) -> None:
    job_id = running(db)
    with django_database(dsn) as alias:
        job = DjangoJob.objects.using(alias).get(pk=job_id)
        job.status, job.progress = status, 90
        job.save()
    row = row_of(db, job_id)
    assert (row["status"], row["progress"], row["worker_id"], row["attempts"]) == (status, 90, "w", 1)


# Answers


def test_an_update_of_three_thousand_ended_jobs_changes_none_without_a_notice(db: Db) -> None:
    notices: list[str] = []
    db.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
    send(db, "INSERT INTO jobs (job_type, status) SELECT 'x', 'completed' FROM generate_series(1, 3000)")
    assert change(db, "UPDATE jobs SET status = 'completed', progress = 100 WHERE job_type = 'x'") == 0
    assert change(db, "UPDATE jobs SET priority = 1") == 0
    assert notices == []


def test_returning_shows_failed_for_a_job_that_ended_as_failed(db: Db, queue: JobQueue, clock: TestClock) -> None:
    held = running_under(db, queue, "dies", max_attempts=1)
    clock.advance(16)
    answer = one(db, "UPDATE jobs SET status = 'pending', worker_id = NULL WHERE id = $1 RETURNING *", held.id)
    assert (answer["status"], answer["worker_id"]) == ("failed", None)
    assert "worker dies died while it ran the job" in answer["last_error"]
    assert row_of(db, held.id) == answer


def test_deviation_6_a_recovery_without_an_attempt_left_ends_the_job_and_returning_shows_it(db: Db) -> None:
    job_id = running(db)
    change(db, "UPDATE jobs SET max_attempts = 1 WHERE id = $1", job_id)
    answer = one(db, "UPDATE jobs SET status = 'pending', worker_id = NULL WHERE id = $1 RETURNING *", job_id)
    assert (answer["status"], answer["last_error"]) == ("failed", "recovered from worker w, with no attempt left")
    assert row_of(db, job_id) == answer


LATER = datetime(2031, 5, 4, tzinfo=timezone.utc)
NEW_VALUES = {
    "job_type": "other", "priority": 7, "data": '{"a": 2}', "progress": 40, "current_stage": "half", "events_count": 5,
    "claimed_at": LATER, "created_at": LATER, "started_at": LATER, "completed_at": LATER, "max_attempts": 9,
}  # fmt: skip


@pytest.mark.parametrize("column", NEW_VALUES)
@pytest.mark.parametrize("status", MADE)
def test_deviation_1_a_statement_writes_the_column_that_it_names_and_no_other(db: Db, status: str, column: str) -> None:
    job_id = MADE[status](db)
    before = row_of(db, job_id)
    answer = one(db, f"UPDATE jobs SET {column} = $1 WHERE id = $2 RETURNING *", NEW_VALUES[column], job_id)
    after = row_of(db, job_id)
    assert answer == after
    assert {name for name, value in after.items() if value != before[name]} == {column}


@pytest.mark.parametrize("to", ["claimed", "running", "completed", "failed", "cancelled", "pending"])
@pytest.mark.parametrize("status", MADE)
def test_deviation_1_a_statement_that_names_only_the_status_writes_only_the_status(
    db: Db, status: str, to: str
) -> None:
    if (status, to) in {("pending", "completed"), ("pending", "failed"), ("running", "claimed")} or status == to:
        return
    job_id = MADE[status](db)
    before = row_of(db, job_id)
    answer = one(db, "UPDATE jobs SET status = $1 WHERE id = $2 RETURNING *", to, job_id)
    after = row_of(db, job_id)
    assert answer == after
    assert after == {**before, "status": to}


# DELETE


@pytest.mark.parametrize("status", ["pending", "claimed", "running"])
def test_deviation_9_a_live_job_can_be_deleted_with_its_events(db: Db, queue: JobQueue, status: str) -> None:
    (other,) = insert(db)
    job_id = MADE[status](db)
    send(db, "INSERT INTO events_open (at, job_id, token, seq, attempt, job_type, kind, name)"
         " SELECT now(), id, 1, 1, 1, 'x', 'event', 'e' FROM jobs")  # fmt: skip
    answer = one(db, "DELETE FROM jobs WHERE id = $1 RETURNING *", job_id)
    assert (answer["id"], answer["status"]) == (job_id, status)
    assert [row["id"] for row in send(db, "SELECT id FROM jobs")] == [other]
    assert [row["job_id"] for row in send(db, "SELECT job_id FROM events")] == [other]


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_deviation_9_an_ended_job_can_be_deleted_with_its_events_and_is_no_longer_counted(
    db: Db, queue: JobQueue, status: str
) -> None:
    ended = [running(db) for _ in range(2)]
    change(db, "UPDATE jobs SET progress = 10")
    change(db, "UPDATE jobs SET status = $1", status)
    assert send(db, "SELECT FROM events WHERE job_id = $1", ended[0])
    assert change(db, "DELETE FROM jobs WHERE id = $1", ended[0]) == 1
    assert [row["id"] for row in send(db, "SELECT id FROM jobs")] == [ended[1]]
    assert not send(db, "SELECT FROM events WHERE job_id = $1", ended[0])
    assert getattr(queue.stats()["x"], status) == 1


def test_deviation_9_a_job_that_is_deleted_fences_the_worker_that_holds_it(db: Db, queue: JobQueue) -> None:
    held = running_under(db, queue, "beats")
    assert change(db, "DELETE FROM jobs WHERE id = $1", held.id) == 1
    with pytest.raises(Exception, match="this claim"):
        queue.complete(held)


def test_a_delete_by_a_trigger_of_the_clients_own_deletes_the_events_too(db: Db, own_schema: str) -> None:
    job_id = running(db)
    change(db, "UPDATE jobs SET status = 'failed', last_error = 'boom' WHERE id = $1", job_id)
    assert send(db, "SELECT FROM events WHERE job_id = $1", job_id)
    schema = sql.Identifier(own_schema)
    db.execute(sql.SQL("CREATE TABLE {}.orders (job_id uuid)").format(schema))
    db.execute(
        sql.SQL(
            "CREATE FUNCTION {}.forget() RETURNS trigger LANGUAGE plpgsql"
            " AS $$ BEGIN DELETE FROM jobs WHERE id = OLD.job_id; RETURN NULL; END $$"
        ).format(schema)
    )
    db.execute(
        sql.SQL("CREATE TRIGGER forget AFTER DELETE ON {}.orders FOR EACH ROW EXECUTE FUNCTION {}.forget()").format(
            schema, schema
        )
    )
    send(db, f"INSERT INTO {own_schema}.orders VALUES ($1)", job_id)
    db.execute(sql.SQL("DELETE FROM {}.orders").format(schema))
    assert not send(db, "SELECT FROM jobs WHERE id = $1", job_id)
    assert not send(db, "SELECT FROM events WHERE job_id = $1", job_id)


NULLABLE = ["progress", "current_stage", "events_count", "worker_id", "claimed_at", "created_at", "started_at",
            "completed_at", "attempts", "max_attempts", "last_error"]  # fmt: skip
FILLED_IN = {"progress": 0, "events_count": 0, "attempts": 0, "max_attempts": 3}


@pytest.mark.parametrize("status", ["pending", "claimed", "running", "completed", "failed", "cancelled"])
def test_deviation_11_null_in_a_column_that_may_be_null_is_taken_by_an_insert(db: Db, status: str) -> None:
    """Where Howdah needs a value, it is the default."""
    names, places = ", ".join(NULLABLE), ", ".join("NULL" for _ in NULLABLE)
    answer = one(db, f"INSERT INTO jobs (job_type, status, {names}) VALUES ('x', $1, {places}) RETURNING *", status)
    assert answer == row_of(db, answer["id"])
    assert answer["created_at"] is not None
    for name in set(NULLABLE) - {"created_at"}:
        assert answer[name] == FILLED_IN.get(name)


@pytest.mark.parametrize("column", NULLABLE)
def test_deviation_11_null_in_a_column_that_may_be_null_is_taken_by_an_update(db: Db, column: str) -> None:
    """Where Howdah needs a value, it is the default, or what it was."""
    (job_id,) = insert(db)
    before = row_of(db, job_id)
    assert change(db, f"UPDATE jobs SET {column} = NULL WHERE id = $1", job_id) == 1
    expected = before["created_at"] if column == "created_at" else FILLED_IN.get(column)
    assert row_of(db, job_id) == {**before, column: expected}


@pytest.mark.parametrize("column", ["id", "priority"])
def test_deviation_11_null_for_a_default_is_taken_by_an_insert(db: Db, column: str) -> None:
    """A plain table refuses NULL where it has NOT NULL, even with a default."""
    answer = one(db, f"INSERT INTO jobs (job_type, {column}) VALUES ('x', NULL) RETURNING *")
    assert answer["id"].version == 7
    assert answer["priority"] == 100


@pytest.mark.parametrize("column", ["status", "data"])
def test_null_in_a_column_that_may_not_be_null_is_refused(db: Db, column: str) -> None:
    (job_id,) = insert(db)
    with pytest.raises(psycopg.errors.NotNullViolation):
        send(db, f"INSERT INTO jobs (job_type, {column}) VALUES ('x', NULL)")
    with pytest.raises(psycopg.errors.NotNullViolation):
        send(db, f"UPDATE jobs SET {column} = NULL WHERE id = $1", job_id)


def test_deviation_11_the_id_that_is_filled_in_is_a_uuid_of_version_7(db: Db) -> None:
    """Ordered by time, while the ids of the seed are random."""
    assert [job_id.version for job_id in insert(db, 3)] == [7] * 3


def test_deviation_11_the_types_own_defaults_come_before_those_of_the_seed(db: Db) -> None:
    db.execute("SELECT declare_type('slow', p_priority => 5, p_max_attempts => 8)")
    answer = one(db, "INSERT INTO jobs (job_type) VALUES ('slow') RETURNING priority, max_attempts")
    assert answer == {"priority": 5, "max_attempts": 8}


@pytest.mark.parametrize("new", ["pending", "running", "completed"])
@pytest.mark.parametrize("there", ["pending", "running", "completed", "failed"])
def test_deviation_12_an_id_that_exists_is_refused_be_it_live_or_archived(db: Db, there: str, new: str) -> None:
    insert_one = "INSERT INTO jobs (id, job_type, status) VALUES ($1, 'x', $2)"
    job_id = uuid.uuid4()
    assert change(db, insert_one, job_id, there) == 1
    with pytest.raises(psycopg.errors.UniqueViolation) as caught:
        send(db, insert_one, job_id, new)
    assert caught.value.diag.sqlstate == "23505"
    assert row_of(db, job_id)["status"] == there


# The deviations from a plain table that are left, beside those above


@pytest.mark.parametrize("case", ["not due", "expired", "paused", "busy", "not the first of its order"])
def test_deviation_2_a_claim_of_a_job_that_cannot_be_claimed_now_is_refused(db: Db, queue: JobQueue, case: str) -> None:
    options: dict[str, Any] = (
        {"delay": 3600} if case == "not due" else {"expires_in": 3600} if case == "expired" else {}
    )
    if case in ("busy", "not the first of its order"):
        db.execute("SELECT declare_type('x', p_ordered => true)")
        queue.enqueue("x", priority=900)
        if case == "busy":
            queue.claim(["x"])
    job = queue.enqueue("x", **options)
    if case == "paused":
        queue.pause("x")
    elif case == "expired":
        send(
            db,
            "UPDATE live SET expires_at = now() - interval '1 minute', own_write = NOT own_write WHERE id = $1",
            job.id,
        )
    before = details_of(db, job.id)
    assert change(db, CLAIM_BY_ID, "w", job.id) == 0
    assert change(db, "UPDATE jobs SET status = 'running' WHERE id = $1", job.id) == 0
    assert details_of(db, job.id) == before


def test_a_refused_claim_does_not_hold_up_an_ordered_type(db: Db, connect: Connect, queue: JobQueue) -> None:
    db.execute("SELECT declare_type('x', p_ordered => true)")
    first, second = queue.enqueue("x"), queue.enqueue("x")
    client = connect()
    with client.transaction():
        assert change(client, CLAIM_BY_ID, "w", second.id) == 0
        assert [job.id for job in queue.claim(["x"])] == [first.id]


@pytest.mark.parametrize("claimed_at", ["NULL", "now()", "now() - interval '1 day'", "'-infinity'"])
def test_a_write_of_claimed_at_takes_no_job_from_a_live_worker(db: Db, queue: JobQueue, claimed_at: str) -> None:
    held = running_under(db, queue, "lives")
    assert change(db, f"UPDATE jobs SET claimed_at = {claimed_at} WHERE id = $1", held.id) == 1
    assert queue.recover() == []
    assert queue.get(held).status == "running"
    queue.complete(held)


def test_deviation_2_a_claim_by_an_unregistered_holder_has_a_lease_of_ten_minutes(
    db: Db, queue: JobQueue, clock: TestClock
) -> None:
    """After that time without a write, the job is recovered."""
    job_id = claimed(db)
    assert queue.get(job_id).token > 0
    clock.advance(599)
    assert queue.recover() == []
    assert change(db, "UPDATE jobs SET progress = 10 WHERE id = $1", job_id) == 1
    clock.advance(599)
    assert queue.recover() == []
    clock.advance(2)
    assert [recovered.id for recovered in queue.recover()] == [job_id]
    assert queue.get(job_id).status == "pending"


@pytest.mark.parametrize(
    "assigned",
    ["worker_id = 'second'", "worker_id = NULL", "attempts = attempts + 1", "attempts = 0", "status = 'claimed'"],
)
def test_deviation_3_another_claim_of_a_job_that_runs_is_refused(db: Db, assigned: str) -> None:
    job_id = running(db)
    before = details_of(db, job_id)
    assert change(db, f"UPDATE jobs SET {assigned}, progress = 50 WHERE id = $1", job_id) == 0
    assert details_of(db, job_id) == before


def test_a_holder_can_be_named_after_the_claim(db: Db) -> None:
    (job_id,) = insert(db)
    assert change(db, "UPDATE jobs SET status = 'claimed' WHERE id = $1", job_id) == 1
    assert change(db, "UPDATE jobs SET worker_id = 'w' WHERE id = $1", job_id) == 1
    assert row_of(db, job_id)["worker_id"] == "w"


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_deviation_4_a_job_that_ends_is_archived_as_it_was_written(db: Db, queue: JobQueue, status: str) -> None:
    job_id = running(db)
    answer = one(
        db, "UPDATE jobs SET status = $1, progress = 77, completed_at = $2, data = '{\"a\": 1}', current_stage = 'end'"
        " WHERE id = $3 RETURNING *", status, LATER, job_id,
    )  # fmt: skip
    assert (answer["status"], answer["progress"], answer["completed_at"]) == (status, 77, LATER)
    assert row_of(db, job_id) == answer
    assert send(db, "SELECT FROM live WHERE id = $1", job_id) == []
    assert queue.get(job_id).status == status
    assert getattr(queue.stats()["x"], status) == 1


def test_deviation_5_cancelling_a_job_that_runs_under_a_live_worker_asks_the_worker(db: Db, queue: JobQueue) -> None:
    """RETURNING shows 'running' until the worker has stopped."""
    held = running_under(db, queue, "beats")
    answer = one(db, "UPDATE jobs SET status = 'cancelled', worker_id = NULL WHERE id = $1 RETURNING *", held.id)
    assert (answer["status"], answer["worker_id"]) == ("running", "beats")
    assert row_of(db, held.id) == answer
    job = queue.get(held)
    assert (job.token, job.cancel_requested_at is not None) == (held.token, True)


def test_deviation_6_a_fail_waits_by_the_retry_policy_of_the_job(db: Db, queue: JobQueue, clock: TestClock) -> None:
    later = one(db, "SELECT id FROM enqueue('x', p_retry_policy => $1)", BACKOFF)["id"]
    (plain,) = insert(db)
    for job_id in (later, plain):
        assert change(db, CLAIM_BY_ID, "w", job_id) == 1
        assert change(db, seed.FAIL, job_id, "boom") == 1
    assert queue.get(later).run_at == clock.now + timedelta(seconds=60)
    assert change(db, CLAIM_BY_ID, "w", later) == 0
    assert change(db, CLAIM_BY_ID, "w", plain) == 1


def test_deviation_6_a_recovery_refunds_what_a_dead_worker_had_only_claimed(
    db: Db, queue: JobQueue, clock: TestClock
) -> None:
    register(db, "dies")
    job = queue.enqueue("x")
    queue.claim(["x"], worker_id="dies")
    clock.advance(16)
    assert change(db, seed.RECOVER_STALE_JOBS, "-1 hour") == 1
    assert (queue.get(job).status, queue.get(job).attempts) == ("pending", 0)


def test_a_claim_that_counted_no_attempt_has_none_to_be_given_back(db: Db, queue: JobQueue, clock: TestClock) -> None:
    register(db, "dies")
    (job_id,) = insert(db)
    change(db, "UPDATE jobs SET status = 'claimed', worker_id = 'dies', claimed_at = NOW() WHERE id = $1", job_id)
    clock.advance(16)
    assert change(db, seed.RECOVER_STALE_JOBS, "-1 hour") == 1
    assert (queue.get(job_id).status, queue.get(job_id).attempts) == ("pending", 0)


def test_deviation_6_a_recovery_counts_the_crash_of_a_dead_worker(db: Db, queue: JobQueue, clock: TestClock) -> None:
    held = running_under(db, queue, "dies")
    clock.advance(16)
    assert change(db, seed.RECOVER_STALE_JOBS, "-1 hour") == 1
    row = details_of(db, held.id)
    assert (row["status"], row["attempts"], row["crashes"]) == ("pending", 1, 1)
    assert "worker dies died" in row["last_error"]


def test_deviation_6_the_third_crash_ends_the_job(db: Db, queue: JobQueue, clock: TestClock) -> None:
    job = queue.enqueue("x", max_attempts=10)
    answers = []
    for _ in range(3):
        register(db, "dies")
        (held,) = queue.claim(["x"], worker_id="dies")
        queue.start(held)
        clock.advance(16)
        answers.append(one(db, f"{seed.RECOVER_STALE_JOBS} RETURNING status", "-1 hour")["status"])
    assert answers == ["pending", "pending", "failed"]
    assert queue.get(job).attempts == 3


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_deviation_8_a_late_complete_or_fail_of_a_pending_job_is_refused(db: Db, status: str) -> None:
    (job_id,) = insert(db)
    before = details_of(db, job_id)
    assert change(db, "UPDATE jobs SET status = $1, last_error = 'late' WHERE id = $2", status, job_id) == 0
    assert change(db, "UPDATE jobs SET status = $1 WHERE id = $2", status, job_id) == 0
    assert change(db, seed.FAIL, job_id, "late") == 0
    assert details_of(db, job_id) == before


def test_deviation_8_a_new_error_of_a_pending_job_is_refused_and_none_clears_it(db: Db) -> None:
    job_id = claimed(db)
    assert change(db, seed.FAIL, job_id, "boom") == 1
    assert change(db, "UPDATE jobs SET last_error = 'another', priority = 7 WHERE id = $1", job_id) == 0
    assert change(db, "UPDATE jobs SET last_error = 'boom', priority = 7 WHERE id = $1", job_id) == 1
    assert change(db, "UPDATE jobs SET last_error = NULL WHERE id = $1", job_id) == 1
    row = row_of(db, job_id)
    assert (row["last_error"], row["priority"]) == (None, 7)


def test_a_pending_job_can_be_cancelled(db: Db, queue: JobQueue) -> None:
    (job_id,) = insert(db)
    answer = one(db, "UPDATE jobs SET status = 'cancelled', last_error = 'no longer' WHERE id = $1 RETURNING *", job_id)
    assert (answer["status"], answer["last_error"]) == ("cancelled", "no longer")
    assert row_of(db, job_id) == answer
    assert queue.stats()["x"].cancelled == 1


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
@pytest.mark.parametrize(
    "assigned",
    ["status = 'pending', attempts = 0", "status = 'completed'", "data = '{}'", "last_error = 'late'", "priority = 1"],
)
def test_deviation_9_an_ended_job_does_not_change(db: Db, status: str, assigned: str) -> None:
    """Retry makes it pending again."""
    job_id = one(db, "INSERT INTO jobs (job_type, status) VALUES ('x', $1) RETURNING id", status)["id"]
    before = details_of(db, job_id)
    assert change(db, f"UPDATE jobs SET {assigned} WHERE id = $1", job_id) == 0
    assert details_of(db, job_id) == before


@pytest.mark.parametrize("by", ["howdah", "a plain client"])
@pytest.mark.parametrize(
    "waiter",
    [
        seed.COMPLETE,
        "UPDATE jobs SET progress = 90 WHERE id = $1",
        "DELETE FROM jobs WHERE id = $1",
        "SELECT FROM jobs WHERE id = $1 FOR UPDATE",
    ],
)
def test_deviation_10_a_statement_that_waited_for_the_end_of_the_job_gets_no_row(
    db: Db, connect: Connect, queue: JobQueue, waiter: str, by: str
) -> None:
    """It looks for the row where it was, and the row has moved."""
    job = queue.enqueue("x")
    (held,) = queue.claim(["x"])
    first, second = connect(), connect()
    with ThreadPoolExecutor(1) as pool:
        with first.transaction():
            if by == "howdah":
                queue.complete(held, conn=first)
            else:
                assert change(first, seed.COMPLETE, job.id) == 1
            waiting = pool.submit(change, second, waiter, job.id)
            until_blocked(db, second)
        assert waiting.result() == 0
    assert row_of(db, job.id)["status"] == "completed"


def test_deviation_11_a_status_of_a_seventh_kind_is_refused_by_a_constraint(db: Db) -> None:
    """No deviation but in the name of the constraint, which is that of the table behind."""
    (job_id,) = insert(db)
    for statement in (
        "INSERT INTO jobs (job_type, status) VALUES ('x', 'waiting')",
        "UPDATE jobs SET status = 'waiting'",
    ):
        with pytest.raises(psycopg.errors.CheckViolation):
            send(db, statement)
    assert row_of(db, job_id)["status"] == "pending"


@pytest.mark.parametrize("job_type", ["", "a\nb", None])
def test_deviation_11_a_type_that_cannot_be_shown_is_refused(db: Db, job_type: str | None) -> None:
    (job_id,) = insert(db)
    with pytest.raises(psycopg.Error) as caught:
        send(db, seed.INSERT, job_type)
    assert caught.value.sqlstate == "JQ002"
    with pytest.raises(psycopg.Error) as caught:
        send(db, "UPDATE jobs SET job_type = $1 WHERE id = $2", job_type, job_id)
    assert caught.value.sqlstate == "JQ002"


def test_deviation_11_the_id_of_a_job_cannot_be_changed(db: Db) -> None:
    (job_id,) = insert(db)
    with pytest.raises(psycopg.Error, match="cannot be changed") as caught:
        send(db, "UPDATE jobs SET id = gen_random_uuid() WHERE id = $1", job_id)
    assert caught.value.sqlstate == "JQ005"
    assert change(db, "UPDATE jobs SET id = id, priority = 7 WHERE id = $1", job_id) == 1


def test_deviation_11_a_job_cannot_change_to_a_type_where_its_key_is_taken(db: Db, queue: JobQueue) -> None:
    queue.enqueue("y", key="k")
    job = queue.enqueue("x", key="k")
    with pytest.raises(psycopg.errors.UniqueViolation):
        send(db, "UPDATE jobs SET job_type = 'y' WHERE id = $1", job.id)
    assert row_of(db, job.id)["job_type"] == "x"


@pytest.mark.parametrize("there", ["pending", "completed"])
@pytest.mark.parametrize("action", ["(id) DO NOTHING", "DO NOTHING", "(id) DO UPDATE SET priority = 7"])
def test_deviation_12_on_conflict_sees_no_conflict_and_an_id_that_exists_is_refused(
    db: Db, there: str, action: str
) -> None:
    """The rows are not in the table that ON CONFLICT looks at."""
    statement = f"INSERT INTO jobs (id, job_type, status) VALUES ($1, 'x', $2) ON CONFLICT {action}"
    job_id = uuid.uuid4()
    assert change(db, statement, job_id, there) == 1
    with pytest.raises(psycopg.errors.UniqueViolation):
        send(db, statement, job_id, there)
    assert row_of(db, job_id)["priority"] == 100


def test_deviation_12_a_foreign_key_to_jobs_is_never_satisfied(db: Db, own_schema: str) -> None:
    (job_id,) = insert(db)
    db.execute(sql.SQL("CREATE TABLE {}.notes (job_id uuid REFERENCES jobs)").format(sql.Identifier(own_schema)))
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        send(db, f"INSERT INTO {own_schema}.notes VALUES ($1)", job_id)
    insert(db)
    assert change(db, "DELETE FROM jobs WHERE id = $1", job_id) == 1


def test_deviation_12_an_orm_that_does_not_send_an_unchanged_error_looks_like_a_recovery(
    dsn: str, db: Db, queue: JobQueue
) -> None:
    """No backoff, and no second entry among the errors. flag_modified sends it."""
    job_id = one(db, "SELECT id FROM enqueue('x', p_retry_policy => $1)", '{"kind": "fixed", "delay": 0}')["id"]
    for _ in range(2):
        assert change(db, CLAIM_BY_ID, "w", job_id) == 1
        with alchemy(dsn) as engine, Session(engine) as session, session.begin():
            job = session.get_one(AlchemyJob, job_id)
            job.status, job.last_error, job.worker_id, job.claimed_at = "pending", "the same", None, None
    assert [error.error for error in queue.get(job_id).errors] == ["the same"]


def test_deviation_12_copy_to_reads_jobs_by_a_query(db: Db) -> None:
    """COPY jobs TO has no rows, because it does not look at the tables behind."""
    insert(db, 3)

    def copied(what: bytes) -> int:
        with db.cursor().copy(b"COPY " + what + b" TO STDOUT") as copy:
            return len(list(copy.rows()))

    assert copied(b"jobs") == 0
    assert copied(b"(SELECT * FROM jobs)") == 3


def test_deviation_12_a_ctid_alone_does_not_identify_a_job(db: Db) -> None:
    """A live job and an ended one can have the same; with tableoid, or by id, there is one."""
    db.execute("TRUNCATE live, archive_open")
    insert(db)
    send(db, "INSERT INTO jobs (job_type, status) VALUES ('x', 'completed')")
    by_ctid = "SELECT count(*) AS jobs FROM jobs WHERE ctid IN (SELECT ctid FROM jobs WHERE status = 'pending')"
    by_both = by_ctid.replace("ctid", "(tableoid, ctid)", 1).replace("SELECT ctid", "SELECT tableoid, ctid")
    assert one(db, by_ctid) == {"jobs": 2}
    assert one(db, by_both) == {"jobs": 1}


def test_only_jobs_has_no_rows(db: Db) -> None:
    insert(db)
    send(db, "INSERT INTO jobs (job_type, status) VALUES ('x', 'completed')")
    assert send(db, "SELECT FROM ONLY jobs") == []
    assert change(db, "UPDATE ONLY jobs SET priority = 1") == 0
    assert change(db, "DELETE FROM ONLY jobs") == 0
    assert len(send(db, "SELECT FROM jobs")) == 2


def test_truncate_empties_jobs_with_their_events_and_counts(db: Db, queue: JobQueue) -> None:
    insert(db)
    change(db, "UPDATE jobs SET status = 'failed', last_error = 'boom' WHERE id = $1", running(db))
    assert queue.stats()["x"].failed == 1
    db.execute("TRUNCATE jobs")
    assert send(db, "SELECT FROM jobs") == send(db, "SELECT FROM events") == []
    assert "x" not in queue.stats()
    insert(db)
    assert len(send(db, seed.CLAIM, "w", ["x"], 10)) == 1


def test_a_row_trigger_on_jobs_sees_what_is_inserted(db: Db, own_schema: str) -> None:
    """And nothing that happens to it later: that is in the tables behind."""
    schema = sql.Identifier(own_schema)
    db.execute(sql.SQL("CREATE TABLE {}.seen (what text, job_id uuid)").format(schema))
    db.execute(
        sql.SQL(
            "CREATE FUNCTION {}.see() RETURNS trigger LANGUAGE plpgsql"
            " AS $$ BEGIN INSERT INTO {}.seen VALUES (TG_OP, NEW.id); RETURN NULL; END $$"
        ).format(schema, schema)
    )
    db.execute(
        sql.SQL("CREATE TRIGGER see AFTER INSERT OR UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION {}.see()").format(
            schema
        )
    )
    job_id = running(db)
    change(db, seed.COMPLETE, job_id)
    assert send(db, f"SELECT * FROM {own_schema}.seen") == [{"what": "INSERT", "job_id": job_id}]
