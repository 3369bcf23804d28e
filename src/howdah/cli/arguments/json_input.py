"""JSON of the command line, of standard input or of a file."""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from howdah.errors import InvalidInput


def parse_json(document: str, where: str) -> Any:
    """``where`` begins the error message."""
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
    """The value of ``--data``: JSON, or ``key=value`` once or more. A value that is not JSON is a string."""
    if len(given) == 1 and _is_meant_as_json(given[0]):
        return parse_json(given[0], "--data has no key=value, and")
    data: dict[str, Any] = {}
    for number, pair in enumerate(given, start=1):
        key, _, value = pair.partition("=")
        if _is_meant_as_json(pair) or not key:
            raise InvalidInput(f"--data takes key=value; number {number} is something else")
        data[key] = _json_or_string(value)
    return data


def add_data(parser: argparse.ArgumentParser, meaning: str) -> None:
    """The arguments that ``data_of`` reads. ``meaning``: what the data is."""
    parser.add_argument("json_data", metavar="JSON", nargs="?", help=meaning)
    parser.add_argument(
        "--data",
        metavar="KEY=VALUE",
        action="append",
        help="one entry of the data, instead of JSON; repeat it for more. 17 is a number, '\"17\"' is text",
    )


def data_of(args: argparse.Namespace) -> Any:
    """The data of a job, from the arguments JSON and --data."""
    if args.data and args.json_data is not None:
        raise InvalidInput("the data is given twice: as JSON and by --data")
    if args.data:
        return read_data(args.data)
    if args.json_data == "-":
        return parse_json(read_stdin(), "standard input")
    if args.json_data is None:
        return None
    try:
        return parse_json(args.json_data, "the data")
    except InvalidInput as error:
        if "=" not in args.json_data or args.json_data.lstrip()[:1] in ("{", "[", '"'):
            raise
        raise InvalidInput(f"{error}. For key=value, write: --data {shlex.quote(args.json_data)}") from None


def _is_meant_as_json(given: str) -> bool:
    return "=" not in given or given.lstrip().startswith(("{", "[", '"'))


def _json_or_string(value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _opened(path: str | None) -> contextlib.AbstractContextManager[TextIO]:
    return contextlib.nullcontext(sys.stdin) if path is None or path == "-" else Path(path).open(encoding="utf-8")


@contextlib.contextmanager
def _readable(name: str) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{name} is not text in UTF-8") from error
    except OSError as error:
        raise InvalidInput(f"{name} cannot be read: {error.strerror or error}") from error
