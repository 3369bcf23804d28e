"""``howdah top``: a live screen of the whole queue; without a terminal, one plain snapshot."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from howdah.cli.arguments.connect import chosen_codec
from howdah.cli.arguments.duration import parse_duration
from howdah.cli.command import Command
from howdah.cli.commands.top import plain
from howdah.cli.commands.top.snapshot import RUNNING, take
from howdah.cli.render.output import remark
from howdah.errors import InvalidOption
from howdah.queue import JobQueue

if TYPE_CHECKING:
    from howdah.cli.commands.top.app import Top

_CONNECTIONS: Final = 3
_PATIENCE: Final = 5
"""Seconds that a snapshot waits for a connection, before the screen reports an outage."""
_LEAST_EVERY: Final = timedelta(milliseconds=100)
_LIMIT: Final = 200


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--every",
        metavar="DURATION",
        type=parse_duration,
        default=timedelta(seconds=1),
        help="how often to look (default: 1s)",
    )
    parser.add_argument("--limit", metavar="N", type=int, default=_LIMIT, help=f"jobs to list (default: {_LIMIT})")
    parser.add_argument("--readonly", action="store_true", help="disable all keys that change something")
    parser.add_argument("--once", action="store_true", help="print one snapshot and end")


def _run(args: argparse.Namespace) -> int:
    if args.every < _LEAST_EVERY:
        raise InvalidOption("--every is 0.1s at least")
    place = args.dsn, args.schema
    with JobQueue(*place, codec=chosen_codec(), pool_size=_CONNECTIONS, timeout=_PATIENCE) as queue:
        # Before there is a screen: an error at the start is printed, with an exit code.
        first = take(queue, RUNNING, args.limit)
        where = plain.address(queue.dsn)
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
    """Whether there is a terminal for output and for keys."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    is_terminal = all(stream is not None and stream.isatty() for stream in streams)
    return is_terminal and os.environ.get("TERM") != "dumb"


def _missing(error: ModuleNotFoundError) -> int:
    if (error.name or "").partition(".")[0] != "textual":
        raise error
    remark("howdah: the screen of top needs textual: pip install 'howdah[top]'. Without it: howdah top --once")
    return 1


def _show(app: Top) -> int:
    code = asyncio.run(_run_until_stopped(app))
    if app.failure is not None:
        raise app.failure
    if code == app.INTERRUPTED:
        raise KeyboardInterrupt
    return code


async def _run_until_stopped(app: Top) -> int:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        # Ending at once would leave the terminal without echo, on the wrong screen.
        loop.add_signal_handler(number, app.exit, 128 + number)
    return await app.run_async() or 0


COMMAND = Command(
    name="top",
    summary="watch the whole queue live, and act on it",
    story="""
        A full screen of the types, the running jobs and the workers, with rates and latencies, which can be sorted and
        filtered; ? shows the keys. It asks before it cancels, retries, pauses or changes a priority. Without a terminal, or
        with --once or --json, it prints one snapshot and ends. The screen needs an extra: pip install 'howdah[top]'.
    """,
    examples=(
        ("howdah top", "the queue, live"),
        ("howdah top --readonly --every 5s", "for a screen on the wall"),
        ("howdah top --once", "one snapshot, as plain tables"),
        (
            "howdah top --json | jq -r '.types | to_entries[] | select(.value.workers == 0) | .key'",
            "types without a worker",
        ),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
