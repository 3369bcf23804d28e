"""Workflows: graphs of jobs, as their rows show them."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, get_args

T = TypeVar("T")

WorkflowStatus: TypeAlias = Literal["running", "completed", "failed", "cancelled"]
WORKFLOW_STATUSES: Final[tuple[WorkflowStatus, ...]] = get_args(WorkflowStatus)
NodeStatus: TypeAlias = Literal["waiting", "running", "completed", "failed", "cancelled", "skipped"]
When: TypeAlias = Literal["success", "always", "failure"]

PAGE: Final = 1_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowProgress:
    """How many jobs of a workflow, or of a node, have not ended, and how the others have.

    The jobs of a map count from the moment when its items are known.
    """

    remaining: int
    completed: int
    failed: int
    cancelled: int

    @property
    def total(self) -> int:
        return self.remaining + self.ended

    @property
    def ended(self) -> int:
        """How many have ended, with whatever status."""
        return self.completed + self.failed + self.cancelled

    @property
    def percent(self) -> float:
        return round(100 * self.ended / self.total, 2) if self.total else 0.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A workflow: its status, and how far it is. A snapshot, like a ``Job``.

    key: unique among the workflows of its name.
    deadline_at: it fails if it has not ended by then. expires_at: the same, by its maximum age.
    cancel_requested_at, cancel_reason: when and why it was cancelled.
    error: why it has failed.
    """

    id: uuid.UUID
    name: str
    key: str | None
    status: WorkflowStatus
    data: Any = dataclasses.field(repr=False)
    created_at: datetime
    finished_at: datetime | None
    deadline_at: datetime | None
    expires_at: datetime
    cancel_requested_at: datetime | None
    cancel_reason: str | None
    error: str | None
    meta: Mapping[str, Any] | None
    progress: WorkflowProgress

    @property
    def ended(self) -> bool:
        return self.status != "running"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of a workflow: one job, or many (a group, a map).

    status: "waiting" for its parents, "running", or how it ended: "skipped" if it was not needed.
    parents: the names of the nodes that it waits for. when: which ends of theirs let it run.
    first_id: the id of its job, or of the first one. None: a map whose items are not known.
    error: why it has failed as a whole, or was not needed.
    """

    number: int
    name: str
    kind: Literal["job", "group", "map"]
    when: When
    status: NodeStatus
    job_type: str
    parents: tuple[str, ...]
    first_id: uuid.UUID | None
    opened_at: datetime | None
    ended_at: datetime | None
    error: str | None
    progress: WorkflowProgress


class Results(Generic[T]):
    """The results of a group or a map, read a page at a time: for a parameter of a handler, ``parts: howdah.Results[Part]``.

    ``len`` and ``for`` work; in an async handler, ``async for``. It can be iterated again. The result of a job that has not completed
    is None.
    """

    def __init__(
        self,
        size: int,
        fetch: Callable[[int], Sequence[T]],
        afetch: Callable[[int], Awaitable[Sequence[T]]],
    ) -> None:
        """fetch, afetch: the page that begins at this place."""
        self._size = size
        self._fetch = fetch
        self._afetch = afetch

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[T]:
        place = 0
        while place < self._size:
            page = self._fetch(place)
            yield from page
            place += max(len(page), 1)

    async def __aiter__(self) -> AsyncIterator[T]:
        place = 0
        while place < self._size:
            page = await self._afetch(place)
            for each in page:
                yield each
            place += max(len(page), 1)

    def __repr__(self) -> str:
        return f"Results({self._size})"


def results_in(items: Sequence[T]) -> Results[T]:
    """Results that are in memory already."""

    async def afetch(place: int) -> Sequence[T]:
        return items[place:]

    return Results(len(items), lambda place: items[place:], afetch)
