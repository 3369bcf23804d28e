"""``howdah pause`` and ``howdah resume``: stop and resume a type of jobs."""

from __future__ import annotations

import argparse

from howdah.cli.arguments.connect import open_queue
from howdah.cli.command import Command
from howdah.cli.render.output import print_json, say


def _add_type(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("type", metavar="TYPE", help="the type of jobs")


def _add_pause_arguments(parser: argparse.ArgumentParser) -> None:
    _add_type(parser)
    parser.add_argument("--because", metavar="TEXT", help="the reason, shown beside the paused type")


def _pause(args: argparse.Namespace) -> int:
    with open_queue(args) as queue:
        changed = queue.pause(args.type, args.because)
    return _answer(args, changed, paused=True, outcome="is paused" if changed else "was paused already")


def _resume(args: argparse.Namespace) -> int:
    with open_queue(args) as queue:
        changed = queue.resume(args.type)
    return _answer(args, changed, paused=False, outcome="resumed" if changed else "was not paused")


def _answer(args: argparse.Namespace, changed: bool, *, paused: bool, outcome: str) -> int:
    if args.json:
        print_json({"type": args.type, "paused": paused, "changed": changed})
    else:
        say(f"{args.type} {outcome}")
    return 0


PAUSE = Command(
    name="pause",
    summary="stop picking up jobs of a type",
    story="""
        From now on workers do not claim jobs of this type. Running jobs continue, and new ones can be enqueued. Exits with
        0 also if the type was paused already.
    """,
    examples=(
        ("howdah pause send_invoice", "stop sending invoices"),
        ("howdah pause send_invoice --because 'mail server moves, Ann'", "and say why"),
    ),
    add_arguments=_add_pause_arguments,
    run=_pause,
)

RESUME = Command(
    name="resume",
    summary="pick up jobs of a paused type again",
    story="Waiting jobs are claimed by priority, as usual. Exits with 0 also if the type was not paused.",
    examples=(
        ("howdah resume send_invoice", "send invoices again"),
        ("howdah stats", "see which types are paused"),
    ),
    add_arguments=_add_type,
    run=_resume,
)
