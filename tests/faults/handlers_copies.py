"""Handlers that fork, and whose copy goes where only the worker may."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time

from howdah import Job
from tests.faults.handlers import SOON, queue, said_by
from tests.worker.ledger import note


def copied(job: Job, how: str) -> int | None:
    """Forks, and waits for the copy's end: returns its exit code. The copy leaves by an exception, or gets None."""
    copy = fork_by_c() if how == "returns, forked by C" else os.fork()
    if copy:
        return os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
    if how == "raises":
        raise RuntimeError(f"token {job.token}: a copy")
    if how == "exits":
        sys.exit(0)
    if how == "completes":
        job.complete({"token": -1})
    return None


def fork_by_c() -> int:
    """Python does not notice it. If another thread has asked for the interpreter, the copy waits for ever for it to take over: none may ask."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(3600)
    # One that began to wait before asks after its former interval, and later if the machine is busy.
    time.sleep(1)
    copy: int = ctypes.PyDLL(None).fork()
    sys.setswitchinterval(interval)
    return copy


@queue.job(retry=SOON)
def forks_in_a_thread(job: Job, how: str) -> dict[str, int | None]:
    note("START", job)
    code = copied(job, how)
    if code is not None:
        note("END", job)
    return {**said_by(job), "code": code}


@queue.job(retry=SOON)
async def forks_on_the_loop(job: Job, how: str) -> dict[str, int | None]:
    note("START", job)
    code = copied(job, how)
    if how == "waits" and code is None:
        # Until the loop would come round.
        while True:
            await asyncio.sleep(0)
    if code is not None:
        note("END", job)
    return {**said_by(job), "code": code}


@queue.job(retry=SOON, process=True)
def forks_in_a_child(job: Job, how: str) -> dict[str, int | None]:
    note("START", job)
    code = copied(job, how)
    if code is not None:
        note("END", job)
    return {**said_by(job), "code": code}


@queue.job(retry=SOON, process=True)
async def forks_on_a_childs_loop(job: Job, how: str) -> dict[str, int | None]:
    note("START", job)
    code = copied(job, how)
    if how == "waits" and code is None:
        while True:
            await asyncio.sleep(0)
    if code is not None:
        note("END", job)
    return {**said_by(job), "code": code}


@queue.job(retry=SOON)
def leaves_a_copy(job: Job) -> dict[str, int]:
    """Its copy runs until the case ends, also when the worker has ended."""
    note("START", job)
    copy = os.fork()
    if copy == 0:
        os.read(0, 1)
        os._exit(0)
    note("END", job)
    return {**said_by(job), "copy": copy}
