"""``howdah top``: a live screen of the whole queue; one plain snapshot where there is no screen."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from howdah.cli.arguments.connect import chosen_codec
from howdah.cli.arguments.duration import parse_span
from howdah.cli.command import Command
from howdah.cli.commands.top import banner, plain
from howdah.cli.commands.top.snapshot import take
from howdah.cli.commands.top.view import RUNNING
from howdah.cli.render.output import remark
from howdah.errors import InvalidOption
from howdah.queue import JobQueue

if TYPE_CHECKING:
    from howdah.cli.commands.top.app import Top

_CONNECTIONS: Final = 3
_PATIENCE: Final = 5
"""Seconds that a snapshot waits for a connection: who looks at a screen wants to know."""
_LEAST_EVERY: Final = timedelta(milliseconds=100)
_LIMIT: Final = 200


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--every", metavar="SPAN", type=parse_span, default=timedelta(seconds=1), help="how often to look (default: 1s)"
    )
    parser.add_argument("--limit", metavar="N", type=int, default=_LIMIT, help=f"jobs to list (default: {_LIMIT})")
    parser.add_argument("--readonly", action="store_true", help="change nothing, whatever key is pressed")
    parser.add_argument("--once", action="store_true", help="print one snapshot, and end")


def _run(args: argparse.Namespace) -> int:
    if args.every < _LEAST_EVERY:
        raise InvalidOption("--every is 0.1s at least")
    place = args.dsn, args.schema
    with JobQueue(*place, codec=chosen_codec(), pool_size=_CONNECTIONS, timeout=_PATIENCE) as queue:
        # Before there is a screen: what is wrong from the beginning is said in words, with an exit code.
        first = take(queue, RUNNING, args.limit)
        where = banner.address(queue.dsn)
        if args.json:
            plain.print_object(first, where, queue.schema)
        elif args.once or not _is_screen():
            plain.print_tables(first, where, queue.schema)
        else:
            try:
                from howdah.cli.commands.top.app import Top
            except ModuleNotFoundError as error:
                return _missing(error)
            return _show(Top(queue, first, where, every=args.every, limit=args.limit, readonly=args.readonly))
    return 0


def _is_screen() -> bool:
    """Whether there is a terminal to draw on, and to read keys from."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    is_terminal = all(stream is not None and stream.isatty() for stream in streams)
    return is_terminal and os.environ.get("TERM") != "dumb"


def _missing(error: ModuleNotFoundError) -> int:
    if (error.name or "").partition(".")[0] != "textual":
        raise error
    remark("howdah: the screen of top needs textual: pip install 'howdah[top]'. Without it: howdah top --once")
    return 1


def _show(app: Top) -> int:
    code = asyncio.run(_run_until_told(app))
    if app.failure is not None:
        raise app.failure
    if code == app.INTERRUPTED:
        raise KeyboardInterrupt
    return code


async def _run_until_told(app: Top) -> int:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        # A death on the spot would leave the terminal without echo, on the wrong screen.
        loop.add_signal_handler(number, app.exit, 128 + number)
    return await app.run_async() or 0


COMMAND = Command(
    name="top",
    summary="watch the whole queue live, and act on it",
    story="""
        A full screen of the types, the running jobs and the workers, with rates and latencies, that can be sorted
        and filtered; ? shows the keys. Cancelling, retrying, pausing and priorities ask before they do anything.
        Where there is no terminal, or with --once or --json, it prints one snapshot and ends. The screen needs an
        extra: pip install 'howdah[top]'.
    """,
    examples=(
        ("howdah top", "the queue, live"),
        ("howdah top --readonly --every 5s", "for a screen on the wall"),
        ("howdah top --once", "one snapshot, as plain tables"),
        ("howdah top --json | jq -r '.types | to_entries[] | select(.value.workers == 0) | .key'", "what nobody does"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
