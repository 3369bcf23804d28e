"""Exceptions as text. An exception that cannot be printed is recorded, too."""

from __future__ import annotations

import traceback as tracebacks


def describe(error: BaseException | str) -> str:
    if isinstance(error, str):
        return error
    message = message_of(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def path_of(error: BaseException | str) -> str | None:
    """Where the class of an exception is: its module and its name in it."""
    return None if isinstance(error, str) else f"{type(error).__module__}.{type(error).__qualname__}"


def message_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # noqa: BLE001
        # An exception that cannot even be printed is still a failure to record.
        return "(its message could not be read)"


def loggable(error: BaseException) -> BaseException:
    """The exception for a log: without PostgreSQL's details, which may repeat a whole row."""
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    return error if primary is None else type(error)(primary).with_traceback(error.__traceback__)


def traceback_of(error: BaseException | str) -> str | None:
    if isinstance(error, str) or error.__traceback__ is None:
        return None
    try:
        return "".join(tracebacks.format_exception(error)).rstrip("\n")
    except BaseException:  # noqa: BLE001
        frames = tracebacks.format_tb(error.__traceback__)
        return "".join(["Traceback (most recent call last):\n", *frames, describe(error)])
