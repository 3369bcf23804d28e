"""Flow keys over several workers, some of which are killed: each key in order, and no limit ever exceeded."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from datetime import datetime
from pathlib import Path

from howdah import JobQueue, Rate
from tests.rates import check_rate
from tests.size import FULL
from tests.worker.ledger import Entry
from tests.worker.processes import Fleet, WorkerProcess, recovery_bound, until

KEYS, EACH = (1_000, 100) if FULL else (20, 15)
LIMITED = 2_000 if FULL else 200
RATED = 1_000 if FULL else 100
BOUNDED = 1_500 if FULL else 180


def test_each_key_keeps_its_order_through_failures_and_deaths(dsn: str, queue: JobQueue, tmp_path: Path) -> None:
    with Fleet(dsn, tmp_path, "handlers_flow") as fleet:
        workers = fleet.start_all("one", "two", "three", "four")
        jobs = ({"key": f"key {key}", "number": number} for number in range(EACH) for key in range(KEYS))
        queue.enqueue_many("in_line", jobs)
        until(lambda: fleet.ledger.count("END") >= KEYS * EACH // 3, "a third is done")
        workers[0].kill()
        fleet.await_drained()
        rows = fleet.jobs()
        assert {job["status"] for job in rows} == {"completed"}
        # An attempt that its worker's death ended has no end in the ledger.
        tokens = {(job["id"], job["token"]) for job in rows}
        completed: dict[str, list[int]] = defaultdict(list)
        running: dict[str, Entry] = {}
        for entry in fleet.ledger.entries():
            key = entry.data["key"]
            before = running.pop(key, None)
            if before is not None and before.hold != entry.hold:
                assert before.hold not in tokens, f"{entry} began while {before} ran"
            if entry.word == "START":
                running[key] = entry
            elif entry.word == "END" and entry.hold in tokens:
                completed[key].append(entry.data["number"])
        assert completed == {f"key {key}": list(range(EACH)) for key in range(KEYS)}
        assert fleet.ledger.count("FAIL") > 0


def test_no_limit_is_exceeded_and_a_killed_worker_frees_its_room(dsn: str, queue: JobQueue, tmp_path: Path) -> None:
    queue.limits.set(7, group="few")
    with Fleet(dsn, tmp_path, "handlers_flow") as fleet:
        workers = fleet.start_all("one", "two", "three")
        queue.enqueue_many("limited", ({"key": f"key {n % 5}", "number": n} for n in range(LIMITED)))
        until(lambda: fleet.ledger.count("END") >= LIMITED // 3, "a third is done")
        workers[0].kill()
        fleet.await_drained()
        assert {job["status"] for job in fleet.jobs()} == {"completed"}
        dead = {entry.hold for entry in fleet.ledger.entries("START")} - {
            entry.hold for entry in fleet.ledger.entries("END")
        }
        at_once: dict[str, set[object]] = defaultdict(set)
        most: dict[str, int] = defaultdict(int)
        for entry in fleet.ledger.entries():
            if entry.hold in dead:
                continue
            for key in (entry.data["key"], "all"):
                (at_once[key].add if entry.word == "START" else at_once[key].discard)(entry.hold)
                most[key] = max(most[key], len(at_once[key]))
        assert max(itertools.chain([0], (most[key] for key in most if key != "all"))) <= 3
        assert most["all"] <= 7


def test_no_rate_is_exceeded_and_workers_look_again_when_there_are_tokens(
    dsn: str, queue: JobQueue, tmp_path: Path
) -> None:
    queue.limits.set_rate(Rate(50, seconds=1, burst=10), group="all")
    with Fleet(dsn, tmp_path, "handlers_flow") as fleet:
        # They would not look again for an hour.
        workers = fleet.start_all("one", "two", "three", poll=3600)
        queue.enqueue_many("rated", ({"key": f"key {n % 4}"} for n in range(RATED)))
        until(lambda: queue.stats()["rated"].completed >= RATED // 3, "a third is done")
        workers[0].kill()
        fleet.await_drained()
        rows = fleet.jobs()
    assert {job["status"] for job in rows} == {"completed"}
    check_rate([job["claimed_at"] for job in rows], 50, 10)
    for key in range(4):
        check_rate([job["claimed_at"] for job in rows if job["data"]["key"] == f"key {key}"], 20, 5)


def kill_with_jobs(fleet: Fleet, victim: WorkerProcess) -> None:
    """SIGKILL while it holds jobs, and waits until they are recovered."""

    def is_caught() -> bool:
        victim.freeze()
        if not fleet.held_by(victim):
            victim.thaw()
        return bool(fleet.held_by(victim))

    until(is_caught, "it holds jobs")
    killed_at = victim.kill()
    until(lambda: not fleet.held_by(victim), "its jobs are recovered")
    recovered_at = fleet.rows("SELECT clock_timestamp() AS now")[0]["now"]
    assert (recovered_at - killed_at).total_seconds() < recovery_bound()


def most_at_once(entries: list[Entry], deaths: dict[str, float]) -> int:
    """How many handlers ran at once; those of a dead worker until its death."""
    ends = {entry.hold: entry.at for entry in entries if entry.word == "END"}
    starts = [entry for entry in entries if entry.word == "START"]
    changes = [(entry.at, 1) for entry in starts]
    changes += [(ends[entry.hold] if entry.hold in ends else deaths[entry.worker], -1) for entry in starts]
    return max(itertools.accumulate(change for _, change in sorted(changes)))


def test_limits_and_rates_of_key_type_and_group_hold_together(dsn: str, queue: JobQueue, tmp_path: Path) -> None:
    """Seven at once and 50/s, each of them for a key, for the type and for a group, while workers are killed."""
    rate = Rate(50, seconds=1, burst=10)
    queue.limits.set(7, job_type="bounded")
    queue.limits.set_rate(rate, job_type="bounded")
    queue.limits.set(7, group="both")
    queue.limits.set_rate(rate, group="both")
    deaths = {}
    with Fleet(dsn, tmp_path, "handlers_flow") as fleet:
        workers = fleet.start_all("one", "two", "three", "four")
        # The limit and the rate of a key are reached, too.
        queue.enqueue_many("bounded", ({"key": "rare" if n % 10 == 0 else "busy"} for n in range(BOUNDED)))
        for turn, victim in enumerate(workers[:2], 1):
            until(lambda done=turn * BOUNDED // 4: fleet.ledger.count("END") >= done, "some are done")  # type: ignore[misc]
            kill_with_jobs(fleet, victim)
            deaths[victim.name] = time.monotonic()
        fleet.await_drained()
        rows = fleet.jobs()
        entries = fleet.ledger.entries()
    assert {job["status"] for job in rows} == {"completed"}
    assert 1 < most_at_once(entries, deaths) <= 7
    claims: dict[str, list[datetime]] = defaultdict(list)
    for entry in entries:
        if entry.word.startswith("CLAIMED "):
            claims[entry.data["key"]].append(datetime.fromisoformat(entry.word.removeprefix("CLAIMED ")))
    check_rate(claims["busy"], 50, 10)
    check_rate([at for of_key in claims.values() for at in of_key], 50, 10)


def test_a_raised_limit_wakes_workers_at_once(dsn: str, queue: JobQueue, tmp_path: Path) -> None:
    with Fleet(dsn, tmp_path, "handlers_flow") as fleet:
        # They would not look again for an hour: they are woken.
        fleet.start_all("one", "two", poll=3600)
        queue.enqueue_many("runs_for_an_hour", ({} for _ in range(6)))
        for limit in (1, 3, 5):
            if limit > 1:
                queue.limits.set(limit, job_type="runs_for_an_hour")
            until(lambda limit=limit: fleet.ledger.count("START") == limit, "as many run as may")  # type: ignore[misc]
        # A lower one holds for the next jobs.
        queue.limits.set(4, job_type="runs_for_an_hour")
        for job in queue.list(status="running")[:1]:
            queue.cancel(job)
        until(lambda: len(fleet.jobs("status = 'cancelled'")) == 1, "one has ended")
        assert queue.claim(["runs_for_an_hour"], 5) == []
        assert fleet.ledger.count("START") == 5
