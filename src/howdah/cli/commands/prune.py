"""``howdah prune``: drops the old segments of the archive."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from howdah.cli.arguments.connect import open_queue
from howdah.cli.arguments.datetimes import stamp
from howdah.cli.arguments.duration import parse_duration
from howdah.cli.command import Command
from howdah.cli.render.output import print_json, say, text
from howdah.model.results import PrunedSegment


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep", metavar="DURATION", type=parse_duration, help="how long ended jobs are kept (default: 14d)"
    )
    parser.add_argument(
        "--tries", metavar="N", type=int, default=10, help="how often to try a segment that is in use (default: 10)"
    )


def _run(args: argparse.Namespace) -> int:
    with open_queue(args) as queue:
        segments = queue.prune(args.keep, tries=args.tries)
    if args.json:
        for segment in segments:
            print_json(segment)
    else:
        _print_segments(segments)
    return 0 if all(segment.dropped for segment in segments) else 1


def _print_segments(segments: Sequence[PrunedSegment]) -> None:
    if not segments:
        say("no segment of the archive is old enough")
    for segment in segments:
        outcome = text("dropped", "green") if segment.dropped else text(f"kept: {segment.reason}", "yellow")
        say(text(f"segment {segment.segment}{_ends(segment)}  ") + outcome)


def _ends(segment: PrunedSegment) -> str:
    if segment.first_end is None or segment.last_end is None:
        return ""
    return f"  {stamp(segment.first_end)} to {stamp(segment.last_end)}"


COMMAND = Command(
    name="prune",
    summary="drop old segments of the archive",
    story="""
        Ended jobs are kept in segments, each for about a twelfth of the time for which jobs are kept. A whole segment is
        dropped once its last job is old enough: that costs nothing, however many jobs it holds. The table settings says
        how long jobs are kept; the default is 14 days. A segment that is in use is tried again and never waited for, so
        that completions are not blocked. If a segment could not be dropped, or the open one could not be closed, the exit
        code is 1 and the blocking session is named.
    """,
    examples=(
        ("howdah prune", "from cron, once a day"),
        ("howdah prune --keep 2d", "keep less, this time only"),
        ("howdah prune --tries 100", "try longer, beside long reads"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
