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
from howdah.model.worker_info import Throughput, WorkerInfo


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
        """The text that a filter searches."""
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
            workers=sum(_handles(worker, job_type) for worker in live),
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


def _handles(worker: WorkerInfo, job_type: str) -> bool:
    return job_type in (worker.job_types or ())


def _pace(row: Row) -> float | None:
    return None if row.throughput is None else row.throughput.per_second


def _wait(row: Row) -> float | None:
    return None if row.throughput is None else row.throughput.wait


def _run(row: Row) -> float | None:
    return None if row.throughput is None else row.throughput.run


def _workers(row: Row) -> Text:
    if row.workers:
        return Text(str(row.workers))
    return Text("0", "bold red" if row.counts.pending else "dim")


COLUMNS: Final[tuple[Column[Row], ...]] = (
    Column("type", lambda row: type_name(row.job_type, row.counts), lambda row: row.job_type),
    Column(
        "pending",
        lambda row: cells.count(row.counts.pending, STATUS_STYLES["pending"]),
        lambda row: row.counts.pending,
        number=True,
    ),
    Column("later", lambda row: cells.count(row.counts.scheduled), lambda row: row.counts.scheduled, number=True),
    Column("running", lambda row: running_count(row.counts), lambda row: row.counts.running, number=True),
    Column(
        "stalled",
        lambda row: cells.count(row.counts.stalled, "bold yellow"),
        lambda row: row.counts.stalled,
        number=True,
    ),
    Column("oldest", lambda row: cells.seconds(row.oldest), lambda row: row.oldest, number=True),
    Column("workers", _workers, lambda row: row.workers, number=True),
    Column("jobs/s", lambda row: cells.per_second(row.per_second), lambda row: row.per_second, number=True),
    Column("pace", lambda row: cells.per_second(_pace(row)), _pace, number=True),
    Column("wait", lambda row: cells.seconds(_wait(row)), _wait, number=True),
    Column("run", lambda row: cells.seconds(_run(row)), _run, number=True),
    Column(
        "completed",
        lambda row: cells.count(row.counts.completed, STATUS_STYLES["completed"]),
        lambda row: row.counts.completed,
        number=True,
    ),
    Column(
        "failed",
        lambda row: cells.count(row.counts.failed, STATUS_STYLES["failed"]),
        lambda row: row.counts.failed,
        number=True,
    ),
)
