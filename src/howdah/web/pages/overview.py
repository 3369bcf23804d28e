"""The overview: what the queue does now, and what needs attention first."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from howdah.doctor.finding import Diagnosis
from howdah.model.worker_info import WorkerInfo
from howdah.web import metrics, plans, words
from howdah.web.charts import charts_of
from howdah.web.metrics import SPANS, span_of
from howdah.web.pages.health import diagnosis
from howdah.web.plans import Counts
from howdah.web.site import Site

_RUNNING = 12
_SLOW_LOOP = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class Attention:
    """Something to look at. ``path`` is the page that shows it."""

    severity: str
    text: str
    path: str


def routes(site: Site) -> list[BaseRoute]:
    async def overview(request: Request) -> Response:
        counts = await site.counts(request)
        workers = await site.workers(request)
        running = await site.shared(request, "running", lambda: plans.running(site.context, _RUNNING))
        span = span_of(request.query_params.get("span", ""))
        slots = await metrics.by_slot(site, request, span)
        found = await diagnosis(site)
        return site.render(
            request,
            "overview.html",
            now=counts.at,
            counts=counts,
            workers=workers,
            live_workers=[worker for worker in workers if worker.alive],
            running=running,
            attention=list(attention(counts, workers, found)),
            spans=SPANS,
            span=span,
            charts=charts_of(slots, span),
        )

    return [Route("/", site.page(overview))]


def attention(counts: Counts, workers: Sequence[WorkerInfo], found: Diagnosis | None) -> Iterator[Attention]:
    """What needs a look, the worst first."""
    made = [*_of_types(counts, workers), *_of_workers(workers), *_of_findings(found)]
    order = {"error": 0, "warning": 1, "notice": 2}
    yield from sorted(made, key=lambda each: order[each.severity])


def _of_types(counts: Counts, workers: Sequence[WorkerInfo]) -> Iterator[Attention]:
    handled = {name for worker in workers if worker.alive for name in worker.job_types or ()}
    for each in counts.types:
        name = each.job_type
        if each.due and name not in handled and not each.paused:
            yield Attention(
                "error",
                f"{each.due:,} jobs of {name} wait, and no live worker handles them"
                if each.due != 1
                else f"1 job of {name} waits, and no live worker handles it",
                jobs(type=name),
            )
        if each.stalled:
            yield Attention(
                "error",
                f"{each.stalled:,} running jobs of {name} have stopped reporting"
                if each.stalled != 1
                else f"1 running job of {name} has stopped reporting",
                jobs(type=name, state="stalled"),
            )
        failed, ended = each.today.get("failed", 0), sum(each.today.values())
        if failed and failed >= 0.1 * ended:
            yield Attention(
                "warning",
                f"{words.percent(failed, ended)} of the jobs of {name} that ended today have failed",
                jobs(type=name, status="failed"),
            )
        if each.paused:
            because = f": {each.paused_because}" if each.paused_because else ""
            yield Attention("notice", f"{name} is paused{because}", "types")


def jobs(**wanted: str) -> str:
    """The list of jobs with this filter."""
    return f"jobs?{urlencode(wanted)}"


def _of_workers(workers: Sequence[WorkerInfo]) -> Iterator[Attention]:
    if workers and not any(worker.alive for worker in workers):
        yield Attention("error", "No worker is alive", "workers")
    for worker in workers:
        if not worker.alive:
            yield Attention(
                "warning",
                f"The worker {worker.worker_id} sends no heartbeat since {words.duration(worker.age)}",
                "workers",
            )
        elif worker.loop_lag is not None and worker.loop_lag.total_seconds() > _SLOW_LOOP:
            lag = words.duration(worker.loop_lag)
            yield Attention(
                "warning", f"The event loop of {worker.worker_id} is {lag} late: a handler blocks it", "workers"
            )


def _of_findings(found: Diagnosis | None) -> Iterator[Attention]:
    # Those of types and workers are above already, in fewer words.
    ours = ("type-unhandled", "type-paused", "type-failing", "worker-dead", "loop-blocked")
    for finding in found or ():
        if finding.code not in ours:
            yield Attention(finding.severity, finding.what, "health")
