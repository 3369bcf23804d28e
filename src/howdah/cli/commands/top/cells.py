"""The columns of tables, described once for the screen, for sorting and for a pipe; and how numbers look in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final, Generic, TypeVar

from rich.console import Console
from rich.measure import Measurement
from rich.text import Text

from howdah.cli.arguments.duration import format_duration
from howdah.cli.render.output import table, text

# Columns

T = TypeVar("T")

_WIDEST: Final = 1_000


@dataclasses.dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column.

    cell: what is shown of a row, escaped for a terminal. value: what rows are sorted by; None comes last.
    number: aligned to the right, and sorted with the largest first.
    """

    title: str
    cell: Callable[[T], Text]
    value: Callable[[T], Any]
    number: bool = False


def counts(title: str, value: Callable[[T], int | None], style: str = "") -> Column[T]:
    return Column(title, lambda row: count(value(row), style), value, number=True)


def rates(title: str, value: Callable[[T], float | None]) -> Column[T]:
    return Column(title, lambda row: per_second(value(row)), value, number=True)


def durations(title: str, value: Callable[[T], float | None]) -> Column[T]:
    return Column(title, lambda row: seconds(value(row)), value, number=True)


def words(title: str, value: Callable[[T], object], style: str = "", *, number: bool = False) -> Column[T]:
    """Foreign text, or a number as it is; None is shown as nothing."""
    return Column(title, lambda row: text("" if value(row) is None else value(row), style), value, number)


def ordered(rows: Sequence[T], column: Column[T], *, backwards: bool) -> list[T]:
    """The rows by this column; rows without a value come last in either direction."""
    known = [row for row in rows if column.value(row) is not None]
    unknown = [row for row in rows if column.value(row) is None]
    return sorted(known, key=column.value, reverse=column.number is not backwards) + unknown


def print_table(console: Console, columns: Sequence[Column[T]], rows: Sequence[T]) -> None:
    """Prints the table; in a narrow terminal it is cut off at the edge, as on the screen."""
    numbers = [column.title for column in columns if column.number]
    made = table(*(column.title for column in columns), right=numbers)
    for row in rows:
        made.add_row(*(column.cell(row) for column in columns))
    made.width = Measurement.get(console, console.options.update(width=_WIDEST), made).maximum
    console.print(made, width=_WIDEST, no_wrap=True, overflow="ignore")


# Numbers

_BAR: Final = 8
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def count(value: int | None, style: str = "") -> Text:
    """A number of jobs; dim if it is zero."""
    return Text() if value is None else Text(f"{value:,}", style if value else "dim")


def per_second(value: float | None) -> Text:
    """A rate, with three significant digits."""
    if value is None:
        return Text()
    if value < 0.01:
        return Text("<0.01") if value else Text("0", "dim")
    return Text(f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < 100 else f"{value:,.0f}")


def seconds(value: float | None, style: str = "") -> Text:
    """A duration of so many seconds."""
    return Text() if value is None else text(format_duration(timedelta(seconds=min(value, 1e12))), style)


def bar(percent: float, style: str) -> Text:
    """Progress as a bar and in percent."""
    share = min(max(percent, 0.0), 100.0) / 100
    eighths = int(share * _BAR * 8)
    blocks = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
    return Text.assemble((f"{blocks:·<{_BAR}}", style), f" {int(share * 100):>3}%")
