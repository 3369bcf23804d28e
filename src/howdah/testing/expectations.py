"""Checks of which jobs were enqueued."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from howdah.checks import options
from howdah.checks.options import Seconds
from howdah.errors import InvalidArguments
from howdah.model.job import Job
from howdah.queue import JobQueue
from howdah.testing.jobs import JobType, all_jobs, delay_of, listed, name_of, printable, shortened, times


def enqueued(queue: JobQueue, job_type: JobType | None = None, data: Any = None) -> list[Job]:
    """The jobs that were enqueued, the oldest first, in any state.

    job_type: only of this type, or of this handler. data: only those whose data contains this: of a dict,
    these keys with these values, as they are in JSON or as the handler gets them.
    """
    jobs = all_jobs(queue, None if job_type is None else name_of(job_type))
    return [job for job in jobs if data is None or _is_part(data, job.data) or _is_part(data, _arguments(queue, job))]


def assert_enqueued(
    queue: JobQueue,
    job_type: JobType,
    data: Any = None,
    *,
    count: int | None = None,
    priority: int | None = None,
    key: str | None = None,
    delay: Seconds | None = None,
    within: Seconds | None = None,
) -> Job:
    """Fail unless such a job was enqueued. Returns it; the newest one if there are several.

    data: as in ``enqueued``. count: the exact number; one or more if not given. priority, key: those of the job.
    delay: due this long after it was enqueued, to the second. within: due at most this long after it was enqueued.
    """
    __tracebackhide__ = True
    wanted = _Wanted(job_type, data, priority=priority, key=key, delay=delay, within=within)
    found = wanted.among(queue)
    if count is None and not found:
        raise AssertionError(f"{wanted} was not enqueued. {listed(all_jobs(queue))}")
    if count is not None and len(found) != options.integer(count, "count", least=1):
        message = f"{wanted} was enqueued {times(len(found))}, not {times(count)}"
        raise AssertionError(f"{message}. {listed(all_jobs(queue))}")
    return found[-1]


def assert_not_enqueued(
    queue: JobQueue,
    job_type: JobType | None = None,
    data: Any = None,
    *,
    priority: int | None = None,
    key: str | None = None,
    delay: Seconds | None = None,
    within: Seconds | None = None,
) -> None:
    """Fail if such a job was enqueued; if no type is given, a job of any type. Arguments as in ``assert_enqueued``."""
    __tracebackhide__ = True
    wanted = _Wanted(job_type, data, priority=priority, key=key, delay=delay, within=within)
    if found := wanted.among(queue):
        message = f"{wanted} was enqueued {times(len(found))}, and should not have been"
        raise AssertionError(f"{message}. {listed(all_jobs(queue))}")


class _Wanted:
    """The properties of the wanted job."""

    def __init__(
        self,
        job_type: JobType | None,
        data: Any,
        *,
        priority: int | None,
        key: str | None,
        delay: Seconds | None,
        within: Seconds | None,
    ) -> None:
        self.job_type = None if job_type is None else name_of(job_type)
        self.data = data
        self.priority = priority
        self.key = key
        self.delay = None if delay is None else options.span(delay, "delay")
        self.within = None if within is None else options.span(within, "within")

    def among(self, queue: JobQueue) -> list[Job]:
        return [job for job in enqueued(queue, self.job_type, self.data) if self._fits(job)]

    def _fits(self, job: Job) -> bool:
        delay = delay_of(job)
        return (
            self.priority in (None, job.priority)
            and self.key in (None, job.key)
            and (self.delay is None or abs(self.delay - delay) < timedelta(seconds=1))
            and (self.within is None or delay <= self.within)
        )

    def __str__(self) -> str:
        given = {name: getattr(self, name) for name in ("priority", "key", "delay", "within")}
        parts = [] if self.data is None else [shortened(self.data)]
        parts += [f"{name} {_value(value)}" for name, value in given.items() if value is not None]
        what = "a job" if self.job_type is None else printable(self.job_type)
        return f"{what} with {', '.join(parts)}" if parts else what


def _value(value: object) -> str:
    return str(value) if isinstance(value, timedelta) else shortened(value)


def _arguments(queue: JobQueue, job: Job) -> Any:
    """The arguments of the handler; None if there is none, or if the data does not fit it."""
    handler = queue.handlers.get(job.job_type)
    try:
        return None if handler is None else handler.arguments.decode(job.data)
    except InvalidArguments:
        return None


def _is_part(part: Any, whole: Any) -> bool:
    if isinstance(part, Mapping) and isinstance(whole, Mapping):
        return all(name in whole and _is_part(value, whole[name]) for name, value in part.items())
    return bool(part == whole)
