"""A column of a table, described once for the screen, for sorting and for a pipe."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from rich.console import Console
from rich.measure import Measurement
from rich.text import Text

from howdah.cli.render.output import table

T = TypeVar("T")

_WIDEST: Final = 1_000


@dataclasses.dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column.

    cell: what is shown of a row, made of safe text only. value: what rows are sorted by; None comes last.
    number: aligned to the right, and sorted with the largest first.
    """

    title: str
    cell: Callable[[T], Text]
    value: Callable[[T], Any]
    number: bool = False


def ordered(rows: Sequence[T], column: Column[T], *, backwards: bool) -> list[T]:
    """The rows by this column; those that have nothing in it come last in either direction."""
    known = [row for row in rows if column.value(row) is not None]
    unknown = [row for row in rows if column.value(row) is None]
    return sorted(known, key=column.value, reverse=column.number is not backwards) + unknown


def print_table(console: Console, columns: Sequence[Column[T]], rows: Sequence[T]) -> None:
    """Prints the table; where there is too little room, it ends at the edge, as on the screen."""
    numbers = [column.title for column in columns if column.number]
    made = table(*(column.title for column in columns), right=numbers)
    for row in rows:
        made.add_row(*(column.cell(row) for column in columns))
    made.width = Measurement.get(console, console.options.update(width=_WIDEST), made).maximum
    console.print(made, width=_WIDEST, no_wrap=True, overflow="ignore")
