"""Jobs as a table. In a narrow terminal, the note of a job is on a line below it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from howdah.cli.arguments.datetimes import is_endless, now
from howdah.cli.arguments.duration import format_duration
from howdah.cli.render.output import STATUS_STYLES, cut, table, text
from howdah.cli.render.progress import silence, style_of, time_left
from howdah.cli.render.terminal_escape import first_line
from howdah.model.job import Job

_WIDE: Final = 140
_NARROW_HEADERS: Final = ("id", "type", "prio", "status", "try", "age")
_LEAST_TYPE_WIDTH: Final = 8


def print_jobs(console: Console, jobs: Sequence[Job], *, header: bool = True) -> None:
    if console.width >= _WIDE:
        console.print(_wide_table(jobs, header=header))
    else:
        _print_narrow(console, jobs, header=header)


def _wide_table(jobs: Sequence[Job], *, header: bool) -> Table:
    headers = ("id", "type", "prio", "status", "done", "try", "age", "ran", "note")
    made = table(*headers, right=("prio", "done", "age", "ran"), flexible=("type", "note"))
    made.show_header = header
    for job in jobs:
        made.add_row(
            text(job.id),
            text(job.job_type, "bold"),
            text(job.priority),
            text(job.status, STATUS_STYLES[job.status]),
            text(f"{job.percent}%"),
            text(f"{job.attempts}/{job.max_attempts}"),
            text(_age(job)),
            text(_run_time(job)),
            _note(job),
        )
    return made


def _print_narrow(console: Console, jobs: Sequence[Job], *, header: bool) -> None:
    rows = [_narrow_row(job) for job in jobs]
    headers = tuple(Text(name, "bold") for name in _NARROW_HEADERS)
    widths = [max(cell.cell_len for cell in column) for column in zip(headers, *rows, strict=True)]
    taken = sum(widths) - widths[1] + len(widths) - 1
    widths[1] = max(min(widths[1], console.width - taken), _LEAST_TYPE_WIDTH)
    if header:
        console.print(_narrow_line(headers, widths))
    for job, row in zip(jobs, rows, strict=True):
        console.print(_narrow_line(row, widths))
        if note := _note(job):
            console.print(Text.assemble(("  └ ", "dim"), note), no_wrap=True, overflow="ellipsis")


def _narrow_row(job: Job) -> tuple[Text, ...]:
    says_more = job.percent not in (0, 100)
    return (
        text(job.id),
        text(job.job_type, "bold"),
        text(job.priority),
        text(f"{job.status} {job.percent}%" if says_more else job.status, STATUS_STYLES[job.status]),
        text(f"{job.attempts}/{job.max_attempts}"),
        text(_age(job)),
    )


def _narrow_line(cells: Sequence[Text], widths: Sequence[int]) -> Table:
    line = Table.grid(padding=(0, 1, 0, 0))
    for width in widths:
        line.add_column(width=width, overflow="fold")
    line.add_row(*cells)
    return line


def _age(job: Job) -> str:
    current = now()
    if job.status != "pending" or job.run_at <= current:
        return format_duration(current - job.created_at)
    return (
        "waits"
        if job.waits_for
        else "held"
        if is_endless(job.run_at)
        else f"in {format_duration(job.run_at - current)}"
    )


def _run_time(job: Job) -> str:
    if job.started_at is None:
        return ""
    end: datetime | None = now() if job.status == "running" else job.finished_at
    return "" if end is None else format_duration(end - job.started_at)


def _note(job: Job) -> Text:
    task, said = _task(job), _news(job)
    if not task:
        return said
    made = cut(task, "dim")
    return made.append(": ").append_text(said) if said else made


def _task(job: Job) -> str:
    """The task of Django that a job runs: its type is only the queue of the task."""
    found = job.meta.get("task") if isinstance(job.meta, dict) else None
    return found if isinstance(found, str) else ""


def _news(job: Job) -> Text:
    if job.status in ("claimed", "running") and (said := _doing(job)):
        return cut(said, style_of(job))
    if job.waits_for is not None:
        return cut(job.waits_for.removeprefix("it "), STATUS_STYLES[job.status])
    if job.status != "completed" and job.last_error:
        return cut(first_line(job.last_error), "red")
    return Text()


def _doing(job: Job) -> str:
    """The most important part comes first, because the end may be cut off."""
    silent = f"stalled for {silence(job)}" if job.stalled else ""
    left = f"done in {left}" if (left := time_left(job)) else ""
    return ", ".join(said for said in (silent, left, job.current_stage) if said)
