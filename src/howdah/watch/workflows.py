"""Watching a workflow: the updates of its jobs, and of the whole; and waiting for its end.

A position is one in the stream of all jobs. Behind the end of the workflow it has a mark, which a retry makes void.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Sequence
from typing import Final

from howdah.checks import options
from howdah.checks.context import Context
from howdah.checks.options import Seconds
from howdah.db.adapters import Ids
from howdah.db.plan import Emit, LoopWaker, Plan, Row, ThreadWaker, Waker
from howdah.errors import WaitTimeout
from howdah.model.workflow import Workflow
from howdah.verbs.workflows import from_row, not_found
from howdah.watch.hub import Hub
from howdah.watch.mailbox import Mailbox, Message
from howdah.watch.readers import WorkflowStreamWatch, WorkflowWatch
from howdah.watch.watch import LONGEST_POSITION, PAGE, Update, UpdateKind, Watching, insist

_ENDED: Final = "-end"
_LONGEST_TYPE: Final = 50


class WorkflowUpdates(Watching):
    """The updates of a workflow and its jobs, until it has ended."""

    def __init__(
        self, hub: Hub, context: Context, workflow_id: uuid.UUID, after: str | None, kinds: Sequence[UpdateKind] | None
    ) -> None:
        super().__init__(hub, context, kinds)
        self._id = workflow_id
        self._filters = {"workflows": [workflow_id], "kinds": sorted({*self._kinds, "status"}), "limit": PAGE}
        position = None if not after else options.name(after, "after", LONGEST_POSITION)
        self._position = None if position is None else position.removesuffix(_ENDED)
        self._end_is_known = position is not None and position.endswith(_ENDED)

    def plan(self, waker: type[Waker]) -> Plan[None]:
        while True:
            row = yield from _row(self._id)
            if self._position is None:
                (found,) = yield from insist("workflow_beginning", id=self._id)
                self._position = found["beginning"]
            if row["status"] != "running":
                # All of its events are committed.
                (now,) = yield from insist("stream_now")
                yield from self._catch_up(now["position"])
                if not self._end_is_known:
                    yield Emit(self._whole(row))
                return
            yield Emit(self._whole(row))
            types = yield from _types(row)
            mailbox = Mailbox(waker(), self._hub.wake, loses=True)
            stream = WorkflowStreamWatch(mailbox, types, self._kinds | {"status"}, self._wants_progress, self._id)
            whole = WorkflowWatch(mailbox, self._id, types, self._wants_progress)
            try:
                self._hub.join(stream)
                self._hub.join(whole)
                yield from self._until_over(mailbox)
            finally:
                self._hub.leave(stream)
                self._hub.leave(whole)

    def _until_over(self, mailbox: Mailbox) -> Plan[None]:
        """Emits updates until the workflow has ended, or the mailbox was full."""
        while True:
            updates: list[Update] = []
            for message in (yield from mailbox.receive()):
                match message:
                    case Message("joined", position=position):
                        yield from self._catch_up(position)
                    case Message("event", dict(row), position):
                        updates += self._events([row])
                    case Message("state", dict(row), position):
                        self._position = position
                        updates.append(self._progress(row, position))
                    case Message("whole", dict(row)):
                        updates += self._whole(row)
                    case Message("end") | Message("lost"):
                        yield Emit(updates)
                        return
            yield Emit(updates)

    def _catch_up(self, until: str) -> Plan[None]:
        """Emits the events before this position."""
        is_there = not self._kinds and not self._end_is_known
        while not is_there:
            *rows, last = yield from insist("stream_of", after=self._position, until=until, **self._filters)
            yield Emit(self._events(rows))
            self._position = last["position"]
            is_there = last["seen"] < PAGE
        self._position = until

    def _events(self, rows: Sequence[Row]) -> list[Update]:
        updates = []
        for row in rows:
            self._position = row["position"]
            self._end_is_known = self._end_is_known and row["job_id"] != self._id
            if row["kind"] in self._kinds:
                updates.append(self._event(row, row["position"]))
        return updates

    def _whole(self, row: Row) -> list[Update]:
        if not self._wants_progress:
            return []
        position = self._position or ""
        workflow = from_row(row, self._context)
        return [
            Update(
                kind="progress",
                job_id=workflow.id,
                job_type=workflow.name,
                at=workflow.finished_at or row["at"],
                position=f"{position}{_ENDED}" if workflow.ended else position,
                attempt=0,
                workflow=workflow,
            )
        ]


def wait_for(hub: Hub, context: Context, workflow_id: uuid.UUID, timeout: Seconds | None) -> Workflow:
    """The workflow, once it has ended."""
    with contextlib.closing(hub.database.stream(_end(hub, context, workflow_id, timeout, ThreadWaker))) as found:
        ended: Workflow = next(found)
        return ended


async def await_for(hub: Hub, context: Context, workflow_id: uuid.UUID, timeout: Seconds | None) -> Workflow:  # noqa: ASYNC109
    """``wait_for``, awaiting."""
    async with contextlib.aclosing(hub.database.astream(_end(hub, context, workflow_id, timeout, LoopWaker))) as found:
        ended: Workflow = await anext(found)
        return ended


def _end(hub: Hub, context: Context, workflow_id: uuid.UUID, timeout: Seconds | None, waker: type[Waker]) -> Plan[None]:
    seconds = None if timeout is None else options.span(timeout, "timeout").total_seconds()
    deadline = None if seconds is None else time.monotonic() + seconds
    row = yield from _row(workflow_id)
    if row["status"] == "running":
        watch = WorkflowWatch(Mailbox(waker(), hub.wake), workflow_id, frozenset([_type_of(row)]), counts=False)
        hub.join(watch)
        try:
            messages = yield from watch.mailbox.receive(deadline)
        finally:
            hub.leave(watch)
        if not messages:
            raise WaitTimeout(f"workflow {workflow_id} has not ended after {seconds:g} s; it continues")
        assert messages[0].row is not None
        row = dict(messages[0].row)
    yield Emit([from_row(row, context)])


def _row(workflow_id: uuid.UUID) -> Plan[Row]:
    rows = yield from insist("workflows_by_id", ids=Ids([workflow_id]))
    if not rows:
        raise not_found(workflow_id)
    return rows[0]


def _types(row: Row) -> Plan[frozenset[str]]:
    """The types of its jobs, as far as they are known; and what its own events have as type."""
    nodes = yield from insist("workflow_types", id=row["id"])
    return frozenset([_type_of(row), *(node["job_type"] for node in nodes)])


def _type_of(row: Row) -> str:
    return str(row["name"])[:_LONGEST_TYPE]
