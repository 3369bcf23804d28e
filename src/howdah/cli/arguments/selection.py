"""Filters that select jobs, for commands that change many at once."""

from __future__ import annotations

import argparse
from typing import Final

from howdah.cli.arguments.duration import parse_duration
from howdah.errors import InvalidInput
from howdah.model.job import STATUSES
from howdah.queue import JobQueue
from howdah.verbs.selection import Selection

_FILTERS: Final = ("type", "status", "key", "per", "error", "older_than")


def add_common_filters(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--type",
        metavar="TYPE",
        action="append",
        help="jobs of this type, 'mail.*' for all that begin so; repeat it for more types",
    )
    parser.add_argument(
        "--status",
        action="append",
        choices=STATUSES,
        metavar="STATUS",
        help=f"{', '.join(STATUSES)}; repeat it for more",
    )
    parser.add_argument("--per", metavar="KEY", help="jobs with exactly this flow key, such as a customer")


def add_filters(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("instead of ids, the jobs that match all of these")
    add_common_filters(group)
    group.add_argument("--key", metavar="KEY", help="jobs with exactly this key")
    group.add_argument("--error", metavar="TEXT", help="jobs whose last error contains this, in the same case")
    group.add_argument(
        "--older-than",
        metavar="DURATION",
        type=parse_duration,
        help="live jobs that were created longer ago, and ended jobs that ended longer ago",
    )
    group.add_argument("--everything", action="store_true", help="every job, without a filter")
    group.add_argument("--dry-run", action="store_true", help="count them by type and status, and change nothing")


def check_choice(args: argparse.Namespace) -> None:
    """Either ids or filters, and one of them."""
    by_filters = args.everything or any(getattr(args, name) is not None for name in _FILTERS)
    if args.ids and (by_filters or args.dry_run):
        raise InvalidInput("ids and filters exclude each other: leave the ids out, or --type, --dry-run and the like")
    if not args.ids and not by_filters:
        raise InvalidInput(
            "name the jobs by their ids, or select them with --type, --status, --key, --per, --error or --older-than;"
            " --everything is every job"
        )


def selection_of(queue: JobQueue, args: argparse.Namespace) -> Selection:
    return queue.select(
        job_type=args.type,
        status=args.status,
        key=args.key,
        per=args.per,
        error=args.error,
        older_than=args.older_than,
        everything=args.everything,
    )
