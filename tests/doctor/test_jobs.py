"""Jobs that are not claimed or not recovered; schedules; workers in trouble."""

from __future__ import annotations

import asyncio
import threading

import pytest

from howdah import Flow, JobQueue
from howdah.doctor import workers
from tests.doctor.conftest import Db, codes, only_finding, register, run_all
from tests.worker.in_process import until as auntil
from tests.worker.in_process import working
from tests.worker.processes import until

AGO = "now() - interval '1 hour'"
OURS = "own_write = NOT own_write"
"""Without it, an UPDATE is taken for a plain client's, which begins, goes on with or ends a claim."""


def test_a_type_that_no_worker_handles(db: Db, queue: JobQueue) -> None:
    queue.enqueue("mial")
    assert codes(queue) == []
    db.execute(f"UPDATE live SET run_at = {AGO}, created_at = {AGO}".encode())
    assert "no worker is alive" in only_finding(queue, "type-unhandled").what
    register(db, "a", types=["mail"])
    finding = only_finding(queue, "type-unhandled")
    assert (
        "1 job of type mial is due, the first for 60m, and the only live worker has no handler for it" in finding.what
    )
    assert finding.cause == "type mial, for which no worker ever had a handler"
    register(db, "b", types=["mial"])
    assert codes(queue) == ["type-stuck"]
    (job,) = queue.claim(["mial"])
    queue.fail(job, "broken", delay=0)
    db.execute(f"UPDATE live SET run_at = {AGO} WHERE id = %s".encode(), (job.id,))
    assert codes(queue) == [], "it was tried a moment ago"


def test_a_type_that_a_loop_of_its_own_handles_is_not_unhandled(db: Db, queue: JobQueue) -> None:
    for _ in range(2):
        queue.enqueue("own")
    queue.complete(queue.claim(["own"], batch_size=1)[0])
    db.execute(f"UPDATE live SET run_at = {AGO}, created_at = {AGO}".encode())
    assert codes(queue) == []


def test_a_type_that_was_paused_and_forgotten(db: Db, queue: JobQueue) -> None:
    queue.enqueue("send mail")
    queue.pause("send mail", because="the server moves")
    assert codes(queue) == []
    run_all(db, [f"UPDATE live SET run_at = {AGO}, created_at = {AGO}", f"UPDATE types SET paused_at = {AGO}"])
    finding = only_finding(queue, "type-paused")
    assert "has been paused for 60m (the server moves)" in finding.what
    assert finding.remedy == "howdah resume 'send mail'"


@pytest.mark.parametrize(
    ("running", "why"), [(0, "its workers have free slots"), (50, "every slot of its workers is taken")]
)
def test_a_type_that_stands_still_beside_live_workers(db: Db, queue: JobQueue, running: int, why: str) -> None:
    queue.enqueue("work")
    db.execute(f"UPDATE live SET run_at = {AGO}, created_at = {AGO}".encode())
    register(db, "a", running=running)
    finding = only_finding(queue, "type-stuck")
    assert why in finding.what
    assert finding.cause == "worker a"


def test_what_a_dead_worker_still_holds(db: Db, queue: JobQueue) -> None:
    queue.enqueue_many("work", ({} for _ in range(2)))
    register(db, "gone")
    db.execute("SELECT count(*) FROM claim('gone', '{work}', p_start => 1)")
    assert codes(queue) == []
    db.execute(f"UPDATE workers SET heartbeat_at = {AGO}".encode())
    finding = only_finding(queue, "job-orphaned")
    assert "2 jobs are still held by dead workers" in finding.what
    assert finding.cause == "worker gone"
    assert "howdah recover" in finding.remedy
    run_all(db, ["DELETE FROM workers", f"UPDATE live SET claimed_at = {AGO}, {OURS}"])
    assert only_finding(queue, "job-orphaned").cause == "worker gone"
    queue.recover()
    assert codes(queue) == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (f"lease_until = {AGO}", "lease-passed"),
        (f"deadline_at = {AGO}", "deadline-passed"),
        (f"cancel_requested_at = {AGO}", "cancel-overdue"),
        (f"status = 'pending', claimed_at = NULL, expires_at = {AGO}", "job-expired"),
        (f"status = 'pending', attempts = max_attempts, run_at = {AGO}", "job-spent"),
    ],
)
def test_what_no_sweep_has_ended(db: Db, queue: JobQueue, change: str, code: str) -> None:
    queue.enqueue("work", run_at=None)
    queue.claim(["work"])
    db.execute(f"UPDATE live SET status = 'running', started_at = now(), {OURS}".encode())
    assert codes(queue) == []
    db.execute(f"UPDATE live SET {change}, {OURS}".encode())
    finding = only_finding(queue, code)
    assert "no worker is alive to sweep" in finding.remedy
    queue.recover()
    assert codes(queue) == []


def test_a_deadline_that_a_job_has_of_its_type_alone(db: Db, queue: JobQueue) -> None:
    queue.enqueue("work")
    queue.claim(["work"])
    db.execute(f"UPDATE live SET status = 'running', started_at = {AGO}, {OURS}".encode())
    assert codes(queue) == []
    db.execute("INSERT INTO types (job_type, timeout) VALUES ('work', '10 minutes')")
    finding = only_finding(queue, "deadline-passed")
    assert "1 job is still running after its deadline, for 50m" in finding.what
    queue.recover()
    assert codes(queue) == []


def test_a_type_that_fails_more_often_than_not(queue: JobQueue) -> None:
    queue.enqueue_many("work", ({} for _ in range(38)))
    jobs = queue.claim(["work"], batch_size=38)
    for job in jobs[:19]:
        queue.complete(job)
    for job in jobs[19:]:
        queue.fail(job, "broken", give_up=True)
    assert codes(queue) == []
    queue.enqueue("work")
    queue.fail(queue.claim(["work"])[0], "broken", give_up=True)
    finding = only_finding(queue, "type-failing")
    assert "20 of 39 jobs of type work" in finding.what
    assert "howdah list --type work --status failed" in finding.remedy


def test_a_schedule_that_does_not_fire(db: Db, queue: JobQueue) -> None:
    queue.schedules.set("nightly", "report", cron="0 3 * * *")
    assert codes(queue) == []
    db.execute(f"UPDATE schedules SET next_run_at = {AGO}".encode())
    assert "waits for a worker: none is alive" in only_finding(queue, "schedule-overdue").what
    register(db, "a", types=["report"])
    assert "none of the live workers fired it" in only_finding(queue, "schedule-overdue").what
    db.execute("UPDATE schedules SET cron = 'whenever'")
    assert "cannot be read" in only_finding(queue, "schedule-overdue").what
    queue.schedules.pause("nightly")
    assert codes(queue) == []


def test_a_schedule_whose_type_has_no_handler(db: Db, queue: JobQueue) -> None:
    queue.schedules.set("nightly", "report", cron="0 3 * * *")
    register(db, "a", types=["mail"])
    finding = only_finding(queue, "schedule-unhandled")
    assert finding.cause == "schedule nightly"
    register(db, "b", types=["report"])
    assert codes(queue) == []


def test_a_schedule_that_left_the_code(db: Db, queue: JobQueue) -> None:
    queue.schedules.set("nightly", "report", cron="0 3 * * *")
    register(db, "a", types=["report"])
    assert codes(queue) == []
    db.execute(f"UPDATE schedules SET declared_at = {AGO}".encode())
    finding = only_finding(queue, "schedule-left-code")
    assert finding.cause == "schedule nightly"
    assert "howdah schedule delete nightly" in finding.remedy
    db.execute('UPDATE workers SET meta = \'{"schedules": ["nightly"]}\'')
    assert codes(queue) == []


def test_a_dead_worker_that_no_sweep_has_removed(db: Db, queue: JobQueue) -> None:
    register(db, "old", age=60)
    assert codes(queue) == []
    register(db, "old", age=3_600)
    finding = only_finding(queue, "worker-dead")
    assert finding.cause == "worker old on web-1, pid 4711"
    queue.recover()
    assert codes(queue) == []


def test_a_loop_that_a_handler_blocks(
    healthy_dsn: str, db: Db, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "LOOP_LAG", 1.0)
    release = threading.Event()

    async def scenario() -> None:
        async with JobQueue(healthy_dsn) as own:

            @own.job
            async def block() -> None:
                release.wait()

            async with working(own, name="w", heartbeat=0.1, lease=60):
                await block.aenqueue()
                await auntil(release.is_set)

    worker = threading.Thread(target=lambda: asyncio.run(scenario()))
    worker.start()
    try:
        until(
            lambda: db.execute("SELECT 1 AS so FROM workers WHERE loop_lag > interval '1 s'").fetchone(), "it is logged"
        )
        finding = only_finding(queue, "loop-blocked")
        assert "the event loop of worker w has been blocked" in finding.what
        assert "loop_blocked" in finding.remedy
    finally:
        release.set()
        worker.join()


def test_handlers_that_run_on(db: Db, queue: JobQueue) -> None:
    register(db, "a", leaked=2)
    finding = only_finding(queue, "handlers-leaked")
    assert "2 handlers of worker a have lost their jobs and are still running" in finding.what


def test_workers_of_several_versions(db: Db, queue: JobQueue) -> None:
    register(db, "old", version="0.1.0", up=7_200)
    register(db, "new", version="0.2.0", up=10)
    assert codes(queue) == [], "a deployment is under way"
    register(db, "new", version="0.2.0", up=3_600)
    finding = only_finding(queue, "versions-mixed")
    assert finding.cause == "old (0.1.0)"
    assert "Howdah 0.2.0" in finding.remedy


def test_a_workflow_that_waits_for_what_cannot_come(db: Db, queue: JobQueue) -> None:
    def make() -> Flow:
        with queue.workflow("w") as flow:
            flow.add("b", after=flow.add("a", name="first"))
        db.execute(f"UPDATE workflows SET started_at = {AGO}".encode())
        return flow

    flow = make()
    assert codes(queue) == []
    # Not through the table jobs: no trigger counts it.
    db.execute("DELETE FROM live WHERE job_type = 'a'")
    finding = only_finding(queue, "workflow-stuck")
    assert "1 node of 1 workflow (w/first) waits for 1 job that is gone" in finding.what
    db.execute(finding.remedy.partition(";")[0].encode())
    assert (codes(queue), flow.status()) == ([], "cancelled")


def test_a_map_that_no_worker_expands(db: Db, queue: JobQueue) -> None:
    @queue.job
    def part(item: int) -> None: ...

    with queue.workflow("w") as flow:
        flow.map(part, flow.add("list"), name="parts")
    (job,) = queue.claim(["list"])
    queue.complete(job, [1, 2])
    assert codes(queue) == []
    run_all(db, [f"UPDATE workflows SET started_at = {AGO}", f"UPDATE workflow_nodes SET opened_at = {AGO}"])
    finding = only_finding(queue, "workflow-behind")
    assert (
        "1 node of 1 workflow (w/parts) has had nothing left to wait for, for a minute, and no worker is alive"
        in finding.what
    )
