"""What the dashboard needs of the database: counts of a large backlog, the figures of the past, and the audit."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from howdah import JobQueue
from tests.clock import TestClock
from tests.conftest import Db
from tests.tenant import Tenant

NOON = datetime(2027, 3, 1, 12, 0, 20, tzinfo=timezone.utc)


def counts(db: Db, cap: int = 2000) -> dict[str, dict[str, Any]]:
    rows = db.execute("SELECT * FROM live_counts(p_cap => %s)", (cap,)).fetchall()
    return {row["job_type"]: row for row in rows}


def minutes(db: Db, level: int, job_type: str = "mail") -> list[dict[str, Any]]:
    return db.execute(
        "SELECT * FROM minutes WHERE level = %s AND job_type = %s ORDER BY at", (level, job_type)
    ).fetchall()


def move(clock: TestClock, moment: datetime) -> None:
    clock.advance((moment - clock.now).total_seconds())


def finish(queue: JobQueue, db: Db, jobs: int, *, failed: int = 0) -> None:
    """Runs jobs, each of which waits and runs for no time by the test's clock."""
    queue.enqueue_many("mail", ({} for _ in range(jobs)), max_attempts=1)
    for place, job in enumerate(queue.claim(["mail"], batch_size=jobs)):
        queue.start(job)
        if place < failed:
            queue.fail(job, "no")
        else:
            queue.complete(job)


def test_the_live_jobs_of_each_type_are_counted(queue: JobQueue, db: Db) -> None:
    for priority in (10, 20, 30):
        queue.enqueue_many("mail", ({} for _ in range(4)), priority=priority)
    queue.enqueue("mail", delay=3600)
    queue.enqueue_many("report", ({} for _ in range(3)))
    first, _ = queue.claim(["report"], batch_size=2)
    queue.start(first)
    found = counts(db)
    mail = found["mail"]
    assert (mail["pending"], mail["scheduled"], mail["exact"]) == (13, 1, True)
    assert mail["oldest_due"] == min(job.run_at for job in queue.list(job_type="mail", limit=100))
    report = found["report"]
    assert (report["pending"], report["claimed"], report["running"]) == (1, 1, 1)


def test_the_count_of_a_large_backlog_is_marked_as_estimated(queue: JobQueue, db: Db) -> None:
    queue.enqueue_many("mail", ({} for _ in range(3_000)))
    db.execute("ANALYZE live")
    mail = counts(db, cap=100)["mail"]
    assert not mail["exact"]
    assert 1_500 <= mail["pending"] <= 6_000


def test_a_completion_and_a_failure_are_measured(queue: JobQueue, db: Db, clock: TestClock) -> None:
    move(clock, NOON)
    finish(queue, db, 5, failed=2)
    rows = minutes(db, 0)
    assert {row["at"] for row in rows} == {NOON.replace(second=0)}
    assert sum(row["completed"] for row in rows) == 3
    assert sum(row["failed"] for row in rows) == 2
    assert sum(len(row["runs"] or ()) for row in rows) == 5


def test_the_bucket_of_a_duration_doubles_every_four(db: Db) -> None:
    found = db.execute(
        "SELECT bucket(s * interval '1 second') AS b FROM unnest('{0,0.0005,0.001,0.002,0.004,1e9}'::float8[]) AS s"
    ).fetchall()
    assert [row["b"] for row in found] == [0, 0, 1, 5, 9, 120]


def test_the_minutes_that_are_over_are_merged_and_nothing_is_lost(queue: JobQueue, db: Db, clock: TestClock) -> None:
    move(clock, NOON)
    finish(queue, db, 70, failed=1)
    move(clock, NOON + timedelta(minutes=1))
    finish(queue, db, 10)
    queue.recover()
    (folded,) = minutes(db, 1)
    assert (folded["at"], folded["completed"], folded["failed"]) == (NOON.replace(second=0), 69, 1)
    assert sum(folded["run_jobs"]) == pytest.approx(70)
    assert len(folded["runs"]) == len(set(folded["runs"]))
    assert sum(row["completed"] for row in minutes(db, 0)) == 10  # this minute is not over
    # A commit that comes late is merged by the next sweep.
    db.execute("INSERT INTO minutes (at, job_type, completed) VALUES (%s, 'mail', 3)", (NOON.replace(second=0),))
    queue.recover()
    assert sum(row["completed"] for row in minutes(db, 1)) == 72


def test_old_figures_become_coarser_and_are_deleted_at_last(queue: JobQueue, db: Db, clock: TestClock) -> None:
    move(clock, NOON)
    finish(queue, db, 4)
    move(clock, NOON + timedelta(minutes=3))
    finish(queue, db, 6)
    move(clock, NOON + timedelta(hours=3))
    queue.recover()
    queue.recover()
    (folded,) = minutes(db, 2)
    assert (folded["at"], folded["completed"]) == (NOON.replace(second=0), 10)
    move(clock, NOON + timedelta(hours=60))
    queue.recover()
    assert [row["completed"] for row in minutes(db, 3)] == [10]
    move(clock, NOON + timedelta(days=40))
    queue.recover()
    assert minutes(db, 3) == []


def test_the_times_of_all_types_together_have_a_row_of_their_own(queue: JobQueue, db: Db, clock: TestClock) -> None:
    move(clock, NOON)
    finish(queue, db, 7)
    db.execute(
        "INSERT INTO minutes (at, job_type, completed, runs) VALUES (%s, 'report', 5, '{3}')", (NOON.replace(second=0),)
    )
    move(clock, NOON + timedelta(minutes=1))
    queue.recover()
    for level, later in ((1, timedelta(hours=3)), (2, timedelta(hours=60))):
        (joint,) = (row for row in minutes(db, level, "") if row["runs"])
        assert sum(joint["run_jobs"]) == pytest.approx(12)
        assert (joint["completed"], joint["failed"]) == (0, 0)
        assert 3 in joint["runs"]
        move(clock, NOON + later)
        queue.recover()


def test_the_backlog_is_measured_once_a_minute(queue: JobQueue, db: Db, clock: TestClock) -> None:
    move(clock, NOON)
    queue.enqueue_many("mail", ({} for _ in range(7)))
    queue.recover()
    queue.recover()
    assert [row["backlog"] for row in minutes(db, 1)] == [7]
    assert [row["backlog"] for row in minutes(db, 1, "")] == [0]


def test_a_job_without_a_finite_due_time_can_be_completed(queue: JobQueue, db: Db) -> None:
    queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    db.execute("UPDATE live SET run_at = '-infinity', own_write = NOT own_write")
    queue.complete(job)
    assert queue.get(job).status == "completed"


def test_an_action_is_recorded_and_old_entries_go(queue: JobQueue, db: Db, clock: TestClock) -> None:
    move(clock, NOON)
    db.execute("SELECT record_audit('ann', 'retry', '{\"filter\": {\"type\": [\"mail\"]}}', 12, '12 retried')")
    (entry,) = db.execute("SELECT * FROM audit").fetchall()
    assert (entry["visitor"], entry["action"], entry["jobs"], entry["at"]) == ("ann", "retry", 12, NOON)
    assert entry["target"] == {"filter": {"type": ["mail"]}}
    move(clock, NOON + timedelta(days=500))
    db.execute("SELECT record_audit('bob', 'delete')")
    assert [row["visitor"] for row in db.execute("SELECT visitor FROM audit").fetchall()] == ["bob"]


def test_an_entry_shows_viewers_no_more_than_jobs_do(server_dsn: str) -> None:
    words = {"path": '$.card == "s3cret"', "error": "s3cret", "key": "s3cret", "per": "s3cret"}
    targets: list[Any] = [
        {"filter": {**words, "type": ["mail"]}, "reason": "s3cret"},
        {"job": "7", "reason": "s3cret"},
        {"what": "limit", "type": "mail", "per": "s3cret", "value": "3"},
        {
            "filter": {"type": [{"error": "s3cret"}], "status": {"is": "s3cret"}},
            "value": {"reason": "s3cret"},
            "ids": ["7"],
        },
        {"filter": "s3cret"},
        ["s3cret"],
        "s3cret",
        {},
    ]
    with Tenant(server_dsn, "audit_roles") as tenant:
        for target in targets:
            tenant.admin.execute(
                "SELECT audit_roles.record_audit('ann', 'cancel', %s, 3, '3 cancelled')", (Jsonb(target),)
            )
        read = "SELECT target, visitor, outcome FROM audit_roles.audit_details ORDER BY number"
        for role in ("viewer", "operator"):
            with tenant.connect(role) as conn:
                seen = conn.execute(read).fetchall()
                assert "s3cret" not in str(seen)
                hidden = dict.fromkeys(words, "[redacted]")
                assert [row["target"] for row in seen[:4]] == [
                    {"filter": {**hidden, "type": ["mail"]}, "reason": "[redacted]"},
                    {"job": "7", "reason": "[redacted]"},
                    {"what": "limit", "type": "mail", "per": "[redacted]", "value": "3"},
                    {"filter": dict.fromkeys(("type", "status"), "[redacted]"), "value": "[redacted]", "ids": ["7"]},
                ]
                assert {(row["visitor"], row["outcome"]) for row in seen} == {("ann", "3 cancelled")}
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    conn.execute("SELECT target FROM audit_roles.audit")
        with tenant.connect("owner") as conn:
            assert [row["target"] for row in conn.execute(read).fetchall()] == targets
        tenant.execute("GRANT SELECT ON audit_roles.live TO {}", tenant.login("viewer"))
        with tenant.connect("viewer") as conn:
            assert [row["target"] for row in conn.execute(read).fetchall()] == targets


def test_the_estimate_is_of_the_type_itself(queue: JobQueue, db: Db) -> None:
    queue.enqueue_many("mail", ({} for _ in range(4_000)))
    queue.enqueue_many("report", ({} for _ in range(200)))
    db.execute("ANALYZE live")
    found = counts(db, cap=100)
    assert found["mail"]["pending"] > 5 * found["report"]["pending"]
