"""What the ASGI apps of Howdah share: headers, the names of hosts, and refusals."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

Scope: TypeAlias = Mapping[str, Any]

_LOOPBACK: Final = re.compile(r"localhost|[a-z0-9.-]+\.localhost|127(\.[0-9]{1,3}){3}|\[::1\]")
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:/@\s]+)(:[0-9]{1,5})?")


def header(scope: Scope, wanted: bytes) -> str:
    """A header of the request; empty if there is none."""
    return next((value.decode("latin-1").strip() for name, value in scope["headers"] if name == wanted), "")


def host_name(host: str) -> str:
    """The name in a Host header, in lower case, without the port; empty if it is malformed."""
    found = _HOST.fullmatch(host)
    return found[1] if found else ""


def is_loopback(name: str) -> bool:
    """Whether the name of a host means this machine."""
    return _LOOPBACK.fullmatch(name) is not None


def place_of(origin: str) -> str:
    """Host and port of an origin; empty if it is malformed."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


async def refuse(
    send: Callable[[dict[str, Any]], Awaitable[None]],
    status: int,
    message: str,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Answers with a text."""
    body = f"{message}\n".encode()
    described = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(body)), **(headers or {})}
    await send({"type": "http.response.start", "status": status, "headers": encoded(described)})
    await send({"type": "http.response.body", "body": body})
