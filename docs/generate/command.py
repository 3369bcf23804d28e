"""Every option of every command, from its help."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from docs.generate.markdown import HEADER, shown

from howdah.cli.parser import build

_SHARED = re.compile(r"\noptions of every command, before it or after it:\n(?:  .+\n)+")


def page() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield HEADER
    yield "# Options of the command\n"
    yield (
        "What `--help` says; the options that every command has are under the [first heading](#howdah) alone."
        " With examples and their output: [the command](command.md).\n"
    )
    yield "## howdah\n"
    parser = build()
    help_of_all = parser.format_help()
    yield f"{shown(help_of_all)}\n"
    for command, below in _choices(parser).items():
        for name, each in _with_actions(command, below):
            yield f"## howdah {name}\n"
            yield f"{shown(_without_shared(each.format_help(), help_of_all))}\n"


def _without_shared(text: str, help_of_all: str) -> str:
    """Unless one of the shared options means something else here."""
    here, there = _SHARED.search(text), _SHARED.search(help_of_all)
    assert here, text
    assert there, help_of_all
    return _SHARED.sub("", text) if here[0].split() == there[0].split() else text


def _with_actions(name: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The command, and those that it has itself."""
    yield name, parser
    for action, below in _choices(parser).items():
        yield f"{name} {action}", below


def _choices(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}
