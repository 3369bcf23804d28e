"""Which jobs come: of a hundred some are quick, some are long, some fail, and so on. The same hundred again and again."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from howdah.model.priority import Priority

QUICK: Final = "soak_quick"
BRIEF: Final = "soak_brief"
THREAD: Final = "soak_thread"
FLAKY: Final = "soak_flaky"
EVENTS: Final = "soak_events"
KEYED: Final = "soak_keyed"
DELAYED: Final = "soak_delayed"
BATCH: Final = "soak_batch"
LONG: Final = "soak_long"
CHILD: Final = "soak_child"
JOB_TYPES: Final = (QUICK, BRIEF, THREAD, FLAKY, EVENTS, KEYED, DELAYED, BATCH, LONG, CHILD)

SHARES: Final = {
    QUICK: 40,
    BRIEF: 15,
    BATCH: 10,
    THREAD: 10,
    FLAKY: 6,
    EVENTS: 6,
    KEYED: 5,
    DELAYED: 5,
    LONG: 2,
    CHILD: 1,
}
"""Of a hundred jobs."""
ATTEMPTS: Final = 3
_DELAY: Final = 1.0
_KEYS: Final = 3
_SLOW: Final = frozenset({FLAKY, KEYED, LONG, CHILD})
"""They take long by themselves, whatever the queue does, so that they do not measure its latency."""
_FAILS_FOR_GOOD: Final = 10
"""One of so many hundreds has jobs that never succeed."""
_PRIORITIES: Final = (*[Priority.DISCOVERED] * 7, Priority.EXPLICIT, *[Priority.BACKFILL] * 2)


def _shuffled() -> tuple[str, ...]:
    types = [job_type for job_type, share in SHARES.items() for _ in range(share)]
    random.Random(0).shuffle(types)
    return tuple(types)


_PATTERN: Final = _shuffled()


class Piece(NamedTuple):
    """A job that is to come."""

    job_type: str
    data: Mapping[str, Any]
    options: Mapping[str, Any]


def piece(number: int, due: float) -> Piece:
    """The job with this number, which is to be there at this moment."""
    job_type = _PATTERN[number % len(_PATTERN)]
    data: dict[str, Any] = {"n": number, "due": due}
    options: dict[str, Any] = {"max_attempts": ATTEMPTS}
    if job_type == QUICK:
        options["priority"] = _PRIORITIES[number % len(_PRIORITIES)]
    elif job_type == FLAKY:
        data["fails"] = fails(number)
    elif job_type == KEYED:
        options["key"] = f"key {number % _KEYS}"
    elif job_type == DELAYED:
        data["due"] = due + _DELAY
        options["delay"] = _DELAY
    if job_type in _SLOW:
        data["due"] = 0.0
    return Piece(job_type, data, options)


def fails(number: int) -> int:
    """How many attempts are to fail, of a job that fails at all."""
    return ATTEMPTS if number // len(_PATTERN) % _FAILS_FOR_GOOD == 0 else 1
