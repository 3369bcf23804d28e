"""Unique jobs: which jobs are the same, which earlier ones count, and what a later one does to them.

A rule is plain data, as the SQL function ``enqueue_unique`` takes it. It is stored with the type, so that SQL producers can use
it, too. The database hashes the arguments, so that a job gets the same key from Python and from SQL. It cannot where a codec has
encoded them: then ``digest`` does it here.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

from howdah.checks import options
from howdah.checks.options import Seconds
from howdah.errors import InvalidOption
from howdah.model.job import FINAL_STATUSES, Status

By: TypeAlias = Literal["arguments", "key"] | Sequence[str]
OnConflict: TypeAlias = Literal["keep", "replace", "reschedule", "raise"]
Rule: TypeAlias = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """A rule by which jobs of a type are unique: ``@queue.job(unique=Unique(by=("invoice",), within=3600))``.

    by: what the same jobs have in common: all ``"arguments"``, the ``"key"`` of the call, or the arguments of these names; a
        path such as ``"customer.id"`` leads into an argument. ``()``: the type alone.
    within: an earlier job counts for so long after it was enqueued; if not given, for as long as it is live.
    states: in which states an earlier job counts. If not given: the live ones, and completed and failed with ``within``;
        with the conflicts "replace" and "reschedule", only pending.
    conflict: what happens if an earlier job counts: "keep" returns it. "replace" gives it the new data and options, and
        "reschedule" the new due time, if it is still pending; else it is kept. "raise" raises DuplicateJob.
    """

    by: By = "arguments"
    within: Seconds | None = None
    states: Sequence[Status] | None = None
    conflict: OnConflict = "keep"

    def __post_init__(self) -> None:
        _checked_by(self.by)
        if self.conflict not in get_args(OnConflict):
            raise InvalidOption(
                f"conflict is {', '.join(get_args(OnConflict))}, not {options.shown(self.conflict)}",
            )
        if self.states is not None and not options.statuses(self.states):
            raise InvalidOption("states is empty: name the states in which an earlier job counts")
        if self.within is not None:
            options.span(self.within, "within", positive=True)
        elif self.states is not None and set(options.statuses(self.states)) & set(FINAL_STATUSES):
            raise InvalidOption("states has some of ended jobs: set within=, the time for which they count")

    @property
    def rule(self) -> dict[str, Any]:
        """As the database stores it."""
        seconds = None if self.within is None else options.span(self.within, "within").total_seconds()
        states = None if self.states is None else options.statuses(self.states)
        by = self.by if isinstance(self.by, str) else list(self.by)
        given = {"by": by, "within": seconds, "states": states, "conflict": self.conflict}
        return {name: value for name, value in given.items() if value is not None}


UniqueOption: TypeAlias = bool | Literal["key"] | Sequence[str] | Unique
"""``unique=``: True for all arguments, "key" for the key of the call, names of arguments, or a rule. False: not unique."""


def unique_rule(
    unique: UniqueOption | None, debounce: Seconds | None, throttle: Seconds | None, *, has_key: bool = False
) -> Rule | None:
    """The rule that these options mean; None if they mean none."""
    if debounce is not None and throttle is not None:
        raise InvalidOption("debounce and throttle exclude each other: pass one of them")
    if debounce is None and throttle is None:
        if unique is None or unique is False:
            return None
        return unique.rule if isinstance(unique, Unique) else Unique(by=_by(unique)).rule
    if isinstance(unique, Unique) or unique is False:
        raise InvalidOption(
            "debounce and throttle are rules of their own: pass what their jobs have in common as unique=True,"
            ' unique="key" or unique=("name",), or a whole rule as unique=Unique(…) without them'
        )
    by = ("key" if has_key else "arguments") if unique is None else _by(unique)
    if throttle is not None:
        return Unique(by=by, within=options.span(throttle, "throttle", positive=True)).rule
    delay = options.span(debounce, "debounce", positive=True).total_seconds()
    return {**Unique(by=by, conflict="replace").rule, "delay": delay}


def _by(unique: Literal[True, "key"] | Sequence[str]) -> By:
    return "arguments" if unique is True else _checked_by(unique)


def _checked_by(by: object) -> By:
    if by in ("arguments", "key"):
        return by
    if isinstance(by, str) or not isinstance(by, Sequence) or not all(isinstance(each, str) and each for each in by):
        names = f'("{by}",)' if isinstance(by, str) else '("invoice",)'
        raise InvalidOption(
            f'what unique jobs have in common is "arguments", "key" or names of arguments, such as {names}, not {options.shown(by)}'
        )
    return by


def digest(data: Any, rule: Rule) -> str:
    """The key of a job whose arguments the database cannot read."""
    by = rule["by"]
    common = data if by == "arguments" else {path: _at(data, path) for path in by}
    text = json.dumps(common, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(f"{by} {text}".encode()).hexdigest()


def _at(data: Any, path: str) -> Any:
    for name in path.split("."):
        data = data.get(name) if isinstance(data, Mapping) else None
    return data
