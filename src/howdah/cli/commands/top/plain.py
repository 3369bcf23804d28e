"""One snapshot, for a pipe, a file or a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from rich.console import Console
from rich.text import Text

from howdah.cli.commands.top import banner, jobs, lanes, workers
from howdah.cli.commands.top.column import Column, print_table
from howdah.cli.commands.top.rates import Rates
from howdah.cli.commands.top.snapshot import Snapshot
from howdah.cli.render.job_json import job_as_json
from howdah.cli.render.output import answers, plain, print_json

T = TypeVar("T")

# A rate takes two snapshots.
_LANES: Final = tuple(column for column in lanes.COLUMNS if column.title != "jobs/s")


def print_tables(snapshot: Snapshot, where: str, schema: str) -> None:
    console, rates = answers(), Rates()
    console.print(banner.place(where, schema, snapshot), soft_wrap=True)
    console.print(banner.totals(snapshot, rates), soft_wrap=True)
    view = snapshot.view.name
    _print_table(console, "lanes", _LANES, lanes.lanes_of(snapshot, rates))
    _print_table(console, f"{view} jobs", jobs.COLUMNS[view], jobs.rows_of(snapshot))
    _print_table(console, "workers", workers.COLUMNS, workers.rows_of(snapshot))


def print_object(snapshot: Snapshot, where: str, schema: str) -> None:
    print_json(
        {
            "at": snapshot.at,
            "database": where,
            "schema": schema,
            "total": snapshot.stats.total,
            "types": {lane.job_type: _lane_as_json(lane) for lane in lanes.lanes_of(snapshot, Rates())},
            "jobs": [job_as_json(job) for job in snapshot.jobs],
            "workers": [plain(worker) | {"ready": worker.ready} for worker in snapshot.workers],
        }
    )


def _print_table(console: Console, title: str, columns: Sequence[Column[T]], rows: Sequence[T]) -> None:
    console.print()
    if rows:
        console.print(Text(title, "bold"))
        print_table(console, columns, rows)
    else:
        console.print(Text(f"no {title}", "bold"))


def _lane_as_json(lane: lanes.Lane) -> dict[str, Any]:
    return plain(lane.counts) | {"pace": lane.pace, "workers": lane.workers}
