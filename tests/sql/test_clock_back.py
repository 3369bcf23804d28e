"""The server's clock goes back: no job of a live worker is taken, one of a dead worker is recovered, and due jobs stay due."""

from __future__ import annotations

import uuid

import pytest

from howdah import Fixed, JobQueue
from tests.clock import TestClock
from tests.conftest import Connect, Db

HOUR = 3600
A, B, C = uuid.uuid4(), uuid.uuid4(), uuid.uuid4()


def beat(db: Db, **incarnations: uuid.UUID) -> None:
    for worker, incarnation in incarnations.items():
        assert db.execute("SELECT heartbeat(%s, %s) AS ok", (worker, incarnation)).fetchone() == {"ok": True}


def sweep(db: Db, worker: str) -> list[str]:
    return [row["reason"] for row in db.execute("SELECT reason FROM recover(p_worker_id => %s)", (worker,))]


def steady(db: Db, clock: TestClock, **incarnations: uuid.UUID) -> None:
    """Workers that have been registered for longer than a lease, with a sweep at each heartbeat."""
    for worker, incarnation in incarnations.items():
        db.execute("SELECT register_worker(%s, %s)", (worker, incarnation))
    for _ in range(6):
        clock.advance(3)
        beat(db, **incarnations)
        assert sweep(db, next(iter(incarnations))) == []


def run_one(queue: JobQueue, worker: str) -> uuid.UUID:
    job = queue.enqueue("x")
    (held,) = queue.claim(["x"], worker_id=worker)
    assert held.id == job.id
    queue.start(held)
    return job.id


def test_a_worker_that_joins_takes_no_job_of_live_ones(db: Db, queue: JobQueue, clock: TestClock) -> None:
    steady(db, clock, a=A, b=B)
    before = run_one(queue, "a")
    clock.advance(-HOUR)
    beat(db, a=A, b=B)
    after = run_one(queue, "b")
    db.execute("SELECT register_worker('c', %s)", (C,))
    for _ in range(12):
        clock.advance(3)
        beat(db, a=A, b=B, c=C)
        assert sweep(db, "c") == sweep(db, "a") == []
    assert [queue.get(job).status for job in (before, after)] == ["running", "running"]


def test_a_dead_workers_job_is_back_within_a_lease_and_can_be_claimed(
    db: Db, queue: JobQueue, clock: TestClock
) -> None:
    steady(db, clock, a=A, b=B)
    job = run_one(queue, "b")
    clock.advance(-HOUR)
    found: list[str] = []
    for _ in range(7):
        clock.advance(3)
        beat(db, a=A)
        found += sweep(db, "a")
    assert len(found) == 1
    assert "worker b died" in found[0]
    assert [held.id for held in queue.claim(["x"], worker_id="a")] == [job]


def test_no_worker_is_declared_dead_before_its_lease_has_passed(db: Db, queue: JobQueue, clock: TestClock) -> None:
    """A worker without a heartbeat since the clock went back has been silent for no longer than that."""
    steady(db, clock, a=A, b=B)
    job = run_one(queue, "b")
    clock.advance(-HOUR)
    beat(db, a=A)
    assert sweep(db, "a") == []
    clock.advance(12)
    beat(db, a=A)
    assert sweep(db, "a") == []
    beat(db, b=B)
    assert queue.get(job).status == "running"


def test_what_was_due_is_due(db: Db, queue: JobQueue, clock: TestClock) -> None:
    steady(db, clock, a=A)
    first = queue.enqueue("x").id
    clock.advance(1)
    sweep(db, "a")
    # After the last sweep before the clock goes back.
    clock.advance(2)
    second = queue.enqueue("x").id
    later = queue.enqueue("x", delay=600)
    clock.advance(-HOUR)
    assert queue.claim(["x"], worker_id="a") == []
    sweep(db, "a")
    assert [held.id for held in queue.claim(["x"], worker_id="a")] == [first, second]
    assert queue.get(later.id).run_at == later.run_at


def test_a_wait_for_the_next_attempt_is_no_longer_than_it_would_have_been(
    db: Db, queue: JobQueue, clock: TestClock
) -> None:
    steady(db, clock, a=A)
    queue.enqueue("x", retry_policy=Fixed(30))
    (held,) = queue.claim(["x"], worker_id="a")
    queue.fail(held, "boom")
    sweep(db, "a")
    clock.advance(-HOUR)
    sweep(db, "a")
    assert queue.claim(["x"], worker_id="a") == []
    clock.advance(31)
    assert [again.id for again in queue.claim(["x"], worker_id="a")] == [held.id]


@pytest.mark.parametrize("what", ["lease", "deadline"])
def test_a_lease_and_a_deadline_last_no_longer(db: Db, queue: JobQueue, clock: TestClock, what: str) -> None:
    steady(db, clock, a=A)
    job = queue.enqueue("x", timeout=60 if what == "deadline" else None, max_attempts=1)
    holder = "a" if what == "deadline" else "unregistered"
    (held,) = queue.claim(["x"], worker_id=holder)
    queue.start(held)
    clock.advance(-HOUR)
    sweep(db, "a")
    for _ in range(40 if what == "lease" else 4):
        clock.advance(15.1)
        beat(db, a=A)
        sweep(db, "a")
    assert queue.get(job.id).status == "failed"


def test_a_job_that_was_only_claimed_is_not_marked_as_started_or_cancelled(
    db: Db, queue: JobQueue, clock: TestClock
) -> None:
    steady(db, clock, a=A)
    queue.enqueue("x")
    (held,) = queue.claim(["x"], worker_id="a")
    clock.advance(-HOUR)
    beat(db, a=A)
    sweep(db, "a")
    job = queue.get(held.id)
    assert (job.status, job.started_at, job.cancel_requested_at, job.deadline_at) == ("claimed", None, None, None)
    assert job.claimed_at is not None
    assert job.claimed_at <= clock.now


def test_a_schedule_of_a_span_goes_on(db: Db, queue: JobQueue, clock: TestClock) -> None:
    steady(db, clock, a=A)
    queue.schedules.set("often", "x", every=10)
    db.execute("UPDATE schedules SET next_run_at = clock() + interval '10 seconds', next_run_known = true")
    clock.advance(-HOUR)
    sweep(db, "a")
    assert db.execute("SELECT next_run_at <= clock() + every AS soon FROM schedules").fetchone() == {"soon": True}


def test_two_sweeps_at_once_and_small_steps_move_nothing(
    db: Db, connect: Connect, queue: JobQueue, clock: TestClock
) -> None:
    steady(db, clock, a=A)
    put_off = queue.enqueue("x", delay=0.8).id
    before = queue.get(put_off).run_at
    sweep(db, "a")
    clock.advance(-0.5)
    sweep(db, "a")
    assert queue.get(put_off).run_at == before
    other = connect(autocommit=False)
    other.execute("SELECT recover()")
    clock.advance(-HOUR)
    assert sweep(db, "a") == []
    other.rollback()


def test_a_token_grows_and_is_of_the_time_of_its_claim(db: Db, queue: JobQueue, clock: TestClock) -> None:
    """Two servers that have diverged never assign the same token: each uses its clock."""
    queue.enqueue("x")
    tokens = []
    for step in (0, 5, -HOUR, 1):
        clock.advance(step)
        queue.recover()
        (held,) = queue.claim(["x"], worker_id="w")
        tokens.append(held.token)
        queue.release(held)
    assert tokens == sorted(set(tokens))
    assert tokens[0] == int(clock.now.timestamp() * 1_000_000) + (HOUR - 6) * 1_000_000


def test_a_token_that_is_ahead_of_the_clock_does_not_come_again_on_another_timeline(
    db: Db, queue: JobQueue, clock: TestClock
) -> None:
    queue.enqueue("x")
    clock.advance(HOUR)
    (held,) = queue.claim(["x"])
    queue.release(held)
    clock.advance(-HOUR)
    tokens = set()
    for _ in range(3):
        # A claim that is lost, as by a failover to a standby that had not got it.
        with db.transaction(force_rollback=True):
            tokens.add(db.execute("SELECT token FROM claim('w', ARRAY['x'])").fetchall()[0]["token"])
    assert len(tokens) == 3


def test_a_job_from_before_the_clock_went_ahead_waits_for_its_own_time(
    db: Db, queue: JobQueue, clock: TestClock
) -> None:
    steady(db, clock, a=A)
    job = queue.enqueue("x", delay=20 * HOUR)
    clock.advance(48 * HOUR)
    sweep(db, "a")
    clock.advance(-48 * HOUR)
    sweep(db, "a")
    assert queue.get(job).run_at == job.run_at


def test_claims_from_before_generations_were_recorded_are_those_of_the_worker(
    db: Db, queue: JobQueue, clock: TestClock
) -> None:
    """As an upgrade finds them."""
    steady(db, clock, a=A)
    job = run_one(queue, "a")
    db.execute("UPDATE live SET generation = NULL, own_write = NOT own_write")
    assert sweep(db, "a") == []
    assert queue.get(job).status == "running"
