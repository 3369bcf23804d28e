"""The place of a job in its lane, and when it will start, if that can be estimated."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest
from psycopg.types.json import Jsonb

from tests.clock import TestClock
from tests.conftest import Db
from tests.sql.holding import claim, hold

NO_WORKER = "no live worker handles this type"
NOT_MEASURED = "no worker has measured the throughput of this type yet"


class Place(NamedTuple):
    ahead: int
    exact: bool
    per_second: float | None
    starts_at: datetime | None
    because: str | None


def place(db: Db, job: uuid.UUID) -> Place | None:
    rows = db.execute("SELECT * FROM queue_position(%s)", (job,)).fetchall()
    assert len(rows) <= 1
    return Place(**rows[0]) if rows else None


def ahead(db: Db, *jobs: uuid.UUID) -> list[int | None]:
    return [found.ahead if (found := place(db, job)) else None for job in jobs]


def enqueue(db: Db, job_type: str = "x", **options: Any) -> uuid.UUID:
    named = "".join(f", p_{name} => %({name})s" for name in options)
    row = db.execute(f"SELECT id FROM enqueue(%(type)s{named})".encode(), {"type": job_type, **options}).fetchone()
    assert row is not None
    assert isinstance(row["id"], uuid.UUID)
    return row["id"]


def work(db: Db, worker: str, pace: dict[str, float] | None = None, job_types: tuple[str, ...] = ("x",)) -> None:
    """Register a live worker with this throughput for each type."""
    boot = uuid.uuid4()
    db.execute("SELECT register_worker(%s, %s, '15 s', p_job_types => %s::varchar[])", (worker, boot, list(job_types)))
    measured = {job_type: {"per_second": rate, "run": 1, "wait": 1} for job_type, rate in (pace or {}).items()}
    db.execute("SELECT heartbeat(%s, %s, p_throughput => %s)", (worker, boot, Jsonb(measured) if pace else None))


def test_those_come_before_it_that_a_claim_would_take_before_it(db: Db, clock: TestClock) -> None:
    low = enqueue(db, priority=30)
    first, second = enqueue(db), enqueue(db)
    high = enqueue(db, priority=150)
    early = enqueue(db, run_at=clock.now - timedelta(hours=1))
    enqueue(db, "other", priority=200)
    enqueue(db, priority=200, delay=timedelta(hours=1))
    jobs = (high, early, first, second, low)
    assert ahead(db, *jobs) == [0, 1, 2, 3, 4]
    claimed = db.execute("SELECT id FROM claim('w', ARRAY['x'], 2)").fetchall()
    assert [row["id"] for row in claimed] == [high, early]
    assert ahead(db, *jobs) == [None, None, 0, 1, 2]


def test_a_job_without_attempts_left_does_not_count_as_ahead(db: Db) -> None:
    spent = enqueue(db)
    db.execute("UPDATE live SET attempts = max_attempts WHERE id = %s", (spent,))
    assert ahead(db, enqueue(db)) == [0]


@pytest.mark.parametrize("status", ["claimed", "running", "completed", "cancelled", "unknown"])
def test_only_what_waits_has_a_place(db: Db, status: str) -> None:
    (job,) = hold(db, start=int(status != "claimed"))
    if status == "completed":
        db.execute("SELECT complete(ARRAY[%s], ARRAY[%s])", job)
    elif status == "cancelled":
        db.execute("SELECT cancel_held(ARRAY[%s], ARRAY[%s])", job)
    assert place(db, uuid.uuid4() if status == "unknown" else job.id) is None


def test_it_starts_when_those_before_it_are_done_at_the_pace_of_all_workers(db: Db, clock: TestClock) -> None:
    for _ in range(30):
        last = enqueue(db)
    work(db, "w1", {"x": 4.0, "y": 100.0})
    work(db, "w2", {"x": 2.0})
    work(db, "new")
    work(db, "elsewhere", {"x": 50.0}, job_types=("y",))
    assert place(db, last) == (29, True, 6.0, clock.now + timedelta(seconds=29 / 6), None)


def test_a_dead_worker_does_not_count(db: Db, clock: TestClock) -> None:
    jobs = [enqueue(db) for _ in range(11)]
    work(db, "dead", {"x": 4.0})
    clock.advance(10)
    work(db, "alive", {"x": 1.0})
    clock.advance(10)
    assert place(db, jobs[-1]) == (10, True, 1.0, clock.now + timedelta(seconds=10), None)
    clock.advance(10)
    assert place(db, jobs[-1]) == (10, True, None, None, NO_WORKER)


def test_a_worker_keeps_its_pace_while_it_does_not_mention_it(db: Db, clock: TestClock) -> None:
    jobs = [enqueue(db) for _ in range(3)]
    boot = uuid.uuid4()
    db.execute("SELECT register_worker('w', %s, p_job_types => '{x}')", (boot,))
    db.execute("SELECT heartbeat('w', %s, p_throughput => %s)", (boot, Jsonb({"x": {"per_second": 2}})))
    db.execute("SELECT heartbeat('w', %s)", (boot,))
    found = place(db, jobs[-1])
    assert found is not None
    assert found.starts_at == clock.now + timedelta(seconds=1)


def test_the_first_starts_at_once_however_little_is_known(db: Db, clock: TestClock) -> None:
    first, second = enqueue(db), enqueue(db)
    work(db, "w")
    assert place(db, first) == (0, True, None, clock.now, None)
    assert place(db, second) == (1, True, None, None, NOT_MEASURED)
    work(db, "w", {"x": 0.0})
    assert place(db, second) == (1, True, 0.0, None, NOT_MEASURED)


def test_what_is_scheduled_starts_no_earlier(db: Db, clock: TestClock) -> None:
    work(db, "w", {"x": 1.0})
    later, latest = enqueue(db, delay=timedelta(hours=1)), enqueue(db, delay=timedelta(hours=2))
    urgent_then = enqueue(db, delay=timedelta(minutes=90), priority=150)
    assert ahead(db, later, latest, urgent_then) == [0, 2, 0]
    assert place(db, later) == (0, True, 1.0, clock.now + timedelta(hours=1), None)
    assert ahead(db, enqueue(db)) == [0]


def test_why_the_start_is_unknown(db: Db) -> None:
    waits = enqueue(db, "y")
    db.execute("UPDATE live SET run_at = 'infinity' WHERE id = %s", (waits,))
    job = enqueue(db)
    reasons = [place(db, waits), place(db, job)]
    work(db, "w", {"x": 1.0})
    db.execute("SELECT pause_type('x')")
    reasons.append(place(db, job))
    assert [reason and (reason.starts_at, reason.because) for reason in reasons] == [
        (None, "it waits for other jobs"),
        (None, NO_WORKER),
        (None, "its type is paused"),
    ]
    db.execute("SELECT resume_type('x')")
    found = place(db, job)
    assert found is not None
    assert found.starts_at is not None


def test_a_start_in_the_far_future_is_limited(db: Db) -> None:
    enqueue(db)
    last = enqueue(db)
    for pace in (1e-5, 1e-300, 5e-324):
        work(db, "w", {"x": pace})
        found = place(db, last)
        assert found is not None
        assert found.starts_at is not None


def test_of_an_ordered_type_all_before_it_are_waited_for(db: Db, clock: TestClock) -> None:
    """Running or backing off: none is overtaken."""
    db.execute("SELECT declare_type('x', p_ordered => true)")
    first, second, third = enqueue(db), enqueue(db), enqueue(db)
    work(db, "w", {"x": 0.5})
    assert ahead(db, first, second, third) == [0, 1, 2]
    (held,) = claim(db)
    assert ahead(db, first, second, third) == [None, 1, 2]
    db.execute("SELECT fail(ARRAY[%s], ARRAY[%s], ARRAY['boom'], p_delays => ARRAY[interval '1 hour'])", held)
    assert ahead(db, first, second, third) == [0, 1, 2]
    assert place(db, third) == (
        2,
        True,
        0.5,
        clock.now + timedelta(hours=1, seconds=4),
        f"job {first} of its type comes first, and waits for its retry",
    )
    urgent = enqueue(db, priority=150)
    assert ahead(db, urgent, first, second) == [0, 1, 2]


# What a job with a flow key waits for


def because(db: Db, job: uuid.UUID) -> str | None:
    found = place(db, job)
    assert found is not None
    return found.because


@pytest.mark.parametrize(
    ("declared", "set_limit", "expected"),
    [
        ("", "p_job_type => 'x', p_running => 2", "2 of 2 jobs of its type are running"),
        (", p_per => 'c', p_limit => 2", None, "2 of 2 jobs of its key 'acme' are running"),
        (", p_per => 'c'", "p_job_type => 'x', p_flow_key => 'acme', p_running => 1", "2 of 1 jobs of its key 'acme' are running"),
        (", p_per => 'c', p_groups => '{smtp}'", "p_group => 'smtp', p_running => 2", "2 of 2 jobs of the group smtp are running"),
        (", p_per => 'c', p_ordered => true", "p_job_type => 'x', p_each_key => true, p_running => 0", "2 of 0 jobs of its key 'acme' are running"),
    ],
)  # fmt: skip
def test_a_limit_that_is_reached(db: Db, declared: str, set_limit: str | None, expected: str) -> None:
    work(db, "w", {"x": 1.0})
    acme = [enqueue(db, data=Jsonb({"c": "acme"})) for _ in range(3)]
    assert len(claim(db, 2)) == 2
    db.execute(f"SELECT declare_type('x'{declared})".encode())
    if set_limit is not None:
        db.execute(f"SELECT set_limit({set_limit})".encode())
    db.execute("SELECT recover()")
    assert because(db, acme[-1]) == expected


def test_a_key_that_is_paused(db: Db) -> None:
    work(db, "w", {"x": 1.0})
    acme, bolt = enqueue(db, flow_key="acme"), enqueue(db, flow_key="bolt")
    db.execute("SELECT pause_key('x', 'acme')")
    assert (because(db, acme), because(db, bolt)) == ("its key 'acme' is paused", None)


def test_the_job_of_its_key_that_comes_first_is_named(db: Db, clock: TestClock) -> None:
    work(db, "w", {"x": 0.5})
    db.execute("SELECT declare_type('x', p_per => 'c', p_ordered => true)")
    first, second, later = (enqueue(db, data=Jsonb({"c": "acme"}), delay=timedelta(hours=hours)) for hours in (0, 0, 2))
    other = enqueue(db, data=Jsonb({"c": "bolt"}))
    assert [because(db, job) for job in (first, second, later, other)] == [
        None,
        f"job {first} of its key 'acme' comes first",
        None,
        None,
    ]
    held = next(job for job in claim(db, 2) if job.id == first)
    assert because(db, second) == f"job {first} of its key 'acme' is running"
    found = place(db, second)
    assert found is not None
    assert found.starts_at == clock.now + timedelta(seconds=2), "which is known nevertheless"
    db.execute("SELECT fail(ARRAY[%s], ARRAY[%s], ARRAY['boom'], p_delays => ARRAY[interval '1 hour'])", held)
    assert because(db, second) == f"job {first} of its key 'acme' comes first, and waits for its retry"
    db.execute("SELECT declare_type('x', p_per => 'c', p_ordered => true, p_order_skips => true)")
    assert because(db, second) is None


def test_too_many_to_be_counted(db: Db) -> None:
    enqueue_many = "SELECT enqueue_many('x', array_fill('{}'::jsonb, ARRAY[%s::int]))"
    db.execute(enqueue_many, (100_000,))
    work(db, "w", {"x": 1.0})
    last = enqueue(db)
    found = place(db, last)
    assert found is not None
    assert (found.ahead, found.exact, found.because) == (100_000, True, None)
    db.execute(enqueue_many, (1,))
    db.execute("SELECT reschedule(ARRAY[%s])", (last,))
    last = enqueue(db)
    found = place(db, last)
    assert found is not None
    assert (found.ahead, found.exact, found.starts_at) == (100_000, False, None)
    assert found.because == "there are too many jobs before it to count"


@pytest.mark.parametrize("run_at", ["294276-12-31 23:59:59+00", "290000-01-01 00:00:00+00", "infinity"])
def test_a_job_of_the_end_of_time_has_a_place(db: Db, run_at: str) -> None:
    work(db, "w", {"x": 0.001})
    jobs = [enqueue(db, run_at=run_at) for _ in range(3)]
    row = db.execute(
        "SELECT ahead, starts_at >= %s AS later, because FROM queue_position(%s)", (run_at, jobs[-1])
    ).fetchone()
    because = "it waits for other jobs" if run_at == "infinity" else None
    assert row == {"ahead": 2, "later": None if because else True, "because": because}
