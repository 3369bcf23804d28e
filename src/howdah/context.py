"""What the verbs know of the queue that they belong to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import psycopg

from howdah.codec import Codec

Connection: TypeAlias = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]


@dataclasses.dataclass(frozen=True, slots=True)
class KnownType:
    """A type whose handler is in this process: what its data must be like, and what its jobs have by default.

    Workers tell the database the same when they start; but a job may be enqueued before any has.
    """

    check: Callable[[Any], Any]
    defaults: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """What the verbs need to know of the queue that they belong to."""

    codec: Codec
    max_payload_bytes: int
    worker_id: str
    known: dict[str, KnownType]
    """The types that have a handler in this process."""
