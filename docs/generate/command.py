"""Every option of every command, as its help has it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from docs.generate.markdown import HEADER, shown

from howdah.cli.parser import all_commands, build


def page() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield HEADER
    yield "# Options of the command\n"
    yield "What `--help` says. With examples and their output: [the command](command.md).\n"
    yield "## howdah\n"
    parser = build()
    yield f"{shown(parser.format_help())}\n"
    for command in all_commands():
        for name, each in _with_actions(command.name, _of(parser, command.name)):
            yield f"## howdah {name}\n"
            yield f"{shown(each.format_help())}\n"


def _with_actions(name: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The command, and those that it has itself."""
    yield name, parser
    for action, below in _choices(parser).items():
        yield f"{name} {action}", below


def _of(parser: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser:
    return _choices(parser)[name]


def _choices(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}
