"""Whatever the database, the login or the caller's session has set: right answers, or a refusal before anything is written."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterator
from datetime import timedelta, timezone
from unittest import mock

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from howdah import DatabaseUnavailable, InvalidInput, InvalidOption, Job, JobQueue, SchemaConflict
from howdah.db import pinned_settings
from howdah.testing import Clock
from tests import pooler
from tests.odd_settings import ODD, READ_ONLY
from tests.security.verbs import Caller, call_them_all
from tests.servers import Server
from tests.worker.in_process import drain

# Those of plpgsql are there as soon as a function of it was called.
SETTINGS = "SELECT name, setting FROM pg_settings WHERE name NOT LIKE 'plpgsql.%' ORDER BY name"


@pytest.fixture
def database(shared_server: Server) -> Iterator[str]:
    """A database of its own, with a queue in it."""
    yield from made(shared_server, "")


@pytest.fixture
def latin1(shared_server: Server) -> Iterator[str]:
    yield from made(shared_server, "ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")


def made(server: Server, how: str) -> Iterator[str]:
    name = f"settings_{uuid.uuid4().hex[:8]}"
    dsn = make_conninfo(server.dsn, dbname=name)
    with psycopg.connect(server.dsn, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} {how}".encode())
        try:
            with JobQueue(dsn) as queue:
                queue.migrate()
            yield dsn
        finally:
            conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def set_for_all(dsn: str, settings: dict[str, str]) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        for name, value in settings.items():
            statement = sql.SQL("ALTER DATABASE {} SET {} = {}")
            database, setting = sql.Identifier(conn.info.dbname), sql.Identifier(name)
            conn.execute(statement.format(database, setting, sql.Literal(value)))


@pytest.fixture
def odd(database: str) -> str:
    set_for_all(database, ODD)
    return database


@pytest.mark.parametrize("awaited", [False, True], ids=["blocking", "awaited"])
@pytest.mark.parametrize("where", ["pool", "pool, nothing pinned", "conn"])
def test_every_verb_gives_right_answers(odd: str, where: str, awaited: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if where == "pool, nothing pinned":
        monkeypatch.setattr(pinned_settings, "startup_options", lambda given: {})
    if where != "pool":
        # Not ours to change there, and not survived by everything: see below.
        set_for_all(odd, {"default_transaction_isolation": "read committed"})
    with JobQueue(odd) as queue:
        call_them_all(Caller(queue, awaited=awaited, own_connection=where == "conn"))


def test_every_verb_gives_right_answers_behind_a_pooler(odd: str) -> None:
    set_for_all(odd, {"default_transaction_isolation": "read committed"})
    with pooler.pgbouncer(odd) as dsn, JobQueue(dsn) as queue:
        call_them_all(Caller(queue, awaited=False, own_connection=False))


@pytest.mark.parametrize("setting", ODD)
def test_an_enqueue_in_the_callers_session_gives_the_moments_that_are_stored(setting: str, database: str) -> None:
    with JobQueue(database) as queue, psycopg.connect(database) as conn:
        conn.execute("SELECT set_config(%s, %s, false)", (setting, ODD[setting]))
        added = queue.enqueue("mail", delay=90, timeout=3.5, conn=conn)
        conn.commit()
        found = queue.get(added.id)
        assert (found.run_at, found.timeout, found.created_at) == (added.run_at, added.timeout, added.created_at)


def test_a_worker_works_and_schedules_and_prunes(odd: str) -> None:
    queue = JobQueue(odd)

    @queue.job(max_attempts=2)
    def fails_once(job: Job, at: str) -> str:
        job.progress(10, None)
        job.event("seen")
        if job.attempts == 1:
            raise ValueError(at)
        return at

    with queue:
        job = fails_once.enqueue(at="now")
        queue.schedules.set("again", "fails_once", {"at": "then"}, every=3600)
        queue.schedules.run("again")
        drain(queue)
        while queue.get(job.id).status == "pending":
            queue.reschedule(job.id)
            drain(queue)
        done = queue.get(job.id)
        assert (done.status, done.value(), done.errors[0].error) == ("completed", "now", "ValueError: now")
        assert [finding.code for finding in queue.doctor(only=["schema-drift", "server-read-only"])] == []
        assert queue.check_schema() == []


def test_the_callers_session_is_left_as_it_was(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as conn, JobQueue(database) as queue:
        for setting, value in ODD.items():
            conn.execute("SELECT set_config(%s, %s, false)", (setting, value))
        before = conn.execute(SETTINGS).fetchall()
        job = queue.enqueue("mail", conn=conn)
        queue.enqueue_many("mail", [{}], conn=conn)
        queue.list(conn=conn)
        queue.stats(conn=conn)
        queue.cancel(job.id, conn=conn)
        assert conn.execute(SETTINGS).fetchall() == before


def test_a_session_without_utf8_is_refused_before_anything_is_written(database: str) -> None:
    with JobQueue(database) as queue, psycopg.connect(database, client_encoding="latin1") as conn:
        with pytest.raises(InvalidOption, match=r"LATIN1.*SET client_encoding"):
            queue.enqueue("mail", {"to": "é"}, conn=conn)
        with pytest.raises(InvalidOption, match=r"LATIN1.*SET client_encoding"):
            queue.get(uuid.uuid4(), conn=conn)
        conn.commit()
        assert len(queue.list()) == 0
        conn.execute("SET client_encoding = 'UTF8'")
        queue.enqueue("mail", {"to": "é€"}, conn=conn)
        conn.commit()
        assert queue.list()[0].data == {"to": "é€"}


def test_a_write_to_a_read_only_database_raises_database_unavailable(database: str) -> None:
    set_for_all(database, READ_ONLY)
    with JobQueue(database) as queue, pytest.raises(DatabaseUnavailable, match="read-only"):
        queue.enqueue("mail")


def test_own_connections_have_what_is_pinned_and_keep_what_the_user_chose(odd: str) -> None:
    dsn = make_conninfo(odd, options="-c statement_timeout=77s -c DateStyle=German -c TimeZone=Asia/Tokyo")
    with JobQueue(dsn) as queue:
        queue.stats()
        with queue._database.pool().connection() as conn:
            found = {name: conn.execute(sql.SQL("SHOW {}").format(sql.Identifier(name))).fetchone() for name in SHOWN}
    assert found == {name: (value,) for name, value in SHOWN.items()}


SHOWN = {
    "search_path": "pg_catalog,pg_temp",
    "DateStyle": "ISO, DMY",
    "IntervalStyle": "postgres",
    "default_transaction_isolation": "read committed",
    "standard_conforming_strings": "on",
    "array_nulls": "on",
    "client_encoding": "UTF8",
    "statement_timeout": "77s",
    "TimeZone": "Asia/Tokyo",
}


def test_pgoptions_are_kept(database: str) -> None:
    with mock.patch.dict(os.environ, {"PGOPTIONS": "-c statement_timeout=55s"}), JobQueue(database) as queue:
        queue.stats()
        with queue._database.pool().connection() as conn:
            assert conn.execute("SHOW statement_timeout").fetchone() == ("55s",)
            assert conn.execute("SHOW search_path").fetchone() == ("pg_catalog,pg_temp",)


def test_moments_of_own_connections_are_in_utc(database: str) -> None:
    with JobQueue(database) as queue:
        assert queue.enqueue("mail").created_at.tzinfo is timezone.utc


def test_the_clock_of_tests_can_be_moved(odd: str) -> None:
    with Clock(odd) as clock, JobQueue(odd) as queue:
        before = clock.now
        assert clock.advance(60) == before + timedelta(seconds=60) == queue.enqueue("mail").created_at


# Encodings


def test_a_database_without_an_encoding_is_refused(shared_server: Server) -> None:
    with pytest.raises(SchemaConflict, match=r"SQL_ASCII.*Nothing was changed.*UTF8"):
        next(made(shared_server, "ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0"))


def test_what_an_encoding_lacks_is_refused_with_nothing_written(latin1: str) -> None:
    with JobQueue(latin1) as queue:
        with pytest.raises(InvalidInput, match=r"encoding of this database.*UTF8"):
            queue.enqueue("mail", {"price": "5 €"})
        with pytest.raises(InvalidInput, match="encoding of this database"):
            asyncio.run(queue.aenqueue_many("mail", [{"price": "5 €"}]))
        assert len(queue.list()) == 0
        assert queue.get(queue.enqueue("mail", {"to": "Jürgen"}).id).data == {"to": "Jürgen"}


def test_an_error_is_recorded_in_a_database_that_lacks_its_characters(latin1: str) -> None:
    queue = JobQueue(latin1)

    @queue.job(max_attempts=1)
    def costs() -> None:
        raise ValueError("5 € too much")

    with queue:
        job = costs.enqueue()
        drain(queue)
        failed = queue.get(job.id)
        assert (failed.status, failed.last_error) == ("failed", "ValueError: 5 \\u20ac too much")
        assert failed.errors[0].traceback is not None
        assert "costs" in failed.errors[0].traceback
