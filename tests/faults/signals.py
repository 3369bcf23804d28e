"""Cases in which workers are asked to stop."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from typing import Any, BinaryIO

import psutil  # type: ignore[import-untyped, unused-ignore]

from tests.faults.case import case
from tests.faults.stage import Stage
from tests.worker import ledger
from tests.worker.ledger import times
from tests.worker.processes import PATIENCE, RHYTHM, ROOT, WorkerProcess, until

STOPPED = (0, 6)
"""The exit codes of a worker after SIGTERM: nothing was interrupted, or running jobs were released."""

UNHARMED = (("pending", 0, 0), ("completed", 1, 0))

NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


@case(19, "sigterm-drain", checks="I1 I2 I3 I4 I5 I6 I7")
def sigterm_drain(stage: Stage) -> None:
    """Workers get SIGTERM once, twice, or are killed when they take too long: jobs that they had not begun are released at once."""
    killed_after_the_grace(stage)
    workers = stage.start(stage.scaled(3, 1), concurrency=10)
    with stage.producing():
        for number in range(stage.scaled(12, 2)):
            leaves = workers.pop(0).await_ready()
            time.sleep(stage.chance.uniform(0.1, 1) if not stage.quick else 0.2)
            leaves.signal(signal.SIGTERM)
            if number % 2:
                leaves.signal(signal.SIGTERM)
            stage.fault()
            workers.append(stage.fleet.start(stage.new_name(), concurrency=10))
            assert leaves.ended() in STOPPED
            assert stage.fleet.held_by(leaves) == []
            assert not stage.execute("SELECT FROM howdah.workers WHERE worker_id = %s", leaves.name)
    stage.fleet.await_drained()


def killed_after_the_grace(stage: Stage) -> None:
    """One handler does not end: its worker releases the jobs that it has not begun, waits, and is killed."""
    victim = stage.start(concurrency=5, poll=0.1)[0]
    keeps_it = stage.enqueue("patient", priority=200)
    stage.enqueue_many("work", stage.scaled(2_000, 600), {"seconds": 0.02})
    held = frozen_with_prefetched(stage, victim)
    prefetched = {job["id"] for job in held if job["status"] == "claimed"}
    victim.signal(signal.SIGTERM)
    victim.thaw()
    until(lambda: not {job["id"] for job in stage.fleet.held_by(victim)} - {keeps_it}, "all but one are released")
    assert victim.is_running
    for job in stage.fleet.jobs("id = ANY (%s)", list(prefetched)):
        # One may have begun in the moment before the worker got the signal.
        assert (job["status"], job["attempts"], job["crashes"]) in UNHARMED, f"{job['id']} has lost something"
    stage.start(concurrency=20)[0].await_judge()
    stage.kill(victim)
    stage.fleet.ledger.say("finish")
    stage.fleet.await_drained()
    for job in stage.fleet.jobs():
        died = job["id"] == keeps_it
        assert (job["status"], job["attempts"], job["crashes"]) == ("completed", 1 + died, int(died))


def frozen_with_prefetched(stage: Stage, victim: WorkerProcess) -> list[dict[str, Any]]:
    """The jobs of a worker that is frozen in the middle of its work, with prefetched jobs."""

    def look() -> list[dict[str, Any]]:
        if stage.fleet.ledger.count("END", where=lambda entry: entry.worker == victim.name) < 10:
            return []
        victim.freeze()
        held = stage.fleet.held_by(victim)
        if any(job["status"] == "claimed" for job in held):
            return held
        victim.thaw()
        return []

    return until(look, "the worker has prefetched jobs")


@case(20, "sigterm-boot", checks="I1 I2 I3 I4 I5 I7")
def sigterm_boot(stage: Stage) -> None:
    """Workers get SIGTERM within half a second of their start, or of their registration: they hold no job afterwards."""
    stage.enqueue_many("work", 200)
    at_once = 3
    for _ in range(stage.scaled(10, 2)):
        workers = [stage.fleet.start(stage.new_name(), concurrency=10) for _ in range(at_once)]
        began = time.monotonic()
        moments = sorted(stage.chance.uniform(0, 0.5) for _ in range(at_once - 1))
        for worker, moment in zip(workers, moments, strict=False):
            time.sleep(max(began + moment - time.monotonic(), 0))
            worker.signal(signal.SIGTERM)
        until(lambda name=workers[-1].name: is_registered(stage, name), "it is registered")  # type: ignore[misc]
        workers[-1].signal(signal.SIGTERM)
        stage.fault(at_once)
        for worker in workers:
            # Before it had handlers for signals, or afterwards.
            assert worker.ended() in (*STOPPED, -signal.SIGTERM)
        assert stage.fleet.held_by(*workers) == []
        assert stage.execute("SELECT worker_id FROM howdah.workers") == []
    assert stage.fleet.start("last", drain=True).ended() == 0
    lost = [job["id"] for job in stage.fleet.jobs("attempts <> 1 OR crashes <> 0 OR status <> 'completed'")]
    assert lost == [], "they have lost attempts"


def is_registered(stage: Stage, name: str) -> bool:
    return bool(stage.execute("SELECT FROM howdah.workers WHERE worker_id = %s", name))


@case(21, "pid1", checks="I1 I2 I3 I4 I5 I7", handlers="handlers_signals")
def pid1(stage: Stage) -> None:
    """``howdah work`` is the first process of a container: it handles SIGTERM, and reaps orphans that are not its own."""
    stage.needs(
        os.getuid() == 0 and shutil.which("unshare"), "making a PID namespace needs root, and unshare (util-linux)"
    )
    probe = subprocess.run([*NAMESPACE, "true"], capture_output=True)
    stage.needs(probe.returncode == 0, f"making a PID namespace is not permitted here: {probe.stderr.decode()}")
    for processes in stage.scaled((1, 3), (1,)):
        works_as_pid_1(stage, f"contained-{processes}", processes)


def works_as_pid_1(stage: Stage, name: str, processes: int) -> None:
    log = stage.folder / f"{name}.log"
    with log.open("wb") as output, started_in_a_namespace(stage, name, processes, output) as outside:
        try:
            orphans = [stage.enqueue(f"orphans_in_a_{place}") for place in ("thread", "child") * stage.scaled(5, 1)]
            for id in orphans:
                ended = stage.queue.wait_for(id, timeout=PATIENCE)
                assert ended.status == "completed", ended.last_error
            running = stage.enqueue("patient")
            until(lambda: times(stage.fleet.ledger.entries("START"))[running], "a handler runs")
            stage.enqueue_many("work", 100)
            first = psutil.Process(outside.pid).children()[0]
            inside = first.children(recursive=True)
            first.send_signal(signal.SIGTERM)
            stage.fault()
            stage.fleet.ledger.say("finish")
            assert outside.wait(PATIENCE) == 0
        except BaseException:
            print(log.read_text())
            raise
        finally:
            outside.kill()
    assert not any(each.is_running() for each in inside), "it has left processes behind"
    assert stage.queue.get(running).attempts == 1
    assert stage.execute("SELECT FROM howdah.live WHERE status <> 'pending'") == []
    assert stage.execute("SELECT FROM howdah.workers") == []
    stage.fleet.ledger.unsay("finish")
    assert stage.fleet.start(stage.new_name(), drain=True).ended() == 0


def started_in_a_namespace(stage: Stage, name: str, processes: int, output: BinaryIO) -> subprocess.Popen[bytes]:
    """The command itself, as the first process of its namespace."""
    rhythm = [f"--{option}={seconds}s" for option, seconds in RHYTHM.items()]
    command = [sys.executable, "-m", "howdah", "work", stage.fleet.module, "--name", name, *rhythm]
    surroundings = {"HOWDAH_DSN": stage.dsn, ledger.FILE: str(stage.fleet.ledger.path), ledger.WORKER: name}
    return subprocess.Popen(
        [*NAMESPACE, *command, f"--processes={processes}"],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd=ROOT,
        env=os.environ | surroundings,
    )
