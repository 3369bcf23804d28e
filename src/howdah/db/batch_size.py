"""How many items go into one statement, where the server may cancel a long one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

GROW_EVERY: Final = 1.0
TRUST_AFTER: Final = 30.0
"""Seconds until a size that was cancelled is tried again: each failed try costs the time of a whole statement."""


class BatchSize:
    """A size that halves whenever the server cancels a statement, and grows again: quickly up to the size that was too
    large, and rarely beyond."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self.size = most
        self._clock = clock
        self._too_large = most + 1
        self._grow_at = 0.0
        self._trust_at = 0.0

    def was_cut_short(self, size: int) -> None:
        """The server cancelled a statement with so many items."""
        now = self._clock()
        self._too_large = max(size, 2)
        self.size = max(min(self.size, size // 2), 1)
        self._grow_at, self._trust_at = now + GROW_EVERY, now + TRUST_AFTER

    def went_well(self, size: int) -> None:
        """A statement with so many items succeeded."""
        if self.size == self.most or size < self.size or (now := self._clock()) < self._grow_at:
            return
        grown = min(self.size + self.size // 2 + 1, self.most)
        if now < self._trust_at:
            grown = min(grown, self._too_large * 3 // 4)
        self.size, self._grow_at = max(grown, self.size), now + GROW_EVERY
