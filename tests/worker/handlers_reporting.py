"""Handlers that report, of all three kinds: on the loop, in a thread, in a child process that can import them."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psycopg

from howdah import Job, JobQueue
from howdah.handlers.handler import Handler
from howdah.handlers.outcome import Fail
from tests.worker.ledger import note

queue = JobQueue()
log = logging.getLogger("reporting")


def connected(dsn: str) -> JobQueue:
    """This module's queue, on the test's database."""
    queue.connect_to(dsn)
    return queue


KINDS = ("loop", "thread", "process")


def in_all_kinds(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function for each kind of handler: as ``name_loop``, ``name_thread`` and ``name_process``."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        async def on_loop(**arguments: Any) -> Any:
            return function(**arguments)

        name = function.__name__
        queue.job(name=f"{name}_loop", **options)(on_loop)
        queue.job(name=f"{name}_thread", **options)(function)
        queue.job(name=f"{name}_process", process=True, **options)(function)
        return function

    return register


def handler(name: str, kind: str) -> Handler[Any, Any]:
    return queue.handlers[f"{name}_{kind}"]


@in_all_kinds(max_attempts=1)
def everything(job: Job) -> None:
    """Uses every verb, and ends in the middle of it."""
    job.event("began", who="handler")
    with job.stage("load", weight=60):
        for n in job.track(range(30)):
            if n % 10 == 0:
                job.event("ten", n=n)
    with job.stage("store"):
        job.advance(2, total=8)
        job.advance(stage="half-way")
        job.checkpoint({"at": [1, 2]})
        job.event("stops")
        raise Fail("in the middle of it")


@in_all_kinds()
def counts(times: int, job: Job) -> int:
    """A tight loop."""
    for n in range(times):
        job.progress(done=n, total=times)
        job.advance()
    job.progress(99, "last")
    return times


@in_all_kinds(max_attempts=3, retry=lambda job, error: 0)
def resumes(job: Job) -> Any:
    """Fails its first two attempts, each after a checkpoint."""
    done = (job.resumed or {"done": []})["done"]
    if len(done) < 2:
        job.checkpoint({"done": [*done, job.attempts]})
        job.event("failing", attempt=job.attempts)
        raise ValueError("once more")
    return done


@in_all_kinds()
def tells_much(job: Job) -> None:
    """More than goes into one message from a child, or into one statement."""
    for n in range(300):
        job.event("large", n=n, text="x" * 5_000)


@in_all_kinds(max_events=3)
def floods(job: Job) -> None:
    for n in range(5):
        job.event("step", n=n)


@in_all_kinds(max_events=3)
def pays(dsn: str, job: Job) -> None:
    """Completes in a transaction of its own, right after it has said something."""
    with psycopg.connect(dsn) as conn:
        job.progress(80, "paying")
        for n in range(5):
            job.event("paid", n=n)
        job.complete({"paid": True}, conn=conn)


@in_all_kinds(max_attempts=1, log_level="INFO")
def logs(job: Job) -> None:
    log.debug("too quiet")
    log.info("loaded %d rows of %s", 7, "a file")
    log.warning("slowly")
    log.getChild("deeper").error("deeply")
    logging.getLogger("howdah.worker").error("about the worker")
    logging.getLogger("howdah").error("about the worker")
    try:
        raise KeyError("missing")
    except KeyError:
        log.exception("it broke")
    raise Fail("after all that was logged")


@in_all_kinds(log_level=None)
def logs_in_vain() -> None:
    log.error("not wanted")


@queue.job(process=True)
async def logs_awaited() -> None:
    await asyncio.to_thread(log.info, "from a thread of a child")
    log.info("from the loop of a child")


@queue.job(process=True, max_attempts=1)
def is_killed(go_on: str, job: Job) -> None:
    job.event("before")
    job.progress(30, "before")
    while not Path(go_on).exists():
        time.sleep(0.005)
    os.kill(os.getpid(), signal.SIGKILL)


async def numbers(count: int) -> AsyncIterator[int]:
    for n in range(count):
        yield n


@queue.job(max_attempts=1)
async def awaits_everything(job: Job) -> None:
    async for n in job.track(numbers(10), "walk", total=10, weight=50):
        if n == 4:
            await job.acheckpoint({"n": n})
            break
    raise Fail("here it ended")


@queue.job(max_attempts=1)
async def checkpoints_on_the_loop(job: Job) -> Any:
    job.progress(10, "before")
    job.checkpoint("blocking")
    return (await queue.aget(job.id)).resumed


@in_all_kinds(max_attempts=1, max_events=3)
def keeps(job: Job) -> list[list[str]]:
    """What is in the database when a checkpoint is."""
    seen = []
    for n in range(4):
        job.event(f"file {n}")
        job.checkpoint(n)
        seen.append([event.name for event in queue.events(job)])
    return seen


@queue.job(max_attempts=5)
def survives(job: Job) -> Any:
    """Keeps a checkpoint, and waits to be killed with its worker."""
    if job.resumed is None:
        job.event("first life")
        job.checkpoint({"chapter": 3})
        note("KEPT", job)
        while True:
            time.sleep(0.01)
    return job.resumed
