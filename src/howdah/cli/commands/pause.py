"""``howdah pause`` and ``howdah resume``: stop and go, for a type of jobs."""

from __future__ import annotations

import argparse

from howdah.cli.arguments.connect import open_queue
from howdah.cli.command import Command
from howdah.cli.render.output import print_json, say


def _add_type(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("type", metavar="TYPE", help="the type of jobs")


def _add_pause_arguments(parser: argparse.ArgumentParser) -> None:
    _add_type(parser)
    parser.add_argument("--because", metavar="TEXT", help="why, for whoever finds it paused")


def _pause(args: argparse.Namespace) -> int:
    with open_queue(args) as queue:
        changed = queue.pause(args.type, args.because)
    return _answer(args, changed, paused=True, outcome="is paused" if changed else "was paused already")


def _resume(args: argparse.Namespace) -> int:
    with open_queue(args) as queue:
        changed = queue.resume(args.type)
    return _answer(args, changed, paused=False, outcome="goes on" if changed else "was not paused")


def _answer(args: argparse.Namespace, changed: bool, *, paused: bool, outcome: str) -> int:
    if args.json:
        print_json({"type": args.type, "paused": paused, "changed": changed})
    else:
        say(f"{args.type} {outcome}")
    return 0


PAUSE = Command(
    name="pause",
    summary="let no job of a type be claimed",
    story="""
        From now on workers leave jobs of this type where they are; what runs goes on, and new jobs may be
        enqueued. Exits with 0 also if the type was paused already.
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
    summary="let jobs of a paused type be claimed again",
    story="What has waited meanwhile is claimed by priority, as ever. Exits with 0 also if it was not paused.",
    examples=(
        ("howdah resume send_invoice", "go on sending invoices"),
        ("howdah stats", "see which types are paused"),
    ),
    add_arguments=_add_type,
    run=_resume,
)
