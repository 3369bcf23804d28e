"""Values in words, for the templates: times, durations, counts, what a job waits for."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from howdah.checks.values import unreadable_mark
from howdah.model.codec import Unreadable
from howdah.model.job import Job
from howdah.model.priority import Priority
from howdah.model.results import QueuePosition

_ENDLESS_YEAR: Final = 9000
_STEPS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))

MARKS: Final[Mapping[str, str]] = {
    "pending": "○", "scheduled": "◷", "claimed": "◔", "running": "▶", "stalled": "‼", "completed": "✓", "failed": "✕",
    "cancelled": "⊘", "stopping": "◼", "paused": "‖", "waiting": "○", "skipped": "↷",
}  # fmt: skip
"""A sign for each state: a colour alone does not say it."""


def state_of(job: Job[Any], now: datetime) -> str:
    if job.stalled:
        return "stalled"
    if job.cancel_requested_at is not None and not job.ended:
        return "stopping"
    if job.status == "pending" and job.run_at > now:
        return "scheduled"
    return job.status


def duration(value: float | timedelta | None) -> str:
    """Two units at most: 1.4s, 3min 20s, 2d 4h."""
    if value is None:
        return ""
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms" if seconds >= 0.001 or not seconds else "<1ms"
    if seconds < 59.5:
        return f"{seconds:.1f}s" if seconds < 9.95 else f"{seconds:.0f}s"
    whole = round(seconds)
    for position, (length, unit) in enumerate(_STEPS):
        if whole >= length:
            rest, smaller = whole % length, (*_STEPS, (1, "s"))[position + 1]
            more = rest // smaller[0]
            return f"{whole // length}{unit}" + (f" {more}{smaller[1]}" if more else "")
    return f"{whole}s"


def lasting(begin: datetime | None, now: datetime) -> str:
    """How long something has lasted. What has begun after the page was read lasts no time yet."""
    return "" if begin is None else duration(max((now - begin).total_seconds(), 0.0))


def is_endless(moment: datetime) -> bool:
    return moment.year > _ENDLESS_YEAR


def ago(moment: datetime | None, now: datetime) -> str:
    if moment is None:
        return "never"
    if is_endless(moment):
        return "not before others"
    seconds = (now - moment).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{duration(seconds)} ago" if seconds > 0 else f"in {duration(-seconds)}"


def full(moment: datetime | None) -> str:
    if moment is None:
        return ""
    return "never" if is_endless(moment) else f"{moment.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def iso(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone(timezone.utc).isoformat(timespec="milliseconds")


def count(value: float | None) -> str:
    """A whole number with separators."""
    return "" if value is None else f"{round(value):,}"


def short(value: float | None) -> str:
    """A number in few characters: 950, 12.3k, 4.1M."""
    if value is None:
        return ""
    for length, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= length:
            scaled = value / (1e3 if unit == "k" else length)
            return f"{scaled:.1f}{unit}" if scaled < 100 else f"{scaled:.0f}{unit}"
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:.1f}"


def size(bytes_: float) -> str:
    """Bytes in few characters: 640 KiB, 48.2 MiB, 1.5 GiB."""
    for length, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if bytes_ >= length:
            return f"{bytes_ / length:.1f} {unit}" if bytes_ < 100 * length else f"{bytes_ / length:,.0f} {unit}"
    return f"{bytes_:.0f} bytes"


def rate(per_second: float | None) -> str:
    if not per_second:
        return "0/s"
    for unit, seconds in (("s", 1), ("min", 60), ("h", 3_600)):
        if per_second * seconds >= 1 or unit == "h":
            scaled = per_second * seconds
            return f"{scaled:,.0f}/{unit}" if scaled >= 10 else f"{scaled:.1f}/{unit}"
    return ""


def percent(part: float, whole: float) -> str:
    if not whole:
        return ""
    share = 100 * part / whole
    return f"{share:.0f}%" if share >= 10 or share == 0 else f"{share:.1f}%"


def priority(value: int) -> str:
    """Its name, if it has one."""
    known = {int(each): each.name.lower() for each in Priority}
    return f"{value} ({known[value]})" if value in known else str(value)


def progress_of(job: Job[Any]) -> float | None:
    """How far the attempt is, in percent; None if the job has reported nothing."""
    if job.record is None and not job.percent:
        return None
    if job.record is None or job.ended or job.record.attempt != job.attempts:
        return float(job.percent)
    return max(0.0, min(job.record.percent, 100.0))


def amounts(job: Job[Any]) -> str:
    """How much is done and of how much, and how fast."""
    record = job.record
    if record is None or record.done is None:
        return ""
    done = _amount(record.done) if record.total is None else f"{_amount(record.done)} of {_amount(record.total)}"
    return f"{done}, {rate(record.rate)}" if record.rate and not job.ended else done


def left(job: Job[Any], now: datetime) -> str:
    if job.record is None or job.record.finishes_at is None or job.stalled or job.status != "running":
        return ""
    rest = (job.record.finishes_at - now).total_seconds()
    # It stands behind the amounts.
    return f"{'· ' if amounts(job) else ''}about {duration(rest)} left" if rest > 0 else ""


def waiting(job: Job[Any], place: QueuePosition | None, now: datetime, nodes: Sequence[str] = ()) -> str:
    """What a pending job waits for, in a sentence. nodes: those of its workflow that come first."""
    if job.waits_for:
        return f"{job.waits_for[0].upper()}{job.waits_for[1:]}."
    if is_endless(job.run_at):
        more = f" and {len(nodes) - 5} more" if len(nodes) > 5 else ""
        return f"It waits for {', '.join(nodes[:5])}{more}." if nodes else "It waits for other jobs."
    if job.run_at > now:
        again = f"attempt {job.attempts + 1} of {job.max_attempts} starts" if job.attempts else "it is due"
        return f"{again[0].upper()}{again[1:]} in {duration(job.run_at - now)}."
    if place is None:
        return ""
    said = []
    if place.ahead:
        said.append(
            f"{'' if place.exact else 'More than '}{place.ahead:,} {'job' if place.ahead == 1 else 'jobs'} of its type come first"
        )
    else:
        said.append("It is the next of its type")
    if place.because:
        said.append(place.because)
    if place.starts_at is not None and place.starts_at > now:
        said.append(f"it starts in about {duration(place.starts_at - now)}")
    text = "; ".join(said)
    return f"{text[0].upper()}{text[1:]}."


def first_line(text: str | None, most: int = 160) -> str:
    line = next(iter((text or "").strip().splitlines()), "")
    return line if len(line) <= most else f"{line[: most - 1]}…"


def readable(value: Any) -> Any:
    """A value that can be shown: what the codec could not read is described."""
    return unreadable_mark(value) if isinstance(value, Unreadable) else value


def compact(value: Any, most: int = 120) -> str:
    """JSON in one line."""
    text = json.dumps(readable(value), ensure_ascii=False, default=str)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _amount(number: float) -> str:
    return f"{number:,.12g}" if math.isfinite(number) else str(number)
