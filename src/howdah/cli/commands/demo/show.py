"""What the demo does to the jobs and their workers, and what it sees of that in the database."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from howdah.cli.commands.demo import workload
from howdah.cli.commands.demo.workload import DELAYED, FLAKY, PERIODIC, SPECIAL, TO_CANCEL, TO_SURVIVE, Kind
from howdah.cli.process.worker_group import WorkerGroup, WorkerProcess
from howdah.model.job import Job
from howdah.model.results import Stats, TypeStats
from howdah.model.worker_info import WorkerInfo
from howdah.queue import JobQueue

News: TypeAlias = tuple[str, str]
"""A topic, which is reported once, and the text."""

WORKERS: Final = 2
SLOTS: Final = 8
LEASE: Final = 2.0
ARGUMENTS: Final = (
    *("--concurrency", str(SLOTS), "--threads", "4", "--children", "2"),
    *("--lease", f"{LEASE:g}s", "--heartbeat", "0.5s", "--sweep", "1s", "--poll", "0.5s", "--grace", "1s"),
)
PATIENCE: Final = 120.0
"""Seconds that all of it may take on a busy machine. It usually takes a tenth of that."""
_LOOK_EVERY: Final = 0.05
_HALFWAY: Final = 50
_NO_JOBS: Final = TypeStats()


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, so many seconds after the beginning."""

    after: float
    text: str
    bad: bool = False


class Board:
    """The latest state of the database, and the story until then. The show writes it, and the view reads it."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self.kinds = kinds
        self.stats: Mapping[str, TypeStats] = Stats({})
        self.special: Mapping[str, Job] = {}
        self.workers: Sequence[tuple[str, str]] = ()
        """The name of each worker, and its state."""
        self.story: list[Event] = []
        self.on_event: Callable[[Event], None] = lambda _: None
        self._began = time.monotonic()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    def add(self, text: str, *, bad: bool = False) -> None:
        event = Event(self.elapsed, text, bad)
        self.story.append(event)
        self.on_event(event)

    def ended(self, job_type: str) -> int:
        stats = self.stats.get(job_type, _NO_JOBS)
        return stats.completed + stats.failed + stats.cancelled

    def running(self, job_type: str) -> int:
        stats = self.stats.get(job_type, _NO_JOBS)
        return stats.claimed + stats.running

    def live(self, job_type: str) -> int:
        return self.stats.get(job_type, _NO_JOBS).pending + self.running(job_type)

    def total(self, kind: Kind) -> int:
        """How many jobs of a kind there are, or will be."""
        return kind.count if kind.count is not None else self.ended(kind.job_type) + self.live(kind.job_type)


class _CannotGoOn(Exception):
    """Something that must happen has not."""


class Show:
    """One run of the demo."""

    def __init__(self, queue: JobQueue, workers: WorkerGroup, board: Board, jobs: int) -> None:
        self.killed = ""
        """One sentence about the killed worker, once its jobs are back."""
        self._queue = queue
        self._workers = workers
        self._board = board
        self._jobs = jobs
        self._deadline = time.monotonic() + PATIENCE
        self._killed_at = 0.0
        self._known: dict[str, WorkerInfo] = {}
        self._told: set[str] = set()

    def play(self) -> bool:
        """Returns True when everything has happened, and False as soon as something cannot happen any more."""
        try:
            self._enqueue()
            self._start_workers()
            self._cancel_one_job()
            self._kill_one_worker()
            self._wait_for_all_jobs()
            self._stop_workers()
        except _CannotGoOn as reason:
            self._board.add(str(reason), bad=True)
            return False
        return True

    # The steps

    def _enqueue(self) -> None:
        self._board.special = workload.enqueue_all(self._queue, self._jobs)
        self._look()
        enqueued = sum(kind.count or 0 for kind in self._board.kinds)
        self._board.add(f"{enqueued:,} jobs are enqueued, the urgent ones last; a schedule adds more")

    def _start_workers(self) -> None:
        names = {self._workers.start(f"demo-{number}").name for number in range(1, WORKERS + 1)}
        self._until(lambda: names <= self._known.keys(), "the workers to start")

    def _cancel_one_job(self) -> None:
        self._until(lambda: self._special(TO_CANCEL).percent > 0, f"{TO_CANCEL} to run")
        job = self._special(TO_CANCEL)
        self._queue.cancel(job, "no longer needed")
        self._board.add(f"{TO_CANCEL}, which runs on {job.worker_id}, is cancelled")
        self._until(lambda: self._special(TO_CANCEL).ended, f"{TO_CANCEL} to stop")

    def _kill_one_worker(self) -> None:
        self._until(self._is_halfway, f"{TO_SURVIVE} to be halfway")
        victim = self._workers.named(self._special(TO_SURVIVE).worker_id)
        if victim is None:
            raise _CannotGoOn(f"{TO_SURVIVE} is not held by a worker of the demo")
        victim.kill()
        self._killed_at = time.monotonic()
        held = sum(job.worker_id == victim.name for job in self._held_jobs())
        self._board.add(f"{victim.name} is killed (SIGKILL) in the middle of {TO_SURVIVE}, with {held} jobs in hand")
        self._until(lambda: self._special(TO_SURVIVE).crashes > 0, f"the jobs of {victim.name} to come back")
        after = time.monotonic() - self._killed_at
        self._board.add(f"the jobs of {victim.name} are back, {after:.1f}s after it was killed")
        self._until(lambda: self._special(TO_SURVIVE).ended, f"{TO_SURVIVE} to end")
        film = self._special(TO_SURVIVE)
        self._board.add(f"{TO_SURVIVE} has {film.status} on {film.worker_id}, at attempt {film.attempts}")
        self.killed = (
            f"{victim.name} was killed with {held} jobs in hand; {film.worker_id} took them over {after:.1f}s later."
        )

    def _wait_for_all_jobs(self) -> None:
        others = [kind.job_type for kind in self._board.kinds if kind.job_type != PERIODIC]
        self._until(lambda: not any(map(self._board.live, others)), "all jobs to end")
        self._queue.schedules.delete(PERIODIC)
        self._until(lambda: not self._board.live(PERIODIC), f"the last {PERIODIC} to end")

    def _stop_workers(self) -> None:
        self._board.add("every job has ended; the worker that is left is stopped (SIGTERM)")
        for name, code in self._workers.stop().items():
            if code:
                raise _CannotGoOn(f"{name} ended with exit code {code}")

    # The state of the database

    def _until(self, happened: Callable[[], bool], what: str) -> None:
        # The last look may be older than what was just done.
        self._look()
        while not happened():
            if ended := self._workers.ended_unasked():
                raise _CannotGoOn(ended[0].describe_end())
            if time.monotonic() > self._deadline:
                raise _CannotGoOn(f"waited too long for {what}")
            time.sleep(_LOOK_EVERY)
            self._look()

    def _look(self) -> None:
        self._board.stats = self._queue.stats()
        self._board.special = {job.job_type: job for job in self._queue.list(job_type=SPECIAL, limit=len(SPECIAL))}
        self._known = {worker.worker_id: worker for worker in self._queue.workers()}
        self._board.workers = [(worker.name, self._state_of(worker)) for worker in self._workers.workers]
        for topic, text in self._news():
            if topic not in self._told:
                self._told.add(topic)
                self._board.add(text)

    def _special(self, job_type: str) -> Job:
        return self._board.special[job_type]

    def _is_halfway(self) -> bool:
        film = self._special(TO_SURVIVE)
        return film.status == "running" and film.percent >= _HALFWAY

    def _held_jobs(self) -> Iterator[Job]:
        yield from self._queue.list(status=("claimed", "running"), limit=1_000)

    def _state_of(self, process: WorkerProcess) -> str:
        worker = self._known.get(process.name)
        if process.was_killed:
            killed = f"killed {time.monotonic() - self._killed_at:.1f}s ago"
            return killed if worker is None else f"{killed}; declared dead after {LEASE:g}s"
        if worker is None:
            return f"pid {process.pid}, starting"
        return f"pid {process.pid}, {worker.running or 0} running, heartbeat {worker.age:.1f}s ago"

    # News

    def _news(self) -> Iterator[News]:
        for name, worker in self._known.items():
            yield name, f"{name} (pid {worker.pid}) has started"
        for kind in self._board.kinds[:3]:
            if self._board.ended(kind.job_type) == kind.count:
                yield kind.job_type, f"all {kind.count} {kind.job_type} (priority {kind.priority}) have ended"
        yield from self._news_of_the_flaky_job()
        if self._special(TO_CANCEL).ended:
            yield TO_CANCEL, f"{TO_CANCEL} has stopped"
        if self._special(DELAYED).ended:
            yield DELAYED, f"{DELAYED} has run, {workload.REMINDER_DELAY:g}s after it was enqueued, as planned"

    def _news_of_the_flaky_job(self) -> Iterator[News]:
        job = self._special(FLAKY)
        for error in job.errors:
            pause = (job.run_at - error.at).total_seconds()
            is_retried_later = job.status == "pending" and error is job.errors[-1] and pause > 0
            again = f"; again in {pause:.1f}s" if is_retried_later else ""
            yield f"{FLAKY} {error.attempt}", f"{FLAKY}, attempt {error.attempt}: {error.error}{again}"
        if job.status == "completed":
            yield FLAKY, f"{FLAKY}, attempt {job.attempts}: {job.result}"
