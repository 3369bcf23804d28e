"""Every error: its place in the tree, what it says, and where it comes from."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from docs.generate.markdown import HEADER, blocks, from_docstring

import howdah
from howdah import errors
from howdah.errors import BY_SQLSTATE, HowdahError


def page() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield HEADER
    yield "# Errors\n"
    yield "Whatever Howdah raises on purpose is a `HowdahError`. An error says what to do; nothing was changed unless it says so.\n"
    _, tree, _ = blocks(errors.__doc__)
    yield f"{tree}\n"
    yield "What each says, unless whoever raises it says more:\n"
    states: dict[type, list[str]] = {}
    for state, kind in BY_SQLSTATE.items():
        states.setdefault(kind, []).append(state)
    yield "| error | SQLSTATE | its message |"
    yield "| --- | --- | --- |"
    for kind in _in_order(HowdahError):
        codes = ", ".join(f"`{state}`" for state in states.get(kind, ()))
        meaning = from_docstring(inspect.getdoc(kind)).replace("\n", " ").replace("|", "\\|")
        yield f"| `{kind.__name__}` | {codes} | {meaning} |"
    yield ""


def _in_order(kind: type[HowdahError]) -> Iterator[type[HowdahError]]:
    if kind.__name__ in howdah.__all__:
        yield kind
    for each in kind.__subclasses__():
        yield from _in_order(each)
