"""Values as the database stores them: converted to JSON, checked, and through the queue's codec.

PostgreSQL's jsonb is stricter than Python's json: it has no NaN, no NUL and no lone surrogates. Python cannot
read back numbers of thousands of digits and values nested hundreds of levels deep: a job with such data could
never run. Each is refused with an error that names the place.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import sys
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta, timezone
from typing import Any, Final

from msgspec import to_builtins
from psycopg.types.json import Jsonb

from howdah.checks.context import Context
from howdah.errors import InvalidOption, InvalidPayload, PayloadTooLarge
from howdah.model.codec import PLAIN, Codec, Unreadable, encode_text

MAX_DEPTH: Final = 200
MAX_DIGITS: Final = 4300
MAX_ERROR_LENGTH: Final = 100_000
MAX_META_BYTES: Final = 64 * 1024
_MINUTE: Final = timedelta(minutes=1)


def _encoder(default: Callable[[Any], Any] | None = None) -> json.JSONEncoder:
    return json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=default)


_encode: Final = _encoder().encode


def stored_data(context: Context, job_type: str, data: Any, name: str = "data") -> Any:
    """The data of a job, checked by its handler, if that is in this process."""
    data = plain_json(context, data, name)
    if known := context.known.get(job_type):
        known.check(data)
    return stored_json(context, data, name)


def stored_json(context: Context, value: Any, name: str = "data") -> Any:
    value = {} if value is None else plain_json(context, value, name)
    return to_jsonb(value, codec=context.codec, max_bytes=context.max_payload_bytes, name=name)


def plain_json(context: Context, value: Any, name: str) -> Any:
    """The value, with what JSON does not have converted by the queue's ``json_default``, if it has one. Raises InvalidPayload."""
    if context.json_default is None:
        return value
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        _encode(value)
        return value
    try:
        text = _encoder(context.json_default).encode(value)
    except Exception as error:
        _find_fault(value, name, context.json_default)
        raise InvalidPayload(f"{name} cannot be stored as JSON: {error}") from error
    return json.loads(text)


def json_default(value: Any) -> Any:
    """Converts to JSON what typed arguments may be, too: datetimes, dates, times, timedeltas, Decimals, UUIDs, bytes, enums, sets,
    dataclasses, msgspec Structs and pydantic models. For ``JobQueue(json_default=json_default)``. Raises TypeError for others.
    """
    # A class's own code may raise anything, and its message may contain values.
    with contextlib.suppress(Exception):
        return as_json_with_moments(value)
    raise TypeError(f"a {type(value).__name__} cannot be stored as JSON")


def stored_text(context: Context, text: str | None) -> str | None:
    return None if text is None else encode_text(context.codec, clean_text(text)[:MAX_ERROR_LENGTH])


def stored_mapping(value: Mapping[str, Any], name: str) -> Any:
    if not isinstance(value, Mapping):
        raise InvalidOption(f"{name} is a dict, not a {type(value).__name__}")
    return to_jsonb(dict(value), codec=PLAIN, max_bytes=MAX_META_BYTES, name=name)


def to_jsonb(value: Any, *, codec: Codec, max_bytes: int | None, name: str) -> Jsonb:
    """The value as a parameter of type jsonb."""
    text = _dump(value, name)
    if max_bytes is not None and len(text) * 4 > max_bytes:
        _check_size(text, max_bytes, name)
    if codec is not PLAIN:
        text = _dump(codec.encode(value), name)
    return Jsonb(text, dumps=str)


def clean_text(text: str) -> str:
    """Text that PostgreSQL can store: an error is recorded even if its message has a NUL or a lone surrogate."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def _check_size(text: str, max_bytes: int, name: str) -> None:
    size = len(text.encode())
    if size > max_bytes:
        raise PayloadTooLarge(
            f"{name} is {size:,} bytes of JSON; the limit is {max_bytes:,}. Store it elsewhere (a table, a"
            " bucket) and enqueue a reference to it, or raise JobQueue(max_payload_bytes=…)."
        )


def _dump(value: Any, name: str) -> str:
    try:
        text = _encode(value)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        _find_fault(value, name)
        raise InvalidPayload(f"{name} cannot be stored as JSON: {error}") from error
    if "\\u0000" in text or text.count("[") + text.count("{") > MAX_DEPTH:
        _find_fault(value, name)
    return text


def _find_fault(root: Any, name: str, default: Callable[[Any], Any] | None = None) -> None:
    """Raises an error with the place of the fault. Without recursion: the value may be nested deeper than Python's stack."""
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
        elif default is None or isinstance(value, str | int | float | None):
            _check_scalar(value, path)
        else:
            pending.append((path, _converted(value, path, default), depth + 1))


def _converted(value: Any, path: str, default: Callable[[Any], Any]) -> Any:
    try:
        return default(value)
    except Exception as error:
        raise InvalidPayload(
            f"{path} is {_kind(value)}, which is not JSON, and json_default raised {type(error).__name__}"
        ) from error


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
            f"{path} is {_kind(value)}, which is not JSON: pass a str, number, bool, None, list or dict, or set"
            " JobQueue(json_default=…)"
        )


def _check_text(text: str, path: str) -> None:
    if "\x00" in text:
        raise InvalidPayload(f"{path} contains a NUL character, which PostgreSQL cannot store")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidPayload(f"{path} contains a lone surrogate, which is not valid Unicode") from error


# Python values as JSON


class Refused(ValueError):
    """Why a value cannot be stored, without the value; and the place inside it."""

    def __init__(self, reason: str, place: str = "") -> None:
        super().__init__(reason)
        self.place = place


def unreadable_mark(value: Unreadable) -> dict[str, Any]:
    """Its form in JSON, which no stored value can be mistaken for."""
    return {"howdah.unreadable": dataclasses.asdict(value)}


def as_json(value: Any, *, str_keys: bool = True, builtin_types: tuple[type, ...] = ()) -> Any:
    """A Python value as what JSON has: records, moments, sets and the like, written so that their type reads them back."""
    try:
        return to_builtins(
            value, str_keys=str_keys, builtin_types=builtin_types, order="deterministic", enc_hook=_plain
        )
    except TypeError:  # perhaps only a set that cannot be sorted
        return to_builtins(value, str_keys=str_keys, builtin_types=builtin_types, enc_hook=_plain)


def as_json_with_moments(value: Any) -> Any:
    return as_json(_in_whole_minutes(as_json(value, str_keys=False, builtin_types=(datetime,))))


def is_model(kind: Any) -> bool:
    """Whether it is a pydantic model. Does not import pydantic: if it is not loaded, there are no models."""
    pydantic = sys.modules.get("pydantic.main")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def _in_whole_minutes(value: Any) -> Any:
    """RFC 3339 has no seconds in offsets, as local mean times have. Such a moment is written in UTC: it would shift otherwise."""
    if isinstance(value, dict):
        return {_in_whole_minutes(key): _in_whole_minutes(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_in_whole_minutes(member) for member in value)
    if isinstance(value, datetime):
        offset = value.utcoffset()
        return value.astimezone(timezone.utc) if offset is not None and offset % _MINUTE else value
    return value


def _plain(value: Any) -> Any:
    """Converts what msgspec does not: pydantic's models, and subclasses of plain types."""
    if is_model(type(value)):
        return value.model_dump(mode="json", by_alias=True, round_trip=True)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, datetime):
        return datetime.combine(date(value.year, value.month, value.day), value.timetz())
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    raise Refused(f"a {type(value).__name__} cannot be stored as JSON")


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
