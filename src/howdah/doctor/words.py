"""Numbers, names and statements of other sessions, formatted for a finding."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Final

from psycopg import sql

_LONGEST: Final = 80
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60))
_TOKEN: Final = re.compile(
    r"""
    (?P<comment>--[^\n]*|/\*)
    | (?P<escaped>[eE]'(?:[^'\\]|''|\\.)*(?:'(?:[ \t\f\v]|--[^\n\r]*)*[\n\r](?:\s|--[^\n\r]*[\n\r])*'(?:[^'\\]|''|\\.)*)*(?:'|\\?$))
    | (?P<text>(?:[uU]&|[bBnNxX])?'(?:[^']|'')*(?:'|$))
    | (?P<name>"(?:[^"]|"")*(?:"|$)|[^\W\d]\w*)
    | (?P<dollar>\$(?P<tag>[^\W\d]?\w*)\$.*?(?:\$(?P=tag)\$|$))
    | (?P<parameter>\$\d+)
    | (?P<number>\d[\w.]*)
    | (?P<space>\s+)
    | (?P<other>.)
    """,
    re.DOTALL | re.VERBOSE,
)
_CHANGES: Final = ("UPDATE", "INSERT", "MERGE", "WITH")
"""Commands whose SET names columns."""
_HIDDEN: Final = {"text": "'…'", "escaped": "'…'", "dollar": "'…'", "number": "?", "space": " ", "comment": " "}


def span(seconds: float) -> str:
    """A duration in its largest unit."""
    for unit, length in _UNITS:
        if seconds >= 2 * length:
            return f"{int(seconds / length):,}{unit}"
    return f"{max(seconds, 0):.0f}s"


def count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def size(octets: int) -> str:
    return f"{octets / 2**30:.1f} GB" if octets >= 2**30 else f"{octets / 2**20:.0f} MB"


def listed(names: list[str], most: int = 5) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def quoted(*names: str) -> str:
    """A qualified name in SQL, with quotes only where a part needs them."""
    plain = re.compile(r"[a-z_][a-z0-9_]*")
    return ".".join(name if plain.fullmatch(name) else sql.Identifier(name).as_string() for name in names)


def literal(value: str) -> str:
    """A string literal on one line, so that a statement survives being pasted or piped."""
    if value.isprintable():
        return sql.Literal(value).as_string()
    plain = value.replace("\\", "\\\\").replace("'", "''")
    return "E'" + "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in plain) + "'"


def command(schema: str, *words: str) -> str:
    """A command line of howdah for this schema."""
    line = shlex.join(("howdah", *words))
    return line if schema == "howdah" else f"{line} --schema {schema}"


def statement(query: str | None) -> str:
    """The beginning of another session's statement, without values: they may be secrets."""
    said = " ".join(_without_values(query or "").split())
    return said if len(said) <= _LONGEST else f"{said[: _LONGEST - 1]}…"


def _without_values(query: str) -> str:
    return "".join(_without_settings(_tokens(query)))


def _tokens(query: str) -> Iterator[tuple[str, str]]:
    """The kinds of the parts of a statement, and their text without values."""
    position = 0
    while token := _TOKEN.match(query, position):
        kind = (token.lastgroup if token.lastgroup != "tag" else "dollar") or ""
        yield kind, _HIDDEN.get(kind, token[0])
        if kind == "text" and token[0].endswith("\\'"):
            # With standard_conforming_strings = off, this string goes on: what follows may be a part of it.
            yield "other", "…"
            return
        position = _end_of_comment(query, token.end()) if token[0] == "/*" else token.end()


def _without_settings(tokens: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Leaves out the values of SET, which need no quotes: all after the name of the setting."""
    command, setting, is_hidden = "", "", False
    for kind, text in tokens:
        word = text.upper() if kind == "name" else ""
        if (kind, text) == ("other", ";"):
            command, setting, is_hidden = "", "", False
        elif is_hidden:
            continue
        elif setting and kind != "space" and kind != "comment":
            if setting[-1] in " ." if kind == "name" else text == ".":
                setting += " " if word in ("LOCAL", "SESSION") else text
            else:
                is_hidden, text = True, "…"
        elif not setting:
            command = command or word
            setting = " " if word == "SET" and command not in _CHANGES else ""
        yield text


def _end_of_comment(query: str, position: int) -> int:
    """Where a comment ends. PostgreSQL's comments nest."""
    depth = 1
    for mark in re.compile(r"/\*|\*/").finditer(query, position):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(query)
