"""One command of ``howdah``: what it takes, what it does, and how its help teaches it."""

from __future__ import annotations

import argparse
import dataclasses
import textwrap
from collections.abc import Callable, Sequence

HELP_WIDTH = 88


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command; ``examples`` are pairs of a command line and what it is for."""

    name: str
    summary: str
    story: str
    examples: Sequence[tuple[str, str]]
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]

    @property
    def description(self) -> str:
        story = textwrap.fill(" ".join(self.story.split()), HELP_WIDTH)
        return f"{self.summary[0].upper()}{self.summary[1:]}.\n\n{story}"

    @property
    def epilog(self) -> str:
        return "examples:\n" + "\n".join(f"  # {purpose}\n  {line}" for line, purpose in self.examples)


def no_arguments(parser: argparse.ArgumentParser) -> None:
    """For a command that takes nothing but the options that all take."""
