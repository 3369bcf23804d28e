"""The plan of faults. The same seed makes the same plan."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from howdah.errors import InvalidInput

KILL: Final = "kill"
STOP: Final = "stop"
RESTART: Final = "restart"
DISCONNECT: Final = "disconnect"
HOLD: Final = "hold"
BURST: Final = "burst"
MEANINGS: Final = {
    KILL: "a worker is killed (SIGKILL), and another takes its place",
    STOP: "a worker is stopped (SIGSTOP) for longer than its lease, and goes on (SIGCONT)",
    RESTART: "a worker is asked to end (SIGTERM) while another takes its place",
    DISCONNECT: "the server ends a connection of a worker or a producer (pg_terminate_backend)",
    HOLD: "a transaction stays open, so that no dead row can be removed",
    BURST: "as many jobs as else in ten seconds come at once",
}
KINDS: Final = tuple(MEANINGS)
OF_WORKERS: Final = frozenset({KILL, STOP, RESTART})
"""Faults of a worker that may be disturbed."""
NONE: Final = "none"
_EVERY: Final = 15.0
_FROM, _UNTIL = 0.08, 0.88
"""Of the time: it begins undisturbed, and what is set going by the last of them is still seen."""


class Planned(NamedTuple):
    """A fault that is to come. ``target`` and ``how_long`` are from 0 to 1: a choice among the candidates, and a share of the usual length."""

    at: float
    kind: str
    target: float
    how_long: float


@dataclasses.dataclass(slots=True)
class Fault:
    """One that has happened. ``until`` is None for as long as it lasts; ``pid`` is the worker that it hit."""

    kind: str
    at: float
    until: float | None
    pid: int | None
    what: str
    held: frozenset[bytes] = frozenset()
    """The jobs that the worker held, where it was taken from them."""


def chosen(words: str | None) -> tuple[str, ...]:
    """The kinds that a user has named, in their own order; all by default."""
    if words is None:
        return KINDS
    named = [word.strip() for word in words.split(",")]
    if named == [NONE]:
        return ()
    if unknown := [word for word in named if word not in KINDS]:
        raise InvalidInput(f"there is no fault {unknown[0]!r}: choose from {', '.join(KINDS)}, or {NONE}")
    return tuple(kind for kind in KINDS if kind in named)


def schedule(seed: int, seconds: float, kinds: Sequence[str]) -> list[Planned]:
    """One about every 15 seconds, each kind as often as any other, and each at least once."""
    if not kinds:
        return []
    dice = random.Random(seed)
    count = max(len(kinds), round(seconds / _EVERY))
    begin, room = _FROM * seconds, (_UNTIL - _FROM) * seconds / count
    deck: list[str] = []
    planned = []
    for number in range(count):
        if not deck:
            deck = dice.sample(kinds, len(kinds))
        at = begin + (number + dice.random()) * room
        planned.append(Planned(at, deck.pop(), dice.random(), dice.random()))
    return planned
