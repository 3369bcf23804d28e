"""JSON values as a tree for the page, and the redaction of chosen paths.

Numbers are written as the database has them: an integer above 2^53 keeps all of its digits, because no browser parses it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from howdah.errors import InvalidOption

REDACTED: Final = "[redacted]"
UNREADABLE: Final = "howdah.unreadable"
MOST_NODES: Final = 2_000
MOST_TEXT: Final = 4_000
_DEEPEST: Final = 60

Kind: TypeAlias = Literal["object", "array", "string", "number", "word", "more"]
Pattern: TypeAlias = tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """A value: ``text`` of a scalar, ``children`` of the others."""

    name: str | None
    kind: Kind
    text: str = ""
    children: tuple[Node, ...] = ()


class Tree:
    """Makes the nodes, up to a number."""

    def __init__(self, most: int = MOST_NODES) -> None:
        self._left = most

    def node(self, value: Any, name: str | None = None, depth: int = 0) -> Node:
        self._left -= 1
        match value:
            case Mapping():
                return self._parent(name, "object", [(str(key), each) for key, each in value.items()], depth)
            case list() | tuple():
                return self._parent(name, "array", [(str(place), each) for place, each in enumerate(value)], depth)
            case str():
                cut = f"{value[:MOST_TEXT]}… ({len(value):,} characters)" if len(value) > MOST_TEXT else value
                return Node(name, "string", cut)
            case bool() | None:
                return Node(name, "word", json.dumps(value))
            case int() | float():
                return Node(name, "number", json.dumps(value))
        return Node(name, "string", str(value))

    def _parent(self, name: str | None, kind: Kind, items: Sequence[tuple[str, Any]], depth: int) -> Node:
        nodes: list[Node] = []
        for position, (key, each) in enumerate(items):
            if self._left <= 0 or depth >= _DEEPEST:
                nodes.append(Node(None, "more", f"{len(items) - position:,} more"))
                break
            nodes.append(self.node(each, key, depth + 1))
        return Node(name, kind, f"{len(items):,}", tuple(nodes))


def patterns(paths: Sequence[str]) -> tuple[Pattern, ...]:
    """Paths such as ``card.number``, ``*.password`` or ``users.*.email``; ``**`` is any depth."""
    if isinstance(paths, str):
        raise InvalidOption('redact is a list of paths, such as ["card.number", "**.password"]')
    made = tuple(tuple(str(path).split(".")) for path in paths)
    if any(not part for pattern in made for part in pattern):
        raise InvalidOption("a path of redact has an empty part: write names with dots between, such as card.number")
    return made


def redact(value: Any, wanted: Sequence[Pattern]) -> Any:
    """The value, with [redacted] where a path leads. Without recursion: jobs may be nested deeper than Python's stack."""
    whole = [value]
    pending: list[tuple[Any, Any, Sequence[Pattern]]] = [(whole, 0, wanted)]
    while pending:
        parent, place, left = pending.pop()
        each = parent[place]
        if not left or not isinstance(each, Mapping | list | tuple):
            continue
        copy: Any = dict(each) if isinstance(each, Mapping) else list(each)
        parent[place] = copy
        for name in list(copy) if isinstance(each, Mapping) else range(len(copy)):
            below = _below(str(name), left)
            if below is None:
                copy[name] = REDACTED
            else:
                pending.append((copy, name, below))
    return whole[0]


def is_whole(value: Any) -> bool:
    """Whether nothing of the value was hidden: what was must not be stored in its place.

    Without recursion: the value comes from a visitor, and may be nested deeper than Python's stack.
    """
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, Mapping):
            if UNREADABLE in each:
                return False
            pending.extend(each.values())
        elif isinstance(each, list | tuple):
            pending.extend(each)
        elif isinstance(each, str) and each == REDACTED:
            return False
    return True


def _below(name: str, wanted: Sequence[Pattern]) -> list[Pattern] | None:
    """What is left of the paths inside of the part of this name; None: one of them leads to it."""
    left: list[Pattern] = []
    for pattern in wanted:
        if pattern[0] == "**":
            left.append(pattern)
            pattern = pattern[1:]
            if not pattern:
                return None
        if pattern[0] in ("*", name):
            if len(pattern) == 1:
                return None
            left.append(pattern[1:])
    return left
