"""The progress of a job: in words (how much is done, how fast, until when, its place in the queue), as a bar, and as a sparkline."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rich.progress_bar import ProgressBar
from rich.text import Text

from howdah.cli.arguments.datetimes import is_endless, now
from howdah.cli.arguments.duration import format_duration
from howdah.cli.render.output import STATUS_STYLES
from howdah.model.job import Job
from howdah.model.progress import Point, Progress

if TYPE_CHECKING:
    from howdah.model.results import QueuePosition

_SHORT: Final = 8
_UNITS: Final = (("s", 1), ("min", 60), ("h", 3_600))
_NOTHING: Final = timedelta()


def short_id(job_id: uuid.UUID) -> str:
    """The end of the id, which is random: ids that were created together begin alike."""
    return f"…{str(job_id)[-_SHORT:]}"


def amount(number: float) -> str:
    """A number without trailing digits."""
    return f"{number:,.12g}"


def counted(record: Progress) -> str:
    """How much is done, and of how much."""
    if record.done is None:
        return ""
    return amount(record.done) if record.total is None else f"{amount(record.done)}/{amount(record.total)}"


def speed(record: Progress) -> str:
    """The rate in a second; if that is below one, in a minute or in an hour."""
    if not record.rate:
        return ""
    unit, seconds = next((each for each in _UNITS if record.rate * each[1] >= 1), _UNITS[-1])
    rate = record.rate * seconds
    return f"{rate:,.0f}/{unit}" if rate >= 100 else f"{rate:.2g}/{unit}"


def time_left(job: Job) -> str:
    """In how long it will be done; empty if it is not running, has stalled, or is late."""
    if job.record is None or job.record.finishes_at is None or not is_progressing(job):
        return ""
    left = job.record.finishes_at - now()
    return format_duration(left) if left > _NOTHING else ""


def is_progressing(job: Job) -> bool:
    return job.status in ("claimed", "running") and not job.stalled and _is_of_this_attempt(job)


def percent(job: Job) -> float:
    """As it was reported by this attempt; an earlier attempt does not count."""
    if job.record is None or job.ended or not _is_of_this_attempt(job):
        return job.percent
    return job.record.percent


def silence(job: Job) -> str:
    """For how long a stalled job has reported nothing."""
    return "" if job.record is None else format_duration(max(now() - job.record.last_report_at, _NOTHING))


def describe_running(job: Job) -> str:
    """The state of a claimed or running job: its stage, and what is unusual."""
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
    said = job.waits_for or (None if place is None else place.because) or ""
    if is_endless(job.run_at) or said.startswith(("it waits for", "it sleeps")):
        return said.removeprefix("it ") or "waits for other jobs"
    again = f"attempt {job.attempts + 1} of {job.max_attempts}" if job.attempts else ""
    if job.run_at > now():
        return f"{again or 'due'} in {format_duration(job.run_at - now())}"
    return ", ".join(said for said in (again, "" if place is None else describe_place(place)) if said)


def describe_place(place: QueuePosition) -> str:
    """How many jobs come before it, what it waits for, and when it starts, or why that is unknown."""
    before = f"{'' if place.exact else 'more than '}{place.ahead:,} before it" if place.ahead else ""
    wait = _NOTHING if place.starts_at is None else place.starts_at - now()
    when = f"starts in about {format_duration(wait)}" if wait > _NOTHING else ""
    return ", ".join(said for said in (before, place.because, when) if said) or "the next of its type"


def _is_of_this_attempt(job: Job) -> bool:
    return job.record is not None and job.record.attempt == job.attempts


# As a bar, and as a sparkline

_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_WIDEST: Final = 40
_STALLED: Final = "yellow"


def style_of(job: Job) -> str:
    return _STALLED if job.stalled else STATUS_STYLES[job.status]


def bar(job: Job, width: int | None = None) -> ProgressBar:
    """The progress of the job."""
    return ProgressBar(
        total=100,
        completed=percent(job),
        width=width,
        complete_style=style_of(job),
        finished_style=STATUS_STYLES["completed"],
    )


def sparkline(history: Sequence[Point], width: int = _WIDEST) -> Text:
    """The progress over time; a new attempt begins at zero."""
    if not history:
        return Text()
    begin = history[0].at
    step = (history[-1].at - begin) / max(width - 1, 1)
    if not step:
        return Text(_block(history[-1].percent))
    heights: list[str] = []
    seen = iter((*history[1:], None))
    last, following = history[0], next(seen)
    for column in range(width):
        # Half a step of grace: the last point belongs to the last column, however the division was rounded.
        while following is not None and following.at <= begin + step * (column + 0.5):
            last, following = following, next(seen, None)
        heights.append(_block(last.percent))
    return Text("".join(heights))


def _block(done: float) -> str:
    return _BLOCKS[min(int(done / 100 * len(_BLOCKS)), len(_BLOCKS) - 1)]
