"""Cases in which a worker continues after it was declared dead."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg

from howdah import Job, LeaseLost
from tests.faults.case import case
from tests.faults.handlers_zombies import DEADLINE
from tests.faults.stage import Stage
from tests.worker.processes import WorkerProcess, until

ALL = "I1 I2 I3 I4 I5 I7"


@case(4, "zombie-complete", checks=ALL, handlers="handlers_zombies")
def zombie_complete(stage: Stage) -> None:
    """A worker is frozen for longer than its lease, another worker gets its jobs, and then the first completes them."""
    overtaken(stage, "overtaken_completes", "overtaken_completes_by_hand")
    # The worker may have found its lease lost, and write nothing. The handlers by hand write in any case.
    nothing_was_accepted(stage, "complete")


@case(5, "zombie-fail", checks=ALL, handlers="handlers_zombies")
def zombie_fail(stage: Stage) -> None:
    """A worker is frozen for longer than its lease, another worker gets its jobs, and then they fail in the first."""
    jobs = overtaken(stage, "overtaken_raises", "overtaken_gives_up")
    nothing_was_accepted(stage, "fail")
    for ended in map(stage.queue.get, jobs):
        assert (ended.status, ended.result) == ("completed", {"token": ended.token}), (
            f"{ended.id} is {ended.status} with {ended.result}"
        )
        assert [error.kind for error in ended.errors] == ["worker died"], f"no stale failure: {ended.errors}"


@case(6, "zombie-heartbeat", checks=ALL, handlers="handlers_zombies")
def zombie_heartbeat(stage: Stage) -> None:
    """Stale heartbeats, progress, events, checkpoints, starts, snoozes, releases and a cancellation do not change what the new owner wrote."""
    overtakes = ["overtaken_speaks", "overtaken_by_hand"]
    jobs = [stage.enqueue(job_type) for job_type in overtakes]
    stale = stage.start(types=[*overtakes, "probe"])[0]
    twin = stage.fleet.start("twin", types=["patient"])
    stage.enqueue("patient")
    until(lambda: started(stage, *overtakes) == 2, "both handlers have begun")
    stage.start(types=["overtaken_speaks"])[0].await_judge()
    stale.freeze()
    stage.fault()
    a_twin_replaces(stage, twin)
    until(lambda: started(stage, "overtaken_speaks") == 2, "a job has a new owner")
    by_hand = until(
        lambda: stage.queue.claim(["overtaken_by_hand"], worker_id="by hand"), "the other one is claimed by hand"
    )[0]
    until(lambda: of_jobs(stage, *jobs)[0]["progress"] == 7, "the new owner's progress is written")
    before = of_jobs(stage, *jobs)
    let_go_on(stage, stale, 2)
    assert_unchanged(before, of_jobs(stage, *jobs))
    nothing_was_accepted(stage, "progress", "event", "checkpoint", "snooze", "release", "start")
    stage.queue.complete(by_hand, {"token": by_hand.token})
    stage.fleet.ledger.say("finish")
    stage.fleet.await_drained()


def a_twin_replaces(stage: Stage, stale: WorkerProcess) -> None:
    """Another worker takes the name of a frozen one; the heartbeats of the old one do not keep the new one alive."""
    until(lambda: started(stage, "patient") == 1, "the twin's job has begun")
    stale.freeze()
    owner = stage.fleet.start(stale.name, types=["patient"]).await_ready()
    until(lambda: started(stage, "patient") == 2, "the twin has taken the job over")
    owner.freeze()
    stage.fault(2)
    before = beat_of(stage, owner)
    stale.thaw()
    until(lambda: not stale.is_running or beat_of(stage, owner) != before, "the stale one has tried to beat")
    # Nothing keeps it alive: where this takes long, it may be declared dead meanwhile.
    assert beat_of(stage, owner) in (None, before), "a stale heartbeat kept another worker alive"
    owner.thaw()


def beat_of(stage: Stage, worker: WorkerProcess) -> Any:
    rows = stage.execute("SELECT heartbeat_at FROM howdah.workers WHERE worker_id = %s", worker.name)
    return rows[0]["heartbeat_at"] if rows else None


@case(7, "aba-token", checks="I1 I2 I3 I5 I7", handlers="handlers_zombies")
def aba_token(stage: Stage) -> None:
    """After a snooze, and after an operator's retry, a job is claimed with the same number of attempts: the first claim is over."""
    snoozed, retried = stage.enqueue("snoozes_and_goes_on"), stage.enqueue("completes_and_goes_on")
    stage.start()
    until(lambda: stage.queue.get(retried).status == "completed", "one of them has ended")
    stage.queue.retry(retried)
    until(lambda: stage.fleet.ledger.count("START") == 4, "both run for the second time")
    stage.fault(2)
    assert {entry.attempt for entry in stage.fleet.ledger.entries("START")} == {1}, "the number of attempts is the same"
    before = of_jobs(stage, snoozed, retried)
    stage.fleet.ledger.say("overtaken")
    until(lambda: stage.fleet.ledger.count("STALE") == 2, "the first runs have ended")
    stage.queue.wait_for(stage.enqueue("probe"), timeout=180)
    after = of_jobs(stage, snoozed, retried)
    stage.fleet.ledger.say("finish")
    stage.fleet.await_drained()
    nothing_was_accepted(stage, "progress", "fail", "complete")
    assert_unchanged(before, after)


@case(
    8,
    "rescue-vs-complete",
    checks="I1 I2 I3 I5 I7",
    handlers="handlers_zombies",
    fails="by_hand ends_at_its_deadline",
)
def rescue_vs_complete(stage: Stage) -> None:
    """The sweep recovers a job at the very moment at which it is completed."""
    for race in (sweep_wins, sweep_is_undone, completion_wins, completion_is_undone):
        for attempts in (1, 2):
            race(stage, overdue(stage, attempts))
    at_once = [race_by_chance(stage, overdue(stage, 1 + n % 2)) for n in range(stage.scaled(200, 40))]
    with sweeping(stage):
        stage.start(2)
        for _ in range(stage.scaled(200, 20)):
            stage.enqueue("ends_at_its_deadline", {"seconds": DEADLINE + stage.chance.uniform(-0.15, 0.02)})
        stage.fleet.await_drained()
    if not stage.quick:
        assert set(at_once) == {"sweep", "completion"}, f"both orders occurred at the same instant: {set(at_once)}"
        assert (seen := orders_of_workers(stage)) == {"sweep", "completion"}, (
            f"both orders occurred in the workers: {seen}"
        )


def overdue(stage: Stage, attempts: int) -> Job:
    """A job that is held, and whose deadline has passed."""
    stage.fault()
    stage.enqueue("by_hand", max_attempts=attempts, timeout=0.001)
    job = stage.queue.claim(["by_hand"], 1, worker_id="by hand")[0]
    stage.queue.start(job)
    late = "SELECT FROM howdah.live WHERE id = %s AND deadline_at < clock_timestamp()"
    until(lambda: stage.execute(late, job.id), "its deadline has passed")
    return job


def sweep_wins(stage: Stage, job: Job) -> None:
    with sweep_under_way(stage, job) as (conn, completed):
        conn.commit()
        assert not completed(), "the sweep came first, and the completion was accepted"
    assert_taken_back(stage, job)


def sweep_is_undone(stage: Stage, job: Job) -> None:
    with sweep_under_way(stage, job) as (conn, completed):
        conn.rollback()
        assert completed(), "the sweep was rolled back, and the completion was refused"


def completion_wins(stage: Stage, job: Job) -> None:
    with psycopg.connect(stage.dsn) as conn:
        stage.queue.complete(job, {"token": job.token}, conn=conn)
        assert not swept(stage, job), "the sweep took what was being completed"
    assert not swept(stage, job), "the sweep took what was completed"


def completion_is_undone(stage: Stage, job: Job) -> None:
    with psycopg.connect(stage.dsn) as conn:
        stage.queue.complete(job, {"token": job.token}, conn=conn)
        assert not swept(stage, job), "the sweep took what was being completed"
        conn.rollback()
    assert swept(stage, job), "the sweep left what was not completed after all"
    assert not completed_by_hand(stage, job), "the sweep came first, and the completion was accepted"
    assert_taken_back(stage, job)


@contextmanager
def sweep_under_way(stage: Stage, job: Job) -> Iterator[tuple[psycopg.Connection, Callable[[], bool]]]:
    """The sweep has taken the job, and has not committed; the completion waits for that."""
    with psycopg.connect(stage.dsn) as conn, ThreadPoolExecutor(1) as pool:
        assert job.id in {each.id for each in stage.queue.recover(conn=conn)}
        completion = pool.submit(completed_by_hand, stage, job)
        waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        until(lambda: stage.execute(waiting), "the completion waits for the sweep")
        yield conn, completion.result


def race_by_chance(stage: Stage, job: Job) -> str:
    """Both begin at once; the first counts, and the other is refused."""
    begin = threading.Barrier(2)
    delays = stage.chance.uniform(0, 0.002), stage.chance.uniform(0, 0.002)

    def after(delay: float, act: Callable[[Stage, Job], bool]) -> bool:
        begin.wait(60)
        threading.Event().wait(delay)
        return act(stage, job)

    with ThreadPoolExecutor(2) as pool:
        rescue = pool.submit(after, delays[0], swept)
        completion = pool.submit(after, delays[1], completed_by_hand)
        took, completed = rescue.result(), completion.result()
    assert took != completed, f"job {job.id}: recovered {took}, completed {completed}"
    if took:
        assert_taken_back(stage, job)
    return "sweep" if took else "completion"


def swept(stage: Stage, job: Job) -> bool:
    return job.id in {each.id for each in stage.queue.recover()}


def completed_by_hand(stage: Stage, job: Job) -> bool:
    try:
        stage.queue.complete(job, {"token": job.token})
    except LeaseLost:
        return False
    return True


def assert_taken_back(stage: Stage, job: Job) -> None:
    """It is failed, or waits; then it is run again."""
    now = stage.queue.get(job)
    assert now.status == ("failed" if job.max_attempts == 1 else "pending"), f"recovered, and {now.status}"
    if now.status == "pending":
        stage.queue.reschedule(job.id, delay=0)
        again = stage.queue.claim(["by_hand"], 1, worker_id="by hand")[0]
        stage.queue.complete(again, {"token": again.token})


@contextmanager
def sweeping(stage: Stage) -> Iterator[None]:
    """Sweeps nearly without a pause."""
    stopping = threading.Event()

    def sweep() -> None:
        while not stopping.wait(0.002):
            stage.queue.recover()

    with ThreadPoolExecutor(1) as pool:
        sweeper = pool.submit(sweep)
        try:
            yield
        finally:
            stopping.set()
            sweeper.result()


def orders_of_workers(stage: Stage) -> set[str]:
    ends = stage.execute(
        "SELECT DISTINCT CASE WHEN after = 'completed' THEN 'completion' ELSE 'sweep' END AS first FROM audit.transitions"
        " WHERE (after = 'completed' AND worker LIKE 'worker-%%') OR (token > token_before AND holder LIKE 'worker-%%')"
    )
    return {each["first"] for each in ends}


# What they share


def overtaken(stage: Stage, *job_types: str) -> list[uuid.UUID]:
    """A worker is frozen until another one runs its jobs, and thawed; then the new owner ends them."""
    jobs = [stage.enqueue(job_type) for job_type in job_types]
    stale = stage.start(types=[*job_types, "probe"])[0]
    until(lambda: started(stage, *job_types) == len(jobs), "the handlers have begun")
    stage.start(types=job_types, children=4)[0].await_judge()
    stale.freeze()
    stage.fault()
    until(lambda: started(stage, *job_types) == 2 * len(jobs), "the jobs have a new owner")
    let_go_on(stage, stale, len(jobs))
    stage.fleet.ledger.say("finish")
    stage.fleet.await_drained()
    return jobs


def let_go_on(stage: Stage, stale: WorkerProcess, jobs: int) -> None:
    """Thaws a worker that has lost its jobs, and waits until all that it writes of them is written."""
    stage.fleet.ledger.say("overtaken")
    stale.thaw()
    until(lambda: stage.fleet.ledger.count("STALE") == jobs, "the stale handlers have ended")
    # A worker writes in the order of its reports, and only this one runs probes.
    stage.queue.wait_for(stage.enqueue("probe"), timeout=180)


def started(stage: Stage, *job_types: str) -> int:
    return stage.fleet.ledger.count("START", where=lambda entry: entry.job_type in job_types)


def nothing_was_accepted(stage: Stage, *verbs: str) -> None:
    """Each of these verbs was tried by a stale holder, and refused each time."""
    accepted = stage.fleet.ledger.entries(*(f"ACCEPTED {verb}" for verb in verbs))
    assert not accepted, f"accepted from a stale holder: {[entry.word for entry in accepted]}"
    for verb in verbs:
        assert stage.fleet.ledger.count(f"REFUSED {verb}"), f"no stale holder has tried to {verb}"


def assert_unchanged(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> None:
    """What the new owners hold is as they left it."""
    changed = {name for job, now in zip(before, after, strict=True) for name in job if job[name] != now[name]}
    assert not changed, f"a stale holder has changed {', '.join(sorted(changed))}"


def of_jobs(stage: Stage, *ids: uuid.UUID) -> list[dict[str, Any]]:
    """All that a holder can change of jobs, in the order in which they were added."""
    return stage.execute(
        "SELECT d.id, d.status, d.token, d.attempts, d.worker_id, d.progress, d.current_stage, d.events_count, d.checkpoint,"
        " d.errors, d.run_at, d.cancel_requested_at, l.lease_until"
        " FROM howdah.job_details AS d LEFT JOIN howdah.live AS l USING (id) WHERE d.id = ANY (%s) ORDER BY d.id",
        list(ids),
    )
