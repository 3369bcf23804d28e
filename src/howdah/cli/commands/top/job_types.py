"""The types of jobs, one row for each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Final

from rich.text import Text

from howdah.cli.commands.top import cells
from howdah.cli.commands.top.cells import Column
from howdah.cli.commands.top.snapshot import Rates, Snapshot
from howdah.cli.render.output import STATUS_STYLES, running_count, type_name
from howdah.model.results import TypeStats
from howdah.model.worker_info import Throughput


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A type of jobs.

    oldest: for how many seconds the first of the due ones has waited. per_second: how many have ended lately. throughput: as the
    live workers measure it. workers: how many live workers handle it.
    """

    job_type: str
    counts: TypeStats
    oldest: float | None
    per_second: float | None
    throughput: Throughput | None
    workers: int

    @property
    def key(self) -> str:
        return self.job_type

    @property
    def words(self) -> str:
        return self.job_type


def rows_of(snapshot: Snapshot, rates: Rates) -> list[Row]:
    live = [worker for worker in snapshot.workers if worker.alive]
    return [
        Row(
            job_type=job_type,
            counts=counts,
            oldest=None if counts.oldest_due is None else max((snapshot.at - counts.oldest_due).total_seconds(), 0.0),
            per_second=rates.of(job_type),
            throughput=joint_throughput(
                worker.throughput[job_type] for worker in live if job_type in worker.throughput
            ),
            workers=sum(job_type in (worker.job_types or ()) for worker in live),
        )
        for job_type, counts in snapshot.stats.items()
    ]


def joint_throughput(measured: Iterable[Throughput]) -> Throughput | None:
    """The throughput of several workers together: in the means, a worker weighs by its number of jobs."""
    known = list(measured)
    if not known:
        return None
    weights = [each.per_second for each in known]
    if not any(weights):
        weights = [1.0] * len(known)
    return Throughput(
        per_second=sum(each.per_second for each in known),
        run=_mean([each.run for each in known], weights),
        wait=_mean([each.wait for each in known], weights),
    )


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)


def _workers(row: Row) -> Text:
    if row.workers:
        return Text(str(row.workers))
    return Text("0", "bold red" if row.counts.pending else "dim")


COLUMNS: Final[tuple[Column[Row], ...]] = (
    Column("type", lambda row: type_name(row.job_type, row.counts), lambda row: row.job_type),
    cells.counts("pending", lambda row: row.counts.pending, STATUS_STYLES["pending"]),
    cells.counts("later", lambda row: row.counts.scheduled),
    Column("running", lambda row: running_count(row.counts), lambda row: row.counts.running, number=True),
    cells.counts("stalled", lambda row: row.counts.stalled, "bold yellow"),
    cells.durations("oldest", lambda row: row.oldest),
    Column("workers", _workers, lambda row: row.workers, number=True),
    cells.rates("jobs/s", lambda row: row.per_second),
    cells.rates("pace", lambda row: getattr(row.throughput, "per_second", None)),
    cells.durations("wait", lambda row: getattr(row.throughput, "wait", None)),
    cells.durations("run", lambda row: getattr(row.throughput, "run", None)),
    cells.counts("completed", lambda row: row.counts.completed, STATUS_STYLES["completed"]),
    cells.counts("failed", lambda row: row.counts.failed, STATUS_STYLES["failed"]),
)
