"""The context of the verbs: what they know of their queue."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from howdah.model.codec import Codec
from howdah.model.job import Home


@dataclasses.dataclass(frozen=True, slots=True)
class KnownType:
    """A type that has a handler in this process: how its data is checked, the defaults of its jobs, and how their results
    are converted.

    Workers also store the defaults in the database when they start. But a job may be enqueued before any worker has.
    """

    check: Callable[[Any], Any]
    defaults: Mapping[str, Any]
    encode_result: Callable[[Any], Any]
    decode_result: Callable[[Any], Any]
    flow_key: Callable[[Any], str] | None = None
    """The flow key of a job with such data, where the database cannot tell it."""
    per: str | None = None
    """The argument that is the flow key."""
    unique: Mapping[str, Any] | None = None
    """The unique rule of its jobs."""


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """What the verbs know of their queue."""

    codec: Codec
    max_payload_bytes: int
    worker_id: str
    known: dict[str, KnownType]
    """The types that have a handler in this process."""
    json_default: Callable[[Any], Any] | None = None
    """Converts values that JSON does not have."""
    home: Home | None = None
    """The queue, for ``wait_for`` and ``value`` of the jobs that the verbs return."""
