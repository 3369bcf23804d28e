"""``howdah recover``: takes back what nobody works on any more."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from howdah.cli.arguments.connect import open_queue
from howdah.cli.arguments.duration import format_span, parse_span
from howdah.cli.command import Command
from howdah.cli.render.output import answers, print_json, say, table, text
from howdah.cli.render.status import STYLES
from howdah.model.results import Recovered


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout",
        metavar="SPAN",
        type=parse_span,
        help="instead of the sweep: take back what was claimed longer ago than this, unless its worker lives",
    )


def _run(args: argparse.Namespace) -> int:
    with open_queue(args) as queue:
        if args.timeout is None:
            recovered = queue.recover()
            count = len(recovered)
        else:
            recovered = []
            count = queue.recover_stale_jobs(args.timeout)
    if args.json:
        print_json({"count": count, "jobs": recovered if args.timeout is None else None})
    elif args.timeout is not None:
        say(f"{_jobs(count)} recovered: claimed longer ago than {format_span(args.timeout)}")
    else:
        _print_recovered(recovered)
    return 0


def _print_recovered(recovered: Sequence[Recovered]) -> None:
    if not recovered:
        say("nothing to recover")
        return
    made = table("id", "now", "because", flexible=("because",))
    for job in recovered:
        made.add_row(text(job.id), text(job.status, STYLES[job.status]), text(job.reason))
    answers().print(made)
    say(f"\n{_jobs(len(recovered))} recovered")


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


COMMAND = Command(
    name="recover",
    summary="take back the jobs that nobody works on any more",
    story="""
        The sweep, by hand or from cron: jobs of dead workers and of
        leases that have passed go back to pending, or become failed if their attempts are used up; what has
        timed out, expired or was cancelled is ended. A job whose worker lives is never taken.
    """,
    examples=(
        ("howdah recover", "the sweep, and why each job was taken back"),
        ("howdah recover --timeout 10m", "for loops of your own: what they claimed more than ten minutes ago"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
