"""Priorities, by number or by name."""

from __future__ import annotations

import argparse

from howdah.model.priority import Priority

CHOICES = "N|" + "|".join(priority.name.lower() for priority in Priority)


def parse_priority(text: str) -> int:
    """For argparse, which shows the error."""
    try:
        return int(Priority[text.upper()])
    except KeyError:
        pass
    try:
        return int(text)
    except ValueError as error:
        names = ", ".join(f"{priority.name.lower()} ({priority.value})" for priority in Priority)
        raise argparse.ArgumentTypeError(f"{text!r} is not a priority: write a whole number, or {names}") from error


def describe_priority(priority: int) -> str:
    names = {int(known): known.name.lower() for known in Priority}
    return f"{priority} ({names[priority]})" if priority in names else str(priority)
