"""Cases in which something keeps a live worker from its work, or from its heartbeat."""

from __future__ import annotations

import fcntl
import re
import uuid
from collections import Counter
from collections.abc import Collection
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from tests.faults.case import case
from tests.faults.handlers_blocked import GATE
from tests.faults.stage import Stage
from tests.tcp_proxy import TcpProxy
from tests.worker.ledger import times
from tests.worker.processes import LEASE, WorkerProcess, until

ALL = "I1 I2 I3 I4 I5 I7"
HANG = ("hangs", "hangs_in_a_thread", "hangs_in_a_child")
POOL = 10
"""Connections that a queue's handlers share."""


@case(9, "long-job", checks=ALL)
def long_job(stage: Stage) -> None:
    """Handlers run for several times the lease, on the loop, in threads and in child processes: none is started twice."""
    seconds = stage.scaled(5.0, 1.5) * LEASE
    stage.start(2, concurrency=100, threads=20, children=stage.scaled(5, 1))
    kinds = {
        "work": stage.scaled(150, 8),
        "work_in_a_thread": stage.scaled(40, 4),
        "work_in_a_child": stage.scaled(10, 2),
    }
    for job_type, count in kinds.items():
        stage.enqueue_many(job_type, count, {"seconds": seconds})
        stage.fault(count)
    stage.fleet.await_drained()
    assert_done_once(stage)


@case(10, "loop-block", checks=ALL, handlers="handlers_blocked")
def loop_block(stage: Stage) -> None:
    """An async handler blocks the loop for longer than the lease: its worker is not declared dead, and its log names the job."""
    judge = stage.fleet.start("judge", types=["probe"])
    blocked = stage.fleet.start("blocked").await_ready()
    blocker = stage.enqueue("forgets_to_await")
    for job_type in ("work", "work_in_a_thread"):
        stage.enqueue_many(job_type, stage.scaled(100, 5), {"seconds": 0.5})
    until(lambda: stage.fleet.ledger.count("BLOCK"), "the loop is blocked")
    stage.fault()
    judge.await_judge()
    lag = "SELECT FROM howdah.workers WHERE worker_id = 'blocked' AND loop_lag > '1 second'"
    until(lambda: stage.execute(lag), "the lag of its loop is reported")
    let_pass(stage, stage.scaled(3.0, 1.5) * LEASE)
    stage.fleet.ledger.say("go on")
    stage.fleet.await_drained()
    assert_done_once(stage)
    assert [worker.stop() for worker in (judge, blocked)] == [0, 0]
    named = re.findall(r"the event loop has been blocked for .* by (.*) in (\w+): nothing else runs", blocked.log)
    assert len(named) == 1, f"logged once: {named}"
    assert f"forgets_to_await {blocker}" in named[0][0], f"the job that it was: {named}"
    assert "handlers_blocked.py" in named[0][0], f"the place where it was: {named}"
    assert "declared dead" not in blocked.log, "a blocked loop is not a dead worker"


@case(11, "gil-block", checks=ALL, handlers="handlers_blocked")
def gil_block(stage: Stage) -> None:
    """C code holds the interpreter for longer than the lease: another worker gets the job, and late writes are refused."""
    gate = stage.folder / GATE
    gate.touch()
    # The case rescues every job, so the lease may be short.
    rhythm: dict[str, Any] = {} if not stage.quick else {"lease": 1, "heartbeat": 0.25, "sweep": 0.5}
    with gate.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        blocked = stage.start(**rhythm)[0]
        job = stage.enqueue("holds_the_gil")
        until(lambda: starts_of(stage, job) == 1, "it holds the interpreter")
        stage.start(**rhythm)[0].await_judge()
        stage.fault()
        stage.enqueue_many("work", stage.scaled(200, 20))
        stage.fleet.ledger.say("overtaken")
        until(lambda: stage.queue.get(job).status == "completed", "another worker has completed it")
    until(lambda: "declared dead" in blocked.log, "the blocked worker has found its claim lost")
    until(lambda: logged_refusal(blocked, job), "its late writes to the job were refused")
    stage.fleet.await_drained()
    assert starts_of(stage, job) >= 2
    assert stage.queue.get(job).worker_id != blocked.name, "its last holder has completed it"


@case(12, "pool-starved", checks=ALL, handlers="handlers_blocked", fails="elsewhere")
def pool_starved(stage: Stage) -> None:
    """Handlers hold every connection of the pool for longer than the lease: nothing is rescued, and others end meanwhile."""
    locked = stage.enqueue("elsewhere")
    starved, judge = stage.fleet.start("starved"), stage.fleet.start("judge", types=["probe"])
    with psycopg.connect(stage.dsn) as conn:
        conn.execute("SELECT FROM howdah.live WHERE id = %s FOR UPDATE", (locked,))
        for job_type in ("holds_a_connection", "holds_a_connection_in_a_thread"):
            stage.enqueue_many(job_type, POOL, {"locked": str(locked)})
        waiting = "SELECT FROM pg_stat_activity WHERE application_name = 'starved' AND wait_event_type = 'Lock'"
        until(lambda: len(stage.execute(waiting)) == 2 * POOL, "all connections of both pools are held")
        stage.fault(2 * POOL)
        judge.await_judge()
        others = stage.queue.enqueue_many("work", ({} for _ in range(stage.scaled(180, 20))), return_ids=True)
        stage.acknowledged += others.ids or ()
        stage.queue.wait_for(others.ids or (), timeout=180)
        let_pass(stage, 1.5 * LEASE)
    stage.queue.cancel(locked)
    stage.fleet.await_drained()
    assert starved.is_running
    assert_done_once(stage, besides=[locked])


@case(13, "hung-handler", checks=ALL, handlers="handlers_blocked", fails=f"{' '.join(HANG)} hangs_with_the_loop")
def hung_handler(stage: Stage) -> None:
    """Handlers wait for ever, on the loop, in a thread, in a child process, and blocking the loop: their deadline frees the slot."""
    # One slot of each kind: a job that follows one that hangs needs the same slot.
    narrow: dict[str, Any] = {"concurrency": 1, "threads": 1, "children": 1, "max_leaked": 1000}
    stuck = stage.fleet.start("stuck", types=["hangs_with_the_loop"], **narrow)
    stage.start(types=[*HANG, "work", "work_in_a_thread", "work_in_a_child"], **narrow)
    stuck.await_ready()
    # From now on the database has their deadlines, for when their worker is stuck itself.
    hung = [stage.enqueue(job_type) for job_type in (*HANG * stage.scaled(4, 1), "hangs_with_the_loop")]
    for job_type in ("work", "work_in_a_thread", "work_in_a_child"):
        stage.enqueue_many(job_type, stage.scaled(60, 5))
    stage.fault(len(hung))
    stage.fleet.await_drained()
    for job in map(stage.queue.get, hung):
        assert (job.status, job.attempts) == ("failed", 1), f"its deadline has not fired: {job.id} is {job.status}"
        assert str(job.last_error).startswith("timed out after"), f"its error: {job.last_error}"
    stage.fleet.ledger.say("go on")
    until(lambda: logged_refusal(stuck, hung[-1]), "writes after the deadline were refused")


@case(14, "self-fence", checks=ALL, handlers="handlers_blocked")
def self_fence(stage: Stage) -> None:
    """One worker loses all connections for longer than the lease, another only its heartbeat: they release their jobs, and late writes are refused."""
    with closing(TcpProxy(stage.server.socket)) as whole, closing(TcpProxy(stage.server.socket)) as half:
        types = ["ends_when_cut_off", "patient_too", "work"]
        cut_off = stage.fleet.start("cut off", dsn=through(whole, stage.dsn), types=types)
        voiceless = stage.fleet.start("voiceless", dsn=through(half, stage.dsn), types=["patient", "work"])
        late = stage.enqueue("ends_when_cut_off")
        patient = [stage.enqueue(job_type) for job_type in ("patient", "patient_too") * stage.scaled(3, 1)]
        until(lambda: stage.fleet.ledger.count("START") == 1 + len(patient), "both are at work")
        owner = stage.start(children=4)[0].await_judge()

        whole.silence()
        assert half.silence(having_asked=b"heartbeat"), "its heartbeat has a connection"
        stage.fault(2)
        stage.fleet.ledger.say("cut off")
        until(lambda: all("lets go of" in worker.log for worker in (cut_off, voiceless)), "both fence themselves")
        until(lambda: stage.fleet.ledger.count("TOLD") == len(patient), "their handlers have found their claims lost")
        stage.enqueue_many("work", stage.scaled(200, 20))
        until(lambda: running_with(stage, owner) == {late, *patient}, "another worker has all their jobs")
        until(lambda: started(stage, "work") == stage.scaled(200, 20), "and those that came since")
        fresh = stage.fleet.ledger.entries("START", where=lambda entry: entry.job_type == "work")
        assert {entry.worker for entry in fresh} == {owner.name}, "a fenced worker claims nothing"
        whole.resume()
        half.resume()
        until(lambda: all("the worker continues" in worker.log for worker in (cut_off, voiceless)), "both are back")
        until(lambda: logged_refusal(cut_off, late), "its late writes to the job were refused")
        stage.fleet.ledger.say("finish")
        stage.fleet.await_drained()
    for job in map(stage.queue.get, (late, *patient)):
        assert (job.status, job.worker_id) == ("completed", owner.name), f"{job.id} is {job.status}, of {job.worker_id}"


def through(proxy: TcpProxy, dsn: str) -> str:
    return make_conninfo(dsn, host="127.0.0.1", port=proxy.port)


def let_pass(stage: Stage, seconds: float) -> None:
    """The fault is a span of time, by the database's clock."""
    end = stage.now() + timedelta(seconds=seconds)
    until(lambda: stage.now() >= end, f"{seconds:g} s have passed")


def started(stage: Stage, job_type: str) -> int:
    return stage.fleet.ledger.count("START", where=lambda entry: entry.job_type == job_type)


def starts_of(stage: Stage, job: uuid.UUID) -> int:
    return stage.fleet.ledger.count("START", where=lambda entry: entry.id == job)


def running_with(stage: Stage, worker: WorkerProcess) -> set[uuid.UUID]:
    jobs = stage.fleet.held_by(worker)
    return {job["id"] for job in jobs if job["status"] == "running" and job["job_type"] != "work"}


def logged_refusal(worker: WorkerProcess, job: uuid.UUID) -> bool:
    """Whether a worker has logged that its end of a job was refused."""
    return re.search(rf"{job} (came too late and changed nothing|was taken from this worker)", worker.log) is not None


def assert_done_once(stage: Stage, besides: Collection[uuid.UUID] = ()) -> None:
    """Nothing was rescued: each job was started once, and completed."""
    ended = {job["id"]: (job["status"], job["attempts"]) for job in stage.fleet.jobs() if job["id"] not in besides}
    assert set(ended.values()) == {("completed", 1)}, f"how they ended: {Counter(ended.values())}"
    assert times(stage.fleet.ledger.entries("START")) == dict.fromkeys(ended, 1), "each was started once"
    assert not stage.execute("SELECT FROM audit.farewells WHERE silent_for >= lease"), "no worker was declared dead"
