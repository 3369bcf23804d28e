"""Handlers that a child process can import."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import psycopg

from howdah import DatabaseUnavailable, Job, JobQueue, Resource
from howdah.handlers.outcome import Cancel, Fail, Retry, Snooze

log = logging.getLogger("child")


class Tally:
    """A resource that counts how often it was opened in this process."""

    opened = 0

    def __init__(self) -> None:
        type(self).opened += 1
        self.pid = os.getpid()


@contextlib.asynccontextmanager
async def lifespan(queue: JobQueue) -> AsyncIterator[dict[str | type, Any]]:
    yield {"tally": Tally()}


queue = JobQueue("host=/nowhere", lifespan=lifespan)


def connected(dsn: str) -> JobQueue:
    """This module's queue, on the test's database."""
    queue.connect_to(dsn)
    return queue


@queue.job(process=True)
def in_process(start: datetime, span: timedelta, job: Job) -> dict[str, Any]:
    return {"pid": os.getpid(), "end": (start + span).isoformat(), "id": str(job.id), "attempts": job.attempts}


@queue.job(process=True)
async def awaited_in_process() -> int:
    await asyncio.sleep(0)
    return os.getpid()


@queue.job(process=True)
def waits_for(path: str, job: Job) -> None:
    job.progress(stage="waiting")
    while not Path(path).exists():
        time.sleep(0.005)


@queue.job(process=True)
def echo(value: Any) -> Any:
    return value


@queue.job(process=True, max_attempts=5)
def says(word: str, job: Job) -> str:
    """End the first attempt as requested, and the next with success."""
    match word if job.attempts == 1 and job.crashes == 0 else "":
        case "retry":
            raise Retry("once more", delay=0)
        case "snooze":
            raise Snooze(3600)
        case "cancel":
            raise Cancel("unwanted")
        case "fail":
            raise Fail("hopeless")
        case "returned fail":
            return Fail("hopeless")  # type: ignore[return-value]
        case "raise":
            raise ValueError("broken")
        case "exit":
            sys.exit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "unprintable":
            raise Unprintable
        case "not JSON":
            return {1, 2}  # type: ignore[return-value]
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
    return "done"


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


@queue.job(process=True)
def opens(job: Job, tally: Annotated[Tally, Resource]) -> dict[str, Any]:
    return {"pid": os.getpid(), "opened in": tally.pid, "times": Tally.opened, "same": job.resources["tally"] is tally}


@queue.job(process=True)
def steps(job: Job) -> None:
    for step in range(1, 100):
        job.progress(step, f"step {step}")


@queue.job(process=True)
def forever(job: Job) -> None:
    job.progress(stage=f"pid {os.getpid()}")
    while True:
        time.sleep(3600)


@queue.job(process=True)
async def awaits_forever(job: Job) -> None:
    job.progress(stage=f"pid {os.getpid()}")
    await asyncio.Event().wait()


@queue.job(process=True)
def stubborn(job: Job) -> None:
    job.progress(stage=f"pid {os.getpid()}")
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(3600)


@queue.job(process=True, max_attempts=2)
def moves_money(dsn: str, how: str, job: Job) -> str:
    """Writes an effect, and completes in the same transaction."""
    with psycopg.connect(dsn) as conn:
        conn.execute("INSERT INTO howdah_test_effects VALUES (%s)", (job.id,))
        job.complete({"how": how}, conn=conn)
        if how == "raise" and job.attempts == 1:
            raise ValueError("after the completion")
    return "ignored"


def plain() -> int:
    return os.getpid()


registered = queue.job(process=True, name="registered")(plain)


@queue.job
def spawned(number: int) -> int:
    return number


def spawns(job: Job, how: str, dsn: str) -> str:
    """Spawns three jobs, and ends as requested; what makes the attempt fail is done in the first one only."""
    job.spawn_many(spawned, [{"number": 1}, {"number": 2**70}])
    job.spawn(spawned, options={"priority": 7, "timeout": timedelta(minutes=1)}, number=3)
    ends = how if job.attempts == 1 else ""
    if ends == "raise":
        raise ValueError("spawned in vain")
    with psycopg.connect(dsn) as conn:
        if ends == "refused":
            conn.close()
            with contextlib.suppress(DatabaseUnavailable):
                job.complete("refused", conn=conn)
        elif how in ("complete", "roll back"):
            job.complete(f"pid {os.getpid()}", conn=conn)
            if ends == "roll back":
                raise ValueError("not committed")
    return f"pid {os.getpid()}"


spawns_in_process = queue.job(process=True, name="spawns_in_process", max_attempts=2, retry=[0])(spawns)


# Not in child processes, unless they are suspects


spawns_in_thread = queue.job(name="spawns_in_thread", max_attempts=2, retry=[0])(spawns)


@queue.job
def where_in_thread() -> int:
    return os.getpid()


@queue.job
async def where_on_loop() -> int:
    return os.getpid()


@queue.job(batch_size=10)
def where_in_batch(jobs: list[Job]) -> list[Any]:
    return [{"pid": os.getpid(), "together": len(jobs)} for _ in jobs]


@queue.job(process=True)
def waits_in_process(job: Job) -> list[Any]:
    first = job.step("first", os.getpid)
    with contextlib.suppress(Exception):
        job.sleep_for(0)
        return [first, job.wait_signal("go", key="child"), os.getpid(), job.attempts]
    return ["an except Exception has caught it"]


@queue.job(process=True)
async def waits_in_process_awaited(job: Job) -> Any:
    return await job.await_signal("go", key="child")
