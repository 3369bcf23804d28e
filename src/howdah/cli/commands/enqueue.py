"""``howdah enqueue``: adds a job, or a stream of them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, Final

from rich.status import Status

from howdah.cli.arguments.connect import open_queue
from howdah.cli.arguments.datetimes import LOCAL, parse_datetime
from howdah.cli.arguments.duration import parse_duration
from howdah.cli.arguments.json_input import add_data, data_of, read_json_lines
from howdah.cli.arguments.priority import CHOICES, parse_priority
from howdah.cli.command import Command
from howdah.cli.render.output import answer, job_as_json, plural, remark, remarks
from howdah.errors import InvalidInput
from howdah.model.job import STATUSES
from howdah.queue import JobQueue

_COUNT_EVERY: Final = 1_000


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("type", metavar="TYPE", help="the type of the job: the name of a worker's handler")
    add_data(parser, "the job's data; - reads it from standard input; with --many, a file of JSON lines")
    parser.add_argument("--many", action="store_true", help="a job for each line of JSON: all of them, or none")
    parser.add_argument("--priority", metavar=CHOICES, type=parse_priority, help="higher priorities are claimed first")
    when = parser.add_mutually_exclusive_group()
    when.add_argument(
        "--delay", metavar="DURATION", type=parse_duration, help="not before this time has passed: 90s, 5m, 2h, 1d"
    )
    when.add_argument(
        "--run-at", metavar="TIME", type=parse_datetime, help=f"not before: 2030-12-31T18:00+01:00{LOCAL}"
    )
    parser.add_argument("--max-attempts", metavar="N", type=int, help="how often it may be started")
    parser.add_argument(
        "--key", metavar="KEY", help="unique among the live jobs of this type: a second job is not added"
    )
    parser.add_argument("--timeout", metavar="DURATION", type=parse_duration, help="how long one attempt may run")


def _run(args: argparse.Namespace) -> None:
    if args.many and (args.key is not None or args.data):
        raise InvalidInput("--key and --data are for one job; --many adds a job for each line of JSON")
    with open_queue(args) as queue:
        (_enqueue_many if args.many else _enqueue_one)(queue, args)


def _enqueue_one(queue: JobQueue, args: argparse.Namespace) -> None:
    job = queue.enqueue(args.type, data_of(args), key=args.key, **_options(args))
    answer(args, job_as_json(job) | {"created": job.created}, str(job.id))
    if not (job.created or args.json):
        # A login that may not read jobs does not get the status.
        status = f"; it is {job.status}" if job.status in STATUSES else ""
        remark(f"howdah: not added: this live job has the key {args.key!r} already{status}")


def _enqueue_many(queue: JobQueue, args: argparse.Namespace) -> None:
    with remarks().status("enqueueing …") as status:
        lines = _counted(read_json_lines(args.json_data), status)
        count = queue.enqueue_many(args.type, lines, **_options(args))
    answer(args, {"enqueued": int(count)}, f"{plural(count, 'job')} of type {args.type} enqueued")


def _options(args: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(args, name) for name in ("priority", "delay", "run_at", "max_attempts", "timeout")}


def _counted(items: Iterator[Any], status: Status) -> Iterator[Any]:
    for count, item in enumerate(items):
        if count % _COUNT_EVERY == 0:
            status.update(f"{count:,} jobs sent")
        yield item


COMMAND = Command(
    name="enqueue",
    summary="add a job, or a stream of them",
    story="""
        Prints the id of the job. The data is any JSON; keep it small, and store a reference to large data. With --key, if a
        live job has the same key, none is added, and the id of that job is printed. With --many, lines are streamed from a
        file or from standard input in one transaction: if a line is not JSON, nothing is added, and the line is named.
    """,
    examples=(
        ("""howdah enqueue send_invoice '{"invoice": 17}'""", "one job, with JSON as its data"),
        ("howdah enqueue send_invoice --data invoice=17 --data to=ann@example.org", "the same without quoting JSON"),
        ("howdah enqueue reindex --priority backfill --delay 2h --key nightly", "later, and only once"),
        ("export-pages | howdah enqueue reindex_page --many", "a job for each line of JSON"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
