"""Workers that are stopped while they begin."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from howdah import DatabaseUnavailable, JobQueue
from howdah.db.database import Database, SyncConnection
from howdah.worker import first_contact
from tests.conftest import Db
from tests.security.working import work
from tests.worker.in_process import happened, run, until, working

NAME = "stops while it begins"


@pytest.fixture
def beginner(dsn: str) -> Iterator[JobQueue]:
    with JobQueue(make_conninfo(dsn, application_name=NAME)) as queue:
        queue.job(name="nothing")(lambda job: None)
        yield queue


def connections(db: Db, condition: str = "true") -> int:
    row = db.execute(
        f"SELECT count(*) AS n FROM pg_stat_activity WHERE application_name = %s AND {condition}".encode(), (NAME,)
    ).fetchone()
    assert row is not None
    return int(row["n"])


def test_one_that_cannot_register_leaves_no_connection(dsn: str, beginner: JobQueue, db: Db) -> None:
    async def main() -> None:
        with psycopg.connect(dsn) as other:
            other.execute("LOCK TABLE howdah.workers")
            async with working(beginner):
                await until(lambda: connections(db, "wait_event_type = 'Lock'"))

    run(main())
    # Connections that were not closed would warn now.
    gc.collect()
    beginner.close()
    run(until(lambda: connections(db) == 0))


def test_a_server_that_is_not_there_yet_is_waited_for_and_named_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(first_contact, "REMINDER", 0.2)

    async def main() -> None:
        async with working(_nowhere()):
            await until(lambda: len(_logged(caplog, "still_waiting")) > 1)

    run(main())
    assert len(_logged(caplog, "database_lost")) == 1
    assert all("Connection refused" in line for line in _logged(caplog, "still_waiting"))
    assert not [record for record in caplog.records if record.levelno > logging.WARNING or "\n" in record.getMessage()]


def test_a_drain_ends_if_the_server_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_contact, "DRAIN_PATIENCE", 0.2)
    with pytest.raises(DatabaseUnavailable, match="Connection refused; given up after"):
        run(_nowhere().run_worker(drain=True))


def test_a_database_that_does_not_exist_is_not_waited_for(dsn: str) -> None:
    outcome = work("tests.security.canary:queue", make_conninfo(dsn, dbname="nosuch"))
    assert outcome.code == 4
    assert 'database "nosuch" does not exist' in outcome.err
    assert outcome.err.strip().endswith("Create it, or correct its name in the DSN")


def _nowhere() -> JobQueue:
    queue = JobQueue("postgresql://nobody@localhost:1/nowhere")
    queue.job(name="nothing")(lambda job: None)
    return queue


def _logged(caplog: pytest.LogCaptureFixture, event: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if getattr(record, "event", None) == event]


def test_a_connection_that_is_made_too_late_is_closed(
    beginner: JobQueue, db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    connects = Database.connect
    made = list[SyncConnection]()
    asked, stopped = threading.Event(), threading.Event()

    def connect_late(self: Database, dsn: str) -> SyncConnection:
        conn = connects(self, dsn)
        if self is beginner._database:
            made.append(conn)
            asked.set()
            stopped.wait()
        return conn

    async def main() -> None:
        beginner.stats()  # so that the heartbeat's connection is the only one to come
        monkeypatch.setattr(Database, "connect", connect_late)
        async with working(beginner) as worker:
            await happened(asked)
            worker.stop()
            try:
                await until(lambda: worker._heartbeat._opening is None)
            finally:
                stopped.set()

    run(main())
    assert made
    assert all(conn.closed for conn in made)
