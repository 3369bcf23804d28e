"""What the dashboard reads and writes, as plans. Each sends a statement of ``sql/reads/web``, or calls one function."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import psycopg
from psycopg.types.json import Jsonb

from howdah.checks.context import Context
from howdah.checks.values import stored_text
from howdah.db.adapters import Ids
from howdah.db.plan import Begin, Call, GatheredCall, Plan, Rollback, Row, Step, call, call_within, read
from howdah.errors import InvalidOption, NotPermitted, WorkflowNotFound
from howdah.model.codec import PLAIN
from howdah.model.job import Job, from_row
from howdah.model.results import JobPage
from howdah.model.workflow import Workflow
from howdah.verbs import operate, produce
from howdah.verbs import workflows as flow_verbs
from howdah.verbs.selection import SelectionVerb
from howdah.web.filters import Filter
from howdah.web.graph import FlowNode

WINDOW: Final = 5_000
PAGE: Final = 50
ROOM_TIMEOUT: Final = 10.0
"""Seconds that a new job waits for room: less than a page may take, so that the answer says why there is none."""
MOST_NODES: Final = 500
"""Nodes of a workflow that are shown at once."""


@dataclasses.dataclass(frozen=True, slots=True)
class TypeCounts:
    """How many jobs of a type are where. If ``exact`` is False, more wait than were counted, and pending is an estimate."""

    job_type: str
    pending: int = 0
    scheduled: int = 0
    exact: bool = True
    claimed: int = 0
    running: int = 0
    stalled: int = 0
    oldest_due: datetime | None = None
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    today: Mapping[str, int] = dataclasses.field(default_factory=dict)
    paused: bool = False
    paused_because: str | None = None

    @property
    def due(self) -> int:
        return max(self.pending - self.scheduled, 0)


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    at: datetime
    types: tuple[TypeCounts, ...]

    @property
    def names(self) -> list[str]:
        return [each.job_type for each in self.types]

    @property
    def total(self) -> TypeCounts:
        names = ("pending", "scheduled", "claimed", "running", "stalled", "completed", "failed", "cancelled")
        sums: dict[str, Any] = {name: sum(getattr(each, name) for each in self.types) for name in names}
        today = {
            name: sum(each.today.get(name, 0) for each in self.types) for name in ("completed", "failed", "cancelled")
        }
        oldest = [each.oldest_due for each in self.types if each.oldest_due is not None and not each.paused]
        return TypeCounts(
            "",
            **sums,
            exact=all(each.exact for each in self.types),
            today=today,
            oldest_due=min(oldest, default=None),
        )


def counts() -> Plan[Counts]:
    """How many jobs are where, without counting a large backlog."""
    live = {row.pop("job_type"): row for row in (yield from call("live_counts"))}
    ended: dict[str, dict[str, tuple[int, int]]] = {}
    for row in (yield from read("web/ended")):
        ended.setdefault(row["job_type"], {})[row["status"]] = (row["jobs"], row["today"])
    types = {row["job_type"]: row for row in (yield from read("web/types"))}
    names = sorted({*live, *ended, *types})
    counted = tuple(_counted(name, live.get(name), ended.get(name, {}), types.get(name)) for name in names)
    return Counts((yield from operate.now()), counted)


def _counted(name: str, live: Row | None, ended: Mapping[str, tuple[int, int]], its: Row | None) -> TypeCounts:
    known: dict[str, Any] = {**(live or {}), **{status: jobs for status, (jobs, _) in ended.items()}}
    return TypeCounts(
        name,
        **known,
        today={status: today for status, (_, today) in ended.items()},
        paused=its is not None and its["paused_at"] is not None,
        paused_because=None if its is None else its["paused_because"],
    )


def jobs(context: Context, wanted: Filter, before: uuid.UUID | None, *, limit: int = PAGE) -> Plan[JobPage]:
    """A page of jobs, the newest first. It searches one window: if that ends first, the page's ``complete`` is False."""
    arguments = yield from _arguments(context, wanted, before)
    ids = yield from _ids("web/jobs", **arguments, window=WINDOW, limit=limit + 1)
    found = yield from _brief(context, ids[:limit])
    if len(ids) > limit:
        return JobPage(found, next=ids[limit - 1], complete=True)
    end = yield from _window_end(arguments)
    return JobPage(found, next=end, complete=end is None)


def running(context: Context, limit: int) -> Plan[list[Job[Any]]]:
    """The running jobs that report progress first, for the overview."""
    return (yield from _brief(context, (yield from _ids("web/running", limit=limit))))


def _ids(name: str, /, **arguments: Any) -> Plan[list[uuid.UUID]]:
    return [row["id"] for row in (yield from read(name, **arguments))]


def _brief(context: Context, ids: Sequence[uuid.UUID]) -> Plan[list[Job[Any]]]:
    """The jobs of these ids, in this order, without large fields."""
    rows = (yield from read("web/brief", ids=Ids(ids))) if ids else []
    jobs = {row["id"]: from_row(row, context.codec, None) for row in rows}
    return [jobs[id] for id in ids if id in jobs]


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """A part of the search for all jobs that match."""

    ids: Sequence[uuid.UUID]
    next: uuid.UUID | None
    """Where the next window begins; None if this was the last."""


def matching(context: Context, wanted: Filter, before: uuid.UUID | None) -> Plan[Window]:
    """The ids of the jobs in a window that match."""
    arguments = yield from _arguments(context, wanted, before)
    # First, and as an id: a job that leaves the window meanwhile does not move another one out of the next window.
    end = yield from _window_end(arguments)
    ids = yield from _ids("web/jobs", **arguments | {"first_id": end or arguments["first_id"]}, window=None, limit=None)
    return Window(ids, end)


def _window_end(arguments: Mapping[str, Any]) -> Plan[uuid.UUID | None]:
    parts = {name: arguments[name] for name in ("statuses", "live", "ended", "first_id", "before")}
    return next(iter((yield from _ids("web/window_end", **parts, window=WINDOW))), None)


def _arguments(context: Context, wanted: Filter, before: uuid.UUID | None) -> Plan[dict[str, Any]]:
    """The parameters of ``web/jobs``, but for the size of the window."""
    if wanted.needs_contents and not (yield from read("may_see_data"))[0]["may"]:
        # It would search [redacted], and find nothing.
        raise NotPermitted("viewers may not search by arguments, errors and keys: they are redacted for them")
    if (wanted.path or wanted.error) and context.codec is not PLAIN:
        raise NotPermitted("arguments and errors cannot be searched: this queue stores them through a codec")
    arguments = wanted.arguments((yield from operate.now()))
    if arguments["path"] is not None:
        try:
            yield from read("web/path", path=arguments["path"])
        except psycopg.errors.SyntaxError as error:
            raise InvalidOption(f"{wanted.path!r} is not a JSON path: {error.diag.message_primary}") from None
    return arguments | (yield from _place(wanted, before))


def _place(wanted: Filter, before: uuid.UUID | None) -> Plan[dict[str, Any]]:
    """The node of the filter, and the ids between which to search: the jobs of a workflow are between known ones."""
    nodes: list[FlowNode] = []
    if wanted.workflow:
        name = wanted.node or None
        nodes = yield from flow_nodes(uuid.UUID(wanted.workflow), name=name, limit=MOST_NODES + 1)
    if wanted.node and not nodes:
        raise InvalidOption(
            f"there is no node {wanted.node} in this workflow: choose a workflow, and a node of its page"
        )
    number = nodes[0].number if wanted.node else None
    known = [node.first_id for node in nodes if node.first_id is not None] if len(nodes) <= MOST_NODES else []
    ends = [node.end_id for node in nodes] if known else [None]
    upper = [before, *([] if None in ends else [max(filter(None, ends))])]
    return {
        "node": number,
        "first_id": min(known, default=None),
        "before": min((id for id in upper if id is not None), default=None),
    }


# Workflows


@dataclasses.dataclass(frozen=True, slots=True)
class FlowPage:
    """Some workflows. ``next`` is where the next page begins; if ``complete`` is False, this one searched a window only."""

    workflows: Sequence[Workflow]
    next: uuid.UUID | None
    complete: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class FlowState:
    """A workflow with some of its nodes."""

    workflow: Workflow
    nodes: Sequence[FlowNode]
    next: int | None
    """The node after which the next page begins; None if there are no more."""
    at: datetime


def workflows(
    context: Context, name: str | None, status: str | None, before: uuid.UUID | None, *, limit: int = PAGE
) -> Plan[FlowPage]:
    """A page of workflows, the newest first, out of one window."""
    rows = yield from read("web/workflows", name=name, status=status, before=before, window=WINDOW, limit=limit + 1)
    found = [flow_verbs.from_row(row, context) for row in rows[:limit]]
    if len(rows) > limit:
        return FlowPage(found, found[-1].id)
    ends = yield from read("web/workflows_end", before=before, window=WINDOW)
    return FlowPage(found, ends[0]["id"], complete=False) if ends else FlowPage(found, None)


def workflow(context: Context, workflow_id: uuid.UUID, after: int = 0) -> Plan[FlowState]:
    its = yield from flow_verbs.get(context, workflow_id)
    nodes = yield from flow_nodes(workflow_id, after=after, limit=MOST_NODES + 1)
    shown = nodes[:MOST_NODES]
    more = shown[-1].number if len(nodes) > MOST_NODES else None
    return FlowState(its, shown, more, (yield from operate.now()))


def flow_nodes(
    workflow_id: uuid.UUID,
    *,
    numbers: Sequence[int] | None = None,
    name: str | None = None,
    after: int = 0,
    limit: int = MOST_NODES,
) -> Plan[list[FlowNode]]:
    """Nodes of a workflow, in order: those with these numbers, or the one of this name."""
    given = None if numbers is None else list(numbers)
    rows = yield from read("web/nodes", id=workflow_id, numbers=given, name=name, after=after, limit=limit)
    return [FlowNode(**row) for row in rows]


@dataclasses.dataclass(frozen=True, slots=True)
class FlowPlace:
    """Where a job stands in its workflow. ``node`` is None if it does not count there any more."""

    workflow: Workflow
    node: FlowNode | None
    place: int | None
    parents: Sequence[FlowNode]


def place_in_workflow(context: Context, job: Job[Any]) -> Plan[FlowPlace | None]:
    """None: the job has no workflow, or that was pruned."""
    if job.workflow_id is None:
        return None
    try:
        its = yield from flow_verbs.get(context, job.workflow_id)
    except WorkflowNotFound:
        return None
    (row,) = (yield from read("web/place", id=job.id)) or ({"node": None, "place": None},)
    if row["node"] is None:
        return FlowPlace(its, None, None, ())
    nodes = yield from flow_nodes(its.id, numbers=[row["node"]])
    node = nodes[0] if nodes else None
    parents = (yield from flow_nodes(its.id, numbers=node.parents)) if node is not None and node.parents else []
    return FlowPlace(its, node, row["place"], parents)


def signals(name: str | None, limit: int, skip: int) -> Plan[list[Row]]:
    """The signals that jobs wait for, and those that are kept."""
    return (yield from call("signal_counts", signal=name, limit=limit, skip=skip))


# Actions


def enqueue(context: Context, **arguments: Any) -> Plan[Job[Any]]:
    """Adds a job, and leaves its transaction open for the entry in the audit. While it waits for room, it has none."""
    plan, answer, failure = produce.enqueue(context, **arguments, room_timeout=ROOM_TIMEOUT), None, None
    while True:
        try:
            step = plan.throw(failure) if failure is not None else plan.send(answer)
        except StopIteration as end:
            job: Job[Any] = end.value
            return job
        step, adds = _within(step)
        if adds:
            yield Begin()
        try:
            answer, failure = (yield step), None
        except Exception as error:  # noqa: BLE001
            failure = error
            if adds:
                yield Rollback()


def _within(step: Step) -> tuple[Step, bool]:
    """A step as it is in a transaction with others, and whether it adds jobs."""
    its = step.call if isinstance(step, GatheredCall) else step
    if not isinstance(its, Call) or "alone" not in its.arguments:
        return step, False
    # Others leave their notification to that of a call that is alone. This one may yet be rolled back.
    return dataclasses.replace(its, arguments={**its.arguments, "alone": False}), True


def change(
    context: Context, verb: SelectionVerb, ids: Sequence[uuid.UUID], arguments: Mapping[str, Any]
) -> Plan[tuple[list[uuid.UUID], int]]:
    """Applies a verb to jobs: those that it changed, and how many were locked. A locked one is left out, after a short wait."""
    if not ids:
        return [], 0
    given = dict(arguments)
    if verb == "cancel" and given.get("reason") is not None:
        given["reason"] = stored_text(context, given["reason"])
    # A savepoint: a locked job must not undo what was done with the others.
    yield Begin()
    try:
        rows = yield from call_within("1s", "delete_jobs" if verb == "delete" else verb, ids=Ids(list(ids)), **given)
    except psycopg.errors.LockNotAvailable:
        yield Rollback()
        if len(ids) == 1:
            return [], 1
        middle = len(ids) // 2
        first, locked = yield from change(context, verb, ids[:middle], arguments)
        second, others = yield from change(context, verb, ids[middle:], arguments)
        return first + second, locked + others
    return [row["id"] for row in rows], 0


def record(
    context: Context, visitor: str, action: str, target: Mapping[str, Any], jobs: int | None, outcome: str | None
) -> Plan[None]:
    """Enters an action in the audit. The reason of a cancel is stored as in the job: encrypted, if that is."""
    if isinstance(reason := target.get("reason"), str):
        target = {**target, "reason": stored_text(context, reason)}
    yield from call("record_audit", visitor=visitor, action=action, target=Jsonb(target), jobs=jobs, outcome=outcome)


def audit(before: int | None, limit: int = 100) -> Plan[list[Row]]:
    return (yield from read("web/audit", before=before, limit=limit))
