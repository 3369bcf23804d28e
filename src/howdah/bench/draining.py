"""To work: jobs that wait already, and handlers that do nothing. What is measured is the queue."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

from howdah.bench.arena import Arena
from howdah.bench.crew import Crew
from howdah.bench.handlers import BATCH_SIZE, NOTHING, NOTHING_IN_BATCH, NOTHING_IN_THREAD
from howdah.bench.scenario import JOBS_A_SECOND, Options, Play, Round, Scenario, rate
from howdah.queue import JobQueue


def drained(crew: Crew, queue: JobQueue, job_type: str, items: Iterable[Any]) -> float:
    """The seconds from the start of the first of these jobs until all of them have ended, and that is written.

    They are all there before: the type is paused until then.
    """
    queue.pause(job_type)
    jobs = queue.enqueue_many(job_type, items)
    crew.forget()
    queue.resume(job_type)
    crew.wait_until_handled(jobs)
    return crew.wait_until_all_ended() - crew.first


@contextlib.contextmanager
def _drain(arena: Arena, options: Options, job_type: str) -> Iterator[Play]:
    with options.crew(arena, job_type) as crew, arena.open_queue() as queue:

        def play(jobs: int) -> Round:
            return rate(jobs, drained(crew, queue, job_type, options.numbered(jobs)))

        yield play


ASYNC: Final = Scenario(
    what="drain",
    how="async handlers",
    meaning="jobs that wait are worked off by coroutines that do nothing",
    units={"": JOBS_A_SECOND},
    few=5_000,
    most=200_000,
    opened=lambda arena, options: _drain(arena, options, NOTHING),
)
IN_THREADS: Final = Scenario(
    what="drain-threads",
    how="plain functions",
    meaning="jobs that wait are worked off by plain functions in threads that do nothing",
    units={"": JOBS_A_SECOND},
    few=2_000,
    most=100_000,
    opened=lambda arena, options: _drain(arena, options, NOTHING_IN_THREAD),
)
IN_BATCHES: Final = Scenario(
    what="drain-batch",
    how=f"batches of {BATCH_SIZE}",
    meaning="jobs that wait are worked off by a handler that takes many in one call, and does nothing",
    units={"": JOBS_A_SECOND},
    few=10_000,
    most=300_000,
    opened=lambda arena, options: _drain(arena, options, NOTHING_IN_BATCH),
)
