"""``howdah signal``: sends a signal to the jobs that wait for it."""

from __future__ import annotations

import argparse

from howdah.cli.arguments.connect import open_queue
from howdah.cli.arguments.json_input import add_data, data_of
from howdah.cli.command import Command
from howdah.cli.render.output import answer, plural


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the name that the handler waits for")
    add_data(parser, "the data that the handler gets; - reads it from standard input")
    parser.add_argument("--key", metavar="KEY", help="only for the jobs that wait for the signal with this key")


def _run(args: argparse.Namespace) -> None:
    with open_queue(args) as queue:
        sent = queue.signal(args.name, data_of(args), key=args.key)
    kept = "no job waits for it: it is kept for the next one that does"
    answer(args, sent._asdict(), kept if sent.kept else f"{plural(sent.woken, 'job')} woken")


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
