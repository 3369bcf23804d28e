"""The list of jobs, with its filter in the address; and the form for a new job."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from howdah.checks import options
from howdah.errors import InvalidOption
from howdah.verbs import operate
from howdah.web import filters, plans, tree
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
        visitor = site.visitor(request)
        given = request.query_params.multi_items()
        searched = dict(given).get("path", "")
        if found := _id_in(searched):
            return site.see(request, f"jobs/{found}")
        wanted = filters.filter_of(given)
        refuse_hidden(site, wanted)
        position = request.query_params.get("before")
        before = options.job_id(position) if position else None
        context = site.queue._context
        counts = await site.data.shared(visitor, "counts", plans.counts)
        page = await site.data.shared(visitor, ("jobs", wanted, before), lambda: plans.jobs(context, wanted, before))
        return site.render(
            request,
            "jobs.html",
            now=counts.at,
            page=page,
            wanted=wanted,
            before=before,
            chips=filters.described_in_words(wanted),
            types=[each.job_type for each in counts.types],
            statuses=filters.ALL_STATUSES,
            tabs=_tabs(counts, wanted),
            searches_data=not site.redacted,
            window=plans.WINDOW,
            verbs=[
                verb for verb, applies in APPLIES_TO.items() if not wanted.status or set(wanted.status) & set(applies)
            ],
        )

    async def new(request: Request) -> Response:
        visitor = site.visitor(request)
        counts = await site.data.shared(visitor, "counts", plans.counts)
        values: dict[str, Any] = {"type": request.query_params.get("type", ""), "data": "{}"}
        if source := request.query_params.get("like"):
            values = _values_of(site, await site.data.read(visitor, operate.get(site.queue._context, source)))
        return site.render(
            request, "new_job.html", types=[each.job_type for each in counts.types], values=values, problem=None
        )

    async def create(request: Request) -> Response:
        fields = dict(await site.form(request))
        try:
            enqueue = parsed_job(fields)
            job = await site.queue.aenqueue(enqueue.pop("job_type"), enqueue.pop("data"), **enqueue)
        except (InvalidOption, ValueError) as error:
            counts = await site.data.shared(site.visitor(request), "counts", plans.counts)
            types = [each.job_type for each in counts.types]
            return site.render(request, "new_job.html", 400, types=types, values=fields, problem=str(error))
        said = "created" if job.created else f"there was one already, which was {job.conflict or 'kept'}"
        await site.done(request, "create", {"job": str(job.id), "type": job.job_type}, int(job.created), said)
        return site.see(request, f"jobs/{job.id}")

    return [
        Route("/jobs", site.page(jobs)),
        Route("/jobs", site.page(create), methods=["POST"]),
        Route("/jobs/new", site.page(new)),
    ]


def refuse_hidden(site: Site, wanted: Filter) -> None:
    """A search would find out what is redacted, question by question."""
    if site.redacted and wanted.path:
        raise InvalidOption("jobs cannot be searched by arguments here, because parts of these are redacted")


def refuse_hidden_parts(data: Any) -> None:
    """A form has what its page shows."""
    if not tree.is_whole(data):
        raise InvalidOption("a part of these arguments is hidden here: write it in full")


def parsed_job(fields: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of ``enqueue`` in a form. Raises InvalidOption."""
    made: dict[str, Any] = {"job_type": options.job_type(fields.get("type", "").strip())}
    try:
        made["data"] = json.loads(fields.get("data") or "{}", parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidOption(f"the arguments are not JSON: {error}") from None
    refuse_hidden_parts(made["data"])
    for name in ("priority", "max_attempts"):
        if written := fields.get(name, "").strip():
            if not written.lstrip("-").isdecimal() or len(written) > 11:
                raise InvalidOption(f"{name} is {written!r}, which is not a whole number")
            made[name] = int(written)
    if written := fields.get("run_at", "").strip():
        made["run_at"] = filters.moment(written, "run_at", datetime.now(timezone.utc))
    if written := fields.get("key", "").strip():
        made["key"] = written
    return made


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _id_in(text: str) -> uuid.UUID | None:
    """The search field takes an id, too."""
    try:
        return uuid.UUID(text.strip())
    except ValueError:
        return None


def _values_of(site: Site, job: Any) -> dict[str, Any]:
    data = site.redact(job.data)
    return {
        "type": job.job_type,
        "data": json.dumps(data, indent=2, ensure_ascii=False, default=str),
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
