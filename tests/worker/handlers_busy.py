"""Handlers of each kind that run until they are asked to stop, or never stop."""

from __future__ import annotations

import asyncio
import threading
import time

from howdah import Cancel, Job, JobQueue
from tests.worker.ledger import note

queue = JobQueue()


# They end when they are asked to.


@queue.job
async def cancellable_on_the_loop(job: Job) -> None:
    note("START", job)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        note("TOLD", job)
        raise


@queue.job
def cancellable_in_a_thread(job: Job) -> None:
    note("START", job)
    while not job.cancelled:
        time.sleep(0.01)
    note("TOLD", job)
    raise Cancel("as it was told")


@queue.job(process=True)
def cancellable_in_a_child(job: Job) -> None:
    note("START", job)
    try:
        while True:
            time.sleep(0.01)
    finally:
        note("TOLD", job)


# They do not.


@queue.job
async def hung_on_the_loop(job: Job) -> None:
    note("START", job)
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            note("IGNORED", job)


@queue.job
def hung_in_a_thread(job: Job) -> None:
    note("START", job)
    threading.Event().wait()


@queue.job(process=True)
def hung_in_a_child(job: Job) -> None:
    note("START", job)
    while True:
        try:
            time.sleep(3600)
        except BaseException:  # noqa: BLE001
            note("IGNORED", job)


# They end at once.


@queue.job
async def quick_on_the_loop(job: Job) -> None:
    note("START", job)


@queue.job
def quick_in_a_thread(job: Job) -> None:
    note("START", job)


@queue.job(process=True)
def quick_in_a_child(job: Job) -> None:
    note("START", job)
