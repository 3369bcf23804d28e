"""The output of commands: results to stdout, remarks to stderr, JSON for programs."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import re
import sys
import uuid
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final, NoReturn, TextIO

from rich.console import Console, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from howdah.checks.values import unreadable_mark
from howdah.cli.arguments.datetimes import iso
from howdah.cli.render.terminal_escape import escape_lines, presentable, terminal_escape
from howdah.model.codec import Unreadable
from howdah.model.job import Job, Status
from howdah.model.results import TypeStats

_PIPE_WIDTH: Final = 200
"""In a pipe or a file a table may be wide: no terminal wraps it."""


STATUS_STYLES: Final[dict[Status, str]] = {
    "pending": "yellow",
    "claimed": "blue",
    "running": "cyan",
    "completed": "green",
    "failed": "red",
    "cancelled": "magenta",
}


_FILLING: Final = re.compile(" +(?=\n)")


class _PlainConsole(Console):
    def __init__(self, *, stderr: bool) -> None:
        super().__init__(stderr=stderr, markup=False, highlight=False, emoji=False)
        if not self.is_terminal and "COLUMNS" not in os.environ:
            self.width = _PIPE_WIDTH

    def on_broken_pipe(self) -> NoReturn:
        # Rich would end the process here; main() decides that.
        raise BrokenPipeError

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        # Cells of tables are filled up with spaces, which nothing but a terminal needs.
        made = super()._render_buffer(buffer)
        return made if self.is_terminal else _FILLING.sub("", made)


def answers() -> Console:
    """The console for results."""
    return _PlainConsole(stderr=False)


def remarks() -> Console:
    """The console for remarks."""
    return _PlainConsole(stderr=True)


def can_be_redrawn(console: Console) -> bool:
    """Whether it is a terminal that can move its cursor."""
    return console.is_terminal and not console.is_dumb_terminal


def say(message: str | Text) -> None:
    answers().print(_text(message), soft_wrap=True)


def remark(message: str | Text) -> None:
    remarks().print(_text(message), soft_wrap=True)


def text(value: object, style: str = "") -> Text:
    """Foreign text, escaped for a terminal and never read as markup."""
    return Text(terminal_escape(str(value)), style)


def cut(value: object, style: str = "") -> Text:
    """``text`` for a flexible column of a table: cut off at the column's width."""
    made = text(value, style)
    made.no_wrap, made.overflow = True, "ellipsis"
    return made


def table(*headers: str, right: Sequence[str] = (), flexible: Sequence[str] = ()) -> Table:
    """A table without lines, which grep can search.

    In a narrow terminal the flexible columns shrink, and the others keep their width.
    """
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for header in headers:
        justify: JustifyMethod = "right" if header in right else "left"
        made.add_column(header, justify=justify, no_wrap=header not in flexible, overflow="fold")
    return made


def facts(known: Iterable[tuple[str, object]]) -> Table:
    """Names and values below each other, without those that are None."""
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(style="dim", no_wrap=True, min_width=13)
    made.add_column(overflow="fold")
    for name, value in known:
        if value is not None:
            made.add_row(text(name), value if isinstance(value, Text | ProgressBar) else text(value))
    return made


def indented(content: RenderableType) -> Padding:
    return Padding(content, (0, 0, 0, 2), expand=False)


def print_indented(console: Console, written: str, style: str = "") -> None:
    """Foreign text, line by line and not wrapped, so that the indentation stays and the text can be copied."""
    for line in escape_lines(written).split("\n"):
        console.print(Text("    ") + Text(line, style), soft_wrap=True)


def plural(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"


def type_name(job_type: str, counts: TypeStats) -> Text:
    """A type, with its pauses."""
    shown = text(job_type, "bold")
    if counts.paused:
        shown.append(" (paused)", "yellow")
    elif counts.paused_keys:
        shown.append(f" ({plural(counts.paused_keys, 'key')} paused)", "yellow")
    return shown


def running_count(counts: TypeStats) -> Text:
    """How many run, and of how many at most if the type has a limit over all workers."""
    most = "" if counts.limit is None else f" of {counts.limit:,}"
    return Text(f"{counts.running:,}{most}", STATUS_STYLES["running"] if counts.running else "dim")


def answer(args: argparse.Namespace, data: Any, said: str | Text) -> None:
    """The result of a command: ``data`` for a program that wants JSON, or a line for people."""
    if args.json:
        print_json(data)
    else:
        say(said)


def print_json(value: Any) -> None:
    """One line of JSON, in ASCII: that escapes control characters, too."""
    sys.stdout.write(json_line(value))


def json_line(value: Any) -> str:
    return json.dumps(value, default=_as_json) + "\n"


def readable_json(value: Any, indent: int | None = None) -> str:
    """JSON for people; unreadable values say so. It is not escaped for a terminal yet."""
    if isinstance(value, Unreadable):
        return f"(cannot be read: {value.reason})"
    separators = (",", ":") if indent is None else None
    return json.dumps(value, indent=indent, ensure_ascii=False, separators=separators, default=_as_json)


def plain(value: Any) -> dict[str, Any]:
    """A dataclass as a dict of its fields, for ``print_json``."""
    return {
        field.name: getattr(value, field.name) for field in dataclasses.fields(value) if not field.name.startswith("_")
    }


def job_as_json(job: Job) -> dict[str, Any]:
    """Every field of the job except ``created``, which belongs to an enqueue."""
    fields = plain(job)
    del fields["created"]
    return fields


def be_lenient() -> None:
    """A character that the terminal's encoding lacks becomes an escape, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def forget(stream: TextIO) -> None:
    """For a closed pipe: the buffered rest must not fail again when Python exits."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def _text(message: str | Text) -> Text:
    return Text(presentable(message)) if isinstance(message, str) else message


def _as_json(value: object) -> object:
    match value:
        case datetime():
            return iso(value)
        case date():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case uuid.UUID():
            return str(value)
        case Unreadable():
            return unreadable_mark(value)
        case _ if dataclasses.is_dataclass(value):
            return plain(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")
