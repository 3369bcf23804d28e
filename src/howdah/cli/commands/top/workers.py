"""The workers, as their last heartbeats described them."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Final

from rich.text import Text

from howdah.cli.commands.top import cells
from howdah.cli.commands.top.cells import Column
from howdah.cli.commands.top.snapshot import Snapshot
from howdah.model.worker_info import WorkerInfo


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A worker."""

    worker: WorkerInfo

    @property
    def key(self) -> str:
        return self.worker.worker_id

    @property
    def words(self) -> str:
        return " ".join([self.worker.worker_id, self.worker.host or "", *(self.worker.job_types or ())])

    @property
    def claimed(self) -> float | None:
        """How many seconds ago it claimed last, by the database's clock."""
        worker = self.worker
        if worker.last_claim_at is None:
            return None
        return worker.age + (worker.heartbeat_at - worker.last_claim_at).total_seconds()

    @property
    def lag(self) -> float | None:
        return None if self.worker.loop_lag is None else self.worker.loop_lag / timedelta(seconds=1)


def rows_of(snapshot: Snapshot) -> list[Row]:
    return [Row(worker) for worker in snapshot.workers]


def _state(row: Row) -> Text:
    if not row.worker.alive:
        return Text("dead", "bold red")
    return Text("ready", "green") if row.worker.ready else Text("not ready", "yellow")


def _slots(row: Row) -> Text:
    running, capacity = row.worker.running, row.worker.capacity
    return Text(f"{'?' if running is None else running}/{'?' if capacity is None else capacity}")


COLUMNS: Final[tuple[Column[Row], ...]] = (
    cells.words("worker", lambda row: row.worker.worker_id, "bold"),
    Column("state", _state, lambda row: _state(row).plain),
    Column("running", _slots, lambda row: row.worker.running, number=True),
    cells.durations("loop lag", lambda row: row.lag),
    cells.durations("last claim", lambda row: row.claimed),
    cells.durations("heartbeat", lambda row: row.worker.age),
    cells.counts("leaked", lambda row: row.worker.leaked, "bold red"),
    cells.words("host", lambda row: row.worker.host),
    cells.words("pid", lambda row: row.worker.pid, number=True),
    cells.words("version", lambda row: row.worker.version),
)
