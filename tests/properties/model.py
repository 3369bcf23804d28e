"""The life of a job, as the design's table has it: a model in plain Python, written from the table and not from the SQL."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta

LEASE = timedelta(seconds=15.5)
UNREGISTERED_LEASE = timedelta(seconds=600.5)
RETRY_AFTER = timedelta(seconds=5)
CANCEL_GRACE = timedelta(seconds=30)
MAX_CRASHES = 2
MAX_INTERRUPTIONS = 1
ORDERED = "ordered"
MICROSECOND = timedelta(microseconds=1)


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
    worker: str | None = None
    claimed_at: datetime | None = None
    lease_until: datetime | None = None
    deadline_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    finals: int = 0
    errors: int = 0
    has_report: bool = False
    events: int = 0
    seq: int = 0

    @property
    def live(self) -> bool:
        return self.status in ("pending", "claimed", "running")

    @property
    def held(self) -> bool:
        return self.status in ("claimed", "running")

    def note(self, count: int = 1) -> None:
        """So many events more, of whatever kind."""
        self.has_report = True
        self.seq += count

    def note_if_it_spoke(self) -> None:
        if self.has_report:
            self.note()


@dataclasses.dataclass(frozen=True)
class Claim:
    """What a worker holds in its hand: valid or, by now, stale."""

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
        if job.status in ("pending", "claimed"):
            job.token += 1
            job.note_if_it_spoke()
            self._end(job, "cancelled")
            return True
        if job.status == "running" and job.cancel_requested_at is None:
            job.cancel_requested_at = self.now
            return True
        return False

    def retry(self, job: ModelJob) -> bool:
        if job.live or self._holder_of_key(job):
            return False
        job.status, job.attempts, job.token = "pending", 0, job.token + 1
        job.crashes = job.interruptions = 0
        job.run_at = job.first_due_at = self.now
        job.cancel_requested_at = job.expires_at = None
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

    def claimable(self, job_types: Iterable[str], limit: int) -> list[ModelJob]:
        wanted = set(job_types) - self.paused
        plain = [job for job in self.jobs.values() if job.job_type in wanted - {ORDERED} and self._may_run(job)]
        heads = self._ordered_head() if ORDERED in wanted else []
        return sorted(plain + heads, key=lambda job: (-job.priority, job.run_at, job.id))[:limit]

    def claim(self, worker: str, job_types: Iterable[str], limit: int, start: int) -> list[Claim]:
        claimed = self.claimable(job_types, limit)
        for place, job in enumerate(claimed):
            job.status, job.worker = "claimed", worker
            job.attempts, job.token = job.attempts + 1, job.token + 1
            job.claimed_at = max(self.now, job.claimed_at + MICROSECOND) if job.claimed_at else self.now
            job.lease_until = None if worker in self.workers else self.now + UNREGISTERED_LEASE
            # A suspect runs apart from others: it waits until that is arranged.
            if place < start and not job.crashes:
                self._begin(job)
        return [Claim(job.id, job.token) for job in claimed]

    # What a worker says of its claim; None means that it is refused

    def start(self, claim: Claim) -> bool:
        job = self._valid(claim, "claimed")
        if job:
            self._begin(job)
            self._renew(job)
        return job is not None

    def progress(self, claim: Claim) -> bool:
        job = self._valid(claim, "claimed", "running")
        if job:
            self._renew(job)
            job.has_report = True
        return job is not None

    def tell(self, claim: Claim, *, events: int, logs: int) -> bool:
        job = self._valid(claim, "claimed", "running")
        if job:
            self._renew(job)
            job.note(events + logs)
            job.events += events
        return job is not None

    def complete(self, claim: Claim) -> bool:
        job = self._valid(claim, "claimed", "running")
        if job:
            job.note_if_it_spoke()
            self._end(job, "completed")
        return job is not None

    def fail(self, claim: Claim, *, give_up: bool) -> bool:
        job = self._valid(claim, "claimed", "running")
        if job:
            self._spend(job, give_up=give_up, run_at=self.now + RETRY_AFTER, token=0)
        return job is not None

    def snooze(self, claim: Claim, run_at: datetime) -> bool:
        job = self._valid(claim, "running")
        if job:
            self._refund(job, run_at)
        return job is not None

    def release(self, claim: Claim, *, interrupted: bool) -> bool:
        job = self._valid(claim, "claimed", "running") if interrupted else self._valid(claim, "claimed")
        if job and job.status == "running":
            job.interruptions += 1
        if job and job.status == "running" and job.interruptions > MAX_INTERRUPTIONS:
            self._spend(job, run_at=job.run_at)
        elif job:
            self._refund(job, job.run_at, is_news=job.status == "running")
        return job is not None

    def crash(self, claim: Claim) -> bool:
        job = self._valid(claim, "running")
        if job:
            self._died_while_it_ran(job)
        return job is not None

    def abandon(self, claim: Claim) -> bool:
        job = self._valid(claim, "claimed", "running")
        if job:
            job.note()
            self._end(job, "cancelled")
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
                self._spend(job, run_at=job.run_at)
        for job in self._held():
            if job.status == "running" and job.deadline_at is not None and job.deadline_at < self.now:
                self._spend(job, run_at=self.now + RETRY_AFTER)
        for job in self._held():
            if job.cancel_requested_at is not None and job.cancel_requested_at < self.now - CANCEL_GRACE:
                job.token += 1
                job.note()
                self._end(job, "cancelled")
        for job in self.jobs.values():
            if job.status == "pending" and job.expires_at is not None and job.expires_at <= self.now:
                job.note_if_it_spoke()
                self._end(job, "cancelled")
            elif job.status == "pending" and job.attempts >= job.max_attempts:
                job.note_if_it_spoke()
                self._end(job, "failed")

    def recover_stale_jobs(self, timeout: timedelta) -> int:
        recovered = 0
        for job in self._held():
            worker = self.workers.get(job.worker or "")
            if worker and worker.heartbeat_at < self.now - max(timeout, LEASE):
                self._worker_died(job)
            elif not worker and job.claimed_at is not None and job.claimed_at < self.now - timeout:
                self._spend(job, run_at=job.run_at)
            else:
                continue
            recovered += 1
        return recovered

    # The statements of plain SQL clients

    def plain_complete(self, job: ModelJob) -> bool:
        if not job.held:
            return False
        job.token += 1
        job.note_if_it_spoke()
        self._end(job, "completed")
        return True

    def plain_fail(self, job: ModelJob) -> bool:
        if not job.held:
            return False
        self._spend(job, run_at=self.now + RETRY_AFTER)
        return True

    def plain_recover(self) -> int:
        recovered = 0
        for job in self._held():
            worker = self.workers.get(job.worker or "")
            if job.attempts >= job.max_attempts or (worker and worker.heartbeat_at >= self.now - LEASE):
                continue
            recovered += 1
            if worker:
                self._worker_died(job)
            elif job.cancel_requested_at is not None:
                job.token += 1
                job.note()
                self._end(job, "cancelled")
            else:
                job.note()
                self._back(job, job.run_at)
        return recovered

    # What these share

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

    def _valid(self, claim: Claim, *statuses: str) -> ModelJob | None:
        job = self.jobs[claim.id]
        return job if job.token == claim.token and job.status in statuses else None

    def _held(self) -> list[ModelJob]:
        return [job for job in self.jobs.values() if job.held]

    def _begin(self, job: ModelJob) -> None:
        job.status = "running"
        job.deadline_at = self.now + job.timeout if job.timeout else None

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
                self._worker_died(job)

    def _worker_died(self, job: ModelJob) -> None:
        if job.status == "claimed":
            self._refund(job, job.run_at)
        else:
            self._died_while_it_ran(job)

    def _died_while_it_ran(self, job: ModelJob) -> None:
        job.crashes += 1
        self._spend(job, give_up=job.crashes >= MAX_CRASHES, run_at=job.run_at)

    def _refund(self, job: ModelJob, run_at: datetime, *, is_news: bool = False) -> None:
        if is_news or job.cancel_requested_at is not None:
            job.note()
        if job.cancel_requested_at is not None:
            job.token += 1
            self._end(job, "cancelled")
        else:
            job.attempts -= 1
            self._back(job, run_at)

    def _spend(self, job: ModelJob, *, run_at: datetime, give_up: bool = False, token: int = 1) -> None:
        job.errors += 1
        job.note()
        if job.cancel_requested_at is not None or give_up or job.attempts >= job.max_attempts:
            job.token += token
            self._end(job, "cancelled" if job.cancel_requested_at is not None else "failed")
        else:
            self._back(job, run_at, token)

    def _back(self, job: ModelJob, run_at: datetime, token: int = 1) -> None:
        job.status, job.run_at, job.token = "pending", run_at, job.token + token
        job.worker = job.lease_until = job.deadline_at = None

    def _end(self, job: ModelJob, status: str) -> None:
        job.status = status
        job.finals += 1
        job.lease_until = job.deadline_at = None
