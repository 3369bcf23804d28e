"""Python values as what JSON has: records, moments, sets and the like, written so that they can be read back by type."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone
from typing import Any, Final

from msgspec import to_builtins

from howdah.model.codec import Unreadable

_MINUTE: Final = timedelta(minutes=1)


class Refused(ValueError):
    """A reason that holds no value, and the place inside of it."""

    def __init__(self, reason: str, place: str = "") -> None:
        super().__init__(reason)
        self.place = place


def unreadable_mark(value: Unreadable) -> dict[str, Any]:
    """What stands for it in JSON: never what somebody might have stored there."""
    return {"howdah.unreadable": dataclasses.asdict(value)}


def as_json(value: Any) -> Any:
    return _as_builtins(value, str_keys=True)


def as_json_with_moments(value: Any) -> Any:
    return as_json(_in_whole_minutes(_as_builtins(value, builtin_types=(datetime,))))


def is_model(kind: Any) -> bool:
    """Whether it is a pydantic model. Does not import pydantic: without it there is none."""
    pydantic = sys.modules.get("pydantic.main")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def _as_builtins(value: Any, **how: Any) -> Any:
    try:
        return to_builtins(value, order="deterministic", enc_hook=_plain, **how)
    except TypeError:  # perhaps only a set that cannot be sorted
        return to_builtins(value, enc_hook=_plain, **how)


def _in_whole_minutes(value: Any) -> Any:
    """RFC 3339 has no seconds in offsets, as of local mean times: such a moment is written in UTC, or it would shift."""
    if isinstance(value, dict):
        return {_in_whole_minutes(key): _in_whole_minutes(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_in_whole_minutes(member) for member in value)
    if isinstance(value, datetime):
        offset = value.utcoffset()
        return value.astimezone(timezone.utc) if offset is not None and offset % _MINUTE else value
    return value


def _plain(value: Any) -> Any:
    """What msgspec leaves to others: pydantic's models, and subclasses of plain types."""
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
