"""The case of handlers that fork."""

from __future__ import annotations

import psutil  # type: ignore[import-untyped, unused-ignore]

from howdah.db.forks import EXIT_CODE
from tests.faults.case import case
from tests.faults.stage import Stage
from tests.worker.processes import WorkerProcess, until

WAYS = {
    "forks_in_a_thread": ("raises", "returns", "returns, forked by C", "exits", "completes"),
    "forks_on_the_loop": ("raises", "returns", "returns, forked by C", "exits", "waits"),
    "forks_in_a_child": ("raises", "returns", "returns, forked by C", "exits", "completes"),
    "forks_on_a_childs_loop": ("raises", "returns", "waits"),
}


@case(53, "forked-copy", checks="I1 I2 I3 I4 I5 I7", handlers="handlers_copies")
def forked_copy(stage: Stage) -> None:
    """Handlers fork, on the loop, in threads and in child processes, and their copies leave them by an exception: no copy acts as a worker."""
    (worker,) = stage.start(children=2)
    sessions = sessions_of(stage, worker)
    for _ in range(stage.scaled(10, 1)):
        forking = [
            stage.enqueue(handler, {"how": how}, max_attempts=1) for handler, ways in WAYS.items() for how in ways
        ]
        stage.enqueue_many("work_in_a_child", stage.scaled(20, 5))
        stage.enqueue_many("work", stage.scaled(100, 20))
        stage.fleet.await_drained()
        stage.fault(len(forking))
        for job in (stage.queue.get(id) for id in forking):
            assert job.status == "completed", f"{job.job_type} {job.data}: {job.last_error}"
            assert isinstance(job.result, dict)
            assert job.result["code"] == EXIT_CODE, f"the copy of {job.job_type} {job.data} ended with {job.result}"
    assert sessions <= sessions_of(stage, worker), "a copy has ended a session of the worker"
    assert worker.log.count("is a forked copy of a worker, and ends") == stage.faults, worker.log
    died_with_its_copy_alive(stage, worker)


def died_with_its_copy_alive(stage: Stage, worker: WorkerProcess) -> None:
    """A copy that outlives the worker keeps nothing of it open: neither its sessions nor the pipes to its children."""
    id = stage.enqueue("leaves_a_copy")
    stage.enqueue("work_in_a_child")
    stage.fleet.await_drained()
    left = stage.queue.get(id).result
    assert isinstance(left, dict)
    children = [each for each in psutil.Process(worker.pid).children() if "spawn_main" in " ".join(each.cmdline())]
    assert children, "there was no child process"
    stage.kill(worker)
    until(lambda: not sessions_of(stage, worker), "the database has seen the worker's end")
    until(lambda: not any(each.is_running() for each in children), "its children have seen it, too")
    assert psutil.pid_exists(left["copy"]), "the copy was to live on"


def sessions_of(stage: Stage, worker: WorkerProcess) -> set[int]:
    rows = stage.execute("SELECT pid FROM pg_stat_activity WHERE application_name = %s", worker.name)
    return {row["pid"] for row in rows}
