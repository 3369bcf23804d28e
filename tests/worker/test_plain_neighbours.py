"""Workers and plain SQL clients of four kinds share a type, while some of them die: no job twice at once, and none lost."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from howdah import JobQueue
from tests.conftest import Db
from tests.size import FULL
from tests.sql import seed
from tests.worker.ledger import Entry, by_job
from tests.worker.plain_clients import KINDS, TYPE, Client
from tests.worker.processes import Fleet, WorkerProcess, until

ROUNDS, SECONDS = (3, 0) if not FULL else (10, 60)
JOBS = 200
OF_EACH_KIND = 2 if FULL else 1
# A worker that gets no CPU for a moment, on a loaded machine, is not dead.
PATIENT: dict[str, Any] = {"concurrency": 5, "lease": 20, "heartbeat": 1}


def test_workers_and_plain_clients_share_a_type(dsn: str, queue: JobQueue, db: Db, tmp_path: Path) -> None:
    db.execute("UPDATE settings SET max_crashes = 1000")
    killed: list[tuple[str, float]] = []
    done: list[Client] = []
    began, rounds = time.monotonic(), 0
    with Fleet(dsn, tmp_path, "handlers_neighbours") as fleet:
        workers = fleet.start_all("one", "two", **PATIENT)
        while rounds < ROUNDS or time.monotonic() < began + SECONDS:
            with neighbours(fleet, rounds) as clients:
                add_jobs(queue, db)
                until(lambda: ended(db) > (rounds + 0.3) * JOBS, "they are in the middle of it")  # noqa: B023
                workers.append(kill(fleet, workers.pop(0), killed))
                until(
                    lambda: not db.execute("SELECT FROM jobs WHERE status = 'pending' LIMIT 1").fetchall(),
                    "all is claimed",
                )
            assert [surprise for client in clients for surprise in client.surprises] == []
            done += clients
            # Now what is held is held by a worker, or was by a client that dropped.
            recover(db, rounds)
            rounds += 1
        fleet.await_drained()
        entries = fleet.ledger.entries()

        assert overlaps(entries, killed) == []
        archived = db.execute("SELECT id, status, worker_id FROM archive").fetchall()
        assert len(archived) == len({job["id"] for job in archived}) == rounds * JOBS, (
            "none is lost, and each ends once"
        )
        assert {job["status"] for job in archived} == {"completed"}
        by_plain = sum((client.ended for client in done), Counter[uuid.UUID]())
        names = {worker.name for worker in workers}
        assert by_plain == Counter(job["id"] for job in archived if job["worker_id"] not in names), (
            "as reported to them"
        )
        assert {kind_of(entry) for entry in entries} == names | {kind.__name__ for kind in KINDS}, (
            "all of them had some"
        )
        for worker in workers:
            assert "Traceback" not in worker.log, worker.log


@contextlib.contextmanager
def neighbours(fleet: Fleet, number: int) -> Iterator[list[Client]]:
    """Plain clients of each kind, which end what they hold before they leave."""
    clients = [
        kind(fleet.dsn, fleet.ledger.path, f"{kind.__name__} {number}.{which}")
        for kind in KINDS for which in range(OF_EACH_KIND)
    ]  # fmt: skip
    for client in clients:
        client.start()
    try:
        yield clients
    finally:
        for client in clients:
            client.stop()


def add_jobs(queue: JobQueue, db: Db) -> None:
    """Half of them by the client, half by a plain INSERT."""
    queue.enqueue_many(TYPE, ({} for _ in range(JOBS // 2)))
    for _ in range(JOBS // 2):
        db.execute(seed.INSERT.replace("$1", "%s"), (TYPE,))


def ended(db: Db) -> int:
    row = db.execute("SELECT count(*) AS jobs FROM archive").fetchone()
    assert row is not None
    return int(row["jobs"])


def kill(fleet: Fleet, worker: WorkerProcess, killed: list[tuple[str, float]]) -> WorkerProcess:
    """Kills a worker in the middle of its work, and starts it again, as a supervisor would."""
    worker.kill()
    killed.append((worker.name, time.monotonic()))
    return fleet.start(worker.name, **PATIENT).await_ready()


def recover(db: Db, number: int) -> None:
    """The seed's statement and our function take turns. What a live worker holds is safe from both."""
    if number % 2:
        db.execute("SELECT recover_stale_jobs('0')")
    else:
        db.execute(seed.RECOVER_STALE_JOBS.replace("$1", "%s"), ("0",))


def kind_of(entry: Entry) -> str:
    return entry.worker.split()[0]


def overlaps(entries: list[Entry], killed: list[tuple[str, float]]) -> list[tuple[Entry, Entry]]:
    """Pairs of runs of one job, the second of which began while the first ran, or before its worker was killed."""
    found: list[tuple[Entry, Entry]] = []
    for runs in by_job(entries).values():
        going_on: list[Entry] = []
        for entry in runs:
            if entry.word == "START":
                going_on = [run for run in going_on if not is_over(run, killed, entry.at)]
                found += [(run, entry) for run in going_on]
                going_on.append(entry)
            else:
                going_on = [run for run in going_on if run.hold != entry.hold]
    return found


def is_over(run: Entry, killed: list[tuple[str, float]], at: float) -> bool:
    return any(run.worker == name and run.at <= moment <= at for name, moment in killed)
