"""The signals: which ones jobs wait for, which are kept, and a form to send one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from howdah.errors import InvalidInput, InvalidOption
from howdah.model.step import SignalResult
from howdah.verbs import signals as verbs
from howdah.web import plans
from howdah.web.fields import json_in
from howdah.web.site import Site

PAGE: Final = 100
_MOST_SKIPPED: Final = 100_000


def routes(site: Site) -> list[BaseRoute]:
    async def page(
        request: Request, values: Mapping[str, str], problem: str | None, sent: str = "", status: int = 200
    ) -> Response:
        name, skip = asked(request.query_params)
        found = await site.shared(request, ("signals", name, skip), lambda: plans.signals(name, PAGE + 1, skip))
        return site.render(
            request,
            "signals.html",
            status,
            signals=found[:PAGE],
            name=name or "",
            skip=skip,
            next=skip + PAGE if len(found) > PAGE else None,
            values=values,
            problem=problem,
            sent=sent,
        )

    async def signals(request: Request) -> Response:
        given = request.query_params
        return await page(request, given, None, given.get("sent", ""))

    async def send(request: Request) -> Response:
        fields = dict(await site.form(request))
        try:
            written = fields.get("data", "").strip()
            data = json_in(written, "the data is") if written else None
            result = await sending(site, request, fields.get("name", "").strip(), data, fields.get("key") or None)
        except InvalidInput as error:
            return await page(request, fields, str(error), status=400)
        return site.see(request, f"signals?sent={'kept' if result.kept else result.woken}")

    return [Route("/signals", site.page(signals)), Route("/signals", site.page(send), methods=["POST"])]


def asked(given: Mapping[str, str]) -> tuple[str | None, int]:
    """The name and the place of a list, out of an address."""
    name, skip = given.get("of", "").strip(), given.get("skip", "")
    if skip and not (skip.isdecimal() and len(skip) < 7 and int(skip) <= _MOST_SKIPPED):
        raise InvalidOption(f"skip is {skip[:40]!r}: it is a number up to {_MOST_SKIPPED:,}")
    return verbs.signal_name(name) if name else None, int(skip or 0)


async def sending(site: Site, request: Request, name: str, data: Any, key: str | None) -> SignalResult:
    """Sends a signal, and enters it in the audit without its data, which may be stored encrypted."""
    return await site.perform(
        request,
        "signal",
        {"signal": name} | ({} if key is None else {"key": key}),
        verbs.signal(site.context, name, data, key=key),
        lambda result: (result.woken, "kept: no job waited for it" if result.kept else f"woke {result.woken:,} jobs"),
    )
