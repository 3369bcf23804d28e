"""``howdah recover``: takes back the jobs of dead workers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from howdah.cli.arguments.connect import open_queue
from howdah.cli.arguments.duration import format_duration, parse_duration
from howdah.cli.command import Command
from howdah.cli.render.output import STATUS_STYLES, answer, answers, plural, print_json, say, table, text
from howdah.model.results import Recovered


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout",
        metavar="DURATION",
        type=parse_duration,
        help="instead of the sweep: take back jobs that were claimed longer ago than this, unless their worker is alive",
    )


def _run(args: argparse.Namespace) -> None:
    with open_queue(args) as queue:
        if args.timeout is not None:
            count = queue.recover_stale_jobs(args.timeout)
            said = f"{plural(count, 'job')} recovered: claimed longer ago than {format_duration(args.timeout)}"
            answer(args, {"count": count, "jobs": None}, said)
            return
        recovered = queue.recover()
    if args.json:
        print_json({"count": len(recovered), "jobs": recovered})
    else:
        _print_recovered(recovered)


def _print_recovered(recovered: Sequence[Recovered]) -> None:
    if not recovered:
        say("nothing to recover")
        return
    made = table("id", "now", "because", flexible=("because",))
    for job in recovered:
        made.add_row(text(job.id), text(job.status, STATUS_STYLES[job.status]), text(job.reason))
    answers().print(made)
    say(f"\n{plural(len(recovered), 'job')} recovered")


COMMAND = Command(
    name="recover",
    summary="take back the jobs of dead workers",
    story="""
        The sweep, by hand or from cron: jobs of dead workers and jobs whose lease has expired go back to pending, or become
        failed if their attempts are used up. Jobs that have timed out, expired or been cancelled are ended. A job of a
        live worker is never taken.
    """,
    examples=(
        ("howdah recover", "the sweep, and why each job was taken back"),
        ("howdah recover --timeout 10m", "for your own loops: jobs that they claimed more than ten minutes ago"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
