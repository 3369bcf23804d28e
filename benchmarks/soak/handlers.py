"""What the workers of a soak run: jobs of every kind, each of which notes its start and its end in the ledger."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import Final

from benchmarks.soak.ledger import END, START, note
from benchmarks.soak.load import BATCH, BRIEF, CHILD, DELAYED, EVENTS, FLAKY, KEYED, LONG, QUICK, THREAD
from howdah.handlers.retry import Fixed
from howdah.model.job import Job
from howdah.queue import JobQueue

_A_MOMENT: Final = 0.005
_A_WHILE: Final = 0.05
_LONG: Final = 1.5
_PIECES: Final = 5


# At the top level, where a child process finds it. The worker sets its database.
queue = JobQueue()


@contextlib.contextmanager
def _noted(job: Job, due: float) -> Iterator[None]:
    note(START, job, due)
    yield
    note(END, job, due)


@queue.job(name=QUICK)
async def quick(job: Job, n: int, due: float) -> None:  # noqa: ARG001
    with _noted(job, due):
        pass


@queue.job(name=DELAYED)
async def delayed(job: Job, n: int, due: float) -> None:  # noqa: ARG001
    with _noted(job, due):
        pass


@queue.job(name=BRIEF)
async def brief(job: Job, n: int, due: float) -> None:  # noqa: ARG001
    with _noted(job, due):
        await asyncio.sleep(_A_MOMENT)


@queue.job(name=THREAD)
def thread(job: Job, n: int, due: float) -> None:  # noqa: ARG001
    with _noted(job, due):
        time.sleep(_A_MOMENT)


@queue.job(name=FLAKY, retry=Fixed(0.2))
async def flaky(job: Job, n: int, due: float, fails: int) -> None:  # noqa: ARG001
    with _noted(job, due):
        if job.attempts <= fails:
            raise ConnectionError(f"attempt {job.attempts} of {fails} that are to fail")


@queue.job(name=EVENTS)
async def events(job: Job, n: int, due: float) -> dict[str, int]:
    with _noted(job, due):
        job.event("begun", n=n)
        for piece in job.track(range(_PIECES)):
            job.event("piece", number=piece)
            await asyncio.sleep(_A_MOMENT)
        return {"pieces": _PIECES}


@queue.job(name=KEYED)
async def keyed(job: Job, n: int, due: float) -> None:  # noqa: ARG001
    with _noted(job, due):
        await asyncio.sleep(_A_WHILE)


@queue.job(name=BATCH, batch_size=50)
async def batch(jobs: list[Job]) -> None:
    for job in jobs:
        note(START, job, job.data["due"])
    await asyncio.sleep(_A_MOMENT)
    for job in jobs:
        note(END, job, job.data["due"])


@queue.job(name=LONG)
async def long(job: Job, n: int, due: float) -> None:  # noqa: ARG001
    """So long that a fault hits a running job."""
    with _noted(job, due):
        await asyncio.sleep(_LONG)


@queue.job(name=CHILD, process=True)
def child(job: Job, n: int, due: float) -> None:  # noqa: ARG001
    with _noted(job, due):
        time.sleep(_A_MOMENT)
