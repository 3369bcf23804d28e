"""Handlers with effects outside of Howdah, and handlers that kill whatever process they run in."""

from __future__ import annotations

import asyncio
import ctypes
import mmap
import os
import signal
import time
from typing import Any

import psycopg

from howdah import Job
from tests.faults.handlers import SOON, queue, said_by
from tests.worker.ledger import heard, note

EFFECT = b"INSERT INTO public.effects (id, token) VALUES (%s, %s)"

hoard: list[mmap.mmap] = []


async def connected() -> psycopg.AsyncConnection[Any]:
    return await psycopg.AsyncConnection.connect(os.environ["HOWDAH_DSN"])


@queue.job(retry=SOON)
async def effect_before_ack(job: Job, stands_still: bool = False) -> dict[str, int]:
    """Commits its effect by itself; some first attempts then wait for their death."""
    note("START", job)
    async with await connected() as conn:
        await conn.execute(EFFECT, (job.id, job.token))
    if stands_still and job.attempts == 1:
        await death(job)
    note("END", job)
    return said_by(job)


@queue.job(retry=SOON)
async def effect_with_ack(job: Job, stands_still: str = "") -> None:
    """Commits its effect and its completion together; some first attempts wait for their death before that, or after it."""
    note("START", job)
    async with await connected() as conn, conn.transaction():
        await conn.execute(EFFECT, (job.id, job.token))
        await job.acomplete(said_by(job), conn=conn)
        if stands_still == "before the commit" and job.attempts == 1:
            await death(job)
    if stands_still == "after the commit":
        await death(job)
    note("END", job)


async def death(job: Job) -> None:
    note("STANDS", job)
    await asyncio.Event().wait()


@queue.job
async def nothing_noted(job: Job) -> dict[str, int]:
    """Ends at once, and notes it: only its end is left to write."""
    note("START", job)
    note("END", job)
    return said_by(job)


@queue.job(max_attempts=1)
async def its_last_attempt(job: Job) -> dict[str, int]:
    return await until_finish(job)


@queue.job(max_attempts=2, retry=SOON)
async def its_second_and_last_attempt(job: Job) -> dict[str, int]:
    if job.attempts == 1:
        note("START", job)
        note("END", job)
        raise RuntimeError(f"token {job.token} fails")
    return await until_finish(job)


@queue.job(max_attempts=1, ordered=True)
async def first_in_its_lane(job: Job) -> dict[str, int]:
    return await until_finish(job)


async def until_finish(job: Job) -> dict[str, int]:
    note("START", job)
    while not heard("finish"):
        await asyncio.sleep(0.02)
    note("END", job)
    return said_by(job)


# Killers


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def segfaulted() -> None:
    ctypes.string_at(0)


def out_of_memory() -> None:
    """Takes all that the process may have, without touching it, and keeps it."""
    size = 2**30
    while size >= mmap.PAGESIZE:
        try:
            hoard.append(mmap.mmap(-1, size))
        except OSError:
            size //= 2
    raise MemoryError


KILLERS = {"killed": killed, "segfaulted": segfaulted, "out of memory": out_of_memory}


@queue.job(retry=SOON)
async def poison_on_the_loop(job: Job, how: str) -> None:
    note("START", job)
    await asyncio.sleep(0.05)
    KILLERS[how]()


@queue.job(retry=SOON, process=True)
def poison_in_a_child(job: Job, how: str) -> None:
    note("START", job)
    time.sleep(0.05)
    KILLERS[how]()


@queue.job(retry=SOON, process=True)
def healthy_in_a_child(job: Job) -> dict[str, int]:
    """Needs some memory, which is missing in a child that an earlier job has filled."""
    note("START", job)
    bytearray(2**24)
    note("END", job)
    return said_by(job)
