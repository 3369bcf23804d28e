"""``howdah prune``: drops the old days of the archive."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from howdah.cli.command import Command
from howdah.cli.connect import open_queue
from howdah.cli.output import plain, print_json, say, text
from howdah.cli.span import parse_span
from howdah.results import PrunedDay


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", metavar="SPAN", type=parse_span, help="how long ended jobs are kept (default: 14d)")
    parser.add_argument(
        "--tries", metavar="N", type=int, default=10, help="how often a day that is in use is tried (default: 10)"
    )


def _run(args: argparse.Namespace) -> int:
    with open_queue(args) as queue:
        days = queue.prune(args.keep, tries=args.tries)
    if args.json:
        for day in days:
            print_json(plain(day))
    else:
        _print_days(days)
    return 0 if all(day.dropped for day in days) else 1


def _print_days(days: Sequence[PrunedDay]) -> None:
    if not days:
        say("no day of the archive is that old")
    for day in days:
        outcome = text("dropped", "green") if day.dropped else text(f"kept: {day.reason}", "yellow")
        say(text(f"{day.day}  ") + outcome)


COMMAND = Command(
    name="prune",
    summary="drop the days of the archive that are older than is kept",
    story="""
        Ended jobs are kept by the day on which they ended (UTC), and whole days are dropped: that costs
        nothing, however many jobs they hold. How long they are kept is set in the table settings, 14 days
        at first. A day that somebody reads is tried again and never waited for, so that no completion is
        held up; if one could not be dropped, the exit code is 1 and the reader is named.
    """,
    examples=(
        ("howdah prune", "from cron, once a day"),
        ("howdah prune --keep 2d", "keep less, for once"),
        ("howdah prune --tries 100", "be patient with long readers"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
