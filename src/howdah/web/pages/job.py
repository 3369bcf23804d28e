"""One job: where it stands, what happened to it, and what can be done with it."""

from __future__ import annotations

import dataclasses
import json
import shlex
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from howdah.checks import options
from howdah.db.plan import Plan
from howdah.errors import InvalidOption
from howdah.model.event import Event
from howdah.model.job import Job, moment_in
from howdah.model.results import QueuePosition
from howdah.model.step import Step as JobStep
from howdah.verbs import events as event_verbs
from howdah.verbs import operate, signals
from howdah.web import graph, plans, tree, words
from howdah.web.charts import progress_plot
from howdah.web.fields import moment, whole
from howdah.web.plans import FlowPlace
from howdah.web.runs import DONE, WHY_UNCHANGED
from howdah.web.site import Site

_MOST_EVENTS: Final = 200


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    job: Job[Any]
    place: QueuePosition | None
    events: Sequence[Event]
    flow: FlowPlace | None
    steps: Sequence[JobStep]
    now: datetime


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """An entry of the timeline."""

    at: datetime | None
    mark: str
    title: str
    text: str = ""
    detail: str = ""


def routes(site: Site) -> list[BaseRoute]:
    async def job(request: Request) -> Response:
        job_id = options.job_id(request.path_params["id"])
        known = await site.shared(request, ("job", job_id), lambda: _known(site, job_id))
        its = known.job
        host = f"{request.url.scheme}://{request.url.netloc}{request.scope.get('root_path', '')}"
        return site.render(
            request,
            "job.html",
            now=known.now,
            job=its,
            place=words.waiting(its, known.place, known.now, waits_for(known.flow)) if its.status == "pending" else "",
            flow=known.flow,
            its_steps=known.steps,
            waited=waited(known.steps),
            redact=site.redact,
            steps=list(timeline(its)),
            events=[each for each in known.events if each.kind != "log"],
            logs=[each for each in known.events if each.kind == "log"],
            most_events=_MOST_EVENTS,
            data=site.shown(its.data),
            result=None if its.result is None else site.shown(its.result),
            resumed=None if its.resumed is None else site.shown(its.resumed),
            meta=None if not its.meta else site.shown(its.meta),
            event_text=lambda event: event_text(site, event),
            plot=progress_plot(its),
            copies=copies(site, its, host),
            notice=request.query_params.get("notice", ""),
        )

    async def act(request: Request) -> Response:
        job_id, verb = options.job_id(request.path_params["id"]), request.path_params["verb"]
        fields = dict(await site.form(request))
        changed = await change(site, request, verb, job_id, fields)
        if verb == "delete" and changed:
            return site.see(request, "jobs")
        if not changed:
            return site.see(request, f"jobs/{job_id}?notice={verb}")
        return site.see(request, f"jobs/{job_id}")

    return [Route("/jobs/{id:uuid}", site.page(job)), Route("/jobs/{id:uuid}/{verb}", site.page(act), methods=["POST"])]


def _known(site: Site, job_id: uuid.UUID) -> Plan[Known]:
    context = site.context
    job = yield from operate.get(context, job_id)
    place = None
    if job.status == "pending":
        place = yield from operate.queue_position(context, job_id)
    events = yield from event_verbs.events(context, job_id, last=_MOST_EVENTS)
    flow = yield from plans.place_in_workflow(context, job)
    steps = yield from signals.steps(context, job_id)
    return Known(job, place, events, flow, steps, datetime.now(timezone.utc))


def waits_for(flow: FlowPlace | None) -> list[str]:
    """The nodes of its workflow that a job waits for."""
    if flow is None or flow.node is None:
        return []
    return graph.waits_for(flow.node, {parent.number: parent for parent in flow.parents})


def waited(steps: Sequence[JobStep]) -> JobStep | None:
    """The signal that a job waits for."""
    return next((step for step in steps if step.kind == "signal" and step.state == "waiting"), None)


async def change(site: Site, request: Request, verb: str, job_id: uuid.UUID, fields: Mapping[str, str]) -> bool:
    """An action on one job, with its entry in the audit. False: it changed nothing."""
    given = {name: fields[name] for name in ("priority", "run_at", "reason") if fields.get(name)}
    return await site.perform(
        request,
        verb,
        {"job": str(job_id), **given},
        _act(site, verb, job_id, fields),
        lambda changed: (int(changed), DONE[verb] if changed else f"not changed: {WHY_UNCHANGED[verb]}"),
    )


def _act(site: Site, verb: str, job_id: uuid.UUID, fields: Mapping[str, str]) -> Plan[bool]:
    context = site.context
    match verb:
        case "retry":
            return operate.retry(context, job_id)
        case "cancel":
            return operate.cancel(context, job_id, fields.get("reason") or None)
        case "delete":
            return operate.delete(context, job_id)
        case "reprioritise":
            number = whole(fields.get("priority", ""), "priority")
            return operate.reprioritise(context, job_id, number)
        case "reschedule":
            run_at = moment(fields.get("run_at", "").strip(), "run_at", datetime.now(timezone.utc), ahead=True)
            return operate.reschedule(context, job_id, run_at=run_at)
    raise InvalidOption(f"{verb!r} is not an action on a job")


def timeline(job: Job[Any]) -> Iterator[Step]:
    """What happened to the job, in order."""
    yield Step(job.created_at, "○", "Created")
    if job.first_due_at is not None and job.first_due_at > job.created_at:
        yield Step(job.first_due_at, "◷", "Due")
    for error in job.errors:
        lasted = "" if error.started_at is None else f"after {words.duration(error.at - error.started_at)}"
        holder = f" on {error.worker}" if error.worker else ""
        yield Step(
            error.at,
            "✕",
            f"Attempt {error.attempt} {error.kind} {lasted}{holder}".strip(),
            words.first_line(error.error, 300),
            error.traceback or "",
        )
    if not job.ended and job.started_at is not None and job.status == "running":
        yield Step(job.started_at, "▶", f"Attempt {job.attempts} of {job.max_attempts} runs on {job.worker_id}")
    if job.cancel_requested_at is not None:
        yield Step(job.cancel_requested_at, "◼", "Asked to stop")
    if job.finished_at is not None:
        ran = (
            f" after {words.duration(job.finished_at - job.started_at)}"
            if job.started_at and job.status == "completed"
            else ""
        )
        on = f" on {job.worker_id}" if job.worker_id and job.status == "completed" else ""
        said = words.first_line(job.last_error, 300) if job.status == "cancelled" else ""
        yield Step(job.finished_at, words.MARKS[job.status], f"{job.status.capitalize()}{ran}{on}", said)
    elif job.status == "pending" and job.attempts and not words.is_endless(job.run_at):
        yield Step(job.run_at, "◷", f"Attempt {job.attempts + 1} of {job.max_attempts} is due")


def event_text(site: Site, event: Event) -> str:
    """An event in one line."""
    data = event.data
    if event.kind == "log" and isinstance(data, dict) and "message" in data:
        return f"{data['logger']}: {data['message']}" if data.get("logger") else str(data["message"])
    if data is None or data == {}:
        return ""
    if event.kind == "status" and isinstance(data, dict):
        return ", ".join(_status_parts(event.name, data, event.at))
    return words.compact(site.redact(data), 400)


def _status_parts(name: str, data: Mapping[str, Any], at: datetime) -> Iterator[str]:
    """The end of an attempt: why, the error, and when the next one is due."""
    if data.get("cause") not in (None, name):
        yield str(data["cause"])
    if data.get("error"):
        yield words.first_line(str(data["error"]), 300)
    if name == "pending" and (due := moment_in(data.get("run_at"))) is not None:
        yield f"again in {words.duration(max(due - at, timedelta()))}"
    if data.get("worker"):
        yield f"on {data['worker']}"


def copies(site: Site, job: Job[Any], host: str) -> list[tuple[str, str]]:
    """The job as calls that enqueue one like it. None if a part of its arguments is hidden: they would store the mark in its place."""
    if not tree.is_whole(site.redact(job.data)):
        return []
    text = json.dumps(site.redact(job.data), ensure_ascii=False, default=str)
    written = repr(site.redact(job.data))
    options_text = f", priority={job.priority}, max_attempts={job.max_attempts}"
    python = f"queue.enqueue({job.job_type!r}, {written}{options_text})"
    function = f'"{site.queue.schema}".enqueue'
    sql = (
        f"SELECT * FROM {function}(p_job_type => {_literal(job.job_type)}, p_data => {_literal(text)},"
        f" p_priority => {job.priority}, p_max_attempts => {job.max_attempts});"
    )
    body = json.dumps(
        {"type": job.job_type, "data": site.redact(job.data), "priority": job.priority}, ensure_ascii=False, default=str
    )
    origin = host.partition("//")[0] + "//" + host.partition("//")[2].partition("/")[0]
    curl = f"curl -X POST -H {shlex.quote(f'Origin: {origin}')} -H 'Content-Type: application/json' --data {shlex.quote(body)} {shlex.quote(f'{host}/api/v1/jobs')}"
    return [("Python", python), ("SQL", sql), ("curl", curl)]


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
