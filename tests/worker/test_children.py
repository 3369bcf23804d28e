"""Child processes whose worker ends, or is killed: none is left behind, and nothing waits for one."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import signal
import subprocess
import sys
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest

from howdah import JobQueue
from howdah.worker.run.children import Children, ChildStartError
from tests.worker import child_handlers
from tests.worker.in_process import run
from tests.worker.in_process import until as until_seen
from tests.worker.processes import Fleet, has_ended, until


def never_ready() -> None:
    while True:
        signal.pause()


@pytest.mark.parametrize("waiting", [1, 3])
def test_no_child_is_started_by_a_worker_that_ends(queue: JobQueue, waiting: int) -> None:
    async def main() -> None:
        children = Children(queue._database, never_ready)
        handler = child_handlers.in_process
        reserved = [asyncio.create_task(children.reserve(handler)) for _ in range(waiting)]
        await until_seen(multiprocessing.active_children)
        await children.close()
        assert all(
            isinstance(each, ChildStartError) for each in await asyncio.gather(*reserved, return_exceptions=True)
        )

    run(main())
    assert multiprocessing.active_children() == []


def test_a_worker_that_stops_while_a_child_starts_ends_and_releases_the_job(
    dsn: str, queue: JobQueue, tmp_path: Path
) -> None:
    with Fleet(dsn, tmp_path, "handlers_endless_import") as fleet:
        worker = fleet.start("starter", children=2)
        queue.enqueue("never_begins")
        starting = until(lambda: _children_of(worker.pid), "a child is starting")
        assert worker.stop() == 0, worker.log
        assert not any(child.is_running() for child in starting)
        (job,) = fleet.jobs()
        assert (job["status"], job["attempts"], job["crashes"], job["worker_id"]) == ("pending", 0, 0, None)
        assert "ERROR" not in worker.log


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the child ends by its pipe, for which it needs the GIL")
def test_a_child_that_holds_the_gil_dies_with_its_killed_worker(dsn: str, queue: JobQueue, tmp_path: Path) -> None:
    with Fleet(dsn, tmp_path, "handlers_gil") as fleet:
        worker = fleet.start("killed", children=1)
        queue.enqueue("holds_the_gil")
        (start,) = until(lambda: fleet.ledger.entries("START"), "the handler runs")
        child = psutil.Process(start.pid)
        until(lambda: child.cpu_times().user > 0.5, "it is in the regular expression")
        try:
            worker.kill()
            until(lambda: has_ended(child), "the child has ended", within=30)
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()


def test_a_child_whose_worker_ended_first_ends_at_once() -> None:
    """The process that started it is not its parent any more when it asks the kernel to end with its parent."""
    program = (
        "import multiprocessing, os, sys, types\n"
        "from howdah.worker.run.parent_death import die_with_worker\n"
        "multiprocessing.parent_process = lambda: types.SimpleNamespace(pid=os.getppid() + int(sys.argv[1]))\n"
        "die_with_worker()\n"
        "sys.exit(3)\n"
    )
    codes = [subprocess.run([sys.executable, "-c", program, difference]).returncode for difference in ("0", "1")]
    assert codes == [3, 0]


def _children_of(pid: int) -> list[psutil.Process]:
    return [child for child in psutil.Process(pid).children() if "spawn_main" in " ".join(child.cmdline())]
