"""How things stand at one moment of a soak."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.soak.ledger import END, START, Note
from benchmarks.soak.workers import Footprint
from howdah.cli.commands.bench.figures import percentile


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Latencies, in milliseconds, and jobs a second are of the window before it; None where no job came through."""

    seconds: float
    done: int
    """Runs of handlers since the beginning, by their notes."""
    per_second: float
    pickup_p50: float | None
    pickup_p99: float | None
    p50: float | None
    """From the moment at which the job was to be enqueued to the end of its handler."""
    p99: float | None
    waiting: int
    held: int
    table_bytes: int
    index_bytes: int
    beside_bytes: int
    """Of the table: TOAST, and the maps of free and visible pages."""
    dead: int
    vacuums: int
    archived: int
    events: int
    connections: int
    faults: int
    workers: tuple[Footprint, ...]

    def as_data(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @property
    def eldest(self) -> Footprint | None:
        """The worker that no fault hits, while it runs."""
        return next((each for each in self.workers if each.worker == 0), None)

    @property
    def largest(self) -> int | None:
        """The memory of the largest of the others."""
        return max((each.rss for each in self.workers if each.worker != 0), default=None)


class Window:
    """What was noted since the last sample."""

    def __init__(self, notes: Sequence[Note]) -> None:
        self.done = sum(note.kind == END for note in notes)
        self._pickups = _latencies(notes, START)
        self._whole = _latencies(notes, END)

    def latencies(self) -> dict[str, Any]:
        return {
            "pickup_p50": _share(self._pickups, 0.5),
            "pickup_p99": _share(self._pickups, 0.99),
            "p50": _share(self._whole, 0.5),
            "p99": _share(self._whole, 0.99),
        }


def _latencies(notes: Iterable[Note], kind: int) -> list[float]:
    return [1_000 * (note.at - note.due) for note in notes if note.kind == kind and note.due]


def _share(values: Sequence[float], share: float) -> float | None:
    return percentile(values, share) if values else None
