"""How large a world is, and the rules of the protocol in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tests.model.table import TABLE, Life, Limits, Table

LIMITS = Limits(max_attempts=2, max_crashes=2, max_interruptions=1)


@dataclasses.dataclass(frozen=True)
class Flow:
    """All jobs have one flow key, and this is its rule."""

    limit: int = 1
    ordered: bool = False


@dataclasses.dataclass(frozen=True)
class Scene:
    """How large the world is, and what may happen in it."""

    name: str
    jobs: int = 1
    names: tuple[int, ...] = (0, 1)
    """The name of each process: two may have the same."""
    plain: frozenset[int] = frozenset()
    """Names that never register: psql, the seed's loop."""
    surprises: int | None = None
    """How many of them; None for any number."""
    kinds: frozenset[str] = frozenset()
    """Which surprises there are."""
    endings: tuple[str, ...] = ("complete", "fail", "snooze")
    room: int = 1
    """How many jobs a worker takes; one of them runs, the others are prefetched."""
    ahead: bool = False
    """Claims start all jobs that they return, also those that have to wait for a slot."""
    adrift: int = 1
    limits: Limits = LIMITS
    flow: Flow | None = None
    """If it is set, a claim is not one step, but several."""

    @property
    def budget(self) -> int:
        return self.surprises or 0


@dataclasses.dataclass(frozen=True)
class Rules:
    """The rules of the protocol. A broken variant differs in one of these."""

    table: Table = dataclasses.field(default_factory=lambda: TABLE)
    unfenced: frozenset[str] = frozenset()
    """Verbs that are guarded by the id only."""
    fence_of: Callable[[Life], int] = lambda life: life.token
    all_or_nothing: bool = False
    sweeps_only_passed_leases: bool = True
    sweeps_strays: bool = True
    fences_itself: bool = True
    attends: bool = True
    attends_by_boot: bool = True
    beats_by_boot: bool = True
    claims_at_most_asked: bool = True
    tokens_by_clock: bool = True
    """A claim's token is larger than any before, on every timeline; otherwise it is one more than the row's."""
    enqueues_once: bool = True
    renumbers: bool = True
    locks_keys: bool = True
    keeps_lock_to_commit: bool = True
    counts_under_lock: bool = True
    """Held jobs are counted by a statement that begins under the lock; otherwise by the snapshot of the claim's first one."""
    lifts_tokens: bool = True
    """A claim gives tokens above every held_from that it has seen; otherwise by the time at which it began."""
    marks_below_held: bool = True
    minds_heads: bool = True
