"""What the commands write to: answers to stdout, remarks to stderr, JSON for programs."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import uuid
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final, NoReturn, TextIO

from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from howdah.checks.values import unreadable_mark
from howdah.cli.arguments.datetimes import iso
from howdah.cli.render.terminal_escape import presentable, safe
from howdah.model.codec import Unreadable

_PIPE_WIDTH: Final = 200
"""No terminal cuts what goes into a pipe or a file, so that there a table may be wide."""


class _PlainConsole(Console):
    def on_broken_pipe(self) -> NoReturn:
        # Rich would end the process here; whoever called main decides that.
        raise BrokenPipeError


def answers() -> Console:
    """The console of what was asked for."""
    return _console(to_stderr=False)


def remarks() -> Console:
    """The console of what is said beside it."""
    return _console(to_stderr=True)


def say(message: str | Text) -> None:
    answers().print(_text(message), soft_wrap=True)


def remark(message: str | Text) -> None:
    remarks().print(_text(message), soft_wrap=True)


def text(value: object, style: str = "") -> Text:
    """Anything that others wrote, fit for a terminal and never read as markup."""
    return Text(safe(str(value)), style)


def cut(value: object, style: str = "") -> Text:
    """``text`` for a flexible column of a table: it ends where the room does."""
    made = text(value, style)
    made.no_wrap, made.overflow = True, "ellipsis"
    return made


def table(*headers: str, right: Sequence[str] = (), flexible: Sequence[str] = ()) -> Table:
    """A table without lines: it reads well, and it can be searched with grep.

    Where the room is short, the flexible columns give way, and the others keep their width.
    """
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for header in headers:
        justify: JustifyMethod = "right" if header in right else "left"
        made.add_column(header, justify=justify, no_wrap=header not in flexible, overflow="fold")
    return made


def print_json(value: Any) -> None:
    """One line of JSON, in ASCII: what a terminal would act upon is escaped by that."""
    sys.stdout.write(json_line(value))


def json_line(value: Any) -> str:
    return json.dumps(value, default=_as_json) + "\n"


def readable_json(value: Any, indent: int | None = None) -> str:
    """JSON for people; what cannot be read says so. What it holds is not safe yet."""
    if isinstance(value, Unreadable):
        return f"(cannot be read: {value.reason})"
    separators = (",", ":") if indent is None else None
    return json.dumps(value, indent=indent, ensure_ascii=False, separators=separators, default=_as_json)


def plain(value: Any) -> dict[str, Any]:
    """A dataclass as a dict of its fields, for ``print_json``."""
    return {
        field.name: getattr(value, field.name) for field in dataclasses.fields(value) if not field.name.startswith("_")
    }


def be_lenient() -> None:
    """A terminal that lacks a character gets an escape for it, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def forget(stream: TextIO) -> None:
    """Nobody reads it any more: what is still buffered must not fail again when Python ends."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def _console(*, to_stderr: bool) -> Console:
    console = _PlainConsole(stderr=to_stderr, markup=False, highlight=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPE_WIDTH
    return console


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
