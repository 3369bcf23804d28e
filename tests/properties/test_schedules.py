"""The arithmetic of schedules, against clocks that are simply watched, minute by minute."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from calendar import monthrange
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from howdah import InvalidOption
from howdah.verbs import cron
from howdah.verbs.cron import Cron, Every, Rhythm
from tests.properties.examples import examples

UTC = timezone.utc
SECOND, MINUTE, HOUR, DAY = (timedelta(seconds=n) for n in (1, 60, 3_600, 86_400))
BEGIN, END = datetime(2025, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",  # moves by half an hour
    "Africa/Casablanca",  # moves back for Ramadan
    "Asia/Kathmandu",  # five hours and three quarters ahead, always
    "America/Santiago",  # moves at midnight
    "Antarctica/Troll",  # moves by two hours
]

LONGEST = {month: monthrange(2024, month)[1] for month in range(1, 13)}

Wall = Callable[[datetime], bool]


def offset(zone: str, moment: datetime) -> timedelta:
    return moment.astimezone(ZoneInfo(zone)).utcoffset() or timedelta()


@functools.cache
def changes(zone: str) -> list[datetime]:
    """The hours after which the zone's clock is another."""
    hours = [BEGIN + n * HOUR for n in range((END - BEGIN) // HOUR)]
    return [now for now, then in itertools.pairwise(hours) if offset(zone, now) != offset(zone, then)]


@dataclasses.dataclass(frozen=True)
class Field:
    """A field of a cron expression, and what it means."""

    text: str
    values: frozenset[int]


@st.composite
def fields(draw: st.DrawFn, least: int, most: int) -> Field:
    every, number = frozenset(range(least, most + 1)), st.integers(least, most)
    match draw(st.sampled_from(["star", "star", "step", "one", "list", "range", "range and step"])):
        case "star":
            return Field("*", every)
        case "step":
            step = draw(st.integers(2, 30))
            return Field(f"*/{step}", frozenset(range(least, most + 1, step)))
        case "one":
            value = draw(number)
            return Field(str(value), frozenset({value}))
        case "list":
            values = draw(st.lists(number, min_size=2, max_size=5))
            return Field(",".join(map(str, values)), frozenset(values))
        case shape:
            low, high = sorted((draw(number), draw(number)))
            step = draw(st.integers(2, 9)) if shape == "range and step" and high > low else 1
            text = f"{low}-{high}" if step == 1 else f"{low}-{high}/{step}"
            return Field(text, frozenset(range(low, high + 1, step)))


@dataclasses.dataclass(frozen=True)
class Watched:
    """A cron expression, and whether a wall clock that shows something matches it."""

    expression: str
    matches: Wall
    fixed: bool
    zone: str

    @property
    def rhythm(self) -> Rhythm:
        return cron.check(self.expression, None, self.zone)

    def instants(self, start: datetime, end: datetime, step: timedelta) -> list[datetime]:
        """By looking at the clock again and again, since before the last time that it may have been put back."""
        first = start.replace(second=0, microsecond=0) - 3 * HOUR
        moments = [first + n * step for n in range((end - first) // step + 1)]
        walls = [each.astimezone(ZoneInfo(self.zone)).replace(tzinfo=None, fold=0) for each in moments]
        found = self._fixed(moments, walls, step) if self.fixed else self._shown(moments, walls)
        return [each for each in found if start < each <= end]

    def _shown(self, moments: list[datetime], walls: list[datetime]) -> list[datetime]:
        return [moment for moment, wall in zip(moments, walls, strict=True) if self.matches(wall)]

    def _fixed(self, moments: list[datetime], walls: list[datetime], step: timedelta) -> list[datetime]:
        """Each time that matches, as soon as the clock shows it or anything later."""
        latest = list(itertools.accumulate(walls, max))
        found = []
        for earlier, (moment, reached) in zip(latest, zip(moments[1:], latest[1:], strict=True), strict=False):
            passed = (earlier + n * step for n in range(1, (reached - earlier) // step + 1))
            if any(map(self.matches, passed)):
                found.append(moment)
        return found


@st.composite
def watched(draw: st.DrawFn, *, seconds: bool = False) -> Watched:
    second = draw(fields(0, 59)) if seconds else Field("0", frozenset({0}))
    minute, hour = draw(fields(0, 59)), draw(fields(0, 23))
    day = draw(st.just(Field("*", frozenset(range(1, 32)))) | fields(1, 31))
    month = draw(st.just(Field("*", frozenset(range(1, 13)))) | fields(1, 12))
    assume(any(min(day.values) <= LONGEST[each] for each in month.values))

    def matches(wall: datetime) -> bool:
        return (
            wall.minute in minute.values
            and wall.hour in hour.values
            and wall.second in second.values
            and wall.day in day.values
            and wall.month in month.values
        )

    times = [second, minute, hour] if seconds else [minute, hour]
    return Watched(
        expression=" ".join(field.text for field in (*times, day, month)) + " *",
        matches=matches,
        fixed=not any(field.text.startswith("*") for field in times),
        zone=draw(st.sampled_from(ZONES)),
    )


@st.composite
def moments(draw: st.DrawFn, zone: str, around: timedelta = timedelta(days=1)) -> datetime:
    """Often near a change of the clock, where it matters."""
    near = changes(zone)
    micro = draw(st.sampled_from([0, 0, 1, 999_999])) * timedelta.resolution
    if draw(st.booleans()) and near:
        within = int(around.total_seconds())
        return draw(st.sampled_from(near)) + draw(st.integers(-within, within)) * SECOND + micro
    return BEGIN + draw(st.integers(0, int((END - BEGIN).total_seconds()))) * SECOND + micro


@st.composite
def rhythms(draw: st.DrawFn) -> Rhythm:
    if draw(st.integers(0, 4)) == 0:
        return Every(
            timedelta(seconds=draw(st.integers(1, 100_000)), microseconds=draw(st.integers(0, 999_999))),
            BEGIN + timedelta(microseconds=draw(st.integers(-(10**12), 10**12))),
        )
    return draw(watched(seconds=draw(st.booleans()))).rhythm


def zone_of(rhythm: Rhythm) -> str:
    return rhythm.timezone.key if isinstance(rhythm, Cron) else "Europe/Berlin"


def upto(rhythm: Rhythm, start: datetime, end: datetime, most: int = 5_000) -> list[datetime]:
    following = itertools.takewhile(lambda each: each <= end, cron.instants(rhythm, start))
    return list(itertools.islice(following, most))


@settings(max_examples=examples(300))
@given(data=st.data(), clock=watched())
def test_it_fires_by_the_local_time_of_its_zone(data: st.DataObject, clock: Watched) -> None:
    start = data.draw(moments(clock.zone))
    end = start + 2 * DAY
    assert upto(clock.rhythm, start, end) == clock.instants(start, end, MINUTE)


@settings(max_examples=examples(60))
@given(data=st.data(), clock=watched(seconds=True))
def test_it_does_so_to_the_second(data: st.DataObject, clock: Watched) -> None:
    start = data.draw(moments(clock.zone, around=2 * HOUR))
    end = start + 2 * HOUR
    assert upto(clock.rhythm, start, end, most=10_000) == clock.instants(start, end, SECOND)


@pytest.mark.parametrize("zone", [zone for zone in ZONES if changes(zone)])
def test_not_a_second_is_lost_or_made_up_where_the_clock_changes(zone: str) -> None:
    for change in changes(zone)[:2]:
        start, end = change - HOUR, change + 4 * HOUR
        shown = sorted({(start + n * HOUR).astimezone(ZoneInfo(zone)).hour for n in range(5)})
        for hour in shown:
            clock = Watched(f"* * {hour} * * *", functools.partial(_is_in_hour, hour), fixed=False, zone=zone)
            assert upto(clock.rhythm, start, end, most=20_000) == clock.instants(start, end, SECOND)


def _is_in_hour(hour: int, wall: datetime) -> bool:
    return wall.hour == hour


@settings(max_examples=examples(200))
@given(data=st.data(), rhythm=rhythms())
def test_instants_are_in_utc_and_each_is_later_than_the_one_before(data: st.DataObject, rhythm: Rhythm) -> None:
    start = data.draw(moments(zone_of(rhythm)))
    found = [start, *itertools.islice(cron.instants(rhythm, start), 200)]
    assert all(earlier < later for earlier, later in itertools.pairwise(found))
    assert all(each.tzinfo is UTC for each in found[1:])


@settings(max_examples=examples(200))
@given(data=st.data(), rhythm=rhythms())
def test_the_next_instant_is_the_same_from_wherever_one_looks(data: st.DataObject, rhythm: Rhythm) -> None:
    start = data.draw(moments(zone_of(rhythm)))
    following = cron.after(rhythm, start)
    if following is None:
        return
    assert following > start
    gap = (following - start) // timedelta.resolution
    between = start + data.draw(st.integers(0, gap - 1)) * timedelta.resolution
    for moment in (between, following - timedelta.resolution):
        assert cron.after(rhythm, moment) == following
    later = cron.after(rhythm, following)
    assert later is None or later > following


@settings(max_examples=examples(100))
@given(data=st.data(), rhythm=rhythms(), limit=st.integers(1, 50))
def test_with_all_no_instant_is_lost_or_doubled_however_often_one_looks(
    data: st.DataObject, rhythm: Rhythm, limit: int
) -> None:
    start = data.draw(moments(zone_of(rhythm)))
    first = cron.after(rhythm, start)
    steps = data.draw(st.lists(st.integers(0, 40_000).map(lambda s: s * SECOND), min_size=1, max_size=10))
    if first is None:
        return
    # Moments come from the database in the zone of its session.
    session = ZoneInfo(zone_of(rhythm))
    one_step = list(itertools.islice(_all_of(rhythm, first, first + sum(steps, timedelta())), 2_000))
    end = one_step[-1]
    fired: list[datetime] = []
    next_run_at: datetime | None = first
    now = first
    for step in [*steps, timedelta()]:
        while next_run_at is not None and next_run_at <= now:
            due = cron.due(rhythm, next_run_at.astimezone(session), now.astimezone(session), "all", limit)
            assert 1 <= len(due.instants) <= limit
            assert due.skipped == 0
            fired += due.instants
            next_run_at = due.next_run_at
        now = min(now + step, end)
    assert fired == one_step
    assert next_run_at == cron.after(rhythm, end)


def _all_of(rhythm: Rhythm, first: datetime, now: datetime) -> Iterator[datetime]:
    return itertools.takewhile(lambda each: each <= now, itertools.chain([first], cron.instants(rhythm, first)))


@settings(max_examples=examples(200))
@given(data=st.data(), rhythm=rhythms(), late=st.integers(0, 100_000), tolerance=st.integers(0, 100_000))
def test_last_and_none_are_parts_of_all(data: st.DataObject, rhythm: Rhythm, late: int, tolerance: int) -> None:
    start = data.draw(moments(zone_of(rhythm)))
    first = cron.after(rhythm, start)
    if first is None:
        return
    session = ZoneInfo(zone_of(rhythm))
    now = (first + late * SECOND).astimezone(session)
    first = first.astimezone(session)
    every = cron.due(rhythm, first, now, "all", limit=1_000_000).instants
    last = cron.due(rhythm, first, now, "last")
    assert last.instants == every[-1:]
    assert last.skipped == min(len(every) - 1, cron.LIMIT)
    allowed = tolerance * SECOND
    none = cron.due(rhythm, first, now, "none", limit=1_000_000, tolerance=allowed)
    oldest = now.astimezone(UTC) - allowed
    assert none.instants == tuple(each for each in every if each >= oldest)
    assert none.skipped == len(every) - len(none.instants)
    following = cron.after(rhythm, now)
    assert last.next_run_at == none.next_run_at == following


@settings(max_examples=examples(500))
@given(
    expression=st.text(max_size=30)
    | st.lists(
        st.text("0123456789*/-,#LWJANMONSUN?", min_size=1, max_size=6) | st.sampled_from(["*", "1"]),
        min_size=4,
        max_size=7,
    ).map(" ".join),
    zone=st.sampled_from(["UTC", "Europe/Berlin"]) | st.text(max_size=20),
)
def test_any_text_is_a_rhythm_or_refused_with_a_reason(expression: str, zone: Any) -> None:
    try:
        rhythm = cron.check(expression, None, zone)
    except InvalidOption as error:
        assert len(str(error)) < 500
        cron.explain(expression)
    else:
        assert cron.after(rhythm, BEGIN) is not None
        assert cron.explain(expression)
