"""Exceptions as text: whatever was raised, its failure is recorded."""

from __future__ import annotations

import traceback as tracebacks


def describe(error: BaseException | str) -> str:
    if isinstance(error, str):
        return error
    try:
        message = str(error)
    except Exception:  # noqa: BLE001
        # An exception that cannot even be printed is still a failure to record.
        message = "(its message could not be read)"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def traceback_of(error: BaseException | str) -> str | None:
    if isinstance(error, str) or error.__traceback__ is None:
        return None
    try:
        return "".join(tracebacks.format_exception(error)).rstrip("\n")
    except Exception:  # noqa: BLE001
        frames = tracebacks.format_tb(error.__traceback__)
        return "".join(["Traceback (most recent call last):\n", *frames, describe(error)])
