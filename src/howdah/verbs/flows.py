"""Flow: a workflow as users see it. It is put together in a ``with`` block, and enqueued at its end."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import AsyncGenerator, AsyncIterable, Generator, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from howdah.checks.context import Context
from howdah.checks.options import Seconds
from howdah.db.database import Database
from howdah.db.plan import Plan
from howdah.errors import InvalidOption, NotRunning
from howdah.handlers.graph import After, Graph, Handle, Path, Target, as_call
from howdah.handlers.handler import AnyHandler, Call
from howdah.model.connection import Connection
from howdah.model.job import Home
from howdah.model.workflow import Node, When, Workflow, WorkflowProgress
from howdah.verbs import workflows
from howdah.verbs.both import Runner, VerbGroup, both, name_verbs

if TYPE_CHECKING:
    from howdah.queue import JobQueue
    from howdah.watch.watch import Update, UpdateKind


@dataclasses.dataclass(slots=True)
class FlowContext:
    """What the verbs of a flow know of it."""

    context: Context
    new: workflows.NewWorkflow | None
    conn: Connection | None
    id: uuid.UUID | None

    def own_id(self) -> uuid.UUID:
        if self.id is None:
            raise NotRunning("the workflow is not enqueued yet: that happens at the end of its with block")
        return self.id

    def home(self) -> Home:
        assert self.context.home is not None
        return self.context.home


def get(flow: FlowContext, *, conn: Connection | None = None) -> Plan[Workflow]:
    """The workflow as it is now."""
    return (yield from workflows.get(flow.context, flow.own_id()))


def status(flow: FlowContext, *, conn: Connection | None = None) -> Plan[str]:
    """ "running", "completed", "failed" or "cancelled"."""
    return (yield from workflows.get(flow.context, flow.own_id())).status


def progress(flow: FlowContext, *, conn: Connection | None = None) -> Plan[WorkflowProgress]:
    """How many of its jobs have ended, and how. It takes the same short time, however many there are."""
    return (yield from workflows.get(flow.context, flow.own_id())).progress


def nodes(flow: FlowContext, *, conn: Connection | None = None) -> Plan[list[Node]]:
    """Its nodes, in the order in which they were added."""
    return (yield from workflows.nodes(flow.context, flow.own_id()))


def value(flow: FlowContext, *, conn: Connection | None = None) -> Plan[Any]:
    """What the only node without children returned; of a group or a map, a list. None if there are several such nodes.

    Raises WorkflowFailed if it has not completed, and NotEnded.
    """
    return (yield from workflows.value(flow.context, flow.own_id()))


def cancel(flow: FlowContext, reason: str | None = None, *, conn: Connection | None = None) -> Plan[bool]:
    """Cancels it: waiting jobs end, running ones are asked to stop, and nothing more begins, but nodes with ``when="always"``.

    False: it has ended, or was cancelled before.
    """
    return (yield from workflows.cancel(flow.context, flow.own_id(), reason))


def retry(flow: FlowContext, node: str | None = None, *, conn: Connection | None = None) -> Plan[int]:
    """Goes on from what broke: failed, cancelled and skipped nodes run again, their completed jobs excepted. Returns how many nodes.

    node: the name of a node that has ended: it runs again, and all that depends on it.
    """
    return (yield from workflows.retry(flow.context, flow.own_id(), node))


def _enqueue(flow: FlowContext, *, conn: Connection | None = None) -> Plan[bool]:
    assert flow.new is not None
    flow.id, created = yield from workflows.enqueue(flow.context, flow.new)
    return created


class Flow:
    """A workflow: ``with queue.workflow("import") as flow:``. What is added in the block is enqueued at its end, in one transaction.

    If the block raises an exception, nothing is enqueued. Afterwards, and from ``queue.workflows.get(…)``, it is the workflow as it runs.
    """

    def __init__(self, database: Database, context: FlowContext) -> None:
        self._database = database
        self._context = context
        self.created = False
        """Whether the block has added it; False if there was one of this key."""

    get, aget = both(get)
    status, astatus = both(status)
    progress, aprogress = both(progress)
    nodes, anodes = both(nodes)
    value, avalue = both(value)
    cancel, acancel = both(cancel)
    retry, aretry = both(retry)
    _enqueue, _aenqueue = both(_enqueue)

    @property
    def id(self) -> uuid.UUID:
        return self._context.own_id()

    def wait_for(self, timeout: Seconds | None = None) -> Workflow:
        """The workflow, once it has ended. timeout: raises WaitTimeout after so many seconds; it continues."""
        return self._context.home().wait_for_workflow(self.id, timeout)

    async def await_for(self, timeout: Seconds | None = None) -> Workflow:  # noqa: ASYNC109
        return await self._context.home().await_for_workflow(self.id, timeout)

    def watch(
        self, *, after: str | None = None, kinds: Sequence[UpdateKind] | None = None
    ) -> Generator[Update, None, None]:
        """The updates of its jobs and of the whole as they happen, until it has ended: ``for update in flow.watch():``

        First how far the whole is, in ``update.workflow``, unless it has ended; then everything since it began, then what is new. The
        last update is always the workflow as it ended. Outages of the database are waited out. Raises PositionLost if the database was
        restored.

        after: an update's position, to resume behind it; or ``queue.stream_position()``, to begin now. kinds: as of ``queue.watch``.
        """
        return self._context.home().watch_workflow(self.id, after, kinds)

    def awatch(
        self, *, after: str | None = None, kinds: Sequence[UpdateKind] | None = None
    ) -> AsyncGenerator[Update, None]:
        return self._context.home().awatch_workflow(self.id, after, kinds)

    await_for.__doc__ = wait_for.__doc__
    awatch.__doc__ = watch.__doc__

    def add(
        self,
        handler: Target,
        /,
        *args: Any,
        after: After = (),
        when: When = "success",
        name: str | None = None,
        options: Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> Handle[Any]:
        """Adds a node of one job, and returns its handle. A handle as an argument is an edge: the result arrives there.

        handler: a handler, ``handler.using(…)``, or the name of a job type.
        after: nodes to wait for whose results are not needed.
        when: runs if all parents have completed ("success"), one has failed or was cancelled ("failure"), or in any case ("always").
        name: unique in the workflow; the handler's, if not given.
        options: of ``enqueue``, such as ``{"priority": 150}``.

        Raises InvalidArguments where the arguments do not fit the handler.
        """
        return self._graph.add(handler, after, when, name, options or {}, args, arguments)

    def map(
        self,
        handler: Target,
        items: Iterable[Any] | AsyncIterable[Any] | Handle[Any] | Path,
        /,
        *,
        after: After = (),
        when: When = "success",
        name: str | None = None,
        options: Mapping[str, Any] | None = None,
        **shared: Any,
    ) -> Handle[Any]:
        """Adds a job for each item. Its handle stands for the list of their results, in the order of the items.

        items: values that are known now, or the result of a node, whose items are known when it has ended. The first argument of the
            handler that is not in ``shared`` gets the item.
        """
        return self._graph.map(handler, items, after, when, name, options or {}, shared)

    def group(
        self,
        calls: Iterable[Call | AnyHandler],
        /,
        *,
        after: After = (),
        when: When = "success",
        name: str | None = None,
    ) -> Handle[Any] | list[Handle[Any]]:
        """Adds a job for each ``handler.call(…)``. As an argument, what it returns stands for the list of their results."""
        return self._graph.group(calls, after, when, name)

    @property
    def _graph(self) -> Graph:
        if self._context.new is None:
            raise InvalidOption("this workflow is enqueued already: nodes are added in the block of queue.workflow(…)")
        return self._context.new.graph

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.created = self._enqueue(conn=self._context.conn)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.created = await self._aenqueue(conn=self._context.conn)

    def __repr__(self) -> str:
        return f"Flow({self._context.id or (self._context.new and self._context.new.name)})"


name_verbs(Flow)


def workflow(
    self: Runner[Context],
    name: str,
    *,
    data: Any = None,
    key: str | None = None,
    deadline: Seconds | datetime | None = None,
    max_age: Seconds | None = None,
    meta: Mapping[str, Any] | None = None,
    conn: Connection | None = None,
) -> Flow:
    """A new workflow, to be put together in a block: ``with queue.workflow("import") as flow:``, or ``async with``.

    data: what it is about; any JSON value. meta: tags.
    key: unique among the workflows of its name that exist. If there is one, it is used, and nothing is added: ``flow.created`` is False.
    deadline: it fails if it has not ended at this moment, or after so many seconds.
    max_age: as deadline, the setting ``workflow_max_age`` if not given, 90 days. Even nodes with ``when="always"`` are cancelled then.
    conn: your own connection: the workflow is part of its transaction.
    """
    new = workflows.NewWorkflow(name, data, key, deadline, max_age, meta)
    return Flow(self._database, FlowContext(self._context, new, conn, None))


def _found(
    context: Context, workflow: uuid.UUID | str, key: str | None = None, *, conn: Connection | None = None
) -> Plan[uuid.UUID]:
    return (yield from workflows.get(context, workflow, key)).id


class Workflows(VerbGroup):
    """The workflows that were enqueued, as ``queue.workflows``. ``queue.workflow(…)`` makes a new one."""

    def get(self, workflow: uuid.UUID | str, key: str | None = None, *, conn: Connection | None = None) -> Flow:
        """The workflow of an id, or of a name and a key; of a name alone, the newest. Raises WorkflowNotFound."""
        found = self._database.run(_found(self._context, workflow, key), conn)
        return Flow(self._database, FlowContext(self._context, None, None, found))

    async def aget(self, workflow: uuid.UUID | str, key: str | None = None, *, conn: Connection | None = None) -> Flow:
        found = await self._database.arun(_found(self._context, workflow, key), conn)
        return Flow(self._database, FlowContext(self._context, None, None, found))

    aget.__doc__ = get.__doc__
    list, alist = both(workflows.list_workflows)


name_verbs(Workflows)


# Short forms


class Chain:
    """Calls that run one after the other. Each gets the result of the one before as its first argument that is not given."""

    def __init__(self, *parts: Call | AnyHandler | Calls) -> None:
        if not parts:
            raise InvalidOption("a chain has at least one call")
        self.parts = tuple(part if isinstance(part, Calls) else as_call(part) for part in parts)

    def enqueue(self, name: str | None = None, **settings: Any) -> Flow:
        """Enqueues it as a workflow, with the options of ``queue.workflow``."""
        with self._flow(name, settings) as flow:
            self._fill(flow)
        return flow

    async def aenqueue(self, name: str | None = None, **settings: Any) -> Flow:
        """``enqueue``, awaited."""
        async with self._flow(name, settings) as flow:
            self._fill(flow)
        return flow

    def _flow(self, name: str | None, settings: Mapping[str, Any]) -> Flow:
        first = self.parts[0].calls[0] if isinstance(self.parts[0], Calls) else self.parts[0]
        queue: JobQueue = first.handler.queue
        return queue.workflow(name or first.handler.name, **settings)

    def _fill(self, flow: Flow) -> None:
        before: Any = None
        for part in self.parts:
            after = () if before is None else before if isinstance(before, list) else [before]
            if isinstance(part, Calls):
                before = flow.group(part.calls, after=after)
                continue
            named = dict(part.handler.arguments.bound(part.args, part.named)) if part.args else dict(part.named)
            free = part.handler.arguments.first_free(named)
            if before is not None and free is not None:
                named[free] = before
            before = flow._graph.add(part.target, after, "success", None, part.options, (), named)


class Calls:
    """Calls that run at the same time: ``group([…]).then(handler)``."""

    def __init__(self, calls: Iterable[Call | AnyHandler]) -> None:
        self.calls = [as_call(each) for each in calls]
        if not self.calls:
            raise InvalidOption("a group has at least one call")

    def then(self, call: Call | AnyHandler) -> Chain:
        """After all of them, a call that gets the list of their results."""
        return Chain(self, call)

    def enqueue(self, name: str | None = None, **settings: Any) -> Flow:
        """Enqueues them as a workflow, with the options of ``queue.workflow``."""
        return Chain(self).enqueue(name, **settings)

    async def aenqueue(self, name: str | None = None, **settings: Any) -> Flow:
        """``enqueue``, awaited."""
        return await Chain(self).aenqueue(name, **settings)


def chain(*parts: Call | AnyHandler | Calls) -> Chain:
    """Calls one after the other: ``howdah.chain(download.call(url=url), parse, store).enqueue()``.

    Each gets the result of the one before as its first argument that is not given. A part may be a ``group``.
    """
    return Chain(*parts)


def group(calls: Iterable[Call | AnyHandler]) -> Calls:
    """Calls at the same time, and one that gets the list of their results: ``howdah.group(parse.call(p) for p in parts).then(merge).enqueue()``."""
    return Calls(calls)
