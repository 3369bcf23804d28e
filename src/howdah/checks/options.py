"""Checks of options, before anything is sent. The errors say what is wrong, and what would be right."""

from __future__ import annotations

import difflib
import math
import re
import sys
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias, cast, get_args

from howdah.errors import InvalidJobType, InvalidOption
from howdah.model.job import STATUSES, Job, Status
from howdah.model.results import WhenFull

Seconds: TypeAlias = float | timedelta
"""A duration: seconds, or a timedelta."""

JobOrId: TypeAlias = Job | uuid.UUID | str

# The characters that [[:cntrl:]] names, and those that UTF-8 cannot encode.
_UNCLEAN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_INT_MAX = 2**31 - 1
_MOST = sys.float_info.max
_LONGEST = timedelta(days=36_500)
MAX_KEY_LENGTH = 200
MAX_NAME_LENGTH = 100
"""Of stages and events."""


def shown(value: object) -> str:
    """A value for a message: shortened, and without raising."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001
        return f"a {type(value).__name__} that cannot be printed"
    return text if len(text) <= 100 else f"{text[:100]}…"


def unknown(
    given: Iterable[str], known: Collection[str], whose: str, meant: Mapping[str, str] | None = None
) -> str | None:
    """What is wrong with the names of options, for an error. meant: the option that users of other queues mean by a name."""
    wrong = sorted(set(given) - set(known))
    if not wrong:
        return None
    near = {(meant or {}).get(name) or nearest(name, known) for name in wrong} - {""}
    hint = f". Did you mean {', '.join(sorted(near))}?" if near else ""
    return f"{', '.join(wrong)}: not an option of {whose}{hint} ({', '.join(sorted(known))})"


def nearest(name: object, known: Iterable[str]) -> str:
    """The one that was probably meant, or nothing."""
    return next(iter(difflib.get_close_matches(str(name), list(known), 1)), "")


def job_type(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidJobType(f"a job type is a str, not a {type(value).__name__}")
    if not value:
        raise InvalidJobType("a job type must not be empty")
    if len(value) > 50:
        raise InvalidJobType(f"the job type {value[:20]!r}… has {len(value)} characters; 50 are allowed")
    if _UNCLEAN.search(value):
        raise InvalidJobType(f"the job type {value!r} contains a control character or a lone surrogate")
    return value


def job_types(value: object) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Sequence | set | frozenset):
        raise InvalidJobType(f"job types are a list of str, not {shown(value)}")
    return [job_type(each) for each in value]


def when_full(value: object) -> WhenFull:
    if value not in get_args(WhenFull):
        raise InvalidOption(f"when_full is {', '.join(get_args(WhenFull))}, not {shown(value)}")
    return cast(WhenFull, value)


def name(value: object, option: str, longest: int) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= longest or _UNCLEAN.search(value):
        raise InvalidOption(
            f"{option} is a str of 1 to {longest} characters without control characters, not {shown(value)}"
        )
    return value


def text(value: object, option: str) -> str:
    if not isinstance(value, str):
        raise InvalidOption(f"{option} is a str, not {shown(value)}")
    return value


def integer(value: object, option: str, *, least: int = -_INT_MAX - 1, most: int = _INT_MAX) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidOption(f"{option} is an int, not {shown(value)}")
    if not least <= value <= most:
        raise InvalidOption(f"{option} is {shown(value)}; it must be between {least} and {most}")
    return int(value)


def number(value: object, option: str, *, least: float = 0, most: float = math.inf) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_MOST <= value <= _MOST:
        raise InvalidOption(f"{option} is a number, not {shown(value)}")
    if not least <= value <= most:
        raise InvalidOption(f"{option} is {shown(value)}; it must be {_between(least, most)}")
    return float(value)


def _between(least: float, most: float) -> str:
    return f"at least {least:g}" if most == math.inf else f"between {least:g} and {most:g}"


def moment(value: object, option: str) -> datetime:
    if not isinstance(value, datetime):
        raise InvalidOption(f"{option} is a datetime, not {shown(value)}")
    if value.utcoffset() is None:
        raise InvalidOption(f"{option} has no time zone: use datetime.now(timezone.utc), or {option}.astimezone()")
    return value


def span(value: object, option: str, *, positive: bool = False) -> timedelta:
    if isinstance(value, bool) or not isinstance(value, int | float | timedelta):
        raise InvalidOption(f"{option} is seconds or a timedelta, not {shown(value)}")
    try:
        length = value if isinstance(value, timedelta) else timedelta(seconds=value)
    except (OverflowError, ValueError) as error:
        raise InvalidOption(f"{option} is {shown(value)}, which is not a duration") from error
    if length < timedelta(0) or (positive and not length):
        raise InvalidOption(f"{option} is {shown(value)}; it must {'be positive' if positive else 'not be negative'}")
    if length > _LONGEST:
        raise InvalidOption(f"{option} is {shown(value)}; more than a hundred years is not supported")
    return length


def due(run_at: datetime | None, delay: Seconds | None) -> dict[str, datetime | timedelta | None]:
    if run_at is not None and delay is not None:
        raise InvalidOption("run_at and delay exclude each other: pass one of them")
    return {
        "run_at": None if run_at is None else moment(run_at, "run_at"),
        "delay": None if delay is None else span(delay, "delay"),
    }


def flow_key(value: object, option: str = "per") -> str:
    """Of numbers too, which are often the ids of customers: as the database would write them."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return name(value, option, MAX_KEY_LENGTH) if value != "" else ""


def cost(value: object) -> int:
    """Tokens of a rate."""
    return integer(value, "cost", least=1, most=1_000_000)


def job_id(value: JobOrId) -> uuid.UUID:
    if isinstance(value, Job):
        return value.id
    if isinstance(value, uuid.UUID):
        return value
    try:
        return uuid.UUID(value)
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidOption(f"{shown(value)} is not a job, nor the id of one (a UUID)") from error


def statuses(value: Status | Sequence[Status]) -> list[str]:
    if not isinstance(value, Sequence | set | frozenset):
        raise InvalidOption(f"status is one or several of {', '.join(STATUSES)}, not {shown(value)}")
    wanted: list[Any] = [value] if isinstance(value, str) else list(value)
    for status in wanted:
        if status not in STATUSES:
            raise InvalidOption(f"{shown(status)} is not a status: they are {', '.join(STATUSES)}")
    return wanted
