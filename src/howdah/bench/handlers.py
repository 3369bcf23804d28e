"""What the worker processes of a bench run. What it costs is the queue's share: the handlers do next to nothing."""

from __future__ import annotations

import asyncio
import hashlib
import time
from typing import Final

from howdah.bench.tally import Tally
from howdah.handlers.retry import Fixed
from howdah.model.job import Job
from howdah.model.priority import Priority
from howdah.queue import JobQueue

NOTHING: Final = "bench_nothing"
NOTHING_IN_THREAD: Final = "bench_nothing_in_thread"
NOTHING_IN_BATCH: Final = "bench_nothing_in_batch"
PICKUP: Final = "bench_pickup"
PIECES: Final = "bench_pieces"
URGENT: Final = "bench_urgent"
USUAL: Final = "bench_usual"
FILE: Final = "bench_file"
BACKFILL: Final = "bench_backfill"
JOB_TYPES: Final = (NOTHING, NOTHING_IN_THREAD, NOTHING_IN_BATCH, PICKUP, PIECES, URGENT, USUAL, FILE, BACKFILL)

BATCH_SIZE: Final = 500
PIECES_OF_A_JOB: Final = 1_000
_PIECE: Final = b"x" * 20_000
_A_MOMENT: Final = 0.002


def register(queue: JobQueue, tally: Tally) -> None:
    """The handlers of all types, which count in this tally."""
    _register_nothing(queue, tally)
    _register_pieces(queue, tally)
    _register_mixed(queue, tally)


def _register_nothing(queue: JobQueue, tally: Tally) -> None:
    @queue.job(name=NOTHING)
    async def nothing(n: int, filler: str = "") -> None:  # noqa: ARG001
        tally.begin()
        tally.count()

    @queue.job(name=NOTHING_IN_THREAD)
    def nothing_in_thread(n: int, filler: str = "") -> None:  # noqa: ARG001
        tally.begin()
        tally.count_in_thread()

    @queue.job(name=NOTHING_IN_BATCH, batch_size=BATCH_SIZE)
    async def nothing_in_batch(jobs: list[Job]) -> None:
        tally.begin()
        tally.count(len(jobs))

    @queue.job(name=PICKUP)
    async def pickup(sent: float, filler: str = "") -> None:  # noqa: ARG001
        tally.sample(Priority.DISCOVERED, sent)


def _register_pieces(queue: JobQueue, tally: Tally) -> None:
    @queue.job(name=PIECES)
    async def pieces(job: Job, reports: bool, filler: str = "") -> str:  # noqa: ARG001
        """The same work, with or without a word about each piece of it."""
        tally.begin()
        digest = hashlib.sha256()
        if reports:
            job.progress(0, total=PIECES_OF_A_JOB)
        for piece in range(PIECES_OF_A_JOB):
            digest.update(_PIECE)
            if reports:
                job.advance()
            if piece % 10 == 0:
                await asyncio.sleep(0)
        tally.count()
        return digest.hexdigest()


def _register_mixed(queue: JobQueue, tally: Tally) -> None:
    def begin(job: Job, sent: float, fails: int) -> None:
        if job.attempts == 1:
            tally.sample(job.priority, sent)
        if job.attempts <= fails:
            raise ConnectionError(f"attempt {job.attempts} of {fails} that are to fail")

    @queue.job(name=URGENT, priority=Priority.EXPLICIT)
    async def urgent(job: Job, sent: float, fails: int = 0, filler: str = "") -> None:  # noqa: ARG001
        begin(job, sent, fails)

    @queue.job(name=USUAL, priority=Priority.DISCOVERED, retry=Fixed(0.1))
    async def usual(job: Job, sent: float, fails: int = 0, filler: str = "") -> None:  # noqa: ARG001
        begin(job, sent, fails)
        await asyncio.sleep(_A_MOMENT)

    @queue.job(name=FILE, priority=Priority.DISCOVERED)
    def file(job: Job, sent: float, fails: int = 0, filler: str = "") -> None:  # noqa: ARG001
        begin(job, sent, fails)
        time.sleep(_A_MOMENT)

    @queue.job(name=BACKFILL, priority=Priority.BACKFILL)
    async def backfill(job: Job, sent: float, fails: int = 0, filler: str = "") -> None:  # noqa: ARG001
        begin(job, sent, fails)
