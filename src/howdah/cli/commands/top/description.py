"""A job at a glance: where it stands, what it is about, and what happened to it last."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from howdah.cli.arguments.datetimes import full, stamp
from howdah.cli.arguments.priority import describe_priority
from howdah.cli.commands.top import figures, jobs
from howdah.cli.render.encrypted import error_text, first_line
from howdah.cli.render.event_text import brief, in_words, style_of
from howdah.cli.render.output import cut, readable_json, text
from howdah.cli.render.progress_bar import sparkline
from howdah.cli.render.progress_text import counted, describe_waiting, speed, time_left
from howdah.cli.render.terminal_escape import safe_lines
from howdah.model.event import Event
from howdah.model.job import AttemptError, Job
from howdah.model.progress import Progress
from howdah.model.results import QueuePosition

_MOST_LINES: Final = 60
_MOST_ERRORS: Final = 3
_LONGEST: Final = 500


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """What is known of a job; ``events`` are the last ones."""

    job: Job
    place: QueuePosition | None
    events: Sequence[Event]


def describe(known: Known) -> RenderableType:
    job = known.job
    return Group(
        Text.assemble(text(job.job_type, "bold"), "  ", jobs.state(job)),
        _facts(dict(_standing(job, known.place))),
        _facts(dict(_times(job))),
        *_section("data", _json(job.data)),
        *_section("checkpoint", _json(job.resumed)),
        *_section("result", _json(job.result)),
        *_section("errors", _errors(job.errors)),
        *_section("last events", _events(known.events)),
    )


def _standing(job: Job, place: QueuePosition | None) -> Iterator[tuple[str, object]]:
    yield "id", job.id
    yield "priority", describe_priority(job.priority)
    yield "attempt", f"{job.attempts} of {job.max_attempts}"
    yield "place", None if place is None else describe_waiting(job, place)
    if job.record is not None:
        yield from _progress(job, job.record)
    yield "stage", job.current_stage
    yield "worker", job.worker_id
    yield "key", job.key
    yield "last error", job.last_error and first_line(job.last_error)


def _progress(job: Job, record: Progress) -> Iterator[tuple[str, object]]:
    said = (counted(record), speed(record), f"done in {left}" if (left := time_left(job)) else "")
    yield (
        "progress",
        figures.bar(record.percent, "cyan") + Text("".join(f"  {each}" for each in said if each)),
    )
    yield "history", sparkline(record.history) if len(record.history) > 1 else None


def _times(job: Job) -> Iterator[tuple[str, object]]:
    moments: dict[str, datetime | None] = {
        "created": job.created_at,
        "due": job.run_at,
        "started": job.started_at,
        "finished": job.finished_at or job.completed_at,
        "asked to stop": job.cancel_requested_at,
    }
    for name, moment in moments.items():
        yield name, moment and full(moment)


def _facts(facts: dict[str, object]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True, min_width=13)
    grid.add_column(overflow="fold")
    for name, value in facts.items():
        if value is not None:
            grid.add_row(Text(name), value if isinstance(value, Text) else text(value))
    return grid


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
    """The first of its lines, or the last: in a traceback these say most."""
    lines = safe_lines(written).rstrip("\n").split("\n")
    kept = lines[:_MOST_LINES] if first else lines[-_MOST_LINES:]
    made = Text("\n".join(kept), style)
    if len(kept) == len(lines):
        return made
    missing = Text(f"… {len(lines) - len(kept):,} more lines: howdah show has them", "dim")
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
