"""The workflows that run, and how many of their jobs have ended."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Final

from rich.text import Text

from howdah.cli.commands.top import cells
from howdah.cli.commands.top.cells import Column
from howdah.cli.commands.top.snapshot import Snapshot
from howdah.cli.render.output import STATUS_STYLES
from howdah.model.workflow import Workflow


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A workflow, at the time of the snapshot."""

    workflow: Workflow
    at: datetime

    @property
    def key(self) -> str:
        return str(self.workflow.id)

    @property
    def words(self) -> str:
        return f"{self.workflow.name} {self.workflow.key or ''} {self.workflow.id}"

    @property
    def age(self) -> float:
        return max((self.at - self.workflow.created_at).total_seconds(), 0.0)


def rows_of(snapshot: Snapshot) -> list[Row]:
    return [Row(workflow, snapshot.at) for workflow in snapshot.workflows]


def _jobs(row: Row) -> Text:
    return Text(f"{row.workflow.progress.ended:,}/{row.workflow.progress.total:,}")


def _state(row: Row) -> Text:
    if row.workflow.cancel_requested_at is not None:
        return Text("cancelling", STATUS_STYLES["cancelled"])
    return cells.bar(row.workflow.progress.percent, STATUS_STYLES["running"])


COLUMNS: Final[tuple[Column[Row], ...]] = (
    cells.words("workflow", lambda row: row.workflow.name, "bold"),
    cells.words("key", lambda row: row.workflow.key),
    Column("jobs", _jobs, lambda row: row.workflow.progress.total, number=True),
    Column("progress", _state, lambda row: row.workflow.progress.percent, number=True),
    cells.counts("failed", lambda row: row.workflow.progress.failed, STATUS_STYLES["failed"]),
    cells.durations("age", lambda row: row.age),
    cells.words("id", lambda row: row.workflow.id, "dim"),
)
