"""Waiting for jobs to end, and what they have returned."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeAlias

from howdah.checks import options
from howdah.checks.context import Context
from howdah.checks.options import JobOrId, Seconds
from howdah.db.plan import Emit, LoopWaker, Plan, ThreadWaker, Waker, read
from howdah.errors import InvalidOption, JobCancelled, JobFailed, NotEnded, NotPermitted, Undecodable, WaitTimeout
from howdah.model.codec import Unreadable
from howdah.model.job import Job, from_row
from howdah.verbs.operate import not_found
from howdah.watch.hub import Hub
from howdah.watch.mailbox import Mailbox
from howdah.watch.readers import EndWait, chunks

_CHUNK: Final = 500


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The progress of jobs that are waited for together. Jobs that were claimed but not started count as pending.

    percent: of all of them together; a job that has ended counts as 100, with whatever status.
    """

    total: int
    pending: int
    running: int
    completed: int
    failed: int
    cancelled: int
    percent: float

    @property
    def ended(self) -> int:
        """How many have ended, with whatever status."""
        return self.completed + self.failed + self.cancelled


OnProgress: TypeAlias = Callable[[Group], object]


def wait_for(
    hub: Hub,
    context: Context,
    jobs: JobOrId | Iterable[JobOrId],
    timeout: Seconds | None,
    on_progress: OnProgress | None,
) -> Any:
    """The job, or the jobs in the order given, once all have ended."""
    waiting = _Waiting(hub, context, jobs, timeout, counts=on_progress is not None)
    with contextlib.closing(hub.database.stream(waiting.plan(ThreadWaker))) as groups:
        for group in groups:
            if on_progress is not None:
                on_progress(group)
    return waiting.answer()


async def await_for(
    hub: Hub,
    context: Context,
    jobs: JobOrId | Iterable[JobOrId],
    timeout: Seconds | None,  # noqa: ASYNC109
    on_progress: Callable[[Group], Awaitable[object] | object] | None,
) -> Any:
    """``wait_for``, awaiting. If ``on_progress`` returns an awaitable, that is awaited, too."""
    waiting = _Waiting(hub, context, jobs, timeout, counts=on_progress is not None)
    async with contextlib.aclosing(hub.database.astream(waiting.plan(LoopWaker))) as groups:
        async for group in groups:
            if on_progress is not None and inspect.isawaitable(answer := on_progress(group)):
                await answer
    return waiting.answer()


class _Waiting:
    """A wait for some jobs, until the last of them has ended."""

    def __init__(
        self,
        hub: Hub,
        context: Context,
        jobs: JobOrId | Iterable[JobOrId],
        timeout: Seconds | None,
        *,
        counts: bool,
    ) -> None:
        self._hub = hub
        self._context = context
        self._is_one = isinstance(jobs, Job | uuid.UUID | str)
        self._ids = [options.job_id(each) for each in _listed(jobs)]
        self._timeout = None if timeout is None else options.span(timeout, "timeout").total_seconds()
        self._counts = counts
        self._deadline = None if self._timeout is None else time.monotonic() + self._timeout
        self._jobs: dict[uuid.UUID, Job] = {}
        self._pending: set[uuid.UUID] = set()
        self._group: Group | None = None

    def answer(self) -> Any:
        return self._jobs[self._ids[0]] if self._is_one else [self._jobs[id] for id in self._ids]

    def plan(self, waker: type[Waker]) -> Plan[None]:
        for ids in chunks(dict.fromkeys(self._ids), _CHUNK):
            yield from self._look(ids)
        self._pending = {id for id, job in self._jobs.items() if not job.ended}
        yield from self._report(_counted(self._jobs[id] for id in self._pending))
        if self._pending:
            self._check_time()
            types = frozenset(self._jobs[id].job_type for id in self._pending)
            wait = EndWait(Mailbox(waker(), self._hub.wake), set(self._pending), types, self._counts)
            self._hub.join(wait)
            try:
                yield from self._wait(wait.mailbox)
            finally:
                self._hub.leave(wait)

    def _look(self, ids: list[uuid.UUID]) -> Plan[None]:
        """Reads the jobs once: those that have ended already are not waited for."""
        rows = yield from read("get_many", ids=ids)
        self._jobs.update((row["id"], from_row(row, self._context.codec, self._context.home)) for row in rows)
        unknown = next((id for id in ids if id not in self._jobs), None)
        if unknown is not None:
            raise not_found(unknown)

    def _wait(self, mailbox: Mailbox) -> Plan[None]:
        while self._pending:
            messages = yield from mailbox.receive(self._deadline)
            if not messages:
                raise self._too_late()
            for message in messages:
                assert message.row is not None
                if message.kind == "end":
                    job = from_row(dict(message.row), self._context.codec, self._context.home)
                    self._jobs[job.id] = job
                    self._pending.discard(job.id)
                elif self._pending:
                    yield from self._report(message.row)
            if self._pending:
                # The caller's on_progress may take so long that there is always a new message.
                self._check_time()
        yield from self._report({})

    def _report(self, live: dict[str, tuple[int, int]]) -> Plan[None]:
        """Emits how far the jobs are, if that is wanted and has changed.

        live: how many have not ended, by status, and the sum of their percents.
        """
        if not self._counts:
            return
        group = self._counted_together(live)
        if group != self._group:
            self._group = group
            yield Emit([group])

    def _counted_together(self, live: dict[str, tuple[int, int]]) -> Group:
        total = len(self._jobs)
        ended = [job.status for id, job in self._jobs.items() if id not in self._pending]
        waiting = sum(live.get(status, (0, 0))[0] for status in ("pending", "claimed"))
        percents = sum(percents for _, percents in live.values())
        # A job that is neither live nor known to have ended has just ended.
        done = total - sum(jobs for jobs, _ in live.values())
        return Group(
            total=total,
            pending=waiting,
            running=total - waiting - len(ended),
            completed=ended.count("completed"),
            failed=ended.count("failed"),
            cancelled=ended.count("cancelled"),
            percent=round((percents + 100 * done) / total, 2) if total else 100.0,
        )

    def _check_time(self) -> None:
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise self._too_late()

    def _too_late(self) -> WaitTimeout:
        if self._is_one:
            return WaitTimeout(f"job {self._ids[0]} has not ended after {self._timeout:g} s; it continues")
        ended = len(self._jobs) - len(self._pending)
        return WaitTimeout(
            f"{ended} of {len(self._jobs)} jobs have ended after {self._timeout:g} s; the others continue"
        )


def value_of(context: Context, job: Job) -> Any:
    """The result of a job; as the type of its handler's annotation, if the handler is in this process."""
    name = f"{job.job_type} {job.id}"
    match job.status:
        case "completed":
            if job._redacted and job.result is not None:
                raise NotPermitted(
                    f"{name} has completed, but this login may not see its result: that needs SELECT on the table live"
                )
            if isinstance(job.result, Unreadable):
                raise Undecodable(f"the result of {name} cannot be read: {job.result.reason}")
            known = context.known.get(job.job_type)
            return job.result if known is None else known.decode_result(job.result)
        case "failed":
            attempts = f"{job.attempts} attempt{'s' if job.attempts != 1 else ''}"
            failed = JobFailed(f"{name} failed after {attempts}: {job.last_error}", job=job)
            if failed.remote_traceback:
                failed.add_note(f"Traceback of the worker:\n{failed.remote_traceback}")
            raise failed
        case "cancelled":
            raise JobCancelled(f"{name} was cancelled{f': {job.last_error}' if job.last_error else ''}", job=job)
        case _:
            raise NotEnded(
                f"{name} was {job.status} when it was read: call value() of the job that queue.wait_for(job) returns",
                job=job,
            )


def _listed(jobs: JobOrId | Iterable[JobOrId]) -> Iterable[JobOrId]:
    if isinstance(jobs, Job | uuid.UUID | str):
        return [jobs]
    try:
        return iter(jobs)
    except TypeError:
        raise InvalidOption(f"{options.shown(jobs)} is neither a job, nor its id, nor several of them") from None


def _counted(jobs: Iterable[Job]) -> dict[str, tuple[int, int]]:
    counts: dict[str, tuple[int, int]] = {}
    for job in jobs:
        number, percents = counts.get(job.status, (0, 0))
        counts[job.status] = number + 1, percents + job.percent
    return counts
