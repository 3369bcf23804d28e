"""An event: something that happened to a job, kept in order."""

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
    """One thing that happened to a job.

    kind: "event", told by its handler; "log", a line that the handler logged, whose name is its level; "status",
    an attempt that has ended, whose name is the job's status since then, and whose data say why.
    seq: 1, 2, 3 … within its job.
    at: when it happened, by the database's clock.
    attempt, token: whose it is; where attempts were counted anew, tokens still tell them apart.
    name: of an event, what the handler called it.
    data: what was said with it; of a log line, its message and its logger.
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
        data = decoded(codec, data)
    elif isinstance(data, dict) and isinstance(data.get("error"), str):
        data = {**data, "error": decoded_text(codec, data["error"])}
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
