"""Which workers are declared dead, and by which; and how a worker and its jobs are compared."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from howdah import JobQueue
from tests.clock import TestClock
from tests.conftest import Connect, Db

LEASE, BEAT = 15, 3
INCARNATIONS = {"w1": uuid.uuid4(), "w2": uuid.uuid4()}


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def beat(conn: Db, *workers: str) -> None:
    for worker in workers:
        row = conn.execute("SELECT heartbeat(%s, %s) AS alive", (worker, INCARNATIONS[worker])).fetchone()
        assert row == {"alive": True}


def live_on(db: Db, clock: TestClock, *workers: str, seconds: int = LEASE + BEAT) -> None:
    for _ in range(0, seconds, BEAT):
        clock.advance(BEAT)
        beat(db, *workers)


def sweep(conn: Db, worker: str | None = None) -> list[str]:
    return [row["reason"] for row in conn.execute("SELECT reason FROM recover(p_worker_id => %s)", (worker,))]


def hold(db: Db, worker: str, count: int = 1, start: int = 0) -> list[dict[str, Any]]:
    db.execute("SELECT enqueue_many('x', array_fill('{}'::jsonb, ARRAY[%s::int]))", (count,))
    return db.execute("SELECT id, token FROM claim(%s, ARRAY['x'], %s, %s)", (worker, count, start)).fetchall()


def lists(held: list[dict[str, Any]]) -> tuple[list[uuid.UUID], list[int]]:
    return [row["id"] for row in held], [row["token"] for row in held]


@pytest.fixture
def crew(db: Db, clock: TestClock) -> Db:
    """Two workers that have sent heartbeats for a lease, each with a running job."""
    for worker, incarnation in INCARNATIONS.items():
        db.execute("SELECT register_worker(%s, %s, %s)", (worker, incarnation, timedelta(seconds=LEASE)))
        hold(db, worker, start=1)
    live_on(db, clock, *INCARNATIONS)
    return db


def wait_for_lock(db: Db, table: str, waiters: list[Future[Any]]) -> None:
    """Return when all of them wait for the table, or are done."""
    waiting = "SELECT count(*) AS n FROM pg_locks WHERE relation = %s::regclass AND NOT granted"
    while True:
        row = db.execute(waiting, (table,)).fetchone()
        assert row is not None
        if row["n"] == sum(not waiter.done() for waiter in waiters):
            return


def test_jobs_of_a_silent_worker_are_recovered_by_a_live_one(crew: Db, clock: TestClock) -> None:
    live_on(crew, clock, "w1", seconds=LEASE - BEAT)
    assert sweep(crew, "w1") == []
    live_on(crew, clock, "w1", seconds=2 * BEAT)
    (reason,) = sweep(crew, "w1")
    assert "worker w2 died" in reason


def test_a_stall_that_stops_all_heartbeats_declares_no_worker_dead(
    crew: Db, connect: Connect, clock: TestClock, pool: ThreadPoolExecutor
) -> None:
    stall, swept = connect(autocommit=False), [connect(), connect()]
    stall.execute("LOCK TABLE workers")
    sweeps = [pool.submit(sweep, conn, worker) for conn, worker in zip(swept, INCARNATIONS, strict=True)]
    beats = [pool.submit(beat, connect(), worker) for worker in INCARNATIONS]
    wait_for_lock(crew, "workers", [*sweeps, *beats])
    clock.advance(3 * LEASE)
    stall.rollback()
    assert [one.result() for one in sweeps] == [[], []]
    for one in beats:
        one.result()
    assert [sweep(crew, worker) for worker in INCARNATIONS] == [[], []]
    assert crew.execute("SELECT status FROM live").fetchall() == [{"status": "running"}] * 2


def test_a_stall_of_the_jobs_declares_no_worker_dead(
    crew: Db, connect: Connect, clock: TestClock, pool: ThreadPoolExecutor
) -> None:
    stall = connect(autocommit=False)
    stall.execute("LOCK TABLE live")
    sweeps = [pool.submit(sweep, connect(), worker) for worker in INCARNATIONS]
    wait_for_lock(crew, "live", [*sweeps])
    live_on(crew, clock, *INCARNATIONS, seconds=3 * LEASE)
    stall.rollback()
    assert [one.result() for one in sweeps] == [[], []]
    assert crew.execute("SELECT status FROM live").fetchall() == [{"status": "running"}] * 2


def test_the_first_to_beat_after_a_stall_gives_the_others_a_lease(crew: Db, clock: TestClock) -> None:
    clock.advance(3 * LEASE)
    assert sweep(crew, "w1") == []
    beat(crew, "w1")
    assert sweep(crew, "w1") == []
    live_on(crew, clock, "w1", seconds=LEASE - BEAT)
    assert sweep(crew, "w1") == []
    live_on(crew, clock, "w1", seconds=2 * BEAT)
    (reason,) = sweep(crew, "w1")
    assert "worker w2 died" in reason


def test_a_worker_without_heartbeats_declares_no_other_dead(crew: Db, clock: TestClock) -> None:
    live_on(crew, clock, "w1")
    clock.advance(LEASE / 2 + 1)
    assert sweep(crew, "w1") == []
    assert sweep(crew, "unregistered") == []
    assert len(sweep(crew)) == 1


def test_a_worker_that_has_just_started_waits_a_lease_before_it_judges(crew: Db, clock: TestClock) -> None:
    clock.advance(LEASE + 1)
    crew.execute("SELECT register_worker('new', %s)", (uuid.uuid4(),))
    assert sweep(crew, "new") == []


def test_registering_again_recovers_the_earlier_life_at_once_and_no_other_worker(crew: Db, clock: TestClock) -> None:
    live_on(crew, clock, "w1")
    crew.execute("SELECT register_worker('w1', %s)", (uuid.uuid4(),))
    assert crew.execute("SELECT status, crashes FROM live ORDER BY id").fetchall() == [
        {"status": "pending", "crashes": 1},
        {"status": "running", "crashes": 0},
    ]
    assert sweep(crew, "w1") == []


def test_registering_again_in_the_same_life_keeps_the_right_to_judge(crew: Db, clock: TestClock) -> None:
    live_on(crew, clock, "w1")
    crew.execute("SELECT register_worker('w1', %s, %s)", (INCARNATIONS["w1"], timedelta(seconds=LEASE)))
    assert len(sweep(crew, "w1")) == 1


def test_what_is_overdue_for_another_reason_needs_no_judge(crew: Db, queue: JobQueue, clock: TestClock) -> None:
    job = queue.enqueue("y", timeout=10, max_attempts=1)
    queue.claim(["y"], worker_id="w2", batch_size=1)
    crew.execute("SELECT start(ARRAY[id], ARRAY[token]) FROM live WHERE job_type = 'y'")
    clock.advance(3 * LEASE)
    (reason,) = sweep(crew, "w1")
    assert "timed out" in reason
    assert queue.get(job).status == "failed"


def test_a_sweep_waits_where_a_heartbeat_would_have_to_wait(
    crew: Db, connect: Connect, pool: ThreadPoolExecutor
) -> None:
    building_an_index = connect(autocommit=False)
    building_an_index.execute("LOCK TABLE workers IN SHARE MODE")
    waiting = pool.submit(sweep, connect())
    wait_for_lock(crew, "workers", [waiting])
    assert not waiting.done()
    building_an_index.rollback()
    assert waiting.result() == []


def test_a_heartbeat_records_the_state_of_the_worker_and_keeps_what_it_leaves_out(crew: Db, clock: TestClock) -> None:
    crew.execute(
        "SELECT heartbeat('w1', %s, p_running => 7, p_since_claim => '2 s', p_loop_lag => '30 ms', p_leaked => 1)",
        (INCARNATIONS["w1"],),
    )
    beat(crew, "w1")
    row = crew.execute("SELECT running, last_claim_at, loop_lag, leaked FROM workers WHERE worker_id = 'w1'").fetchone()
    assert row is not None
    claimed_before = clock.now - row.pop("last_claim_at")
    assert timedelta(seconds=1) < claimed_before <= timedelta(seconds=2)
    assert row == {"running": 7, "loop_lag": timedelta(milliseconds=30), "leaked": 1}


def words(db: Db, worker: str, held: list[dict[str, Any]]) -> dict[tuple[uuid.UUID, int], str]:
    rows = db.execute("SELECT * FROM check_held(%s, %s, %s)", (worker, *lists(held))).fetchall()
    return {(row["id"], row["token"]): row["state"] for row in rows}


def test_a_worker_finds_out_what_to_stop_what_it_has_lost_and_what_it_does_not_list(db: Db) -> None:
    asked, released, ended, forgotten, *fine = hold(db, "w", 8, start=5)
    others = hold(db, "other", 1)
    db.execute("SELECT cancel(ARRAY[%s])", (asked["id"],))
    db.execute("SELECT release(ARRAY[%s], ARRAY[%s], true)", (released["id"], released["token"]))
    db.execute("SELECT complete(ARRAY[%s], ARRAY[%s])", (ended["id"], ended["token"]))
    said = words(db, "w", [asked, released, ended, *others, *fine])
    expected = [(asked, "cancel"), (released, "lost"), (ended, "lost"), (others[0], "lost"), (forgotten, "unknown")]
    assert said == {(row["id"], row["token"]): word for row, word in expected}


def test_a_job_claimed_again_is_lost_under_its_old_token_and_unknown_under_the_new(db: Db) -> None:
    (old,) = hold(db, "w")
    db.execute("SELECT release(ARRAY[%s], ARRAY[%s])", (old["id"], old["token"]))
    (new,) = db.execute("SELECT id, token FROM claim('w', ARRAY['x'])").fetchall()
    assert words(db, "w", [old]) == {(old["id"], old["token"]): "lost", (new["id"], new["token"]): "unknown"}
    assert words(db, "w", [new]) == {}
    assert words(db, "w", []) == {(new["id"], new["token"]): "unknown"}


def test_a_job_whose_process_dies_every_time_ends_as_failed_within_its_budget(db: Db, queue: JobQueue) -> None:
    job = queue.enqueue("x", max_attempts=100)
    for crash in (1, 2, 3):
        (held,) = db.execute("SELECT id, token FROM claim('w', ARRAY['x'])").fetchall()
        db.execute("SELECT start(%s, %s)", lists([held]))
        rows = db.execute("SELECT * FROM crash(%s, %s, ARRAY['killed by signal 9'])", lists([held])).fetchall()
        assert rows == [{"id": job.id, "status": "failed" if crash == 3 else "pending"}]
        assert (queue.get(job).last_error or "").endswith(f"(worker died {'once' if crash == 1 else f'{crash} times'})")
    ended = queue.get(job)
    assert (ended.attempts, ended.crashes) == (3, 3)
    assert ended.last_error == "killed by signal 9 (worker died 3 times)"


def test_a_crash_is_only_of_what_runs(db: Db) -> None:
    held = hold(db, "w")
    assert db.execute("SELECT * FROM crash(%s, %s)", lists(held)).fetchall() == []
    assert db.execute("SELECT status, attempts FROM live").fetchall() == [{"status": "claimed", "attempts": 1}]


def test_a_worker_may_end_its_jobs_as_cancelled_with_a_reason(db: Db, queue: JobQueue) -> None:
    held = hold(db, "w", 2, start=1)
    rows = db.execute("SELECT status FROM cancel_held(%s, %s, ARRAY['no longer wanted', NULL])", lists(held)).fetchall()
    assert rows == [{"status": "cancelled"}] * 2
    jobs = [queue.get(row["id"]) for row in held]
    assert [(job.status, job.attempts, job.last_error) for job in jobs] == [
        ("cancelled", 1, "no longer wanted"),
        ("cancelled", 1, None),
    ]


def test_only_the_holder_may_abandon_a_job(db: Db, connect: Connect) -> None:
    (stale,) = hold(db, "w", start=1)
    db.execute("SELECT release(ARRAY[%s], ARRAY[%s], true)", (stale["id"], stale["token"]))
    assert db.execute("SELECT * FROM cancel_held(%s, %s)", lists([stale])).fetchall() == []
    db.execute("SELECT claim('w', ARRAY['x'], 1, 1)")
    assert db.execute("SELECT * FROM cancel_held(%s, %s)", lists([stale])).fetchall() == []
    assert db.execute("SELECT status FROM jobs").fetchall() == [{"status": "running"}]


def test_a_worker_that_stops_releases_running_and_waiting_jobs_in_one_call(db: Db) -> None:
    held = hold(db, "w", 4, start=2)
    rows = db.execute("SELECT status FROM release(%s, %s, p_interrupted => true)", lists(held)).fetchall()
    assert rows == [{"status": "pending"}] * 4
    found = db.execute("SELECT attempts, interruptions FROM live ORDER BY id").fetchall()
    assert found == [{"attempts": 0, "interruptions": 1}] * 2 + [{"attempts": 0, "interruptions": 0}] * 2


def test_what_only_waited_is_never_interrupted_too_often(db: Db) -> None:
    db.execute("UPDATE settings SET max_interruptions = 0")
    held = hold(db, "w")
    rows = db.execute("SELECT status FROM release(%s, %s, p_interrupted => true)", lists(held)).fetchall()
    assert rows == [{"status": "pending"}]
    assert db.execute("SELECT attempts, last_error FROM live").fetchall() == [{"attempts": 0, "last_error": None}]
