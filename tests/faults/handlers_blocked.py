"""Handlers that keep their worker from something: its loop, the interpreter, its connections, a slot."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import os
import time
import uuid
from pathlib import Path

import psycopg

from howdah import Job
from tests.faults.handlers import SOON, new_owner, patient, queue, said_by
from tests.worker import ledger
from tests.worker.ledger import heard, note

__all__ = ["queue"]

GATE = "gate"
"""A file beside the ledger, which the case holds a lock on."""


@queue.job(retry=SOON)
async def forgets_to_await(job: Job) -> dict[str, int]:
    note("START", job)
    # Those beside it begin first.
    await asyncio.sleep(0.2)
    note("BLOCK", job)
    block_until("go on")
    note("END", job)
    return said_by(job)


@queue.job(retry=SOON, max_attempts=10)
async def holds_the_gil(job: Job) -> dict[str, int]:
    """Waits in C code while it holds the interpreter's lock: no thread of the process does anything."""
    note("START", job)
    if not heard("overtaken"):
        gate = os.open(Path(os.environ[ledger.FILE]).with_name(GATE), os.O_RDWR)
        ctypes.PyDLL(None).flock(gate, fcntl.LOCK_EX)
        os.close(gate)
    note("END", job)
    return said_by(job)


# Each waits for a row that the case has locked, over a connection of the pool that all of them share. A call waits for some
# seconds at most, so they call again and again.


@queue.job(retry=SOON)
async def holds_a_connection(job: Job, locked: str) -> dict[str, int]:
    note("START", job)
    is_locked = True
    while is_locked:
        with contextlib.suppress(psycopg.errors.LockNotAvailable):
            await queue.areprioritise(uuid.UUID(locked), 1)
            is_locked = False
    note("END", job)
    return said_by(job)


@queue.job(retry=SOON)
def holds_a_connection_in_a_thread(job: Job, locked: str) -> dict[str, int]:
    note("START", job)
    is_locked = True
    while is_locked:
        with contextlib.suppress(psycopg.errors.LockNotAvailable):
            queue.reprioritise(uuid.UUID(locked), 1)
            is_locked = False
    note("END", job)
    return said_by(job)


# They wait for ever, and ignore a cancellation.

TIMEOUT = 0.5


@queue.job(timeout=TIMEOUT, max_attempts=1)
async def hangs(job: Job) -> None:
    note("START", job)
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


@queue.job(timeout=TIMEOUT, max_attempts=1)
def hangs_in_a_thread(job: Job) -> None:
    note("START", job)
    while True:
        time.sleep(1)


@queue.job(timeout=TIMEOUT, max_attempts=1, process=True)
def hangs_in_a_child(job: Job) -> None:
    note("START", job)
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(60)


@queue.job(timeout=TIMEOUT, max_attempts=1)
async def hangs_with_the_loop(job: Job) -> dict[str, int]:
    note("START", job)
    block_until("go on")
    note("END", job)
    return said_by(job)


@queue.job(retry=SOON)
async def ends_when_cut_off(job: Job) -> dict[str, int]:
    note("START", job)
    if job.attempts > 1:
        return await new_owner(job)
    while not heard("cut off"):
        await asyncio.sleep(0.01)
    note("END", job)
    return said_by(job)


@queue.job(retry=SOON)
async def patient_too(job: Job) -> dict[str, int]:
    return await patient.function(job)


def block_until(word: str) -> None:
    while not heard(word):
        time.sleep(0.05)
