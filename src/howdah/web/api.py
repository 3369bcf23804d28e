"""The same data as JSON, under /api/v1, with its OpenAPI description."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Awaitable, Callable, Mapping
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
from howdah.web.openapi import TEXT, Operation, description_of
from howdah.web.pages import signals as signal_pages
from howdah.web.pages import workflows as flow_pages
from howdah.web.pages.audit import PAGE as AUDIT_PAGE
from howdah.web.pages.health import examination, freshness
from howdah.web.pages.job import job_action, outcome_of
from howdah.web.pages.jobs import refuse_hidden
from howdah.web.pages.types import type_action
from howdah.web.runs import APPLIES_TO, WHY_UNCHANGED
from howdah.web.site import Site, described

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
            value = await operation.answer(request)
        except Refusal as refusal:
            return _problem(refusal.status, str(refusal))
        except (HowdahError, psycopg.Error, TimeoutError) as error:
            found = described(error)
            return _problem(found.status, found.text)
        return Response(encoded(value), operation.status, media_type="application/json")

    return functools.wraps(operation.answer)(answer)


def _problem(status: int, text: str) -> Response:
    return Response(json.dumps({"error": text}), status, media_type="application/json")


# Reads


def _reads(site: Site) -> list[Operation]:
    context = site.context

    async def counts(request: Request) -> Any:
        found = await site.counts(request)
        return {"at": found.at, "types": [dataclasses.asdict(each) for each in found.types]}

    async def jobs(request: Request) -> Any:
        given = request.query_params
        wanted = filters.filter_of(given.multi_items())
        refuse_hidden(site, wanted)
        limit = _integer(given.get("limit", "50"), "limit", 1, _MOST_LIMIT)
        before = options.job_id(given["before"]) if given.get("before") else None
        page = await site.read(request, plans.jobs(context, wanted, before, limit=limit))
        return {
            "jobs": [shown_job(site, job, whole=False) for job in page],
            "next": page.next,
            "complete": page.complete,
        }

    async def job(request: Request) -> Any:
        return shown_job(site, await site.read(request, operate.get(context, request.path_params["id"])))

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

    async def position(request: Request) -> Any:
        return await site.read(request, operate.queue_position(context, request.path_params["id"]))

    async def workers(request: Request) -> Any:
        return {"workers": await site.workers(request)}

    async def workflows(request: Request) -> Any:
        given = request.query_params
        name, status, before = flow_pages.asked(given)
        limit = _integer(given.get("limit", "50"), "limit", 1, _MOST_LIMIT)
        page = await site.read(request, plans.workflows(context, name, status, before, limit=limit))
        return {
            "workflows": [shown_workflow(site, each, whole=False) for each in page.workflows],
            "next": page.next,
            "complete": page.complete,
        }

    async def workflow(request: Request) -> Any:
        after = _integer(request.query_params.get("after", "0"), "after", 0, 2**31 - 1)
        state = await site.read(request, plans.workflow(context, request.path_params["id"], after))
        nodes = [dataclasses.asdict(each) for each in state.nodes]
        return {**shown_workflow(site, state.workflow), "nodes": nodes, "next": state.next}

    async def signals(request: Request) -> Any:
        name, skip = signal_pages.asked(request.query_params)
        return {"signals": await site.read(request, plans.signals(name, signal_pages.PAGE, skip))}

    async def schedules(request: Request) -> Any:
        found = await site.schedules(request)
        return {"schedules": [{**dataclasses.asdict(each), "data": site.redact(each.data)} for each in found]}

    async def limits(request: Request) -> Any:
        return {"limits": await site.limits(request)}

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

    async def health(_: Request) -> Any:
        found = await examination(site, freshness(site))
        return {"healthy": found.healthy, "findings": list(found), "unseen": found.unseen}

    async def audit(request: Request) -> Any:
        given = request.query_params.get("before")
        before = None if not given else _integer(given, "before", 1, 2**63 - 1)
        found = await site.read(request, plans.audit(before, AUDIT_PAGE))
        return {"entries": [site.audited(row) for row in found]}

    wanted = tuple(_query(name, _described_filter(name)) for name in filters.NAMES)
    paging = (
        _query("before", {"type": "string", "format": "uuid"}),
        _query("limit", {"type": "integer", "minimum": 1, "maximum": _MOST_LIMIT}),
    )
    return [
        Operation("GET", "/counts", "How many jobs of each type are where", counts),
        Operation("GET", "/jobs", "A page of jobs, the newest first, without large fields", jobs, wanted + paging),
        Operation("GET", "/jobs/{id}", "A job", job, (_ID,)),
        Operation(
            "GET",
            "/jobs/{id}/events",
            "Events and log lines of a job, in order",
            events,
            (
                _ID,
                _query("after", {"type": "integer", "minimum": 0}),
                _query("limit", {"type": "integer", "minimum": 1, "maximum": _MOST_EVENTS}),
                _query("kind", {"type": "array", "items": {"type": "string", "enum": list(EVENT_KINDS)}}),
            ),
        ),
        Operation(
            "GET",
            "/jobs/{id}/position",
            "Where a pending job stands; null if it is not pending",
            position,
            (_ID,),
            result={},
        ),
        Operation(
            "GET",
            "/workflows",
            "A page of workflows, the newest first, without large fields",
            workflows,
            (_query("name", TEXT), _query("status", {"type": "string", "enum": list(WORKFLOW_STATUSES)}), *paging),
        ),
        Operation(
            "GET",
            "/workflows/{id}",
            "A workflow, with 500 of its nodes",
            workflow,
            (_ID, _query("after", {"type": "integer", "minimum": 0, "maximum": 2**31 - 1})),
        ),
        Operation(
            "GET",
            "/signals",
            "Which signals jobs wait for, and which are kept",
            signals,
            (_query("of", TEXT), _query("skip", {"type": "integer", "minimum": 0, "maximum": 100_000})),
        ),
        Operation("GET", "/workers", "The workers", workers),
        Operation("GET", "/schedules", "The schedules", schedules),
        Operation("GET", "/limits", "Limits, rates, weights, and bounds on waiting jobs", limits),
        Operation(
            "GET",
            "/history",
            "Figures of the past, slot by slot",
            history,
            (_query("span", {"type": "string", "enum": [each.name for each in metrics.SPANS]}),),
        ),
        Operation("GET", "/health", "What the doctor finds", health),
        Operation(
            "GET",
            "/audit",
            "What was done in the dashboard",
            audit,
            (_query("before", {"type": "integer", "minimum": 1}),),
        ),
    ]


def shown_job(site: Site, job: Job[Any], *, whole: bool = True) -> dict[str, Any]:
    """A job as the API has it."""
    left_out = {"lease", "created", "conflict"}
    large = {"data", "result", "resumed", "errors", "meta"}
    made = {
        field.name: getattr(job, field.name)
        for field in dataclasses.fields(job)
        if field.name not in left_out and not field.name.startswith("_") and (whole or field.name not in large)
    }
    for name in ("data", "result", "resumed", "meta"):
        if name in made:
            made[name] = site.redact(made[name])
    return {name: _finite(value) for name, value in made.items()}


def shown_workflow(site: Site, workflow: Workflow, *, whole: bool = True) -> dict[str, Any]:
    """A workflow as the API has it."""
    made = {
        field.name: getattr(workflow, field.name)
        for field in dataclasses.fields(workflow)
        if whole or field.name not in ("data", "meta")
    }
    for name in ("data", "meta"):
        if name in made:
            made[name] = site.redact(made[name])
    return made


def _finite(value: Any) -> Any:
    return None if isinstance(value, datetime) and value.year > 9000 else value


# Writes


def _writes(site: Site) -> list[Operation]:
    async def create(request: Request) -> Any:
        fields = await _body(request)
        data = fields.pop("data", {})
        written = {name: str(value) for name, value in fields.items() if value is not None}
        made = new_job(written)
        made["data"] = data
        job = await site.queue.aenqueue(made.pop("job_type"), made.pop("data"), **made)
        await site.done(request, "create", {"job": str(job.id), "type": job.job_type}, int(job.created))
        return {"id": job.id, "created": job.created}

    async def act(request: Request) -> Any:
        job_id, verb = request.path_params["id"], request.path_params["verb"]
        fields = {name: str(value) for name, value in (await _body(request)).items() if value is not None}
        plan = job_action(site, verb, job_id, fields)
        changed = await site.perform(request, verb, {"job": str(job_id)}, plan, outcome_of(verb))
        return {"changed": changed, "because": None if changed else WHY_UNCHANGED[verb]}

    async def pause(request: Request) -> Any:
        fields = await _body(request)
        verb, job_type = request.path_params["verb"], options.job_type(fields.get("type"))
        because = fields.get("because")
        plan = type_action(site, verb, job_type, None if because is None else str(because))
        changed = await site.perform(request, f"{verb} type", {"type": job_type}, plan, lambda _: (None, None))
        return {"changed": changed}

    async def act_on_workflow(request: Request) -> Any:
        fields = {name: str(value) for name, value in (await _body(request)).items() if value is not None}
        verb, workflow_id = request.path_params["verb"], request.path_params["id"]
        return {"changed": await flow_pages.change(site, request, verb, workflow_id, fields)}

    async def signal(request: Request) -> Any:
        fields = await _body(request)
        name, key, data = (fields.get(each) for each in ("name", "key", "data"))
        refuse_hidden_parts(data)
        return (await signal_pages.sending(site, request, str(name or ""), data, key))._asdict()

    job_body = _body_of(
        {
            "type": {"type": "string", "minLength": 1, "maxLength": 50},
            "data": {},
            "priority": _INT32,
            "max_attempts": _INT32,
            "key": TEXT,
            "run_at": TEXT,
        },
        ["type"],
    )
    verb = {"name": "verb", "in": "path", "required": True}
    return [
        Operation("POST", "/jobs", "Enqueues a job", create, body=job_body, status=201),
        Operation(
            "POST",
            "/jobs/{id}/{verb}",
            "Changes a job",
            act,
            (_ID, verb | {"schema": {"type": "string", "enum": list(APPLIES_TO)}}),
            _body_of({"reason": TEXT, "priority": _INT32, "run_at": TEXT}, []),
        ),
        Operation(
            "POST",
            "/workflows/{id}/{verb}",
            "Cancels a workflow, or runs again what broke, or one node of it and all that depends on it",
            act_on_workflow,
            (_ID, verb | {"schema": {"type": "string", "enum": list(flow_pages.ACTIONS)}}),
            _body_of({"reason": TEXT, "node": TEXT}, []),
        ),
        Operation(
            "POST",
            "/signals",
            "Sends a signal: how many jobs it woke, or whether it is kept",
            signal,
            body=_body_of({"name": TEXT, "key": TEXT, "data": {}}, ["name"]),
        ),
        Operation(
            "POST",
            "/types/{verb}",
            "Pauses or resumes a type",
            pause,
            (verb | {"schema": {"type": "string", "enum": ["pause", "resume"]}},),
            _body_of({"type": {"type": "string", "minLength": 1, "maxLength": 50}, "because": TEXT}, ["type"]),
        ),
    ]


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


def _integer(written: str, name: str, least: int, most: int) -> int:
    if not written.isdecimal() or len(written) > 19:
        raise InvalidOption(f"{name} is {written[:40]!r}, which is not a whole number")
    return options.integer(int(written), name, least=least, most=most)


# Its parts of the description

_ID: Final = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "format": "uuid"}}
_INT32: Final = {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1}


def _query(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": dict(schema)}


def _described_filter(name: str) -> dict[str, Any]:
    if name == "status":
        return {"type": "array", "items": {"type": "string", "enum": list(STATUSES)}}
    if name == "type":
        return {"type": "array", "items": TEXT}
    return {"type": "string", "enum": list(filters.STATES)} if name == "state" else dict(TEXT)


def _body_of(properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    return (
        {"type": "object", "properties": dict(properties), "required": required}
        if required
        else {"type": "object", "properties": dict(properties)}
    )
