"""Where a job stands, in words: how far it is, how fast, until when, and behind whom."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from howdah.cli.arguments.datetimes import is_endless, now
from howdah.cli.arguments.duration import format_span
from howdah.model.job import Job
from howdah.model.progress import Progress

if TYPE_CHECKING:
    from howdah.model.results import QueuePosition

_SHORT: Final = 8
_UNITS: Final = (("s", 1), ("min", 60), ("h", 3_600))
_NOTHING: Final = timedelta()


def short_id(job_id: uuid.UUID) -> str:
    """Its end, which is random: the beginnings of ids that were made together are the same."""
    return f"…{str(job_id)[-_SHORT:]}"


def amount(number: float) -> str:
    """A number as it was counted, without digits that say nothing."""
    return f"{number:,.12g}"


def counted(record: Progress) -> str:
    """How much is done, and of how much."""
    if record.done is None:
        return ""
    return amount(record.done) if record.total is None else f"{amount(record.done)}/{amount(record.total)}"


def speed(record: Progress) -> str:
    """How much is done in a second; of what takes longer, in a minute or in an hour."""
    if not record.rate:
        return ""
    unit, seconds = next((each for each in _UNITS if record.rate * each[1] >= 1), _UNITS[-1])
    rate = record.rate * seconds
    return f"{rate:,.0f}/{unit}" if rate >= 100 else f"{rate:.2g}/{unit}"


def time_left(job: Job) -> str:
    """In how long it will be done; nothing of one that does not run, has fallen silent, or is late."""
    if job.record is None or job.record.finishes_at is None or not goes_on(job):
        return ""
    left = job.record.finishes_at - now()
    return format_span(left) if left > _NOTHING else ""


def goes_on(job: Job) -> bool:
    return job.status in ("claimed", "running") and not job.stalled and _is_of_this_attempt(job)


def percent(job: Job) -> float:
    """As fine as it was reported; what an attempt before this one has reached does not count."""
    if job.record is None or job.ended or not _is_of_this_attempt(job):
        return job.percent
    return job.record.percent


def silence(job: Job) -> str:
    """For how long a stalled job has said nothing."""
    return "" if job.record is None else format_span(max(now() - job.record.last_report_at, _NOTHING))


def describe_running(job: Job) -> str:
    """What a held job is doing: its stage, and what there is to say of it."""
    said = [job.current_stage] if job.current_stage else []
    if job.stalled:
        said.insert(0, f"stalled, silent for {silence(job)}")
    if job.cancel_requested_at is not None:
        said.insert(0, "asked to stop")
    if job.attempts > 1:
        said.append(f"attempt {job.attempts}/{job.max_attempts}")
    return ", ".join(said)


def describe_waiting(job: Job, place: QueuePosition | None) -> str:
    """What a pending job waits for."""
    if is_endless(job.run_at):
        return "waits for other jobs"
    again = f"attempt {job.attempts + 1} of {job.max_attempts}" if job.attempts else ""
    if job.run_at > now():
        return f"{again or 'due'} in {format_span(job.run_at - now())}"
    return ", ".join(said for said in (again, "" if place is None else describe_place(place)) if said)


def describe_place(place: QueuePosition) -> str:
    """How many come before it, and when it starts, or why that cannot be said."""
    before = f"{'' if place.exact else 'more than '}{place.ahead:,} before it" if place.ahead else ""
    wait = _NOTHING if place.starts_at is None else place.starts_at - now()
    when = f"starts in about {format_span(wait)}" if wait > _NOTHING else place.because or ""
    return ", ".join(said for said in (before, when) if said) or "the next of its type"


def _is_of_this_attempt(job: Job) -> bool:
    return job.record is not None and job.record.attempt == job.attempts
