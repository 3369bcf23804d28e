"""``howdah show``: everything that is known of a job."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from howdah.cli.command import Command
from howdah.cli.connect import open_queue
from howdah.cli.job_json import job_as_json
from howdah.cli.moment import full, relative
from howdah.cli.output import answers, print_json, text
from howdah.cli.priority import describe_priority
from howdah.cli.safe import safe_lines
from howdah.cli.span import format_span
from howdah.cli.status import STYLES
from howdah.job import AttemptError, Job


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the job's id, as list and enqueue print it")


def _run(args: argparse.Namespace) -> int:
    with open_queue(args) as queue:
        job = queue.get(args.id)
    if args.json:
        print_json(job_as_json(job))
    else:
        _print_job(answers(), job)
    return 0


def _print_job(console: Console, job: Job) -> None:
    title = text(job.job_type, "bold") + Text("  ") + text(job.status, f"bold {STYLES[job.status]}")
    console.print(title, soft_wrap=True)
    _print_facts(console, "job", dict(_identity(job)))
    _print_facts(console, "times", dict(_times(job)))
    _print_facts(console, "claim", dict(_claim(job)))
    for name in ("data", "result", "checkpoint", "meta", "retry_policy"):
        value = getattr(job, name)
        if value is not None:
            _print_section(console, name.replace("_", " "))
            _print_indented(console, _readable_json(value))
    if job.errors:
        _print_section(console, "errors")
        for error in job.errors:
            _print_error(console, error)


def _identity(job: Job) -> Iterator[tuple[str, object]]:
    yield "id", job.id
    yield "priority", describe_priority(job.priority)
    yield "attempts", f"{job.attempts} of {job.max_attempts}"
    yield "progress", f"{job.percent}%" + (f", {job.current_stage}" if job.current_stage else "")
    if job.last_error:
        yield "last error", job.last_error
    for name in ("key", "order_key", "parent_id", "workflow_id"):
        yield name.replace("_", " "), getattr(job, name)
    for name in ("events_count", "crashes", "interruptions"):
        yield name.replace("_", " "), getattr(job, name) or None


def _times(job: Job) -> Iterator[tuple[str, object]]:
    moments = {
        "created": job.created_at,
        "due": job.run_at,
        "claimed": job.claimed_at,
        "started": job.started_at,
        "finished": job.finished_at or job.completed_at,
        "deadline": job.deadline_at,
        "expires": job.expires_at,
        "asked to stop": job.cancel_requested_at,
    }
    for name, moment in moments.items():
        yield name, moment and full(moment)
    if job.started_at and job.finished_at:
        yield "ran for", format_span(job.finished_at - job.started_at)
    if job.timeout:
        yield "may run for", format_span(job.timeout)


def _claim(job: Job) -> Iterator[tuple[str, object]]:
    yield "worker", job.worker_id
    yield "token", job.token or None
    yield "lease until", job.lease_until and full(job.lease_until)


def _print_facts(console: Console, title: str, facts: dict[str, object]) -> None:
    known = {name: value for name, value in facts.items() if value is not None}
    if not known:
        return
    _print_section(console, title)
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True, min_width=13)
    grid.add_column(overflow="fold")
    for name, value in known.items():
        grid.add_row(text(name), text(value))
    console.print(Padding(grid, (0, 0, 0, 2), expand=False))


def _print_section(console: Console, title: str) -> None:
    console.print()
    console.print(text(title, "bold"))


def _print_error(console: Console, error: AttemptError) -> None:
    by = f" (by {error.worker})" if error.worker else ""
    console.print(
        Padding(
            text(f"attempt {error.attempt} {error.kind} {relative(error.at)}{by}", "dim"), (0, 0, 0, 2), expand=False
        )
    )
    if error.traceback:
        # It ends with the error itself, which comes next.
        _print_indented(console, error.traceback.removesuffix(error.error).rstrip("\n"))
    _print_indented(console, error.error, "red")


def _print_indented(console: Console, written: str, style: str = "") -> None:
    # Line by line and not wrapped: what was indented in the original stays so, and can be copied.
    for line in safe_lines(written).split("\n"):
        console.print(Text("    ") + Text(line, style), soft_wrap=True)


def _readable_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


COMMAND = Command(
    name="show",
    summary="show everything that is known of one job",
    story="""
        Where the job stands, its times, its claim, its data and result, and the error of every attempt with its
        traceback. What is not known yet is left out; --json has every field.
    """,
    examples=(
        ("howdah show 019a7c1e-5f0b-7c3d-9f43-0c6a4d7f2b11", "one job, to read"),
        ("howdah show 019a7c1e-5f0b-7c3d-9f43-0c6a4d7f2b11 --json | jq .result", "its result, for a program"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
