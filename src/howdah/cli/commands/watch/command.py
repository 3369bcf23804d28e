"""``howdah watch``: its arguments, and the choice of a view."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence

from howdah.cli.arguments.connect import open_queue
from howdah.cli.command import Command
from howdah.cli.commands.watch.lines import JsonLines, PlainLines
from howdah.cli.commands.watch.picture import Picture
from howdah.cli.commands.watch.watcher import View, Wanted, Watcher, first_look, parse_kinds, wanted, with_workflow
from howdah.cli.render.output import answers, can_be_redrawn, remark
from howdah.errors import InvalidInput
from howdah.watch.watch import KINDS


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names",
        metavar="ID|TYPE",
        nargs="*",
        help="ids of jobs, or types of jobs; all types if none is given; - reads them from stdin",
    )
    parser.add_argument(
        "--kinds",
        metavar="KINDS",
        type=parse_kinds,
        default=frozenset(KINDS),
        help=f"what to show: some of {','.join(KINDS)} (default: all)",
    )
    parser.add_argument(
        "--after",
        metavar="POSITION",
        help="continue after this position, as --json prints it; for types, '' is the oldest one",
    )
    parser.add_argument(
        "--workflow", metavar="WORKFLOW", help="watch a workflow: its id, or its name for the newest one of that name"
    )
    parser.add_argument("--key", metavar="KEY", help="with --workflow NAME: the one of this key")
    parser.add_argument("--until-done", action="store_true", help="for types: end when none of their jobs is left")


def _run(args: argparse.Namespace) -> int:
    names = list(_names(args.names))
    if args.names and not names:
        remark("nothing to watch")
        return 0
    if args.workflow is not None and names:
        raise InvalidInput("--workflow watches one workflow: name no jobs and no types beside it")
    return asyncio.run(_watch(args, wanted(names, args.kinds, args.after, until_done=args.until_done)))


def _names(given: Sequence[str]) -> Iterator[str]:
    for name in given:
        if name == "-":
            yield from filter(None, map(str.strip, sys.stdin))
        else:
            yield name


async def _watch(args: argparse.Namespace, what: Wanted) -> int:
    async with open_queue(args) as queue:
        what = await with_workflow(queue, what, args.workflow, args.key)
        before = await first_look(queue, what)
        with _view(args, what) as view:
            return await Watcher(queue, what, view, before).run()


def _view(args: argparse.Namespace, what: Wanted) -> View:
    if args.json:
        return JsonLines(what)
    console = answers()
    return Picture(console, what) if can_be_redrawn(console) else PlainLines(what)


COMMAND = Command(
    name="watch",
    summary="watch jobs as they run",
    story="""
        In a terminal, a bar for each running job, with its stage, its rate and the time left, and above the bars events, log
        lines and ends of jobs. Elsewhere a line for each of these, or with --json an object. For a waiting job it shows how
        many come before it. Given ids, it ends when all of these jobs have ended: with 0 if all have completed, and with 1 if
        one has failed or was cancelled. Of a workflow it shows the whole and its running jobs, and ends with it in the same
        way. Given types, it runs until Ctrl-C, or with --until-done until they have no live jobs. It survives a restart of the
        database.
    """,
    examples=(
        (
            """howdah watch $(howdah enqueue send_invoice '{"invoice": 17}')""",
            "add a job, and watch it until it has ended",
        ),
        ("howdah watch --workflow import", "the newest workflow of this name, until it has ended"),
        ("howdah watch send_invoice resize_photo --kinds progress,status", "two types, without events and logs"),
        ("howdah watch --json --kinds event | jq -c '[.name, .data]'", "the events of all jobs, for a program"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
