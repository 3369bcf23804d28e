"""A snapshot as text: the banner of the screen, plain tables for a pipe, and JSON for a program."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from psycopg.conninfo import conninfo_to_dict
from rich.console import Console
from rich.text import Text

from howdah.cli.commands.top import cells, job_types, jobs, workers, workflows
from howdah.cli.commands.top.cells import Column, print_table
from howdah.cli.commands.top.snapshot import Rates, Snapshot
from howdah.cli.render.output import STATUS_STYLES, answers, job_as_json, plain, print_json, text

# The banner


def address(dsn: str) -> str:
    """The address of the database, without secrets."""
    parts = {name: str(value) for name, value in conninfo_to_dict(dsn).items() if value is not None}
    user = f"{parts['user']}@" if "user" in parts else ""
    # Several hosts without ports leave only commas.
    port = f":{parts['port']}" if parts.get("port", "").strip(",") else ""
    where = f"{user}{parts.get('host', parts.get('hostaddr', ''))}{port}"
    database = parts.get("dbname", "")
    return f"{where}/{database}" if where or not database else database


def time_of_day(when: datetime) -> str:
    return f"{when.astimezone():%H:%M:%S}"


def place(where: str, schema: str, snapshot: Snapshot) -> Text:
    """The address of the queue, and the time."""
    return Text.assemble(
        ("howdah top", "bold"),
        "  ",
        text(where),
        ("  schema ", "dim"),
        text(schema),
        (f"  {time_of_day(snapshot.at)}", "bold"),
    )


def totals(snapshot: Snapshot, rates: Rates) -> Text:
    """All types together."""
    total = snapshot.stats.total
    parts = [
        _part(total.pending, "pending", STATUS_STYLES["pending"]),
        _part(total.scheduled, "later"),
        _part(total.running, "running", STATUS_STYLES["running"]),
        _part(total.stalled, "stalled", "bold yellow"),
        _part(total.completed, "completed", STATUS_STYLES["completed"]),
        _part(total.failed, "failed", STATUS_STYLES["failed"]),
    ]
    if rates.total is not None:
        parts.append(Text.assemble(cells.per_second(rates.total), " jobs/s"))
    return Text("  ").join(parts)


def _part(number: int, name: str, style: str = "") -> Text:
    return Text.assemble(cells.count(number, style), f" {name}")


# Tables and JSON

T = TypeVar("T")

# A rate needs two snapshots.
_TYPES: Final = tuple(column for column in job_types.COLUMNS if column.title != "jobs/s")


def print_tables(snapshot: Snapshot, where: str, schema: str) -> None:
    console, rates = answers(), Rates()
    console.print(place(where, schema, snapshot), soft_wrap=True)
    console.print(totals(snapshot, rates), soft_wrap=True)
    view = snapshot.view.name
    _print_table(console, "types", _TYPES, job_types.rows_of(snapshot, rates))
    _print_table(console, f"{view} jobs", jobs.COLUMNS[view], jobs.rows_of(snapshot))
    if snapshot.workflows:
        _print_table(console, "running workflows", workflows.COLUMNS, workflows.rows_of(snapshot))
    _print_table(console, "workers", workers.COLUMNS, workers.rows_of(snapshot))


def print_object(snapshot: Snapshot, where: str, schema: str) -> None:
    print_json(
        {
            "at": snapshot.at,
            "database": where,
            "schema": schema,
            "total": snapshot.stats.total,
            "types": {row.job_type: _type_as_json(row) for row in job_types.rows_of(snapshot, Rates())},
            "jobs": [job_as_json(job) for job in snapshot.jobs],
            "workflows": snapshot.workflows,
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


def _type_as_json(row: job_types.Row) -> dict[str, Any]:
    return plain(row.counts) | {"throughput": row.throughput, "workers": row.workers}
