"""A worker that is stopped for longer than its lease, and then continues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from howdah import JobQueue
from howdah.handlers.outcome import Completed
from howdah.worker import calls
from tests.worker.handlers_zombie import NEW_PERCENT
from tests.worker.processes import Fleet, WorkerProcess, until

OVERTAKEN = ("completes", "fails", "reports", "waits")


def test_no_write_of_a_stale_worker_counts_and_its_handlers_get_the_error(
    dsn: str, queue: JobQueue, tmp_path: Path
) -> None:
    with Fleet(dsn, tmp_path, "handlers_zombie") as fleet:
        stale = fleet.start("stale").await_ready()
        for job_type in (*OVERTAKEN, "waits_in_a_child"):
            queue.enqueue(job_type)
        until(lambda: fleet.ledger.count("START") == 5, "every handler has begun")
        owner = fleet.start("owner", children=4, types=[*OVERTAKEN, "waits_in_a_child"]).await_judge()
        stale.freeze()
        until(lambda: fleet.ledger.count("OWNER") == 4, "the others have an owner")
        until(lambda: owners(fleet) == as_the_new_owner_left_them(), "the new owner's report is written")
        stale_boot = boot(fleet, stale)
        owner_boot = boot(fleet, owner)

        fleet.ledger.say("overtaken")
        stale.thaw()
        until(lambda: fleet.ledger.count("STALE") == 2, "the stale handlers have ended")
        until(lambda: fleet.ledger.count("TOLD") == 3, "the others have found their claims lost")
        until(lambda: boot(fleet, stale) not in (None, stale_boot), "the stale worker begins a new life")
        queue.wait_for(queue.enqueue("probe"), timeout=30)
        assert owners(fleet) == as_the_new_owner_left_them()
        assert boot(fleet, owner) == owner_boot
        assert stale.is_running

        fleet.ledger.say("finish")
        fleet.await_drained()
        for job in fleet.jobs("job_type <> 'probe'"):
            assert (job["status"], job["result"], job["attempts"]) == ("completed", "new", 2)
            assert job["worker_id"] == "owner"
            assert [error["kind"] for error in job["errors"]] == ["worker died"], "no stale failure was recorded"


def test_a_stale_worker_does_not_take_its_name_back_from_the_one_that_replaced_it(
    dsn: str, queue: JobQueue, tmp_path: Path
) -> None:
    with Fleet(dsn, tmp_path, "handlers_load") as fleet:
        stale = fleet.start("worker").await_ready()
        job = queue.enqueue("patient", max_attempts=20)
        until(lambda: fleet.ledger.count("START") == 1, "it runs")
        stale.freeze()
        replacement = fleet.start("worker").await_ready()
        until(lambda: fleet.ledger.count("START") == 2, "it runs again, under a worker of the same name")
        stale.thaw()
        until(lambda: fleet.ledger.count("TOLD"), "the stale handler has found its claim lost")
        thawed = fleet.rows("SELECT clock_timestamp() AS now")[0]["now"]
        until(
            lambda: fleet.rows("SELECT FROM howdah.workers WHERE heartbeat_at > %s::timestamptz + lease", thawed),
            "both had time to beat",
        )
        fleet.ledger.say("finish")
        ended = queue.wait_for(job, timeout=180)
        assert (ended.status, ended.attempts, ended.crashes) == ("completed", 2, 1)
        assert fleet.ledger.count("START") == 2
        assert replacement.is_running


def owners(fleet: Fleet) -> list[tuple[Any, ...]]:
    jobs = fleet.jobs("job_type = ANY (%s)", list(OVERTAKEN))
    names = ("job_type", "status", "worker_id", "attempts", "progress", "current_stage", "result")
    return sorted(tuple(job[name] for name in names) for job in jobs)


def as_the_new_owner_left_them() -> list[tuple[Any, ...]]:
    return [(job_type, "running", "owner", 2, NEW_PERCENT, "owner", None) for job_type in OVERTAKEN]


def boot(fleet: Fleet, worker: WorkerProcess) -> Any:
    rows = fleet.rows("SELECT incarnation AS boot FROM howdah.workers WHERE worker_id = %s", worker.name)
    return rows[0]["boot"] if rows else None


@pytest.mark.parametrize("jobs", [1, 3])
def test_nothing_of_a_batch_counts_that_is_stale_as_a_whole(queue: JobQueue, jobs: int) -> None:
    queue.enqueue_many("work", [{}] * jobs)
    held = [(job.id, job.token) for job in queue.claim(["work"], jobs)]
    stale = [(id, token - 1) for id, token in held]

    assert queue._database.run(calls.start(queue._context, stale)) == set()
    assert queue._database.run(calls.complete(queue._context, [(hold, Completed(None)) for hold in stale])) == (
        [None] * jobs
    )
    assert queue._database.run(calls.start(queue._context, [*stale[1:], held[0]])) == {held[0][0]}
    ends = [(hold, Completed(None)) for hold in [*stale[1:], held[0]]]
    assert queue._database.run(calls.complete(queue._context, ends)) == [None] * (jobs - 1) + ["completed"]
    assert [job.status for job in queue.list(status="completed")] == ["completed"]
