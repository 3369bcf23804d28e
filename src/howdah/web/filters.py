"""The filter of a list of jobs, as the address has it: parsed, checked, and written back."""

from __future__ import annotations

import dataclasses
import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any, Final, cast
from urllib.parse import urlencode

from psycopg.types.json import Jsonb

from howdah.checks import options
from howdah.errors import InvalidOption
from howdah.model.job import FINAL_STATUSES
from howdah.web.fields import moment

NAMES: Final = (
    "status", "type", "priority", "worker", "since", "until", "error", "key", "per", "workflow", "node", "path", "state",
)  # fmt: skip
STATES: Final = ("stalled", "scheduled")
_MOST_TEXT: Final = 500
_PRIORITY: Final = re.compile(r"(-?\d{1,10})(?:\.\.(-?\d{1,10}))?")


@dataclasses.dataclass(frozen=True, slots=True)
class Filter:
    """Which jobs are wanted. All of it must match; of status and type, one of several."""

    status: tuple[str, ...] = ()
    type: tuple[str, ...] = ()
    priority: str = ""
    worker: str = ""
    since: str = ""
    until: str = ""
    error: str = ""
    key: str = ""
    per: str = ""
    workflow: str = ""
    node: str = ""
    path: str = ""
    state: str = ""

    @property
    def is_empty(self) -> bool:
        return not any(value for _, value in self.pairs())

    @property
    def needs_contents(self) -> bool:
        """Whether it searches what a redacted job does not show."""
        return bool(self.path or self.error or self.key or self.per)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """As in an address: the parts that are set."""
        for name in NAMES:
            value = getattr(self, name)
            for each in value if isinstance(value, tuple) else (value,):
                if each:
                    yield name, each

    def query(self, **changed: Any) -> str:
        """The query of an address with this filter; a change to None or "" takes a part away."""
        kept = [(name, value) for name, value in self.pairs() if name not in changed]
        added = [(name, str(value)) for name, value in changed.items() if value not in (None, "")]
        return urlencode([*kept, *added])

    def described(self) -> dict[str, Any]:
        """For the audit."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name in NAMES if (value := getattr(self, name))
        }

    def arguments(self, now: datetime) -> dict[str, Any]:
        """Its parameters in the statement ``web/jobs``."""
        least, most = _priorities(self.priority)
        contains, path = _searched(self.path)
        statuses = list(self.status) or None
        if self.state == "stalled":
            statuses = ["running"]
        elif self.state == "scheduled":
            statuses = ["pending"]
        return {
            "statuses": statuses,
            "live": statuses is None or any(status not in FINAL_STATUSES for status in statuses),
            "ended": statuses is None or any(status in FINAL_STATUSES for status in statuses),
            "job_types": list(self.type) or None,
            "key": self.key or None,
            "flow_key": self.per or None,
            "worker": self.worker or None,
            "workflow": options.job_id(self.workflow) if self.workflow else None,
            "error": self.error or None,
            "least_priority": least,
            "most_priority": most,
            "since": moment(self.since, "since", now),
            "until": moment(self.until, "until", now),
            "stalled": self.state == "stalled",
            "scheduled": self.state == "scheduled",
            "contains": None if contains is None else Jsonb(contains),
            "path": path,
        }


def filter_of(given: Iterable[tuple[str, str]]) -> Filter:
    """The filter in a query or a form. Other names are left out; what cannot be meant is an InvalidOption."""
    found: dict[str, list[str]] = {}
    for name, value in given:
        if name in NAMES and value.strip():
            found.setdefault(name, []).append(_text(value.strip(), name))
    single = {name: values[-1] for name, values in found.items() if name not in ("status", "type")}
    made = Filter(
        status=tuple(options.statuses(cast(Any, list(dict.fromkeys(found.get("status", ())))))),
        type=tuple(options.job_types(list(dict.fromkeys(found.get("type", ()))))),
        **single,
    )
    if made.state and made.state not in STATES:
        raise InvalidOption(f"{made.state!r} is not a state: they are {', '.join(STATES)}")
    made.arguments(datetime.now(timezone.utc))
    return made


def _text(value: str, name: str) -> str:
    if len(value) > _MOST_TEXT:
        raise InvalidOption(f"{name} has more than {_MOST_TEXT} characters")
    if re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", value):
        raise InvalidOption(f"{name} has control characters")
    return value


def _priorities(written: str) -> tuple[int | None, int | None]:
    if not written:
        return None, None
    match = _PRIORITY.fullmatch(written)
    if match is None:
        raise InvalidOption(f"priority is {written!r}: write a number such as 100, or a range such as 50..150")
    least = options.integer(int(match[1]), "priority")
    return least, least if match[2] is None else options.integer(int(match[2]), "priority")


def _searched(written: str) -> tuple[Any, str | None]:
    """JSON that the arguments contain, or a path of them."""
    if not written:
        return None, None
    if written.startswith(("{", "[")):
        try:
            return json.loads(written), None
        except ValueError as error:
            raise InvalidOption(f"{written!r} is not JSON: {error}") from None
    if not written.startswith(("$", "strict", "lax", "exists", "(")):
        raise InvalidOption(
            f'arguments are searched by a path such as $.user == 7, or by JSON such as {{"user": 7}}, not by {written!r}'
        )
    return None, written


def ids_of(given: Iterable[str], most: int) -> list[uuid.UUID]:
    """The jobs that are selected in a form."""
    found = list(dict.fromkeys(options.job_id(each) for each in given))
    if len(found) > most:
        raise InvalidOption(f"{len(found):,} jobs are selected; at most {most:,} can be at once: select by a filter")
    return found


def described_in_words(wanted: Filter) -> list[tuple[str, str]]:
    """The parts of a filter, for the page."""
    names: Mapping[str, str] = {"per": "flow key", "path": "arguments", "error": "error has"}
    return [(names.get(name, name), value) for name, value in wanted.pairs()]
