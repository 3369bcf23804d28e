"""A job that has reported, and is then silent for much longer than usual, counts as stalled."""

from __future__ import annotations

from datetime import timedelta

import pytest

from howdah.db.statements import read_statement
from tests.clock import TestClock
from tests.conftest import Db
from tests.sql.holding import Held, back_again, claim, details, events, hold, record, report

LONG = timedelta(days=30)


@pytest.fixture(autouse=True)
def a_live_worker(db: Db, clock: TestClock) -> None:
    """A live worker, so that no job is recovered for another reason."""
    db.execute("SELECT register_worker('w', gen_random_uuid(), %s)", (LONG,))
    db.execute("UPDATE workers SET fresh_since = fresh_since - %s", (2 * LONG,))


def send_report(db: Db, *jobs: Held) -> None:
    ids, tokens = [job.id for job in jobs], [job.token for job in jobs]
    db.execute("SELECT progress(%s, %s, '{}')", (ids, tokens))


def stalled(db: Db) -> set[object]:
    """The jobs that all reads show as stalled: a single job, the list, the figures."""
    found = {
        row["id"]
        for row in db.execute("SELECT id FROM jobs").fetchall()
        if db.execute(read_statement("howdah", "get"), {"id": row["id"]}).fetchall()[0]["stalled"]
    }
    nothing = dict.fromkeys(
        ("before", "statuses", "job_types", "flow_key", "least_priority", "most_priority", "since", "until", "data")
    )
    listed = db.execute(
        read_statement("howdah", "list"),
        {**nothing, "stalled": True, "window": 1000, "limit": 1000, "whole": True, "most_bytes": 1 << 30},
    ).fetchall()
    assert {row["id"] for row in listed} == found
    assert sum(row["stalled"] for row in db.execute(read_statement("howdah", "stats"))) == len(found)
    return found


def sweep(db: Db) -> list[tuple[object, str, str]]:
    rows = db.execute("SELECT id, status, reason FROM recover()").fetchall()
    return [(row["id"], row["status"], row["reason"]) for row in rows]


def test_half_a_minute_is_never_a_stall(db: Db, clock: TestClock) -> None:
    (job,) = hold(db)
    send_report(db, job)
    for _ in range(50):
        clock.advance(0.1)
        send_report(db, job)
    assert details(db, job)["stalls_at"] == clock.now + timedelta(seconds=30)
    clock.advance(30)
    assert stalled(db) == set()
    clock.advance(0.001)
    assert stalled(db) == {job.id}
    send_report(db, job)
    assert stalled(db) == set()


def test_a_job_that_reports_seldom_may_be_silent_for_five_times_as_long(db: Db, clock: TestClock) -> None:
    (job,) = hold(db)
    for _ in range(30):
        clock.advance(60)
        send_report(db, job)
    clock.advance(300)
    assert stalled(db) == set()
    clock.advance(1)
    assert stalled(db) == {job.id}


def test_the_habit_follows_what_a_job_does_lately(db: Db, clock: TestClock) -> None:
    (job,) = hold(db)
    gap = 10.0
    clock.advance(gap)
    send_report(db, job)
    for seconds in (10, 100, 100, 4):
        clock.advance(seconds)
        send_report(db, job)
        gap = 0.7 * gap + 0.3 * seconds
        assert report(db, job)["gap"] == pytest.approx(gap, abs=0.001)
        lead = (details(db, job)["stalls_at"] - clock.now).total_seconds()
        assert lead == pytest.approx(max(5 * gap, 30), abs=0.005)


def test_the_first_report_shows_how_often_a_job_reports(db: Db, clock: TestClock) -> None:
    (job,) = hold(db)
    clock.advance(100)
    send_report(db, job)
    assert details(db, job)["stalls_at"] == clock.now + timedelta(seconds=500)


def test_a_job_that_has_not_reported_is_not_stalled(db: Db, clock: TestClock) -> None:
    silent, logs, claimed = [*hold(db, 2), *hold(db, start=0)]
    record(db, logs, kind="log")
    send_report(db, claimed)
    clock.advance(1_000_000)
    assert stalled(db) == set()
    assert details(db, silent)["stalls_at"] is None


def test_a_new_attempt_is_not_stalled_by_the_reports_of_the_old_one(db: Db, clock: TestClock) -> None:
    db.execute("SELECT declare_type('x', p_fail_stalled => true)")
    (first,) = hold(db)
    send_report(db, first)
    clock.advance(31)
    assert stalled(db) == {first.id}
    second = back_again(db, first)
    clock.advance(1_000_000)
    assert (stalled(db), sweep(db)) == (set(), [])
    send_report(db, second)
    assert stalled(db) == set()
    clock.advance(6_000_000)
    assert stalled(db) == {second.id}


@pytest.mark.parametrize("verb", ["SELECT complete(ARRAY[%s], ARRAY[%s])", "SELECT snooze(ARRAY[%s], ARRAY[%s])"])
def test_a_job_that_is_not_running_is_not_stalled(db: Db, clock: TestClock, verb: str) -> None:
    (job,) = hold(db)
    send_report(db, job)
    db.execute(verb.encode(), job)
    clock.advance(31)
    assert stalled(db) == set()


@pytest.mark.parametrize("sign", ["event", "checkpoint"])
def test_other_signs_of_life_count_too(db: Db, clock: TestClock, sign: str) -> None:
    (job,) = hold(db)
    send_report(db, job)
    clock.advance(25)
    if sign == "event":
        record(db, job)
    else:
        db.execute("SELECT checkpoint(%s, %s, '1')", job)
    clock.advance(25)
    assert stalled(db) == set()
    clock.advance(100)
    assert stalled(db) == {job.id}


def test_a_stall_ends_nothing_without_fail_stalled(db: Db, clock: TestClock) -> None:
    (job,) = hold(db)
    send_report(db, job)
    clock.advance(1_000)
    assert sweep(db) == []
    db.execute("SELECT declare_type('x')")
    assert sweep(db) == []
    db.execute("SELECT declare_type('x', p_fail_stalled => true)")
    assert len(sweep(db)) == 1


@pytest.mark.parametrize("attempts", [1, 2])
def test_with_fail_stalled_a_stall_is_a_failure(db: Db, clock: TestClock, attempts: int) -> None:
    db.execute("SELECT declare_type('x', p_fail_stalled => true)")
    policy = '{"kind": "fixed", "delay": 5}'
    db.execute("SELECT enqueue('x', p_max_attempts => %s, p_retry_policy => %s::jsonb)", (attempts, policy))
    (stuck,) = claim(db)
    (lively,) = hold(db)
    send_report(db, stuck, lively)
    clock.advance(20)
    send_report(db, lively)
    clock.advance(11)
    status, error = "failed" if attempts == 1 else "pending", "stalled: nothing was reported for 31 s"
    assert sweep(db) == [(stuck.id, status, error)]
    row = details(db, stuck)
    assert (row["status"], row["last_error"], row["errors"][0]["kind"]) == (status, error, "stalled")
    assert [(event["name"], event["data"]["cause"]) for event in events(db, stuck)] == [(status, "stalled")]
    if attempts > 1:
        assert row["run_at"] == clock.now + timedelta(seconds=5)
    assert db.execute("SELECT id FROM complete(ARRAY[%s], ARRAY[%s])", stuck).fetchall() == []
    assert sweep(db) == []


def test_a_stalled_job_that_was_asked_to_stop_is_cancelled(db: Db, clock: TestClock) -> None:
    db.execute("SELECT declare_type('x', p_fail_stalled => true)")
    (job,) = hold(db)
    send_report(db, job)
    clock.advance(20)
    db.execute("SELECT cancel(ARRAY[%s])", (job.id,))
    clock.advance(11)
    assert [status for _, status, _ in sweep(db)] == ["cancelled"]


def test_a_job_whose_reports_may_not_have_arrived_is_spared(db: Db, clock: TestClock) -> None:
    db.execute("SELECT declare_type('x', p_fail_stalled => true)")
    (job,) = hold(db)
    send_report(db, job)
    clock.advance(100)
    db.execute("UPDATE workers SET fresh_since = lease_clock() - interval '50 seconds'")
    assert sweep(db) == [], "its worker was out of touch after it had reported"
    db.execute("UPDATE workers SET fresh_since = lease_clock() - interval '150 seconds', loop_lag = '10 seconds'")
    assert sweep(db) == [], "its worker's loop is blocked"
    assert db.execute("SELECT * FROM recover(p_worker_id => 'stranger')").fetchall() == []
    db.execute("UPDATE workers SET loop_lag = '0'")
    assert [(id, status) for id, status, _ in sweep(db)] == [(job.id, "pending")]
