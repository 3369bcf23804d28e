"""The simulated workers: threads that claim in batches and drive the queue's verbs themselves."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Final

from howdah.cli.demo.tally import Station, Tally
from howdah.cli.demo.workload import FAILS_ALWAYS, FAILS_ONCE, Kind
from howdah.job import Job
from howdah.queue import JobQueue

WORKERS: Final = 6
BATCH_SIZE: Final = 5
_SHOW_SECONDS: Final = 7.0
_LONGEST_JOB: Final = 0.15
_LOOK_AGAIN_SECONDS: Final = 0.05


class Trouble(Exception):
    """What a simulated job stumbles over."""


class Crew:
    """Works until the tally says that it is over."""

    def __init__(self, queue: JobQueue, kinds: dict[str, Kind], tally: Tally, chance: random.Random) -> None:
        self._queue = queue
        self._kinds = kinds
        self._tally = tally
        self._paces = [random.Random(chance.random()) for _ in range(WORKERS)]
        self._job_seconds = min(_LONGEST_JOB, _SHOW_SECONDS * WORKERS / tally.total)

    def work(self) -> None:
        """Returns when every job has ended; raises what a worker could not get over."""
        with ThreadPoolExecutor(WORKERS, "demo-worker") as threads:
            try:
                workers = [threads.submit(self._work_at, number) for number in range(WORKERS)]
                self._watch(workers)
            finally:
                self._tally.over.set()

    def _watch(self, workers: Sequence[Future[None]]) -> None:
        wait(workers, return_when=FIRST_EXCEPTION)
        for worker in workers:
            if worker.done():
                worker.result()

    def _work_at(self, number: int) -> None:
        station = self._tally.stations[number]
        while not self._tally.over.is_set():
            batch = self._queue.claim(list(self._kinds), BATCH_SIZE, f"demo-worker-{number + 1}")
            if batch:
                self._tally.count_batch(len(batch))
                self._work_off(batch, station, self._paces[number])
            else:
                self._tally.over.wait(_LOOK_AGAIN_SECONDS)

    def _work_off(self, batch: Sequence[Job], station: Station, pace: random.Random) -> None:
        for position, job in enumerate(batch):
            if self._tally.over.is_set():
                self._queue.release(job)
                continue
            station.waiting = len(batch) - position - 1
            self._handle(job, station, pace)
        station.kind = None

    def _handle(self, job: Job, station: Station, pace: random.Random) -> None:
        kind = self._kinds[job.job_type]
        station.kind, station.subject = kind, f"{kind.subject} {job.data[kind.subject]}"
        self._queue.start(job)
        for step, stage in enumerate(kind.stages):
            station.stage, station.percent = stage, 100 * step // len(kind.stages)
            self._queue.progress(job, station.percent, stage)
            self._pretend(pace, len(kind.stages))
        station.percent = 100
        try:
            _stumble(job, kind)
        except Trouble as trouble:
            self._fail(job, kind, trouble)
        else:
            self._queue.complete(job, {"stages": len(kind.stages)})
            self._tally.count_completed(kind)

    def _fail(self, job: Job, kind: Kind, trouble: Trouble) -> None:
        if self._queue.fail(job, trouble, delay=0) == "failed":
            self._tally.count_failed(kind)
        else:
            self._tally.count_retried()

    def _pretend(self, pace: random.Random, stages: int) -> None:
        self._tally.over.wait(self._job_seconds / stages * pace.uniform(0.5, 1.5))


def _stumble(job: Job, kind: Kind) -> None:
    fails = job.data.get("fails")
    if fails == FAILS_ALWAYS or (fails == FAILS_ONCE and job.attempts == 1):
        raise Trouble(kind.trouble)
