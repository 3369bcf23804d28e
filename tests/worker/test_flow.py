"""Flow keys over several workers, some of which are killed: each key in order, and no limit ever exceeded."""

from __future__ import annotations

import itertools
from collections import defaultdict
from pathlib import Path

from howdah import JobQueue, Rate
from tests.rates import check_rate
from tests.size import FULL
from tests.worker.ledger import Entry
from tests.worker.processes import Fleet, until

KEYS, EACH = (1_000, 100) if FULL else (20, 15)
LIMITED = 2_000 if FULL else 200
RATED = 1_000 if FULL else 100


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
