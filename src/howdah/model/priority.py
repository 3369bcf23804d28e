"""The three priorities that most queues need. Any int is a priority."""

from __future__ import annotations

import enum


class Priority(enum.IntEnum):
    """The higher one is claimed first."""

    EXPLICIT = 150
    """A person is waiting for it."""

    DISCOVERED = 100
    """The system found work to do."""

    BACKFILL = 30
    """It can wait until tomorrow."""
