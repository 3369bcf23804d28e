"""``howdah signal``: sends a signal to the jobs that wait for it."""

from __future__ import annotations

import argparse

from howdah.cli.arguments.connect import open_queue
from howdah.cli.arguments.json_input import data_of
from howdah.cli.command import Command
from howdah.cli.render.output import plural, print_json, say


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the name that the handler waits for")
    parser.add_argument(
        "json_data", metavar="JSON", nargs="?", help="what the handler gets; - reads it from standard input"
    )
    parser.add_argument(
        "--data",
        metavar="KEY=VALUE",
        action="append",
        help="one entry of it; repeat it for more. 17 is a number, '\"17\"' is text",
    )
    parser.add_argument("--key", metavar="KEY", help="only for the jobs that wait for the signal with this key")


def _run(args: argparse.Namespace) -> int:
    with open_queue(args) as queue:
        sent = queue.signal(args.name, data_of(args), key=args.key)
    if args.json:
        print_json(sent._asdict())
    elif sent.kept:
        say("no job waits for it: it is kept for the next one that does")
    else:
        say(f"{plural(sent.woken, 'job')} woken")
    return 0


COMMAND = Command(
    name="signal",
    summary="send a signal to the jobs that wait for it",
    story="""
        Wakes all jobs whose handlers wait for this name and key (job.wait_signal). If none does, the signal is kept, and the first
        wait takes it; it expires after the retention time.
    """,
    examples=(
        ("""howdah signal approved '{"by": "ann"}' --key 17""", "what order 17 waits for, with JSON as its data"),
        ("howdah signal approved --data by=ann --key 17", "the same without quoting JSON"),
        ("howdah signal go", "to all that wait for it"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
