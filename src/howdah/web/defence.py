"""What every request passes before a page sees it, and every answer after: one layer over pages, API and streams.

In this order: the host, the length of the request, the visitor, and for what changes something the origin, the read-only mode and the role.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Final, TypeAlias

from howdah.asgi import Scope, encoded, header, host_name, is_loopback, place_of, refuse
from howdah.errors import InvalidOption
from howdah.web.access import LOCAL, Authenticate, Visitor, is_forwarded, is_local

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

log = logging.getLogger("howdah.web")

MOST_BODY: Final = 256 * 1024
MOST_QUERY: Final = 8 * 1024
MOST_WRONG: Final = 20
"""Wrong passwords that wait to be refused, from wherever they come. While so many wait, none is looked at."""
READING: Final = ("GET", "HEAD")

CSP: Final = (
    "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Refusal(Exception):
    """A request that is not served."""

    def __init__(self, status: int, reason: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = headers or {}


class Defence:
    """The ASGI app around the pages. ``scope["howdah.visitor"]`` is the visitor."""

    def __init__(self, inner: App, *, authenticate: Authenticate | None, hosts: Sequence[str], read_only: bool) -> None:
        if isinstance(hosts, str):
            raise InvalidOption("hosts is a list of names, such as ['jobs.example.com']")
        self._hosts = frozenset(name.lower() for name in hosts)
        if authenticate is None and any(not is_loopback(name) for name in self._hosts):
            raise InvalidOption(
                "hosts beyond this machine need authenticate=: Password(…), ProxyHeader(…), or a function of your own"
            )
        if "*" in self._hosts:
            raise InvalidOption("hosts are names, and * is none: an attacker can make a name of his own point here")
        self._inner = inner
        self._authenticate = authenticate
        self._read_only = read_only
        self.pause = 0.5
        """Seconds before a wrong password is refused: so few can be tried."""
        self._wrong = 0

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
        elif scope["type"] == "http":
            guarded = _with_headers(send)
            try:
                scope["howdah.visitor"] = await self._admit(scope)
                await self._inner(scope, _bounded(receive), guarded)
            except Refusal as refusal:
                await _refuse(guarded, scope, refusal)
        else:
            await send({"type": "websocket.close", "code": 1003})

    async def _admit(self, scope: Scope) -> Visitor:
        self._check_host(scope)
        if len(scope.get("query_string", b"")) > MOST_QUERY or _length(scope) > MOST_BODY:
            raise Refusal(413, "this request is too long")
        visitor = await self._visitor(scope)
        if scope["method"] not in READING:
            check_origin(scope)
            if self._read_only:
                raise Refusal(403, "this dashboard only reads: it was started with read_only")
            if not visitor.may_operate:
                raise Refusal(403, f"{visitor.name} is a viewer here, and only operators may change something")
        return visitor

    def _check_host(self, scope: Scope) -> None:
        host = header(scope, b"host").lower()
        name = host_name(host)
        if not (is_loopback(name) or (name and {name, host} & self._hosts)):
            raise Refusal(403, "this host name is not served here: add it to hosts, or --host-name")

    async def _visitor(self, scope: Scope) -> Visitor:
        if self._authenticate is None:
            if not is_local(scope):
                raise Refusal(403, "without authentication, only this machine is served")
            if is_forwarded(scope):
                raise Refusal(
                    403,
                    "a proxy forwarded this request, so it may come from anywhere, and without authentication only this machine is"
                    " served: set a password, or let the proxy authenticate",
                )
            return LOCAL
        if self._wrong >= MOST_WRONG and header(scope, b"authorization"):
            raise Refusal(429, "too many wrong passwords at once: try again in a second", {"retry-after": "1"})
        found = self._authenticate(scope)
        visitor = await found if inspect.isawaitable(found) else found
        if visitor is None:
            if header(scope, b"authorization"):
                await self._slow_down()
            realm = getattr(self._authenticate, "realm", None)
            asks = {"www-authenticate": f'Basic realm="{realm}", charset="UTF-8"'} if realm else {}
            raise Refusal(401, "this needs a login", asks)
        return visitor

    async def _slow_down(self) -> None:
        self._wrong += 1
        try:
            await asyncio.sleep(self.pause)
        finally:
            self._wrong -= 1


def is_api(scope: Scope) -> bool:
    """Whether a request is one of the API, whose errors are JSON."""
    path = str(scope["path"]).removeprefix(scope.get("root_path", ""))
    return f"{path}/".startswith("/api/v1/")


async def _refuse(send: Send, scope: Scope, refusal: Refusal) -> None:
    if not is_api(scope):
        await refuse(send, refusal.status, str(refusal), refusal.headers)
        return
    body = json.dumps({"error": str(refusal)}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), **refusal.headers}
    await send({"type": "http.response.start", "status": refusal.status, "headers": encoded(headers)})
    await send({"type": "http.response.body", "body": body})


def check_origin(scope: Scope) -> None:
    """Only pages of this origin may change something. A program shows that it is no page of another site by an Origin of its own."""
    site, origin = header(scope, b"sec-fetch-site").lower(), header(scope, b"origin").lower()
    if site:
        if site != "same-origin":
            raise Refusal(403, "a page of another site sent this request")
    elif not origin or place_of(origin) != header(scope, b"host").lower():
        raise Refusal(403, "this request has neither Sec-Fetch-Site: same-origin nor an Origin of this host")


def _length(scope: Scope) -> int:
    given = header(scope, b"content-length")
    return int(given) if given.isdecimal() and len(given) < 12 else 0


def _bounded(receive: Receive) -> Receive:
    """A body without a length is cut off, too."""
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > MOST_BODY:
            raise Refusal(413, "this request is too long")
        return message

    return bounded


def _with_headers(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name.lower() for name, _ in message.get("headers", ())}
            ours = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in given]
            if b"cache-control" not in given:
                ours.append((b"cache-control", b"no-store"))
            message["headers"] = [*message.get("headers", ()), *ours]
        await send(message)

    return guarded
