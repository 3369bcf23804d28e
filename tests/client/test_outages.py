"""Outages, and errors that are not outages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from howdah import DatabaseUnavailable, JobQueue, SchemaMissing, SchemaOutdated, SchemaTooNew
from howdah.verbs.produce import BULK_SIZE
from tests import servers
from tests.conftest import Db

BACKENDS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'howdah' AND datname = current_database()"
NOWHERE = "host=/nowhere dbname=postgres user=postgres"


def end_connections(db: Db) -> int:
    """Ends every connection of the queue's, and returns how many there were."""
    rows = db.execute(
        "SELECT pg_terminate_backend(pid, 10000) AS ended FROM pg_stat_activity"
        " WHERE application_name = 'howdah' AND datname = current_database()"
    ).fetchall()
    return sum(row["ended"] for row in rows)


def warm(queue: JobQueue) -> None:
    queue.stats()


def test_reads_survive_the_loss_of_their_connection(queue: JobQueue, db: Db) -> None:
    job = queue.enqueue("mail")
    for read in (lambda: queue.get(job), queue.list, queue.stats, lambda: queue.wait_for(queue_ended(queue))):
        warm(queue)
        assert end_connections(db) >= 1
        assert read() is not None


def queue_ended(queue: JobQueue) -> Any:
    job = queue.enqueue("ended")
    queue.cancel(job)
    return job


def test_an_enqueue_survives_the_loss_of_its_connection_and_happens_once(queue: JobQueue, db: Db) -> None:
    warm(queue)
    assert end_connections(db) >= 1
    job = queue.enqueue("mail", {"n": 1})
    assert job.created
    assert [each.id for each in queue.list()] == [job.id]


def test_all_of_a_pools_connections_may_be_lost(dsn: str, db: Db) -> None:
    async def main() -> None:
        async with JobQueue(dsn) as queue:
            await asyncio.gather(*(queue.aenqueue("mail", n) for n in range(30)))
            # Where calls were gathered, the pool may not have grown.
            assert end_connections(db) >= 1
            await asyncio.gather(*(queue.aenqueue("mail", n) for n in range(30)))
            assert len(await queue.alist(limit=100)) == 60

    asyncio.run(main())


def test_an_enqueue_whose_reply_is_lost_happens_once(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    warm(queue)
    fetchall = psycopg.Cursor.fetchall
    lost: list[Any] = []

    def lose_the_first(cursor: psycopg.Cursor[Any]) -> list[Any]:
        rows = fetchall(cursor)
        if not lost:
            lost.append(rows)
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return rows

    monkeypatch.setattr(psycopg.Cursor, "fetchall", lose_the_first)
    job = queue.enqueue("mail", {"n": 1}, key="k")
    assert lost
    assert [each.id for each in queue.list()] == [job.id]
    assert job.data == {"n": 1}
    assert job.created, "it was this call that made the job, however often it was sent"


def test_a_write_that_cannot_be_repeated_raises_database_unavailable(queue: JobQueue, db: Db) -> None:
    queue.enqueue("mail")
    warm(queue)
    assert end_connections(db) >= 1
    with pytest.raises(DatabaseUnavailable):
        queue.claim(["mail"])
    assert len(queue.claim(["mail"])) == 1


def test_a_bulk_whose_connection_is_lost_enqueues_nothing(queue: JobQueue, db: Db) -> None:
    def items() -> Iterator[int]:
        yield from range(BULK_SIZE)
        assert end_connections(db) >= 1
        yield BULK_SIZE

    with pytest.raises(DatabaseUnavailable):
        queue.enqueue_many("mail", items())
    assert len(queue.list()) == 0


def test_a_bulk_whose_commit_is_lost_raises_database_unavailable_too(queue: JobQueue, db: Db) -> None:
    def items() -> Iterator[int]:
        yield from range(BULK_SIZE)
        # Asked for more, after all of them were sent: only the commit is left.
        assert end_connections(db) >= 1

    with pytest.raises(DatabaseUnavailable):
        queue.enqueue_many("mail", items())
    assert len(queue.list()) == 0


def test_the_loss_of_the_callers_connection_is_an_outage_too(dsn: str, queue: JobQueue, db: Db) -> None:
    with psycopg.connect(dsn, application_name="howdah") as conn:
        queue.enqueue("mail", conn=conn)
        end_connections(db)
        with pytest.raises(DatabaseUnavailable):
            queue.enqueue("mail", conn=conn)
    assert len(queue.list()) == 0


@pytest.fixture(scope="module")
def own_server() -> Iterator[servers.Server]:
    binaries = servers.find(servers.MAJORS[0])
    if binaries is None:
        pytest.skip("needs the binaries of a server, to stop it")
    server = servers.Server(binaries)
    yield server
    server.stop()


def test_a_queue_goes_on_as_soon_as_the_server_is_back(own_server: servers.Server) -> None:
    with JobQueue(own_server.dsn, timeout=1) as queue:
        queue.migrate()
        first = queue.enqueue("mail")
        own_server._run("pg_ctl", "-D", own_server.data, "-m", "fast", "-w", "stop")
        try:
            verbs = (
                lambda: queue.enqueue("mail"),
                lambda: queue.get(first),
                lambda: queue.claim(["mail"]),
                queue.stats,
            )
            for verb in verbs:
                with pytest.raises(DatabaseUnavailable):
                    verb()
        finally:
            log = str(own_server.home / "log")
            own_server._run("pg_ctl", "-D", own_server.data, "-l", log, "-w", "restart")
        # At once: a pool left to itself tries ever more rarely, up to every few minutes.
        second = queue.enqueue("mail")
        assert [job.id for job in queue.list()] == [second.id, first.id]


def test_a_server_that_became_read_only_is_an_outage_and_left_for_the_one_that_took_over(dsn: str, db: Db) -> None:
    async def awaited(queue: JobQueue) -> None:
        with pytest.raises(DatabaseUnavailable, match="read-only, as after a failover"):
            await queue.aenqueue("mail")

    with JobQueue(f"{dsn} options=-cdefault_transaction_read_only=on") as queue:
        queue.stats()
        lost = {row["pid"] for row in db.execute(BACKENDS).fetchall()}
        with pytest.raises(DatabaseUnavailable, match="read-only, as after a failover"):
            queue.enqueue("mail")
        asyncio.run(awaited(queue))
        queue.stats()
        # The server sees a moment later that a connection was closed.
        deadline = time.monotonic() + 30
        while not lost.isdisjoint(row["pid"] for row in db.execute(BACKENDS).fetchall()):
            assert time.monotonic() < deadline, "it connects anew"
            time.sleep(0.01)


def test_a_transaction_of_the_callers_that_is_read_only_is_no_outage(dsn: str, queue: JobQueue) -> None:
    with psycopg.connect(dsn) as conn:
        conn.read_only = True
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            queue.enqueue("mail", conn=conn)


def test_a_server_that_cannot_be_reached_is_an_outage() -> None:
    with JobQueue(NOWHERE, timeout=1) as queue:
        for verb in (lambda: queue.enqueue("mail"), queue.stats, lambda: queue.enqueue_many("mail", [1])):
            with pytest.raises(DatabaseUnavailable, match="/nowhere"):
                verb()


def test_a_refused_login_is_not_reported_as_an_unreachable_server(dsn: str) -> None:
    with (
        JobQueue(make_conninfo(dsn, dbname="not_there"), timeout=1) as queue,
        pytest.raises(DatabaseUnavailable, match=r'refused the connection: .*"not_there" does not exist'),
    ):
        queue.stats()


def test_a_server_that_cannot_be_reached_is_an_outage_for_the_awaited_verbs() -> None:
    async def main() -> None:
        async with JobQueue(NOWHERE, timeout=1) as queue:
            with pytest.raises(DatabaseUnavailable, match="/nowhere"):
                await queue.aenqueue("mail")

    asyncio.run(main())


@pytest.mark.parametrize("verb", ["migrate", "check_schema"])
def test_a_server_that_cannot_be_reached_is_an_outage_for_a_migration(verb: str) -> None:
    with JobQueue(NOWHERE) as queue, pytest.raises(DatabaseUnavailable, match="/nowhere"):
        getattr(queue, verb)()


def test_the_error_of_a_missing_schema_names_the_command_to_run(dsn: str) -> None:
    with JobQueue(dsn, schema="not_there") as queue:
        with pytest.raises(SchemaMissing, match=r"schema not_there .* Run: howdah migrate --schema not_there$"):
            queue.enqueue("mail")
        with (
            psycopg.connect(dsn) as conn,
            pytest.raises(SchemaMissing, match=r"Run: howdah migrate --schema not_there$"),
        ):
            queue.enqueue("mail", conn=conn)
        with (
            psycopg.connect(dsn) as conn,
            pytest.raises(SchemaMissing, match=r"Run: howdah migrate --schema not_there$"),
        ):
            queue.list(conn=conn)


def test_a_queue_that_met_a_missing_schema_works_once_it_is_there(dsn: str, db: Db) -> None:
    with JobQueue(dsn, schema="made_later") as queue:
        with pytest.raises(SchemaMissing):
            queue.enqueue("mail")
        queue.migrate()
        try:
            assert queue.enqueue("mail").created
        finally:
            db.execute("DROP SCHEMA made_later CASCADE")


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ("version = 0", SchemaOutdated, "Run: howdah migrate$"),
        ("version = 999, oldest_client = 999", SchemaTooNew, "Run: pip install --upgrade howdah$"),
    ],
)
def test_the_error_of_an_older_or_newer_schema_names_the_command_to_run(
    dsn: str, db: Db, change: str, kind: type[Exception], words: str
) -> None:
    before = db.execute("SELECT version, oldest_client FROM schema_version").fetchone()
    db.execute(f"UPDATE schema_version SET {change}")
    try:
        with JobQueue(dsn) as queue, pytest.raises(kind, match=words):
            queue.enqueue("mail")
    finally:
        db.execute("UPDATE schema_version SET version = %(version)s, oldest_client = %(oldest_client)s", before)


def test_errors_of_the_callers_own_statements_pass_untouched(dsn: str, queue: JobQueue) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute("CREATE TEMP TABLE mine (n int PRIMARY KEY)")
        queue.enqueue("mail", conn=conn)
        with pytest.raises(psycopg.errors.UniqueViolation):
            conn.execute("INSERT INTO mine VALUES (1), (1)")
        conn.rollback()
        with pytest.raises(psycopg.errors.DivisionByZero):
            conn.execute("SELECT 1 / 0")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction) as failed:
            queue.enqueue("mail", conn=conn)
        assert failed.value.__cause__ is not failed.value, "a walk along the causes would never end"
    assert len(queue.list()) == 0


OF_THE_CALLERS_OWN = pytest.mark.parametrize(
    "error",
    [
        psycopg.errors.UniqueViolation,
        psycopg.errors.UndefinedTable,
        psycopg.errors.AdminShutdown,
        psycopg.errors.ReadOnlySqlTransaction,
    ],
    ids=lambda kind: kind.__name__,
)


@OF_THE_CALLERS_OWN
def test_errors_of_the_callers_own_iterable_pass_untouched(queue: JobQueue, db: Db, error: type[psycopg.Error]) -> None:
    """The items may come from another database, whose troubles are not ours to explain."""

    def items() -> Iterator[int]:
        yield 1
        raise error("the caller's own")

    async def awaited() -> None:
        async with queue:
            with pytest.raises(error, match="the caller's own"):
                await queue.aenqueue_many("mail", items())

    warm(queue)
    before = {row["pid"] for row in db.execute(BACKENDS).fetchall()}
    with pytest.raises(error, match="the caller's own") as passed:
        queue.enqueue_many("mail", items())
    assert passed.value.__cause__ is None
    warm(queue)
    after = {row["pid"] for row in db.execute(BACKENDS).fetchall()}
    # Not equal: one that only looked at the schema may still have been about to end.
    assert after <= before, "nothing is wrong with the connection"
    asyncio.run(awaited())


@OF_THE_CALLERS_OWN
def test_errors_of_the_callers_own_key_pass_untouched(queue: JobQueue, error: type[psycopg.Error]) -> None:
    def key(_: int) -> str:
        raise error("the caller's own")

    with pytest.raises(error, match="the caller's own"):
        queue.enqueue_many("mail", [1], key=key)
