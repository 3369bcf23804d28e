"""Events of a job: recorded by its holder, or by the database itself, and stored in order."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tests.clock import TestClock
from tests.conftest import Connect, Db
from tests.sql.holding import Held, back_again, claim, details, events, hold, record, report


def brief(db: Db, job: Held) -> list[tuple[int, str, str]]:
    return [(event["seq"], event["kind"], event["name"]) for event in events(db, job)]


def statuses(db: Db, job: Held) -> list[tuple[int, str, str]]:
    """The status events of a job: (attempt, status, cause)."""
    return [(event["attempt"], event["name"], event["data"]["cause"]) for event in events(db, job)]


# Recorded by the holder of the job


def test_events_keep_their_order_within_a_call_and_over_calls(db: Db) -> None:
    one, other = hold(db, 2)
    for letters in ("abc", "de"):
        ids = [job.id for _ in letters for job in (one, other)]
        tokens = [job.token for _ in letters for job in (one, other)]
        names = [f"{letter}{n}" for letter in letters for n in (1, 2)]
        db.execute("SELECT record_events(%s, %s, %s)", (ids, tokens, names))
    assert brief(db, one) == [(n, "event", f"{letter}1") for n, letter in enumerate("abcde", start=1)]
    assert brief(db, other) == [(n, "event", f"{letter}2") for n, letter in enumerate("abcde", start=1)]
    assert details(db, one)["events_count"] == details(db, other)["events_count"] == 5


def test_the_answer_is_in_the_order_of_the_call(db: Db) -> None:
    held = [job for job_type in "zyx" for job in hold(db, 20, job_type)]
    calls = [*held, *reversed(held)]
    rows = db.execute(
        "SELECT id, seq FROM record_events(%s, %s, %s)",
        ([job.id for job in calls], [job.token for job in calls], ["e"] * len(calls)),
    ).fetchall()
    assert [(row["id"], row["seq"]) for row in rows] == [
        (job.id, 1 if place < len(held) else 2) for place, job in enumerate(calls)
    ]


def test_an_event_has_its_job_claim_time_and_data(db: Db, clock: TestClock) -> None:
    (first,) = hold(db)
    job = back_again(db, first)
    db.execute("SELECT record_events(ARRAY[%s], ARRAY[%s], ARRAY['loaded'], ARRAY['{\"rows\": 7}'::jsonb])", job)
    event = events(db, job)[-1]
    assert {name: event[name] for name in ("at", "token", "attempt", "job_type", "kind", "name", "data")} == {
        "at": clock.now,
        "token": job.token,
        "attempt": 2,
        "job_type": "x",
        "kind": "event",
        "name": "loaded",
        "data": {"rows": 7},
    }


def test_logs_are_in_the_same_order_but_are_not_counted_as_events(db: Db) -> None:
    (job,) = hold(db)
    db.execute(
        "SELECT record_events(array_fill(%s, ARRAY[4]), array_fill(%s::bigint, ARRAY[4]), ARRAY['a', 'INFO', 'b', 'INFO'],"
        " p_kinds => ARRAY['event', 'log', NULL, 'log'])",
        job,
    )
    assert brief(db, job) == [(1, "event", "a"), (2, "log", "INFO"), (3, "event", "b"), (4, "log", "INFO")]
    assert (details(db, job)["events_count"], report(db, job)["seq"]) == (2, 4)


def test_an_event_counts_as_activity_of_the_job_and_a_log_line_does_not(db: Db, clock: TestClock) -> None:
    (job,) = hold(db)
    record(db, job, kind="log", name="INFO")
    assert report(db, job) == {"seq": 1}
    assert details(db, job)["stalls_at"] is None
    record(db, job)
    stalls_at = details(db, job)["stalls_at"]
    assert stalls_at == clock.now + timedelta(seconds=30)
    clock.advance(20)
    record(db, job, kind="log", name="INFO")
    assert details(db, job)["stalls_at"] == stalls_at
    record(db, job)
    assert details(db, job)["stalls_at"] > stalls_at


def test_what_happened_a_while_ago_is_kept_as_of_then(db: Db, clock: TestClock) -> None:
    (job,) = hold(db)
    db.execute(
        "SELECT record_events(array_fill(%s, ARRAY[4]), array_fill(%s::bigint, ARRAY[4]), ARRAY['a', 'b', 'c', 'd'],"
        " p_ages => ARRAY[interval '2.5 s', NULL, '-1 h', '10 years'])",
        job,
    )
    ages = [clock.now - event["at"] for event in events(db, job)]
    assert ages == [timedelta(seconds=2.5), timedelta(0), timedelta(0), timedelta(hours=1)]


@pytest.mark.parametrize("name", ["", "n" * 101, None])
def test_a_name_that_is_none_is_refused(db: Db, name: str | None) -> None:
    (job,) = hold(db)
    with pytest.raises(psycopg.Error, match="1 to 100 characters") as caught:
        db.execute("SELECT record_events(%s, %s, %s)", ([job.id] * 2, [job.token] * 2, ["fine", name]))
    assert caught.value.sqlstate == "JQ001"
    assert events(db, job) == []


@pytest.mark.parametrize("kind", ["status", "Event", ""])
def test_only_the_database_itself_records_statuses(db: Db, kind: str) -> None:
    (job,) = hold(db)
    with pytest.raises(psycopg.Error, match="kind event or log") as caught:
        record(db, job, kind=kind)
    assert caught.value.sqlstate == "JQ001"
    assert events(db, job) == []


def test_of_a_claim_that_is_over_nothing_is_kept_and_the_rest_of_the_batch_is(db: Db) -> None:
    stale, pending, good = hold(db, 3)
    db.execute("SELECT release(%s, %s, true)", ([stale.id, pending.id], [stale.token, pending.token]))
    (current,) = claim(db)
    assert current.id == stale.id
    before = details(db, current)
    late = [stale, Held(pending.id, pending.token + 1), Held(uuid.uuid4(), 1), Held(None, None), good]  # type: ignore[arg-type]
    seqs = record(db, *late)
    assert seqs == [1]
    assert details(db, current) == before
    assert {row["job_id"] for row in db.execute("SELECT job_id FROM events WHERE kind <> 'status'")} == {good.id}
    assert len(record(db, stale, current)) == 1


def test_an_ended_job_takes_no_more_events(db: Db) -> None:
    (job,) = hold(db)
    db.execute("SELECT complete(ARRAY[%s], ARRAY[%s])", job)
    assert record(db, job) == []
    assert events(db, job) == []


def record_numbered(db: Db, job: Held, *numbers: int | None) -> list[int]:
    """Record events that are named by their numbers; return the sequences of those that were stored."""
    count = len(numbers)
    rows = db.execute(
        "SELECT seq FROM record_events(%s, %s, %s, p_numbers => %s)",
        ([job.id] * count, [job.token] * count, [str(number) for number in numbers], list(numbers)),
    )
    return [row["seq"] for row in rows]


def test_events_that_are_sent_again_after_a_lost_reply_are_stored_once(db: Db) -> None:
    (job,) = hold(db)
    assert record_numbered(db, job, 1, 2) == [1, 2]
    before = details(db, job)
    assert record_numbered(db, job, 1, 2) == []
    assert details(db, job) == before
    db.execute("SELECT progress(ARRAY[%s], ARRAY[%s], ARRAY[5])", job)
    record(db, job, name="not numbered")
    db.execute("SELECT checkpoint(%s, %s, '1')", job)
    assert record_numbered(db, job, 2, 3, 4, None) == [4, 5, 6]
    assert [event["name"] for event in events(db, job)] == ["1", "2", "not numbered", "3", "4", "None"]
    assert (details(db, job)["events_count"], report(db, job)["seq"]) == (6, 6)


def test_each_claim_numbers_its_events_anew(db: Db) -> None:
    one, other = hold(db, 2)
    assert (record_numbered(db, one, 1, 2, 3), record_numbered(db, other, 1)) == ([1, 2, 3], [1])
    again = back_again(db, one)
    assert record_numbered(db, one, 4) == []
    assert record_numbered(db, again, 1, 2) == [5, 6]
    assert record_numbered(db, again, 2, 3) == [7]


def test_two_connections_that_send_the_same_events_at_once_store_them_once(db: Db, connect: Connect) -> None:
    (job,) = hold(db)
    slow, again = connect(autocommit=False), connect()
    assert record_numbered(slow, job, 1, 2) == [1, 2]
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(record_numbered, again, job, 1, 2, 3)
        waits = "SELECT FROM pg_locks WHERE NOT granted AND pid = %s"
        while db.execute(waits, (again.info.backend_pid,)).fetchone() is None and not second.done():
            pass
        slow.commit()
        assert second.result() == [3]
    assert [event["name"] for event in events(db, job)] == ["1", "2", "3"]


def test_writers_of_different_jobs_do_not_wait_for_each_other(db: Db, connect: Connect) -> None:
    jobs = hold(db, 4)
    writers = [connect(autocommit=False) for _ in jobs]
    for writer, job in zip(writers, jobs, strict=True):
        writer.execute("SET lock_timeout = '60s'")
        assert [record(writer, job) for _ in range(3)] == [[1], [2], [3]]
    for writer in reversed(writers):
        writer.commit()
    assert [len(events(db, job)) for job in jobs] == [3] * 4


def test_writers_of_one_job_take_turns(db: Db, connect: Connect) -> None:
    (job,) = hold(db)
    writers = [connect() for _ in range(4)]

    def write(writer: Db) -> list[int]:
        return [seq for _ in range(25) for seq in record(writer, job, job)]

    with ThreadPoolExecutor(4) as pool:
        seqs = list(pool.map(write, writers))
    assert all(own == sorted(own) for own in seqs)
    assert [event["seq"] for event in events(db, job)] == list(range(1, 201))
    in_order_of_n = db.execute("SELECT seq FROM events ORDER BY stream_no").fetchall()
    assert [row["seq"] for row in in_order_of_n] == list(range(1, 201))


def test_batches_that_overlap_do_not_wait_for_each_other_in_a_circle(db: Db, connect: Connect) -> None:
    held = hold(db, 500)

    def write(backwards: bool) -> None:
        writer = connect()
        for _ in range(5):
            record(writer, *(reversed(held) if backwards else held))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, [True, False, True, False]))
    assert {row["events_count"] for row in db.execute("SELECT events_count FROM live")} == {20}


def test_a_deleted_job_takes_its_events_along(db: Db) -> None:
    gone, kept = hold(db, 2)
    record(db, gone, kept)
    db.execute("SELECT complete(%s, %s)", ([gone.id, kept.id], [gone.token, kept.token]))
    db.execute("DELETE FROM jobs WHERE id = %s", (gone.id,))
    assert events(db, gone) == []
    assert len(events(db, kept)) == 2


# Recorded by the database itself

End = Callable[[Db, Held, TestClock], Any]

FAIL = "SELECT fail(ARRAY[%s], ARRAY[%s], ARRAY['boom'])"
GIVE_UP = "SELECT fail(ARRAY[%s], ARRAY[%s], ARRAY['boom'], p_give_ups => ARRAY[true])"
RELEASE = "SELECT release(ARRAY[%s], ARRAY[%s])"
INTERRUPT = "SELECT release(ARRAY[%s], ARRAY[%s], true)"
SNOOZE = "SELECT snooze(ARRAY[%s], ARRAY[%s])"


def by(statement: str) -> End:
    return lambda db, job, _: db.execute(statement.encode(), job)


def sweep_after(seconds: float, first: str = "SELECT %s, %s") -> End:
    def end(db: Db, job: Held, clock: TestClock) -> None:
        db.execute(first.encode(), job)
        clock.advance(seconds)
        db.execute("SELECT recover()")

    return end


ENDS: dict[str, tuple[End, str]] = {
    "failed": (by(FAIL), "pending"),
    "failed for good": (by(GIVE_UP), "failed"),
    "timed out": (sweep_after(60), "pending"),
    "stalled": (sweep_after(40, "SELECT progress(ARRAY[%s], ARRAY[%s], ARRAY[1])"), "pending"),
    "worker died": (sweep_after(16), "pending"),
    "crashed": (by("SELECT crash(ARRAY[%s], ARRAY[%s], ARRAY['killed'])"), "pending"),
    "interrupted": (by(INTERRUPT), "pending"),
    "cancelled": (by("SELECT cancel_held(ARRAY[%s], ARRAY[%s], ARRAY['not wanted'])"), "cancelled"),
    "lease passed": (sweep_after(601), "pending"),
    "cancel overdue": (sweep_after(31, "SELECT cancel(ARRAY[%s]), %s"), "cancelled"),
}
REGISTERED = {"timed out", "worker died", "cancel overdue", "stalled"}


@pytest.mark.parametrize("cause", ENDS)
def test_an_unsuccessful_attempt_is_recorded_even_for_a_job_without_events(
    db: Db, clock: TestClock, cause: str
) -> None:
    if cause in REGISTERED:
        lease = timedelta(seconds=15 if cause == "worker died" else 3600)
        db.execute("SELECT register_worker('w', gen_random_uuid(), %s)", (lease,))
    db.execute("SELECT declare_type('x', p_fail_stalled => true)")
    db.execute("SELECT enqueue('x', p_timeout => '50 s', p_retry_policy => '{\"kind\": \"fixed\", \"delay\": 5}')")
    (job,) = claim(db)
    started_at = details(db, job)["started_at"]
    clock.advance(1)
    end, status = ENDS[cause]
    end(db, job, clock)
    kind = "failed" if cause == "failed for good" else cause
    (event,) = events(db, job)
    row = details(db, job)
    assert (row["status"], event["name"], event["kind"], event["data"]["cause"]) == (status, status, "status", kind)
    assert (event["seq"], event["attempt"], event["token"], event["at"]) == (1, 1, job.token, clock.now)
    assert event["data"]["worker"] == "w"
    assert moment(db, event["data"]["started_at"]) == started_at
    assert event["data"].get("error") == (row["errors"][-1]["error"] if row["errors"] else row["last_error"])
    assert ("run_at" in event["data"]) == (status == "pending")
    if status == "pending":
        assert moment(db, event["data"]["run_at"]) == row["run_at"]
    assert row["progress_report"]["seq"] == 1
    for error in row["errors"] or ():
        assert (error["kind"], moment(db, error["started_at"])) == (kind, started_at)


def moment(db: Db, text: str) -> Any:
    row = db.execute("SELECT %s::timestamptz AS at", (text,)).fetchone()
    assert row is not None
    return row["at"]


def test_an_attempt_that_never_started_has_no_started_at(db: Db) -> None:
    (first,) = hold(db)
    db.execute("SELECT fail(ARRAY[%s], ARRAY[%s], ARRAY['boom'], p_delays => ARRAY[interval '0'])", first)
    (claimed,) = claim(db, start=0)
    db.execute(FAIL.encode(), claimed)
    assert ["started_at" in event["data"] for event in events(db, claimed)] == [True, False]
    assert ["started_at" in error for error in details(db, claimed)["errors"]] == [True, False]


@pytest.mark.parametrize(
    ("statement", "running"),
    [(RELEASE, False), (INTERRUPT, False), (SNOOZE, True)],
    ids=["release", "interrupt", "snooze"],
)
def test_a_release_or_snooze_records_no_event(db: Db, statement: str, running: bool) -> None:
    (job,) = hold(db, start=int(running))
    db.execute(statement.encode(), job)
    assert (details(db, job)["status"], details(db, job)["progress_report"]) == ("pending", None)
    assert events(db, job) == []


def test_recovering_an_unstarted_job_records_no_event(db: Db, clock: TestClock) -> None:
    db.execute("SELECT register_worker('w', gen_random_uuid())")
    (job,) = hold(db, start=0)
    record(db, job)
    clock.advance(16)
    db.execute("SELECT recover()")
    assert details(db, job)["status"] == "pending"
    assert brief(db, job) == [(1, "event", "e")]


@pytest.mark.parametrize("statement", [SNOOZE, INTERRUPT], ids=["snooze", "interrupt"])
def test_but_a_requested_cancellation_ends_it_and_is_recorded(db: Db, statement: str) -> None:
    (job,) = hold(db)
    db.execute("SELECT cancel(ARRAY[%s])", (job.id,))
    db.execute(statement.encode(), job)
    assert details(db, job)["status"] == "cancelled"
    assert brief(db, job) == [(1, "status", "cancelled")]
    assert report(db, job)["seq"] == 1


@pytest.mark.parametrize("said", ["nothing", "an event", "a log", "progress", "a checkpoint", "a failure"])
def test_a_success_is_recorded_only_if_something_was_recorded_before(db: Db, said: str) -> None:
    (job,) = hold(db)
    match said:
        case "an event":
            record(db, job)
        case "a log":
            record(db, job, kind="log")
        case "progress":
            db.execute("SELECT progress(ARRAY[%s], ARRAY[%s], ARRAY[5])", job)
        case "a checkpoint":
            db.execute("SELECT checkpoint(%s, %s, '1')", job)
        case "a failure":
            job = back_again(db, job)
    before = len(events(db, job))
    db.execute("SELECT complete(ARRAY[%s], ARRAY[%s])", job)
    if said == "nothing":
        assert (events(db, job), details(db, job)["progress_report"]) == ([], None)
    else:
        last = events(db, job)[-1]
        assert (last["seq"], last["kind"], last["name"]) == (before + 1, "status", "completed")
        assert (last["data"]["cause"], last["data"]["worker"], last["token"]) == ("completed", "w", job.token)
        assert report(db, job)["seq"] == before + 1


def ways_to_end_while_it_waits(db: Db, clock: TestClock, way: str) -> None:
    match way:
        case "cancel":
            db.execute("SELECT cancel(ARRAY(SELECT id FROM live), 'not wanted')")
        case "a plain cancel":
            db.execute("UPDATE jobs SET status = 'cancelled'")
        case "expire":
            clock.advance(3601)
            db.execute("SELECT recover()")
        case "no attempts left":
            db.execute("UPDATE live SET attempts = max_attempts")
            db.execute("SELECT recover()")


@pytest.mark.parametrize(
    ("way", "cause", "error"),
    [
        ("cancel", "cancelled", "not wanted"),
        ("a plain cancel", "cancelled", None),
        ("expire", "expired", None),
        ("no attempts left", "no attempts left", None),
    ],
)
@pytest.mark.parametrize("spoke", [True, False])
def test_the_end_of_a_pending_job_is_recorded_only_if_something_was_recorded_before(
    db: Db, clock: TestClock, way: str, cause: str, error: str | None, spoke: bool
) -> None:
    db.execute("SELECT enqueue('x', p_expires_at => clock() + interval '1 hour')")
    (job,) = claim(db)
    if spoke:
        record(db, job)
    db.execute(SNOOZE.encode(), job)
    ways_to_end_while_it_waits(db, clock, way)
    status = "failed" if way == "no attempts left" else "cancelled"
    assert details(db, job)["status"] == status
    if spoke:
        last = events(db, job)[-1]
        assert (last["seq"], last["kind"], last["name"], last["data"]["cause"]) == (2, "status", status, cause)
        assert last["data"].get("error") == error
        assert report(db, job)["seq"] == 2
    else:
        assert (events(db, job), details(db, job)["progress_report"]) == ([], None)


def test_a_retry_is_recorded_and_continues_the_numbers(db: Db) -> None:
    (silent,) = hold(db, job_type="silent")
    (job,) = hold(db)
    record(db, job)
    db.execute("SELECT complete(%s, %s)", ([job.id, silent.id], [job.token, silent.token]))
    db.execute("SELECT retry(%s)", ([job.id, silent.id],))
    (again,) = claim(db)
    record(db, again)
    assert brief(db, job) == [
        (1, "event", "e"),
        (2, "status", "completed"),
        (3, "status", "pending"),
        (4, "event", "e"),
    ]
    assert events(db, job)[2]["data"] == {"cause": "retried"}
    assert (details(db, job)["events_count"], report(db, job)["seq"]) == (2, 4)
    assert events(db, silent) == []


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_plain_fail_is_recorded_for_the_attempt_that_failed(db: Db, attempts: int) -> None:
    db.execute("SELECT enqueue('x', p_max_attempts => %s)", (attempts,))
    (job,) = claim(db)
    db.execute(
        "UPDATE jobs SET status = CASE WHEN attempts >= max_attempts THEN 'failed' ELSE 'pending' END,"
        " last_error = 'boom', worker_id = NULL, claimed_at = NULL WHERE id = %s",
        (job.id,),
    )
    (event,) = events(db, job)
    status = "failed" if attempts == 1 else "pending"
    assert (event["name"], event["token"], event["attempt"], event["seq"]) == (status, job.token, 1, 1)
    assert {name: event["data"].get(name) for name in ("cause", "worker", "error")} == {
        "cause": "failed",
        "worker": "w",
        "error": "boom",
    }
    assert details(db, job)["errors"][0]["started_at"] is not None
    assert report(db, job)["seq"] == 1


def test_a_stale_end_is_not_recorded(db: Db) -> None:
    (stale,) = hold(db)
    job = back_again(db, stale)
    before = brief(db, job)
    for statement in (FAIL, GIVE_UP, INTERRUPT, SNOOZE, "SELECT complete(ARRAY[%s], ARRAY[%s])"):
        db.execute(statement.encode(), stale)
    assert brief(db, job) == before
