"""The timeline of a job: each event is shown once, in the order of time."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from howdah.cli.render.timeline import Timeline, timeline
from howdah.model.event import Event
from howdah.model.job import AttemptError
from tests.cli.sample import event, job

BEGIN = datetime(2030, 1, 1, tzinfo=timezone.utc)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def said(line: Timeline) -> list[tuple[float, int | None, str]]:
    return [((entry.at - BEGIN).total_seconds(), entry.attempt, entry.said) for entry in (*line.first, *line.last)]


def ended(name: str, seconds: float, seq: int = 1, attempt: int = 1, **data: Any) -> Event:
    return event("status", name, data, seq=seq, at=at(seconds), attempt=attempt)


def test_two_attempts_with_their_events_and_logs() -> None:
    error = AttemptError(1, at(3), "failed", "ValueError: x", "worker-a", None, 1, at(1))
    seen = job(
        created_at=at(0),
        run_at=at(5),
        first_due_at=at(0),
        attempts=2,
        status="completed",
        worker_id="worker-b",
        started_at=at(6),
        finished_at=at(8),
        errors=(error,),
    )
    events = [
        event("event", "opened", {"rows": 3}, seq=1, at=at(2)),
        ended(
            "pending",
            3,
            2,
            cause="failed",
            worker="worker-a",
            started_at=at(1).isoformat(),
            error="ValueError: x",
            run_at=at(5).isoformat(),
        ),
        event("log", "WARNING", {"logger": "app", "message": "slow"}, seq=3, at=at(7), attempt=2),
        ended("completed", 8, 4, 2, cause="completed", worker="worker-b", started_at=at(6).isoformat()),
    ]
    assert said(timeline(seen, events)) == [
        (0, None, "created"),
        (0, None, "due"),
        (1, 1, "started on worker-a"),
        (2, 1, 'opened {"rows":3}'),
        (3, 1, "failed: ValueError: x; again in 2.0s"),
        (6, 2, "started on worker-b"),
        (7, 2, "WARNING app: slow"),
        (8, 2, "completed after 2.0s"),
    ]


def test_without_events_the_lines_come_from_the_job_itself() -> None:
    error = AttemptError(1, at(3), "timed out", "timed out after 2 s", "worker-a", None, 1, at(1))
    seen = job(
        created_at=at(0),
        run_at=at(0),
        status="failed",
        started_at=at(1),
        finished_at=at(3),
        errors=(error,),
        attempts=1,
    )
    assert said(timeline(seen, [])) == [
        (0, None, "created"),
        (0, None, "due"),
        (1, 1, "started on worker-a"),
        (3, 1, "timed out: timed out after 2 s"),
        (3, 1, "failed"),
    ]


def test_a_job_that_waits_again_is_due_again() -> None:
    seen = job(created_at=at(0), first_due_at=at(1), run_at=at(9), status="pending", started_at=None, attempts=1)
    assert said(timeline(seen, [])) == [(0, None, "created"), (1, None, "due"), (9, None, "due again")]
    held = job(created_at=at(0), run_at=at(0).replace(year=9999), status="pending", started_at=None, attempts=0)
    assert said(timeline(held, [])) == [(0, None, "created")]


def test_a_claim_a_cancellation_and_their_times() -> None:
    seen = job(
        created_at=at(0), run_at=at(0), status="claimed", started_at=None, claimed_at=at(2), worker_id="a", attempts=1
    )
    assert said(timeline(seen, []))[-1] == (2, 1, "claimed by a")
    asked = job(created_at=at(0), run_at=at(0), started_at=at(1), worker_id="a", cancel_requested_at=at(4))
    assert said(timeline(asked, []))[-1] == (4, 1, "asked to stop")
    cancelled = job(
        created_at=at(0),
        run_at=at(0),
        started_at=None,
        attempts=0,
        status="cancelled",
        finished_at=at(5),
        last_error="no",
    )
    assert said(timeline(cancelled, []))[-1] == (5, 0, "cancelled: no")


def test_a_new_life_is_part_of_it() -> None:
    seen = job(created_at=at(0), run_at=at(4), first_due_at=at(4), started_at=at(1), status="pending", attempts=0)
    events = [
        ended("completed", 2, 1, cause="completed", started_at=at(1).isoformat()),
        ended("pending", 4, 2, 0, cause="retried"),
    ]
    assert [entry[2] for entry in said(timeline(seen, events))] == [
        "created", "started", "completed after 1.0s", "due", "retried",
    ]  # fmt: skip


def test_a_long_one_is_cut_in_its_middle_and_counts_what_it_leaves_out() -> None:
    seen = job(created_at=at(0), run_at=at(0), started_at=at(0), status="completed", finished_at=at(2_000))
    events = [event("event", f"e{n}", seq=n, at=at(n)) for n in range(1, 1_001)]
    whole = timeline(seen, events, None)
    assert (len(whole.first), whole.left_out, whole.last) == (1_004, 0, ())
    cut = timeline(seen, events, 50)
    assert (len(cut.first), cut.left_out, len(cut.last)) == (50, 904, 50)
    assert cut.first + cut.last == whole.first[:50] + whole.first[-50:]
    # The same, read from a source that can be read only once.
    assert timeline(seen, iter(events), 50) == cut


def test_one_that_is_just_short_enough_is_whole() -> None:
    seen = job(created_at=at(0), run_at=at(0), started_at=None, status="pending")
    for count in (8, 9):
        events = [event("event", f"e{n}", seq=n, at=at(n)) for n in range(1, count + 1)]
        made = timeline(seen, events, 5)
        assert made.left_out == max(count + 2 - 10, 0)
        assert len(made.first) + len(made.last) == 10


def test_what_the_worker_left_out_is_a_line_of_the_timeline() -> None:
    seen = job(created_at=at(0), run_at=at(0), started_at=None)
    events = [event("event", "howdah.left_out", {"events": 12, "logs": 3}, at=at(1))]
    assert said(timeline(seen, events))[-1][2].startswith("too much to keep: 12 events and 3 log lines")


def test_logs_and_ends_of_any_shape_are_shown() -> None:
    seen = job(created_at=at(0), run_at=at(0), started_at=None)
    shapes = [
        (event("log", "LOUD", [1, 2], at=at(1)), "LOUD [1,2]"),
        (event("log", "INFO", None, at=at(1)), "INFO null"),
        (event("log", "INFO", {"message": 7}, at=at(1)), "INFO 7"),
        (event("event", "x", {}, at=at(1)), "x"),
        (event("event", "x", [0], at=at(1)), "x [0]"),
        (event("status", "pending", None, at=at(1)), "handed back"),
        (event("status", "pending", {"cause": "failed", "run_at": "infinity"}, at=at(1)), "failed"),
        (event("status", "cancelled", {"cause": "expired"}, at=at(1)), "cancelled, expired"),
        (event("status", "pending", {"cause": "worker died", "run_at": at(0).isoformat()}, at=at(1)), "worker died; again at once"),
        (
            event(
                "status",
                "pending",
                {"cause": "worker died", "worker": "w1", "error": "worker w1 died", "run_at": at(0).isoformat()},
                at=at(1),
            ),
            "lost, worker w1 died; again at once",
        ),
    ]  # fmt: skip
    for each, expected in shapes:
        assert said(timeline(seen, [each]))[-1][2] == expected
