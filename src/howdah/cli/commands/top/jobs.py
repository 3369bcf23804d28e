"""The jobs of a view: running, stalled, waiting or failed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from rich.text import Text

from howdah.cli.arguments.datetimes import is_endless
from howdah.cli.commands.top import cells
from howdah.cli.commands.top.cells import Column
from howdah.cli.commands.top.snapshot import Snapshot
from howdah.cli.render.output import STATUS_STYLES, text
from howdah.cli.render.progress import counted, is_progressing, percent, short_id, speed, style_of
from howdah.cli.render.terminal_escape import first_line
from howdah.model.job import Job

_STAGE_WIDTH: Final = 32
_WORKER_WIDTH: Final = 24
_ERROR_WIDTH: Final = 80


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A job, as it was at its snapshot."""

    job: Job
    at: datetime

    @property
    def key(self) -> str:
        return str(self.job.id)

    @property
    def words(self) -> str:
        job = self.job
        parts = (job.id, job.job_type, job.current_stage, job.worker_id, job.key, job.last_error)
        return " ".join(str(part) for part in parts if part is not None)

    @property
    def rate(self) -> float | None:
        """The rate in a second; None if it makes no progress."""
        return self.job.record.rate if self.job.record is not None and is_progressing(self.job) else None

    @property
    def left(self) -> float | None:
        """In how many seconds it will be done; None if that is unknown, or it is late."""
        record = self.job.record
        if record is None or record.finishes_at is None or not is_progressing(self.job):
            return None
        left = (record.finishes_at - self.at).total_seconds()
        return left if left > 0 else None

    @property
    def overdue(self) -> float:
        """For how many seconds it has been due; negative if it is due later."""
        return (self.at - self.job.run_at).total_seconds()

    def since(self, when: datetime | None) -> float | None:
        """Seconds from then until the snapshot."""
        return None if when is None else max((self.at - when).total_seconds(), 0.0)


def rows_of(snapshot: Snapshot) -> list[Row]:
    return [Row(job, snapshot.at) for job in snapshot.jobs]


def state(job: Job) -> Text:
    if job.stalled:
        return Text("stalled", f"bold {style_of(job)}")
    if job.cancel_requested_at is not None and not job.ended:
        return Text("stopping", "magenta")
    return Text(job.status, STATUS_STYLES[job.status])


def _brief(value: str | None, width: int, style: str = "") -> Text:
    made = text(value or "", style)
    made.truncate(width, overflow="ellipsis")
    return made


def _progress_bar(row: Row) -> Text:
    """A bar; empty for a job that has reported nothing."""
    done = percent(row.job)
    return cells.bar(done, style_of(row.job)) if done or row.job.record is not None else Text()


def _counted(row: Row) -> Text:
    return Text() if row.job.record is None else Text(counted(row.job.record))


def _speed(row: Row) -> Text:
    return Text() if row.job.record is None or row.rate is None else Text(speed(row.job.record))


def _due(row: Row) -> Text:
    if is_endless(row.job.run_at):
        return Text("held", "dim")
    return cells.seconds(row.overdue) if row.overdue >= 0 else Text("in ") + cells.seconds(-row.overdue)


def _error(row: Row) -> Text:
    return _brief(first_line(row.job.last_error or ""), _ERROR_WIDTH, "red")


_ID: Final[Column[Row]] = Column("id", lambda row: Text(short_id(row.job.id)), lambda row: row.key)
_TYPE: Final[Column[Row]] = cells.words("type", lambda row: row.job.job_type, "bold")
_STATE: Final[Column[Row]] = Column("state", lambda row: state(row.job), lambda row: state(row.job).plain)
_ATTEMPT: Final[Column[Row]] = Column(
    "try", lambda row: Text(f"{row.job.attempts}/{row.job.max_attempts}"), lambda row: row.job.attempts, number=True
)
_WORKER: Final[Column[Row]] = Column(
    "worker", lambda row: _brief(row.job.worker_id, _WORKER_WIDTH), lambda row: row.job.worker_id
)
_ERROR: Final[Column[Row]] = Column("error", _error, lambda row: row.job.last_error)

_PROGRESS: Final[tuple[Column[Row], ...]] = (
    _ID,
    _TYPE,
    _STATE,
    Column("done", _progress_bar, lambda row: percent(row.job), number=True),
    Column("stage", lambda row: _brief(row.job.current_stage, _STAGE_WIDTH), lambda row: row.job.current_stage),
    Column("count", _counted, lambda row: row.job.record and row.job.record.done, number=True),
    Column("rate", _speed, lambda row: row.rate, number=True),
    cells.durations("left", lambda row: row.left),
    cells.durations("runs for", lambda row: row.since(row.job.started_at)),
    _ATTEMPT,
    _WORKER,
)

COLUMNS: Final[Mapping[str, tuple[Column[Row], ...]]] = {
    "running": _PROGRESS,
    "stalled": _PROGRESS,
    "waiting": (
        _ID,
        _TYPE,
        cells.words("prio", lambda row: row.job.priority, number=True),
        Column("due", _due, lambda row: row.overdue, number=True),
        _ATTEMPT,
        _ERROR,
    ),
    "failed": (
        _ID,
        _TYPE,
        cells.durations("ended", lambda row: row.since(row.job.finished_at)),
        _ATTEMPT,
        _WORKER,
        _ERROR,
    ),
}
"""By the name of the view."""
