"""Docstrings as Markdown."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Collection, Iterator, Sequence
from typing import Final, TypeAlias

_NAME: Final = r"\*{0,2}[a-z_]\w*(?:=(?:\([^)]*\)|[\w.]+))?"
_NAMES: Final = rf"{_NAME}(?:, {_NAME})*"
_ITEM: Final = re.compile(rf"(?P<names>{_NAMES}): (?P<text>.+)", re.DOTALL)
_NEXT_ITEM: Final = re.compile(rf"(?<=[.?!…]) (?={_NAMES}: )")

HEADER: Final = "<!-- Made from the code by `python -m docs.generate`: change it there. -->\n"


@dataclasses.dataclass(frozen=True)
class Item:
    """The description of a parameter or a field, or of several together."""

    names: Sequence[str]
    text: str

    def __str__(self) -> str:
        return f"- {', '.join(f'`{name}`' for name in self.names)}: {self.text}"


Block: TypeAlias = str | Sequence[Item]
"""Markdown, or a list of items."""


def from_docstring(text: str | None, parameters: Collection[str] = ()) -> str:
    return markdown(blocks(text, parameters))


def markdown(written: Sequence[Block]) -> str:
    return "\n\n".join(each if isinstance(each, str) else "\n".join(map(str, each)) for each in written)


def blocks(text: str | None, parameters: Collection[str] = ()) -> list[Block]:
    """Paragraphs stay; what is indented is shown as it is; lines that begin with a name and a colon become a list.

    Inside of a paragraph only the names that are given begin an item: other words may have a colon behind them.
    """
    found: list[Block] = []
    for each in re.split(r"\n\s*\n", inspect.cleandoc(text or "")):
        if each.startswith("    "):
            found.append(shown(textwrap.dedent(each)))
        elif _ITEM.match(each):
            found += _list(each)
        elif each and each != "::":
            found += _paragraph(each, parameters)
    return found


def _paragraph(text: str, parameters: Collection[str]) -> Iterator[Block]:
    names = "|".join(map(re.escape, parameters)) or "(?!)"
    prose, *about = re.split(rf"(?<=[.?!…])\s+(?=(?:{names}): )", text)
    yield re.sub("::$", ":", " ".join(prose.split()))
    if about:
        yield from _list("\n".join(about))


def _list(text: str) -> Iterator[Block]:
    """The items, and below them what is returned, because it is not part of the last item."""
    items: list[Item] = []
    below: list[str] = []
    for item in _items(text):
        about, *returned = re.split(r"(?<=\.) (?=Returns )", item.text, maxsplit=1)
        items.append(Item(item.names, about))
        below += returned
    yield items
    yield from below


def _items(text: str) -> Iterator[Item]:
    lines: list[str] = []
    for line in text.splitlines():
        if _ITEM.fullmatch(line) and not line.startswith(" "):
            lines.append(line)
        else:
            lines[-1] += f" {line.strip()}"
    for line in lines:
        # An item may come in the line of the one before it.
        for each in _NEXT_ITEM.split(line):
            found = _ITEM.fullmatch(each)
            assert found, each
            yield Item(found["names"].split(", "), found["text"])


def shown(text: str, language: str = "text") -> str:
    """A block that is only shown."""
    return f"```{language}\n{text.rstrip()}\n```"
