"""Handlers of which one returns what cannot be written, among many that end with it."""

from __future__ import annotations

import asyncio

from howdah import Job
from tests.faults.handlers import SOON, queue, said_by
from tests.worker.ledger import heard, note

__all__ = ["queue"]


@queue.job(retry=SOON)
async def fails_with_others(job: Job, bad: bool = False) -> dict[str, int]:
    """Fails at its first attempt, at the same time as all others."""
    note("START", job)
    if job.attempts > 1:
        return said_by(job)
    await together()
    raise RuntimeError(f"token {job.token} fails" + ("\x00 and \ud800" if bad else ""))


@queue.job(retry=SOON)
async def returns_with_others(job: Job, bad: bool = False) -> dict[str, int | str]:
    note("START", job)
    await together()
    return {**said_by(job), **({"bad": "\x00"} if bad else {})}


async def together() -> None:
    while not heard("together"):
        await asyncio.sleep(0.01)
