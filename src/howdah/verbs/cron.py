"""When a schedule fires: arithmetic on moments, without a database.

A rhythm is a cron expression, in the wall clock of a time zone, or a duration that is counted in UTC from an anchor.
When clocks change it does what Debian's cron does:

- a schedule at fixed times (no field of its time begins with a star) fires once for each: a time that
  the clock skips fires right after the gap, and one that it shows twice fires the first time;
- any other follows the wall clock: a skipped time does not fire, and a repeated one fires twice.

``cronsim`` parses the expressions and walks the calendar, in plain wall time. Time zones are applied here,
because its own walk loses times when a clock moves by half an hour, and goes back inside a repeated hour.
"""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import zoneinfo
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from howdah.checks import options
from howdah.checks.options import Seconds
from howdah.errors import InvalidOption
from howdah.model.schedule import MISSED, Missed

LIMIT: Final = 1_000
TOLERANCE: Final = timedelta(seconds=30)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SOME_DAY: Final = datetime(2000, 1, 1)  # noqa: DTZ001
_SECOND: Final = timedelta(seconds=1)
_DAY: Final = timedelta(days=1)
_FIELDS: Final = "minute hour day-of-month month day-of-week, with the seconds in front if there are six"
_LONGEST_CRON: Final = 1_000
_NICKNAMES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Cron:
    """The times that match a cron expression."""

    expression: str
    timezone: ZoneInfo


@dataclasses.dataclass(frozen=True, slots=True)
class Every:
    """The times that are a whole number of durations away from the anchor."""

    span: timedelta
    anchor: datetime = _EPOCH


Rhythm: TypeAlias = Cron | Every


@dataclasses.dataclass(frozen=True, slots=True)
class Due:
    """Which instants of a schedule fire, and when it is due next."""

    instants: tuple[datetime, ...]
    next_run_at: datetime | None
    skipped: int
    """How many due instants are left out; not counted beyond the limit."""


# Rhythms of schedules


def check(cron: str | None, every: Seconds | None, timezone: str) -> Rhythm:
    """The rhythm of a new schedule. Raises InvalidOption."""
    made = rhythm(cron, every, timezone)
    # The calendar repeats within 28 years: an expression that matches no day of 50 years never does.
    if isinstance(made, Cron) and next(CronSim(made.expression, _SOME_DAY), None) is None:
        raise InvalidOption(f"cron {made.expression!r} names a day that does not exist")
    return made


def rhythm(cron: str | None, every: Seconds | None, timezone: str) -> Rhythm:
    """The rhythm of a stored schedule. Raises InvalidOption if it cannot be read."""
    if (cron is None) == (every is None):
        raise InvalidOption("a schedule needs a rhythm: either cron or every")
    zone = _zone(timezone)
    return Every(_span(every)) if every is not None else Cron(_expression(cron), zone)


def counted_from(rhythm: Rhythm, anchor: datetime) -> Rhythm:
    """The rhythm; a duration is counted from this moment."""
    return Every(rhythm.span, anchor) if isinstance(rhythm, Every) else rhythm


def missed_policy(value: object) -> Missed:
    if value not in MISSED:
        raise InvalidOption(f"missed is one of {', '.join(MISSED)}, not {options.shown(value)}")
    return value


def explain(expression: str) -> str | None:
    """A cron expression in words, if it can be read."""
    try:
        return CronSim(_expression(expression), _SOME_DAY).explain()
    except InvalidOption:
        return None


# Moments


def after(rhythm: Rhythm, moment: datetime) -> datetime | None:
    """The first instant strictly after the moment; None if there is none for fifty years."""
    return next(instants(rhythm, moment), None)


def instants(rhythm: Rhythm, moment: datetime) -> Iterator[datetime]:
    """All instants strictly after the moment, in UTC, each later than the one before it."""
    moment = moment.astimezone(timezone.utc)
    match rhythm:
        case Every():
            return _steps(rhythm, moment)
        case Cron() if _has_fixed_times(rhythm.expression):
            return _fixed_times(rhythm, moment)
        case Cron():
            return _matches_of_the_clock(rhythm, moment)


def due(
    rhythm: Rhythm,
    next_run_at: datetime,
    now: datetime,
    missed: Missed = "last",
    limit: int = LIMIT,
    tolerance: timedelta = TOLERANCE,
) -> Due:
    """Which of the instants from ``next_run_at`` up to now fire, and when the next one is.

    none: those that are not older than the tolerance. last: the latest. all: each, at most ``limit`` of
    them; the others are still due afterwards. However long ago ``next_run_at`` is, this is quick.
    """
    # In UTC: Python compares and subtracts moments of one zone by what its clock shows.
    next_run_at, now = next_run_at.astimezone(timezone.utc), now.astimezone(timezone.utc)
    if next_run_at > now:
        return Due((), next_run_at, 0)
    first = _first_to_fire(rhythm, next_run_at, now, missed, tolerance)
    fired = () if first is None else tuple(itertools.islice(_between(rhythm, first, now), limit))
    return Due(
        instants=fired,
        next_run_at=after(rhythm, fired[-1] if fired else now),
        skipped=_count_before(rhythm, next_run_at, fired[0] if fired else now + _SECOND, now, limit),
    )


def _first_to_fire(
    rhythm: Rhythm, next_run_at: datetime, now: datetime, missed: Missed, tolerance: timedelta
) -> datetime | None:
    match missed:
        case "all":
            return next_run_at
        case "last":
            return _latest(rhythm, next_run_at, now)
        case "none":
            oldest = now - tolerance
            return next_run_at if next_run_at >= oldest else after(rhythm, oldest - timedelta.resolution)


def _latest(rhythm: Rhythm, first: datetime, now: datetime) -> datetime:
    """The latest instant up to now, by binary search: there may be millions since the first."""
    earlier, later = first, now
    while later - earlier > _SECOND:
        middle = earlier + (later - earlier) / 2
        found = after(rhythm, middle)
        if found is not None and found <= now:
            earlier = found
        else:
            later = middle
    found = after(rhythm, earlier)
    return found if found is not None and found <= now else earlier


def _between(rhythm: Rhythm, first: datetime, now: datetime) -> Iterator[datetime]:
    """The first instant, and those after it up to now."""
    return itertools.takewhile(lambda each: each <= now, itertools.chain([first], instants(rhythm, first)))


def _count_before(rhythm: Rhythm, first: datetime, end: datetime, now: datetime, limit: int) -> int:
    earlier = itertools.takewhile(lambda each: each < end, _between(rhythm, first, now))
    return sum(1 for _ in itertools.islice(earlier, limit))


# Rhythms


def _steps(every: Every, moment: datetime) -> Iterator[datetime]:
    anchor = every.anchor.astimezone(timezone.utc)
    first = (moment - anchor) // every.span + 1
    return (anchor + count * every.span for count in itertools.count(first))


def _has_fixed_times(expression: str) -> bool:
    *times, _, _, _ = expression.split()
    return not any(field.startswith("*") for field in times)


def _fixed_times(cron: Cron, moment: datetime) -> Iterator[datetime]:
    last = moment
    for wall in CronSim(cron.expression, _wall(moment, cron.timezone)):
        instant = _first_time(wall, cron.timezone)
        # All times in one gap fire once, at its end. Inside a repeated hour, the wall clock goes back.
        if instant > last:
            yield instant
            last = instant


def _matches_of_the_clock(cron: Cron, moment: datetime) -> Iterator[datetime]:
    seen, end = moment.replace(microsecond=0), False
    while not end:
        end = True
        offset = _offset(seen + _SECOND, cron.timezone)
        for wall in CronSim(cron.expression, seen.replace(tzinfo=None) + offset):
            instant = (wall - offset).replace(tzinfo=timezone.utc)
            change = _first_change(seen, instant, offset, cron.timezone)
            if change is not None:
                # The clock changes here: start again from what it shows then.
                seen, end = change - _SECOND, False
                break
            yield instant
            seen = instant


# Zones


def _wall(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def _offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta(0)


def _first_time(wall: datetime, zone: ZoneInfo) -> datetime:
    """When the clock shows this for the first time; the end of the gap if it skips it."""
    instant = wall.replace(tzinfo=zone).astimezone(timezone.utc)
    if _wall(instant, zone) == wall:
        return instant
    before_the_gap = wall.replace(tzinfo=zone, fold=1).astimezone(timezone.utc)
    return _first_change(before_the_gap, instant, _offset(before_the_gap, zone), zone) or instant


def _first_change(start: datetime, end: datetime, offset: timedelta, zone: ZoneInfo) -> datetime | None:
    """The first moment after the start, up to the end, at which the zone has another offset than this.

    Looked for day by day: no zone changes its clock and changes it back within one.
    """
    while start < end:
        later = min(start + _DAY, end)
        if _offset(later, zone) != offset:
            return _boundary(start, later, offset, zone)
        start = later
    return None


def _boundary(before: datetime, behind: datetime, offset: timedelta, zone: ZoneInfo) -> datetime:
    while behind - before > _SECOND:
        middle = (before + (behind - before) / 2).replace(microsecond=0)
        if _offset(middle, zone) == offset:
            before = middle
        else:
            behind = middle
    return behind


# Fields


def _expression(cron: object) -> str:
    expression = " ".join(options.text(cron, "cron").split())
    if len(expression) > _LONGEST_CRON:
        raise InvalidOption(f"cron has {len(expression):,} characters; {_LONGEST_CRON:,} are allowed")
    if expression.startswith("@"):
        return _nickname(expression)
    try:
        CronSim(expression, _SOME_DAY)
    except (CronSimError, ValueError, AssertionError) as error:
        complaint = str(error)[:1].lower() + str(error)[1:] if isinstance(error, CronSimError) else "not readable"
        raise InvalidOption(
            f"cron {options.shown(expression)}: {complaint}. The fields are {_FIELDS}: '30 6 * * MON-FRI'"
        ) from error
    return expression


def _nickname(name: str) -> str:
    if name.lower() in _NICKNAMES:
        return _NICKNAMES[name.lower()]
    why = "jobs do not follow the starts of a machine" if name.lower() == "@reboot" else "there is no such name"
    raise InvalidOption(f"cron {options.shown(name)}: {why}. The names are {', '.join(_NICKNAMES)}")


def _span(every: Seconds) -> timedelta:
    span = options.span(every, "every")
    if span < _SECOND:
        raise InvalidOption(f"every is {options.shown(every)}; it must be at least a second")
    return span


def _zone(name: object) -> ZoneInfo:
    key = options.name(name, "timezone", 100)
    try:
        return ZoneInfo(key)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        near = difflib.get_close_matches(key, sorted(zoneinfo.available_timezones()), n=1)
        hint = f"did you mean {near[0]!r}?" if near else "it is a name such as 'Europe/Berlin' or 'UTC'"
        raise InvalidOption(f"there is no time zone {options.shown(key)} here: {hint}") from error
