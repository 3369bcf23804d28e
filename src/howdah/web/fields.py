"""Values in forms and addresses: written as text, checked, and read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Final

from howdah.checks import options
from howdah.errors import InvalidOption
from howdah.web import tree

_SPAN: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*(s|min|h|d)")
_WHOLE: Final = re.compile(r"-?[0-9]{1,10}")
_UNITS: Final = {"s": 1, "min": 60, "h": 3_600, "d": 86_400}


def span(written: str) -> timedelta | None:
    """A duration such as ``30s``, ``5min``, ``2h`` or ``1d``; None if the text is none."""
    match = _SPAN.fullmatch(written)
    if match is None:
        return None
    try:
        return timedelta(microseconds=round(Decimal(match[1]) * _UNITS[match[2]] * 1_000_000))
    except OverflowError:
        raise InvalidOption(f"{written!r} is longer than any time: write a smaller number") from None


def written_span(length: timedelta) -> str:
    """A duration as ``span`` reads it, exactly: in the largest unit of which it is a whole number."""
    seconds = Decimal(length // timedelta(microseconds=1)) / 1_000_000
    unit = next((unit for unit, size in reversed(_UNITS.items()) if seconds % size == 0), "s")
    return f"{seconds / _UNITS[unit]:f}{unit}"


def moment(written: str, name: str, now: datetime, *, ahead: bool = False) -> datetime | None:
    """A time: ISO 8601, in UTC if it has no zone, or so long ago, such as ``15min``. None if the field is empty.

    ahead: it is the time of something to come, and a duration is from now on.
    """
    if not written:
        return None
    try:
        if (away := span(written)) is not None:
            return now + away if ahead else now - away
        found = datetime.fromisoformat(written)
        return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise InvalidOption(
            f"{name} is {written!r}, which is no time: write 2026-11-18T09:30, or how long {'from now' if ahead else 'ago'}, such as"
            " 15min, 2h or 3d"
        ) from None


def whole(written: str, name: str) -> int:
    text = written.strip()
    if not _WHOLE.fullmatch(text):
        raise InvalidOption(f"{name} is {written!r}, which is not a whole number")
    return int(text)


def whole_numbers(fields: Mapping[str, str], *names: str) -> dict[str, int]:
    """The whole numbers in those of the fields that are not empty."""
    return {name: whole(written, name) for name in names if (written := fields.get(name, "").strip())}


def json_in(written: str, what: str) -> Any:
    """JSON that will be stored. Parts that the page hid must not be stored in the place of what they hide."""
    try:
        data = json.loads(written, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidOption(f"{what} not JSON: {error}") from None
    refuse_hidden_parts(data)
    return data


def refuse_hidden_parts(data: Any) -> None:
    """A form has what its page shows."""
    if not tree.is_whole(data):
        raise InvalidOption("a part of these arguments is hidden here: write it in full")


def new_job(fields: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of ``enqueue`` in a form. Raises InvalidOption."""
    made: dict[str, Any] = {
        "job_type": options.job_type(fields.get("type", "").strip()),
        "data": json_in(fields.get("data") or "{}", "the arguments are"),
        **whole_numbers(fields, "priority", "max_attempts"),
    }
    if written := fields.get("run_at", "").strip():
        made["run_at"] = moment(written, "run_at", datetime.now(timezone.utc), ahead=True)
    if written := fields.get("key", "").strip():
        made["key"] = written
    return made


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
