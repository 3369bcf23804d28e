"""Many watchers of one busy queue, in one process, while PostgreSQL is restarted."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from howdah import Job, JobQueue
from howdah.watch.hub import _Connection
from tests import servers
from tests.size import FULL
from tests.worker.durable_server import DurableServer
from tests.worker.processes import Fleet

WATCHERS = 500 if FULL else 60
JOBS, EVENTS, PAUSE = (50, 200, 0.1) if FULL else (10, 30, 0.1)
OF_ALL = 0.1
"""The share of the watchers that look at all jobs, not at one."""


class Asked:
    """The statements that the hub sends."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.statements = 0
        run = _Connection.run

        def counted(line: _Connection, plan: Any) -> Any:
            self.statements += 1
            return run(line, plan)

        patch.setattr(_Connection, "run", counted)


@pytest.fixture
def server() -> Iterator[DurableServer]:
    binaries = servers.find(servers.MAJORS[0])
    if binaries is None:
        pytest.skip(f"PostgreSQL {servers.MAJORS[0]} is not installed here")
    with DurableServer(binaries) as server:
        yield server


def test_every_watcher_sees_every_event_in_order_through_a_restart(
    server: DurableServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(monkeypatch)
    with JobQueue(server.dsn) as queue:
        queue.migrate()
        with Fleet(server.dsn, tmp_path, "handlers_watched") as fleet:
            # Longer than the restart takes, so that nothing is begun anew.
            fleet.start("teller", concurrency=JOBS, lease=60, heartbeat=1).await_ready()
            alone = asyncio.run(_watched(queue, asked, watchers=1, restart=None))
            many = asyncio.run(_watched(queue, asked, watchers=WATCHERS, restart=server))
    print(f"\nstatements a second: {alone:.1f} with one watcher, {many:.1f} with {WATCHERS}")
    assert many <= 3 * alone + 20, "the number of statements does not grow with the watchers"


async def _watched(queue: JobQueue, asked: Asked, *, watchers: int, restart: DurableServer | None) -> float:
    """Runs jobs, and watches them. Returns how many statements that took, in a second."""
    position = await queue.astream_position()
    jobs = [await queue.aenqueue("busy", {"events": EVENTS, "pause": PAUSE}) for _ in range(JOBS)]
    before, begun = asked.statements, time.monotonic()
    of_all = int(watchers * OF_ALL)
    halfway = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for place in range(watchers - of_all):
            group.create_task(_watch_one(queue, jobs[place % JOBS], halfway))
        for _ in range(of_all):
            group.create_task(_watch_all(queue, {job.id for job in jobs}, position))
        if restart is not None:
            await halfway.wait()
            await asyncio.to_thread(restart.halt, "immediate")
            await asyncio.to_thread(restart.start)
    asked_for = (asked.statements - before) / (time.monotonic() - begun)
    await queue.await_for(jobs)
    return asked_for


async def _watch_one(queue: JobQueue, job: Job, halfway: asyncio.Event) -> None:
    seen = []
    async for update in queue.awatch(job):
        assert update.job_id == job.id
        if update.kind == "event":
            seen.append(update.data["n"])
        if len(seen) == EVENTS // 2:
            halfway.set()
    assert_complete(seen)
    assert update.job is not None
    assert update.job.status == "completed"


async def _watch_all(queue: JobQueue, jobs: set[uuid.UUID], position: str) -> None:
    seen: dict[uuid.UUID, list[int]] = defaultdict(list)
    async for update in queue.awatch_all(types=["busy"], kinds=["event"], after=position):
        seen[update.job_id].append(update.data["n"])
        if sum(map(len, seen.values())) == EVENTS * len(jobs):
            break
    assert seen.keys() == jobs
    for told in seen.values():
        assert_complete(told)


def assert_complete(told: list[int]) -> None:
    wrong = [(place, n) for place, n in enumerate(told) if place != n]
    assert not wrong, f"out of order from {wrong[:3]} on, of {len(told)}"
    assert len(told) == EVENTS
