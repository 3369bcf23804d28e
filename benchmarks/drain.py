"""A drain: how fast real workers, in processes of their own, get through jobs that wait, by the database's own record."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from benchmarks import meter
from benchmarks.program import program
from benchmarks.server import TYPE, Place

NAME = "bench-worker"
PATIENCE = 600
LOOK_EVERY = 0.05


class Drain(NamedTuple):
    """Figures of one drain, those behind ``rate`` for each job."""

    rate: float
    wal_bytes: float
    buffers: float
    backend_cpu: float
    worker_cpu: float


def drain(place: Place, jobs: int, *arguments: str, workers: int = 1, types: Sequence[str] = (TYPE,)) -> Drain:
    """Lets workers get through so many jobs, which are there already. None begins before all have started up."""
    began, before, ended = place.now(), meter.read(place), place.ended()
    with contextlib.ExitStack() as stack:
        place.conn.execute(
            "SELECT pause_type(p_job_type => paused) FROM unnest(%s::varchar[]) AS paused", (list(types),)
        )
        processes = crew(place, stack, workers, *arguments)
        idle = cpu(place, processes)
        place.conn.execute(
            "SELECT resume_type(p_job_type => paused) FROM unnest(%s::varchar[]) AS paused", (list(types),)
        )
        await_ended(place, ended + jobs, processes)
        until = place.now()
        busy = cpu(place, processes)
    meter.await_end_of(place, NAME)
    used = meter.read(place).since(before)
    done = place.ended() - ended
    return Drain(
        rate(place, began, until),
        used.wal_bytes / done,
        used.buffers / done,
        *((after - before) / done for after, before in zip(busy, idle, strict=True)),
    )


def crew(place: Place, stack: contextlib.ExitStack, workers: int, *arguments: str) -> list[subprocess.Popen[str]]:
    """Workers, once they have registered."""
    started = [stack.enter_context(program("benchmarks.work", place, NAME, *arguments)) for _ in range(workers)]
    pids = [process.pid for process in started]
    while place.one("SELECT count(*) FROM workers WHERE pid = ANY (%(pids)s)", pids=pids) < workers:
        _check(started)
        time.sleep(LOOK_EVERY)
    return started


def cpu(place: Place, processes: Sequence[subprocess.Popen[str]]) -> tuple[float, float]:
    """What the workers' sessions and the workers themselves have used so far."""
    return meter.cpu_seconds(meter.backends(place, NAME)), meter.cpu_seconds(process.pid for process in processes)


def await_ended(place: Place, count: int, processes: Sequence[subprocess.Popen[str]]) -> None:
    deadline = time.monotonic() + PATIENCE
    while place.ended() < count:
        _check(processes)
        if time.monotonic() > deadline:
            raise RuntimeError(f"after {PATIENCE} s there are still {count - place.ended()} jobs to go")
        time.sleep(LOOK_EVERY)


def rate(place: Place, began: datetime, until: datetime) -> float:
    """Jobs a second between two moments: from the first one's start to the last one's end."""
    return float(
        place.one(
            "SELECT count(*) / extract(epoch FROM max(finished_at) - min(started_at)) FROM archive"
            " WHERE finished_at BETWEEN %(began)s AND %(until)s",
            began=began,
            until=until,
        )
    )


def _check(processes: Sequence[subprocess.Popen[str]]) -> None:
    if any(process.poll() is not None for process in processes):
        raise RuntimeError("a worker has ended before its jobs have")
