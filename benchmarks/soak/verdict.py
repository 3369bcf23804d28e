"""What has drifted: the last third of a soak beside the first."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Sequence
from typing import Any, Final

from benchmarks.drift import slope, thirds
from benchmarks.soak.sample import Sample
from howdah.cli.commands.bench.figures import shown

_WARM_UP: Final = 0.2
"""Of the time: caches fill, pools grow, children are born."""
_SHORT: Final = 180.0
_MEGABYTE: Final = 1e6
_HOUR: Final = 3_600.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A figure, in the first third and in the last. It may grow to so many times the first, and by so much besides."""

    name: str
    unit: str
    first: float
    last: float
    times: float
    slack: float

    @property
    def ratio(self) -> float | None:
        return self.last / self.first if self.first else None

    @property
    def most(self) -> float:
        return self.first * self.times + self.slack

    @property
    def is_within(self) -> bool:
        return self.last <= self.most

    def as_data(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "ratio": self.ratio, "most": self.most, "within": self.is_within}


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """All changes. ``slope``: bytes an hour by which the worker that no fault hit has grown; None where it was too short."""

    changes: tuple[Change, ...]
    slope: float | None
    short: bool

    @property
    def words(self) -> str:
        if not self.changes:
            return "There is nothing to compare: it ended before there were enough samples."
        if self.short:
            return "Too short to speak of drift: autovacuum comes once a minute, and a fault disturbs some seconds."
        if not self.drifted:
            return "No drift: the last third is within the bounds of the first."
        said = "; ".join(
            f"{each.name} went from {shown(each.first)} to {shown(each.last)} {each.unit}".rstrip()
            + f" (at most {shown(each.most)})"
            for each in self.drifted
        )
        return f"Drift: {said}."

    @property
    def drifted(self) -> list[Change]:
        """What is beyond its bounds; nothing where it was too short."""
        return [] if self.short else [change for change in self.changes if not change.is_within]

    def as_data(self) -> dict[str, Any]:
        return {
            "words": self.words,
            "short": self.short,
            "drifted": [change.name for change in self.drifted],
            "memory_slope_bytes_an_hour": self.slope,
            "changes": [change.as_data() for change in self.changes],
        }


def verdict(samples: Sequence[Sample], seconds: float, rate: int) -> Verdict:
    """Of the samples of the time for which jobs came. What a fault disturbs for a moment does not count: medians do."""
    warm = [sample for sample in samples if _WARM_UP * seconds <= sample.seconds <= seconds]
    if len(warm) < 2:
        return Verdict((), None, short=True)
    eldest = [(sample.seconds, float(sample.eldest.rss)) for sample in warm if sample.eldest is not None]
    growth = slope(eldest) if seconds >= _SHORT else None
    return Verdict(
        tuple(change for change in _changes(warm, rate) if change is not None),
        None if growth is None else growth * _HOUR,
        seconds < _SHORT,
    )


def _changes(samples: Sequence[Sample], rate: int) -> list[Change | None]:
    def change(
        name: str, unit: str, value: Callable[[Sample], float | None], *, times: float, slack: float
    ) -> Change | None:
        first, last = ([seen for each in third if (seen := value(each)) is not None] for third in thirds(samples))
        if not first or not last:
            return None
        return Change(
            name=name,
            unit=unit,
            first=statistics.median(first),
            last=statistics.median(last),
            times=times,
            slack=slack,
        )

    return [
        change("pickup, p50", "ms", lambda s: s.pickup_p50, times=1.5, slack=10),
        change("pickup, p99", "ms", lambda s: s.pickup_p99, times=1.5, slack=100),
        change("enqueue to end, p50", "ms", lambda s: s.p50, times=1.5, slack=10),
        change("enqueue to end, p99", "ms", lambda s: s.p99, times=1.5, slack=100),
        change("jobs waiting", "", lambda s: s.waiting, times=1.5, slack=2 * rate),
        change("live table", "MB", lambda s: s.table_bytes / _MEGABYTE, times=1.5, slack=4),
        change("its indexes", "MB", lambda s: s.index_bytes / _MEGABYTE, times=1.5, slack=4),
        change("its TOAST and maps", "MB", lambda s: s.beside_bytes / _MEGABYTE, times=1.5, slack=1),
        change("dead rows", "", lambda s: s.dead, times=1.5, slack=60 * rate),
        change("memory of worker 0", "MB", _eldest, times=1, slack=10),
        change("memory of the largest other", "MB", _largest, times=1, slack=20),
        change("connections", "", lambda s: s.connections, times=1, slack=5),
    ]


def _eldest(sample: Sample) -> float | None:
    return None if sample.eldest is None else sample.eldest.rss / _MEGABYTE


def _largest(sample: Sample) -> float | None:
    return None if sample.largest is None else sample.largest / _MEGABYTE
