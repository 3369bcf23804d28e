"""The table of the design's "The life of a job", as pure functions: what each verb makes of a job, and of which.

The state machine of ``tests/properties`` and the protocol that is explored here both move jobs by this table. It is
written from the design, not from the SQL.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

LIVE = ("pending", "claimed", "running")
HELD = ("claimed", "running")
ENDED = ("completed", "failed", "cancelled")


class Life(NamedTuple):
    """The columns of a job that the table uses."""

    status: str = "pending"
    attempts: int = 0
    token: int = 0
    crashes: int = 0
    interruptions: int = 0
    cancel_asked: bool = False
    ahead: bool = False
    """Running, and not noted as begun: its claim started it before a slot was free."""


class Limits(NamedTuple):
    max_attempts: int
    max_crashes: int
    max_interruptions: int


Rule: TypeAlias = Callable[[Life, Limits], Life | None]
Table: TypeAlias = Mapping[tuple[str, str], Rule]


def after(verb: str, life: Life, limits: Limits, table: Table | None = None) -> Life | None:
    """The life after a verb; None if it changes nothing."""
    rule = (TABLE if table is None else table).get((verb, life.status))
    moved = rule(life, limits) if rule else None
    return moved and (moved if moved.status == "running" else moved._replace(ahead=False))


# Where a claim begins


def claim(life: Life, limits: Limits) -> Life | None:
    if life.attempts >= limits.max_attempts:
        return None
    return life._replace(status="claimed", attempts=life.attempts + 1, token=life.token + 1)


def claim_and_start(life: Life, limits: Limits) -> Life | None:
    claimed = claim(life, limits)
    # A suspect runs apart from others: it waits until that is arranged.
    return claimed and (claimed if claimed.crashes else start(claimed, limits))


def claim_ahead(life: Life, limits: Limits) -> Life | None:
    claimed = claim(life, limits)
    exact = claimed and (claimed.crashes or claimed.interruptions or claimed.attempts >= limits.max_attempts)
    return claimed if claimed is None or exact else claimed._replace(status="running", ahead=True)


def start(life: Life, limits: Limits) -> Life:
    return life._replace(status="running")


def note(life: Life, limits: Limits) -> Life | None:
    """It has begun, and has run for a while."""
    return life._replace(ahead=False) if life.ahead else None


def same(life: Life, limits: Limits) -> Life:
    return life


# Where it ends


def complete(life: Life, limits: Limits) -> Life:
    return life._replace(status="completed")


def complete_unfenced(life: Life, limits: Limits) -> Life:
    """By a plain statement: the holder of the job is fenced."""
    return _taken(life, "completed")


def abandon(life: Life, limits: Limits) -> Life:
    return life._replace(status="cancelled")


def spend(life: Life, limits: Limits, *, give_up: bool = False, fences: bool = True) -> Life:
    """The attempt counts."""
    token = life.token + fences
    if life.cancel_asked:
        return life._replace(status="cancelled", token=token)
    if give_up or life.attempts >= limits.max_attempts:
        return life._replace(status="failed", token=token)
    return life._replace(status="pending", token=token)


def refund(life: Life, limits: Limits) -> Life:
    """The attempt does not count."""
    if life.cancel_asked:
        return _taken(life, "cancelled")
    return _taken(life, "pending")._replace(attempts=life.attempts - 1)


def release_ahead(life: Life, limits: Limits) -> Life | None:
    return refund(life, limits) if life.ahead else None


def die(life: Life, limits: Limits) -> Life:
    """Its worker died. If it was started ahead, it may not have begun: it gets its attempt back, once."""
    if life.ahead and not life.interruptions and life.attempts < limits.max_attempts:
        return refund(life._replace(interruptions=life.interruptions + 1), limits)
    return crash(life, limits)


def time_out(life: Life, limits: Limits) -> Life | None:
    """The deadline counts from when the job is noted as begun."""
    return None if life.ahead else spend(life, limits)


def crash(life: Life, limits: Limits) -> Life:
    crashed = life._replace(crashes=life.crashes + 1)
    return spend(crashed, limits, give_up=crashed.crashes >= limits.max_crashes)


def interrupt(life: Life, limits: Limits) -> Life:
    interrupted = life._replace(interruptions=life.interruptions + 1)
    bearable = interrupted.interruptions <= limits.max_interruptions
    return refund(interrupted, limits) if bearable else spend(interrupted, limits)


def take_back_plainly(life: Life, limits: Limits) -> Life:
    """By the seed's own RecoverStaleJobs."""
    return _taken(life, "cancelled" if life.cancel_asked else "pending")


def _taken(life: Life, status: str) -> Life:
    return life._replace(status=status, token=life.token + 1)


# Besides claims


def cancel(life: Life, limits: Limits) -> Life:
    return _taken(life, "cancelled")


def ask_to_stop(life: Life, limits: Limits) -> Life | None:
    return None if life.cancel_asked else life._replace(cancel_asked=True)


def cancel_overdue(life: Life, limits: Limits) -> Life | None:
    return _taken(life, "cancelled") if life.cancel_asked else None


def expire(life: Life, limits: Limits) -> Life:
    return life._replace(status="cancelled")


def use_up(life: Life, limits: Limits) -> Life | None:
    return life._replace(status="failed") if life.attempts >= limits.max_attempts else None


def retry(life: Life, limits: Limits) -> Life:
    return Life(token=life.token + 1)


def _from(statuses: tuple[str, ...], verb: str, rule: Rule) -> dict[tuple[str, str], Rule]:
    return {(verb, status): rule for status in statuses}


fail = functools.partial(spend, fences=False)
give_up = functools.partial(spend, fences=False, give_up=True)

TABLE: Table = {
    ("claim", "pending"): claim,
    ("claim_and_start", "pending"): claim_and_start,
    ("claim_ahead", "pending"): claim_ahead,
    ("start", "claimed"): start,
    ("start", "running"): note,
    **_from(HELD, "report", same),
    **_from(HELD, "complete", complete),
    **_from(HELD, "fail", fail),
    **_from(HELD, "give_up", give_up),
    **_from(HELD, "abandon", abandon),
    ("snooze", "running"): refund,
    ("release", "claimed"): refund,
    ("release", "running"): release_ahead,
    ("interrupt", "claimed"): refund,
    ("interrupt", "running"): interrupt,
    ("crash", "running"): crash,
    ("worker_died", "claimed"): refund,
    ("worker_died", "running"): die,
    **_from(HELD, "lease_passed", spend),
    ("timed_out", "running"): time_out,
    ("cancel_overdue", "running"): cancel_overdue,
    ("expire", "pending"): expire,
    ("use_up", "pending"): use_up,
    ("cancel", "pending"): cancel,
    ("cancel", "claimed"): cancel,
    ("cancel", "running"): ask_to_stop,
    **_from(ENDED, "retry", retry),
    **_from(HELD, "plain_complete", complete_unfenced),
    **_from(HELD, "plain_fail", spend),
    **_from(HELD, "plain_recover", take_back_plainly),
}
