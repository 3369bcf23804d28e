"""An action on many jobs: first how many there are, then a confirmation, then its progress."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any, Final, cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from howdah.errors import InvalidOption
from howdah.verbs.selection import SelectionVerb
from howdah.web import filters
from howdah.web.fields import moment, whole
from howdah.web.filters import Filter
from howdah.web.pages.jobs import refuse_hidden
from howdah.web.runs import APPLIES_TO, DONE, WHY_UNCHANGED, Matched, Run
from howdah.web.site import Site

MOST_CHOSEN: Final = 1_000


def routes(site: Site) -> list[BaseRoute]:
    async def confirm(request: Request) -> Response:
        """What an action would do. It changes nothing, but its number would answer questions about what a viewer is not shown."""
        site.only_operators(request)
        verb, ids, wanted = _asked(site, request.query_params.multi_items())
        visitor = site.visitor(request)
        matched = Matched(len(ids), exact=True) if ids is not None else await site.runs.count(visitor, wanted, verb)
        return site.render(
            request,
            "confirm.html",
            verb=verb,
            ids=ids,
            wanted=wanted,
            matched=matched,
            chips=filters.described_in_words(wanted),
            applies=APPLIES_TO[verb],
            back=_list(request, wanted),
        )

    async def begin(request: Request) -> Response:
        fields = await site.form(request)
        verb, ids, wanted = _asked(site, fields)
        given = dict(fields)
        if ids is None and wanted.is_empty and given.get("everything") != "yes":
            raise InvalidOption(f"there is no filter, and this would {verb} every job: tick that you mean all of them")
        expected = given.get("expected", "")
        run = Run(
            verb=verb,
            wanted=wanted,
            ids=ids,
            arguments=_arguments(verb, given),
            visitor=site.visitor(request),
            back=_list(request, wanted),
            expected=int(expected) if expected.isdecimal() and len(expected) < 12 else None,
        )
        site.runs.begin(run)
        return site.see(request, f"bulk/{run.id}")

    async def show(request: Request) -> Response:
        site.only_operators(request)
        run = site.runs.get(request.path_params["run"])
        if run is None:
            raise InvalidOption("this action is not known any more: the audit has what it did")
        return site.render(request, "run.html", run=run, done=DONE[run.verb], why=WHY_UNCHANGED[run.verb])

    return [
        Route("/bulk", site.page(confirm)),
        Route("/bulk", site.page(begin), methods=["POST"]),
        Route("/bulk/{run}", site.page(show)),
    ]


def _asked(site: Site, fields: Sequence[tuple[str, str]]) -> tuple[SelectionVerb, list[uuid.UUID] | None, Filter]:
    given = dict(fields)
    verb = given.get("verb", "")
    if verb not in APPLIES_TO:
        raise InvalidOption(f"{verb!r} is not an action on jobs: they are {', '.join(APPLIES_TO)}")
    wanted = filters.filter_of(fields)
    refuse_hidden(site, wanted)
    ids = None
    if given.get("scope") != "all":
        ids = filters.ids_of((value for name, value in fields if name == "id"), MOST_CHOSEN)
        if not ids:
            raise InvalidOption("no job is selected: tick some in the list, or choose all that match")
    return cast(SelectionVerb, verb), ids, wanted


def _arguments(verb: str, given: dict[str, str]) -> dict[str, Any]:
    if verb == "cancel":
        return {"reason": given.get("reason", "").strip() or None}
    if verb == "reprioritise":
        return {"priority": whole(given.get("new_priority", ""), "the new priority")}
    if verb == "reschedule":
        now = datetime.now(timezone.utc)
        return {"run_at": moment(given.get("run_at", "").strip(), "run_at", now, ahead=True) or now}
    return {}


def _list(request: Request, wanted: Filter) -> str:
    query = wanted.query()
    return f"{request.scope.get('root_path', '')}/jobs" + (f"?{query}" if query else "")
