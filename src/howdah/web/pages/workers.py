"""The workers, as their last heartbeats described them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from howdah.web.site import Site


def routes(site: Site) -> list[BaseRoute]:
    async def workers(request: Request) -> Response:
        found = await site.workers(request)
        ordered = sorted(found, key=lambda worker: (worker.alive, worker.worker_id))
        versions = {worker.version for worker in found if worker.alive and worker.version}
        return site.render(request, "workers.html", workers=ordered, versions=sorted(versions))

    return [Route("/workers", site.page(workers))]
