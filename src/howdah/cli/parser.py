"""Reads the command line. ``GROUPS`` lists the commands."""

from __future__ import annotations

import argparse
import pkgutil
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final, NoReturn

from howdah import __about__
from howdah.checks.options import nearest
from howdah.cli.command import SCHEMA, Command, HelpFormatter
from howdah.cli.render.terminal_escape import presentable

GROUPS: Final[dict[str, dict[str, str]]] = {
    "get started": {"demo": "demo.command:COMMAND", "migrate": "migrate:COMMAND", "skill": "skill:COMMAND"},
    "add jobs": {"enqueue": "enqueue:COMMAND", "schedule": "schedule:COMMAND"},
    "run jobs": {"work": "work:COMMAND", "health": "health:COMMAND"},
    "watch jobs": {
        "list": "listing:COMMAND",
        "show": "show:COMMAND",
        "watch": "watch.command:COMMAND",
        "logs": "logs:COMMAND",
        "workflow": "workflow:COMMAND",
        "stats": "stats:COMMAND",
        "top": "top.command:COMMAND",
        "web": "web:COMMAND",
    },
    "change jobs": {
        "cancel": "change:CANCEL",
        "retry": "change:RETRY",
        "delete": "change:DELETE",
        "reprioritise": "change:REPRIORITISE",
        "reschedule": "change:RESCHEDULE",
        "pause": "change:PAUSE",
        "resume": "change:RESUME",
        "limit": "limit:COMMAND",
        "signal": "signal:COMMAND",
    },
    "operate": {
        "recover": "recover:COMMAND",
        "prune": "prune:COMMAND",
        "doctor": "doctor:COMMAND",
        "psql": "psql:COMMAND",
        "dsn": "dsn:COMMAND",
        "bench": "bench.command:COMMAND",
    },
}
"""Each command and its module. Only the module of the called command is imported."""
_PLACES: Final = {name: place for group in GROUPS.values() for name, place in group.items()}

_OVERVIEW: Final = """\
A job queue that needs PostgreSQL and nothing else.

quick start:
  howdah demo                                      watch a few hundred jobs run
  howdah enqueue send_invoice '{"invoice": 17}'    add a job of your own
  howdah list                                      see its status
  howdah work app:queue                            run the handlers of app.py

"""

_AFTERWORD: Final = """\
where the jobs are:
  --dsn, else HOWDAH_DSN, else DATABASE_URL, else an embedded PostgreSQL under ./.howdah/
  Your own database needs howdah migrate once; the embedded one needs nothing.

exit codes:
  0  done                                 4  the database cannot be reached
  1  a job was not found or not changed,  5  the embedded PostgreSQL could not be started
     or a check found something           6  a worker's grace period ran out
  2  the command line was wrong           7  a worker restarts to get rid of stuck handlers
  3  the schema is missing, older         8  the doctor could not check everything
     or newer: howdah migrate           130  interrupted

HOWDAH_DEBUG=1 adds the traceback to an error. NO_COLOR=1 leaves the colours out.
"""


class Parser(argparse.ArgumentParser):
    """Argparse, with error messages that are escaped for a terminal and hold no password."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuses what is unknown itself: the parser above it has another usage, and other options."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        meant = self._meant(message)
        hint = f"Did you mean {meant}? " if meant else ""
        self.exit(2, f"{self.prog}: {presentable(message)}\n{hint}Try: {self.prog} --help\n")

    def _meant(self, message: str) -> str:
        """The command, the option or the value that is nearest to the one that is wrong, or nothing."""
        if unknown := re.search(r"unrecognized arguments: .*?(--[\w-]+)", message):
            return nearest(unknown[1], _option_names(self))
        if wrong := re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message):
            return nearest(wrong[1], re.findall(r"[\w-]+", wrong[2]))
        return ""


def _option_names(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Of a parser, and of its commands and actions."""
    for option in parser._actions:
        yield from option.option_strings
    for below in _below(parser):
        yield from _option_names(below)


def all_commands() -> list[Command]:
    return [_load(name) for name in _PLACES]


def _load(name: str) -> Command:
    command: Command = pkgutil.resolve_name(f"howdah.cli.commands.{_PLACES[name]}")
    return command


def build(argv: Sequence[str] = ()) -> Parser:
    """The parser of the called command, or of all; it sets ``run`` to the function of the command."""
    called = _called(argv)
    commands = [_load(called)] if called else all_commands()
    parser = Parser(
        prog="howdah",
        usage="howdah [--dsn DSN] [--schema NAME] [--json] COMMAND …",
        description=_OVERVIEW + ("" if called else _overview_of_commands(commands)),
        epilog=_AFTERWORD,
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(dsn=None, schema=None, json=False, run=None)
    _add_shared_options(parser, SCHEMA)
    choices = parser.add_subparsers(prog="howdah", metavar="COMMAND", help=argparse.SUPPRESS)
    for command in commands:
        added = choices.add_parser(
            command.name,
            description=command.description,
            epilog=command.epilog,
            formatter_class=HelpFormatter,
            allow_abbrev=False,
        )
        command.add_arguments(added)
        for each in (added, *_below(added)):
            _add_shared_options(each, command.schema)
        added.set_defaults(run=command.run)
    return parser


def _called(argv: Sequence[str]) -> str | None:
    """The command in a command line; None if there is none, or it is unknown."""
    words = iter(argv)
    for word in words:
        if word in ("--dsn", "--schema"):
            next(words, None)
        elif not word.startswith("-"):
            return word if word in _PLACES else None
    return None


def _below(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """The parsers of its commands, or of the actions of a command."""
    groups = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    return [action for group in groups for action in group.choices.values()]


def _add_shared_options(parser: argparse.ArgumentParser, schema: str) -> None:
    group = parser.add_argument_group("options of every command, before it or after it")
    # Without defaults, because those of a command would replace options that are given before it.
    without = argparse.SUPPRESS
    dsn = "the database; put a password into HOWDAH_DSN, where a process list does not show it"
    group.add_argument("--dsn", metavar="DSN", default=without, help=dsn)
    group.add_argument("--schema", metavar="NAME", default=without, help=schema)
    group.add_argument("--json", action="store_true", default=without, help="print JSON, for programs")
    group.add_argument("--version", action="version", version=f"howdah {__about__.__version__}")


def _overview_of_commands(commands: Sequence[Command]) -> str:
    summaries = {command.name: command.summary for command in commands}
    lines = []
    for title, group in GROUPS.items():
        lines.append(f"{title}:")
        lines += [f"  {name:<12} {summaries[name]}" for name in group]
    return "\n".join(lines)
