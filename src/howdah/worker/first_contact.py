"""The first connection of a worker: for how long it is tried, and what is logged meanwhile.

Containers start in any order, so a server that cannot be reached yet is waited for. A wrong password, login or name of the
database is not: before its first connection, a worker has no jobs to lose by ending.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from howdah.db.error_mapping import has_no_database
from howdah.db.outage import Outage, first_line
from howdah.errors import DatabaseUnavailable, LoginRefused

log = logging.getLogger("howdah.worker")

REMINDER: Final = 60.0
"""Seconds between two warnings."""
DRAIN_PATIENCE: Final = 60.0
"""Seconds after which a worker that drains gives up: something waits for its end."""


class FirstContact:
    """The tries of one worker."""

    def __init__(self, outage: Outage, *, drain: bool) -> None:
        self._outage = outage
        self._drain = drain
        self._began = self._told = time.monotonic()

    def failed(self, error: Exception) -> None:
        """Raises an error if another try makes no sense."""
        if isinstance(error, LoginRefused) or has_no_database(error):
            raise error
        now = time.monotonic()
        if self._drain and now - self._began >= DRAIN_PATIENCE:
            raise DatabaseUnavailable(f"{first_line(error)}; given up after {now - self._began:.0f} s") from error
        self._outage.began(error)
        if now - self._told >= REMINDER:
            self._told = now
            waited = now - self._began
            log.warning("no connection for %.0f s: %s", waited, first_line(error), extra={"event": "still_waiting"})
