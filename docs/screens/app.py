"""What runs in the pictures: the handlers of a shop. Their work is pretended, it waits; all else about them is real."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from howdah import Fixed, Job, JobQueue, Priority

log = logging.getLogger("shop")
queue = JobQueue()


@queue.job
async def import_catalog(job: Job, supplier: str, rows: int) -> int:
    """Stages, and events with their outcomes."""
    with job.stage("download", weight=15):
        for _ in job.track(range(48)):
            await asyncio.sleep(0.06)
    job.event("downloaded", supplier=supplier, rows=rows)
    with job.stage("load"):
        for row in job.track(range(rows)):
            if row % 25 == 0:
                await asyncio.sleep(0.1)
            if row == rows // 4:
                log.warning("row %s has no price, it is left out", f"{row:,}")
    return rows


@queue.job(concurrency=2)
def transcode_video(job: Job, video: str, frames: int) -> dict[str, Any]:
    """A loop that is counted."""
    for _ in job.track(range(frames), stage="encode"):
        time.sleep(0.02)
    return {"video": video, "frames": frames}


@queue.job
def sync_photos(job: Job, album: str, photos: int) -> int:
    """Whatever happens to its worker, the next one continues at the last checkpoint."""
    synced = job.resumed["synced"] if job.resumed else 0
    if synced:
        job.event("resumed", synced=synced)
    job.advance(synced, total=photos, stage="upload")
    for photo in range(synced, photos):
        time.sleep(0.025)
        job.advance()
        if (photo + 1) % 200 == 0:
            job.checkpoint({"synced": photo + 1})
            job.event("checkpoint", album=album, synced=photo + 1)
    return photos


@queue.job(retry=Fixed(3))
async def fetch_rates(job: Job, bank: str) -> dict[str, float]:
    """Fails, and is tried again."""
    job.progress(10, f"asking {bank}")
    await asyncio.sleep(1)
    if job.attempts < 3:
        raise ConnectionError(f"no answer from {bank}")
    job.event("received", currencies=31)
    return {"EUR": 1.0, "USD": 1.16}


@queue.job(priority=Priority.EXPLICIT, concurrency=3)
async def send_mail(to: str) -> str:
    """Many small ones, without reports."""
    await asyncio.sleep(0.04)
    return f"sent to {to}"


@queue.job(max_attempts=1)
async def print_label(order: int) -> None:
    await asyncio.sleep(0.3)
    if order % 3 == 0:
        raise OSError("the printer is out of paper")


@queue.job
async def scan_archive(job: Job, boxes: int) -> None:
    """Falls silent: it has stalled."""
    for _ in range(boxes // 3):
        await asyncio.sleep(0.05)
        job.advance(total=boxes, stage="scan")
    await asyncio.Event().wait()
