"""The server: its settings, its limits, and a pooler in front of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from howdah import JobQueue
from tests.cli.runner import command
from tests.doctor.conftest import (
    SETTINGS,
    Db,
    HealthyServer,
    codes,
    found,
    only_finding,
    register,
    run_all,
    system_setting,
)
from tests.pooler import pgbouncer
from tests.standby import Standby
from tests.worker.durable_server import DurableServer
from tests.worker.in_process import until as auntil
from tests.worker.in_process import working
from tests.worker.processes import until


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("fsync", "off", "fsync-off"),
        ("full_page_writes", "off", "full-page-writes-off"),
        ("zero_damaged_pages", "on", "damaged-pages-zeroed"),
        ("track_activities", "off", "tracking-off"),
        ("track_counts", "off", "tracking-off"),
        ("autovacuum", "off", "autovacuum-off"),
        ("synchronous_commit", "off", "commits-not-durable"),
        ("statement_timeout", "900", "settings-harmful"),
        ("default_transaction_isolation", "repeatable read", "settings-harmful"),
    ],
)
def test_a_setting_of_the_server(healthy_dsn: str, db: Db, queue: JobQueue, name: str, value: str, code: str) -> None:
    with system_setting(healthy_dsn, name, value):
        finding = only_finding(queue, code)
        assert name in finding.what
        assert finding.cause == "the server's settings (configuration file)"
        run_all(db, finding.remedy.split("; "))
        until(lambda: not codes(queue), "the remedy has helped")


def test_a_setting_that_no_statement_reaches_and_one_that_was_written_by_hand(healthy_server: HealthyServer) -> None:
    settings = {**SETTINGS, "fsync": "off", "autovacuum": "off"}
    with (
        DurableServer(healthy_server.source, settings, str(healthy_server.home.parent)) as server,
        JobQueue(server.dsn) as queue,
    ):
        queue.migrate()
        with Path(server.data, "postgresql.conf").open("a") as file:
            file.write("statement_timeout = 900\n")
        with psycopg.connect(server.dsn, autocommit=True) as conn:
            conn.execute("SELECT pg_reload_conf()")
            until(lambda: len(codes(queue)) == 3, "it is read")
            fsync, autovacuum, timeout = found(queue)
            assert timeout.remedy.startswith("ALTER SYSTEM SET statement_timeout = 0;")
            for statement in timeout.remedy.split("; "):
                conn.execute(statement.encode())
            until(lambda: len(codes(queue)) == 2, "the remedy has helped")
        for finding, name in ((fsync, "fsync"), (autovacuum, "autovacuum")):
            assert finding.cause == "the server's settings (command line)"
            assert finding.remedy.startswith(f"remove {name} from the command line that starts the server")
        server.halt("fast")
        del server.own["fsync"], server.own["autovacuum"]
        server.start()
        until(lambda: not codes(queue), "the remedy has helped")


@pytest.mark.parametrize("whose", ["DATABASE shared", "ROLE ALL", "ROLE postgres", "ROLE postgres IN DATABASE shared"])
@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("synchronous_commit", "off", "commits-not-durable"),
        ("zero_damaged_pages", "TRUE", "damaged-pages-zeroed"),
        ("track_counts", "no", "tracking-off"),
    ],
)
def test_a_setting_is_undone_where_it_was_made(
    db: Db, queue: JobQueue, whose: str, name: str, value: str, code: str
) -> None:
    db.execute(f"ALTER {whose} SET {name} = {value}".encode())
    try:
        finding = only_finding(queue, code)
        assert finding.remedy == f"ALTER {whose} RESET {name}; -- and restart the sessions"
        db.execute(finding.remedy.encode())
        assert codes(queue) == []
    finally:
        db.execute(f"ALTER {whose} RESET {name}".encode())


def test_a_setting_of_the_session_itself(healthy_dsn: str) -> None:
    with JobQueue(make_conninfo(healthy_dsn, options="-c synchronous_commit=off -c statement_timeout=4s")) as queue:
        finding = only_finding(queue, "commits-not-durable")
        assert finding.cause == "this session's settings (client)"
        assert finding.remedy == "remove synchronous_commit from the options of the DSN, or from PGOPTIONS"


def test_a_setting_of_a_role_or_of_the_database(healthy_dsn: str, db: Db, queue: JobQueue) -> None:
    name = conninfo_to_dict(healthy_dsn)["dbname"]
    db.execute(sql.SQL("ALTER DATABASE {} SET synchronous_commit = off").format(sql.Identifier(str(name))))
    finding = only_finding(queue, "commits-not-durable")
    assert finding.cause == f"what is set for all roles in database {name}"
    assert finding.remedy.startswith(f"ALTER DATABASE {name} RESET synchronous_commit;")
    db.execute(finding.remedy.encode())
    with _role(db, "Hurried"):
        db.execute('ALTER ROLE "Hurried" SET synchronous_commit = off')
        assert codes(queue) == []  # It cannot use the queue.
        db.execute('GRANT USAGE ON SCHEMA howdah TO "Hurried"')
        finding = only_finding(queue, "commits-not-durable")
        assert finding.cause == "what is set for role Hurried"
        assert finding.remedy.startswith('ALTER ROLE "Hurried" RESET synchronous_commit;')
        db.execute('REVOKE USAGE ON SCHEMA howdah FROM "Hurried"')


def test_a_timeout_counts_where_workers_have_it(healthy_dsn: str, db: Db, queue: JobQueue) -> None:
    async def scenario() -> None:
        async with JobQueue(make_conninfo(healthy_dsn, user="runner")) as runner:

            @runner.job
            async def work() -> None: ...

            async with working(runner):
                sleeping = (
                    "SELECT 1 AS so FROM pg_locks JOIN pg_stat_activity USING (pid)"
                    " WHERE locktype = 'advisory' AND granted AND mode = 'ShareLock' AND usename = 'runner'"
                )
                await auntil(lambda: db.execute(sleeping).fetchone())
                finding = await asyncio.to_thread(only_finding, queue, "settings-harmful")
                assert finding.cause == "what is set for role runner"
                assert finding.remedy.startswith("ALTER ROLE runner RESET statement_timeout;")

    with _role(db, "runner", "visitor"):
        db.execute("ALTER ROLE runner SUPERUSER LOGIN")
        db.execute("ALTER ROLE runner SET statement_timeout = '2s'")
        db.execute("ALTER ROLE visitor SET statement_timeout = '2s'")
        db.execute("GRANT USAGE ON SCHEMA howdah TO visitor")
        assert codes(queue) == []
        asyncio.run(scenario())
        db.execute("DROP OWNED BY visitor")


@contextlib.contextmanager
def _role(db: Db, *names: str) -> Iterator[None]:
    for name in names:
        db.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(name)))
    try:
        yield
    finally:
        for name in names:
            db.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
            db.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def test_a_database_that_is_read_only(healthy_dsn: str, db: Db, queue: JobQueue) -> None:
    name = sql.Identifier(str(conninfo_to_dict(healthy_dsn)["dbname"]))
    db.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(name))
    diagnosis = queue.doctor()
    assert [finding.code for finding in diagnosis] == ["server-read-only"]
    assert [each.codes for each in diagnosis.unseen] == [("schema-drift",)]
    with psycopg.connect(healthy_dsn, autocommit=True) as conn:
        for statement in diagnosis[0].remedy.split("; "):
            conn.execute(statement.encode())
    assert codes(queue, ignore=()) == []


@pytest.mark.parametrize("offset", ["+1h", "-1h"])
def test_a_clock_that_is_wrong(healthy_dsn: str, offset: str) -> None:
    faketime = shutil.which("faketime")
    if faketime is None:
        if os.environ.get("CI"):
            pytest.fail("faketime is not installed here (Debian: apt-get install faketime)")
        pytest.skip("faketime is not installed here")
    done = subprocess.run(
        [faketime, "-m", "-f", offset, *command("doctor", "--json", "--dsn", healthy_dsn)],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    (finding,) = json.loads(done.stdout)["findings"]
    assert (done.returncode, finding["code"]) == (1, "clock-off")
    assert re.search("(59|60)m ahead of" if offset == "+1h" else "(59|60)m behind", finding["what"])


def test_connections_that_run_out(healthy_dsn: str, queue: JobQueue) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(34):
            stack.enter_context(psycopg.connect(healthy_dsn, application_name="greedy"))
        finding = only_finding(queue, "connections-scarce")
        assert "of the 37 connections that the server allows" in finding.what
        assert finding.cause == "most are held by role postgres (greedy): 34"
    until(lambda: not codes(queue), "they are gone")


def test_the_limit_of_a_database(healthy_dsn: str, db: Db, queue: JobQueue) -> None:
    name = str(conninfo_to_dict(healthy_dsn)["dbname"])
    db.execute(sql.SQL("ALTER DATABASE {} CONNECTION LIMIT 2").format(sql.Identifier(name)))
    assert f"database {name} allows" in only_finding(queue, "connections-scarce").what


def test_more_workers_than_the_server_has_connections_for(db: Db, queue: JobQueue) -> None:
    for number in range(6):
        register(db, f"w{number}")
    assert codes(queue) == []
    register(db, "w6")
    finding = only_finding(queue, "connections-overcommitted")
    assert "7 live workers need 42 connections, and the server allows 37" in finding.what


def test_a_pooler_in_transaction_mode(healthy_dsn: str, db: Db) -> None:
    with pgbouncer(healthy_dsn) as pooled, JobQueue(pooled) as queue:
        finding = only_finding(queue, "pooler-in-transaction-mode")
        assert "pool_mode = session" in finding.remedy
        assert codes(queue, ignore=["pooler-in-transaction-mode"]) == []
        for number in range(7):
            register(db, f"w{number}")
        # Behind it they share the connections that there are, with or without notifications.
        assert codes(queue, ignore=["pooler-in-transaction-mode", "schema-drift"]) == []
        left = db.execute("SELECT count(*) AS n FROM pg_locks WHERE locktype = 'advisory'").fetchone()
        assert left == {"n": 0}
    with pgbouncer(healthy_dsn, {"pool_mode": "session"}) as pooled, JobQueue(pooled) as queue:
        assert codes(queue) == ["connections-overcommitted"]


def test_a_standby_and_what_it_holds_back(healthy_server: HealthyServer) -> None:
    # Of a server of its own, because the other one has many databases to copy.
    with type(healthy_server)(healthy_server.source) as primary, JobQueue(primary.dsn) as queue:
        queue.migrate()
        settings = {**SETTINGS, "hot_standby_feedback": "on"}
        with (
            Standby(primary, "slow_reader", settings) as standby,
            psycopg.connect(primary.dsn, autocommit=True) as db,
        ):
            _look_at_both(queue, db, standby.dsn)


def _look_at_both(queue: JobQueue, db: psycopg.Connection[tuple[object, ...]], standby: str) -> None:
    with JobQueue(standby) as there:
        diagnosis = there.doctor()
        assert [finding.code for finding in diagnosis] == ["server-read-only"]
        assert "is a standby" in diagnosis[0].what
        assert [each.codes for each in diagnosis.unseen] == [("schema-drift",)]
    assert codes(queue) == []
    with psycopg.connect(standby) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("SELECT count(*) FROM howdah.jobs")
        until(
            lambda: db.execute("SELECT 1 AS so FROM pg_stat_replication WHERE backend_xmin IS NOT NULL").fetchone(),
            "it asks",
        )
        # The lag is measured by what happens in the queue meanwhile.
        queue.enqueue("work")
        (job,) = queue.claim(["work"])
        queue.progress(job, 10)
        queue.complete(job)
        finding = until(lambda: [f for f in found(queue, patience=0) if "replication" in f.what], "it is found")[0]
        assert finding.code == "xmin-held"
        assert finding.cause == "standby slow_reader"
        assert "hot_standby_feedback" in finding.remedy
