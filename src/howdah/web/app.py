"""The dashboard as an ASGI app: its options, its routes, its start and its end."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from howdah.checks import options
from howdah.checks.options import Seconds
from howdah.web.access import Authenticate
from howdah.web.api import api_routes, problem
from howdah.web.defence import Defence, Receive, Refusal, Send, is_api
from howdah.web.live import Live
from howdah.web.pages import page_routes
from howdah.web.site import Site, Trouble, described, static_files

if TYPE_CHECKING:
    from howdah.queue import JobQueue

_TYPES: Final = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}

_MISSING: Final = {
    404: Trouble(404, "Not found", "There is no page at this address."),
    405: Trouble(405, "Not possible", "This address does not take such a request."),
}


class Dashboard:
    """The ASGI app. Mount it under any path, or serve it alone."""

    def __init__(self, site: Site, defence: Defence, live: Live) -> None:
        self._site = site
        self._defence = defence
        self._live = live

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        await self._defence(scope, receive, send)

    async def aclose(self) -> None:
        """Ends the streams, and actions on many jobs after their present batch. The queue is yours, and stays open."""
        await self._live.close()
        await self._site.runs.close()
        self._site.data.close()


def app(
    queue: JobQueue,
    *,
    authenticate: Authenticate | None = None,
    hosts: Sequence[str] = (),
    read_only: bool = False,
    redact: Sequence[str] = (),
    title: str = "Howdah",
    max_streams: int = 500,
    statement_timeout: Seconds = 5,
) -> Dashboard:
    """The dashboard of a queue, as an ASGI app.

    authenticate: called with the ASGI scope of each request; returns a ``Visitor``, or None for a stranger: ``Password(…)``, ``ProxyHeader(…)``,
        or a function of yours, which may be async. Without it, only requests of this machine that no proxy forwards are
        served, and they may do everything.
    hosts: the host names to serve besides localhost, such as ``["jobs.example.com"]``. A request for another host is refused, because an
        attacker can make a name of his own point here.
    read_only: nothing can be changed, by no visitor.
    redact: paths inside of arguments, results and events that are shown as [redacted], such as ``["card.number", "**.password"]``. Jobs
        then cannot be searched by arguments.
    title: shown at the top.
    max_streams: how many browsers may be live at once. statement_timeout: seconds that one statement of a page may take.
    """
    seconds = options.span(statement_timeout, "statement_timeout", positive=True).total_seconds()
    site = Site(
        queue,
        title=options.name(title, "title", 100),
        read_only=bool(read_only),
        redact=redact,
        statement_timeout=seconds,
    )
    live = Live(site, max_streams=options.integer(max_streams, "max_streams", least=1))

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        yield
        await dashboard.aclose()

    routes: list[BaseRoute] = [
        Route("/static/{name}", _static),
        Route("/live", live.stream),
        *api_routes(site),
        *page_routes(site),
    ]

    async def missing(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        trouble = _MISSING.get(status, Trouble(status, "Not possible", "This is not served."))
        if is_api(request.scope):
            return problem(status, "there is nothing at this address, or not by this method: see /api/v1/openapi.json")
        return site.render(request, "trouble.html", status, trouble=trouble)

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refusal)
        if is_api(request.scope):
            return problem(error.status, str(error), error.headers)
        return PlainTextResponse(f"{error}\n", error.status, error.headers)

    async def failed(request: Request, error: Exception) -> Response:
        if is_api(request.scope):
            found = described(error)
            return problem(found.status, found.text)
        return site.trouble(request, error)

    inner = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={HTTPException: missing, Refusal: refused, Exception: failed},
    )
    defence = Defence(inner, authenticate=authenticate, hosts=hosts, read_only=read_only)
    dashboard = Dashboard(site, defence, live)
    return dashboard


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    body = static_files().get(name)
    if body is None:
        raise HTTPException(404)
    # The address has the version of the file.
    headers = {"cache-control": "private, max-age=31536000, immutable"}
    return Response(body, media_type=_TYPES[name.rpartition(".")[2]], headers=headers)
