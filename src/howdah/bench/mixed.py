"""An ordinary day: jobs of several types and priorities come at a steady rate while others are worked on.

One of ten is urgent, two of ten come in bulk and may wait, one runs in a thread. Of the rest some fail once and are tried
again, and a few fail for good.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from howdah.bench.arena import Arena
from howdah.bench.crew import Crew
from howdah.bench.handlers import BACKFILL, FILE, URGENT, USUAL
from howdah.bench.measured import percentile
from howdah.bench.scenario import JOBS_A_SECOND, MILLISECONDS, Options, Play, Round, Scenario
from howdah.bench.tally import MOST_SAMPLES
from howdah.bench.threads import together
from howdah.model.priority import Priority
from howdah.queue import JobQueue

_PRODUCERS: Final = 4
_PATTERN: Final = (URGENT, USUAL, USUAL, BACKFILL, USUAL, FILE, USUAL, BACKFILL, USUAL, USUAL)
_BULK: Final = 50
_FAILS_ONCE, _FAILS_FOR_GOOD = 20, 100
"""One of so many jobs."""
_ATTEMPTS: Final = 3
_SHARES: Final = {"p50": 0.5, "p99": 0.99}


class Call(NamedTuple):
    """What a producer does, and when: these jobs, by one call."""

    number: int
    """Of the last of its jobs."""
    job_type: str
    jobs: int


def plan(jobs: int) -> Iterator[Call]:
    """The calls for so many jobs. What comes in bulk is collected until it is enough, or the last."""
    collected = 0
    for number in range(jobs):
        job_type = _PATTERN[number % len(_PATTERN)]
        if job_type != BACKFILL:
            yield Call(number, job_type, 1)
            continue
        collected += 1
        if collected == _BULK:
            yield Call(number, BACKFILL, collected)
            collected = 0
    if collected:
        yield Call(jobs - 1, BACKFILL, collected)


def fails(call: Call) -> int:
    """How many attempts of this call's job are to fail."""
    if call.job_type != USUAL:
        return 0
    if call.number % _FAILS_FOR_GOOD == 2:
        return _ATTEMPTS
    return 1 if call.number % _FAILS_ONCE == 2 else 0


@contextlib.contextmanager
def _all_at_once(arena: Arena, options: Options) -> Iterator[Play]:
    crew = options.crew(arena, URGENT, USUAL, FILE, BACKFILL)
    with crew, arena.open_queue(pool_size=_PRODUCERS) as queue:
        yield lambda jobs: _day(crew, queue, options, jobs)


def _day(crew: Crew, queue: JobQueue, options: Options, jobs: int) -> Round:
    crew.forget()
    calls, lock = plan(jobs), threading.Lock()
    began = time.monotonic()

    def produce(stopped: threading.Event) -> None:
        while True:
            with lock:
                call = next(calls, None)
            if call is None:
                return
            due = began + call.number / options.rate
            if stopped.wait(max(due - time.monotonic(), 0)):
                return
            _enqueue(queue, options, call, due)

    together(_PRODUCERS, produce)
    crew.wait_until_sampled(jobs)
    seconds = crew.wait_until_all_ended() - began
    waits = _waits(crew)
    return Round(jobs, seconds, {"done": jobs / seconds, **_figures(waits)}, waits)


def _enqueue(queue: JobQueue, options: Options, call: Call, due: float) -> None:
    # When it was due, not when its turn came: a server that stalls the producers, too, must not look quick.
    data: dict[str, Any] = {"sent": due}
    if call.job_type == BACKFILL:
        queue.enqueue_many(BACKFILL, (options.filled(data) for _ in range(call.jobs)))
    else:
        queue.enqueue(call.job_type, options.filled({**data, "fails": fails(call)}), max_attempts=_ATTEMPTS)


def _waits(crew: Crew) -> dict[str, list[float]]:
    """The milliseconds that each job waited, by the priority."""
    waits: dict[str, list[float]] = defaultdict(list)
    for sample in crew.samples():
        waits[_label(sample.priority)].append(1_000 * sample.waited)
    return dict(waits)


def _figures(waits: Mapping[str, list[float]]) -> dict[str, float]:
    return {
        _figure(name, label): percentile(each, share)
        for label, each in waits.items()
        for name, share in _SHARES.items()
    }


def _label(priority: int) -> str:
    return f"priority {priority}"


def _figure(name: str, label: str) -> str:
    return f"{name}, {label}"


_UNITS: Final = {
    "done": JOBS_A_SECOND,
    **{
        _figure(name, _label(priority)): MILLISECONDS for priority in sorted(Priority, reverse=True) for name in _SHARES
    },
}

MIXED: Final = Scenario(
    what="mixed",
    how="",
    meaning="four types, three priorities, some failures: jobs come at a steady rate as others are done",
    units=_UNITS,
    few=500,
    seconds=5.0,
    least=len(_PATTERN),
    most=MOST_SAMPLES,
    opened=_all_at_once,
)
