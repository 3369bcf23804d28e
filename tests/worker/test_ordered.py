"""An ordered type under failures and deaths: every completion in order, and never two at once."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from howdah import JobQueue
from tests.size import FULL
from tests.worker.ledger import Entry
from tests.worker.processes import Fleet, WorkerProcess, until

Hold = tuple[uuid.UUID, int]

JOBS = 2_000 if FULL else 200


def test_an_ordered_type_keeps_its_order_through_failures_and_deaths(dsn: str, queue: JobQueue, tmp_path: Path) -> None:
    with Fleet(dsn, tmp_path, "handlers_ordered") as fleet:
        workers = fleet.start_all("one", "two", "three", "four")
        queue.enqueue_many("in_line", ({"number": number} for number in range(JOBS)))
        dead, first = kill_the_runner(fleet, workers, after=JOBS // 3)
        # A supervisor would start it again, under its name. The second one is found missing by the others.
        workers = [worker for worker in workers if worker is not dead] + [fleet.start(dead.name)]
        _, second = kill_the_runner(fleet, workers, after=2 * JOBS // 3)
        fleet.await_drained()

        assert {job["status"] for job in fleet.jobs()} == {"completed"}
        ends = fleet.ledger.entries("END")
        # A job whose worker was killed between its end and the completion runs again: then the second run counts.
        completed = {entry.id: entry for entry in ends}
        assert {id: entry.token for id, entry in completed.items()} == {job["id"]: job["token"] for job in fleet.jobs()}
        in_order = sorted(completed.values(), key=lambda entry: entry.at)
        assert [entry.data["number"] for entry in in_order] == list(range(JOBS))
        assert overlaps(fleet.ledger.entries(), cut_short={first, second}) == []
        assert fleet.ledger.count("FAIL") > 0
        assert sum(job["crashes"] for job in fleet.jobs()) == 2


def kill_the_runner(fleet: Fleet, workers: list[WorkerProcess], *, after: int) -> tuple[WorkerProcess, Hold]:
    """Kills the worker that runs the type's one job, once so many are done. Returns it, and what it held."""
    until(lambda: fleet.ledger.count("END") >= after, f"{after} are done")

    def frozen_runner() -> tuple[WorkerProcess, Hold] | None:
        for worker in workers:
            if fleet.held_by(worker):
                worker.freeze()
                for job in fleet.held_by(worker):
                    # Its status may say running while its end is on the way to the server already.
                    if [entry.word for entry in fleet.ledger.entries(where=of(job["id"], job["token"]))] == ["START"]:
                        return worker, (job["id"], job["token"])
                worker.thaw()
        return None

    found = until(frozen_runner, "one of them runs the job")
    assert found is not None
    found[0].kill()
    return found


def of(*hold: Any) -> Callable[[Entry], bool]:
    return lambda entry: entry.hold == hold


def overlaps(entries: list[Entry], cut_short: set[Hold]) -> list[tuple[Entry, Entry]]:
    """Pairs of an attempt and one that began before the first had ended, or been cut short by its worker's death."""
    found: list[tuple[Entry, Entry]] = []
    running: Entry | None = None
    for entry in entries:
        if running is not None and running.hold not in (entry.hold, *cut_short):
            found.append((running, entry))
        running = entry if entry.word == "START" else None
    return found
