"""The verbs for workflows: enqueue a graph, see how far it is, cancel it, and let it go on from what broke."""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from psycopg.types.json import Jsonb

from howdah.checks import options
from howdah.checks.context import Context
from howdah.checks.options import Seconds
from howdah.checks.values import plain_json, stored_data, stored_json, stored_mapping, stored_text
from howdah.db.adapters import JsonTexts
from howdah.db.plan import Begin, NextItems, Plan, Row, call, read
from howdah.errors import InvalidOption, NotEnded, Undecodable, WorkflowFailed, WorkflowNotFound
from howdah.handlers.graph import Graph, NewNode, resolved
from howdah.handlers.outcome import Spawned
from howdah.model.codec import Unreadable, codec_of, decoded, decoded_text
from howdah.model.connection import Connection
from howdah.model.ids import new_id
from howdah.model.workflow import PAGE, WORKFLOW_STATUSES, Node, Workflow, WorkflowProgress, WorkflowStatus
from howdah.verbs.produce import flow_key_of, job_options

NODES_AT_ONCE: Final = 1_000
JOBS_AT_ONCE: Final = 2_000


@dataclasses.dataclass(slots=True)
class NewWorkflow:
    """A workflow that is being put together."""

    name: str
    data: Any = None
    key: str | None = None
    deadline: Seconds | datetime | None = None
    max_age: Seconds | None = None
    meta: Mapping[str, Any] | None = None
    graph: Graph = dataclasses.field(default_factory=Graph)
    id: uuid.UUID = dataclasses.field(default_factory=new_id)


def enqueue(context: Context, new: NewWorkflow, *, conn: Connection | None = None) -> Plan[tuple[uuid.UUID, bool]]:
    """Adds a workflow with its nodes and jobs, in one transaction. Returns its id, and whether it was added: there may be one of its key."""
    moment = isinstance(new.deadline, datetime)
    yield Begin()
    (row,) = yield from call(
        "enqueue_workflow",
        name=options.name(new.name, "the name of a workflow", 100),
        id=new.id,
        key=None if new.key is None else options.name(new.key, "key", options.MAX_KEY_LENGTH),
        data=None if new.data is None else stored_json(context, new.data),
        deadline_at=options.moment(new.deadline, "deadline") if isinstance(new.deadline, datetime) else None,
        deadline=None if moment or new.deadline is None else _span(new.deadline, "deadline"),
        max_age=None if new.max_age is None else _span(new.max_age, "max_age"),
        meta=None if new.meta is None else stored_mapping(new.meta, "meta"),
    )
    new.graph.sealed = True
    if row["created"]:
        for first in range(0, len(new.graph.nodes), NODES_AT_ONCE):
            yield from _add_nodes(context, new.id, new.graph.nodes[first : first + NODES_AT_ONCE])
        yield from _add_jobs(context, new.id, new.graph.nodes)
        yield from call("start_workflow", workflow_id=new.id)
    return row["id"], row["created"]


def _span(value: Any, name: str) -> timedelta:
    return options.span(value, name, positive=True)


def _add_nodes(context: Context, workflow_id: uuid.UUID, nodes: Sequence[NewNode]) -> Plan[None]:
    edges = [(parent, node.number) for node in nodes for parent in node.parents]
    yield from call(
        "add_nodes",
        workflow_id=workflow_id,
        nodes=[node.number for node in nodes],
        job_types=[node.job_type for node in nodes],
        names=[node.name for node in nodes],
        kinds=[node.kind for node in nodes],
        whens=[node.when for node in nodes],
        options=_json_list(stored_options(context, node.job_type, node.options) for node in nodes),
        inputs=_json_list(node.inputs or None for node in nodes),
        items=_json_list(node.items for node in nodes),
        templates=_stored_templates(context, nodes),
        parents=[parent for parent, _ in edges] or None,
        children=[child for _, child in edges] or None,
    )


def _json_list(values: Iterable[Any]) -> JsonTexts | None:
    listed = list(values)
    if all(value is None for value in listed):
        return None
    return JsonTexts([None if value is None else Jsonb(json.dumps(value), dumps=str) for value in listed])


def _stored_templates(context: Context, nodes: Sequence[NewNode]) -> JsonTexts | None:
    stored = [None if node.template is None else stored_json(context, node.template) for node in nodes]
    return None if all(each is None for each in stored) else JsonTexts(stored)


def stored_options(context: Context, job_type: str, chosen: Mapping[str, Any]) -> dict[str, Any] | None:
    """The options of a node's jobs as JSON; None if the type's own are enough."""
    checked = job_options(context, job_type, **{name: value for name, value in chosen.items() if name != "per"})
    stored = {name: _as_json(value) for name, value in checked.items() if value is not None}
    if chosen.get("per") is not None:
        stored["flow_key"] = options.flow_key(chosen["per"])
    return stored or None


def _as_json(value: Any) -> Any:
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.6f} s"
    if isinstance(value, datetime):
        return value.isoformat()
    return json.loads(value.obj) if isinstance(value, Jsonb) else value


def _add_jobs(context: Context, workflow_id: uuid.UUID, nodes: Sequence[NewNode]) -> Plan[None]:
    """Adds the jobs of all nodes, so many at once. A generator of a group's jobs is read while they are sent."""
    batch: list[tuple[int, int, Any, str | None]] = []
    for node in nodes:
        source: Iterator[Any] | AsyncIterator[Any] = (
            aiter(node.data) if isinstance(node.data, AsyncIterable) else iter(node.data)
        )
        place = 0
        while True:
            items = yield NextItems(source, JOBS_AT_ONCE - len(batch))
            for item in items:
                batch.append((node.number, place, *_job(context, node, place, item)))
                place += 1
            if len(batch) < JOBS_AT_ONCE:
                break
            yield from _send(workflow_id, batch)
            batch = []
    if batch:
        yield from _send(workflow_id, batch)


def _job(context: Context, node: NewNode, place: int, item: Any) -> tuple[Any, str | None]:
    name = "data" if node.kind == "job" else f"item {place}"
    data = plain_json(context, item, name)
    per = node.options.get("per")
    flow_key = None if per is not None else flow_key_of(context, node.job_type, data, None)
    if node.inputs:
        # It is not complete. What it has was checked when the node was added.
        return stored_json(context, data, name), flow_key
    return stored_data(context, node.job_type, data, name), flow_key


def _send(workflow_id: uuid.UUID, batch: Sequence[tuple[int, int, Any, str | None]]) -> Plan[None]:
    keys = [key for *_, key in batch]
    yield from call(
        "add_node_jobs",
        workflow_id=workflow_id,
        nodes=[node for node, *_ in batch],
        places=[place for _, place, *_ in batch],
        data=JsonTexts([data for _, _, data, _ in batch]),
        flow_keys=keys if any(key is not None for key in keys) else None,
    )


def spawned_jobs(
    context: Context, target: Any, items: Iterable[Mapping[str, Any]], chosen: Mapping[str, Any]
) -> list[Spawned]:
    """Jobs that a job adds to its workflow, checked as by enqueue."""
    handler, job_type, chosen = resolved(target, chosen)
    data = [
        plain_json(context, dict(item) if handler is None else handler.arguments.encode(item), f"item {n}")
        for n, item in enumerate(items)
    ]
    for n, each in enumerate(data):
        stored_data(context, job_type, each, f"item {n}")
    keys = [] if chosen.get("per") is not None else [flow_key_of(context, job_type, each, None) for each in data]
    stored = stored_options(context, job_type, chosen)
    return [Spawned(job_type, data, stored, keys if any(key is not None for key in keys) else None)] if data else []


# Reads


def get(
    context: Context, workflow: uuid.UUID | str, key: str | None = None, *, conn: Connection | None = None
) -> Plan[Workflow]:
    """The workflow of an id, or the one of a name and a key; of a name without a key, the newest. Raises WorkflowNotFound."""
    return from_row((yield from _row_of(workflow, key)), context)


def _row_of(workflow: uuid.UUID | str, key: str | None = None) -> Plan[Row]:
    by_id = workflow if isinstance(workflow, uuid.UUID) else _uuid_in(workflow) if key is None else None
    rows = yield from read("workflow", id=by_id, name=None if by_id else str(workflow), key=key)
    if not rows:
        raise not_found(workflow, key)
    return rows[0]


def not_found(workflow: uuid.UUID | str, key: str | None = None) -> WorkflowNotFound:
    named = "" if key is None else f" with the key {key!r}"
    return WorkflowNotFound(f"there is no workflow {workflow}{named}: it may have been pruned")


def _uuid_in(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def list_workflows(
    context: Context,
    *,
    name: str | None = None,
    status: WorkflowStatus | None = None,
    limit: int = 50,
    before: uuid.UUID | str | None = None,
    conn: Connection | None = None,
) -> Plan[list[Workflow]]:
    """Workflows, the newest first. before: the id after which the page begins."""
    if status is not None and status not in WORKFLOW_STATUSES:
        raise InvalidOption(
            f"the status of a workflow is one of {', '.join(WORKFLOW_STATUSES)}, not {options.shown(status)}"
        )
    filters = {
        "name": name,
        "limit": options.integer(limit, "limit", least=1, most=10_000),
        "before": None if before is None else options.job_id(before),
    }
    running = status == "running"
    rows = yield from (read("running_workflows", **filters) if running else read("workflows", status=status, **filters))
    return [from_row(row, context) for row in rows]


def nodes(context: Context, workflow_id: uuid.UUID, *, conn: Connection | None = None) -> Plan[list[Node]]:
    """The nodes, in the order in which they were added."""
    rows = yield from read("nodes", id=workflow_id)
    names = {row["node"]: row["name"] for row in rows}
    return [
        Node(
            number=row["node"],
            name=row["name"],
            kind=row["kind"],
            when=row["when_"],
            status=row["status"],
            job_type=row["job_type"],
            parents=tuple(names[parent] for parent in row["parents"]),
            first_id=row["first_id"],
            opened_at=row["opened_at"],
            ended_at=row["ended_at"],
            error=row["error"],
            progress=_progress(row),
        )
        for row in rows
    ]


def value(context: Context, workflow_id: uuid.UUID, *, conn: Connection | None = None) -> Plan[Any]:
    """The result of the only node without children; of a group or a map, the list of its results. None if there are several such nodes.

    Raises WorkflowFailed if it has not completed, and NotEnded.
    """
    row = yield from _row_of(workflow_id)
    workflow = from_row(row, context)
    if not workflow.ended:
        raise NotEnded(f"workflow {workflow_id} is running: wait for it")
    if workflow.status != "completed":
        reason = workflow.error or workflow.cancel_reason
        raise WorkflowFailed(
            f"workflow {workflow.name} {workflow.id} {_ended_as(workflow.status)}{f': {reason}' if reason else ''}"
        )
    number = row["result_node"]
    if number is None:
        return None
    node = next(each for each in (yield from nodes(context, workflow_id)) if each.number == number)
    found: list[Any] = []
    while len(found) < node.progress.total:
        page = yield from results_page(context, workflow_id, number, len(found))
        if not page:
            break
        found += page
    return found[0] if node.kind == "job" else found


def _ended_as(status: str) -> str:
    return "failed" if status == "failed" else "was cancelled"


def results_page(context: Context, workflow_id: uuid.UUID, node: int, place: int) -> Plan[list[Any]]:
    """Results of a node's jobs from a place on; None for a job that has not completed."""
    rows = yield from call("node_results", workflow_id=workflow_id, node=node, **{"from": place}, limit=PAGE)
    return [result_of(context, row["job_type"], row["status"], row["result"]) for row in rows]


def result_of(context: Context, job_type: str | None, status: str | None, result: Any) -> Any:
    if status is None:
        raise Undecodable("the result of a job is no longer there: it was deleted, or pruned")
    value = decoded(result, context.codec) if status == "completed" else None
    if isinstance(value, Unreadable):
        raise Undecodable(f"a result cannot be read: {value.reason}")
    known = context.known.get(job_type or "")
    return value if known is None or value is None else known.decode_result(value)


# Changes


def cancel(
    context: Context, workflow_id: uuid.UUID, reason: str | None = None, *, conn: Connection | None = None
) -> Plan[bool]:
    """Cancels the workflow: waiting jobs end, running ones are asked to stop, and nothing more begins, but nodes with ``when="always"``.

    False: it has ended, or was cancelled before.
    """
    stored = None if reason is None else stored_text(context, options.text(reason, "reason"))
    (row,) = yield from call("cancel_workflow", id=workflow_id, reason=stored)
    return bool(row["cancel_workflow"])


def retry(
    context: Context, workflow_id: uuid.UUID, node: str | None = None, *, conn: Connection | None = None
) -> Plan[int]:
    """Goes on from what broke: failed, cancelled and skipped nodes run again, their completed jobs excepted. Returns how many nodes.

    node: the name of a node that has ended: it runs again, and all that depends on it.
    """
    name = None if node is None else options.name(node, "the name of a node", 100)
    (row,) = yield from call("retry_workflow", id=workflow_id, node=name)
    return int(row["retry_workflow"])


# Rows


_PLAIN_COLUMNS: Final = (
    "id", "name", "key", "status", "created_at", "finished_at", "deadline_at", "expires_at", "cancel_requested_at", "error", "meta",
)  # fmt: skip


def from_row(row: Row, context: Context) -> Workflow:
    codec = codec_of(row, context.codec)
    return Workflow(
        **{name: row[name] for name in _PLAIN_COLUMNS},
        data=decoded(row["data"], codec),
        cancel_reason=decoded_text(row["cancel_reason"], codec),
        progress=_progress(row),
    )


def _progress(row: Row) -> WorkflowProgress:
    return WorkflowProgress(**{name: int(row[name]) for name in ("remaining", "completed", "failed", "cancelled")})
