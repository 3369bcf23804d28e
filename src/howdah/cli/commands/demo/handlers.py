"""What the workers of the demo run, as ``howdah work howdah.cli.commands.demo.handlers`` finds it.

The handlers only sleep, as if they worked; ``count_primes`` really computes.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from howdah.handlers.outcome import Fail
from howdah.model.job import Job
from howdah.model.priority import Priority
from howdah.queue import JobQueue

SCHEMA: Final = "howdah_demo"
BATCH_SIZE: Final = 25
FAILURES: Final = 2
"""Attempts at which the partner does not answer."""
SCENES: Final = 10
_SCENE_SECONDS: Final = 0.25
_LONG_SCENE_SECONDS: Final = 3.0
_A_MOMENT: Final = 0.12

queue = JobQueue(schema=SCHEMA)


# Three priorities


@queue.job(priority=Priority.EXPLICIT)
async def send_invoice(invoice: int, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return f"invoice {invoice} is sent"


@queue.job(priority=Priority.DISCOVERED)
async def resize_photo(photo: int, seconds: float, broken: bool = False) -> str:
    await asyncio.sleep(seconds)
    if broken:
        raise Fail("the photo ends in the middle")
    return f"photo {photo} is resized"


@queue.job(priority=Priority.BACKFILL)
async def reindex_page(page: int, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return f"page {page} is in the index"


# Other ways to run


@queue.job(batch_size=BATCH_SIZE)
async def send_newsletter(jobs: list[Job]) -> None:  # noqa: ARG001
    """One call for many jobs."""
    await asyncio.sleep(0.1)


@queue.job
def write_report(report: int) -> str:
    """A plain function runs in a thread, and may block it."""
    time.sleep(0.2)
    return f"report {report} is written"


@queue.job(process=True)
def count_primes(below: int) -> int:
    """A handler that keeps a core busy runs in a child process."""
    return sum(all(number % divisor for divisor in range(2, int(number**0.5) + 1)) for number in range(2, below))


# What happens to jobs


@queue.job
async def call_partner(job: Job) -> str:
    await asyncio.sleep(_A_MOMENT)
    failures = sum(error.kind == "failed" for error in job.errors)
    if failures < FAILURES:
        raise ConnectionError("the partner did not answer")
    return "the partner has answered"


@queue.job
async def send_reminder() -> str:
    await asyncio.sleep(_A_MOMENT)
    return "it is time"


@queue.periodic(every=1)
@queue.job
async def take_pulse() -> str:
    await asyncio.sleep(_A_MOMENT)
    return "alive"


@queue.job
async def export_everything(job: Job) -> None:
    """Would take half a minute, and is cancelled before."""
    for percent in range(1, 101):
        await asyncio.sleep(0.3)
        job.progress(percent, f"row {1_000 * percent:,}")


@queue.job
async def render_film(job: Job) -> str:
    """Its worker is killed halfway. The first attempt is slow there, so that there is time to do so."""
    for scene in range(1, SCENES + 1):
        job.progress(100 * (scene - 1) // SCENES, f"scene {scene} of {SCENES}")
        is_slow = not job.crashes and scene > SCENES // 2
        await asyncio.sleep(_LONG_SCENE_SECONDS if is_slow else _SCENE_SECONDS)
    return f"{SCENES} scenes are rendered"
