"""Which visitor sends a request, and what it may do.

An authentication is a callable: it gets the request's ASGI scope, and returns a ``Visitor``, or None for a stranger.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import hmac
import ipaddress
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, Literal, TypeAlias

from howdah.asgi import Scope, header
from howdah.errors import InvalidOption

Role: TypeAlias = Literal["viewer", "operator"]
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

MOST_NAME: Final = 100
_OF_PROXIES: Final = (b"forwarded", b"via", b"x-real-ip")
_UNFIT: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
SHORTEST_PASSWORD: Final = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Visitor:
    """Where a request comes from: a name for the audit, and a role. A viewer only looks; an operator may also change things."""

    name: str
    role: Role = "viewer"

    def __post_init__(self) -> None:
        # Wherever it comes from: the audit cannot store some of these characters, and others reverse or end a line of it.
        object.__setattr__(self, "name", _UNFIT.sub("\N{REPLACEMENT CHARACTER}", self.name)[:MOST_NAME])

    @property
    def may_operate(self) -> bool:
        return self.role == "operator"


Authenticate: TypeAlias = Callable[[Scope], Visitor | Awaitable[Visitor | None] | None]

LOCAL: Final = Visitor("local", "operator")


class Password:
    """Passwords by HTTP Basic, or as a bearer token: one for operators, one for viewers. The name that a browser sends with it is for the
    audit.

    Serve it by HTTPS outside of this machine: Basic sends the password with each request.
    """

    realm: Final = "Howdah"

    def __init__(self, *, operator: str | None = None, viewer: str | None = None) -> None:
        given: tuple[tuple[Role, str | None], ...] = (("operator", operator), ("viewer", viewer))
        # Digests have one length, so that a comparison takes as long for each.
        self._digests: dict[Role, bytes] = {
            role: _digest(_checked(role, text)) for role, text in given if text is not None
        }
        if not self._digests:
            raise InvalidOption("Password needs a password: operator=, viewer=, or both")
        if operator is not None and operator == viewer:
            raise InvalidOption("the passwords of operators and viewers are the same: viewers would be operators")

    def __call__(self, scope: Scope) -> Visitor | None:
        name, secret = _credentials(_text(scope, b"authorization"))
        if secret is None:
            return None
        found = [role for role, digest in self._digests.items() if hmac.compare_digest(_digest(secret), digest)]
        return Visitor(name or found[0], found[0]) if found else None


class ProxyHeader:
    """A header that a trusted proxy sets to the name of the user, such as ``X-Forwarded-User``.

    trusted: the addresses or networks of the proxies. From all others the header is not believed, and the request is a stranger's.
    operators: the names that may operate. Others are viewers.
    """

    def __init__(self, name: str, *, trusted: Sequence[str], operators: Collection[str] = ()) -> None:
        if isinstance(trusted, str) or not trusted:
            raise InvalidOption('trusted is a list of addresses or networks, such as ["10.0.0.0/8"]')
        if isinstance(operators, str):
            raise InvalidOption("operators is a list of names")
        self._name = name.lower().encode("latin-1")
        self._trusted = [_network(each) for each in trusted]
        self._operators = frozenset(operators)

    def __call__(self, scope: Scope) -> Visitor | None:
        name = _text(scope, self._name)
        # With two of them, it is not clear which one is the proxy's.
        is_single = sum(key == self._name for key, _ in scope["headers"]) == 1
        if not name or not is_single or len(name) > MOST_NAME or not self._is_trusted(scope):
            return None
        return Visitor(name, "operator" if name in self._operators else "viewer")

    def _is_trusted(self, scope: Scope) -> bool:
        address = client_address(scope)
        return address is not None and any(address in network for network in self._trusted)


def client_address(scope: Scope) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    client = scope.get("client")
    try:
        address = ipaddress.ip_address(client[0]) if client else None
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped if mapped is not None else address


def is_local(scope: Scope) -> bool:
    """Whether the request comes from this machine. A Unix socket has no address."""
    address = client_address(scope)
    return scope.get("client") is None or (address is not None and address.is_loopback)


def is_forwarded(scope: Scope) -> bool:
    """Whether a proxy says that it passes a request on: then the address is the proxy's, and the sender may be anywhere."""
    return any(name in _OF_PROXIES or name.startswith(b"x-forwarded-") for name, _ in scope["headers"])


def _text(scope: Scope, name: bytes) -> str:
    """A header as its sender means it: UTF-8 where it can be, or else Latin-1."""
    value = header(scope, name)
    try:
        return value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return value


def _credentials(given: str) -> tuple[str, str | None]:
    scheme, _, rest = given.partition(" ")
    if scheme.lower() == "bearer":
        return "", rest.strip()
    if scheme.lower() != "basic":
        return "", None
    try:
        name, found, secret = base64.b64decode(rest.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return "", None
    return (name[:MOST_NAME], secret) if found else ("", None)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _checked(role: Role, secret: str) -> str:
    if len(secret) < SHORTEST_PASSWORD:
        raise InvalidOption(
            f"the password of the {role} has fewer than {SHORTEST_PASSWORD} characters: choose a longer one"
        )
    return secret


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise InvalidOption(f"{text!r} is not an address or a network, such as 10.0.0.0/8") from None
