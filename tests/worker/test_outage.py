"""The database is gone for longer than a lease, under load, and comes back: the same processes continue."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from howdah import JobQueue
from tests import servers
from tests.size import FULL
from tests.worker.durable_server import DurableServer
from tests.worker.ledger import times
from tests.worker.processes import LEASE, Fleet, until

OUTAGE = 20.0 if FULL else 2 * LEASE + 0.5
JOBS = 200


def test_workers_outlive_the_database_and_lose_nothing(tmp_path: Path) -> None:
    binaries = servers.find(servers.MAJORS[0])
    if binaries is None:
        pytest.skip(f"PostgreSQL {servers.MAJORS[0]} is not installed here")
    with DurableServer(binaries) as server, JobQueue(server.dsn) as queue:
        queue.migrate()
        with Fleet(server.dsn, tmp_path, "handlers_load") as fleet:
            workers = fleet.start_all("first", "second", concurrency=5)
            pids = [worker.pid for worker in workers]
            patient = queue.enqueue("patient")
            queue.enqueue_many("work", ({"seconds": 0.1} for _ in range(JOBS)))
            until(lambda: fleet.ledger.count("END") >= 20, "they are in the middle of it")
            server.halt("immediate")
            gone_at = time.monotonic()
            until(lambda: all("lets go of" in worker.log for worker in workers), "both fence themselves")
            until(lambda: fleet.ledger.count("TOLD"), "running handlers are stopped")
            time.sleep(max(gone_at + OUTAGE - time.monotonic(), 0))
            back_at = time.monotonic()
            assert [entry.id for entry in fleet.ledger.entries("TOLD")] == [patient.id]
            server.start()
            fleet.reconnect()
            fleet.ledger.say("finish")
            fleet.await_drained()

            assert [worker.pid for worker in workers if worker.is_running] == pids
            jobs = {job["id"]: job for job in fleet.jobs()}
            assert len(jobs) == JOBS + 1
            assert {job["status"] for job in jobs.values()} == {"completed"}
            starts, ends = fleet.ledger.entries("START"), times(fleet.ledger.entries("END"))
            assert set(ends) == set(jobs)
            assert all(job["attempts"] <= times(starts)[id] for id, job in jobs.items()), "no attempt without a start"
            quiet = [entry for entry in starts if gone_at + LEASE < entry.at < back_at]
            assert quiet == [], "a worker that is cut off starts nothing"
            for worker in workers:
                assert worker.log.count("trying again until it is back") == 1, "an outage is logged once"
                until(lambda: "the database is back" in worker.log, "it is logged")  # noqa: B023
                assert worker.log.count("the database is back") == 1
                assert worker.stop() == 0
