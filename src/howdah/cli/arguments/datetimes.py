"""Dates and times, as people write and read them."""

from __future__ import annotations

import argparse
from datetime import datetime, timezone
from typing import Final

from howdah.cli.arguments.duration import format_duration, parse_duration

LOCAL: Final = "; without a time zone, in that of this computer"
"""For the help of an option."""
_ENDLESS: Final = 9999
"""The year that PostgreSQL's infinity becomes."""


def now() -> datetime:
    return datetime.now(timezone.utc)


def parse_datetime(text: str) -> datetime:
    """A date and time in ISO 8601; without a time zone, that of this computer is meant."""
    try:
        when = datetime.fromisoformat(text.strip())
        return when.astimezone() if when.utcoffset() is None else when
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a date and time: write 2030-12-31, 2030-12-31T18:00 or 2030-12-31T18:00+01:00"
        ) from error


def parse_past(text: str) -> datetime:
    """A date and time, or a duration that counts back from now."""
    try:
        return now() - parse_duration(text)
    except argparse.ArgumentTypeError:
        pass
    except OverflowError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is longer ago than there are dates") from error
    try:
        return parse_datetime(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time: write 2h (ago), 2030-12-31 or 2030-12-31T18:00+01:00"
        ) from None


def is_endless(when: datetime) -> bool:
    """Whether it stands for infinity."""
    return when.year >= _ENDLESS


def iso(when: datetime) -> str:
    """For programs: ISO 8601 in UTC, or ``infinity``."""
    return "infinity" if is_endless(when) else when.astimezone(timezone.utc).isoformat()


def relative(when: datetime) -> str:
    """How long ago, or in how long."""
    if is_endless(when):
        return "never"
    current = now()
    return f"in {format_duration(when - current)}" if when > current else f"{format_duration(current - when)} ago"


def full(when: datetime) -> str:
    """To the millisecond in UTC, and how far that is from now."""
    if is_endless(when):
        return "never by itself"
    return f"{stamp(when)} UTC  ({relative(when)})"


def stamp(when: datetime) -> str:
    """Date and time in UTC, to the millisecond."""
    return when.astimezone(timezone.utc).replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
