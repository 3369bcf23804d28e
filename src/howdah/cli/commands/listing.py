"""``howdah list``: jobs, the newest first."""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Iterator
from typing import Any, Final

from howdah.cli.arguments.connect import open_queue
from howdah.cli.arguments.datetimes import parse_past
from howdah.cli.arguments.json_input import read_data
from howdah.cli.arguments.selection import add_common_filters
from howdah.cli.command import Command
from howdah.cli.render.job_table import print_jobs
from howdah.cli.render.output import answers, job_as_json, print_json, remark, say
from howdah.model.results import JobPage
from howdah.queue import JobQueue

_PAGE: Final = 50
_LARGE_PAGE: Final = 1_000
SCAN_LIMIT: Final = 100_000


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common_filters(parser)
    parser.add_argument("--stalled", action="store_true", help="running jobs that have stopped reporting")
    parser.add_argument(
        "--data",
        metavar="KEY=VALUE",
        action="append",
        help="""jobs whose data contains this; repeat it for more entries, or give JSON: '{"user": 7}'""",
    )
    parser.add_argument("--priority-at-least", metavar="N", type=int, help="this priority or higher")
    parser.add_argument("--priority-at-most", metavar="N", type=int, help="this priority or lower")
    parser.add_argument("--since", metavar="WHEN", type=parse_past, help="created since: 2h (ago), or 2030-12-31T18:00")
    parser.add_argument("--until", metavar="WHEN", type=parse_past, help="created before")
    parser.add_argument("--limit", metavar="N", type=int, help=f"how many at most (default: {_PAGE})")
    parser.add_argument("--before", metavar="ID", help="continue after this job, the last one of the previous page")
    parser.add_argument("--all", action="store_true", help="all pages")
    parser.add_argument("--ids", action="store_true", help="only ids, for cancel, retry and other programs")


def _run(args: argparse.Namespace) -> None:
    usual = _LARGE_PAGE if args.all else _PAGE
    limit = usual if args.limit is None else args.limit
    with open_queue(args) as queue:
        for number, page in enumerate(pages(queue, before=args.before, limit=limit, **_filters(args))):
            _print_page(page, args, first=number == 0)
            if not args.all:
                _say_how_to_continue(page)
                break


def pages(queue: JobQueue, before: uuid.UUID | str | None = None, **filters: Any) -> Iterator[JobPage]:
    """All pages of ``queue.list``, read as they are needed."""
    page = queue.list(**filters, before=before)
    yield page
    while page.next is not None:
        page = queue.list(**filters, before=page.next)
        yield page


def _filters(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "job_type": args.type,
        "status": args.status,
        "per": args.per,
        "stalled": args.stalled,
        "data": None if args.data is None else read_data(args.data),
        "least_priority": args.priority_at_least,
        "most_priority": args.priority_at_most,
        "since": args.since,
        "until": args.until,
        "scan_limit": SCAN_LIMIT,
        "brief": args.ids or not args.json,
    }


def _print_page(page: JobPage, args: argparse.Namespace, *, first: bool) -> None:
    if args.json:
        for job in page:
            print_json(str(job.id) if args.ids else job_as_json(job))
    elif page and args.ids:
        for job in page:
            say(str(job.id))
    elif page:
        print_jobs(answers(), page, header=first)
    elif first and page.next is None:
        remark("no jobs match")


def _say_how_to_continue(page: JobPage) -> None:
    if page.next is None:
        return
    if page.complete:
        remark(f"There may be more: add --before {page.next}")
    else:
        remark(f"Only {SCAN_LIMIT:,} jobs were searched; older ones may match, too.")
        remark(f"To search further: add --before {page.next}")


COMMAND = Command(
    name="list",
    summary="list jobs, the newest first",
    story="""
        Without filters, the newest jobs of every type and status. With several filters, jobs must match all of them. The
        column age says how long ago a job was created, or in how long it is due. The column note has its stage, in how long
        it will be done, that it has stalled, or its error. With --json, each job is an object on a line of its own, with
        all its fields.
    """,
    examples=(
        ("howdah list --status failed --since 1d", "failed jobs since yesterday"),
        ("howdah list --type send_invoice --data user=7", "the invoices of one user"),
        ("howdah list --stalled", "running jobs that have stopped reporting"),
        ("howdah list --all --ids --status failed | howdah retry -", "retry all failed jobs"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
