"""Values as JSON that PostgreSQL can store, or a typed error that names the place.

PostgreSQL's jsonb is stricter than Python's json: it has no NaN, no NUL and no lone surrogates. And
what Python cannot read back (numbers of thousands of digits, values nested hundreds deep) must not get
in, or the job could never run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from psycopg.types.json import Jsonb

from howdah.errors import InvalidPayload, PayloadTooLarge
from howdah.model.codec import Codec

MAX_DEPTH = 200
MAX_DIGITS = 4300


def to_jsonb(value: Any, *, codec: Codec, max_bytes: int | None, name: str) -> Jsonb:
    """The value as a parameter of type jsonb."""
    text = _dump(value, name)
    if max_bytes is not None and len(text) * 4 > max_bytes:
        _check_size(text, max_bytes, name)
    encoded = codec.encode(value)
    return Jsonb(text if encoded is value else _dump(encoded, name), dumps=_as_it_is)


def clean_text(text: str) -> str:
    """Text that PostgreSQL can store: an error is recorded even if its message is not clean."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def _as_it_is(text: str) -> str:
    return text


def _check_size(text: str, max_bytes: int, name: str) -> None:
    size = len(text.encode())
    if size > max_bytes:
        raise PayloadTooLarge(
            f"{name} is {size:,} bytes of JSON; the limit is {max_bytes:,}. Store it elsewhere (a table, a"
            " bucket) and enqueue a reference to it, or raise JobQueue(max_payload_bytes=…)."
        )


def _dump(value: Any, name: str) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        _find_fault(value, name)
        raise InvalidPayload(f"{name} cannot be stored as JSON: {error}") from error
    if "\\u0000" in text or text.count("[") + text.count("{") > MAX_DEPTH:
        _find_fault(value, name)
    return text


def _find_fault(root: Any, name: str) -> None:
    """Walks without recursion, because the value may be nested deeper than Python's stack."""
    pending: list[tuple[str, Any, int]] = [(name, root, 0)]
    while pending:
        path, value, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise InvalidPayload(f"{name} is nested more than {MAX_DEPTH} levels deep (at {path[:80]}…)")
        if isinstance(value, Mapping):
            for key, member in value.items():
                if not isinstance(key, str | int | float | bool | None):
                    raise InvalidPayload(f"{path} has a key of type {type(key).__name__}; keys are strings")
                _check_text(str(key), f"a key of {path}")
                pending.append((f"{path}.{key}", member, depth + 1))
        elif isinstance(value, list | tuple):
            pending.extend((f"{path}[{i}]", member, depth + 1) for i, member in enumerate(value))
        else:
            _check_scalar(value, path)


def _check_scalar(value: Any, path: str) -> None:
    if isinstance(value, str):
        _check_text(value, path)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidPayload(f"{path} is {value}, which JSON does not have")
    elif isinstance(value, int):
        if abs(value) >= 10**MAX_DIGITS:
            raise InvalidPayload(f"{path} is a number of more than {MAX_DIGITS:,} digits")
    elif value is not None:
        raise InvalidPayload(
            f"{path} is a {type(value).__name__}, which is not JSON: pass a str, number, bool, None, list or dict"
        )


def _check_text(text: str, path: str) -> None:
    if "\x00" in text:
        raise InvalidPayload(f"{path} contains a NUL character, which PostgreSQL cannot store")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidPayload(f"{path} contains a lone surrogate, which is not valid Unicode") from error
