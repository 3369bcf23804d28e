"""The types of jobs: how many are where, how fast they are, and whether they are paused."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from howdah.db.plan import Plan
from howdah.errors import InvalidOption
from howdah.model.worker_info import Throughput, WorkerInfo
from howdah.verbs import operate
from howdah.web import metrics
from howdah.web.site import Site


def routes(site: Site) -> list[BaseRoute]:
    async def types(request: Request) -> Response:
        counts = await site.counts(request)
        workers = await site.workers(request)
        limits = await site.limits(request)
        measured = await metrics.by_type(site, request, metrics.HOUR)
        live = [worker for worker in workers if worker.alive]
        rows = [
            {
                "counts": each,
                "measured": measured.get(each.job_type),
                "workers": sum(each.job_type in (worker.job_types or ()) for worker in live),
                "throughput": joint(each.job_type, live),
                "limits": [limit for limit in limits if limit.job_type == each.job_type and limit.flow_key is None],
            }
            for each in counts.types
        ]
        return site.render(request, "types.html", now=counts.at, rows=rows)

    async def act(request: Request) -> Response:
        fields = dict(await site.form(request))
        because = fields.get("because", "").strip() or None
        await change(site, request, request.path_params["verb"], fields.get("type", ""), because)
        return site.back(request, fields.get("back", ""), "types")

    return [
        Route("/types", site.page(types)),
        Route("/types/{verb}", site.page(act), methods=["POST"]),
    ]


async def change(site: Site, request: Request, verb: str, job_type: str, because: str | None) -> bool:
    """Pauses or resumes a type, with an entry in the audit. False: it was so before."""
    return await site.perform(
        request,
        f"{verb} type",
        {"type": job_type} | ({"because": because} if because else {}),
        _act(site, verb, job_type, because),
        lambda changed: (None, None if changed else f"it was {verb}d before"),
    )


def _act(site: Site, verb: str, job_type: str, because: str | None) -> Plan[bool]:
    if verb == "pause":
        return operate.pause(site.context, job_type, because)
    if verb == "resume":
        return operate.resume(site.context, job_type)
    raise InvalidOption(f"{verb!r} is not an action on a type: they are pause and resume")


def joint(job_type: str, workers: Sequence[WorkerInfo]) -> Throughput | None:
    """The throughput of several workers together; in the means, a worker weighs by its number of jobs."""
    known = [worker.throughput[job_type] for worker in workers if job_type in worker.throughput]
    total = sum(each.per_second for each in known)
    if not known:
        return None
    shares = [each.per_second / total if total else 1 / len(known) for each in known]
    run = sum(each.run * share for each, share in zip(known, shares, strict=True))
    wait = sum(each.wait * share for each, share in zip(known, shares, strict=True))
    return Throughput(total, run, wait)
