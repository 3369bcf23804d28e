"""How long a job waits where a worker has nothing to do: from before it is enqueued until its handler starts."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator
from typing import Final

from howdah.bench.arena import Arena
from howdah.bench.crew import Crew
from howdah.bench.handlers import PICKUP
from howdah.bench.measured import percentile
from howdah.bench.scenario import MILLISECONDS, Options, Play, Round, Scenario
from howdah.queue import JobQueue

SHARES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_PAUSE: Final = 0.02
"""Seconds between two jobs, more or less: no rhythm of the worker's own is to be met each time, nor missed."""


@contextlib.contextmanager
def _idle(arena: Arena, options: Options) -> Iterator[Play]:
    with options.crew(arena, PICKUP) as crew, arena.open_queue() as queue:
        yield lambda jobs: _send(crew, queue, options, jobs)


def _send(crew: Crew, queue: JobQueue, options: Options, jobs: int) -> Round:
    crew.forget()
    began = time.monotonic()
    for sent in range(jobs):
        queue.enqueue(PICKUP, options.filled({"sent": time.monotonic()}))
        time.sleep(_PAUSE * random.uniform(0.8, 1.2))
        crew.wait_until_sampled(sent + 1)
    seconds = time.monotonic() - began
    waits = [1_000 * sample.waited for sample in crew.samples()]
    return Round(jobs, seconds, {name: percentile(waits, share) for name, share in SHARES.items()}, {"": waits})


IDLE: Final = Scenario(
    what="pickup",
    how="",
    meaning="from the call of queue.enqueue to the handler's start, where workers have nothing to do",
    units=dict.fromkeys(SHARES, MILLISECONDS),
    few=25,
    usual=200,
    most=2_000,
    opened=_idle,
)
