"""The contract of the seed: its table, its statements and its function, for a client unaware of Howdah."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import RawCursor
from psycopg.rows import dict_row

from howdah import JobQueue
from tests.clock import TestClock
from tests.conftest import Connect, Db
from tests.sql import seed

Send = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def send(connect: Connect) -> Send:
    """Send a statement as a Go or JavaScript client would: with $1, $2 in it."""
    conn = connect(cursor_factory=RawCursor)

    def send(statement: str, *arguments: Any) -> list[dict[str, Any]]:
        cursor = conn.cursor(row_factory=dict_row)
        cursor.execute(statement.encode(), arguments)
        return cursor.fetchall() if cursor.description else [{}] * cursor.rowcount

    return send


def test_jobs_has_exactly_the_columns_of_the_seed_in_its_order(db: Db) -> None:
    rows = db.execute(
        "SELECT attname, format_type(atttypid, atttypmod) AS type FROM pg_attribute"
        " WHERE attrelid = 'jobs'::regclass AND attnum > 0 ORDER BY attnum"
    )
    assert tuple((row["attname"], row["type"]) for row in rows) == seed.COLUMNS


def test_an_insert_with_only_a_job_type_gets_the_defaults_of_the_seed(send: Send) -> None:
    send(seed.INSERT, "resize")
    (job,) = send("SELECT * FROM jobs")
    assert job.pop("id").version == 7
    assert job.pop("created_at") is not None
    assert job == {
        "job_type": "resize", "priority": 100, "status": "pending", "data": {}, "progress": 0, "current_stage": None,
        "events_count": 0, "worker_id": None, "claimed_at": None, "started_at": None, "completed_at": None,
        "attempts": 0, "max_attempts": 3, "last_error": None,
    }  # fmt: skip


@pytest.mark.parametrize("status", ["pending", "claimed", "running", "completed", "failed", "cancelled"])
def test_a_job_can_be_inserted_in_each_of_the_six_statuses(send: Send, queue: JobQueue, status: str) -> None:
    (row,) = send("INSERT INTO jobs (job_type, status) VALUES ('import', $1) RETURNING *", status)
    assert queue.get(row["id"]).status == status


def test_a_seventh_status_is_refused(send: Send) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        send("INSERT INTO jobs (job_type, status) VALUES ('x', 'waiting')")
    send(seed.INSERT, "x")
    with pytest.raises(psycopg.errors.CheckViolation):
        send("UPDATE jobs SET status = 'waiting'")


def test_an_id_that_an_ended_job_has_is_refused(send: Send) -> None:
    (row,) = send("INSERT INTO jobs (job_type, status) VALUES ('x', 'completed') RETURNING id")
    with pytest.raises(psycopg.errors.UniqueViolation):
        send("INSERT INTO jobs (id, job_type) VALUES ($1, 'x')", row["id"])
    (live,) = send("INSERT INTO jobs (job_type) VALUES ('x') RETURNING id")
    with pytest.raises(psycopg.errors.UniqueViolation):
        send("INSERT INTO jobs (id, job_type, status) VALUES ($1, 'x', 'completed')", live["id"])
    assert len(send("SELECT id FROM jobs")) == 2


def test_claim_complete(send: Send) -> None:
    send(seed.INSERT, "resize")
    (claimed,) = send(seed.CLAIM, "worker-1", ["resize"], 10)
    assert tuple(claimed) == tuple(name for name, _ in seed.COLUMNS)
    assert (claimed["status"], claimed["worker_id"], claimed["attempts"]) == ("claimed", "worker-1", 1)
    assert len(send(seed.COMPLETE, claimed["id"])) == 1
    (done,) = send("SELECT * FROM jobs")
    assert (done["status"], done["progress"], done["worker_id"]) == ("completed", 100, "worker-1")
    assert done["completed_at"] is not None


def test_claim_job_batch_takes_ten_by_default_in_the_order_of_priority_and_creation(send: Send, db: Db) -> None:
    for n, priority in enumerate([30, 100, 150] * 5):
        send(
            "INSERT INTO jobs (job_type, priority, data) VALUES ('a', $1, jsonb_build_object('n', $2::int))",
            priority,
            n,
        )
    rows = send("SELECT * FROM claim_job_batch($1, $2)", "w", ["a"])
    assert [(row["priority"], row["data"]["n"]) for row in rows] == [
        *((150, n) for n in (2, 5, 8, 11, 14)), *((100, n) for n in (1, 4, 7, 10, 13))
    ]  # fmt: skip


def test_a_failed_job_is_tried_again_at_once_until_its_attempts_are_used_up(send: Send, queue: JobQueue) -> None:
    send(seed.INSERT, "flaky")
    for attempt in (1, 2, 3):
        (claimed,) = send(seed.CLAIM, "w", ["flaky"], 1)
        assert claimed["attempts"] == attempt
        assert len(send(seed.FAIL, claimed["id"], f"error {attempt}")) == 1
    (job,) = send("SELECT * FROM jobs")
    assert (job["status"], job["last_error"], job["worker_id"], job["claimed_at"]) == ("failed", "error 3", None, None)
    assert job["completed_at"] is None
    assert [error.error for error in queue.get(job["id"]).errors] == ["error 1", "error 2", "error 3"]


def test_recover_stale_jobs_gives_back_what_was_claimed_too_long_ago(send: Send) -> None:
    send(seed.INSERT, "long")
    send(seed.CLAIM, "w", ["long"], 1)
    assert send(seed.RECOVER_STALE_JOBS, "1 hour") == []
    assert len(send(seed.RECOVER_STALE_JOBS, "-1 second")) == 1
    (job,) = send("SELECT * FROM jobs")
    assert (job["status"], job["worker_id"], job["claimed_at"], job["attempts"]) == ("pending", None, None, 1)


def test_the_seed_leaves_a_last_attempt_claimed_for_ever_and_the_sweep_does_not(
    send: Send, queue: JobQueue, clock: TestClock
) -> None:
    send("INSERT INTO jobs (job_type, max_attempts) VALUES ('last', 1)")
    (claimed,) = send(seed.CLAIM, "w", ["last"], 1)
    assert send(seed.RECOVER_STALE_JOBS, "-10 years") == []
    clock.advance(601)
    (recovered,) = queue.recover()
    assert (recovered.id, recovered.status) == (claimed["id"], "failed")
    assert "lease of worker w expired" in (queue.get(claimed["id"]).last_error or "")


def test_recover_stale_jobs_never_takes_the_job_of_a_live_worker(send: Send, db: Db, clock: TestClock) -> None:
    boot = uuid.uuid4()
    db.execute("SELECT register_worker('beats', %s)", (boot,))
    send(seed.INSERT, "long")
    send(seed.CLAIM, "beats", ["long"], 1)
    assert send(seed.RECOVER_STALE_JOBS, "-10 years") == []
    clock.advance(16)
    assert len(send(seed.RECOVER_STALE_JOBS, "-10 years")) == 1


def test_complete_and_fail_of_an_ended_job_change_nothing(send: Send, queue: JobQueue) -> None:
    send(seed.INSERT, "x")
    (claimed,) = send(seed.CLAIM, "w", ["x"], 1)
    send(seed.COMPLETE, claimed["id"])
    before = queue.get(claimed["id"])
    assert send(seed.COMPLETE, claimed["id"]) == []
    assert send(seed.FAIL, claimed["id"], "too late") == []
    assert queue.get(claimed["id"]) == before


def test_a_late_complete_or_fail_does_not_touch_a_recovered_job(send: Send, queue: JobQueue) -> None:
    send(seed.INSERT, "x")
    (claimed,) = send(seed.CLAIM, "w", ["x"], 1)
    send(seed.RECOVER_STALE_JOBS, "-1 second")
    before = queue.get(claimed["id"])
    assert send(seed.COMPLETE, claimed["id"]) == []
    assert send(seed.FAIL, claimed["id"], "too late") == []
    assert queue.get(claimed["id"]) == before


def test_a_foreign_write_fences_the_howdah_worker_that_held_the_job(send: Send, queue: JobQueue) -> None:
    job = queue.enqueue("x")
    (held,) = queue.claim(["x"])
    send(seed.FAIL, job.id, "operator said so")
    (again,) = queue.claim(["x"])
    assert again.token > held.token
    with pytest.raises(Exception, match="this claim"):
        queue.complete(held)
    queue.complete(again)


def test_a_job_that_is_not_due_or_paused_cannot_be_claimed_by_an_update(send: Send, queue: JobQueue) -> None:
    queue.enqueue("later", delay=3600)
    queue.enqueue("stopped")
    queue.pause("stopped")
    assert send(seed.OWN_CLAIM, "w", ["later", "stopped"], 10) == []
    queue.resume("stopped")
    assert len(send(seed.OWN_CLAIM, "w", ["later", "stopped"], 10)) == 1


def test_a_plain_update_cannot_claim_a_claimed_job(send: Send) -> None:
    send(seed.INSERT, "x")
    (claimed,) = send(seed.CLAIM, "first", ["x"], 1)
    assert send("UPDATE jobs SET status = 'claimed', worker_id = 'second' WHERE id = $1", claimed["id"]) == []
    assert send("SELECT * FROM jobs") == [claimed]


def test_progress_and_stage_are_written_and_a_heartbeat_of_the_seeds_kind_renews_the_lease(
    send: Send, queue: JobQueue, clock: TestClock
) -> None:
    send(seed.INSERT, "x")
    (claimed,) = send(seed.CLAIM, "w", ["x"], 1)
    send("UPDATE jobs SET status = 'running', started_at = NOW() WHERE id = $1", claimed["id"])
    clock.advance(500)
    changed = send(
        "UPDATE jobs SET progress = 40, current_stage = 'half', claimed_at = NOW() WHERE id = $1 AND worker_id = 'w'",
        claimed["id"],
    )
    assert len(changed) == 1
    clock.advance(500)
    assert queue.recover() == []
    job = queue.get(claimed["id"])
    assert (job.status, job.percent, job.current_stage) == ("running", 40, "half")


def test_what_an_operator_writes_to_a_pending_job_is_kept(send: Send, queue: JobQueue) -> None:
    job = queue.enqueue("x", {"a": 1})
    send("UPDATE jobs SET priority = 7, max_attempts = 9, data = '{\"a\": 2}' WHERE id = $1", job.id)
    now = queue.get(job)
    assert (now.priority, now.max_attempts, now.data, now.status) == (7, 9, {"a": 2}, "pending")


def test_cancelling_by_update(send: Send, queue: JobQueue) -> None:
    job = queue.enqueue("x")
    assert len(send("UPDATE jobs SET status = 'cancelled' WHERE id = $1", job.id)) == 1
    assert queue.get(job).status == "cancelled"


def test_ended_jobs_and_others_can_be_deleted(send: Send, queue: JobQueue) -> None:
    done = send("INSERT INTO jobs (job_type, status) VALUES ('x', 'failed') RETURNING id")[0]["id"]
    waiting, other = queue.enqueue("x"), queue.enqueue("x")
    assert len(send("DELETE FROM jobs WHERE id = $1", waiting.id)) == 1
    assert len(send("DELETE FROM jobs WHERE id = $1", done)) == 1
    assert queue.stats()["x"].failed == 0
    assert [job["id"] for job in send("SELECT id FROM jobs")] == [other.id]


def test_the_types_own_defaults_reach_plain_inserts(send: Send, db: Db) -> None:
    db.execute("SELECT declare_type('slow', p_priority => 5, p_max_attempts => 8)")
    (row,) = send("INSERT INTO jobs (job_type) VALUES ('slow') RETURNING *")
    assert (row["priority"], row["max_attempts"]) == (5, 8)


def test_cancelling_by_update_asks_a_live_worker_and_a_completion_that_comes_first_wins(
    send: Send, db: Db, queue: JobQueue
) -> None:
    db.execute("SELECT register_worker('beats', %s)", (uuid.uuid4(),))
    job = queue.enqueue("x", timeout=3600)
    (held,) = queue.claim(["x"], worker_id="beats")
    queue.start(held)
    assert len(send("UPDATE jobs SET status = 'cancelled' WHERE id = $1", job.id)) == 1
    asked = queue.get(job)
    assert (asked.status, asked.token) == ("running", held.token)
    assert asked.cancel_requested_at is not None
    assert asked.deadline_at is not None
    queue.complete(held)
    assert queue.get(job).status == "completed"


def test_the_same_error_twice_is_recorded_twice(send: Send, queue: JobQueue) -> None:
    send(seed.INSERT, "flaky")
    for _ in range(2):
        (claimed,) = send(seed.CLAIM, "w", ["flaky"], 1)
        send(seed.FAIL, claimed["id"], "the same")
    assert [error.error for error in queue.get(claimed["id"]).errors] == ["the same"] * 2
