"""The screen of one job, which follows it: its state, its data, and its last events."""

from __future__ import annotations

import collections
import dataclasses
import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static

from howdah.cli.arguments.datetimes import full, stamp
from howdah.cli.arguments.priority import describe_priority
from howdah.cli.commands.top import cells, jobs
from howdah.cli.commands.top.dialogs import Remarks, StatusLine
from howdah.cli.render.event_text import brief, in_words, style_of
from howdah.cli.render.output import cut, facts, readable_json, text
from howdah.cli.render.progress import counted, describe_waiting, sparkline, speed, time_left
from howdah.cli.render.terminal_escape import error_text, escape_lines, first_line
from howdah.model.event import Event
from howdah.model.job import AttemptError, Job
from howdah.model.progress import Progress
from howdah.model.results import QueuePosition
from howdah.queue import JobQueue

# The description

_MOST_LINES: Final = 60
_MOST_ERRORS: Final = 3
_LONGEST: Final = 500


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """The state of a job; ``events`` are the last ones."""

    job: Job
    place: QueuePosition | None
    events: Sequence[Event]


def describe(known: Known) -> RenderableType:
    job = known.job
    return Group(
        Text.assemble(text(job.job_type, "bold"), "  ", jobs.state(job)),
        facts(_state(job, known.place)),
        facts(_times(job)),
        *_section("data", _json(job.data)),
        *_section("checkpoint", _json(job.resumed)),
        *_section("result", _json(job.result)),
        *_section("errors", _errors(job.errors)),
        *_section("last events", _events(known.events)),
    )


def _state(job: Job, place: QueuePosition | None) -> Iterator[tuple[str, object]]:
    yield "id", job.id
    yield "priority", describe_priority(job.priority)
    yield "attempt", f"{job.attempts} of {job.max_attempts}"
    yield "place", None if place is None else describe_waiting(job, place)
    if job.record is not None:
        yield from _progress(job, job.record)
    yield "stage", job.current_stage
    yield "worker", job.worker_id
    yield "key", job.key
    yield "flow key", job.flow_key
    yield "last error", job.last_error and first_line(job.last_error)


def _progress(job: Job, record: Progress) -> Iterator[tuple[str, object]]:
    said = (counted(record), speed(record), f"done in {left}" if (left := time_left(job)) else "")
    yield (
        "progress",
        cells.bar(record.percent, "cyan") + Text("".join(f"  {each}" for each in said if each)),
    )
    yield "history", sparkline(record.history) if len(record.history) > 1 else None


def _times(job: Job) -> Iterator[tuple[str, object]]:
    times: dict[str, datetime | None] = {
        "created": job.created_at,
        "due": job.run_at,
        "started": job.started_at,
        "finished": job.finished_at or job.completed_at,
        "asked to stop": job.cancel_requested_at,
    }
    for name, when in times.items():
        yield name, when and full(when)


def _section(title: str, content: RenderableType | None) -> tuple[RenderableType, ...]:
    return () if content is None else (Text(), Text(title, "bold"), content)


def _json(value: Any) -> RenderableType | None:
    if value is None:
        return None
    return _lines(readable_json(value, indent=2), "", first=True)


def _errors(errors: Sequence[AttemptError]) -> RenderableType | None:
    if not errors:
        return None
    parts: list[RenderableType] = []
    if len(errors) > _MOST_ERRORS:
        parts.append(Text(f"the last {_MOST_ERRORS} of {len(errors)}", "dim"))
    for error in errors[-_MOST_ERRORS:]:
        parts.append(text(f"attempt {error.attempt} {error.kind} at {stamp(error.at)}", "dim"))
        parts.append(_lines(error_text(error.traceback or error.error), "red", first=False))
    return Group(*parts)


def _lines(written: str, style: str, *, first: bool) -> Text:
    """The first lines, or the last ones, which say most in a traceback."""
    lines = escape_lines(written).rstrip("\n").split("\n")
    kept = lines[:_MOST_LINES] if first else lines[-_MOST_LINES:]
    made = Text("\n".join(kept), style)
    if len(kept) == len(lines):
        return made
    missing = Text(f"… {len(lines) - len(kept):,} more lines: see howdah show", "dim")
    return Text("\n").join((made, missing) if first else (missing, made))


def _events(events: Sequence[Event]) -> RenderableType | None:
    if not events:
        return None
    grid = Table.grid(padding=(0, 2, 0, 0))
    for event in events:
        grid.add_row(text(stamp(event.at), "dim"), Text(f"{event.attempt}", "dim"), _event(event))
    return grid


def _event(event: Event) -> Text:
    return cut(brief(in_words(event), _LONGEST), style_of(event))


# The screen

_LAST: Final = 30


class Details(Screen[None]):
    """The most important details of a job; ``howdah show`` has the others."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,backspace", "dismiss", "back")]

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job = job
        self._reader = Reader(job.id)
        self._shown = Static(Text("…"), id="description")

    def compose(self) -> ComposeResult:
        yield Remarks()
        with VerticalScroll():
            yield self._shown
        yield StatusLine()
        yield Footer()

    def read(self, queue: JobQueue) -> Known:
        """Reads the state. Called in another thread."""
        return self._reader.read(queue)

    def show(self, known: Known) -> None:
        self.job = known.job
        self._shown.update(describe(known))


class Reader:
    """Reads a job and its last events; of the events only those that are new."""

    def __init__(self, job_id: uuid.UUID) -> None:
        self._id = job_id
        self._events: collections.deque[Event] = collections.deque(maxlen=_LAST)

    def read(self, queue: JobQueue) -> Known:
        job = queue.get(self._id)
        place = queue.queue_position(job) if job.status == "pending" else None
        after = self._events[-1].seq if self._events else 0
        self._events.extend(queue.events(job, after=after, last=_LAST))
        return Known(job, place, tuple(self._events))
