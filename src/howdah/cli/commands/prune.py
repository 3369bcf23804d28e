"""``howdah prune``: drops the old segments of the archive."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from howdah.cli.arguments.connect import open_queue
from howdah.cli.arguments.datetimes import stamp
from howdah.cli.arguments.duration import parse_span
from howdah.cli.command import Command
from howdah.cli.render.output import plain, print_json, say, text
from howdah.model.results import PrunedSegment


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", metavar="SPAN", type=parse_span, help="how long ended jobs are kept (default: 14d)")
    parser.add_argument(
        "--tries", metavar="N", type=int, default=10, help="how often a segment that is in use is tried (default: 10)"
    )


def _run(args: argparse.Namespace) -> int:
    with open_queue(args) as queue:
        segments = queue.prune(args.keep, tries=args.tries)
    if args.json:
        for segment in segments:
            print_json(plain(segment))
    else:
        _print_segments(segments)
    return 0 if all(segment.dropped for segment in segments) else 1


def _print_segments(segments: Sequence[PrunedSegment]) -> None:
    if not segments:
        say("no segment of the archive is that old")
    for segment in segments:
        outcome = text("dropped", "green") if segment.dropped else text(f"kept: {segment.reason}", "yellow")
        say(text(f"segment {segment.segment}{_ends(segment)}  ") + outcome)


def _ends(segment: PrunedSegment) -> str:
    if segment.first_end is None or segment.last_end is None:
        return ""
    return f"  {stamp(segment.first_end)} to {stamp(segment.last_end)}"


COMMAND = Command(
    name="prune",
    summary="drop the segments of the archive that are older than is kept",
    story="""
        Ended jobs are kept in segments, each of about a twelfth of the time for which they are kept, and
        whole segments are dropped once their last job is old enough: that costs nothing, however many jobs
        they hold. How long jobs are kept is set in the table settings, 14 days at first. A segment that is in
        use is tried again and never waited for, so that no completion is held up; if one could not be
        dropped, or the open one not be closed, the exit code is 1 and the session in the way is named.
    """,
    examples=(
        ("howdah prune", "from cron, once a day"),
        ("howdah prune --keep 2d", "keep less, for once"),
        ("howdah prune --tries 100", "be patient with long readers"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
