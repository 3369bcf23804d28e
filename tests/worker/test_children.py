"""Child processes that are being born as their worker ends: none is left behind, and nobody waits for one."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest

from howdah import JobQueue
from howdah.worker.run.children import ChildNotBorn, Children
from tests.worker import crew_handlers
from tests.worker.in_process import run
from tests.worker.in_process import until as until_seen
from tests.worker.processes import Fleet, until


def never_ready() -> None:
    while True:
        signal.pause()


@pytest.mark.parametrize("waiting", [1, 3])
def test_nobody_is_born_into_a_worker_that_ends(queue: JobQueue, waiting: int) -> None:
    async def main() -> None:
        children = Children(queue._database, never_ready)
        handler = crew_handlers.in_process
        reserved = [asyncio.create_task(children.reserve(handler)) for _ in range(waiting)]
        await until_seen(multiprocessing.active_children)
        await children.close()
        assert all(isinstance(each, ChildNotBorn) for each in await asyncio.gather(*reserved, return_exceptions=True))

    run(main())
    assert multiprocessing.active_children() == []


def test_a_worker_that_is_told_to_stop_while_a_child_is_born_ends_and_the_job_is_back(
    dsn: str, queue: JobQueue, tmp_path: Path
) -> None:
    with Fleet(dsn, tmp_path, "handlers_unborn") as fleet:
        worker = fleet.start("midwife", children=2)
        queue.enqueue("never_begins")
        born = until(lambda: _children_of(worker.pid), "a child is being born")
        assert worker.stop() == 0, worker.log
        assert not any(child.is_running() for child in born)
        (job,) = fleet.jobs()
        assert (job["status"], job["attempts"], job["crashes"], job["worker_id"]) == ("pending", 0, 0, None)
        assert "ERROR" not in worker.log


def _children_of(pid: int) -> list[psutil.Process]:
    return [child for child in psutil.Process(pid).children() if "spawn_main" in " ".join(child.cmdline())]
