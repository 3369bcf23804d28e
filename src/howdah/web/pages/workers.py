"""The workers, as their last heartbeats described them."""

from __future__ import annotations

from datetime import datetime, timezone

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from howdah.verbs import operate
from howdah.web.site import Site


def routes(site: Site) -> list[BaseRoute]:
    async def workers(request: Request) -> Response:
        context = site.queue._context
        found = await site.data.shared(site.visitor(request), "workers", lambda: operate.workers(context))
        ordered = sorted(found, key=lambda worker: (worker.alive, worker.worker_id))
        versions = {worker.version for worker in found if worker.alive and worker.version}
        return site.render(
            request, "workers.html", now=datetime.now(timezone.utc), workers=ordered, versions=sorted(versions)
        )

    return [Route("/workers", site.page(workers))]
