"""The same data as JSON, under /api/v1, with its OpenAPI description."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, cast

import psycopg
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from howdah.checks import options
from howdah.checks.values import as_json
from howdah.errors import HowdahError, InvalidOption
from howdah.model.event import EVENT_KINDS
from howdah.model.job import STATUSES, Job
from howdah.model.workflow import WORKFLOW_STATUSES, Workflow
from howdah.verbs import events as event_verbs
from howdah.verbs import operate
from howdah.web import filters, metrics, plans
from howdah.web.defence import Refusal
from howdah.web.fields import new_job, refuse_hidden_parts
from howdah.web.openapi import (
    TEXT,
    Operation,
    Operations,
    check_body,
    check_query,
    description_of,
    refuse_unknown,
)
from howdah.web.pages import job as job_pages
from howdah.web.pages import jobs as job_list
from howdah.web.pages import signals as signal_pages
from howdah.web.pages import types as type_pages
from howdah.web.pages import workflows as flow_pages
from howdah.web.pages.audit import PAGE as AUDIT_PAGE
from howdah.web.pages.health import examination, freshness
from howdah.web.runs import APPLIES_TO, WHY_UNCHANGED
from howdah.web.site import PATIENCE, Site, described

_MOST_LIMIT: Final = 500
_MOST_EVENTS: Final = 1_000


def api_routes(site: Site) -> list[BaseRoute]:
    operations = [*_reads(site), *_writes(site)]
    text = json.dumps(description_of(site.title, operations))

    async def description(_: Request) -> Response:
        return Response(text, media_type="application/json")

    made: list[BaseRoute] = [Route("/api/v1/openapi.json", description)]
    for each in operations:
        path = f"/api/v1{each.path}".replace("{id}", "{id:uuid}")
        made.append(Route(path, _endpoint(each), methods=[each.method]))
    return made


def encoded(value: Any) -> bytes:
    """JSON with every digit of an integer."""
    return json.dumps(as_json(value), ensure_ascii=False, default=str).encode("utf-8", "replace")


def _endpoint(operation: Operation) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            async with asyncio.timeout(PATIENCE):
                check_query(operation, request.query_params.multi_items())
                if operation.body is not None:
                    request.state.body = await _body(request)
                    check_body(operation, request.state.body)
                value = await operation.answer(request)
        except Refusal as refusal:
            return problem(refusal.status, str(refusal))
        except (HowdahError, psycopg.Error, TimeoutError) as error:
            found = described(error)
            return problem(found.status, found.text)
        return Response(encoded(value), operation.status, media_type="application/json")

    return functools.wraps(operation.answer)(answer)


def problem(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json.dumps({"error": text}), status, headers, media_type="application/json")


# Parts of the description


def _query(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": dict(schema)}


def _verb(verbs: Iterable[str]) -> dict[str, Any]:
    return {"name": "verb", "in": "path", "required": True, "schema": {"type": "string", "enum": list(verbs)}}


def _object(*required: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    """A body. A field that it may lack may be null, too."""
    made = {
        name: each if name in required or "type" not in each else _or_null(each) for name, each in properties.items()
    }
    described = {"type": "object", "properties": made, "additionalProperties": False}
    return described | ({"required": list(required)} if required else {})


def _or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"]}


def _described_filter(name: str) -> dict[str, Any]:
    if name == "status":
        return {"type": "array", "items": {"type": "string", "enum": list(STATUSES)}}
    if name == "type":
        return {"type": "array", "items": TEXT}
    return {"type": "string", "enum": list(filters.STATES)} if name == "state" else dict(TEXT)


_ID: Final = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "format": "uuid"}}
_INT32: Final = {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1}
_JOB_TYPE: Final = {"type": "string", "minLength": 1, "maxLength": 50}
_RUN_AT: Final = {
    **TEXT,
    "description": "Not before this time, in ISO 8601, or not before so long from now, such as 2h",
}
_DELAY: Final = {"type": "number", "minimum": 0, "description": "Instead of run_at: seconds from now"}
_NEW_JOB: Final = _object(
    "type", type=_JOB_TYPE, data={}, priority=_INT32, max_attempts=_INT32, key=TEXT, run_at=_RUN_AT, delay=_DELAY
)
_FILTERS: Final = tuple(_query(name, _described_filter(name)) for name in filters.NAMES)
_FIELDS: Final = {"cancel": ("reason",), "reprioritise": ("priority",), "reschedule": ("run_at",)}
"""The fields of each action on a job."""
_PAGING: Final = (
    _query("before", {"type": "string", "format": "uuid"}),
    _query("limit", {"type": "integer", "minimum": 1, "maximum": _MOST_LIMIT}),
)


# Reads


def _reads(site: Site) -> Operations:
    api, context = Operations(), site.context

    @api.get("/counts", "How many jobs of each type are where")
    async def counts(request: Request) -> Any:
        found = await site.counts(request)
        return {"at": found.at, "types": [dataclasses.asdict(each) for each in found.types]}

    @api.get("/jobs", "A page of jobs, the newest first, without large fields", *_FILTERS, *_PAGING)
    async def jobs(request: Request) -> Any:
        given = request.query_params
        wanted = filters.filter_of(given.multi_items())
        job_list.refuse_hidden(site, wanted)
        limit = _integer(given.get("limit", "50"), "limit", 1, _MOST_LIMIT)
        before = options.job_id(given["before"]) if given.get("before") else None
        page = await site.read(request, plans.jobs(context, wanted, before, limit=limit))
        return {
            "jobs": [shown(site, job, whole=False) for job in page],
            "next": page.next,
            "complete": page.complete,
        }

    @api.get("/jobs/{id}", "A job", _ID)
    async def job(request: Request) -> Any:
        return shown(site, await site.read(request, operate.get(context, request.path_params["id"])))

    @api.get(
        "/jobs/{id}/events",
        "Events and log lines of a job, in order",
        _ID,
        _query("after", {"type": "integer", "minimum": 0}),
        _query("limit", {"type": "integer", "minimum": 1, "maximum": _MOST_EVENTS}),
        _query("kind", {"type": "array", "items": {"type": "string", "enum": list(EVENT_KINDS)}}),
    )
    async def events(request: Request) -> Any:
        given = request.query_params
        plan = event_verbs.events(
            context,
            request.path_params["id"],
            after=_integer(given.get("after", "0"), "after", 0, 2**31 - 1),
            kinds=cast(Any, given.getlist("kind")) or None,
            limit=_integer(given.get("limit", "100"), "limit", 1, _MOST_EVENTS),
        )
        found = await site.read(request, plan)
        return {"events": [{**dataclasses.asdict(each), "data": site.redact(each.data)} for each in found]}

    @api.get("/jobs/{id}/position", "Where a pending job stands; null if it is not pending", _ID, result={})
    async def position(request: Request) -> Any:
        return await site.read(request, operate.queue_position(context, request.path_params["id"]))

    @api.get("/workers", "The workers")
    async def workers(request: Request) -> Any:
        return {"workers": await site.workers(request)}

    @api.get(
        "/workflows",
        "A page of workflows, the newest first, without large fields",
        _query("name", TEXT),
        _query("status", {"type": "string", "enum": list(WORKFLOW_STATUSES)}),
        *_PAGING,
    )
    async def workflows(request: Request) -> Any:
        given = request.query_params
        name, status, before = flow_pages.asked(given)
        limit = _integer(given.get("limit", "50"), "limit", 1, _MOST_LIMIT)
        page = await site.read(request, plans.workflows(context, name, status, before, limit=limit))
        return {
            "workflows": [shown(site, each, whole=False) for each in page.workflows],
            "next": page.next,
            "complete": page.complete,
        }

    @api.get(
        "/workflows/{id}",
        "A workflow, with 500 of its nodes",
        _ID,
        _query("after", {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}),
    )
    async def workflow(request: Request) -> Any:
        after = _integer(request.query_params.get("after", "0"), "after", 0, 2**31 - 1)
        state = await site.read(request, plans.workflow(context, request.path_params["id"], after))
        nodes = [dataclasses.asdict(each) for each in state.nodes]
        return {**shown(site, state.workflow), "nodes": nodes, "next": state.next}

    @api.get(
        "/signals",
        "Which signals jobs wait for, and which are kept",
        _query("of", TEXT),
        _query("skip", {"type": "integer", "minimum": 0, "maximum": 100_000}),
    )
    async def signals(request: Request) -> Any:
        name, skip = signal_pages.asked(request.query_params)
        return {"signals": await site.read(request, plans.signals(name, signal_pages.PAGE, skip))}

    @api.get("/schedules", "The schedules")
    async def schedules(request: Request) -> Any:
        found = await site.schedules(request)
        return {"schedules": [{**dataclasses.asdict(each), "data": site.redact(each.data)} for each in found]}

    @api.get("/limits", "Limits, rates, weights, and bounds on waiting jobs")
    async def limits(request: Request) -> Any:
        return {"limits": await site.limits(request)}

    @api.get(
        "/history",
        "Figures of the past, slot by slot",
        _query("span", {"type": "string", "enum": [each.name for each in metrics.SPANS]}),
    )
    async def history(request: Request) -> Any:
        span = metrics.span_of(request.query_params.get("span", ""))
        slots = await metrics.by_slot(site, request, span)
        shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
        return {
            "slot_seconds": span.slot.total_seconds(),
            "slots": [
                {
                    "at": slot.at,
                    "completed": slot.completed,
                    "failed": slot.failed,
                    "cancelled": slot.cancelled,
                    "backlog": slot.backlog,
                    "wait": {name: metrics.quantile(slot.waits, share) for name, share in shares.items()},
                    "run": {name: metrics.quantile(slot.runs, share) for name, share in shares.items()},
                }
                for slot in slots
            ],
        }

    @api.get("/health", "What the doctor finds")
    async def health(_: Request) -> Any:
        found = await examination(site, freshness(site))
        return {"healthy": found.healthy, "findings": list(found), "unseen": found.unseen}

    @api.get("/audit", "What was done in the dashboard", _query("before", {"type": "integer", "minimum": 1}))
    async def audit(request: Request) -> Any:
        given = request.query_params.get("before")
        before = None if not given else _integer(given, "before", 1, 2**63 - 1)
        found = await site.read(request, plans.audit(before, AUDIT_PAGE))
        return {"entries": [site.audited(row) for row in found]}

    return api


_NOT_SHOWN: Final = ("lease", "created", "conflict")
_LARGE: Final = ("data", "result", "resumed", "errors", "meta")
_HIDDEN: Final = ("data", "result", "resumed", "meta")
"""Fields that may have parts to be redacted."""


def shown(site: Site, its: Job[Any] | Workflow, *, whole: bool = True) -> dict[str, Any]:
    """A job or a workflow as the API has it."""
    names = [field.name for field in dataclasses.fields(its) if not field.name.startswith("_")]
    left_out = _NOT_SHOWN if whole else (*_NOT_SHOWN, *_LARGE)
    made = {name: getattr(its, name) for name in names if name not in left_out}
    return {name: site.redact(value) if name in _HIDDEN else _finite(value) for name, value in made.items()}


def _finite(value: Any) -> Any:
    return None if isinstance(value, datetime) and value.year > 9000 else value


# Writes


def _writes(site: Site) -> Operations:
    api = Operations()

    @api.post("/jobs", "Enqueues a job", body=_NEW_JOB, status=201)
    async def create(request: Request) -> Any:
        fields = dict(request.state.body)
        data, delay = fields.pop("data", {}), fields.pop("delay", None)
        refuse_hidden_parts(data)
        made = {**new_job(_texts(fields)), "data": data, "delay": delay}
        job = await job_list.add(site, request, made)
        return {"id": job.id, "created": job.created}

    @api.post(
        "/jobs/{id}/{verb}",
        "Changes a job",
        _ID,
        _verb(APPLIES_TO),
        body=_object(reason=TEXT, priority=_INT32, run_at=_RUN_AT),
    )
    async def act(request: Request) -> Any:
        job_id, verb = request.path_params["id"], request.path_params["verb"]
        if verb in APPLIES_TO:
            refuse_unknown(request.state.body, _FIELDS.get(verb, ()), f"POST /jobs/{{id}}/{verb}")
        changed = await job_pages.change(site, request, verb, job_id, _texts(request.state.body))
        return {"changed": changed, "because": None if changed else WHY_UNCHANGED[verb]}

    @api.post(
        "/types/{verb}",
        "Pauses or resumes a type",
        _verb(("pause", "resume")),
        body=_object("type", type=_JOB_TYPE, because=TEXT),
    )
    async def pause(request: Request) -> Any:
        fields = request.state.body
        verb, job_type = request.path_params["verb"], options.job_type(fields["type"])
        changed = await type_pages.change(site, request, verb, job_type, fields.get("because"))
        return {"changed": changed}

    @api.post(
        "/workflows/{id}/{verb}",
        "Cancels a workflow, or runs again what broke, or one node of it and all that depends on it",
        _ID,
        _verb(flow_pages.ACTIONS),
        body=_object(reason=TEXT, node=TEXT),
    )
    async def act_on_workflow(request: Request) -> Any:
        fields = _texts(request.state.body)
        verb, workflow_id = request.path_params["verb"], request.path_params["id"]
        return {"changed": await flow_pages.change(site, request, verb, workflow_id, fields)}

    @api.post(
        "/signals",
        "Sends a signal: how many jobs it woke, or whether it is kept",
        body=_object("name", name=TEXT, key=TEXT, data={}),
    )
    async def signal(request: Request) -> Any:
        name, key, data = (request.state.body.get(each) for each in ("name", "key", "data"))
        refuse_hidden_parts(data)
        return (await signal_pages.sending(site, request, name, data, key))._asdict()

    return api


async def _body(request: Request) -> dict[str, Any]:
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise Refusal(415, "send JSON: application/json")
    try:
        found = json.loads(await request.body() or b"{}")
    except (ValueError, RecursionError):
        raise Refusal(400, "the body is not JSON") from None
    if not isinstance(found, dict):
        raise Refusal(400, "the body is not a JSON object")
    return found


def _texts(fields: Mapping[str, Any]) -> dict[str, str]:
    """The fields as those of a form."""
    return {name: str(value) for name, value in fields.items() if value is not None}


def _integer(written: str, name: str, least: int, most: int) -> int:
    if not written.isdecimal() or len(written) > 19:
        raise InvalidOption(f"{name} is {written[:40]!r}, which is not a whole number")
    return options.integer(int(written), name, least=least, most=most)
