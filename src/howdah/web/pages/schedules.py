"""The schedules: when they fire, what they add, and the forms to change them."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from howdah.db.plan import Begin, Plan
from howdah.errors import InvalidInput, InvalidOption, ScheduleNotFound
from howdah.model.schedule import MISSED, Schedule
from howdah.verbs import cron
from howdah.verbs import schedules as verbs
from howdah.web import metrics, words
from howdah.web.fields import json_in, span, whole_numbers, written_span
from howdah.web.site import Site

_HOUR: Final = timedelta(hours=1)
_HOURS: Final = 24
_MOST_FIRES: Final = 5_000


def routes(site: Site) -> list[BaseRoute]:
    async def schedules(request: Request) -> Response:
        found = await site.schedules(request)
        measured = await metrics.by_type(site, request, metrics.DAY, with_times=False)
        return site.render(
            request,
            "schedules.html",
            schedules=found,
            measured=measured,
            rhythm=rhythm,
            coming=coming,
        )

    async def edit(request: Request) -> Response:
        name = request.query_params.get("name", "")
        values: dict[str, Any] = {"timezone": "UTC", "missed": "last", "overlap": "yes", "data": "{}"}
        found = None
        if name:
            found = await site.read(request, verbs.get_schedule(site.context, name))
            values = _values(site, found)
        return await form(request, values, found, None, 200)

    async def form(
        request: Request, values: Mapping[str, Any], found: Schedule | None, problem: str | None, status: int
    ) -> Response:
        types = (await site.counts(request)).names
        return site.render(
            request, "schedule.html", status, values=values, schedule=found, types=types, missed=MISSED, problem=problem
        )

    async def save(request: Request) -> Response:
        fields = dict(await site.form(request))
        try:
            given = _given(fields)
            await site.perform_as_login(
                request, "save schedule", _save(site, given), lambda _: (_entry(given), None, None)
            )
        except (InvalidInput, InvalidOption) as error:
            return await form(request, fields, None, str(error), 400)
        return site.see(request, "schedules")

    async def act(request: Request) -> Response:
        fields = dict(await site.form(request))
        verb, name = request.path_params["verb"], fields.get("name", "")
        await site.perform(
            request, f"{verb} schedule", {"schedule": name}, _act(site, verb, name), lambda outcome: (None, outcome)
        )
        return site.see(request, "schedules")

    return [
        Route("/schedules", site.page(schedules)),
        Route("/schedules/edit", site.page(edit)),
        Route("/schedules", site.page(save), methods=["POST"]),
        Route("/schedules/{verb}", site.page(act), methods=["POST"]),
    ]


def _save(site: Site, given: Mapping[str, Any]) -> Plan[Schedule]:
    """Sets the schedule. Options that the form does not show stay as they are."""
    yield Begin()
    kept: dict[str, Any] = {}
    with contextlib.suppress(ScheduleNotFound):
        its = yield from verbs.get_schedule(site.context, given["name"])
        kept = {name: its.options[name] for name in ("timeout", "retry_policy") if name in its.options}
    return (yield from verbs.schedule(site.context, **kept, **given))


def _entry(given: Mapping[str, Any]) -> dict[str, str]:
    """The target of a saved schedule in the audit."""
    return {name: str(given[name]) for name in ("name", "job_type", "cron", "every", "timezone") if given[name]}


def _act(site: Site, verb: str, name: str) -> Plan[str]:
    context = site.context
    match verb:
        case "pause":
            return "paused" if (yield from verbs.pause_schedule(context, name)) else "it was paused before"
        case "resume":
            return "resumed" if (yield from verbs.resume_schedule(context, name)) else "it was not paused"
        case "delete":
            return "deleted" if (yield from verbs.delete_schedule(context, name)) else "it was not there"
        case "run":
            job = yield from verbs.run_schedule(context, name)
            return f"job {job.id}" + ("" if job.created else ", which was live already")
    raise InvalidOption(f"{verb!r} is not an action on a schedule")


def coming(schedule: Schedule, now: datetime) -> tuple[int, ...]:
    """How often it fires in this hour and in each of the next 23. Nothing if that is too often to be counted."""
    if schedule.paused or schedule.next_run_at is None:
        return ()
    hour = now.replace(minute=0, second=0, microsecond=0)
    if schedule.every is not None:
        return _steps(schedule.every, schedule.next_run_at, hour)
    return _matches(schedule.cron, schedule.timezone, hour)


def _steps(every: timedelta, first: datetime, hour: datetime) -> tuple[int, ...]:
    before = [max(0, math.ceil((hour + place * _HOUR - first) / every)) for place in range(_HOURS + 1)]
    return tuple(end - begin for begin, end in itertools.pairwise(before))


@functools.lru_cache(512)
def _matches(expression: str | None, timezone: str, hour: datetime) -> tuple[int, ...]:
    """Once for each hour: for an expression that fires often, it takes some time."""
    counts = [0] * _HOURS
    times = cron.instants(cron.rhythm(expression, None, timezone), hour - timedelta(microseconds=1))
    for at in itertools.islice(itertools.takewhile(lambda at: at < hour + _HOURS * _HOUR, times), _MOST_FIRES):
        counts[(at - hour) // _HOUR] += 1
    return tuple(counts) if sum(counts) < _MOST_FIRES else ()


def rhythm(schedule: Schedule) -> str:
    """When it fires, in words."""
    if schedule.every is not None:
        return f"every {words.duration(schedule.every)}"
    return f"{schedule.cron} ({schedule.timezone})"


def _values(site: Site, schedule: Schedule) -> dict[str, Any]:
    return {
        "name": schedule.name,
        "type": schedule.job_type,
        "cron": schedule.cron or "",
        "every": "" if schedule.every is None else written_span(schedule.every),
        "timezone": schedule.timezone,
        "missed": schedule.missed,
        "overlap": "yes" if schedule.overlap else "",
        "data": site.editable(schedule.data),
        "priority": schedule.options.get("priority", ""),
        "max_attempts": schedule.options.get("max_attempts", ""),
    }


def _given(fields: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of ``schedule`` in a form."""
    return {
        "name": fields.get("name", "").strip(),
        "job_type": fields.get("type", "").strip(),
        "data": json_in(fields.get("data") or "{}", "the arguments are"),
        "cron": fields.get("cron", "").strip() or None,
        "every": _span(fields.get("every", "").strip()),
        "timezone": fields.get("timezone", "").strip() or "UTC",
        "missed": fields.get("missed", "last"),
        "overlap": fields.get("overlap") == "yes",
        **whole_numbers(fields, "priority", "max_attempts"),
    }


def _span(written: str) -> timedelta | None:
    found = span(written)
    if written and found is None:
        raise InvalidOption(f"every is {written!r}: write a number and a unit, such as 30s, 5min, 2h or 1d")
    return found
