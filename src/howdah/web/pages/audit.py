"""What was done here, and by which visitor."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from howdah.errors import InvalidOption
from howdah.web import plans
from howdah.web.site import Site

PAGE: Final = 100


def routes(site: Site) -> list[BaseRoute]:
    async def audit(request: Request) -> Response:
        before = request.query_params.get("before", "")
        if before and not (before.isdecimal() and len(before) < 19):
            raise InvalidOption(f"{before!r} is not the number of an entry")
        number = int(before) if before else None
        rows = await site.shared(request, ("audit", number), lambda: plans.audit(number, PAGE + 1))
        older = rows[PAGE - 1]["number"] if len(rows) > PAGE else None
        shown = [site.audited(row) for row in rows[:PAGE]]
        return site.render(request, "audit.html", rows=shown, older=older)

    return [Route("/audit", site.page(audit))]
