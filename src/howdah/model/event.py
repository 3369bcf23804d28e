"""Events of jobs."""

from __future__ import annotations

import dataclasses
import uuid
from datetime import datetime
from typing import Any, Literal, TypeAlias, get_args

from howdah.model.codec import Codec, codec_of, decoded, decoded_text

EventKind: TypeAlias = Literal["event", "log", "status"]
EVENT_KINDS: tuple[EventKind, ...] = get_args(EventKind)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of a job.

    kind: "event", recorded by its handler; "log", a line that the handler logged, whose name is its level; "status", the
    end of an attempt, whose name is the job's status since then, and whose data say why.
    seq: 1, 2, 3 … within its job.
    at: when it happened, by the database's clock.
    attempt, token: the attempt that it belongs to; a retry counts attempts from 1 again, and tokens stay distinct.
    name: of an event, what the handler called it.
    data: the event's data; of a log line, its message and its logger.
    """

    job_id: uuid.UUID
    job_type: str
    seq: int
    at: datetime
    attempt: int
    token: int
    kind: EventKind
    name: str
    data: Any = dataclasses.field(repr=False)


def event_of(row: dict[str, Any], codec: Codec) -> Event:
    """A row of the table ``events``, or of its view."""
    codec = codec_of(row, codec)
    data = row["data"]
    if row["kind"] != "status":
        data = decoded(data, codec)
    elif isinstance(data, dict) and isinstance(data.get("error"), str):
        data = {**data, "error": decoded_text(data["error"], codec)}
    return Event(
        job_id=row["job_id"],
        job_type=row["job_type"],
        seq=row["seq"],
        at=row["at"],
        attempt=row["attempt"],
        token=row["token"],
        kind=row["kind"],
        name=row["name"],
        data=data,
    )
