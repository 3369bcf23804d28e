"""The figures of the past: how many jobs ended, how long they waited and ran, and how many waited, slot by slot."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from starlette.requests import Request

from howdah.db.plan import Plan, Row, read
from howdah.verbs import operate

if TYPE_CHECKING:
    from howdah.web.site import Site

PER_OCTAVE: Final = 4
"""Buckets of the histogram for each doubling, from a millisecond on: as the SQL function ``bucket`` has it."""
_FIRST: Final = 0.001


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """How much of the past is shown, and in which slots."""

    name: str
    title: str
    length: timedelta
    slot: timedelta

    @property
    def slots(self) -> int:
        """How many slots it has."""
        return round(self.length / self.slot)

    @property
    def fresh(self) -> float:
        """Seconds that its figures are kept."""
        return min(self.slot.total_seconds() / 12, 60.0)


HOUR: Final = Span("hour", "Hour", timedelta(hours=1), timedelta(minutes=1))
DAY: Final = Span("day", "Day", timedelta(days=1), timedelta(minutes=10))
WEEKS: Final = Span("weeks", "Two weeks", timedelta(days=14), timedelta(hours=2))
SPANS: Final = (HOUR, DAY, WEEKS)


@dataclasses.dataclass(slots=True)
class Slot:
    """The figures of one slot."""

    at: datetime
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    backlog: int | None = None
    waits: Mapping[int, float] = dataclasses.field(default_factory=dict)
    runs: Mapping[int, float] = dataclasses.field(default_factory=dict)

    @property
    def ended(self) -> int:
        return self.completed + self.failed + self.cancelled


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one type over a span."""

    per_second: float
    ended: int
    failed: int
    waits: Mapping[int, float]
    runs: Mapping[int, float]
    slots: Sequence[int]
    """How many ended in each slot."""


def span_of(name: str) -> Span:
    return next((span for span in SPANS if span.name == name), HOUR)


def quantile(histogram: Mapping[int, float], share: float) -> float | None:
    """Seconds below which so many of the jobs were; None without any."""
    total = sum(histogram.values())
    if not total:
        return None
    wanted, passed = share * total, 0.0
    for bucket in sorted(histogram):
        count = histogram[bucket]
        if passed + count >= wanted:
            inside = (wanted - passed) / count if count else 0.0
            return _FIRST * 2 ** ((bucket - 1 + inside) / PER_OCTAVE) if bucket else _FIRST * inside
        passed += count
    return _FIRST * 2 ** (max(histogram) / PER_OCTAVE)


async def by_slot(site: Site, request: Request, span: Span) -> list[Slot]:
    """The slots of a span, the oldest first, without gaps."""
    return await site.shared(request, ("slots", span.name), lambda: _slots(span), seconds=span.fresh)


async def by_type(site: Site, request: Request, span: Span, *, with_times: bool = True) -> dict[str, Measured]:
    """with_times: also the histograms of waits and run times, which cost more than all the rest."""
    key = ("measured", span.name, with_times)
    return await site.shared(request, key, lambda: _types(span, with_times), seconds=span.fresh)


def _slots(span: Span) -> Plan[list[Slot]]:
    begins, counts = yield from _counts(span)
    histograms = yield from _histograms(span, begins, "slot_at")
    slots = {begins + place * span.slot: Slot(begins + place * span.slot) for place in range(span.slots)}
    for row in counts:
        slot = slots.get(row["slot_at"])
        if slot is not None:
            slot.completed += row["completed"]
            slot.failed += row["failed"]
            slot.cancelled += row["cancelled"]
            if row["backlog"] is not None:
                slot.backlog = (slot.backlog or 0) + row["backlog"]
    for (at, kind), histogram in histograms.items():
        if at in slots:
            setattr(slots[at], kind, histogram)
    return list(slots.values())


def _types(span: Span, with_times: bool) -> Plan[dict[str, Measured]]:
    begins, counts = yield from _counts(span)
    histograms = (yield from _histograms(span, begins, "job_type")) if with_times else {}
    sums: dict[str, dict[str, int]] = defaultdict(lambda: {"ended": 0, "failed": 0})
    bars: dict[str, list[int]] = defaultdict(lambda: [0] * span.slots)
    for row in counts:
        ended, place = row["completed"] + row["failed"] + row["cancelled"], round((row["slot_at"] - begins) / span.slot)
        if 0 <= place < span.slots:
            bars[row["job_type"]][place] += ended
        sums[row["job_type"]]["ended"] += ended
        sums[row["job_type"]]["failed"] += row["failed"]
    return {
        name: Measured(
            per_second=each["ended"] / span.length.total_seconds(),
            ended=each["ended"],
            failed=each["failed"],
            waits=histograms.get((name, "waits"), {}),
            runs=histograms.get((name, "runs"), {}),
            slots=bars[name],
        )
        for name, each in sums.items()
    }


def _counts(span: Span) -> Plan[tuple[datetime, list[Row]]]:
    """When the first slot of the span begins, and how many jobs of each type ended in each slot."""
    begins = _floor((yield from operate.now()) - span.length, span.slot) + span.slot
    return begins, (yield from read("web/minutes", since=begins, slot=span.slot))


def _histograms(
    span: Span, begins: datetime, key: Literal["slot_at", "job_type"]
) -> Plan[dict[tuple[Any, str], dict[int, float]]]:
    """The histograms of waits and runs, for each slot or for each type."""
    made: dict[tuple[Any, str], dict[int, float]] = defaultdict(dict)
    for row in (yield from read("web/latencies", since=begins, slot=span.slot, by_type=key == "job_type")):
        made[row[key], row["kind"]][row["bucket"]] = row["jobs"]
    return made


def _floor(moment: datetime, slot: timedelta) -> datetime:
    """The slot that it is in, as date_bin from 1970 has it."""
    seconds = slot.total_seconds()
    return datetime.fromtimestamp(math.floor(moment.timestamp() / seconds) * seconds, moment.tzinfo)
