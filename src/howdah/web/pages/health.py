"""What the doctor finds, with its remedies."""

from __future__ import annotations

import asyncio
import contextlib
import time

import psycopg
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from howdah.doctor.finding import Diagnosis
from howdah.errors import HowdahError
from howdah.web.site import Site

_EVERY = 30.0
"""Seconds that an examination is kept: it reads many catalogues."""
_SELDOM = 300.0
"""The same for the overview, which is open all day: of a large backlog, some checks read all."""


def routes(site: Site) -> list[BaseRoute]:
    async def health(request: Request) -> Response:
        began = time.monotonic()
        found = await site.data.kept("doctor", lambda: site.queue.adoctor(), seconds=_EVERY)
        return site.render(request, "health.html", found=found, took=time.monotonic() - began, every=_EVERY)

    return [Route("/health", site.page(health))]


async def diagnosis(site: Site) -> Diagnosis | None:
    """The last examination, for the overview, which does not wait for a new one."""
    asked = asyncio.ensure_future(site.data.kept("doctor", lambda: site.queue.adoctor(), seconds=_SELDOM))
    with contextlib.suppress(TimeoutError, HowdahError, psycopg.Error):
        async with asyncio.timeout(0.5):
            return await asyncio.shield(asked)
    asked.add_done_callback(lambda done: None if done.cancelled() else done.exception())
    return None
