"""The progress of a job: percent, rate, estimated end, and the checkpoint to resume from."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from tests.clock import TestClock
from tests.conftest import Db
from tests.sql.holding import Held, back_again, claim, details, events, hold, record, report


def send_report(
    db: Db,
    job: Held,
    percent: float | None = None,
    stage: str | None = None,
    done: float | None = None,
    total: float | None = None,
) -> bool:
    """Report progress for one job; return whether it was accepted."""
    rows = db.execute(
        "SELECT * FROM progress(ARRAY[%s], ARRAY[%s], ARRAY[%s]::float8[], ARRAY[%s], ARRAY[%s]::float8[], ARRAY[%s]::float8[])",
        (*job, percent, stage, done, total),
    ).fetchall()
    return rows == [{"id": job.id}]


def shown(db: Db, job: Held) -> tuple[int, str | None]:
    row = details(db, job)
    return row["progress"], row["current_stage"]


@pytest.mark.parametrize("status", ["claimed", "running"])
def test_the_holder_of_a_job_reports_its_progress(db: Db, status: str) -> None:
    (job,) = hold(db, start=int(status == "running"))
    assert send_report(db, job, 42, "load")
    assert shown(db, job) == (42, "load")
    assert details(db, job)["status"] == status


def test_a_former_holder_changes_nothing(db: Db) -> None:
    (stale,) = hold(db)
    db.execute("SELECT release(ARRAY[%s], ARRAY[%s], true)", stale)
    pending = details(db, stale)
    assert not send_report(db, stale, 42, "load", 1, 2)
    assert not send_report(db, Held(stale.id, pending["token"]), 42)
    assert details(db, stale) == pending
    (job,) = claim(db)
    assert send_report(db, job, 10, "new")
    held = details(db, job)
    assert not send_report(db, stale, 42, "load", 1, 2)
    assert details(db, job) == held


def test_values_that_are_not_reported_stay_as_they_were(db: Db) -> None:
    (job,) = hold(db)
    send_report(db, job, 30.4, "load")
    send_report(db, job, stage="store")
    assert (*shown(db, job), report(db, job)["percent"]) == (30, "store", 30.4)
    send_report(db, job, 60)
    assert (*shown(db, job), report(db, job)["percent"]) == (60, "store", 60)


def test_counts_are_percent_too(db: Db) -> None:
    (job,) = hold(db)
    send_report(db, job, done=1, total=3)
    assert shown(db, job)[0] == 33
    assert {name: report(db, job)[name] for name in ("percent", "done", "total")} == {
        "percent": 33.33,
        "done": 1,
        "total": 3,
    }


def test_a_stage_may_count_while_the_percent_are_those_of_the_whole_job(db: Db) -> None:
    (job,) = hold(db)
    send_report(db, job, 70, "store", 1, 10)
    said = report(db, job)
    assert (said["percent"], said["done"], said["total"]) == (70, 1, 10)


def test_counts_of_nothing_known_leave_the_percent_alone(db: Db) -> None:
    (job,) = hold(db)
    send_report(db, job, 20)
    for total in (None, 0):
        send_report(db, job, done=7, total=total)
        assert (shown(db, job)[0], report(db, job)["percent"], report(db, job)["done"]) == (20, 20, 7)


def test_counts_do_not_outlive_the_stage_that_they_are_of(db: Db) -> None:
    (job,) = hold(db)
    send_report(db, job, 50, "load", 5, 10)
    send_report(db, job, 60, "store")
    assert report(db, job).keys().isdisjoint({"done", "total"})


def _float(number: float | None) -> float | None:
    return None if number is None else float(number)


@pytest.mark.parametrize(
    ("percent", "done", "total", "shown_as"),
    [
        (-5, None, None, 0),
        (250, None, None, 100),
        (math.inf, None, None, 100),
        (-math.inf, None, None, 0),
        (99.6, None, None, 100),
        (None, 30, 10, 100),
        (None, -3, 10, 0),
        (None, 1e308, 2, 100),
        (None, 1, 1e-320, 10),
        (None, math.inf, 5, 100),
        (None, 5, math.inf, 0),
        (math.nan, None, None, 10),
        (math.nan, 1, 4, 25),
        (None, math.nan, 4, 10),
        (None, 1, math.nan, 10),
    ],
)
def test_numbers_beyond_reason_are_no_reason_to_fail_least_of_all_for_others(
    db: Db, percent: float | None, done: float | None, total: float | None, shown_as: int
) -> None:
    odd, other = hold(db, 2)
    for _ in range(3):
        send_report(db, odd, 10)
        rows = db.execute(
            "SELECT id FROM progress(%s, %s, %s, p_dones => %s, p_totals => %s)",
            (
                [odd.id, other.id],
                [odd.token, other.token],
                [_float(percent), 33.0],
                [_float(done), None],
                [_float(total), None],
            ),
        ).fetchall()
        assert len(rows) == 2
    assert (shown(db, odd)[0], shown(db, other)[0]) == (shown_as, 33)
    numbers = [value for name, value in report(db, odd).items() if name != "points"]
    assert all(isinstance(value, (int, float)) and math.isfinite(value) for value in numbers)


def test_a_long_stage_is_truncated(db: Db) -> None:
    (job,) = hold(db)
    send_report(db, job, stage="ü" * 150)
    assert shown(db, job)[1] == "ü" * 100


def test_of_several_reports_of_one_job_the_last_counts(db: Db) -> None:
    one, other = hold(db, 2)
    rows = db.execute(
        "SELECT id FROM progress(%s, %s, ARRAY[10, 90, 30, 20], ARRAY['a', 'b', 'c', 'd'])",
        ([one.id, other.id, one.id, one.id], [one.token, other.token, one.token, one.token]),
    ).fetchall()
    assert sorted(row["id"] for row in rows) == sorted([one.id, other.id])
    assert (shown(db, one), shown(db, other)) == ((20, "d"), (90, "b"))
    assert len(report(db, one)["points"]) == 1


def test_a_plain_client_reports_by_writing_the_column(db: Db, clock: TestClock) -> None:
    (job,) = hold(db)
    db.execute("UPDATE jobs SET progress = 20 WHERE id = %s", (job.id,))
    clock.advance(10)
    db.execute("UPDATE jobs SET progress = 40 WHERE id = %s", (job.id,))
    said = report(db, job)
    assert (said["percent"], said["pace"], said["eta"]) == (40, 2, clock.now.timestamp() + 30)


# The progress report


def test_the_first_report_is_the_beginning_of_the_record(db: Db, clock: TestClock) -> None:
    (job,) = hold(db)
    now = clock.advance(4).timestamp()
    send_report(db, job, done=0, total=200)
    assert report(db, job) == {
        "seq": 0,
        "token": job.token,
        "attempt": 1,
        "at": now,
        "first": now,
        "moved": now,
        "since": now,
        "gap": 4,
        "stalls": now + 30,
        "percent": 0,
        "done": 0,
        "total": 200,
        "points": [[now, 0, 1]],
        "step": 1,
    }


def measured(db: Db, job: Held, now: float) -> tuple[Any, ...]:
    """Rate, pace, and the seconds left."""
    said = report(db, job)
    left = None if said.get("eta") is None else round(said["eta"] - now, 3)
    return said.get("rate"), said.get("pace"), left


def test_rate_and_end_are_of_what_came_lately(db: Db, clock: TestClock) -> None:
    (job,) = hold(db)
    send_report(db, job, done=0, total=200)
    assert measured(db, job, clock.now.timestamp()) == (None, None, None)
    now = clock.advance(10).timestamp()
    send_report(db, job, done=50, total=200)
    assert measured(db, job, now) == (5, 2.5, 30)
    now = clock.advance(10).timestamp()
    send_report(db, job, done=150, total=200)
    weight = 1 - math.exp(-2 * 10 / 20)
    rate, pace = 5 + weight * (10 - 5), 2.5 + weight * (5 - 2.5)
    assert measured(db, job, now) == pytest.approx((rate, pace, 25 / pace), abs=0.001)
    now = clock.advance(10).timestamp()
    send_report(db, job, done=150, total=200)
    assert measured(db, job, now)[0] == pytest.approx(rate * (1 - weight), abs=0.001)
    send_report(db, job, done=200, total=200)
    assert measured(db, job, now)[2] == 0


def test_the_rate_soon_follows_a_stage_of_another_pace(db: Db, clock: TestClock) -> None:
    (job,) = hold(db)
    for percent in range(0, 50, 10):
        send_report(db, job, percent, stage="quick")
        clock.advance(0.4)
    for percent in range(50, 60):
        send_report(db, job, percent, stage="slow")
        clock.advance(1)
    send_report(db, job, 60, stage="slow")
    left = report(db, job)["eta"] - clock.now.timestamp()
    assert left == pytest.approx(40, rel=0.1), "at one percent in a second"


def test_a_steady_job_is_done_at_its_eta(db: Db, clock: TestClock) -> None:
    (job,) = hold(db)
    end = clock.now.timestamp() + 100
    for percent in range(0, 100, 7):
        send_report(db, job, percent)
        if percent:
            assert report(db, job)["eta"] == pytest.approx(end, abs=0.01)
        clock.advance(7)


def test_what_happens_meanwhile_moves_neither_the_end_nor_the_rate(db: Db, clock: TestClock) -> None:
    (job,) = hold(db)
    send_report(db, job, done=0, total=100)
    clock.advance(10)
    send_report(db, job, done=50, total=100)
    before = report(db, job)
    now = clock.advance(4).timestamp()
    record(db, job)
    send_report(db, job, stage="here")
    after = report(db, job)
    unmoved = ("rate", "pace", "eta", "percent", "done", "total", "points", "moved", "first")
    assert {name: after[name] for name in unmoved} == {name: before[name] for name in unmoved}
    assert after["at"] == now
    now = clock.advance(3600).timestamp()
    record(db, job)
    assert report(db, job)["eta"] == now


def test_a_job_that_goes_back_has_no_rate_until_it_goes_on(db: Db, clock: TestClock) -> None:
    (job,) = hold(db)
    for done in (0, 80):
        clock.advance(10)
        send_report(db, job, done=done, total=100)
    now = clock.advance(10).timestamp()
    send_report(db, job, done=20, total=100)
    assert measured(db, job, now) == (None, None, None)
    assert shown(db, job)[0] == 20
    now = clock.advance(10).timestamp()
    send_report(db, job, done=40, total=100)
    assert measured(db, job, now) == (2, 2, 30)


def test_a_clock_that_goes_back_stops_no_report(db: Db, clock: TestClock) -> None:
    (job,) = hold(db)
    send_report(db, job, done=10, total=100)
    for step in (10, -5, -90 * 24 * 3600, 0, 7):
        clock.advance(step)
        assert send_report(db, job, done=20, total=100)
        assert record(db, job)
    assert report(db, job)["at"] == clock.now.timestamp()


def test_the_next_attempt_begins_anew_and_keeps_the_history(db: Db, clock: TestClock) -> None:
    (first,) = hold(db)
    then = clock.now.timestamp()
    send_report(db, first, done=0, total=10)
    clock.advance(5)
    send_report(db, first, done=5, total=10)
    clock.advance(5)
    second = back_again(db, first)
    now = clock.advance(3).timestamp()
    send_report(db, second, done=1, total=10)
    said = report(db, second)
    assert said["points"] == [[then, 0, 1], [then + 5, 50, 1], [now, 10, 2]]
    assert (said["attempt"], said["token"], said["first"], said["gap"]) == (2, second.token, now, 3)
    assert measured(db, second, now) == (None, None, None)
    assert said["seq"] == len(events(db, second)) == 1


def test_a_long_job_is_remembered_from_its_beginning_to_its_end_in_forty_points(db: Db, clock: TestClock) -> None:
    (job,) = hold(db)
    begin = clock.now.timestamp()
    for percent in range(101):
        send_report(db, job, percent)
        clock.advance(60)
    points = report(db, job)["points"]
    assert len(points) <= 40
    assert (points[0], points[-1]) == ([begin, 0, 1], [begin + 6000, 100, 1])
    assert all(at == begin + 60 * percent for at, percent, _ in points)
    steps = [later[0] - earlier[0] for earlier, later in itertools.pairwise(points)]
    assert max(steps) <= 6000 / 20


def test_a_completed_job_is_at_100_percent_whatever_it_reported_last(db: Db, clock: TestClock) -> None:
    (job,) = hold(db)
    send_report(db, job, 10)
    clock.advance(10)
    send_report(db, job, 40)
    db.execute("SELECT complete(ARRAY[%s], ARRAY[%s])", job)
    said = report(db, job)
    assert (shown(db, job)[0], said["percent"], said.get("eta"), len(said["points"])) == (100, 100, None, 2)
    assert details(db, job)["stalls_at"] is None


def test_a_job_that_reports_nothing_has_no_progress_report(db: Db) -> None:
    done, waiting = hold(db, 2)
    db.execute("SELECT complete(ARRAY[%s], ARRAY[%s])", done)
    assert (details(db, done)["progress_report"], details(db, waiting)["progress_report"]) == (None, None)


# Checkpoints


def keep(db: Db, job: Held, checkpoint: str) -> bool:
    row = db.execute("SELECT checkpoint(%s, %s, %s::jsonb) AS kept", (*job, checkpoint)).fetchone()
    assert row is not None
    return bool(row["kept"])


def test_a_checkpoint_is_there_for_the_next_attempt_and_for_the_next_life(db: Db) -> None:
    (first,) = hold(db)
    assert keep(db, first, '{"row": 1}')
    assert keep(db, first, '{"row": 2}')
    second = back_again(db, first)
    assert details(db, second)["checkpoint"] == {"row": 2}
    db.execute("SELECT fail(ARRAY[%s], ARRAY[%s], ARRAY['boom'], p_give_ups => ARRAY[true])", second)
    assert details(db, second)["checkpoint"] == {"row": 2}
    db.execute("SELECT retry(ARRAY[%s])", (second.id,))
    (third,) = claim(db)
    assert details(db, third)["checkpoint"] == {"row": 2}
    claimed = db.execute("SELECT checkpoint FROM live").fetchone()
    assert claimed == {"checkpoint": {"row": 2}}


def test_a_checkpoint_of_a_claim_that_is_over_is_refused(db: Db) -> None:
    (stale,) = hold(db)
    assert keep(db, stale, "1")
    job = back_again(db, stale)
    before = details(db, job)
    assert not keep(db, stale, "2")
    assert details(db, job) == before
    db.execute("SELECT complete(ARRAY[%s], ARRAY[%s])", job)
    assert not keep(db, job, "3")
    assert details(db, job)["checkpoint"] == 1


@pytest.mark.parametrize("sign", ["progress", "checkpoint", "event"])
def test_a_report_renews_the_lease_of_an_unregistered_holder(db: Db, clock: TestClock, sign: str) -> None:
    (job,) = hold(db)
    for _ in range(3):
        clock.advance(500)
        match sign:
            case "progress":
                assert send_report(db, job)
            case "checkpoint":
                assert keep(db, job, "1")
            case _:
                assert record(db, job)
        assert db.execute("SELECT * FROM recover()").fetchall() == []
    clock.advance(601)
    assert len(db.execute("SELECT * FROM recover()").fetchall()) == 1
