"""Schedules from Python: the verbs, and when they fire."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest
from psycopg import errors

from howdah import (
    HowdahError,
    InvalidArguments,
    InvalidJobType,
    InvalidOption,
    InvalidPayload,
    Job,
    JobQueue,
    PayloadTooLarge,
    Schedule,
    ScheduleNotFound,
)
from howdah.checks.context import Context
from howdah.db.plan import Call
from howdah.handlers.retry import Fixed
from howdah.model.codec import PLAIN
from howdah.verbs.schedules import FireReport, fire_due
from tests.client.test_codec import Sealing, SealingText
from tests.clock import TestClock
from tests.conftest import Db

MINUTE, HOUR, DAY = (timedelta(seconds=n) for n in (60, 3_600, 86_400))
NOON = datetime(2026, 11, 15, 12, 0, tzinfo=timezone.utc)


def look(queue: JobQueue) -> FireReport:
    """What a worker does."""
    return queue._database.run(fire_due(queue._context))


def move_to(clock: TestClock, moment: datetime) -> None:
    # In UTC, where an hour is an hour.
    clock.now = clock.now.astimezone(timezone.utc)
    clock.advance((moment - clock.now).total_seconds())


def at_noon(clock: TestClock) -> None:
    move_to(clock, NOON)


def fired(queue: JobQueue, job_type: str = "report") -> list[datetime]:
    return sorted(job.run_at for job in queue.list(job_type=job_type, limit=1_000))


# The verbs


def test_a_schedule_comes_back_as_it_was_asked_for(queue: JobQueue, clock: TestClock) -> None:
    at_noon(clock)
    made = queue.schedules.set(
        "weekdays",
        "report",
        {"kind": "daily"},
        cron="30  6 * * mon-fri",
        timezone="Europe/Berlin",
        missed="all",
        overlap=False,
        priority=7,
        max_attempts=9,
        timeout=60,
        retry_policy=Fixed(30),
    )
    assert made == Schedule(
        name="weekdays",
        job_type="report",
        data={"kind": "daily"},
        cron="30 6 * * mon-fri",
        every=None,
        timezone="Europe/Berlin",
        missed="all",
        overlap=False,
        options={
            "priority": 7,
            "max_attempts": 9,
            "timeout": MINUTE,
            "retry_policy": {"kind": "fixed", "delay": 30, "jitter": 0},
        },
        next_run_at=datetime(2026, 11, 16, 5, 30, tzinfo=timezone.utc),
        last_run_at=None,
        last_job_id=None,
        paused=False,
        created_at=NOON,
        created=True,
    )
    assert queue.schedules.get("weekdays") == dataclasses.replace(made, created=False)


def test_a_span_is_counted_from_the_moment_of_creation(queue: JobQueue, clock: TestClock) -> None:
    made = queue.schedules.set("pulse", "beat", every=timedelta(minutes=5))
    assert (made.every, made.cron, made.data, made.options) == (5 * MINUTE, None, {}, {})
    assert made.next_run_at == clock.now + 5 * MINUTE
    assert queue.schedules.set("other", "beat", every=90.5).next_run_at == clock.now + timedelta(seconds=90.5)
    assert [each.name for each in queue.schedules.list()] == ["other", "pulse"]


def test_the_awaited_verbs_do_the_same(dsn: str, clock: TestClock) -> None:
    async def use() -> None:
        async with JobQueue(dsn) as queue:
            made = await queue.schedules.aset("pulse", "beat", {"n": 1}, every=60)
            assert made.created
            assert await queue.schedules.apause("pulse") is True
            assert await queue.schedules.aresume("pulse") is True
            job = await queue.schedules.arun("pulse")
            assert (job.data, job.created) == ({"n": 1}, True)
            (known,) = await queue.schedules.alist()
            assert known == await queue.schedules.aget("pulse")
            assert (known.last_job_id, known.last_run_at) == (job.id, clock.now)
            assert await queue.schedules.adelete("pulse") is True
            with pytest.raises(ScheduleNotFound):
                await queue.schedules.apause("pulse")

    asyncio.run(use())


def test_an_unknown_name(queue: JobQueue) -> None:
    for verb in (queue.schedules.get, queue.schedules.pause, queue.schedules.resume, queue.schedules.run):
        with pytest.raises(ScheduleNotFound, match=r"no schedule '?nowhere'?") as unknown:
            verb("nowhere")
        assert isinstance(unknown.value, HowdahError)
        assert isinstance(unknown.value, LookupError)
    assert queue.schedules.delete("nowhere") is False


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"name": ""}, InvalidOption),
        ({"name": "x" * 101}, InvalidOption),
        ({"job_type": "a\nb"}, InvalidJobType),
        ({"data": {1, 2}}, InvalidPayload),
        ({"data": "x" * 70_000}, PayloadTooLarge),
        ({"cron": "* * * *"}, InvalidOption),
        ({"every": 5}, InvalidOption),
        ({"timezone": "Mars/Olympus"}, InvalidOption),
        ({"missed": "some"}, InvalidOption),
        ({"overlap": "no"}, InvalidOption),
        ({"priority": 1.5}, InvalidOption),
        ({"max_attempts": 0}, InvalidOption),
        ({"timeout": 0}, InvalidOption),
        ({"retry_policy": "often"}, InvalidOption),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_before_anything_is_sent(change: dict[str, Any], error: type[Exception]) -> None:
    asked: dict[str, Any] = {"name": "a", "job_type": "b", "data": None, "cron": "* * * * *", **change}
    with JobQueue("host=/nowhere") as nowhere, pytest.raises(error):
        nowhere.schedules.set(asked.pop("name"), asked.pop("job_type"), asked.pop("data"), **asked)


def test_the_data_must_fit_the_handler_where_it_is_known(queue: JobQueue) -> None:
    @queue.job
    def greet(name: str) -> None: ...

    with pytest.raises(InvalidArguments, match="name"):
        queue.schedules.set("morning", "greet", {"nam": "Ann"}, cron="0 7 * * *")
    assert queue.schedules.list() == []
    assert queue.schedules.set("morning", "greet", {"name": "Ann"}, cron="0 7 * * *").created


def test_a_policy_that_is_none_is_refused_by_the_database(queue: JobQueue) -> None:
    with pytest.raises(InvalidOption):
        queue.schedules.set("a", "b", every=5, retry_policy={"kind": "never"})
    assert queue.schedules.list() == []


def test_a_schedule_is_part_of_the_callers_transaction(dsn: str, queue: JobQueue) -> None:
    with psycopg.connect(dsn) as conn:
        queue.schedules.set("pulse", "beat", every=5, conn=conn)
        assert queue.schedules.get("pulse", conn=conn).created is False
        conn.rollback()
    assert queue.schedules.list() == []


@pytest.mark.parametrize("codec", [Sealing(), SealingText()], ids=["object", "text"])
def test_a_codec_seals_the_data_from_the_schedule_to_the_handler(
    dsn: str, db: Db, clock: TestClock, codec: Any
) -> None:
    with JobQueue(dsn, codec=codec) as queue:
        assert queue.schedules.set("pulse", "beat", {"secret": "hunter2"}, every=60).data == {"secret": "hunter2"}
        assert queue.schedules.get("pulse").data == {"secret": "hunter2"}
        assert "hunter2" not in str(db.execute("SELECT * FROM schedules").fetchall())
        assert queue.schedules.run("pulse").data == {"secret": "hunter2"}
        clock.advance(60)
        # The worker that fires it need not be able to read it.
        with JobQueue(dsn) as keyless:
            assert look(keyless).fired == 1
        assert [job.data for job in queue.claim(["beat"])] == [{"secret": "hunter2"}] * 2
        assert "hunter2" not in str(db.execute("SELECT * FROM live").fetchall())


# In time


@pytest.mark.parametrize(("missed", "expected"), [("none", []), ("last", [3]), ("all", [1, 2, 3])])
def test_fires_that_were_missed(queue: JobQueue, clock: TestClock, missed: Any, expected: list[int]) -> None:
    at_noon(clock)
    queue.schedules.set("hourly", "report", cron="0 * * * *", missed=missed)
    clock.advance(3 * 3_600 + 1_800)
    report = look(queue)
    assert fired(queue) == [NOON + n * HOUR for n in expected]
    assert report == FireReport(fired=len(expected), skipped=3 - len(expected), next_in=1_800)
    known = queue.schedules.get("hourly")
    assert known.next_run_at == NOON + 4 * HOUR
    assert known.last_run_at == (NOON + 3 * HOUR if expected else None)
    clock.advance(1_810)
    assert look(queue).fired == 1
    assert fired(queue)[-1] == NOON + 4 * HOUR


def test_a_fired_job_names_its_schedule(queue: JobQueue, clock: TestClock) -> None:
    at_noon(clock)
    queue.schedules.set("hourly", "report", {"a": 1}, cron="0 * * * *", max_attempts=2)
    clock.advance(3_605)
    look(queue)
    (job,) = queue.claim(["report"])
    assert (job.data, job.max_attempts, job.run_at) == ({"a": 1}, 2, NOON + HOUR)
    assert job.meta == {"schedule": "hourly", "scheduled_for": (NOON + HOUR).isoformat()}
    assert queue.schedules.get("hourly").last_job_id == job.id


def test_a_thousand_at_a_time_are_made_up_for(queue: JobQueue, clock: TestClock) -> None:
    queue.schedules.set("tick", "beat", every=1, missed="all")
    clock.advance(2_500)
    reports = [look(queue) for _ in range(4)]
    assert [report.fired for report in reports] == [1_000, 1_000, 500, 0]
    assert [report.next_in for report in reports] == [0, 0, 1, 1]
    assert queue.stats()["beat"].pending == 2_500


@pytest.mark.parametrize(("month", "day", "hours"), [(10, 27, 25), (3, 31, 23)], ids=["autumn", "spring"])
def test_the_nights_in_which_clocks_change(queue: JobQueue, clock: TestClock, month: int, day: int, hours: int) -> None:
    """A fixed time fires once a day, a star follows the clock on the wall."""
    berlin = ZoneInfo("Europe/Berlin")
    midnight = datetime(2030, month, day, tzinfo=berlin)
    move_to(clock, midnight.astimezone(timezone.utc))
    queue.schedules.set("fixed", "fixed", cron="30 2 * * *", timezone="Europe/Berlin", missed="all")
    queue.schedules.set("star", "star", cron="30 * * * *", timezone="Europe/Berlin", missed="all")
    move_to(clock, (midnight + DAY).astimezone(timezone.utc))
    look(queue)
    (once,) = fired(queue, "fixed")
    assert once.astimezone(berlin).strftime("%H:%M") == ("02:30" if hours == 25 else "03:00")
    assert len(fired(queue, "star")) == hours


def test_a_paused_schedule_does_not_fire_and_makes_up_for_nothing(queue: JobQueue, clock: TestClock) -> None:
    at_noon(clock)
    queue.schedules.set("hourly", "report", cron="0 * * * *", missed="all")
    queue.schedules.set("span", "span", every=3_600, missed="all")
    for name in ("hourly", "span"):
        assert queue.schedules.pause(name) is True
        assert queue.schedules.pause(name) is False
    clock.advance(5 * 3_600 + 600)
    assert look(queue) == FireReport(fired=0, skipped=0, next_in=None)
    for name in ("hourly", "span"):
        assert queue.schedules.get(name).paused
        assert queue.schedules.resume(name) is True
        assert queue.schedules.resume(name) is False
        # A span stays on its beat.
        assert queue.schedules.get(name).next_run_at == NOON + 6 * HOUR
    assert look(queue) == FireReport(fired=0, skipped=0, next_in=3_000)
    clock.advance(3_000)
    assert look(queue).fired == 2


def test_a_change_takes_effect_with_the_next_fire(queue: JobQueue, clock: TestClock) -> None:
    at_noon(clock)
    queue.schedules.set("hourly", "report", {"version": 1}, cron="0 * * * *", missed="all")
    clock.advance(3_600 + 60)
    changed = queue.schedules.set("hourly", "report", {"version": 2}, cron="0 * * * *", missed="all")
    # The same rhythm: what was due already is not lost by the change.
    assert (changed.created, changed.next_run_at) == (False, NOON + HOUR)
    look(queue)
    assert [job.data for job in queue.claim(["report"])] == [{"version": 2}]
    changed = queue.schedules.set("hourly", "report", {"version": 2}, cron="30 * * * *", missed="all")
    assert (changed.next_run_at, changed.last_run_at) == (NOON + HOUR + 30 * MINUTE, NOON + HOUR)


def test_without_overlap_a_fire_is_skipped_while_the_last_job_is_live(queue: JobQueue, clock: TestClock) -> None:
    queue.schedules.set("slow", "report", every=60, overlap=False)
    clock.advance(60)
    assert look(queue).fired == 1
    (job,) = queue.claim(["report"])
    clock.advance(60)
    assert look(queue) == FireReport(fired=0, skipped=1, next_in=60)
    by_hand = queue.schedules.run("slow")
    assert (by_hand.id, by_hand.created) == (job.id, False)
    queue.complete(job)
    clock.advance(60)
    assert look(queue).fired == 1


def test_a_run_by_hand(queue: JobQueue, clock: TestClock) -> None:
    made = queue.schedules.set("hourly", "report", {"a": 1}, every=3_600)
    job = queue.schedules.run("hourly")
    assert isinstance(job, Job)
    assert (job.data, job.status, job.run_at, job.created) == ({"a": 1}, "pending", clock.now, True)
    assert queue.schedules.get("hourly").next_run_at == made.next_run_at


def test_a_deleted_schedule_leaves_its_jobs(queue: JobQueue, clock: TestClock) -> None:
    queue.schedules.set("pulse", "beat", every=1)
    clock.advance(1)
    look(queue)
    assert queue.schedules.delete("pulse") is True
    clock.advance(10)
    assert look(queue) == FireReport(fired=0, skipped=0, next_in=None)
    assert queue.stats()["beat"].pending == 1


# What others wrote


def test_an_unreadable_schedule_does_not_block_the_others(db: Db, queue: JobQueue, clock: TestClock) -> None:
    db.execute("SELECT schedule('a bad cron', 'x', p_cron => 'every full moon')")
    db.execute("SELECT schedule('a bad zone', 'x', p_cron => '* * * * *', p_timezone => 'Mars/Olympus')")
    db.execute("SELECT schedule('a bad type', 'x', p_every => '1 second')")
    db.execute("UPDATE schedules SET job_type = E'a\\tb' WHERE name = 'a bad type'")
    db.execute("SELECT schedule('a bad time', 'x', p_cron => '* * * * *', p_timezone => 'America/New_York')")
    db.execute(
        "UPDATE schedules SET next_run_at = '0001-01-01 00:00+00', next_run_known = true WHERE name = 'a bad time'"
    )
    db.execute("SELECT schedule('never', 'x', p_every => '1 second', p_next_run_at => 'infinity')")
    db.execute("SELECT schedule('never before', 'x', p_every => '1 second', p_next_run_at => '-infinity')")
    queue.schedules.set("good", "beat", every=10)
    clock.advance(10)
    report = look(queue)
    assert (report.fired, report.next_in) == (1, 10)
    reasons = dict(report.errors)
    assert set(reasons) == {"a bad cron", "a bad zone", "a bad type", "a bad time"}
    assert "wrong number of fields" in reasons["a bad cron"]
    assert "no time zone 'Mars/Olympus'" in reasons["a bad zone"]
    assert "control character" in reasons["a bad type"]


@pytest.mark.parametrize("error", [errors.ReadOnlySqlTransaction, errors.AdminShutdown, errors.DeadlockDetected])
def test_an_error_of_the_database_is_not_recorded_as_one_of_the_schedule(error: type[psycopg.Error]) -> None:
    """For example after a failover: the worker must get the error, and connect elsewhere."""
    look = fire_due(Context(codec=PLAIN, max_payload_bytes=1, worker_id="w", known={}))
    next(look)
    row = {"name": "a", "cron": None, "every": HOUR, "timezone": "UTC", "missed": "last", "next_run_at": NOON}
    fire = look.send([row | {"next_run_known": True, "now": NOON}])
    assert isinstance(fire, Call)
    assert fire.function == "fire_schedule"
    with pytest.raises(error):
        look.throw(error("not now"))


def test_any_number_of_unreadable_schedules_does_not_block_the_others(
    db: Db, queue: JobQueue, clock: TestClock
) -> None:
    db.execute(
        "SELECT schedule('bad ' || n, 'x', p_cron => 'never', p_next_run_at => clock()) FROM generate_series(1, 250) AS n"
    )
    queue.schedules.set("good", "beat", every=10)
    clock.advance(10)
    report = look(queue)
    assert (report.fired, report.next_in, len(report.errors)) == (1, 10, 250)


def test_many_schedules_are_all_looked_at(queue: JobQueue, clock: TestClock) -> None:
    for number in range(130):
        queue.schedules.set(f"pulse {number}", "beat", every=10)
    clock.advance(10)
    reports = [look(queue), look(queue)]
    assert sum(report.fired for report in reports) == 130
    assert reports[-1].next_in == 10


def test_two_schedules_of_one_name_in_the_code_are_refused(queue: JobQueue) -> None:
    @queue.periodic("0 3 * * *")
    async def report() -> None: ...

    with pytest.raises(InvalidOption, match="two schedules 'report'"):

        @queue.periodic(every=60, name="report")
        async def other() -> None: ...


def test_a_schedule_that_left_the_code_is_known_by_it(queue: JobQueue, dsn: str) -> None:
    @queue.periodic("0 3 * * *")
    async def report() -> None: ...

    queue.schedules.set("by hand", "report", every=3_600)

    async def worked_with(*names: str) -> list[tuple[str, bool]]:
        """The findings about schedules while a worker whose code has these is there."""
        async with JobQueue(dsn) as own:
            for name in names:
                own.periodic("0 3 * * *", name=name)(own.job(name=name)(_nothing))
            own.job(name="something")(_nothing)
            working = asyncio.create_task(own.run_worker(heartbeat=0.1))
            try:
                while not any(worker.ready for worker in await own.aworkers()):
                    await asyncio.sleep(0.01)
                return [(each.name, each.left_code) for each in await own.schedules.alist()]
            finally:
                working.cancel()
                await asyncio.wait({working})

    assert asyncio.run(worked_with("report")) == [("by hand", False), ("report", False)]
    # Without a worker, it is unknown.
    assert not any(schedule.left_code for schedule in queue.schedules.list())
    assert asyncio.run(worked_with()) == [("by hand", False), ("report", True)]
    assert queue.schedules.get("report").declared_at is not None
    assert queue.schedules.get("by hand").declared_at is None
    assert asyncio.run(worked_with("report")) == [("by hand", False), ("report", False)]


async def _nothing() -> None: ...
