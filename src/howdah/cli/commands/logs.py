"""``howdah logs``: the log lines of a job's handler."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from howdah.cli.arguments.connect import open_queue
from howdah.cli.arguments.datetimes import stamp
from howdah.cli.command import Command
from howdah.cli.process.log_format import outages_remarked
from howdah.cli.render.event_text import EventLike, level_number, log_text, style_of
from howdah.cli.render.output import answers, print_json, remark
from howdah.cli.render.terminal_escape import escape_lines, terminal_escape
from howdah.model.event import Event, EventKind
from howdah.model.job import Job
from howdah.queue import JobQueue

_PAGE: Final = 500
_LEVELS: Final = ("debug", "info", "warning", "error", "critical")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the job's id")
    parser.add_argument("--follow", action="store_true", help="continue until the job has ended")
    parser.add_argument("--attempt", metavar="N", type=int, help="only this attempt")
    parser.add_argument(
        "--level",
        metavar="LEVEL",
        type=str.lower,
        choices=_LEVELS,
        default="debug",
        help=f"this level and those above it: {', '.join(_LEVELS)}",
    )


def _run(args: argparse.Namespace) -> None:
    with open_queue(args) as queue:
        job = queue.get(args.id)
        lines = _followed(queue, job) if args.follow else all_events(queue, job, ["log"])
        with contextlib.closing(lines), outages_remarked(lambda said: remark(f"howdah: {said}")):
            printed = _print_all((line for line in lines if _is_wanted(line, args)), as_json=args.json)
    if not printed and not args.json:
        remark("no log lines are kept of this job" + _filters(args))


def all_events(queue: JobQueue, job: Job, kinds: Sequence[EventKind] | None = None) -> Generator[Event, None, None]:
    after = 0
    while page := queue.events(job, after=after, kinds=kinds, limit=_PAGE):
        yield from page
        after = page[-1].seq


def _followed(queue: JobQueue, job: Job) -> Generator[EventLike, None, None]:
    with contextlib.closing(queue.watch(job, kinds=["log"])) as lines:
        yield from lines


def _is_wanted(line: EventLike, args: argparse.Namespace) -> bool:
    return args.attempt in (None, line.attempt) and level_number(line.name) >= level_number(args.level)


def _filters(args: argparse.Namespace) -> str:
    narrowed = [] if args.level == "debug" else [f"of level {args.level} or above"]
    if args.attempt is not None:
        narrowed.append(f"of attempt {args.attempt}")
    return "".join(f", {each}" for each in narrowed)


def _print_all(lines: Iterator[EventLike], *, as_json: bool) -> bool:
    """Whether there were any."""
    console, attempt = answers(), None
    for line in lines:
        if as_json:
            print_json(_as_json(line))
            # At once: a program that follows reads each line as it comes.
            sys.stdout.flush()
            continue
        if line.attempt != attempt:
            console.print(Text(f"attempt {line.attempt}", "bold"))
        _print_line(console, line)
        attempt = line.attempt
    return attempt is not None


def _as_json(line: EventLike) -> dict[str, Any]:
    data = line.data if isinstance(line.data, dict) else {"message": line.data}
    return {**data, "at": line.at, "attempt": line.attempt, "level": line.name}


def _print_line(console: Console, line: EventLike) -> None:
    first, *others = escape_lines(log_text(line)).split("\n")
    level = Text(f"{terminal_escape(line.name or ''):<8}", style_of(line))
    console.print(Text.assemble((f"{stamp(line.at)} ", "dim"), level, f" {first}"), soft_wrap=True)
    for other in others:
        console.print(Text(f"    {other}"), soft_wrap=True)


COMMAND = Command(
    name="logs",
    summary="show the log lines of a job",
    story="""
        The lines that the handler wrote with Python's logging, attempt by attempt, with times in UTC. Workers keep those of
        level INFO and above, at most 1,000 of an attempt, unless the handler's log_level says otherwise. The further lines
        of a message are indented. With --json, each message is an object on a line of its own.
    """,
    examples=(
        ("howdah logs 019a7c1e-5f0b-7c3d-9f43-0c6a4d7f2b11", "all of it"),
        ("howdah logs 019a7c1e-5f0b-7c3d-9f43-0c6a4d7f2b11 --follow", "as it comes, until the job has ended"),
        (
            "howdah logs 019a7c1e-5f0b-7c3d-9f43-0c6a4d7f2b11 --level warning --attempt 2",
            "warnings and errors of one attempt",
        ),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
