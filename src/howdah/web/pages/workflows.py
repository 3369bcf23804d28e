"""The workflows: a list of them, and a page for one, with its graph and a table of its nodes."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from howdah.checks import options
from howdah.db.plan import Plan
from howdah.errors import InvalidOption, JobNotChanged
from howdah.model.workflow import WORKFLOW_STATUSES, Workflow, WorkflowStatus
from howdah.verbs import workflows as verbs
from howdah.web import graph, plans
from howdah.web.site import Site

ACTIONS: Final = ("cancel", "retry")


def routes(site: Site) -> list[BaseRoute]:
    async def workflows(request: Request) -> Response:
        given = request.query_params
        name, status, before = asked(given)
        page = await site.shared(
            request,
            ("workflows", name, status, before),
            lambda: plans.workflows(site.context, name, status, before),
        )
        wanted = {key: value for key, value in (("name", name), ("status", status)) if value}
        return site.render(
            request,
            "workflows.html",
            page=page,
            wanted=wanted,
            tabs=("", *WORKFLOW_STATUSES),
            before=before,
            window=plans.WINDOW,
            query=lambda **changed: urlencode({k: v for k, v in {**wanted, **changed}.items() if v}),
        )

    async def workflow(request: Request) -> Response:
        return await page(request, options.job_id(request.path_params["id"]), None, 200)

    async def page(request: Request, workflow_id: uuid.UUID, problem: str | None, status: int) -> Response:
        after = request.query_params.get("after", "")
        number = int(after) if after.isdecimal() and len(after) < 10 else 0
        state, drawing = await site.shared(
            request, ("workflow", workflow_id, number), lambda: drawn(site, workflow_id, number)
        )
        its, known = state.workflow, {node.number: node for node in state.nodes}
        return site.render(
            request,
            "workflow.html",
            status,
            now=state.at,
            flow=its,
            state=state,
            graph=graph,
            drawing=drawing,
            known=known,
            after=number,
            problem=problem,
            notice=request.query_params.get("notice", ""),
            jobs_of=lambda node=None: jobs_of(its, node),
            data=None if its.data is None else site.shown(its.data),
            meta=None if not its.meta else site.shown(its.meta),
            ended_in=None if its.finished_at is None else its.finished_at - its.created_at,
        )

    async def act(request: Request) -> Response:
        workflow_id, verb = options.job_id(request.path_params["id"]), request.path_params["verb"]
        fields = dict(await site.form(request))
        try:
            changed = await change(site, request, verb, workflow_id, fields)
        except JobNotChanged as error:
            return await page(request, workflow_id, str(error), 409)
        return site.see(request, f"workflows/{workflow_id}" + ("" if changed else f"?notice={verb}"))

    return [
        Route("/workflows", site.page(workflows)),
        Route("/workflows/{id:uuid}", site.page(workflow)),
        Route("/workflows/{id:uuid}/{verb}", site.page(act), methods=["POST"]),
    ]


def asked(given: Mapping[str, str]) -> tuple[str | None, WorkflowStatus | None, uuid.UUID | None]:
    """The name, the status and the place of a list, out of an address."""
    name, status, before = (given.get(each, "").strip() for each in ("name", "status", "before"))
    if status and status not in WORKFLOW_STATUSES:
        raise InvalidOption(f"{status[:40]!r} is not a status of a workflow: they are {', '.join(WORKFLOW_STATUSES)}")
    return (
        options.name(name, "the name of a workflow", 100) if name else None,
        status or None,
        options.job_id(before) if before else None,
    )


def drawn(site: Site, workflow_id: uuid.UUID, after: int) -> Plan[tuple[plans.FlowState, graph.Drawing]]:
    """A workflow with its drawing: both are shared, because a drawing costs more than the read."""
    state = yield from plans.workflow(site.context, workflow_id, after)
    return state, graph.drawing(state.nodes)


async def change(site: Site, request: Request, verb: str, workflow_id: uuid.UUID, fields: Mapping[str, str]) -> int:
    """An action on a workflow, with its entry in the audit. Returns how much it changed; 0: nothing."""
    node, reason = fields.get("node") or None, fields.get("reason", "").strip() or None
    target = {"workflow": str(workflow_id), "node": node, "reason": reason}
    return await site.perform(
        request,
        f"{verb} workflow",
        {name: value for name, value in target.items() if value is not None},
        _act(site, verb, workflow_id, node, reason),
        lambda changed: (None, _outcome(verb, changed)),
    )


def _act(site: Site, verb: str, workflow_id: uuid.UUID, node: str | None, reason: str | None) -> Plan[int]:
    context = site.context
    if verb == "cancel":
        return int((yield from verbs.cancel(context, workflow_id, reason)))
    if verb == "retry":
        return (yield from verbs.retry(context, workflow_id, node))
    raise InvalidOption(f"{verb!r} is not an action on a workflow: they are {' and '.join(ACTIONS)}")


def _outcome(verb: str, changed: int) -> str:
    if verb == "cancel":
        return "cancelled" if changed else "not changed: it has ended, or was cancelled before"
    return f"{changed:,} nodes run again" if changed else "not changed: no node has failed"


def jobs_of(flow: Workflow, node: graph.FlowNode | None) -> str:
    """The page with the jobs of a workflow, or of one of its nodes: of one job, its own page."""
    if node is not None and node.kind == "job" and node.total < 2 and node.first_id is not None:
        return f"jobs/{node.first_id}"
    wanted: dict[str, Any] = {"workflow": flow.id} | ({} if node is None else {"node": node.name})
    return f"jobs?{urlencode(wanted)}"
