"""The life of a job, as the design's table has it: a model in plain Python, written from the table and not from the SQL.

What a verb makes of status, attempts, token, crashes and interruptions is in ``tests/model/table.py``, by which the
protocol is explored too. Here is the rest: times, places, leases, and events.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from tests.model.table import HELD, LIVE, Life, Limits, after

LEASE = timedelta(seconds=15.5)
UNREGISTERED_LEASE = timedelta(seconds=600.5)
RETRY_AFTER = timedelta(seconds=5)
CANCEL_GRACE = timedelta(seconds=30)
MAX_CRASHES = 2
MAX_INTERRUPTIONS = 1
ORDERED = "ordered"


@dataclasses.dataclass
class ModelJob:
    id: uuid.UUID
    job_type: str
    priority: int
    run_at: datetime
    first_due_at: datetime
    max_attempts: int
    key: str | None = None
    timeout: timedelta | None = None
    expires_at: datetime | None = None
    status: str = "pending"
    attempts: int = 0
    token: int = 0
    crashes: int = 0
    interruptions: int = 0
    ahead: bool = False
    worker: str | None = None
    claimed_at: datetime | None = None
    lease_until: datetime | None = None
    deadline_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    errors: int = 0
    has_report: bool = False
    events: int = 0
    seq: int = 0

    @property
    def live(self) -> bool:
        return self.status in LIVE

    @property
    def held(self) -> bool:
        return self.status in HELD

    @property
    def life(self) -> Life:
        asked = self.cancel_requested_at is not None
        return Life(self.status, self.attempts, self.token, self.crashes, self.interruptions, asked, self.ahead)

    def note(self, count: int = 1) -> None:
        """So many events more, of whatever kind."""
        self.has_report = True
        self.seq += count

    def note_if_it_spoke(self) -> None:
        if self.has_report:
            self.note()


@dataclasses.dataclass(frozen=True)
class Claim:
    """A claim of a worker: valid or, by now, stale."""

    id: uuid.UUID
    token: int


@dataclasses.dataclass
class ModelWorker:
    boot: uuid.UUID
    heartbeat_at: datetime
    fresh_since: datetime

    def beats_steadily(self, now: datetime) -> bool:
        return self.heartbeat_at >= now - LEASE / 2


class Model:
    def __init__(self, now: datetime) -> None:
        self.now = now
        self.jobs: dict[uuid.UUID, ModelJob] = {}
        self.workers: dict[str, ModelWorker] = {}
        self.paused: set[str] = set()

    # Producers and operators

    def enqueue(self, job: ModelJob) -> tuple[uuid.UUID, bool]:
        if job.id in self.jobs:
            return job.id, False
        taken = self._holder_of_key(job)
        if taken:
            return taken.id, False
        self.jobs[job.id] = job
        return job.id, True

    def cancel(self, job: ModelJob) -> bool:
        if not self._move(job, "cancel"):
            return False
        if job.status == "cancelled":
            job.note_if_it_spoke()
        return True

    def retry(self, job: ModelJob) -> bool:
        if self._holder_of_key(job) or not self._move(job, "retry"):
            return False
        job.run_at = job.first_due_at = self.now
        job.expires_at = None
        job.note_if_it_spoke()
        return True

    def reschedule(self, job: ModelJob, run_at: datetime) -> bool:
        if job.status != "pending":
            return False
        job.run_at = job.first_due_at = run_at
        return True

    def reprioritise(self, job: ModelJob, priority: int) -> bool:
        if job.status != "pending":
            return False
        job.priority = priority
        return True

    # Claims

    def claimable(self, job_types: Iterable[str], limit: int, start: int, *, head_goes_first: bool) -> list[ModelJob]:
        """Jobs with a flow key come only into free slots, and share a priority with the others: of a single job either gets it."""
        wanted = set(job_types) - self.paused
        plain = [job for job in self.jobs.values() if job.job_type in wanted - {ORDERED} and self._may_run(job)]
        heads = self._ordered_head() if ORDERED in wanted else []
        place: Callable[[ModelJob], Any] = lambda job: (-job.priority, job.run_at, job.id)  # noqa: E731
        taken: list[ModelJob] = []
        for level in sorted({job.priority for job in plain + heads}, reverse=True):
            others = sorted((job for job in plain if job.priority == level), key=place)
            left = limit - len(taken)
            if len(taken) < (min(start, limit) if start else limit) and (left > 1 or not others or head_goes_first):
                taken += [head for head in heads if head.priority == level]
            taken += others[: limit - len(taken)]
        line = sorted(taken, key=lambda job: (-job.priority, job.job_type != ORDERED, job.run_at, job.id))
        return sorted(line[:start], key=place) + sorted(line[start:], key=place)

    def claim(
        self,
        worker: str,
        job_types: Iterable[str],
        limit: int,
        start: int,
        *,
        ahead: bool = False,
        head_goes_first: bool = False,
    ) -> list[Claim]:
        claimed = self.claimable(job_types, limit, start, head_goes_first=head_goes_first)
        for place, job in enumerate(claimed):
            self._move(job, "claim_and_start" if place < start else "claim_ahead" if ahead else "claim")
            job.worker = worker
            job.claimed_at = self.now
            job.lease_until = None if worker in self.workers else self.now + UNREGISTERED_LEASE
        return [Claim(job.id, job.token) for job in claimed]

    # What a worker writes for its claim; False means that it is refused

    def start(self, claim: Claim) -> bool:
        job = self._moved(claim, "start")
        if job:
            self._renew(job)
        return job is not None

    def progress(self, claim: Claim) -> bool:
        job = self._moved(claim, "report")
        if job:
            self._renew(job)
            job.has_report = True
        return job is not None

    def tell(self, claim: Claim, *, events: int, logs: int) -> bool:
        job = self._moved(claim, "report")
        if job:
            self._renew(job)
            job.note(events + logs)
            job.events += events
        return job is not None

    def complete(self, claim: Claim) -> bool:
        """Also true of a job that this very claim has completed before."""
        job = self._moved(claim, "complete")
        if job:
            job.note_if_it_spoke()
        known = self._fenced(claim)
        return known is not None and known.status == "completed"

    def fail(self, claim: Claim, *, give_up: bool) -> bool:
        return self._settled(self._fenced(claim), "give_up" if give_up else "fail", self.now + RETRY_AFTER)

    def snooze(self, claim: Claim, run_at: datetime) -> bool:
        return self._settled(self._fenced(claim), "snooze", run_at)

    def release(self, claim: Claim, *, interrupted: bool) -> bool:
        return self._settled(self._fenced(claim), "interrupt" if interrupted else "release")

    def crash(self, claim: Claim) -> bool:
        return self._settled(self._fenced(claim), "crash")

    def abandon(self, claim: Claim) -> bool:
        job = self._moved(claim, "abandon")
        if job:
            job.note()
        return job is not None

    # Workers

    def register(self, worker: str, boot: uuid.UUID) -> None:
        old = self.workers.get(worker)
        goes_on = old is not None and old.boot == boot and old.beats_steadily(self.now)
        self.workers[worker] = ModelWorker(boot, self.now, old.fresh_since if old and goes_on else self.now)
        self._take_back(worker)

    def heartbeat(self, worker: str, boot: uuid.UUID) -> bool:
        if worker not in self.workers or self.workers[worker].boot != boot:
            return False
        row = self.workers[worker]
        row.fresh_since = row.fresh_since if row.beats_steadily(self.now) else self.now
        row.heartbeat_at = self.now
        return True

    def leave(self, worker: str, boot: uuid.UUID) -> bool:
        if worker not in self.workers or self.workers[worker].boot != boot:
            return False
        del self.workers[worker]
        self._take_back(worker)
        return True

    # The sweep

    def recover(self, sweeper: str | None) -> None:
        dead = [name for name, row in self.workers.items() if row.heartbeat_at < self.now - LEASE]
        for worker in dead if self._may_judge(sweeper) else []:
            self._take_back(worker)
            del self.workers[worker]
        for job in self._held():
            if job.lease_until is not None and job.lease_until < self.now:
                self._settled(job, "lease_passed")
        for job in self._held():
            if job.deadline_at is not None and job.deadline_at < self.now:
                self._settled(job, "timed_out", self.now + RETRY_AFTER)
        for job in self._held():
            overdue = job.cancel_requested_at is not None and job.cancel_requested_at < self.now - CANCEL_GRACE
            if overdue and self._move(job, "cancel_overdue"):
                job.note()
        for job in self.jobs.values():
            expired = job.expires_at is not None and job.expires_at <= self.now
            if (expired and self._move(job, "expire")) or self._move(job, "use_up"):
                job.note_if_it_spoke()

    def recover_stale_jobs(self, timeout: timedelta) -> int:
        recovered = 0
        for job in self._held():
            worker = self.workers.get(job.worker or "")
            if worker and worker.heartbeat_at < self.now - max(timeout, LEASE):
                self._settled(job, "worker_died")
            elif not worker and job.claimed_at is not None and job.claimed_at < self.now - timeout:
                self._settled(job, "lease_passed")
            else:
                continue
            recovered += 1
        return recovered

    # The statements of plain SQL clients

    def plain_complete(self, job: ModelJob) -> bool:
        changed = self._move(job, "plain_complete")
        if changed:
            job.note_if_it_spoke()
        return changed

    def plain_fail(self, job: ModelJob) -> bool:
        if job.attempts < job.max_attempts and self._is_alive(job):
            # It would go back to pending, and its worker beats.
            return False
        return self._settled(job, "plain_fail", self.now + RETRY_AFTER)

    def plain_recover(self) -> int:
        recovered = 0
        for job in self._held():
            if job.attempts >= job.max_attempts or self._is_alive(job):
                continue
            recovered += 1
            if self.workers.get(job.worker or ""):
                self._settled(job, "worker_died")
            else:
                self._move(job, "plain_recover")
                job.note()
        return recovered

    # What these share

    def _is_alive(self, job: ModelJob) -> bool:
        worker = self.workers.get(job.worker or "")
        return worker is not None and worker.heartbeat_at >= self.now - LEASE

    def _may_run(self, job: ModelJob) -> bool:
        due = job.status == "pending" and job.run_at <= self.now and job.attempts < job.max_attempts
        return due and (job.expires_at is None or job.expires_at > self.now)

    def _ordered_head(self) -> list[ModelJob]:
        lane = [job for job in self.jobs.values() if job.job_type == ORDERED and job.live]
        waiting = [job for job in lane if job.first_due_at <= self.now]
        if not waiting or any(job.held for job in lane):
            return []
        head = min(waiting, key=lambda job: (-job.priority, job.first_due_at, job.id))
        return [head] if self._may_run(head) else []

    def _holder_of_key(self, job: ModelJob) -> ModelJob | None:
        same = (o for o in self.jobs.values() if o.live and o.job_type == job.job_type and o.key == job.key)
        return next(same, None) if job.key is not None else None

    def _fenced(self, claim: Claim) -> ModelJob | None:
        job = self.jobs[claim.id]
        return job if job.token == claim.token else None

    def _moved(self, claim: Claim, verb: str) -> ModelJob | None:
        job = self._fenced(claim)
        return job if job and self._move(job, verb) else None

    def _held(self) -> list[ModelJob]:
        return [job for job in self.jobs.values() if job.held]

    def _renew(self, job: ModelJob) -> None:
        if job.lease_until is not None:
            job.lease_until = self.now + UNREGISTERED_LEASE

    def _may_judge(self, sweeper: str | None) -> bool:
        if sweeper is None:
            return True
        row = self.workers.get(sweeper)
        return row is not None and row.beats_steadily(self.now) and row.fresh_since <= self.now - LEASE

    def _take_back(self, worker: str) -> None:
        for job in self._held():
            if job.worker == worker:
                self._settled(job, "worker_died")

    def _settled(self, job: ModelJob | None, verb: str, run_at: datetime | None = None) -> bool:
        """Ends a claim without success. An attempt that counts leaves an error; a release before the start records nothing."""
        before = job and job.life
        if job is None or before is None or not self._move(job, verb, run_at):
            return False
        unbegun = before.status == "claimed" and verb in ("worker_died", "interrupt")
        unknown = verb == "worker_died" and before.status == "running" and job.crashes == before.crashes
        refunded = unbegun or unknown or verb in ("snooze", "release")
        if verb == "interrupt" and not unbegun:
            refunded = job.interruptions <= MAX_INTERRUPTIONS
        job.errors += not refunded
        if job.status != "pending" or not (unbegun or verb in ("snooze", "release")):
            job.note()
        return True

    def _move(self, job: ModelJob, verb: str, run_at: datetime | None = None) -> bool:
        """Changes a job as the table has it; False if that changes nothing."""
        before = job.life
        life = after(verb, before, Limits(job.max_attempts, MAX_CRASHES, MAX_INTERRUPTIONS))
        if life is None:
            return False
        job.status, job.attempts, token, job.crashes, job.interruptions, asked, job.ahead = life
        if token > before.token:
            job.token = max(token, round(self.now.timestamp() * 1_000_000))
        if asked != before.cancel_asked:
            job.cancel_requested_at = self.now if asked else None
        if life.status == "running" and not life.ahead and (before.status != "running" or before.ahead):
            job.deadline_at = self.now + job.timeout if job.timeout else None
        elif not job.held:
            job.lease_until = job.deadline_at = None
        if life.status == "pending":
            job.worker, job.run_at = None, run_at or job.run_at
        return True
