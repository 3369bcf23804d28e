"""Endings: a handler's return value or exception, as the ending that is written.

Pure functions, shared with child processes. The exception itself never leaves the process in which it was raised.
"""

from __future__ import annotations

import dataclasses
import logging
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from howdah.checks import options
from howdah.checks.context import Context
from howdah.checks.values import clean_text, plain_json, stored_json
from howdah.errors import InvalidInput
from howdah.handlers.handler import AnyHandler
from howdah.handlers.outcome import (
    Cancel,
    Cancelled,
    Completed,
    CompletedAndSpawned,
    CompletedByHandler,
    Crashed,
    Ending,
    Fail,
    Failed,
    Interrupted,
    NotBegun,
    Outcome,
    Retry,
    Snooze,
    Snoozed,
    Spawned,
    Suspended,
)
from howdah.handlers.retry import delay_of
from howdah.model.failure import describe, message_of, path_of, traceback_of
from howdah.model.job import Job

log = logging.getLogger("howdah.worker")

NOTHING_MORE: Final = Completed()


class EndedInChild(Exception):
    """What a handler raised in a child process: only its text crosses the pipe."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(getattr(ending, "error", None) or getattr(ending, "reason", None) or type(ending).__name__)
        self.ending = ending


def of_value(handler: AnyHandler, job: Job, value: object) -> Ending:
    """A handler returned: a result, an outcome, or (of a batch, by ``gather``) what was raised for this job."""
    if value is None:
        return NOTHING_MORE
    if isinstance(value, BaseException):
        return of_error(handler, job, value)
    return Completed(handler.result.encode(value))


def of_batch(handler: AnyHandler, jobs: Sequence[Job], value: object) -> list[Ending]:
    """A batch handler returned: nothing, one value for each job in order, or values by the jobs' ids."""
    if value is None:
        return [NOTHING_MORE] * len(jobs)
    if isinstance(value, Outcome):
        return [of_error(handler, job, value) for job in jobs]
    if isinstance(value, Mapping):
        return [_of_mapping(handler, job, value) for job in jobs]
    if isinstance(value, Sequence) and not isinstance(value, str | bytes) and len(value) == len(jobs):
        return [of_value(handler, job, each) for job, each in zip(jobs, value, strict=True)]
    got = f"{len(value)} values" if isinstance(value, list | tuple) else f"a {type(value).__name__}"
    error = f"the batch handler {handler.name!r} was given {len(jobs)} jobs and returned {got}"
    return [Failed(f"{error}: return None, a value for each job in order, or a dict of values by job.id") for _ in jobs]


def _of_mapping(handler: AnyHandler, job: Job, values: Mapping[Any, Any]) -> Ending:
    key: uuid.UUID | str = job.id if job.id in values else str(job.id)
    if key not in values:
        return Failed(f"the batch handler {handler.name!r} returned nothing for this job")
    return of_value(handler, job, values[key])


def of_error(handler: AnyHandler, job: Job, error: BaseException) -> Ending:
    """A handler raised (or returned) this."""
    match error:
        case EndedInChild():
            return error.ending
        case Snooze():
            return Snoozed(error.delay, error.at)
        case Cancel():
            return Cancelled(message_of(error))
        case Fail():
            return Failed(message_of(error), traceback_of(error), give_up=True, exception=_class_of(error))
        case Retry():
            how = _class_of(error)
            return Failed(message_of(error), traceback_of(error), delay=error.delay, at=error.at, exception=how)
    retries = handler.retries
    failed = Failed(describe(error), traceback_of(error), exception=path_of(error))
    if isinstance(error, retries.give_up):
        return dataclasses.replace(failed, give_up=True)
    if retries.stored is None and job.retry_policy is not None:
        # Chosen for this very job: it has precedence over the rules of its handler.
        return failed
    if retries.decide is not None:
        return _decided(handler, job, error, failed)
    policy = next((policy for kind, policy in retries.by_class.items() if isinstance(error, kind)), None)
    return failed if policy is None else dataclasses.replace(failed, delay=delay_of(policy, job.attempts))


def _class_of(outcome: Outcome) -> str | None:
    """The class of the exception that an outcome was raised from, or else its own."""
    return path_of(outcome.__cause__ or outcome)


def _decided(handler: AnyHandler, job: Job, error: BaseException, failed: Failed) -> Failed:
    assert handler.retries.decide is not None
    try:
        delay = handler.retries.decide(job, error)
        seconds = None if delay is None else options.span(max(float(delay), 0.0), "the delay").total_seconds()
    except BaseException:
        # Also SystemExit: it is called by the worker, not by the handler.
        log.exception("the retry function of %s failed: the default policy is used", handler.name)
        return failed
    return dataclasses.replace(failed, delay=seconds, give_up=seconds is None)


def unreadable(error: BaseException) -> Failed:
    """The job's arguments do not fit its handler: another attempt would fail in the same way."""
    return Failed(describe(error), give_up=True, exception=path_of(error))


def with_spawned(ending: Ending | None, spawned: Sequence[Spawned]) -> Ending | None:
    """A completion with the jobs that the handler adds. An attempt that ends otherwise adds none."""
    if not spawned or not isinstance(ending, Completed):
        return ending
    return CompletedAndSpawned(ending.result, tuple(spawned))


def by_handler(ending: Ending) -> CompletedByHandler:
    """The handler completed its job itself, and then ended with this."""
    if isinstance(ending, CompletedByHandler):
        return ending
    if isinstance(ending, Completed):
        ending = Failed("job.complete() was called, but its transaction was not committed")
    return CompletedByHandler(ending)


def storable(context: Context, ending: Ending) -> Ending:
    """The ending with its result in the form that the database stores; a result that cannot be stored is a failure."""
    if not isinstance(ending, Completed) or ending.result is None:
        return ending
    try:
        return dataclasses.replace(ending, result=stored_json(context, ending.result, "result"))
    except InvalidInput as error:
        return Failed(f"the handler's result cannot be stored: {error}", give_up=True)
    except Exception as error:  # noqa: BLE001
        return Failed(f"the handler's result cannot be encoded: {describe(error)}", give_up=True)


def in_json(context: Context, ending: Ending) -> Ending:
    """The ending of a child process, for the pipe to its worker."""
    if not isinstance(ending, Completed):
        return ending
    return dataclasses.replace(ending, result=plain_json(context, ending.result, "result"))


# How an ending is counted and logged


def counted_as(ending: Ending, status: str | None) -> str:
    """The count of an ending in the summary; status: the new one of the job, None if the database refused the ending."""
    match ending:
        case _ if status is None:
            return "refused"
        case Completed() | CompletedByHandler():
            return "completed"
        case Failed() | Crashed() if status == "pending":
            return "retried"
        case Snoozed() | Suspended() if status == "pending":
            return "snoozed"
        case Interrupted() | NotBegun() if status == "pending":
            return "handed_back"
        case _:
            return status


def log_ending(job: Job, ending: Ending, status: str | None, *, is_private: bool) -> None:
    """Log how a job ended, without its arguments; if values are encrypted, also without its error."""
    if status is None and not isinstance(ending, Interrupted | NotBegun):
        log.warning(
            "the end of %s %s came too late and changed nothing: the job was no longer held by this worker",
            job.job_type,
            job.id,
            extra=log_fields(job, "refused"),
        )
    elif isinstance(ending, Failed | Crashed):
        log.warning(
            "%s %s failed (attempt %d of %d, %s): %s",
            job.job_type,
            job.id,
            job.attempts,
            job.max_attempts,
            {"pending": "to be tried again", "failed": "for good"}.get(status or "", f"now {status}"),
            f"howdah show {job.id} has the error" if is_private else _one_line(ending.error),
            extra=log_fields(job, "failed"),
        )
    elif log.isEnabledFor(logging.DEBUG):
        log.debug("%s %s: %s", job.job_type, job.id, status, extra=log_fields(job, type(ending).__name__.lower()))


def log_fields(job: Job, event: str) -> dict[str, str]:
    return {"event": event, "job_id": str(job.id), "job_type": job.job_type}


def _one_line(text: str) -> str:
    """The first line of an error, fit for any log."""
    line = (clean_text(text).splitlines() or [""])[0][:200]
    return "".join(c if c.isprintable() else "\ufffd" for c in line)
