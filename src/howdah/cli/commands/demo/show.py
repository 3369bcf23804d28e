"""The show: what is done to the jobs and to their workers, and what is seen of it in the database."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from howdah.cli.arguments.datetimes import now
from howdah.cli.commands.demo import workload
from howdah.cli.commands.demo.board import Board
from howdah.cli.commands.demo.team import LEASE, Member, Team
from howdah.cli.commands.demo.workload import DELAYED, FLAKY, PERIODIC, SPECIAL, TO_CANCEL, TO_SURVIVE
from howdah.model.job import Job
from howdah.model.worker_info import WorkerInfo
from howdah.queue import JobQueue

News: TypeAlias = tuple[str, str]
"""What it is about, of which there is only one piece of news, and what there is to tell."""

PATIENCE: Final = 120.0
"""How many seconds everything may take, on a machine that has much else to do. It usually takes a tenth of that."""
_LOOK_EVERY: Final = 0.05
_MIDDLE: Final = 50


@dataclasses.dataclass(slots=True)
class Facts:
    """What the show knows and the database does not tell."""

    victim: str | None = None
    held: list[uuid.UUID] = dataclasses.field(default_factory=list)
    """The jobs that the killed worker had in hand."""
    back_after: float | None = None
    pids: list[int] = dataclasses.field(default_factory=list)
    exit_codes: dict[str, int] = dataclasses.field(default_factory=dict)
    problem: str | None = None
    """Why the show could not go on, if it could not."""


class _CannotGoOn(Exception):
    """Something that must happen has not."""


class Show:
    """One performance."""

    def __init__(self, queue: JobQueue, team: Team, board: Board, jobs: int, patience: float = PATIENCE) -> None:
        self.facts = Facts()
        self._queue = queue
        self._team = team
        self._board = board
        self._jobs = jobs
        self._deadline = time.monotonic() + patience
        self._killed_at = 0.0
        self._known: dict[str, WorkerInfo] = {}
        self._told: set[str] = set()

    def play(self) -> Facts:
        """Returns when everything has happened, or when something cannot happen any more."""
        try:
            self._enqueue()
            self._workers_come()
            self._one_job_is_cancelled()
            self._one_worker_is_killed()
            self._its_jobs_come_back()
            self._everything_ends()
        except _CannotGoOn as reason:
            self.facts.problem = str(reason)
            self._board.tell(str(reason), bad=True)
        return self.facts

    # The acts

    def _enqueue(self) -> None:
        self._board.special = workload.enqueue_all(self._queue, self._jobs)
        self._look()
        enqueued = sum(kind.count or 0 for kind in self._board.kinds)
        self._board.tell(f"{enqueued:,} jobs are enqueued, the urgent ones last")

    def _workers_come(self) -> None:
        self._team.start()
        self.facts.pids = [member.pid for member in self._team.members]
        names = {member.name for member in self._team.members}
        self._until(lambda: names <= self._known.keys(), "the workers come")

    def _one_job_is_cancelled(self) -> None:
        self._until(lambda: self._special(TO_CANCEL).percent > 0, f"{TO_CANCEL} runs")
        job = self._special(TO_CANCEL)
        self._queue.cancel(job, "nobody needs it any more")
        self._board.tell(f"{TO_CANCEL}, which runs on {job.worker_id}, is cancelled")
        self._until(lambda: self._special(TO_CANCEL).ended, f"{TO_CANCEL} stops")

    def _one_worker_is_killed(self) -> None:
        self._until(self._is_in_the_middle, f"{TO_SURVIVE} is in its middle")
        film = self._special(TO_SURVIVE)
        victim = self._team.named(film.worker_id)
        if victim is None:
            raise _CannotGoOn(f"{TO_SURVIVE} is held by {film.worker_id}, which is none of the demo's workers")
        victim.kill()
        self._killed_at = time.monotonic()
        self.facts.victim = victim.name
        self.facts.held = [job.id for job in self._live_jobs() if job.worker_id == victim.name]
        held = len(self.facts.held)
        in_hand = f"with {held} jobs in hand" if held > 1 else "which is all that it has"
        self._board.tell(f"{victim.name} is killed (SIGKILL) in the middle of {TO_SURVIVE}, {in_hand}")

    def _its_jobs_come_back(self) -> None:
        self._until(lambda: self._special(TO_SURVIVE).crashes > 0, f"the jobs of {self.facts.victim} come back")
        self.facts.back_after = time.monotonic() - self._killed_at
        self._board.tell(f"the jobs of {self.facts.victim} are back, {self.facts.back_after:.1f}s after its death")
        self._until(lambda: self._special(TO_SURVIVE).ended, f"{TO_SURVIVE} ends")
        film = self._special(TO_SURVIVE)
        self._board.tell(f"{TO_SURVIVE} has {film.status} on {film.worker_id}, at attempt {film.attempts}")

    def _everything_ends(self) -> None:
        others = [kind.job_type for kind in self._board.kinds if kind.job_type != PERIODIC]
        self._until(lambda: not any(map(self._board.live, others)), "all jobs end")
        self._queue.delete_schedule(PERIODIC)
        self._until(lambda: not self._board.live(PERIODIC), f"the last {PERIODIC} ends")
        self._board.tell("every job has ended; the worker that is left is stopped (SIGTERM)")
        self.facts.exit_codes = self._team.stop()

    # What it looks at

    def _until(self, happened: Callable[[], bool], what: str) -> None:
        # What was seen before may be from before what was just done.
        self._look()
        while not happened():
            if fallen := self._team.fallen():
                raise _CannotGoOn(_about(fallen[0]))
            if time.monotonic() > self._deadline:
                raise _CannotGoOn(f"waited too long until {what}")
            time.sleep(_LOOK_EVERY)
            self._look()

    def _look(self) -> None:
        self._board.stats = self._queue.stats()
        self._board.special = {job.job_type: job for job in self._queue.list(job_type=SPECIAL, limit=len(SPECIAL))}
        self._known = {worker.worker_id: worker for worker in self._queue.workers()}
        self._board.workers = [(member.name, self._state_of(member)) for member in self._team.members]
        for topic, news in self._news():
            self._tell_once(topic, news)

    def _special(self, job_type: str) -> Job:
        return self._board.special[job_type]

    def _is_in_the_middle(self) -> bool:
        film = self._special(TO_SURVIVE)
        return film.status == "running" and film.percent >= _MIDDLE

    def _live_jobs(self) -> Iterator[Job]:
        yield from self._queue.list(status=("claimed", "running"), limit=1_000)

    def _state_of(self, member: Member) -> str:
        worker = self._known.get(member.name)
        if member.was_killed:
            silence = f"killed {time.monotonic() - self._killed_at:.1f}s ago"
            return silence if worker is None else f"{silence}; given up for dead after {LEASE:g}s"
        if worker is None:
            return f"pid {member.pid}, starts"
        return f"pid {member.pid}, {worker.running or 0} running, heartbeat {worker.age:.1f}s ago"

    # What there is to tell

    def _news(self) -> Iterator[News]:
        for name, worker in self._known.items():
            yield name, f"{name} (pid {worker.pid}) has begun"
        yield from self._news_of_priorities()
        yield from self._news_of_the_flaky_one()
        export, reminder = self._special(TO_CANCEL), self._special(DELAYED)
        if export.ended:
            yield TO_CANCEL, f"{TO_CANCEL} has stopped"
        if reminder.ended:
            yield DELAYED, f"{DELAYED} has run, {workload.REMINDER_DELAY:g}s after it was enqueued, as it was told to"

    def _news_of_priorities(self) -> Iterator[News]:
        for kind in self._board.kinds[:3]:
            if self._board.ended(kind.job_type) == kind.count:
                yield kind.job_type, f"all {kind.count} {kind.job_type} (priority {kind.priority}) have ended"

    def _news_of_the_flaky_one(self) -> Iterator[News]:
        job = self._special(FLAKY)
        for error in job.errors:
            is_last = job.status == "pending" and error is job.errors[-1]
            again = f"; again in {(job.run_at - error.at).total_seconds():.1f}s" if is_last else ""
            yield f"{FLAKY} {error.attempt}", f"{FLAKY}, attempt {error.attempt}: {error.error}{again}"
        if job.status == "completed":
            yield FLAKY, f"{FLAKY}, attempt {job.attempts}: {job.result}"

    def _tell_once(self, topic: str, text: str) -> None:
        if topic not in self._told:
            self._told.add(topic)
            self._board.tell(text)


def _about(member: Member) -> str:
    return f"{member.name} has ended by itself, with exit code {member.code}"


def due_in(job: Job) -> float:
    """Seconds until a job is due."""
    return max((job.run_at - now()).total_seconds(), 0.0)
