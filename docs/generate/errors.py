"""Every error: its place in the tree, its default message, and its SQLSTATE."""

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
    yield "Every exception that Howdah raises on purpose is a `HowdahError`. Its message says what to do; unless it says otherwise, nothing was changed.\n"
    _, tree, _ = blocks(errors.__doc__)
    yield f"{tree}\n"
    yield "The default messages:\n"
    states: dict[type, list[str]] = {}
    for state, kind in BY_SQLSTATE.items():
        states.setdefault(kind, []).append(state)
    yield "| error | SQLSTATE | message |"
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
