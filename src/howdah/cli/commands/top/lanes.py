"""The lanes: one for each type of jobs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Final

from rich.text import Text

from howdah.cli.commands.top import figures
from howdah.cli.commands.top.column import Column
from howdah.cli.commands.top.rates import Rates
from howdah.cli.commands.top.snapshot import Snapshot
from howdah.cli.render.output import text
from howdah.cli.render.status import STYLES
from howdah.model.results import TypeStats
from howdah.model.worker_info import Pace, WorkerInfo


@dataclasses.dataclass(frozen=True, slots=True)
class Lane:
    """A type of jobs, and how it goes.

    oldest: for how many seconds the first of the due ones has waited. per_second: how many have ended lately. pace: what
    the workers that live say of themselves. workers: how many of them handle it.
    """

    job_type: str
    counts: TypeStats
    oldest: float | None
    per_second: float | None
    pace: Pace | None
    workers: int

    @property
    def key(self) -> str:
        return self.job_type

    @property
    def words(self) -> str:
        """Where a filter looks."""
        return self.job_type


def lanes_of(snapshot: Snapshot, rates: Rates) -> list[Lane]:
    living = [worker for worker in snapshot.workers if worker.alive]
    return [
        Lane(
            job_type=job_type,
            counts=counts,
            oldest=None if counts.oldest_due is None else max((snapshot.at - counts.oldest_due).total_seconds(), 0.0),
            per_second=rates.of(job_type),
            pace=joint_pace(worker.pace[job_type] for worker in living if job_type in worker.pace),
            workers=sum(_handles(worker, job_type) for worker in living),
        )
        for job_type, counts in snapshot.stats.items()
    ]


def joint_pace(paces: Iterable[Pace]) -> Pace | None:
    """The pace of several workers together: who does more of the jobs weighs more in the means."""
    known = list(paces)
    if not known:
        return None
    weights = [pace.per_second for pace in known]
    if not any(weights):
        weights = [1.0] * len(known)
    return Pace(
        per_second=sum(pace.per_second for pace in known),
        run=_mean([pace.run for pace in known], weights),
        wait=_mean([pace.wait for pace in known], weights),
    )


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)


def _handles(worker: WorkerInfo, job_type: str) -> bool:
    return job_type in (worker.job_types or ())


def _name(lane: Lane) -> Text:
    name = text(lane.job_type, "bold")
    return Text.assemble(name, (" (paused)", "yellow")) if lane.counts.paused else name


def _pace(lane: Lane) -> float | None:
    return None if lane.pace is None else lane.pace.per_second


def _wait(lane: Lane) -> float | None:
    return None if lane.pace is None else lane.pace.wait


def _run(lane: Lane) -> float | None:
    return None if lane.pace is None else lane.pace.run


def _workers(lane: Lane) -> Text:
    if lane.workers:
        return Text(str(lane.workers))
    return Text("0", "bold red" if lane.counts.pending else "dim")


COLUMNS: Final[tuple[Column[Lane], ...]] = (
    Column("type", _name, lambda lane: lane.job_type),
    Column(
        "pending",
        lambda lane: figures.count(lane.counts.pending, STYLES["pending"]),
        lambda lane: lane.counts.pending,
        number=True,
    ),
    Column("later", lambda lane: figures.count(lane.counts.scheduled), lambda lane: lane.counts.scheduled, number=True),
    Column(
        "running",
        lambda lane: figures.count(lane.counts.running, STYLES["running"]),
        lambda lane: lane.counts.running,
        number=True,
    ),
    Column(
        "stalled",
        lambda lane: figures.count(lane.counts.stalled, "bold yellow"),
        lambda lane: lane.counts.stalled,
        number=True,
    ),
    Column("oldest", lambda lane: figures.seconds(lane.oldest), lambda lane: lane.oldest, number=True),
    Column("workers", _workers, lambda lane: lane.workers, number=True),
    Column("jobs/s", lambda lane: figures.per_second(lane.per_second), lambda lane: lane.per_second, number=True),
    Column("pace", lambda lane: figures.per_second(_pace(lane)), _pace, number=True),
    Column("wait", lambda lane: figures.seconds(_wait(lane)), _wait, number=True),
    Column("run", lambda lane: figures.seconds(_run(lane)), _run, number=True),
    Column(
        "completed",
        lambda lane: figures.count(lane.counts.completed, STYLES["completed"]),
        lambda lane: lane.counts.completed,
        number=True,
    ),
    Column(
        "failed",
        lambda lane: figures.count(lane.counts.failed, STYLES["failed"]),
        lambda lane: lane.counts.failed,
        number=True,
    ),
)
