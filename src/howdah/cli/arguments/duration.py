"""Durations, as people write and read them: ``90s``, ``5m``, ``1.5h``, ``2d``, ``1w``."""

from __future__ import annotations

import argparse
import re
from datetime import timedelta
from typing import Final

_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_PATTERN: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?|\.\d+)\s*(?P<unit>[smhdw]?)", re.ASCII | re.IGNORECASE)
HOW_TO_WRITE: Final = "write 90s, 5m, 1.5h, 2d, 1w, or plain seconds"


def parse_duration(text: str) -> timedelta:
    """For argparse, which shows the error."""
    match = _PATTERN.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration: {HOW_TO_WRITE}")
    try:
        return timedelta(seconds=float(match["number"]) * _SECONDS[match["unit"].lower()])
    except OverflowError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is too long a duration") from error


def format_duration(duration: timedelta) -> str:
    """In its largest unit, with few digits."""
    seconds = max(duration.total_seconds(), 0.0)
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    if seconds < 60:
        return f"{int(seconds)}s"
    for unit, most in (("m", 60), ("h", 48)):
        if seconds < most * _SECONDS[unit]:
            return f"{int(seconds / _SECONDS[unit])}{unit}"
    return f"{int(seconds / _SECONDS['d']):,}d"
