"""``howdah show``: all details of a job."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from howdah.cli.arguments.connect import open_queue
from howdah.cli.arguments.datetimes import full, relative
from howdah.cli.arguments.duration import format_duration
from howdah.cli.arguments.priority import describe_priority
from howdah.cli.command import Command
from howdah.cli.commands.logs import all_events
from howdah.cli.render.event_text import level_number
from howdah.cli.render.output import (
    STATUS_STYLES,
    answers,
    facts,
    indented,
    job_as_json,
    plural,
    print_indented,
    print_json,
    readable_json,
    text,
)
from howdah.cli.render.progress import amount, bar, describe_waiting, is_progressing, silence, sparkline, speed
from howdah.cli.render.terminal_escape import error_text, first_line
from howdah.cli.render.timeline import EDGE, print_timeline, timeline
from howdah.model.event import Event
from howdah.model.job import AttemptError, Job
from howdah.model.progress import Progress
from howdah.model.results import QueuePosition
from howdah.model.step import Step

_BAR_WIDTH: Final = 40
_MOST_LINES: Final = 60
"""Of the data, the result and the like. A list has a line for each entry."""
_JSON: Final = {
    "data": "data",
    "result": "result",
    "resumed": "checkpoint",
    "meta": "meta",
    "retry_policy": "retry policy",
}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the job's id, as list and enqueue print it")
    parser.add_argument(
        "--logs", action="store_true", help="all log lines in the timeline, not only warnings and errors"
    )
    parser.add_argument("--all", action="store_true", help="the whole timeline, data and result, however long")


def _run(args: argparse.Namespace) -> None:
    with open_queue(args) as queue:
        job = queue.get(args.id)
        place = queue.queue_position(job) if job.status == "pending" else None
        events = all_events(queue, job)
        steps = queue.steps(job)
        if args.json:
            print_json({**job_as_json(job), "place": place, "steps": steps, "events": list(events)})
        else:
            _print_job(answers(), job, place, steps, _Kept(events, all_logs=args.logs), whole=args.all)


class _Kept:
    """The events without log lines below WARNING, and how many of these there were."""

    def __init__(self, events: Iterator[Event], *, all_logs: bool) -> None:
        self.logs_left_out = 0
        self._events = events
        self._least = logging.NOTSET if all_logs else logging.WARNING

    def __iter__(self) -> Iterator[Event]:
        for event in self._events:
            if event.kind == "log" and level_number(event.name) < self._least:
                self.logs_left_out += 1
            else:
                yield event


def _print_job(
    console: Console, job: Job, place: QueuePosition | None, steps: Sequence[Step], events: _Kept, *, whole: bool
) -> None:
    title = text(job.job_type, "bold") + Text("  ") + text(job.status, f"bold {STATUS_STYLES[job.status]}")
    console.print(title + Text("  stalled", "bold yellow") if job.stalled else title, soft_wrap=True)
    _print_facts(console, "job", _identity(job, place))
    if job.record is not None:
        _print_facts(console, "progress", _progress(job, job.record))
    _print_facts(console, "times", _times(job))
    _print_facts(console, "claim", _claim(job))
    for field, title_of_it in _JSON.items():
        value = getattr(job, field)
        if value is not None:
            _print_section(console, title_of_it)
            _print_json(console, job, readable_json(value, indent=2), whole=whole)
    _print_facts(console, "steps", ((step.name, _outcome_of(step)) for step in steps))
    _print_timeline(console, job, events, whole=whole)
    if job.errors:
        _print_section(console, "errors")
        for error in job.errors:
            _print_error(console, error)


def _print_json(console: Console, job: Job, written: str, *, whole: bool) -> None:
    lines = written.split("\n")
    shown = lines if whole or len(lines) <= _MOST_LINES + 1 else lines[:_MOST_LINES]
    print_indented(console, "\n".join(shown))
    if left := len(lines) - len(shown):
        print_indented(console, f"… {plural(left, 'more line')}: howdah show {job.id} --all", "dim")


def _print_timeline(console: Console, job: Job, events: _Kept, *, whole: bool) -> None:
    made = timeline(job, events, None if whole else EDGE)
    _print_section(console, "timeline")
    print_timeline(console, made, job.created_at, f"howdah show {job.id} --all")
    if events.logs_left_out:
        print_indented(
            console, f"and {plural(events.logs_left_out, 'log line')} below WARNING: howdah logs {job.id}", "dim"
        )


def _identity(job: Job, place: QueuePosition | None) -> Iterator[tuple[str, object]]:
    yield "id", job.id
    yield "priority", describe_priority(job.priority)
    yield "attempts", f"{job.attempts} of {job.max_attempts}"
    if job.record is None:
        yield "progress", _how_far(job)
    if place is not None:
        yield "place", describe_waiting(job, place) or None
    if job.last_error:
        yield "last error", first_line(job.last_error)
    for name in ("key", "flow_key", "order_key", "parent_id", "workflow_id"):
        yield name.replace("_", " "), getattr(job, name)
    for name in ("events_count", "crashes", "interruptions"):
        yield name.replace("_", " "), getattr(job, name) or None


def _progress(job: Job, record: Progress) -> Iterator[tuple[str, object]]:
    yield "done", _how_far(job)
    yield "", bar(job, _BAR_WIDTH)
    if record.done is not None:
        yield "counted", amount(record.done) + ("" if record.total is None else f" of {amount(record.total)}")
    yield "rate", speed(record) or None
    if is_progressing(job):
        yield "done at", record.finishes_at and full(record.finishes_at)
    yield "first report", full(record.first_report_at)
    yield "last report", full(record.last_report_at)
    if job.stalled:
        yield "stalled", f"no report for {silence(job)}, which is longer than usual"
    if len(record.history) > 1:
        took = format_duration(record.history[-1].at - record.history[0].at)
        yield "history", sparkline(record.history) + Text(f" {took}", "dim")


def _how_far(job: Job) -> str:
    return f"{job.percent}%" + (f", {job.current_stage}" if job.current_stage else "")


def _times(job: Job) -> Iterator[tuple[str, object]]:
    times = {
        "created": job.created_at,
        "due": job.run_at,
        "claimed": job.claimed_at,
        "started": job.started_at,
        "finished": job.finished_at or job.completed_at,
        "deadline": job.deadline_at,
        "expires": job.expires_at,
        "asked to stop": job.cancel_requested_at,
    }
    for name, when in times.items():
        yield name, when and full(when)
    if job.started_at and job.finished_at:
        yield "ran for", format_duration(job.finished_at - job.started_at)
    if job.timeout:
        yield "may run for", format_duration(job.timeout)


def _claim(job: Job) -> Iterator[tuple[str, object]]:
    yield "worker", job.worker_id
    yield "token", job.token or None
    yield "lease until", job.lease_until and full(job.lease_until)


def _outcome_of(step: Step) -> str:
    if step.state == "waiting":
        return f"waits since {full(step.begun_at)}" + ("" if step.until is None else f", until {full(step.until)}")
    ended = full(step.done_at or step.begun_at)
    if step.state == "timed out":
        return f"timed out {ended}"
    result = "" if step.result is None else f": {readable_json(step.result)[:200]}"
    return f"done {ended}{result}"


def _print_facts(console: Console, title: str, known: Iterator[tuple[str, object]]) -> None:
    grid = facts(known)
    if grid.row_count:
        _print_section(console, title)
        console.print(indented(grid))


def _print_section(console: Console, title: str) -> None:
    console.print()
    console.print(text(title, "bold"))


def _print_error(console: Console, error: AttemptError) -> None:
    where = f" (on {error.worker})" if error.worker else ""
    console.print(indented(text(f"attempt {error.attempt} {error.kind} {relative(error.at)}{where}", "dim")))
    said = error_text(error.error)
    trace = error_text(error.traceback or "")
    # Its last line is the error, which is printed next.
    above = trace.removesuffix(said).rpartition("\n")[0] if trace.endswith(said) else trace
    if above:
        print_indented(console, above)
    print_indented(console, said, "red")


COMMAND = Command(
    name="show",
    summary="show all details of one job",
    story="""
        Its status, progress and rate, its times, its claim, its data and result, its steps, the timeline of its attempts with their
        events and log lines, and the error of every attempt with its traceback. Empty fields are left out, and so is the
        middle of a long timeline and the end of long data; --json has every field and all events.
    """,
    examples=(
        ("howdah show 019a7c1e-5f0b-7c3d-9f43-0c6a4d7f2b11", "one job, to read"),
        ("howdah show 019a7c1e-5f0b-7c3d-9f43-0c6a4d7f2b11 --logs", "with every line that it logged"),
        ("howdah show 019a7c1e-5f0b-7c3d-9f43-0c6a4d7f2b11 --json | jq .result", "its result, for a program"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
