"""When to try again: retry policies.

A policy is plain data, stored with the type or the job, so that the database applies it wherever an
attempt ends. Rules that need the exception itself (a callable, policies by class, a list of errors
that are final) are applied by the worker, which then sends the delay to the database.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from howdah.checks import options
from howdah.checks.options import Seconds
from howdah.errors import InvalidOption

if TYPE_CHECKING:
    from howdah.model.job import Job


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Exponential:
    """The delay grows by a factor with each attempt, up to ``max`` seconds."""

    delay: float = 2
    factor: float = 2
    max: float = 3600
    jitter: float = 0.2


@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    """The same delay each time, in seconds."""

    delay: float
    jitter: float = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Linear:
    """The delay times the number of the attempt, up to ``max`` seconds."""

    delay: float
    max: float = 3600
    jitter: float = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Immediately:
    """No delay."""


Delays: TypeAlias = Sequence[Seconds]
"""The delay after the first failure, after the second, and so on. There is one attempt more than delays, unless max_attempts is set."""


Policy: TypeAlias = Exponential | Fixed | Linear | Immediately
RetryCallable: TypeAlias = "Callable[[Job, BaseException], float | None]"
AnyPolicy: TypeAlias = "Policy | Delays | Mapping[str, Any]"
RetryRule: TypeAlias = "Policy | Delays | RetryCallable | Mapping[Any, Any]"
"""A mapping is a policy as data, or has policies by exception class. A type for its keys would refuse many a dict of the latter."""

_KINDS = {Exponential: "exponential", Fixed: "fixed", Linear: "linear", Immediately: "none"}
_RANGES = {"delay": (0, 10**9), "factor": (1, 1000), "max": (0, 10**9), "jitter": (0, 1)}
"""The kinds that the SQL function retry_delay knows. There is one more, "delays", which has no class."""
_MOST_DELAYS = 100
_LONGEST = timedelta(seconds=10**9)


def as_data(policy: AnyPolicy) -> dict[str, Any]:
    """The policy as the database stores it."""
    if isinstance(policy, Mapping):
        return _checked(dict(policy))
    if _is_list(policy):
        return _checked({"kind": "delays", "delays": policy})
    if isinstance(policy, Exponential | Fixed | Linear | Immediately):
        return _checked({"kind": _KINDS[type(policy)], **dataclasses.asdict(policy)})
    raise InvalidOption(
        "a retry policy is a list of delays, Exponential(…), Fixed(…), Linear(…), Immediately() or a dict, not"
        f" {options.shown(policy)}{_hint(policy)}"
    )


def attempts_of(policy: RetryRule | None) -> int | None:
    """How many attempts a list of delays means, if max_attempts is not set."""
    return len(policy) + 1 if _is_list(policy) else None


def _is_list(value: object) -> TypeGuard[Delays]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _checked(policy: dict[str, Any]) -> dict[str, Any]:
    kind = policy.get("kind")
    if kind == "delays":
        policy["delays"] = _seconds(policy.get("delays"))
    elif kind not in _KINDS.values():
        kinds = ", ".join([*_KINDS.values(), "delays"])
        raise InvalidOption(f"the kind of a retry policy is {kinds}, not {options.shown(kind)}")
    elif kind != "none" and "delay" not in policy:
        raise InvalidOption(f"a retry policy of the kind {kind} needs a delay, in seconds: {options.shown(policy)}")
    for name, (least, most) in _RANGES.items():
        if name in policy and not _is_number(policy[name], least, most):
            raise InvalidOption(
                f"the {name} of a retry policy is a number from {least:,} to {most:,}, not {options.shown(policy[name])}"
            )
    return policy


def _seconds(delays: object) -> list[float]:
    if not _is_list(delays) or not 1 <= len(delays) <= _MOST_DELAYS:
        raise InvalidOption(
            f"the delays of a retry policy are a list of 1 to {_MOST_DELAYS} durations, not {options.shown(delays)}"
        )
    spans = [options.span(each, "a delay of a retry policy") for each in delays]
    if max(spans) > _LONGEST:
        raise InvalidOption(f"a delay of a retry policy has at most {10**9:,} seconds, not {options.shown(max(spans))}")
    return [span.total_seconds() for span in spans]


def _is_number(value: object, least: float, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most


@dataclasses.dataclass(frozen=True, slots=True)
class Retries:
    """The retry options of a handler: the policy that is stored, and the rules that need the exception."""

    stored: dict[str, Any] | None = None
    by_class: Mapping[type[BaseException], dict[str, Any]] = dataclasses.field(default_factory=dict)
    decide: RetryCallable | None = None
    give_up: tuple[type[BaseException], ...] = ()


def retries(rule: RetryRule | None, give_up: Sequence[type[BaseException]] = ()) -> Retries:
    """Sorts a handler's ``retry=`` and ``give_up=`` into what is stored and what the worker applies."""
    finals = tuple(give_up)
    if not all(_is_exception_class(each) for each in finals):
        raise InvalidOption(f"give_up is a list of exception classes, not {options.shown(give_up)}")
    if rule is None:
        return Retries(give_up=finals)
    if isinstance(rule, Mapping):
        by_class = {kind: policy for kind, policy in rule.items() if isinstance(kind, type)}
        if not by_class:
            return Retries(stored=as_data({str(name): value for name, value in rule.items()}), give_up=finals)
        if len(by_class) < len(rule) or not all(issubclass(kind, BaseException) for kind in by_class):
            raise InvalidOption(f"retry by class is a dict of exception classes, not {options.shown(rule)}")
        return Retries(by_class={kind: as_data(policy) for kind, policy in by_class.items()}, give_up=finals)
    if isinstance(rule, Exponential | Fixed | Linear | Immediately) or _is_list(rule):
        return Retries(stored=as_data(rule), give_up=finals)
    if callable(rule):
        return Retries(decide=rule, give_up=finals)
    raise InvalidOption(
        "retry is a policy, a list of delays, a dict of policies by exception class or a function, not"
        f" {options.shown(rule)}{_hint(rule)}"
    )


def _hint(rule: object) -> str:
    is_number = isinstance(rule, int | float)
    return f". It says when a job is tried again; how often is max_attempts={rule}" if is_number else ""


def _is_exception_class(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def delay_of(policy: Mapping[str, Any], attempts: int) -> float:
    """Seconds until the next attempt, as the database would compute them from the same policy."""
    # Rounded as in the database, where a number may be too small for a float8.
    delay = round(float(policy.get("delay", 0)), 6)
    longest = float(policy.get("max", 10**9 if policy.get("kind") == "delays" else 3600))
    match policy.get("kind"):
        case "delays":
            delays = policy["delays"]
            seconds = round(float(delays[min(max(attempts, 1), len(delays)) - 1]), 6)
        case "fixed":
            seconds = delay
        case "linear":
            seconds = delay * attempts
        case "exponential":
            seconds = delay * round(float(policy.get("factor", 2)), 6) ** min(max(attempts - 1, 0), 60)
        case _:
            seconds = 0.0
    seconds = min(seconds, longest)
    return min(seconds * (1 + float(policy.get("jitter", 0)) * random.uniform(-1, 1)), longest)
