"""Docstrings as Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterator

_ITEM = re.compile(r"(?P<names>\*{0,2}[a-z_]\w*(?:, \*{0,2}[a-z_]\w*)*): (?P<text>.+)")

HEADER = "<!-- Made from the code by `python -m docs.generate`: change it there. -->\n"


def from_docstring(text: str | None, parameters: Collection[str] = ()) -> str:
    """Paragraphs stay; what is said of parameters, by lines that begin with a name and a colon, becomes a list."""
    # A parameter may come in the line of the one before it.
    names = "|".join(map(re.escape, parameters)) or "(?!)"
    text = re.sub(rf"(?<=\.) (?=(?:{names}): )", "\n", inspect.cleandoc(text or ""))
    return "\n\n".join(_paragraph(each) for each in re.split(r"\n\s*\n", text) if each)


def _paragraph(text: str) -> str:
    if not _ITEM.match(text):
        return " ".join(text.split()) if not text.startswith("    ") else text
    return "\n".join(_items(text))


def _items(text: str) -> Iterator[str]:
    item = ""
    for line in text.splitlines():
        if found := _ITEM.fullmatch(line):
            if item:
                yield item
            names = ", ".join(f"`{name}`" for name in found["names"].split(", "))
            item = f"- {names}: {found['text']}"
        else:
            item += f" {line.strip()}"
    yield item


def shown(text: str) -> str:
    """A block that is only shown."""
    return f"```text\n{text.rstrip()}\n```"
