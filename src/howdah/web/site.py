"""What all pages share: the queue's data, the templates, links under any mount, and errors that say what happened."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import hashlib
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from datetime import datetime, timezone
from importlib import resources
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import parse_qsl

import jinja2
import psycopg
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from howdah.checks.context import Context
from howdah.db.plan import Plan, Row
from howdah.errors import (
    DatabaseUnavailable,
    HowdahError,
    InvalidInput,
    JobNotChanged,
    JobNotFound,
    NotPermitted,
    QueueFull,
    ScheduleNotFound,
    SchemaError,
    SignalBusy,
    WorkflowNotFound,
)
from howdah.model.codec import decoded_text
from howdah.model.results import Limit
from howdah.model.schedule import Schedule
from howdah.model.worker_info import WorkerInfo
from howdah.queue import JobQueue
from howdah.verbs import flow, operate, schedules
from howdah.web import plans, tree, words
from howdah.web.access import Visitor
from howdah.web.charts import sparkline
from howdah.web.data import Data
from howdah.web.defence import Refusal
from howdah.web.metrics import quantile
from howdah.web.plans import Counts, record
from howdah.web.runs import Runs

log = logging.getLogger("howdah.web")

R = TypeVar("R")

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

PATIENCE: Final = 20.0
"""Seconds that a page may take in all."""
_MOST_FIELDS: Final = 5_000

NAVIGATION: Final = (
    ("", "Overview"), ("jobs", "Jobs"), ("workflows", "Workflows"), ("types", "Types"), ("workers", "Workers"), ("schedules", "Schedules"), ("signals", "Signals"),
    ("limits", "Limits"), ("health", "Health"), ("audit", "Audit"),
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Trouble:
    """An error, as its page shows it."""

    status: int
    title: str
    text: str


class Site:
    """The dashboard of one queue."""

    def __init__(
        self, queue: JobQueue, *, title: str, read_only: bool, redact: Sequence[str], statement_timeout: float
    ) -> None:
        self.queue = queue
        self.title = title
        self.read_only = read_only
        self.redacted = tree.patterns(redact)
        self.data = Data(queue, statement_timeout=statement_timeout)
        self.runs = Runs(self.data)
        self.examined_in = 0.0
        """Seconds that the doctor took last."""
        self._environment = _environment()

    @property
    def context(self) -> Context:
        return self.queue._context

    # Data

    async def read(self, request: Request, plan: Plan[R]) -> R:
        return await self.data.read(self.visitor(request), plan)

    async def shared(
        self, request: Request, key: Hashable, make: Callable[[], Plan[R]], *, seconds: float | None = None
    ) -> R:
        """``read``, once for all that ask for the same key at about the same time."""
        return await self.data.kept(
            (self.visitor(request).role, key), lambda: self.read(request, make()), seconds=seconds
        )

    async def counts(self, request: Request) -> Counts:
        return await self.shared(request, "counts", plans.counts)

    async def workers(self, request: Request) -> list[WorkerInfo]:
        return await self.shared(request, "workers", lambda: operate.workers(self.context))

    async def limits(self, request: Request) -> list[Limit]:
        return await self.shared(request, "limits", lambda: flow.limits(self.context))

    async def schedules(self, request: Request) -> list[Schedule]:
        return await self.shared(request, "schedules", lambda: schedules.list_schedules(self.context))

    # Requests

    def visitor(self, request: Request) -> Visitor:
        found: Visitor = request.scope["howdah.visitor"]
        return found

    def may_operate(self, request: Request) -> bool:
        return self.visitor(request).may_operate and not self.read_only

    def only_operators(self, request: Request) -> None:
        """For a page that belongs to an action: a viewer is refused it as the action itself, see ``Defence``."""
        visitor = self.visitor(request)
        if not visitor.may_operate:
            raise NotPermitted(f"{visitor.name} is a viewer here, and only operators may act on many jobs")

    async def form(self, request: Request) -> list[tuple[str, str]]:
        """The fields of a form that was sent."""
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
            raise Refusal(415, "send a form: application/x-www-form-urlencoded")
        try:
            body = (await request.body()).decode()
            return parse_qsl(body, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
        except ValueError:
            raise Refusal(400, "this form cannot be read") from None

    # Responses

    def render(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        root = request.scope.get("root_path", "")
        text = self._environment.get_template(template).render(
            **{"now": datetime.now(timezone.utc)} | values,
            root=root,
            url=functools.partial(_url, root),
            here=request.url.path.removeprefix(root).strip("/").partition("/")[0],
            address=_address(request),
            navigation=NAVIGATION,
            visitor=self.visitor(request),
            may_operate=self.may_operate(request),
            read_only=self.read_only,
            site_title=self.title,
            schema=self.queue.schema,
            version=static_version(),
        )
        return Response(text, status, media_type="text/html; charset=utf-8")

    def see(self, request: Request, path: str) -> Response:
        """Sends the browser on after a form, so that a reload does not send it again."""
        return RedirectResponse(_url(request.scope.get("root_path", ""), path), 303)

    def back(self, request: Request, given: str, fallback: str) -> Response:
        """To the page of this dashboard that a form came from."""
        root = request.scope.get("root_path", "")
        if given.startswith(f"{root}/") and not given.startswith("//") and "\\" not in given and given.isprintable():
            return RedirectResponse(given, 303)
        return self.see(request, fallback)

    def trouble(self, request: Request, error: BaseException) -> Response:
        found = described(error)
        if found.status >= 500:
            log.warning("%s %s: %s", request.method, request.url.path, found.text)
        return self.render(request, "trouble.html", found.status, trouble=found)

    def page(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint, bounded in time, with errors as a page."""

        @functools.wraps(endpoint)
        async def bounded(request: Request) -> Response:
            try:
                async with asyncio.timeout(PATIENCE):
                    return await endpoint(request)
            except Refusal:
                raise
            except (HowdahError, psycopg.Error, TimeoutError) as error:
                return self.trouble(request, error)

        return bounded

    # Actions

    async def perform(
        self,
        request: Request,
        action: str,
        target: Mapping[str, Any],
        plan: Plan[R],
        outcome: Callable[[R], tuple[int | None, str | None]],
    ) -> R:
        """Runs the plan of an action and enters it in the audit, both or neither. outcome: how many jobs it changed, and the result in words."""

        def whole() -> Plan[R]:
            result = yield from plan
            yield from record(self.context, self.visitor(request).name, action, target, *outcome(result))
            return result

        done = await self.data.write(whole())
        self.data.forget()
        return done

    async def perform_as_login(
        self,
        request: Request,
        action: str,
        plan: Plan[R],
        entry: Callable[[R], tuple[Mapping[str, Any], int | None, str | None]],
    ) -> R:
        """``perform`` for what the role of operators may not do. The plan begins its transaction. entry: the target, and the outcome."""

        def entered(result: R) -> Plan[None]:
            return record(self.context, self.visitor(request).name, action, *entry(result))

        done = await self.data.write_as_login(plan, entered)
        self.data.forget()
        return done

    def shown(self, value: Any) -> tree.Node:
        return tree.Tree().node(tree.redact(words.readable(value), self.redacted))

    def audited(self, entry: Row) -> Row:
        """An entry of the audit, without what is redacted on jobs. No path of arguments is shown, as none is searched."""
        target = entry["target"]
        if not isinstance(target, dict):
            return entry
        if isinstance(reason := target.get("reason"), str):
            target = {**target, "reason": decoded_text(reason, self.context.codec)}
        # A value of it can be arguments, and so can all of it.
        target = self.redact({name: self.redact(value) for name, value in target.items()})
        if self.redacted and isinstance(wanted := target.get("filter"), dict) and "path" in wanted:
            target = {**target, "filter": {**wanted, "path": tree.REDACTED}}
        return {**entry, "target": target}

    def redact(self, value: Any) -> Any:
        return tree.redact(words.readable(value), self.redacted)

    def editable(self, value: Any) -> str:
        """A value as the text of a form."""
        return json.dumps(self.redact(value), indent=2, ensure_ascii=False, default=str)


def described(error: BaseException) -> Trouble:
    """An error as a visitor sees it: no traceback, no address of the database."""
    match error:
        case JobNotFound() | ScheduleNotFound() | WorkflowNotFound():
            return Trouble(404, "Not found", str(error))
        case NotPermitted():
            return Trouble(403, "Not permitted", str(error))
        case InvalidInput():
            return Trouble(400, "This cannot be meant", str(error))
        case JobNotChanged() | QueueFull() | SignalBusy():
            return Trouble(409, "Not changed", str(error))
        case SchemaError():
            return Trouble(503, "The schema does not fit", str(error))
        case TimeoutError() | psycopg.errors.QueryCanceled():
            return Trouble(
                503, "This took too long", "The database did not answer in time. Narrow the filter, or try again later."
            )
        case psycopg.errors.LockNotAvailable():
            return Trouble(
                409,
                "Locked",
                "Another transaction holds a lock that this needs. Try again; howdah doctor names old ones.",
            )
        case DatabaseUnavailable():
            return Trouble(
                503, "No database", "The database cannot be reached. This page comes back by itself as soon as it can."
            )
        case psycopg.DataError():
            return Trouble(
                400,
                "This cannot be meant",
                f"PostgreSQL refused a value: {error.diag.message_primary or 'it is not valid'}.",
            )
        case HowdahError():
            return Trouble(500, type(error).__name__, str(error))
    number = secrets.token_hex(4)
    log.error("trouble %s", number, exc_info=error)
    return Trouble(500, "Something went wrong", f"The log of the dashboard has the details, under {number}.")


@functools.cache
def static_files() -> Mapping[str, bytes]:
    """The style sheet and the module, which are sent as they are."""
    folder = resources.files("howdah.web") / "static"
    return {
        entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.name.endswith((".css", ".js", ".svg"))
    }


@functools.cache
def static_version() -> str:
    return hashlib.sha256(b"".join(body for _, body in sorted(static_files().items()))).hexdigest()[:12]


def _url(root: str, path: str = "") -> str:
    return f"{root}/{path}"


def _address(request: Request) -> str:
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path


def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("howdah.web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in (
        "ago", "amounts", "compact", "count", "duration", "first_line", "full", "iso", "lasting", "left", "percent", "priority", "rate",
        "short", "size",
    ):  # fmt: skip
        made.filters[name] = getattr(words, name)
    made.globals.update(
        state_of=words.state_of,
        progress_of=words.progress_of,
        marks=words.MARKS,
        quantile=quantile,
        sparkline=sparkline,
    )
    return made
