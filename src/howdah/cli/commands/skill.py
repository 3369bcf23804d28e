"""``howdah skill``: instructions for coding agents that add Howdah to a project."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from howdah import skill
from howdah.cli.command import Command, action_adder
from howdah.cli.render.output import print_json, say

_FOR_ALL: Final = Path(".claude") / "skills"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = action_adder(parser)
    install = add("install", "install or update it in an agent's folder", _install)
    where = install.add_mutually_exclusive_group()
    where.add_argument("--dir", metavar="DIR", type=Path, help="into this folder (default: ~/.claude/skills)")
    where.add_argument("--project", action="store_true", help="into .claude/skills of the current folder")
    install.add_argument(
        "--force", action="store_true", help="replace changed files, too; the old ones are kept beside them"
    )
    show = add("show", "print it", _show)
    show.add_argument("--readme", action="store_true", help="print its README instead")


def _install(args: argparse.Namespace) -> None:
    parent = args.dir or (Path.cwd() if args.project else Path.home()) / _FOR_ALL
    done = skill.install(parent.expanduser(), force=args.force)
    if args.json:
        print_json({"folder": str(done.folder), "outcome": done.outcome, "kept": [str(each) for each in done.kept]})
        return
    say(f"{'is up to date:' if done.outcome == 'unchanged' else done.outcome} {done.folder}")
    for each in done.kept:
        say(f"the old file is kept as {each}")


def _show(args: argparse.Namespace) -> None:
    name = skill.FILES[1] if args.readme else skill.FILES[0]
    if args.json:
        print_json({"name": skill.NAME, "file": name, "text": skill.text(name)})
    else:
        sys.stdout.write(skill.text(name))


COMMAND = Command(
    name="skill",
    summary="teach a coding agent to use Howdah",
    story="""
        The skill is a folder, postgres-job-queue, with a page that an agent reads when it is asked for a job queue,
        background jobs or a task queue on PostgreSQL. A copy that you have changed is not replaced.
    """,
    examples=(
        ("howdah skill install", "for all your projects"),
        ("howdah skill install --project", "for this one, to be committed with it"),
        ("howdah skill show", "read it"),
    ),
    add_arguments=_add_arguments,
)
