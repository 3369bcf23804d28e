"""A job that has failed, as the handler of ``on_failure`` gets it.

The database makes the data of that handler's job, because the sweep may fail a job when no worker of it lives. It cannot use the
queue's codec: the error and the data of the failed job stay as they were stored, inside of a record that is plain JSON.
"""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any, Final

from howdah.model.codec import PLAIN, Codec, Unreadable, decoded, decoded_text

PARAMETER: Final = "failed"
"""The argument of a handler for ``on_failure``."""


@dataclasses.dataclass(frozen=True, slots=True)
class FailedJob:
    """A job that has failed for good: the argument ``failed`` of a handler that another one names as ``on_failure``.

    data: the data of the job; None if it is too large to be stored a second time.
    """

    id: uuid.UUID
    job_type: str
    error: str | None
    data: Any
    attempts: int


_FIELDS: Final = {field.name for field in dataclasses.fields(FailedJob)}


def decoded_data(value: Any, codec: Codec) -> Any:
    """The data of a job; of one for ``on_failure``, the parts that a codec has encoded."""
    if codec is PLAIN or not _is_failed_job(value):
        return decoded(value, codec)
    failed = value[PARAMETER]
    data, error = decoded(failed["data"], codec), failed["error"]
    if isinstance(data, Unreadable):
        return data
    text = decoded_text(error, codec) if isinstance(error, str) else None
    return {PARAMETER: {**failed, "error": text, "data": data}}


def _is_failed_job(value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() != {PARAMETER}:
        return False
    failed = value[PARAMETER]
    return isinstance(failed, dict) and failed.keys() == _FIELDS
