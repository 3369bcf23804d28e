"""Moments, as people write and read them."""

from __future__ import annotations

import argparse
from datetime import datetime, timezone
from typing import Final

from howdah.cli.arguments.duration import format_span, parse_span

_ENDLESS: Final = 9999
"""The year into which PostgreSQL's infinity is read."""


def now() -> datetime:
    return datetime.now(timezone.utc)


def parse_moment(text: str) -> datetime:
    """A date and time in ISO 8601; without a zone it is this computer's."""
    try:
        moment = datetime.fromisoformat(text.strip())
        return moment.astimezone() if moment.utcoffset() is None else moment
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a date and time: write 2030-12-31, 2030-12-31T18:00 or 2030-12-31T18:00+01:00"
        ) from error


def parse_past(text: str) -> datetime:
    """A moment, or a span that counts back from now."""
    try:
        return now() - parse_span(text)
    except argparse.ArgumentTypeError:
        return parse_moment(text)
    except OverflowError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is longer ago than there are dates") from error


def is_endless(moment: datetime) -> bool:
    """Whether it stands for infinity: a moment that never comes."""
    return moment.year >= _ENDLESS


def iso(moment: datetime) -> str:
    """For programs: ISO 8601 in UTC, or ``infinity``."""
    return "infinity" if is_endless(moment) else moment.astimezone(timezone.utc).isoformat()


def relative(moment: datetime) -> str:
    """How long ago, or how far ahead."""
    if is_endless(moment):
        return "never"
    current = now()
    return f"in {format_span(moment - current)}" if moment > current else f"{format_span(current - moment)} ago"


def full(moment: datetime) -> str:
    """To the millisecond in UTC, and how far that is from now."""
    if is_endless(moment):
        return "never by itself"
    return f"{stamp(moment)} UTC  ({relative(moment)})"


def stamp(moment: datetime) -> str:
    """Date and time in UTC, to the millisecond."""
    return moment.astimezone(timezone.utc).replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
