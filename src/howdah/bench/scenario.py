"""What one measurement is: how it is set up, what one round of it does, and what the figures mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, TypeAlias

from howdah.bench.arena import Arena
from howdah.bench.crew import Crew

JOBS_A_SECOND: Final = "jobs/s"
MILLISECONDS: Final = "ms"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user has chosen."""

    jobs: int | None = None
    rounds: int = 3
    processes: int = 1
    concurrency: int | None = None
    payload: int = 0
    rate: int = 1_000

    def filled(self, data: dict[str, Any]) -> dict[str, Any]:
        """The data of a job, with as much beside it as was asked for."""
        return {**data, "filler": "x" * self.payload} if self.payload else data

    def numbered(self, jobs: int) -> Iterator[dict[str, Any]]:
        return (self.filled({"n": number}) for number in range(jobs))

    def crew(self, arena: Arena, *types: str) -> Crew:
        """Workers as users get them, unless something else was asked for."""
        chosen = {} if self.concurrency is None else {"concurrency": self.concurrency, "threads": self.concurrency}
        return Crew(arena, types, processes=self.processes, options=chosen)


@dataclasses.dataclass(frozen=True, slots=True)
class Round:
    """What one round came to: each figure by its name. ``samples`` are what it was made of, where that is kept."""

    jobs: int
    seconds: float
    values: Mapping[str, float]
    samples: Mapping[str, Sequence[float]] = dataclasses.field(default_factory=dict)


Play: TypeAlias = Callable[[int], Round]
"""One round, of so many jobs."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One measurement.

    units: the figures, each with its unit. few: the jobs of the round that does not count. usual: those of the others;
    None for as many as take so many seconds here. least, most: never fewer, and never more.
    """

    what: str
    how: str
    meaning: str
    units: Mapping[str, str]
    few: int
    most: int
    least: int = 1
    usual: int | None = None
    seconds: float = 2.0
    opened: Callable[[Arena, Options], AbstractContextManager[Play]]

    @property
    def name(self) -> str:
        return f"{self.what}, {self.how}" if self.how else self.what


def rate(jobs: int, seconds: float) -> Round:
    """A round of which only the pace counts."""
    return Round(jobs, seconds, {"": jobs / seconds})
