"""The logs of a worker: lines for people, or JSON for programs. And outages that the library logs, as remarks of a command.

A record may hold foreign text, like the message of an exception or a job's type. It is escaped, so that it cannot begin a line of
its own or move a cursor, and passwords are masked.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any, Final, TextIO

from howdah.cli.render.output import forget
from howdah.cli.render.terminal_escape import presentable, terminal_escape, without_password

LEVELS: Final = ("debug", "info", "warning", "error")

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_COLOURS: Final = {logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m", logging.CRITICAL: "\x1b[31m"}
_JOB: Final = ("job_type", "job_id")


class LineFormatter(logging.Formatter):
    """A line for each record, and the lines of a traceback indented below it."""

    def __init__(self, tag: str = "", *, coloured: bool = False) -> None:
        super().__init__()
        self._tag = f"{tag} " if tag else ""
        self._coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created).astimezone()
        stamp = when.isoformat(sep=" ", timespec="milliseconds")[:23]
        message = _message(record)
        line = f"{stamp} {self._level(record)} {self._tag}{_logger_of(record)}{message}{_job(record, message)}"
        return "\n    ".join([line, *_traceback(record).splitlines()])

    def _level(self, record: logging.LogRecord) -> str:
        name = f"{record.levelname.lower():<7}"
        colour = _COLOURS.get(record.levelno) if self._coloured else None
        return f"{colour}{name}\x1b[0m" if colour else name


class JsonFormatter(logging.Formatter):
    """A JSON object for each record, in ASCII. What was passed as ``extra`` stands beside the message."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": _message(record),
        }
        fields |= {terminal_escape(key): _plain(value) for key, value in vars(record).items() if key not in _STANDARD}
        if traceback := _traceback(record):
            fields["traceback"] = traceback
        return json.dumps(fields)


class _Handler(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802
        # The pipe is closed, or the disk is full: that must not stop the worker, nor print the record's arguments.
        return


def set_up_logs(level: str, *, as_json: bool, tag: str = "") -> None:
    """Sends all logs of this process, also those of the user's code, to stderr as lines, or to stdout as JSON."""
    stream = sys.stdout if as_json else sys.stderr
    handler = _Handler(stream)
    coloured = stream.isatty() and not os.environ.get("NO_COLOR")
    handler.setFormatter(JsonFormatter() if as_json else LineFormatter(tag, coloured=coloured))
    handler.setLevel(level.upper())
    # A record that is not shown may still be kept with its job.
    logging.basicConfig(handlers=[handler], level=min(handler.level, logging.INFO), force=True)
    logging.captureWarnings(True)


def keep_logs() -> None:
    """Enables our loggers again, after the user's module may have disabled them with a logging configuration."""
    for name, logger in logging.root.manager.loggerDict.items():
        if isinstance(logger, logging.Logger) and name.split(".")[0] == "howdah":
            logger.disabled = False


def flush_logs() -> None:
    """Called before the process ends. A closed pipe is not an error."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            forget(stream)
        except (OSError, ValueError):
            pass


def _logger_of(record: logging.LogRecord) -> str:
    return "" if record.name.split(".")[0] == "howdah" else f"{terminal_escape(record.name)}: "


def _message(record: logging.LogRecord) -> str:
    try:
        message = record.getMessage()
    except Exception:  # noqa: BLE001
        # A wrong logging call: its arguments may be secret, its format string is not.
        message = str(record.msg)
    return terminal_escape(without_password(message))


def _job(record: logging.LogRecord, message: str) -> str:
    named = (terminal_escape(str(value)) for key in _JOB if (value := getattr(record, key, None)) is not None)
    missing = " ".join(name for name in named if name not in message)
    return f"  [{missing}]" if missing else ""


def _traceback(record: logging.LogRecord) -> str:
    parts = [logging.Formatter().formatException(record.exc_info)] if record.exc_info else []
    if record.stack_info:
        parts.append(record.stack_info)
    return presentable("\n".join(parts))


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    return terminal_escape(without_password(str(value)))


# Outages, as remarks of a command


class _Remarks(logging.Handler):
    def __init__(self, remark: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._remark = remark

    def emit(self, record: logging.LogRecord) -> None:
        # On one line: a message of PostgreSQL may have several.
        self._remark(" ".join(record.getMessage().split()))


@contextlib.contextmanager
def outages_remarked(remark: Callable[[str], None]) -> Iterator[None]:
    """While the block runs. ``remark`` is called from other threads."""
    # The pool logs each failed try, which would be printed across the bars.
    handlers = {"howdah": _Remarks(remark), "psycopg": logging.NullHandler()}
    for name, handler in handlers.items():
        logging.getLogger(name).addHandler(handler)
    try:
        yield
    finally:
        for name, handler in handlers.items():
            logging.getLogger(name).removeHandler(handler)
