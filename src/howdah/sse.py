"""Progress for browsers: an ASGI app that serves the updates of ``awatch`` as Server-Sent Events.

::

    GET /{job_id}           one job, from its first event until it has ended
    GET /workflows/{id}     one workflow with its jobs, from its beginning until it has ended
    GET /                   all jobs, from now on

``?kinds=event,progress`` and ``?types=mail`` select updates. ``Last-Event-ID``, which browsers send by themselves,
or ``?after=…`` resumes a stream. Mount it in a Starlette or FastAPI app, behind that app's own authentication.

A page of another site must not read a stream through its visitor's browser. So only requests for known hosts are served, and only
to pages of the same origin or of an origin that is listed.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
import re
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from urllib.parse import parse_qs

import msgspec

from howdah.asgi import Scope, encoded, header, host_name, is_loopback, place_of, refuse
from howdah.checks import options
from howdah.checks.options import Seconds
from howdah.checks.values import unreadable_mark
from howdah.errors import (
    DatabaseUnavailable,
    HowdahError,
    InvalidInput,
    InvalidOption,
    JobNotFound,
    PositionLost,
    WorkflowNotFound,
)
from howdah.model.codec import Unreadable
from howdah.model.failure import describe
from howdah.model.job import Job
from howdah.model.workflow import Workflow
from howdah.verbs.events import some_of
from howdah.watch.watch import KINDS, Update, UpdateKind

if TYPE_CHECKING:
    from howdah.queue import JobQueue
    from howdah.verbs.flows import Flow

Receive: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]
Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]
T = TypeVar("T")
Authorize: TypeAlias = Callable[[Scope, uuid.UUID | None], bool | Awaitable[bool]]

log = logging.getLogger("howdah.watching")

DEFAULT_KINDS: Final[tuple[UpdateKind, ...]] = ("progress", "event", "status")
RECONNECT_AFTER_MS: Final = 1_000
PUT_OFF_MS: Final = 5_000
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 0.5
"""Seconds between two looks for a job that is not there: a commit is near at first, and then less and less likely."""
_SHOWN: Final = (
    "id", "job_type", "status", "percent", "current_stage", "events_count", "attempts", "max_attempts", "priority",
    "created_at", "run_at", "started_at", "finished_at", "stalled", "record",
)  # fmt: skip
_SHOWN_OF_WORKFLOWS: Final = ("id", "name", "status", "created_at", "finished_at", "deadline_at", "cancel_requested_at")
_PRIVATE: Final = ("error", "worker")
_LONGEST_POSITION: Final = 16_384
_POSITION: Final = re.compile(
    r"[0-9]{1,9}(-[0-9]{1,18})?|[0-9]{1,20}:[0-9]{1,20}:[0-9,]*@[0-9]{1,19}(/[0-9:,]+@[0-9]{1,19}/[0-9]{1,19})?(-end)?"
)
"""A position in the stream of one job, of all jobs, or of a workflow."""


def shown(update: Update) -> dict[str, Any]:
    """An update as browsers get it: without the job's data, result, errors and worker."""
    data = unreadable_mark(update.data) if isinstance(update.data, Unreadable) else update.data
    if update.kind == "status" and isinstance(data, Mapping):
        data = {name: value for name, value in data.items() if name not in _PRIVATE}
    return {
        "kind": update.kind,
        "job_id": update.job_id,
        "job_type": update.job_type,
        "at": update.at,
        "attempt": update.attempt,
        "name": update.name,
        "data": data,
        "job": None if update.job is None else _shown_job(update.job),
        **({} if update.workflow is None else {"workflow": _shown_workflow(update.workflow)}),
    }


def _shown_job(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in _SHOWN}


def _shown_workflow(workflow: Workflow) -> dict[str, Any]:
    shown = {name: getattr(workflow, name) for name in _SHOWN_OF_WORKFLOWS}
    return {**shown, "progress": workflow.progress, "percent": workflow.progress.percent}


class EventStream:
    """The ASGI app.

    types: serve only jobs of these types. workflows: serve only workflows of these names, with all of their jobs; all workflows if
        not given, and none where only types are. kinds: the kinds of updates to serve; "log" only if it is listed here.
    authorize: called with the request's scope and the id of the job or the workflow (None: all jobs); False refuses with 403.
    show: turns an update into the value that is sent as JSON; by default ``howdah.sse.shown``.
    hosts: the host names to serve besides localhost, such as ``["jobs.example.com"]``; ``["*"]`` for any. A request for another
        host is refused with 403, because an attacker can make a name of his own point here.
    origins: other origins whose pages may read it, such as ``["https://www.example.com"]``; ``["*"]`` for any. Pages of all others
        are refused with 403.
    max_streams: how many streams may be open; more are asked to come back later. keepalive: seconds without an update before a
        comment is sent.
    commit_timeout: how many seconds to wait for a job that does not exist, before the answer is 404. A page may open its stream while
        the transaction that enqueues the job is not committed yet, and a browser gives up after a 404.
    """

    def __init__(
        self,
        queue: JobQueue,
        *,
        types: Sequence[str] | None = None,
        kinds: Sequence[UpdateKind] = DEFAULT_KINDS,
        authorize: Authorize | None = None,
        show: Callable[[Update], Any] = shown,
        max_streams: int = 1_000,
        keepalive: Seconds = 15,
        hosts: Sequence[str] = (),
        origins: Sequence[str] = (),
        commit_timeout: Seconds = 5,
        workflows: Sequence[str] | None = None,
    ) -> None:
        self._queue = queue
        self._types = None if types is None else options.job_types(types)
        self._workflows = None if workflows is None and types is None else _names(workflows or (), "workflows")
        self._kinds = _in_order(some_of(kinds, KINDS))
        self._authorize = authorize
        self._show = show
        self._max_streams = options.integer(max_streams, "max_streams", least=1)
        self._keepalive = options.span(keepalive, "keepalive", positive=True).total_seconds()
        self._hosts = _places(hosts, "hosts")
        self._origins = _places(origins, "origins")
        self._commit_timeout = options.span(commit_timeout, "commit_timeout").total_seconds()
        self._stops: set[asyncio.Event] = set()
        self._closed = False

    def close(self) -> None:
        """End all streams, so that the server can stop. Browsers reconnect to the next one. Call it on the app's own loop."""
        self._closed = True
        for stop in self._stops:
            stop.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            await self._respond(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1003})

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await refuse(send, 405, "only GET is served here", {"allow": "GET, HEAD"})
            return
        if refusal := self._foreign(scope):
            await refuse(send, 403, refusal)
            return
        try:
            wanted = _wanted(scope, self._kinds, self._types)
        except InvalidInput as error:
            await refuse(send, 404 if isinstance(error, _NoSuchPath) else 400, str(error))
            return
        if not await self._allows(scope, wanted.job_id or wanted.workflow_id):
            await refuse(send, 403, "this app does not allow this request to read these jobs")
        elif self._closed or len(self._stops) >= self._max_streams:
            await _put_off(scope, send, "too many streams are open")
        else:
            stop = asyncio.Event()
            self._stops.add(stop)
            try:
                await self._serve(wanted, scope, receive, send, stop)
            finally:
                self._stops.discard(stop)

    def _foreign(self, scope: Scope) -> str | None:
        """The reason to refuse a request for a foreign host, or from a page of a foreign origin; None to serve it."""
        host, origin, site = (header(scope, name).lower() for name in (b"host", b"origin", b"sec-fetch-site"))
        name = host_name(host)
        if not (is_loopback(name) or {name, host, "*"} & self._hosts):
            return "this host is not served here: add it to EventStream(hosts=[…])"
        if "*" in self._origins or (origin and (origin in self._origins or place_of(origin) == host)):
            return None
        if origin or site in ("cross-site", "same-site"):
            return "pages of this origin may not read this: add it to EventStream(origins=[…])"
        return None

    async def _allows(self, scope: Scope, job_id: uuid.UUID | None) -> bool:
        if self._authorize is None:
            return True
        answer = self._authorize(scope, job_id)
        return bool(await answer if inspect.isawaitable(answer) else answer)

    async def _serve(self, wanted: _Wanted, scope: Scope, receive: Receive, send: Send, stop: asyncio.Event) -> None:
        """Respond at once, even if there is no update yet."""
        try:
            messages = await self._messages(wanted, stop)
        except DatabaseUnavailable:
            await _put_off(scope, send, "the database cannot be reached")
            return
        except _Delivered:
            # Only a 204 keeps a browser from reconnecting.
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        if messages is None and stop.is_set():
            await _put_off(scope, send, "the server stops")
            return
        if messages is None:
            await refuse(send, 404, f"there is no such {'job' if wanted.workflow_id is None else 'workflow'}")
            return
        await _start(scope, send)
        if scope["method"] == "HEAD":
            await send(_body(b"", more=False))
            return
        await send(_body(_retry_after(RECONNECT_AFTER_MS)))
        async with contextlib.aclosing(messages):
            await self._stream(messages, receive, send, stop)

    async def _messages(self, wanted: _Wanted, stop: asyncio.Event) -> AsyncGenerator[bytes] | None:
        """What to send; None if it is not there, or not served. Raises _Delivered."""
        if wanted.workflow_id is not None:
            found = await self._committed(functools.partial(self._workflow, wanted.workflow_id), stop)
            if found is None:
                return None
            flow, workflow = found
            if not self._serves(workflow.name):
                return None
            if workflow.ended and wanted.after is not None and await self._is_delivered(flow, wanted.after):
                raise _Delivered
            return self._whole(wanted, flow)
        if wanted.job_id is None:
            return self._all(wanted)
        job = await self._committed(functools.partial(self._queue.aget, wanted.job_id), stop)
        if job is None or (wanted.types is not None and job.job_type not in wanted.types):
            return None
        if job.ended and wanted.after is not None and wanted.after.endswith(f"-{job.token}"):
            raise _Delivered
        return self._one(wanted, job)

    async def _workflow(self, workflow_id: uuid.UUID) -> tuple[Flow, Workflow]:
        flow = await self._queue.workflows.aget(workflow_id)
        return flow, await flow.aget()

    def _serves(self, workflow: str) -> bool:
        return self._workflows is None or workflow in self._workflows

    async def _committed(self, get: Callable[[], Awaitable[T]], stop: asyncio.Event) -> T | None:
        """The job or the workflow, as soon as it is committed; None if it is not in time."""
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + self._commit_timeout, _FIRST_PAUSE
        while True:
            with contextlib.suppress(JobNotFound, WorkflowNotFound):
                return await get()
            left = deadline - loop.time()
            if left <= 0 or stop.is_set():
                return None
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _is_delivered(self, flow: Flow, after: str) -> bool:
        """Whether a workflow that has ended has nothing behind this position."""
        with contextlib.suppress(InvalidOption, PositionLost):
            async with contextlib.aclosing(flow.awatch(kinds=["progress"], after=after)) as updates:
                return await anext(updates, None) is None
        return False

    async def _whole(self, wanted: _Wanted, flow: Flow) -> AsyncGenerator[bytes]:
        kinds: list[UpdateKind] = [*wanted.kinds, "progress"]
        with contextlib.suppress(InvalidOption, PositionLost):
            async with contextlib.aclosing(flow.awatch(kinds=kinds, after=wanted.after)) as updates:
                async for message in self._of_workflow(wanted, updates):
                    yield message
            return
        yield b"event: reset\ndata: {}\n\n"
        async with contextlib.aclosing(flow.awatch(kinds=kinds)) as updates:
            async for message in self._of_workflow(wanted, updates):
                yield message

    async def _of_workflow(self, wanted: _Wanted, updates: AsyncGenerator[Update]) -> AsyncGenerator[bytes]:
        async for update in updates:
            is_whole = update.job_id == wanted.workflow_id
            if update.kind in wanted.kinds and (is_whole or wanted.types is None or update.job_type in wanted.types):
                yield self._message(update)
            if update.workflow is not None and update.workflow.ended:
                yield b"id: %s\nevent: end\ndata: {}\n\n" % update.position.encode()

    async def _one(self, wanted: _Wanted, job: Job) -> AsyncGenerator[bytes]:
        position = wanted.after or "0"
        try:
            updates = self._queue.awatch(job, kinds=wanted.kinds, after=wanted.after)
        except InvalidOption:
            yield b"event: reset\ndata: {}\n\n"
            updates, position = self._queue.awatch(job, kinds=wanted.kinds), "0"
        async with contextlib.aclosing(updates):
            async for update in updates:
                position = update.position
                yield self._message(update)
        ended = await self._queue.aget(job.id)
        end = f"{position.partition('-')[0]}-{ended.token}"
        yield b"id: %s\nevent: end\ndata: {}\n\n" % end.encode()

    async def _all(self, wanted: _Wanted) -> AsyncGenerator[bytes]:
        begun = b""
        if wanted.after:
            try:
                async with contextlib.aclosing(self._since(wanted, wanted.after)) as messages:
                    async for message in messages:
                        yield message
            except (InvalidOption, PositionLost):
                # A browser cannot correct its position: it gets a "reset" event for the gap, and continues from now.
                begun = b"event: reset\ndata: {}\n"
        now = await self._queue.astream_position()
        # With it, a browser that is disconnected before the first update can resume, too.
        yield begun + b"id: %s\n\n" % now.encode()
        async with contextlib.aclosing(self._since(wanted, now)) as messages:
            async for message in messages:
                yield message

    async def _since(self, wanted: _Wanted, position: str) -> AsyncGenerator[bytes]:
        updates = self._queue.awatch_all(types=wanted.types, kinds=wanted.kinds, after=position)
        async with contextlib.aclosing(updates):
            async for update in updates:
                if not _is_of_workflow(update) or self._serves(update.job_type):
                    yield self._message(update)

    async def _stream(self, messages: AsyncGenerator[bytes], receive: Receive, send: Send, stop: asyncio.Event) -> None:
        leaving = asyncio.create_task(_left(receive))
        stopping = asyncio.create_task(stop.wait())
        following = asyncio.create_task(_next(messages))
        try:
            while True:
                done, _ = await asyncio.wait(
                    {leaving, stopping, following}, timeout=self._keepalive, return_when=asyncio.FIRST_COMPLETED
                )
                if leaving in done:
                    return
                if stopping in done:
                    break
                if not done:
                    await send(_body(b": still here\n\n"))
                    continue
                message = following.result()
                if message is None:
                    break
                await send(_body(message))
                following = asyncio.create_task(_next(messages))
            await send(_body(b"", more=False))
        except HowdahError as error:
            # The database is unreachable, or the queue was closed. Browsers reconnect by themselves and resume.
            log.info("a stream ended: %s", describe(error))
            await send(_body(b"", more=False))
        finally:
            tasks = {leaving, stopping, following}
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def _message(self, update: Update) -> bytes:
        data = msgspec.json.encode(self._show(update))
        return b"id: %s\nevent: %s\ndata: %s\n\n" % (update.position.encode(), update.kind.encode(), data)


class _NoSuchPath(InvalidInput):
    """There is nothing at this path: it is empty, the id of a job, or workflows/ and the id of a workflow."""


class _Delivered(Exception):
    """The end was delivered before."""


class _Wanted(msgspec.Struct, frozen=True):
    """What a request asks for."""

    job_id: uuid.UUID | None
    workflow_id: uuid.UUID | None
    kinds: Sequence[UpdateKind]
    types: Sequence[str] | None
    after: str | None


def _wanted(scope: Scope, kinds: Sequence[UpdateKind], types: Sequence[str] | None) -> _Wanted:
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
    job_id, workflow_id = _ids(scope)
    if workflow_id is not None:
        # The types that are served do not concern the jobs of a workflow that is: see EventStream.
        types = None
    asked_kinds, asked_types = _listed(query, "kinds"), _listed(query, "types")
    if asked_kinds is not None:
        kinds = _in_order(some_of(asked_kinds, KINDS).intersection(kinds))
    if asked_types is not None:
        types = [name for name in options.job_types(asked_types) if types is None or name in types]
    if not kinds or types == []:
        raise InvalidOption("none of the requested kinds and types is served here")
    after = header(scope, b"last-event-id") or (query.get("after") or [""])[0]
    if after and (len(after) > _LONGEST_POSITION or not _POSITION.fullmatch(after)):
        raise InvalidOption("this is not a position: pass the id of an event of this stream, or none")
    return _Wanted(job_id, workflow_id, kinds, types, after or None)


def _names(values: Sequence[str], option: str) -> frozenset[str]:
    if isinstance(values, str):
        raise InvalidOption(f"{option} is a list of names, not a str")
    return frozenset(options.text(value, option) for value in values)


def _places(values: Sequence[str], option: str) -> frozenset[str]:
    return frozenset(name.lower().rstrip("/") for name in _names(values, option))


def _ids(scope: Scope) -> tuple[uuid.UUID | None, uuid.UUID | None]:
    """The id of a job, or of a workflow."""
    path = scope["path"].removeprefix(scope.get("root_path", "")).strip("/")
    if not path:
        return None, None
    folder, _, last = path.rpartition("/")
    try:
        if folder in ("", "workflows"):
            found = uuid.UUID(last)
            return (None, found) if folder else (found, None)
    except ValueError as error:
        raise _NoSuchPath from error
    raise _NoSuchPath


def _listed(query: Mapping[str, list[str]], name: str) -> list[str] | None:
    values = query.get(name)
    return None if values is None else [each for value in values for each in value.split(",") if each]


def _in_order(kinds: Collection[str]) -> list[UpdateKind]:
    return [kind for kind in KINDS if kind in kinds]


async def _next(messages: AsyncGenerator[bytes]) -> bytes | None:
    return await anext(messages, None)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _start(scope: Scope, send: Send) -> None:
    origin = header(scope, b"origin").lower()
    headers = {
        # _foreign has allowed the origin. Without this header the browser would not let the page read the response.
        **({"access-control-allow-origin": origin, "vary": "origin"} if origin else {}),
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-store",
        # A proxy that buffers the response would delay every event.
        "x-accel-buffering": "no",
    }
    await send({"type": "http.response.start", "status": 200, "headers": encoded(headers)})


def _retry_after(milliseconds: int) -> bytes:
    return b"retry: %d\n\n" % milliseconds


async def _put_off(scope: Scope, send: Send, message: str) -> None:
    """Ask the client to come back later. A browser reconnects only after a 200, so it gets one with a delay."""
    if any(name == b"accept" and b"text/event-stream" in value for name, value in scope["headers"]):
        await _start(scope, send)
        await send(_body(_retry_after(PUT_OFF_MS), more=False))
    else:
        await refuse(send, 503, message, {"retry-after": str(PUT_OFF_MS // 1000)})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        kind = (await receive())["type"].removeprefix("lifespan.")
        await send({"type": f"lifespan.{kind}.complete"})
        if kind == "shutdown":
            return


def _body(body: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


def _is_of_workflow(update: Update) -> bool:
    """Whether it is the status of a whole workflow, among the updates of all jobs. Its type is the workflow's name."""
    return update.kind == "status" and isinstance(update.data, Mapping) and update.data.get("cause") == "workflow"
