"""The limits, rates and weights of types, keys and groups, and the bounds on jobs that wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from howdah.checks import options
from howdah.db.plan import Plan
from howdah.errors import InvalidInput, InvalidOption
from howdah.verbs import flow, operate, pressure
from howdah.web.fields import whole
from howdah.web.site import Site


def routes(site: Site) -> list[BaseRoute]:
    async def page(request: Request, values: Mapping[str, str], problem: str | None, status: int) -> Response:
        found = await site.limits(request)
        counts = await site.counts(request)
        return site.render(
            request,
            "limits.html",
            status,
            limits=found,
            types=counts.names,
            values=values,
            problem=problem,
        )

    async def limits(request: Request) -> Response:
        return await page(request, request.query_params, None, 200)

    async def change(request: Request) -> Response:
        fields = dict(await site.form(request))
        try:
            target = {
                name: fields[name] for name in ("what", "of", "type", "per", "group", "value") if fields.get(name)
            }
            await site.perform(request, "limit", target, _change(site, fields), lambda outcome: (None, outcome))
        except InvalidInput as error:
            return await page(request, fields, str(error), 400)
        return site.see(request, "limits")

    return [Route("/limits", site.page(limits)), Route("/limits", site.page(change), methods=["POST"])]


def _change(site: Site, fields: Mapping[str, str]) -> Plan[str]:
    """An empty value resets: what the handler declares applies again."""
    context, what, value = site.context, fields.get("what", ""), fields.get("value", "").strip()
    number = whole(value, "the value") if value and what != "rate" and what != "pause" else None
    if what == "limit":
        yield from flow.set_limit(context, number, **_target(fields))
    elif what == "rate":
        yield from flow.set_rate(context, value or None, **_target(fields))
    elif what == "weight":
        yield from flow.set_weight(context, fields.get("type", ""), fields.get("per", ""), number)
    elif what == "max_pending":
        full: Any = fields.get("when_full") or None
        yield from pressure.set_max_pending(context, fields.get("type", ""), number, when_full=full)
    elif what == "pause":
        yield from operate.pause(
            context, fields.get("type", ""), value or None, per=options.flow_key(fields.get("per", ""))
        )
    elif what == "resume":
        yield from operate.resume(context, fields.get("type", ""), per=options.flow_key(fields.get("per", "")))
    else:
        raise InvalidOption(f"{what!r} is not a limit: it is limit, rate, weight, max_pending, pause or resume")
    return f"{what} {value}".strip() if value else f"{what} reset" if what not in ("pause", "resume") else f"{what}d"


def _target(fields: Mapping[str, str]) -> dict[str, Any]:
    """What a limit is for: a group, a type, each of its keys, or one key of it."""
    of = fields.get("of", "type")
    if of == "group":
        return {"group": fields.get("group", "").strip()}
    made: dict[str, Any] = {"job_type": fields.get("type", "").strip()}
    if of == "each":
        made["each_key"] = True
    elif of == "key":
        made["per"] = fields.get("per", "")
    return made
