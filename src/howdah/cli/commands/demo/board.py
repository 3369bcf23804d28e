"""What has been seen of a demo so far: written by the show, read by whatever shows it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence

from howdah.cli.commands.demo.workload import Kind
from howdah.model.job import Job
from howdah.model.results import Stats, TypeStats

_NOTHING = TypeStats()


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, so many seconds after the beginning."""

    after: float
    text: str
    bad: bool = False


class Board:
    """The latest look at the database, and what has happened until then."""

    def __init__(self, kinds: Sequence[Kind], listener: Callable[[Event], None] = lambda _: None) -> None:
        self.kinds = kinds
        self.stats: Mapping[str, TypeStats] = Stats({})
        self.special: Mapping[str, Job] = {}
        self.workers: Sequence[tuple[str, str]] = ()
        """The name of each worker, and what is to be said about it."""
        self.story: list[Event] = []
        self.listener = listener
        self._began = time.monotonic()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    def tell(self, text: str, *, bad: bool = False) -> None:
        event = Event(self.elapsed, text, bad)
        self.story.append(event)
        self.listener(event)

    def ended(self, job_type: str) -> int:
        stats = self.stats.get(job_type, _NOTHING)
        return stats.completed + stats.failed + stats.cancelled

    def live(self, job_type: str) -> int:
        stats = self.stats.get(job_type, _NOTHING)
        return stats.pending + stats.claimed + stats.running

    def running(self, job_type: str) -> int:
        stats = self.stats.get(job_type, _NOTHING)
        return stats.claimed + stats.running

    def total(self, kind: Kind) -> int:
        """How many jobs of a kind there are, or will be."""
        return kind.count if kind.count is not None else self.ended(kind.job_type) + self.live(kind.job_type)
