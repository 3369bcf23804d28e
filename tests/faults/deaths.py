"""Cases in which workers die."""

from __future__ import annotations

import shutil
import time
import uuid
from typing import Any

import psycopg

from tests.faults.case import case
from tests.faults.stage import Stage
from tests.worker.ledger import times
from tests.worker.processes import Fleet, WorkerProcess, until

LAST = ("its_last_attempt", "its_second_and_last_attempt", "first_in_its_lane")
STANDS_STILL = ("before the commit", "after the commit")

REPLACED = 2
"""The exit code of a worker whose name is taken by another."""

ADDRESS_SPACE = 4 * 2**30
"""Bytes that a worker and each of its children may have, where memory is to run out."""


@case(1, "kill9-random", checks="I1 I2 I3 I4 I5 I6 I7")
def kill9_random(stage: Stage) -> None:
    """Every one to three seconds a worker is killed, between claim and start too, and another takes its place."""
    workers = stage.start(4, concurrency=10)
    watcher = stage.start(1, concurrency=10)[0].await_judge()
    with stage.producing():
        for left in reversed(range(stage.scaled(15, 2))):
            time.sleep(stage.chance.uniform(1, 3) if not stage.quick else 0.5)
            victim = stage.chance.choice(workers)
            if not left:
                stand_still_at_work(stage, victim)
            stage.kill(victim)
            workers[workers.index(victim)] = stage.fleet.start(stage.new_name(), concurrency=10)
    stage.fleet.await_drained()
    assert watcher.is_running


def stand_still_at_work(stage: Stage, victim: WorkerProcess) -> None:
    """Freezes a worker that runs a sound job: one that dies idle leaves nothing to recover, and nothing to fail by mistake."""

    def look() -> bool:
        victim.freeze()
        if any(job["status"] == "running" and job["job_type"] != "doomed" for job in stage.fleet.held_by(victim)):
            return True
        victim.thaw()
        return False

    until(look, f"{victim.name} is in the middle of its work")


@case(2, "kill9-effect-before-ack", checks="I1 I2 I3 I4 I5 I6 I7", handlers="handlers_deaths")
def kill9_effect_before_ack(stage: Stage) -> None:
    """A worker is killed when its handlers have committed their effects: one that commits its completion with it has it once."""
    with psycopg.connect(stage.dsn) as conn:
        conn.execute("CREATE TABLE public.effects (id uuid, token bigint)")
    judge = stage.fleet.start("judge", types=["probe"])
    for _ in range(stage.scaled(5, 1)):
        killed_between_effect_and_end(stage, judge)
    effects = effects_of(stage)
    for job in stage.fleet.jobs():
        assert job["status"] == "completed"
        most = 1 if job["job_type"] == "effect_with_ack" else job["attempts"]
        assert 1 <= effects[job["id"]] <= most, f"{job['id']} has {effects[job['id']]} effects"


def killed_between_effect_and_end(stage: Stage, judge: WorkerProcess) -> None:
    alone = stage.enqueue("effect_before_ack", {"stands_still": True})
    together = {when: stage.enqueue("effect_with_ack", {"stands_still": when}) for when in STANDS_STILL}
    crowd(stage, ["effect_before_ack", "effect_with_ack"], stage.scaled(200, 40))
    victim = stage.start(concurrency=10)[0]
    standing = {alone, *together.values()}
    until(lambda: standing <= set(times(stage.fleet.ledger.entries("STANDS"))), "effects are there, without an end")
    judge.await_judge()
    stage.kill(victim)
    successor = stage.fleet.start(stage.new_name(), concurrency=10)
    stage.fleet.await_drained()
    assert successor.stop() == 0
    effects, runs = effects_of(stage), times(stage.fleet.ledger.entries("START"))
    assert (effects[alone], runs[alone]) == (2, 2), "it runs again, and has its effect again"
    for when in STANDS_STILL:
        assert effects[together[when]] == 1, f"killed {when}, it has its effect once"
    assert [runs[together[when]] for when in STANDS_STILL] == [2, 1]


def crowd(stage: Stage, job_types: list[str], count: int) -> None:
    for number in range(count):
        stage.enqueue(job_types[number % len(job_types)])


def effects_of(stage: Stage) -> dict[uuid.UUID, int]:
    rows = stage.execute("SELECT id, count(*)::int AS effects FROM public.effects GROUP BY id")
    return {row["id"]: row["effects"] for row in rows}


@case(3, "kill9-before-flush", checks="I1 I2 I3 I4 I5 I7", handlers="handlers_deaths")
def kill9_before_flush(stage: Stage) -> None:
    """A worker is killed when its handlers have ended, and nothing of that is written yet, because the archive is locked."""
    slots = stage.scaled(1_000, 100)
    workers = stage.start(stage.scaled(4, 2), concurrency=slots)
    stage.fleet.workers[-1].await_judge()
    with psycopg.connect(stage.dsn) as locker:
        locker.execute("LOCK TABLE howdah.archive IN SHARE MODE")
        # The others may get most of the jobs before one of them claims any.
        stage.enqueue_many("nothing_noted" if stage.quick else "nothing", stage.scaled(20_000, 400))
        have = ended_but_held if stage.quick else begun_by
        victim, *_ = until(
            lambda: [worker for worker in workers if have(stage, worker) >= slots],
            "all that a worker can run has ended, and waits to be written",
        )
        until(lambda: waits_for_a_lock(stage, victim), "it has begun to write them")
        assert not stage.execute("SELECT FROM howdah.archive LIMIT 1")
        stage.kill(victim)
    stage.fleet.await_drained()
    assert {job["status"] for job in stage.fleet.jobs()} == {"completed"}


def begun_by(stage: Stage, worker: WorkerProcess) -> int:
    return sum(job["status"] == "running" for job in stage.fleet.held_by(worker))


def ended_but_held(stage: Stage, worker: WorkerProcess) -> int:
    ended = {entry.id for entry in stage.fleet.ledger.entries("END", where=lambda entry: entry.worker == worker.name)}
    return len(ended & {job["id"] for job in stage.fleet.held_by(worker)})


def waits_for_a_lock(stage: Stage, worker: WorkerProcess) -> bool:
    waiting = "SELECT FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'"
    return bool(stage.execute(waiting, worker.name))


@case(15, "last-attempt-death", checks="I1 I2 I3 I4 I5 I6 I7", handlers="handlers_deaths", fails=" ".join(LAST))
def last_attempt_death(stage: Stage) -> None:
    """A worker is killed while jobs are at their last attempt: they fail with the reason, and their keys and places are free."""
    victim = stage.start(concurrency=20)[0]
    dying = {name: stage.enqueue(name, key="held") for name in LAST}
    until(lambda: running(stage, victim) >= set(dying.values()), "they are at their last attempt")
    next_in_lane = stage.enqueue("first_in_its_lane")
    crowd(stage, ["work"], stage.scaled(200, 30))
    stage.start()[0].await_judge()
    stage.kill(victim)
    for name, id in dying.items():
        failed = stage.queue.wait_for(id, timeout=180)
        assert (failed.status, failed.attempts) == ("failed", failed.max_attempts)
        assert f"worker {victim.name} died" in str(failed.last_error)
        again = stage.queue.enqueue(name, key="held")
        stage.acknowledged.append(again.id)
        assert again.created, f"the key of {name} is still taken"
    stage.fleet.ledger.say("finish")
    assert stage.queue.wait_for(next_in_lane, timeout=180).status == "completed", "the lane is free"
    stage.fleet.await_drained()
    assert {job["job_type"] for job in stage.fleet.jobs("status = 'failed'")} == set(dying)
    assert len(stage.fleet.jobs("status = 'failed'")) == len(dying)


def running(stage: Stage, worker: WorkerProcess) -> set[uuid.UUID]:
    """What is at its last attempt there."""
    held = stage.fleet.held_by(worker)
    return {job["id"] for job in held if job["status"] == "running" and job["attempts"] == job["max_attempts"]}


@case(
    16,
    "poison-pill",
    checks="I1 I2 I3 I4 I5 I7",
    handlers="handlers_deaths",
    fails="poison_on_the_loop poison_in_a_child",
)
def poison_pill(stage: Stage) -> None:
    """Jobs that are killed, segfault or use up all memory, among fifty healthy ones: they fail, and no other job fails with them."""
    stage.needs(shutil.which("prlimit"), "prlimit is not installed here (Debian: apt-get install util-linux)")
    healthy = {"work": {"seconds": 0.05}, "work_in_a_thread": {"seconds": 0.05}, "healthy_in_a_child": {}}
    kinds = [("on_the_loop", "killed"), ("in_a_child", "segfaulted"), ("in_a_child", "out of memory")]
    if not stage.quick:
        kinds += [("in_a_child", "killed"), ("on_the_loop", "segfaulted"), ("on_the_loop", "out of memory")]
    poisons = {}
    for number in range(50):
        stage.enqueue(*list(healthy.items())[number % len(healthy)])
        if number % 8 == 4 and kinds:
            place, how = kinds.pop()
            poisons[stage.enqueue(f"poison_{place}", {"how": how})] = how
    stage.fault(len(poisons))
    drain_as_a_supervisor_would(stage.fleet)
    jobs = {job["id"]: job for job in stage.fleet.jobs()}
    runs = times(stage.fleet.ledger.entries("START"))
    for id, how in poisons.items():
        ended = jobs.pop(id)
        assert (ended["status"], runs[id] <= ended["max_attempts"]) == ("failed", True), f"{how}: {ended}"
        reason = "MemoryError" if how == "out of memory" else "worker died 3 times"
        assert reason in ended["last_error"], f"{how}: {ended['last_error']}"
    for job in jobs.values():
        assert "MemoryError" not in (job["last_error"] or ""), f"{job['id']} came into a process without memory"
    assert {job["status"] for job in jobs.values()} == {"completed"}
    assert all(job["attempts"] < job["max_attempts"] for job in jobs.values()), "they have attempts left"


ADDRESS_LIMIT = ("prlimit", f"--as={ADDRESS_SPACE}")


def drain_as_a_supervisor_would(fleet: Fleet) -> None:
    """Runs one worker until nothing is left, starting it again when it dies."""
    options: dict[str, Any] = {"under": ADDRESS_LIMIT, "concurrency": 5, "threads": 5, "children": 2}
    workers = [fleet.start("worker", **options)]

    def is_drained() -> bool:
        if not workers[-1].is_running:
            workers.append(fleet.start("worker", **options))
        return not fleet.rows("SELECT FROM howdah.live LIMIT 1")

    until(is_drained, "every job has ended")


@case(18, "id-reuse", checks="I1 I2 I3 I4 I5 I6 I7")
def id_reuse(stage: Stage) -> None:
    """A worker dies, or is frozen, and another is started under its name: the jobs of the first are recovered, and its late writes are refused."""
    # What is held is back within the bound where a new process takes long to get up, too.
    stage.fleet.start("judge", types=["probe"]).await_judge()
    for number in range(stage.scaled(5, 1)):
        one_name_three_times(stage, f"named-{number}")


def one_name_three_times(stage: Stage, name: str) -> None:
    ledger = stage.fleet.ledger
    stage.enqueue_many("work", stage.scaled(200, 100), {"seconds": 0.05})
    first = stage.fleet.start(name, concurrency=5)
    await_runs_of(stage, first)
    stand_still_at_work(stage, first)
    stage.kill(first)
    second = stage.fleet.start(name, concurrency=5).await_ready()
    job = stage.enqueue("overtaken_completes", priority=200)
    until(lambda: times(ledger.entries("START"))[job] == 1, "the job runs")
    second.freeze()
    stage.fault()
    third = stage.fleet.start(name, concurrency=5).await_ready()
    until(lambda: times(ledger.entries("START"))[job] == 2, "the job has a new owner")
    ledger.say("overtaken")
    second.thaw()
    assert second.ended() == REPLACED, f"its log has the error that its name is taken:\n{second.log}"
    ledger.say("finish")
    stage.fleet.await_drained()
    assert third.stop() == 0
    ledger.unsay("overtaken", "finish")


def await_runs_of(stage: Stage, worker: WorkerProcess) -> None:
    def ended() -> int:
        return stage.fleet.ledger.count("END", where=lambda entry: entry.pid == worker.pid)

    until(lambda: ended() >= 10, f"{worker.name} works")
