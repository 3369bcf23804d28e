"""The sweep: jobs of dead workers are recovered, once, and none of live workers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import psycopg
import pytest

from howdah import JobQueue
from tests.clock import TestClock
from tests.conftest import Connect, Db

OLD, NEW = uuid.uuid4(), uuid.uuid4()


def run_jobs(db: Db, worker: str, count: int, start: int | None = None) -> list[tuple[uuid.UUID, int]]:
    db.execute("SELECT enqueue_many('x', array_fill('{}'::jsonb, ARRAY[%s::int]))", (count,))
    started = count if start is None else start
    rows = db.execute("SELECT id, token FROM claim(%s, ARRAY['x'], %s, %s)", (worker, count, started))
    return [(row["id"], row["token"]) for row in rows]


def test_what_never_started_loses_no_attempt_and_what_ran_loses_one(db: Db, queue: JobQueue, clock: TestClock) -> None:
    db.execute("SELECT register_worker('w', %s)", (OLD,))
    held = run_jobs(db, "w", 4, start=2)
    clock.advance(16)
    recovered = queue.recover()
    assert len(recovered) == 4
    assert all(each.reason for each in recovered)
    jobs = [queue.get(job_id) for job_id, _ in held]
    assert [(job.status, job.attempts, job.crashes) for job in jobs] == [("pending", 1, 1)] * 2 + [
        ("pending", 0, 0)
    ] * 2
    assert "worker w died" in (jobs[0].last_error or "")
    assert db.execute("SELECT * FROM workers").fetchall() == []


def test_a_job_that_kills_its_worker_every_time_ends_as_failed_with_the_reason(
    db: Db, queue: JobQueue, clock: TestClock
) -> None:
    db.execute("SELECT enqueue('x', p_max_attempts => 100)")
    for crash in range(3):
        db.execute("SELECT register_worker('w', %s)", (uuid.uuid4(),))
        (held,) = db.execute("SELECT id, token FROM claim('w', ARRAY['x'])").fetchall()
        db.execute("SELECT start(ARRAY[%s], ARRAY[%s])", (held["id"], held["token"]))
        clock.advance(16)
        (recovered,) = queue.recover()
        assert recovered.status == ("failed" if crash == 2 else "pending")
    assert "worker died 3 times" in (queue.get(held["id"]).last_error or "")


def test_a_worker_that_comes_back_under_its_name_gets_nothing_of_its_earlier_life(
    db: Db, connect: Connect, queue: JobQueue, clock: TestClock
) -> None:
    """Not even jobs that were locked or being claimed at that moment: they would never be recovered, as the name sends heartbeats again."""
    db.execute("SELECT register_worker('w', %s)", (OLD,))
    ((locked, token),) = run_jobs(db, "w", 1)
    db.execute("SELECT enqueue('x')")
    writing, claiming = connect(autocommit=False), connect(autocommit=False)
    writing.execute("SELECT progress(ARRAY[%s], ARRAY[%s], ARRAY[5])", (locked, token))
    claiming.execute("SELECT * FROM claim('w', ARRAY['x'], 1, 1)")
    clock.advance(1)
    db.execute("SELECT register_worker('w', %s)", (NEW,))
    writing.rollback()
    claiming.commit()
    (mine,) = run_jobs(db, "w", 1)
    assert db.execute("SELECT heartbeat('w', %s) AS alive", (NEW,)).fetchone() == {"alive": True}
    assert len(queue.recover()) == 2
    assert queue.get(mine[0]).status == "running"
    assert queue.recover() == []


def test_the_heartbeat_of_a_worker_that_lost_some_of_its_jobs_is_refused(
    db: Db, connect: Connect, queue: JobQueue, clock: TestClock
) -> None:
    db.execute("SELECT register_worker('w', %s)", (OLD,))
    (first, token), _ = run_jobs(db, "w", 2)
    writing = connect(autocommit=False)
    writing.execute("SELECT progress(ARRAY[%s], ARRAY[%s], ARRAY[5])", (first, token))
    clock.advance(16)
    assert len(queue.recover()) == 1
    writing.rollback()
    assert db.execute("SELECT heartbeat('w', %s) AS alive", (OLD,)).fetchone() == {"alive": False}
    assert [recovered.id for recovered in queue.recover()] == [first]


def test_a_passed_deadline_is_a_failure_even_if_the_worker_is_alive(db: Db, queue: JobQueue, clock: TestClock) -> None:
    db.execute("SELECT register_worker('w', %s)", (OLD,))
    job = queue.enqueue("x", timeout=10, max_attempts=1)
    (held,) = queue.claim(["x"], worker_id="w")
    queue.start(held)
    clock.advance(11)
    db.execute("SELECT heartbeat('w', %s)", (OLD,))
    assert [recovered.status for recovered in queue.recover()] == ["failed"]
    assert "timed out" in (queue.get(job).last_error or "")


@pytest.mark.parametrize("lease", ["0", "-1 s", "10000 years"])
def test_a_lease_that_would_break_the_sweep_is_refused(db: Db, lease: str) -> None:
    with pytest.raises(Exception, match="lease is"):
        db.execute("SELECT register_worker('w', %s, %s::interval)", (OLD, lease))
    with pytest.raises(Exception, match="lease is"):
        db.execute("SELECT claim('w', ARRAY['x'], p_lease => %s::interval)", (lease,))


def test_a_job_that_was_added_before_its_type_had_a_timeout_is_stopped_by_it(
    db: Db, queue: JobQueue, clock: TestClock
) -> None:
    """Usually its worker stops it: but the handler may block the worker, whose heartbeats continue."""
    db.execute("SELECT register_worker('w', %s)", (OLD,))
    ((job, _),) = run_jobs(db, "w", 1)
    db.execute("SELECT declare_type('x', p_timeout => '10 seconds')")
    clock.advance(9)
    db.execute("SELECT heartbeat('w', %s)", (OLD,))
    assert queue.recover() == []
    clock.advance(2)
    (recovered,) = queue.recover()
    assert (recovered.id, recovered.reason) == (job, "timed out after 10 s")


TINY = ["1e-323", "1e-400", "1e-9000", "0.0000001"]


@pytest.mark.parametrize("kind", ["fixed", "linear", "exponential"])
@pytest.mark.parametrize("number", TINY)
@pytest.mark.parametrize("name", ["delay", "jitter", "max"])
def test_a_policy_with_a_tiny_number_is_always_accepted_and_has_a_delay(
    db: Db, kind: str, number: str, name: str
) -> None:
    """A float8 cannot hold it, or only just: a product with it is an error, half of the time."""
    numbers = ", ".join(f'"{key}": {number if key == name else 1}' for key in ("delay", "jitter", "max"))
    policy = f'{{"kind": "{kind}", {numbers}}}'
    db.execute("SELECT enqueue('x', p_retry_policy => %s)", (policy,))
    row = db.execute(
        "SELECT min(d) >= '0' AND max(d) <= '1 second' AS ok"
        " FROM generate_series(1, 50) AS n, LATERAL retry_delay(%s, n) AS d",
        (policy,),
    ).fetchone()
    assert row == {"ok": True}


@pytest.mark.parametrize("attempts", [-2147483648, 0, 2147483647])
@pytest.mark.parametrize("kind", ["fixed", "linear", "exponential", "delays"])
def test_the_delay_of_any_number_of_attempts_is_in_range(db: Db, kind: str, attempts: int) -> None:
    policy = f'{{"kind": "{kind}", "delay": 1e9, "max": 1e9, "factor": 1000, "delays": [1e9, 0]}}'
    row = db.execute(
        "SELECT retry_delay(%s, %s) BETWEEN '0' AND '1000000000 seconds' AS ok", (policy, attempts)
    ).fetchone()
    assert row == {"ok": True}


def test_a_list_of_delays_has_one_for_each_attempt_and_one_that_is_none_has_no_delay(db: Db) -> None:
    row = db.execute(
        "SELECT array_agg(extract(epoch FROM retry_delay(%s, n))::float8 ORDER BY n) AS delays FROM generate_series(1, 4) AS n",
        ('{"kind": "delays", "delays": [1, 10.5, 7200]}',),
    ).fetchone()
    assert row == {"delays": [1, 10.5, 7200, 7200]}
    for delays in ('"x"', "5", "[]", "[null]", '["1"]', "[[1]]", "[-1]", "[1e10]", "[true]", "{}", "null"):
        policy = f'{{"kind": "delays", "delays": {delays}}}'
        assert db.execute("SELECT retry_delay(%s, 1) AS delay", (policy,)).fetchone() == {"delay": None}
        with pytest.raises(psycopg.errors.DatabaseError, match="not a retry policy"):
            db.execute("SELECT enqueue('x', p_retry_policy => %s)", (policy,))


@pytest.mark.parametrize(
    "started_at", ["294276-12-31 23:59:59+00", "infinity", "-infinity", "4714-11-24 00:00:00+00 BC", "2000-01-01"]
)
def test_no_start_that_a_plain_client_writes_stops_the_sweep(db: Db, clock: TestClock, started_at: str) -> None:
    db.execute(
        "INSERT INTO jobs (job_type, status, worker_id, claimed_at, started_at)"
        " VALUES ('odd', 'running', 'plain', clock(), %s)",
        (started_at,),
    )
    db.execute("SELECT declare_type('odd', p_timeout => '1 hour')")
    db.execute("SELECT enqueue('x')")
    (other,) = db.execute("SELECT id FROM claim('loop', ARRAY['x'], 1, p_lease => '1 second')").fetchall()
    clock.advance(2)
    recovered = {row["id"]: row["reason"] for row in db.execute("SELECT * FROM recover()")}
    assert recovered.pop(other["id"]) == "the lease of worker loop expired"
    assert len(recovered) == (0 if started_at in ("infinity", "294276-12-31 23:59:59+00") else 1)
    # The clock goes back, beyond the claim.
    clock.advance(-3600)
    db.execute("SELECT * FROM recover()")


@pytest.mark.parametrize(
    "end",
    [
        "SELECT complete(ARRAY[id], ARRAY[token]) FROM live",
        "UPDATE jobs SET status = 'completed'",
        "UPDATE jobs SET status = 'failed'",
        "UPDATE live SET attempts = 3, lease_until = lease_clock() - interval '1 h', own_write = NOT own_write; SELECT recover()",
    ],
    ids=["complete", "completed", "failed", "recover"],
)
def test_times_that_are_too_far_apart_to_be_subtracted_keep_no_job_from_ending(db: Db, end: str) -> None:
    db.execute("INSERT INTO jobs (job_type, created_at) VALUES ('odd', '4713-02-01 BC')")
    db.execute(
        "UPDATE jobs SET status = 'running', worker_id = 'plain', claimed_at = now(), started_at = '294276-12-30',"
        " attempts = attempts + 1"
    )
    db.execute(end.encode())
    assert db.execute("SELECT FROM live").rowcount == 0
    assert db.execute("SELECT sum(completed + failed) AS n FROM minutes WHERE job_type = 'odd'").fetchone() == {"n": 1}


@pytest.fixture
def broken(db: Db) -> Iterator[uuid.UUID]:
    """The id of a job that no statement can change or end: a trigger raises an error."""
    id = uuid.uuid4()
    db.execute(
        "CREATE FUNCTION pg_temp.refuse() RETURNS trigger LANGUAGE plpgsql"
        " AS $$ BEGIN RAISE EXCEPTION 'not this job' USING ERRCODE = '22003'; END $$"
    )
    db.execute(
        "CREATE TRIGGER refuse BEFORE UPDATE OR DELETE ON live FOR EACH ROW"
        f" WHEN (OLD.id = '{id}' AND current_setting('test.broken', true) = 'yes')"
        " EXECUTE FUNCTION pg_temp.refuse()".encode()
    )
    yield id
    db.execute("DROP TRIGGER refuse ON live")
    db.execute("DROP FUNCTION pg_temp.refuse()")


def hold(db: Db, cause: str, id: uuid.UUID) -> None:
    """Jobs that the next sweep must end for this cause, one of them with this id."""
    for each in (uuid.uuid4(), id, uuid.uuid4()):
        db.execute("INSERT INTO jobs (id, job_type, max_attempts) VALUES (%s, 'x', 9)", (each,))
    match cause:
        case "expired":
            db.execute("UPDATE live SET expires_at = clock()")
        case "no attempts left":
            db.execute("UPDATE live SET attempts = 9")
        case "lease passed":
            db.execute("SELECT id FROM claim('loop', ARRAY['x'], 3, p_lease => '1 second')")
        case "timed out":
            db.execute("UPDATE live SET timeout = '1 second'")
            db.execute("SELECT id FROM claim('loop', ARRAY['x'], 3, 3)")
        case "dead worker" | "same name":
            db.execute("SELECT register_worker('w', %s)", (OLD,))
            db.execute("SELECT id FROM claim('w', ARRAY['x'], 3, 3)")
            db.execute("SELECT start(array_agg(id), array_agg(token)) FROM live")
        case "worker died":
            db.execute("SELECT register_worker('w', %s)", (OLD,))
            db.execute("SELECT id FROM claim('w', ARRAY['x'], 3, 3)")
            db.execute("DELETE FROM workers")


@pytest.mark.parametrize(
    "cause",
    ["expired", "no attempts left", "lease passed", "timed out", "dead worker", "same name", "worker died"],
)
def test_a_job_that_cannot_be_recovered_does_not_keep_the_others_from_it(
    db: Db, clock: TestClock, broken: uuid.UUID, cause: str
) -> None:
    hold(db, cause, broken)
    db.execute("SELECT enqueue('other', p_expires_in => '1 second')")
    clock.advance(20)
    warnings: list[str] = []
    db.add_notice_handler(lambda notice: warnings.append(notice.message_primary or ""))
    db.execute("SET test.broken = 'yes'")
    try:
        if cause == "same name":
            db.execute("SELECT register_worker('w', %s)", (NEW,))
        recovered = [row["id"] for row in db.execute("SELECT * FROM recover()")]
    finally:
        db.execute("RESET test.broken")
    assert broken not in recovered
    assert len(recovered) == (1 if cause == "same name" else 3)
    assert len(warnings) == 1 or cause in ("same name", "dead worker")
    assert all(str(broken) in warning and "not this job" in warning for warning in warnings)
    # Nothing is left of it but the job itself, which the next sweep recovers when the reason is gone.
    assert [row["id"] for row in db.execute("SELECT * FROM recover()")] == [broken]


def test_an_error_of_the_server_ends_the_sweep(db: Db, clock: TestClock, broken: uuid.UUID) -> None:
    db.execute(
        "CREATE OR REPLACE FUNCTION pg_temp.refuse() RETURNS trigger LANGUAGE plpgsql"
        " AS $$ BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = 'disk_full'; END $$"
    )
    hold(db, "expired", broken)
    clock.advance(20)
    db.execute("SET test.broken = 'yes'")
    with pytest.raises(psycopg.errors.DiskFull):
        db.execute("SELECT * FROM recover()")
    db.execute("RESET test.broken")
