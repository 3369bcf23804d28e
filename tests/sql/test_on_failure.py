"""on_failure: the job that is added in the transaction in which another one fails for good, whatever makes it fail."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from howdah import JobQueue
from tests.clock import TestClock
from tests.conftest import Connect, Db

Held = dict[str, Any]


@pytest.fixture
def named(db: Db) -> Db:
    db.execute("SELECT declare_type('x', p_on_failure => 'report')")
    return db


def started(db: Db) -> Held:
    """A job of the type, running in its last attempt at the worker w."""
    db.execute("SELECT register_worker('w', %s)", (uuid.uuid4(),))
    db.execute("SELECT enqueue('x', '{\"n\": 1}', p_max_attempts => 1, p_timeout => '10 minutes')")
    (held,) = db.execute("SELECT id, token FROM claim('w', ARRAY['x'], 1, 1)").fetchall()
    db.execute("SELECT start(ARRAY[%(id)s], ARRAY[%(token)s])", held)
    return held


def reports(db: Db) -> list[dict[str, Any]]:
    rows = db.execute("SELECT data, meta, status FROM job_details WHERE job_type = 'report' ORDER BY id").fetchall()
    assert all(row["status"] == "pending" for row in rows)
    assert all(row["meta"] == {"failed_job": row["data"]["failed"]["id"]} for row in rows)
    return [row["data"]["failed"] for row in rows]


def fails(db: Db, held: Held, clock: TestClock) -> None:
    db.execute("SELECT fail(ARRAY[%(id)s], ARRAY[%(token)s], ARRAY['boom'])", held)


def gives_up(db: Db, held: Held, clock: TestClock) -> None:
    db.execute("UPDATE live SET max_attempts = 5, own_write = NOT own_write WHERE id = %(id)s", held)
    db.execute("SELECT fail(ARRAY[%(id)s], ARRAY[%(token)s], ARRAY['boom'], p_give_ups => ARRAY[true])", held)


def crashes(db: Db, held: Held, clock: TestClock) -> None:
    db.execute("SELECT crash(ARRAY[%(id)s], ARRAY[%(token)s], ARRAY['boom'])", held)


def worker_dies(db: Db, held: Held, clock: TestClock) -> None:
    clock.advance(16)
    db.execute("SELECT recover()")


def times_out(db: Db, held: Held, clock: TestClock) -> None:
    clock.advance(601)
    db.execute("UPDATE workers SET heartbeat_at = clock(), fresh_since = NULL")
    db.execute("SELECT recover()")


def lease_passes(db: Db, held: Held, clock: TestClock) -> None:
    db.execute("UPDATE live SET lease_until = lease_clock() - interval '1 s', own_write = NOT own_write")
    db.execute("SELECT recover()")


def plain_update(db: Db, held: Held, clock: TestClock) -> None:
    db.execute("UPDATE jobs SET status = 'failed', last_error = 'boom' WHERE id = %(id)s", held)


def no_attempts_left(db: Db, held: Held, clock: TestClock) -> None:
    db.execute("SELECT release(ARRAY[%(id)s], ARRAY[%(token)s])", held)
    db.execute(
        "UPDATE live SET status = 'pending', attempts = 1, worker_id = NULL, claimed_at = NULL, last_error = 'boom',"
        " own_write = NOT own_write"
    )
    db.execute("SELECT recover()")


@pytest.mark.parametrize(
    "end",
    [fails, gives_up, crashes, worker_dies, times_out, lease_passes, plain_update, no_attempts_left],
    ids=lambda end: end.__name__,
)
def test_whatever_fails_a_job_for_good_adds_the_other_one(
    named: Db, clock: TestClock, end: Callable[[Db, Held, TestClock], None]
) -> None:
    held = started(named)
    end(named, held, clock)
    failed = named.execute("SELECT status, last_error FROM job_details WHERE id = %(id)s", held).fetchone()
    assert failed is not None
    assert failed["status"] == "failed"
    assert reports(named) == [
        {"id": str(held["id"]), "job_type": "x", "error": failed["last_error"], "data": {"n": 1}, "attempts": 1}
    ]


def test_what_does_not_fail_for_good_adds_none(named: Db, clock: TestClock) -> None:
    for _ in range(4):
        named.execute("SELECT enqueue('x', p_max_attempts => 2)")
    named.execute("SELECT register_worker('w', %s)", (uuid.uuid4(),))
    first, second, third, fourth = named.execute("SELECT id, token FROM claim('w', ARRAY['x'], 4, 4)").fetchall()
    named.execute("SELECT start(ARRAY(SELECT id FROM live), ARRAY(SELECT token FROM live))")
    fails(named, first, clock)
    named.execute("SELECT complete(ARRAY[%(id)s], ARRAY[%(token)s])", second)
    named.execute("SELECT cancel(ARRAY[%(id)s])", third)
    named.execute("SELECT cancel_held(ARRAY[%(id)s], ARRAY[%(token)s])", third)
    named.execute("SELECT snooze(ARRAY[%(id)s], ARRAY[%(token)s], ARRAY[clock()])", fourth)
    named.execute("SELECT enqueue('x', p_expires_at => clock() + interval '1 s')")
    clock.advance(2)
    named.execute("SELECT recover()")
    # History that is inserted, not a failure that happens now.
    named.execute("INSERT INTO jobs (id, job_type, status) VALUES (gen_random_uuid(), 'x', 'failed')")
    counts = named.execute(
        "SELECT status, count(*) AS n FROM job_details WHERE job_type = 'x' GROUP BY status ORDER BY status"
    ).fetchall()
    assert {row["status"]: row["n"] for row in counts} == {"cancelled": 2, "completed": 1, "failed": 1, "pending": 2}
    assert reports(named) == []


def test_it_is_part_of_the_transaction(named: Db, connect: Connect, clock: TestClock) -> None:
    held = started(named)
    other = connect(autocommit=False)
    fails(other, held, clock)
    assert len(reports(other)) == 1
    other.rollback()
    assert reports(named) == []
    assert named.execute("SELECT status FROM live").fetchall() == [{"status": "running"}]


def test_jobs_that_it_added_add_no_more_when_they_fail(named: Db, clock: TestClock) -> None:
    named.execute("SELECT declare_type('report', p_on_failure => 'x', p_max_attempts => 1)")
    fails(named, started(named), clock)
    (held,) = named.execute("SELECT id, token FROM claim('w', ARRAY['report'], 1, 1)").fetchall()
    fails(named, held, clock)
    assert named.execute("SELECT count(*) AS n FROM live").fetchone() == {"n": 0}


def test_a_full_type_or_one_that_refuses_the_job_keeps_none_from_failing(
    named: Db, clock: TestClock, queue: JobQueue
) -> None:
    named.execute("SELECT declare_type('report', p_max_pending => 1)")
    named.execute("SELECT enqueue('report', '{\"failed\": {\"id\": null}}', p_meta => '{\"failed_job\": null}')")
    fails(named, started(named), clock)
    assert len(reports(named)) == 2
    named.execute(
        "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'not today'; END$$;"
        " CREATE TRIGGER refuse BEFORE INSERT ON live FOR EACH ROW WHEN (NEW.job_type = 'report') EXECUTE FUNCTION public.refuse()"
    )
    notices: list[str] = []
    named.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
    try:
        held = started(named)
        fails(named, held, clock)
    finally:
        named.execute("DROP TRIGGER refuse ON live; DROP FUNCTION public.refuse()")
    assert queue.get(held["id"]).status == "failed"
    assert notices == [f"job {held['id']} has failed, and no job of type report could be added: not today"]
    assert len(reports(named)) == 2


def test_data_that_is_too_large_to_be_stored_again_is_left_out(named: Db, clock: TestClock) -> None:
    named.execute("UPDATE settings SET max_payload_bytes = 65536")
    try:
        held = started(named)
        large = json.dumps({"text": "".join(str(uuid.uuid4()) for _ in range(1_800))})
        named.execute("UPDATE live SET data = %s, own_write = NOT own_write", (large,))
        fails(named, held, clock)
        (report,) = reports(named)
        assert (report["id"], report["error"], report["data"]) == (str(held["id"]), "boom", None)
    finally:
        named.execute("UPDATE settings SET max_payload_bytes = DEFAULT")


def test_a_name_that_is_no_type_is_refused(db: Db) -> None:
    with pytest.raises(psycopg.Error, match="job_type"):
        db.execute("SELECT declare_type('x', p_on_failure => '')")
