"""What ``howdah bench`` measures: enqueueing, draining and pickup. Each is warmed up once and then played in rounds."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from typing import Any, Final, TypeAlias

from howdah.cli.commands.bench.figures import Figure, percentile
from howdah.cli.commands.bench.handlers import ASYNC, BATCH, BATCH_SIZE, PICKUP, THREAD
from howdah.cli.commands.bench.schema import BenchSchema
from howdah.cli.process.worker_group import WorkerGroup
from howdah.errors import HowdahError
from howdah.model.job import Job
from howdah.queue import JobQueue
from howdah.worker.event_loop import loop_factory

PATIENCE: Final = 60.0
"""Seconds without any progress, after which something must be wrong."""
THREADS: Final = 16
_LOOK_EVERY: Final = 0.01
"""Seconds between two looks at the database. More looks would slow down what is measured."""
_SECONDS_OF_A_ROUND: Final = 2.0
_PICKUP_PAUSE: Final = 0.02
"""Seconds between two jobs, more or less, so that no rhythm of the worker is met or missed each time."""
_PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The user's options."""

    jobs: int | None = None
    rounds: int = 3
    processes: int = 1
    concurrency: int | None = None
    payload: int = 0

    def filled(self, data: dict[str, Any]) -> dict[str, Any]:
        """The data of a job, made larger by ``payload`` bytes."""
        return {**data, "filler": "x" * self.payload} if self.payload else data

    def numbered(self, jobs: int) -> Iterator[dict[str, Any]]:
        return (self.filled({"n": number}) for number in range(jobs))


@dataclasses.dataclass(frozen=True, slots=True)
class Round:
    """One round: each figure by its name, and the ``samples`` that it was made of, where they are kept."""

    jobs: int
    seconds: float
    values: Mapping[str, float]
    samples: Sequence[float] = ()


Play: TypeAlias = Callable[[int], Round]
"""Plays one round, of so many jobs."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One measurement.

    few: the jobs of the warm-up. usual: the jobs of a round; None for as many as take some seconds here. most: the upper limit.
    """

    what: str
    how: str
    meaning: str
    few: int
    most: int
    usual: int | None = None
    units: Mapping[str, str] = dataclasses.field(default_factory=lambda: {"": "jobs/s"})
    opened: Callable[[BenchSchema, Options], AbstractContextManager[Play]]

    @property
    def name(self) -> str:
        return f"{self.what}, {self.how}" if self.how else self.what


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """All rounds of a scenario."""

    scenario: Scenario
    warm_up: Round
    rounds: tuple[Round, ...]

    @property
    def figures(self) -> list[Figure]:
        return [
            Figure(name, unit, tuple(each.values[name] for each in self.rounds))
            for name, unit in self.scenario.units.items()
        ]

    def as_data(self) -> dict[str, Any]:
        return {
            "what": self.scenario.what,
            "how": self.scenario.how,
            "meaning": self.scenario.meaning,
            "figures": [figure.as_data() for figure in self.figures],
            "warm_up": dataclasses.asdict(self.warm_up),
            "rounds": [dataclasses.asdict(each) for each in self.rounds],
        }


def run(
    scenario: Scenario, schema: BenchSchema, options: Options, on_round: Callable[[Scenario, int, Round], None]
) -> Result:
    """``on_round`` is called between the rounds; the number of the warm-up is 0."""
    schema.renew()
    with scenario.opened(schema, options) as play:
        warm_up = play(min(scenario.few, options.jobs or scenario.few))
        on_round(scenario, 0, warm_up)
        jobs = jobs_of_a_round(scenario, options, warm_up)
        rounds = []
        for number in range(1, options.rounds + 1):
            rounds.append(play(jobs))
            on_round(scenario, number, rounds[-1])
    return Result(scenario, warm_up, tuple(rounds))


def jobs_of_a_round(scenario: Scenario, options: Options, warm_up: Round) -> int:
    estimate = int(_SECONDS_OF_A_ROUND * warm_up.jobs / warm_up.seconds)
    return min(options.jobs or scenario.usual or max(scenario.few, estimate), scenario.most)


# Enqueueing


Enqueue: TypeAlias = Callable[[JobQueue, Iterator[dict[str, Any]]], object]


@contextlib.contextmanager
def _enqueueing(schema: BenchSchema, options: Options, enqueue: Enqueue) -> Iterator[Play]:
    with schema.open_queue(pool_size=THREADS) as queue:
        yield lambda jobs: _timed(jobs, lambda: enqueue(queue, options.numbered(jobs)))


def _one_by_one(queue: JobQueue, items: Iterator[dict[str, Any]]) -> None:
    for data in items:
        queue.enqueue(ASYNC, data)


def _from_threads(queue: JobQueue, items: Iterator[dict[str, Any]]) -> None:
    lock, stopped = threading.Lock(), threading.Event()

    def produce() -> None:
        while not stopped.is_set():
            with lock:
                data = next(items, None)
            if data is None:
                return
            queue.enqueue(ASYNC, data)

    with ThreadPoolExecutor(THREADS) as pool:
        try:
            done, _ = wait([pool.submit(produce) for _ in range(THREADS)], return_when=FIRST_EXCEPTION)
        finally:
            stopped.set()
    for producer in done:
        producer.result()


def _bulk(queue: JobQueue, items: Iterator[dict[str, Any]]) -> None:
    queue.enqueue_many(ASYNC, items)


@contextlib.contextmanager
def _awaiting(schema: BenchSchema, options: Options) -> Iterator[Play]:
    queue = schema.open_queue()

    async def enqueue(jobs: int) -> None:
        for data in options.numbered(jobs):
            await queue.aenqueue(ASYNC, data)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        yield lambda jobs: _timed(jobs, lambda: runner.run(enqueue(jobs)))
        runner.run(queue.aclose())


def _timed(jobs: int, work: Callable[[], object]) -> Round:
    began = time.monotonic()
    work()
    seconds = time.monotonic() - began
    return Round(jobs, seconds, {"": jobs / seconds})


# Draining and pickup


@contextlib.contextmanager
def _draining(schema: BenchSchema, options: Options, job_type: str) -> Iterator[Play]:
    with _workers(schema, options, job_type) as workers, schema.open_queue() as queue:

        def drain() -> None:
            queue.resume(job_type)
            _wait_until_none_is_left(schema, workers)

        def play(jobs: int) -> Round:
            queue.pause(job_type)
            queue.enqueue_many(job_type, options.numbered(jobs))
            return _timed(jobs, drain)

        yield play


@contextlib.contextmanager
def _picking_up(schema: BenchSchema, options: Options) -> Iterator[Play]:
    with _workers(schema, options, PICKUP) as workers, schema.open_queue() as queue:

        def pick_up() -> float:
            job = queue.enqueue(PICKUP, options.filled({"sent": time.monotonic()}))
            time.sleep(_PICKUP_PAUSE * random.uniform(0.8, 1.2))
            return 1_000 * _result_of(queue, workers, job)

        def play(jobs: int) -> Round:
            began = time.monotonic()
            waits = [pick_up() for _ in range(jobs)]
            figures = {name: percentile(waits, share) for name, share in _PERCENTILES.items()}
            return Round(jobs, time.monotonic() - began, figures, waits)

        yield play


@contextlib.contextmanager
def _workers(schema: BenchSchema, options: Options, job_type: str) -> Iterator[WorkerGroup]:
    """Workers as users start them, unless they were given other options."""
    arguments = ["--types", job_type, "--quiet"]
    if options.concurrency is not None:
        arguments += ["--concurrency", str(options.concurrency), "--threads", str(options.concurrency)]
    with WorkerGroup("howdah.cli.commands.bench.handlers:queue", schema.dsn, schema.name, *arguments) as workers:
        names = {workers.start(f"bench-{number}").name for number in range(1, options.processes + 1)}
        with schema.open_queue() as queue:
            _wait(lambda: names <= {worker.worker_id for worker in queue.workers()}, workers, "the workers to start")
        yield workers
        workers.stop()


def _wait_until_none_is_left(schema: BenchSchema, workers: WorkerGroup) -> None:
    left = None
    while True:
        with contextlib.suppress(_TooLong):
            return _wait(lambda: not schema.row("unfinished")["unfinished"], workers, "the jobs to end")
        # Counted rarely, because that is measured, too.
        before, left = left, schema.row("left")["jobs"]
        if left == before:
            raise HowdahError(f"the workers have stopped with {left:,} jobs left, for {PATIENCE:g} s now")


def _result_of(queue: JobQueue, workers: WorkerGroup, job: Job) -> float:
    found = job

    def has_ended() -> bool:
        nonlocal found
        found = queue.get(job.id)
        return found.ended

    _wait(has_ended, workers, "a job to end")
    return float(found.result)


class _TooLong(HowdahError):
    """What was waited for has not happened."""


def _wait(happened: Callable[[], bool], workers: WorkerGroup, what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        if ended := workers.ended_unasked():
            raise HowdahError(f"the worker {ended[0].describe_end()}")
        if time.monotonic() > deadline:
            raise _TooLong(f"waited {PATIENCE:g} s for {what}")
        time.sleep(_LOOK_EVERY)


SCENARIOS: Final = (
    Scenario(
        what="enqueue",
        how="one by one",
        meaning="queue.enqueue in a loop: each job is committed before the next one",
        few=200,
        most=20_000,
        opened=lambda schema, options: _enqueueing(schema, options, _one_by_one),
    ),
    Scenario(
        what="enqueue",
        how=f"{THREADS} threads",
        meaning=f"queue.enqueue from {THREADS} threads of one process at once, as a web server does",
        few=1_000,
        most=50_000,
        opened=lambda schema, options: _enqueueing(schema, options, _from_threads),
    ),
    Scenario(
        what="enqueue",
        how="async, one by one",
        meaning="await queue.aenqueue in a loop: each job is committed before the next one",
        few=200,
        most=20_000,
        opened=_awaiting,
    ),
    Scenario(
        what="enqueue",
        how="enqueue_many",
        meaning="queue.enqueue_many from a generator, all in one transaction",
        few=10_000,
        most=300_000,
        opened=lambda schema, options: _enqueueing(schema, options, _bulk),
    ),
    Scenario(
        what="drain",
        how="async handlers",
        meaning="waiting jobs are worked off by coroutines that do nothing",
        few=5_000,
        most=200_000,
        opened=lambda schema, options: _draining(schema, options, ASYNC),
    ),
    Scenario(
        what="drain",
        how="plain functions",
        meaning="waiting jobs are worked off by plain functions in threads that do nothing",
        few=2_000,
        most=100_000,
        opened=lambda schema, options: _draining(schema, options, THREAD),
    ),
    Scenario(
        what="drain",
        how=f"batches of {BATCH_SIZE}",
        meaning="waiting jobs are worked off by a handler that takes many in one call and does nothing",
        few=10_000,
        most=300_000,
        opened=lambda schema, options: _draining(schema, options, BATCH),
    ),
    Scenario(
        what="pickup",
        how="",
        meaning="from the call of queue.enqueue to the start of the handler, with idle workers",
        units=dict.fromkeys(_PERCENTILES, "ms"),
        few=25,
        usual=200,
        most=2_000,
        opened=_picking_up,
    ),
)
WHAT: Final = tuple(dict.fromkeys(scenario.what for scenario in SCENARIOS))


def chosen(what: Sequence[str]) -> list[Scenario]:
    """The scenarios of these words, in their own order; all if there are none."""
    return [scenario for scenario in SCENARIOS if not what or scenario.what in what]
