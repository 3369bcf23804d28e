"""JSON that somebody typed, piped or saved."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from howdah.errors import InvalidInput


def parse_json(document: str, where: str) -> Any:
    """The value. ``where`` begins the complaint about what is not JSON."""
    try:
        return json.loads(document)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{where} is not JSON: {error.msg} at line {error.lineno} column {error.colno}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{where} is not JSON that can be read: {error}") from error


def read_stdin() -> str:
    with _readable("standard input"):
        return sys.stdin.read()


def read_json_lines(path: str | None) -> Iterator[Any]:
    """A value for each line that is not empty, of a file or of standard input, read as they are needed."""
    name = "standard input" if path in (None, "-") else str(path)
    with _readable(name), _opened(path) as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield parse_json(line, f"line {number} of {name}")


def read_data(given: Sequence[str]) -> Any:
    """What ``--data`` was given: JSON, or ``key=value`` once or more. A value that is JSON is taken as such, any other is a
    string."""
    if len(given) == 1 and _is_meant_as_json(given[0]):
        return parse_json(given[0], "--data has no key=value, and")
    data: dict[str, Any] = {}
    for number, pair in enumerate(given, start=1):
        key, _, value = pair.partition("=")
        if _is_meant_as_json(pair) or not key:
            raise InvalidInput(f"--data takes key=value, and number {number} of them is not so")
        data[key] = _json_or_string(value)
    return data


def _is_meant_as_json(given: str) -> bool:
    return "=" not in given or given.lstrip().startswith(("{", "[", '"'))


def _json_or_string(value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


@contextlib.contextmanager
def _opened(path: str | None) -> Iterator[TextIO]:
    if path is None or path == "-":
        yield sys.stdin
    else:
        with Path(path).open(encoding="utf-8") as file:
            yield file


@contextlib.contextmanager
def _readable(name: str) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{name} is not text in UTF-8") from error
    except OSError as error:
        raise InvalidInput(f"{name} cannot be read: {error.strerror or error}") from error
