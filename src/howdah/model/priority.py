"""The three priorities that most queues need. Any int is a priority."""

from __future__ import annotations

import enum


class Priority(enum.IntEnum):
    """The higher one is claimed first."""

    EXPLICIT = 150
    """A person asked for it and waits."""

    DISCOVERED = 100
    """The system found that it is to be done."""

    BACKFILL = 30
    """It may take until tomorrow."""
