"""The list of jobs, with its filter in the address; and the form for a new job."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from howdah.checks import options
from howdah.errors import InvalidOption
from howdah.model.job import STATUSES, Job
from howdah.verbs import operate
from howdah.web import filters, plans
from howdah.web.fields import new_job
from howdah.web.filters import Filter
from howdah.web.plans import Counts
from howdah.web.runs import APPLIES_TO
from howdah.web.site import Site

TABS = (
    ("", "All"), ("pending", "Pending"), ("running", "Running"), ("failed", "Failed"), ("completed", "Completed"),
    ("cancelled", "Cancelled"),
)  # fmt: skip


def routes(site: Site) -> list[BaseRoute]:
    async def jobs(request: Request) -> Response:
        given = request.query_params.multi_items()
        searched = dict(given).get("path", "")
        if found := _id_in(searched):
            return site.see(request, f"jobs/{found}")
        wanted = filters.filter_of(given)
        refuse_hidden(site, wanted)
        position = request.query_params.get("before")
        before = options.job_id(position) if position else None
        counts = await site.counts(request)
        page = await site.shared(request, ("jobs", wanted, before), lambda: plans.jobs(site.context, wanted, before))
        return site.render(
            request,
            "jobs.html",
            now=counts.at,
            page=page,
            wanted=wanted,
            before=before,
            chips=filters.described_in_words(wanted),
            types=counts.names,
            statuses=STATUSES,
            tabs=_tabs(counts, wanted),
            searches_data=not site.redacted,
            window=plans.WINDOW,
            verbs=[
                verb for verb, applies in APPLIES_TO.items() if not wanted.status or set(wanted.status) & set(applies)
            ],
        )

    async def new(request: Request) -> Response:
        counts = await site.counts(request)
        values: dict[str, Any] = {"type": request.query_params.get("type", ""), "data": "{}"}
        if source := request.query_params.get("like"):
            values = _values_of(site, await site.read(request, operate.get(site.context, source)))
        return site.render(request, "new_job.html", types=counts.names, values=values, problem=None)

    async def create(request: Request) -> Response:
        fields = dict(await site.form(request))
        try:
            job = await add(site, request, new_job(fields))
        except (InvalidOption, ValueError) as error:
            counts = await site.counts(request)
            return site.render(request, "new_job.html", 400, types=counts.names, values=fields, problem=str(error))
        return site.see(request, f"jobs/{job.id}")

    return [
        Route("/jobs", site.page(jobs)),
        Route("/jobs", site.page(create), methods=["POST"]),
        Route("/jobs/new", site.page(new)),
    ]


async def add(site: Site, request: Request, given: Mapping[str, Any]) -> Job[Any]:
    """Enqueues a job, and enters it in the audit: both or neither."""

    def entry(job: Job[Any]) -> tuple[dict[str, Any], int, str]:
        said = "created" if job.created else f"there was one already, which was {job.conflict or 'kept'}"
        return {"job": str(job.id), "type": job.job_type}, int(job.created), said

    return await site.perform_as_login(request, "create", plans.enqueue(site.context, **given), entry)


def refuse_hidden(site: Site, wanted: Filter) -> None:
    """A search would find out what is redacted, question by question."""
    if site.redacted and wanted.path:
        raise InvalidOption("jobs cannot be searched by arguments here, because parts of these are redacted")


def _id_in(text: str) -> uuid.UUID | None:
    """The search field takes an id, too."""
    try:
        return uuid.UUID(text.strip())
    except ValueError:
        return None


def _values_of(site: Site, job: Any) -> dict[str, Any]:
    return {
        "type": job.job_type,
        "data": site.editable(job.data),
        "priority": job.priority,
        "max_attempts": job.max_attempts,
        "key": "",
        "like": str(job.id),
    }


def _tabs(counts: Counts, wanted: Filter) -> list[dict[str, Any]]:
    """The statuses with their numbers: of the chosen types, if only types are chosen."""
    chosen = [each for each in counts.types if not wanted.type or each.job_type in wanted.type]
    is_exact = all(each.exact for each in chosen)
    made = []
    for status, title in TABS:
        number = None if not status else sum(getattr(each, status) for each in chosen)
        made.append(
            {
                "title": title,
                "query": wanted.query(status=status, state=None),
                "number": number,
                "exact": status != "pending" or is_exact,
                "chosen": wanted.status == ((status,) if status else ()) and not wanted.state,
            }
        )
    return made
