"""Handlers of a workflow of random shape. A job that is to fail does so once, for good: a retry by hand lets it complete."""

from __future__ import annotations

from typing import Any

from howdah import Fail, Job, JobQueue

queue = JobQueue()


@queue.job(max_crashes=1_000, max_attempts=1_000)
def step(job: Job, number: int, fails: bool, before: list[Any]) -> int:
    if fails and not any(error.kind == "failed" for error in job.errors):
        raise Fail("as it was told to")
    return number


@queue.job(max_crashes=1_000, max_attempts=1_000)
async def numbers(job: Job, number: int, count: int, fails: bool, before: list[Any]) -> list[int]:
    if fails and not any(error.kind == "failed" for error in job.errors):
        raise Fail("as it was told to")
    return list(range(count))


@queue.job(max_crashes=1_000, max_attempts=1_000)
async def part(item: int) -> int:
    return item
