"""What the doctor finds, with its remedies."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final

import psycopg
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from howdah.doctor.finding import Diagnosis
from howdah.errors import HowdahError
from howdah.web.site import Site

_EVERY: Final = 30.0
"""Seconds that an examination is kept: it reads many catalogues."""
_SELDOM: Final = 300.0
"""The same for the overview, which is open all day: of a large backlog, some checks read all."""
_WAIT: Final = 5.0
"""Seconds that the page waits for an examination. Of a backlog of a million, some checks take longer."""
_SHARE: Final = 10
"""An examination is kept so many times as long as it took."""


def routes(site: Site) -> list[BaseRoute]:
    async def health(request: Request) -> Response:
        every = freshness(site)
        found = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_WAIT):
                found = await examination(site, every)
        return site.render(request, "health.html", found=found, every=every)

    return [Route("/health", site.page(health))]


def freshness(site: Site) -> float:
    """Seconds that an examination is kept."""
    return max(_EVERY, _SHARE * site.examined_in)


async def examination(site: Site, seconds: float) -> Diagnosis:
    async def examine() -> Diagnosis:
        began = time.monotonic()
        found = await site.queue.adoctor()
        site.examined_in = time.monotonic() - began
        return found

    return await site.data.kept("doctor", examine, seconds=seconds)


async def diagnosis(site: Site) -> Diagnosis | None:
    """The last examination, for the overview, which does not wait for a new one."""
    asked = asyncio.ensure_future(examination(site, max(_SELDOM, freshness(site))))
    with contextlib.suppress(TimeoutError, HowdahError, psycopg.Error):
        async with asyncio.timeout(0.5):
            return await asyncio.shield(asked)
    asked.add_done_callback(lambda done: None if done.cancelled() else done.exception())
    return None
