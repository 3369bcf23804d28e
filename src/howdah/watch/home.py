"""The queue, as the jobs and the workflows that its verbs return know it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Generator, Sequence
from typing import Any, Protocol, TypeVar

from howdah.checks.context import Context
from howdah.checks.options import Seconds
from howdah.db.plan import LoopWaker, ThreadWaker
from howdah.model.job import Job
from howdah.model.workflow import Workflow
from howdah.watch import wait, workflows
from howdah.watch.hub import Hub
from howdah.watch.watch import Update, UpdateKind

T = TypeVar("T")


class Watched(Protocol):
    """The queue."""

    @property
    def _context(self) -> Context: ...

    def _hub(self) -> Hub: ...


class QueueHome:
    """For what waits for, and watches, what came from a queue."""

    def __init__(self, queue: Watched) -> None:
        self._queue = queue

    def wait_for(self, job: Job[T], timeout: Seconds | None) -> Job[T]:
        found: Job[T] = wait.wait_for(self._queue._hub(), self._queue._context, job, timeout, None)
        return found

    async def await_for(self, job: Job[T], timeout: Seconds | None) -> Job[T]:  # noqa: ASYNC109
        found: Job[T] = await wait.await_for(self._queue._hub(), self._queue._context, job, timeout, None)
        return found

    def value(self, job: Job[T]) -> T:
        value: T = wait.value_of(self._queue._context, job)
        return value

    def wait_for_workflow(self, workflow_id: uuid.UUID, timeout: Seconds | None) -> Workflow:
        return workflows.wait_for(self._queue._hub(), self._queue._context, workflow_id, timeout)

    async def await_for_workflow(self, workflow_id: uuid.UUID, timeout: Seconds | None) -> Workflow:  # noqa: ASYNC109
        return await workflows.await_for(self._queue._hub(), self._queue._context, workflow_id, timeout)

    def watch_workflow(
        self, workflow_id: uuid.UUID, after: str | None, kinds: Sequence[UpdateKind] | None
    ) -> Generator[Update, None, None]:
        updates = self._updates(workflow_id, after, kinds)
        return self._queue._hub().database.stream(updates.plan(ThreadWaker))

    def awatch_workflow(
        self, workflow_id: uuid.UUID, after: str | None, kinds: Sequence[UpdateKind] | None
    ) -> AsyncGenerator[Update, None]:
        updates = self._updates(workflow_id, after, kinds)
        return self._queue._hub().database.astream(updates.plan(LoopWaker))

    def _updates(
        self, workflow_id: uuid.UUID, after: str | None, kinds: Sequence[UpdateKind] | None
    ) -> workflows.WorkflowUpdates:
        return workflows.WorkflowUpdates(self._queue._hub(), self._queue._context, workflow_id, after, kinds)

    def __deepcopy__(self, memo: object) -> QueueHome:
        return self

    def __reduce__(self) -> tuple[type[None], tuple[Any, ...]]:
        # A job that is sent to another process has no queue there.
        return type(None), ()
