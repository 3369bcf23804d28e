"""How many jobs end in a second: counted between one snapshot and another."""

from __future__ import annotations

from collections import deque
from typing import Final

from howdah.cli.commands.top.snapshot import Snapshot
from howdah.model.results import TypeStats

SPAN: Final = 10.0
"""Seconds: what a rate is the mean of."""


class Rates:
    """The ended jobs of each type, over the last seconds."""

    def __init__(self) -> None:
        self._counts: deque[tuple[float, dict[str, int]]] = deque()

    def add(self, snapshot: Snapshot) -> None:
        self._counts.append((snapshot.clock, {name: _ended(each) for name, each in snapshot.stats.items()}))
        while len(self._counts) > 2 and self._counts[1][0] <= snapshot.clock - SPAN:
            self._counts.popleft()

    def of(self, job_type: str) -> float | None:
        """Jobs of this type in a second; None before there are two snapshots."""
        if len(self._counts) < 2:
            return None
        (began, first), (ended, last) = self._counts[0], self._counts[-1]
        # Days of the archive that are dropped take their counts with them.
        jobs = max(last.get(job_type, 0) - first.get(job_type, 0), 0)
        return jobs / max(ended - began, 1e-3)

    @property
    def total(self) -> float | None:
        if len(self._counts) < 2:
            return None
        return sum(self.of(job_type) or 0.0 for job_type in self._counts[-1][1])


def _ended(counts: TypeStats) -> int:
    return counts.completed + counts.failed + counts.cancelled
