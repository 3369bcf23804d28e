"""A job that a worker has claimed, decoded as far as its fields are asked for.

A worker looks at few fields of most jobs. To decode all of them would take longer than everything else that a worker
does for a job.
"""

from __future__ import annotations

import copyreg
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from howdah.model.codec import PLAIN, Codec
from howdah.model.job import COLUMNS, CONVERSIONS, Job


class ClaimedRows(Protocol):
    """Reads the rows of one claim."""

    def value(self, row: Sequence[Any], column: str) -> Any:
        """The value of a column of a row. Raises KeyError if there is no such column."""

    def json(self, row: Sequence[Any], column: str) -> bytes:
        """A value of the type jsonb, as text."""


class ClaimedJob(Job[Any]):
    """A Job whose fields are decoded when they are first read. A copy of it is a plain Job, with all fields."""

    __slots__ = ("_codec", "_row", "_rows", "due_for")

    _codec: Codec
    _row: Sequence[Any]
    _rows: ClaimedRows
    due_for: float
    """Seconds that it had been due before it was claimed."""

    if not TYPE_CHECKING:

        def __new__(cls, **fields: Any) -> Job:
            # What dataclasses.replace() calls.
            return Job(**fields)

        def __getattr__(self, name: str) -> Any:
            # Called for a field that was not read before, because its slot is empty.
            value = self._read(name)
            object.__setattr__(self, name, value)
            return value

    def _read(self, name: str) -> Any:
        if name not in _DEFAULTS:
            raise AttributeError(f"'Job' object has no attribute {name!r}", name=name, obj=self)
        try:
            value = self._rows.value(self._row, COLUMNS.get(name, name))
        except KeyError:
            return _DEFAULTS[name]
        return CONVERSIONS[name](value, self._codec) if name in CONVERSIONS else value

    def __eq__(self, other: object) -> bool:
        return dataclasses.replace(self) == (dataclasses.replace(other) if isinstance(other, ClaimedJob) else other)

    def __hash__(self) -> int:
        return hash(dataclasses.replace(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return copyreg.__newobj__, (Job,), self.__getstate__()  # type: ignore[attr-defined]


def claimed_job(rows: ClaimedRows, row: Sequence[Any], codec: Codec) -> Job:
    job = object.__new__(ClaimedJob)
    _set_rows(job, rows)
    _set_row(job, row)
    _set_codec(job, codec)
    for set_field, value in zip(_SETTERS, row, strict=False):
        set_field(job, value)
    return job


def due_for(job: Job) -> float:
    """Seconds that a claimed job had been due before it was claimed."""
    if isinstance(job, ClaimedJob):
        seconds = job.due_for
        return seconds if seconds > 0 else 0.0
    return 0.0 if job.claimed_at is None else max(job.claimed_at.timestamp() - job.run_at.timestamp(), 0.0)


def data_as_json(job: Job) -> bytes | None:
    """The data of a claimed job as JSON text, if it is stored without a codec."""
    if isinstance(job, ClaimedJob) and job._codec is PLAIN:
        return job._rows.json(job._row, "data")
    return None


_DEFAULTS: Final = {
    field.name: None if field.default is dataclasses.MISSING else field.default for field in dataclasses.fields(Job)
}
_COLUMNS_AT_HAND: Final = ("id", "token", "job_type", "priority", "status", "crashes", "timeout", "due_for")
"""The first columns of ``writes/claim.sql``: every worker looks at these."""
_SETTERS: Final = [getattr(ClaimedJob, name).__set__ for name in _COLUMNS_AT_HAND]
_set_rows = ClaimedJob.__dict__["_rows"].__set__
_set_row = ClaimedJob.__dict__["_row"].__set__
_set_codec = ClaimedJob.__dict__["_codec"].__set__
