"""The sweep: jobs of dead workers are recovered, once, and none of live workers."""

from __future__ import annotations

import uuid

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
    assert len(queue.recover()) == 4
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


def test_a_worker_that_lost_some_of_its_jobs_finds_out(
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
    assert (recovered.id, recovered.reason) == (job, "timed out after 00:00:10")
