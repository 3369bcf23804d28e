"""The locks by which sleepers are known. Any login can keep them for itself: then the worker polls, says so once, and asks again later."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from howdah.db.plan import Row

log = logging.getLogger("howdah.worker")

ASK_AGAIN_AFTER = 60.0


class SleepLocks:
    """Whether the claimers of a worker can have them."""

    def __init__(self, poll: float) -> None:
        self._poll = poll
        self._ask_at = float("-inf")
        self._is_refused = False

    def may_be_asked_for(self) -> bool:
        return time.monotonic() >= self._ask_at

    def granted(self) -> None:
        if self._is_refused:
            self._is_refused = False
            log.info("the locks of sleepers can be had again: no more polling", extra={"event": "sleep_granted"})

    def refused(self, holders: Sequence[Row]) -> None:
        """holders: the sessions that keep them, as the doctor finds them."""
        self._ask_at = time.monotonic() + ASK_AGAIN_AFTER
        if self._is_refused:
            return
        self._is_refused = True
        named = ", ".join(f"pid {row['pid']} of role {row['role']} ({row['application']})" for row in holders)
        remedy = f" End it: SELECT pg_terminate_backend({holders[0]['pid']});" if holders else ""
        log.warning(
            "%s keeps an advisory lock that sleeping workers share: this one polls, every %g s at least, which costs latency"
            " and nothing else.%s",
            named or "a session that has gone since",
            self._poll,
            remedy,
            extra={"event": "sleep_refused"},
        )
