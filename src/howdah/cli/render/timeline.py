"""The timeline of a job: when it was created, what each attempt did, and how it ended."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from rich.console import Console

from howdah.cli.arguments.datetimes import is_endless, stamp
from howdah.cli.arguments.duration import format_duration
from howdah.cli.render.event_text import brief, in_words, style_of
from howdah.cli.render.output import STATUS_STYLES, indented, table, text
from howdah.cli.render.terminal_escape import first_line
from howdah.model.event import Event
from howdah.model.job import Job, moment_in

EDGE: Final = 50
"""The number of entries that are shown from the beginning, and from the end."""
_LONGEST: Final = 500
_WIDE: Final = 100


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """Something that happened, or is to happen."""

    at: datetime
    said: str
    attempt: int | None = None
    style: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Timeline:
    """The first entries, how many were left out, and the last ones."""

    first: tuple[Entry, ...]
    left_out: int
    last: tuple[Entry, ...]


def timeline(job: Job, events: Iterable[Event], edge: int | None = EDGE) -> Timeline:
    """All entries in the order of time; with ``edge``, the first and the last of them."""
    history = _History(edge)
    for event in events:
        history.add(event)
    happened = (Entry(event.at, in_words(event), event.attempt, style_of(event)) for event in history.events)
    # A stable sort: entries of the same time stay in the order in which they were given.
    entries = sorted([*_marks(job, history.ends), *happened], key=lambda entry: entry.at)
    return _cut(entries, history.dropped, edge)


def print_timeline(console: Console, line: Timeline, since: datetime, how_to_see_all: str) -> None:
    """Prints it, with the time of each entry after ``since``."""
    day = _only_day(line) if console.width < _WIDE else None
    made = table(f"{day or 'time'} (UTC)", "after", "try", "", right=("after", "try"), flexible=("",))
    for entry in line.first:
        made.add_row(*_cells(entry, since, day))
    if line.left_out:
        made.add_row("", "", "", text(f"… {line.left_out:,} more: {how_to_see_all}", "bold"))
    for entry in line.last:
        made.add_row(*_cells(entry, since, day))
    console.print(indented(made))


def _only_day(line: Timeline) -> str | None:
    """The day, if all entries are of one day: then it is printed once."""
    days = {stamp(entry.at).partition(" ")[0] for entry in (*line.first, *line.last)}
    return days.pop() if len(days) == 1 else None


def _cells(entry: Entry, since: datetime, day: str | None) -> tuple[Any, ...]:
    return (
        text(stamp(entry.at).removeprefix(f"{day} "), "dim"),
        text(format_duration(entry.at - since)),
        text(entry.attempt or ""),
        text(brief(entry.said, _LONGEST), entry.style),
    )


class _History:
    """Collects events: all ends of attempts, and of the others only as many as can be shown."""

    def __init__(self, edge: int | None) -> None:
        self.ends: list[Event] = []
        self.dropped = 0
        self._edge = edge
        self._first: list[Event] = []
        self._last: collections.deque[Event] = collections.deque(maxlen=edge)

    def add(self, event: Event) -> None:
        if event.kind == "status":
            self.ends.append(event)
        if self._edge is None or len(self._first) < self._edge:
            self._first.append(event)
            return
        self.dropped += len(self._last) == self._edge
        self._last.append(event)

    @property
    def events(self) -> Iterable[Event]:
        return itertools.chain(self._first, self._last)


def _cut(entries: list[Entry], dropped: int, edge: int | None) -> Timeline:
    if edge is None or len(entries) + dropped <= 2 * edge:
        return Timeline(tuple(entries), 0, ())
    return Timeline(tuple(entries[:edge]), len(entries) + dropped - 2 * edge, tuple(entries[-edge:]))


def _marks(job: Job, ends: list[Event]) -> Iterator[Entry]:
    """Entries from the fields of the job."""
    yield Entry(job.created_at, "created")
    yield from _due(job)
    yield from _starts(job, ends)
    if job.status == "claimed" and job.claimed_at is not None:
        yield Entry(job.claimed_at, f"claimed by {job.worker_id}", job.attempts, STATUS_STYLES["claimed"])
    if job.cancel_requested_at is not None:
        yield Entry(job.cancel_requested_at, "asked to stop", job.attempts, STATUS_STYLES["cancelled"])
    if job.stalled and job.record is not None:
        said = f"stalled: it has reported nothing since {stamp(job.record.last_report_at)}"
        yield Entry(job.record.stalls_at, said, job.attempts, "yellow")
    yield from _ends_without_event(job, ends)


def _due(job: Job) -> Iterator[Entry]:
    first = job.first_due_at or job.run_at
    for when, said in ((first, "due"), (job.run_at, "due again")):
        is_news = said == "due" or (job.status == "pending" and when != first)
        if is_news and not is_endless(when):
            yield Entry(when, said)


def _starts(job: Job, ends: list[Event]) -> Iterator[Entry]:
    """The start of each attempt. It stands in several places, and a later one may lack the worker."""
    starts: dict[datetime, tuple[int, str | None]] = {}
    for error in job.errors:
        if error.started_at is not None:
            starts.setdefault(error.started_at, (error.attempt, error.worker))
    for end in ends:
        data = end.data if isinstance(end.data, dict) else {}
        if (began := moment_in(data.get("started_at"))) is not None:
            starts.setdefault(began, (end.attempt, data.get("worker")))
    if job.started_at is not None:
        starts.setdefault(job.started_at, (job.attempts, job.worker_id))
    for began, (attempt, worker) in starts.items():
        yield Entry(began, f"started on {worker}" if worker else "started", attempt, STATUS_STYLES["running"])


def _ends_without_event(job: Job, ends: list[Event]) -> Iterator[Entry]:
    """The ends of attempts that have no event."""
    known = {(end.attempt, end.at) for end in ends}
    for error in job.errors:
        if (error.attempt, error.at) not in known:
            yield Entry(error.at, f"{error.kind}: {first_line(error.error)}", error.attempt, STATUS_STYLES["failed"])
    finished = job.finished_at or job.completed_at
    if finished is None or any(end.name == job.status and end.at == finished for end in ends):
        return
    is_told = job.status == "failed" and any(error.at == finished for error in job.errors)
    why = f": {first_line(job.last_error)}" if job.status != "completed" and job.last_error and not is_told else ""
    yield Entry(finished, f"{job.status}{why}", job.attempts, STATUS_STYLES[job.status])
