"""Handlers that continue a job after its claim is lost, and note of each verb whether it was refused."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Callable

from howdah import Cancel, Fail, Job, LeaseLost
from tests.faults.handlers import SOON, new_owner, overtaken, queue, said_by
from tests.worker.ledger import heard, note

__all__ = ["queue"]


def attempt(verb: str, job: Job, call: Callable[[], object]) -> None:
    """Tries to write by plain verbs, which nothing but the database's fence stands in the way of."""
    try:
        call()
    except LeaseLost:
        note(f"REFUSED {verb}", job)
    else:
        note(f"ACCEPTED {verb}", job)


# Frozen, and another worker gets their job. After that they block the loop, so that their worker cannot cancel them.


@queue.job(retry=SOON)
async def overtaken_completes_by_hand(job: Job) -> dict[str, int]:
    note("START", job)
    if job.attempts > 1:
        return await new_owner(job)
    await overtaken()
    attempt("complete", job, lambda: queue.complete(job, said_by(job)))
    note("STALE", job)
    return said_by(job)


@queue.job(retry=SOON)
async def overtaken_raises(job: Job) -> dict[str, int]:
    note("START", job)
    if job.attempts > 1:
        return await new_owner(job)
    await overtaken()
    note("STALE", job)
    raise RuntimeError(f"token {job.token} fails")


@queue.job(retry=SOON)
async def overtaken_gives_up(job: Job) -> dict[str, int]:
    note("START", job)
    if job.attempts > 1:
        return await new_owner(job)
    await overtaken()
    attempt("fail", job, lambda: queue.fail(job, f"token {job.token} fails"))
    note("STALE", job)
    raise Fail(f"token {job.token} fails")


@queue.job(retry=SOON)
async def overtaken_speaks(job: Job) -> dict[str, int]:
    note("START", job)
    if job.attempts > 1:
        return await new_owner(job)
    await overtaken()
    speak(job)
    attempt("snooze", job, lambda: queue.snooze(job, delay=3600))
    attempt("release", job, lambda: queue.release(job, interrupted=True))
    job.progress(98, f"token {job.token}")
    job.event("stale")
    note("STALE", job)
    raise Cancel("stale")


@queue.job(retry=SOON)
async def overtaken_by_hand(job: Job) -> None:
    """The new owner is the case itself, which has claimed the job and not started it."""
    note("START", job)
    await overtaken()
    speak(job)
    attempt("start", job, lambda: queue.start(job))
    note("STALE", job)


def speak(job: Job) -> None:
    attempt("progress", job, lambda: queue.progress(job, 99, stage=f"token {job.token}"))
    attempt("event", job, lambda: queue.event(job, "stale"))
    attempt("checkpoint", job, lambda: queue.checkpoint(job, said_by(job)))


# The same worker has the job twice: its first run continues after it has ended the claim itself.

_seen: set[uuid.UUID] = set()


@queue.job(retry=SOON)
def snoozes_and_goes_on(job: Job) -> dict[str, int]:
    note("START", job)
    if is_second_run(job):
        return await_finish(job)
    queue.snooze(job, delay=0)
    return go_on(job)


@queue.job(retry=SOON)
def completes_and_goes_on(job: Job) -> dict[str, int]:
    note("START", job)
    if is_second_run(job):
        return await_finish(job)
    queue.complete(job, said_by(job))
    return go_on(job)


def is_second_run(job: Job) -> bool:
    seen = job.id in _seen
    _seen.add(job.id)
    return seen


def go_on(job: Job) -> dict[str, int]:
    while not heard("overtaken"):
        time.sleep(0.01)
    attempt("progress", job, lambda: queue.progress(job, 99, stage=f"token {job.token}"))
    attempt("fail", job, lambda: queue.fail(job, f"token {job.token} fails"))
    attempt("complete", job, lambda: queue.complete(job, said_by(job)))
    note("STALE", job)
    return said_by(job)


def await_finish(job: Job) -> dict[str, int]:
    while not heard("finish"):
        time.sleep(0.01)
    note("END", job)
    return said_by(job)


# A completion and the sweep at the same instant.

DEADLINE = 0.3


@queue.job(retry=SOON, timeout=DEADLINE)
async def ends_at_its_deadline(job: Job, seconds: float) -> dict[str, int]:
    note("START", job)
    # A result that comes in spite of the timeout counts, if it comes before the sweep.
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(seconds)
    note("END", job)
    return said_by(job)
