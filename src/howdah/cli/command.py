"""One command of ``howdah``: its arguments, its function, and its help."""

from __future__ import annotations

import argparse
import dataclasses
import textwrap
from collections.abc import Callable, Sequence

HELP_WIDTH = 88
SCHEMA = "the schema that holds the queue (default: HOWDAH_SCHEMA, else howdah)"

Action = Callable[[argparse.Namespace], int | None]
"""Returns the exit code; None is 0."""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """The help of all commands."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=HELP_WIDTH)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command; ``examples`` are pairs of a command line and what it is for. Its actions, if it has some, are run instead of it."""

    name: str
    summary: str
    story: str
    examples: Sequence[tuple[str, str]]
    add_arguments: Callable[[argparse.ArgumentParser], None] = lambda _: None
    run: Action | None = None
    schema: str = SCHEMA
    """What --schema means."""

    @property
    def description(self) -> str:
        story = textwrap.fill(" ".join(self.story.split()), HELP_WIDTH)
        return f"{self.summary[0].upper()}{self.summary[1:]}.\n\n{story}"

    @property
    def epilog(self) -> str:
        return "examples:\n" + "\n".join(f"  # {purpose}\n  {line}" for line, purpose in self.examples)


def action_adder(parser: argparse.ArgumentParser) -> Callable[[str, str, Action], argparse.ArgumentParser]:
    """For a command that has actions: returns the function that adds one."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    def add(name: str, summary: str, act: Action) -> argparse.ArgumentParser:
        action = actions.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            formatter_class=parser.formatter_class,
            allow_abbrev=False,
        )
        action.set_defaults(run=act)
        return action

    return add
