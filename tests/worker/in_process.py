"""A worker in the test's own event loop, and ways to wait for what it does."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

import pytest

from howdah import Job, JobQueue
from howdah.db.plan import Plan
from howdah.worker import Worker, WorkerSummary
from howdah.worker.claim import claimer
from howdah.worker.progress.tracker import Tracker
from tests.conftest import Db

R = TypeVar("R")

PATIENCE = 120.0
"""Seconds until a test fails. Only failures get there."""


def run(main: Coroutine[Any, Any, R]) -> R:
    """What a coroutine returns, in an event loop of its own."""

    async def bounded() -> R:
        async with asyncio.timeout(PATIENCE):
            return await main

    return asyncio.run(bounded())


def drain(queue: JobQueue, **options: Any) -> WorkerSummary:
    """Runs a worker until nothing is due any more."""
    return run(queue.run_worker(**{"drain": True, "poll": 0.05, "grace": 5, **options}))


@contextlib.asynccontextmanager
async def working(queue: JobQueue, **options: Any) -> AsyncIterator[Worker]:
    """A worker that runs beside the test. Leaving stops it, and waits for its end."""
    worker = queue.worker(**{"poll": 0.05, "grace": 5, "heartbeat": 0.2, "lease": 10, **options})
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await task


async def until(condition: Callable[[], object]) -> None:
    """Wait for something by looking for it."""
    while not condition():
        await asyncio.sleep(0.01)


async def happened(event: threading.Event) -> None:
    """Waits for an event of another thread, without one of the loop's own threads."""
    await until(event.is_set)


async def ended(queue: JobQueue, job: Job) -> Job:
    """The job, once it has ended."""
    return await queue.await_for(job, timeout=PATIENCE)


async def beats(db: Db, worker: Worker, count: int) -> None:
    """Wait for this many more heartbeats of the worker."""
    query = "SELECT heartbeat_at FROM howdah.workers WHERE worker_id = %s"
    for _ in range(count):
        before = db.execute(query, (worker.worker_id,)).fetchone()
        await until(lambda seen=before: db.execute(query, (worker.worker_id,)).fetchone() != seen)  # type: ignore[misc]


def statuses(db: Db, job_type: str) -> dict[str, int]:
    """How many jobs of a type are in each status."""
    rows = db.execute(
        "SELECT status, count(*) AS n FROM howdah.jobs WHERE job_type = %s GROUP BY status", (job_type,)
    ).fetchall()
    return {row["status"]: row["n"] for row in rows}


def sleeps(db: Db, job_type: str) -> bool:
    """Whether a worker sleeps that waits for jobs of a type."""
    row = db.execute("SELECT howdah.has_sleeper(%s) AS so", (job_type,)).fetchone()
    assert row is not None
    return bool(row["so"])


@contextlib.asynccontextmanager
async def asleep(
    queue: JobQueue, db: Db, monkeypatch: pytest.MonkeyPatch, job_type: str = "work", **options: Any
) -> AsyncIterator[Worker]:
    """A worker that sleeps, and will not poll for an hour: all that it does follows a notification."""
    # The worker of the test before may still be ending.
    await until(lambda: not sleeps(db, job_type))
    async with working(queue, **{"poll": 3600, "heartbeat": 60, "lease": 600, "sweep": 3600, **options}) as worker:
        await until(lambda: sleeps(db, job_type))
        # The first looks come soon one after another. From now on, there are none, and so a worker that is woken must not
        # end its sleep for a few of them: what changed meanwhile would wait for the next poll.
        monkeypatch.setattr(claimer, "FIRST_POLL", 3600)
        monkeypatch.setattr(claimer, "SHORT_NAP", 0)
        first = await queue.aenqueue(job_type)
        assert (await ended(queue, first)).status == "completed"
        await until(lambda: sleeps(db, job_type))
        yield worker


class NoSink:
    """A sink that writes nothing."""

    def changed(self, tracker: Tracker) -> None: ...

    def flush(self, tracker: Tracker, *, ends: bool) -> bool:
        return True

    async def aflush(self, tracker: Tracker, *, ends: bool) -> bool:
        return True

    def rest(self, tracker: Tracker) -> Plan[None]:
        yield from ()
