"""What the verbs know of the queue that they belong to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import psycopg

from howdah.model.codec import Codec
from howdah.model.job import Home

Connection: TypeAlias = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]


@dataclasses.dataclass(frozen=True, slots=True)
class KnownType:
    """A type whose handler is in this process: what its data must be like, what its jobs have by default, and
    what their results are to whoever asks for them.

    Workers tell the database the defaults too when they start; but a job may be enqueued before any has.
    """

    check: Callable[[Any], Any]
    defaults: Mapping[str, Any]
    encode_result: Callable[[Any], Any]
    decode_result: Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """What the verbs need to know of the queue that they belong to."""

    codec: Codec
    max_payload_bytes: int
    worker_id: str
    known: dict[str, KnownType]
    """The types that have a handler in this process."""
    home: Home | None = None
    """Who the jobs that the verbs return turn to when they are waited for."""
