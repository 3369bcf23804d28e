"""A login that the database refuses: the worker ends, because to try again would not help."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from howdah import DatabaseUnavailable, JobQueue, LoginRefused
from howdah.db.error_mapping import _is_refusal
from howdah.db.outage import is_temporary
from tests import servers
from tests.conftest import Db
from tests.security.working import work
from tests.worker.in_process import run, until

TARGET = "tests.security.canary:queue"


@pytest.fixture
def login(db: Db) -> Iterator[str]:
    """A superuser that may log in."""
    name = f"login_{uuid.uuid4().hex[:8]}"
    db.execute(f"CREATE ROLE {name} LOGIN SUPERUSER".encode())
    yield name
    db.execute(f"DROP ROLE {name}".encode())


def test_a_worker_with_a_wrong_password_ends_at_once(shared_server: servers.Server) -> None:
    server = servers.Server(shared_server.binaries)
    try:
        Path(server.data, "pg_hba.conf").write_text("local all postgres trust\nlocal all all scram-sha-256\n")
        with psycopg.connect(server.dsn, autocommit=True) as conn:
            conn.execute("CREATE ROLE app LOGIN PASSWORD 'right'")
            conn.execute("SELECT pg_reload_conf()")
        wrong = make_conninfo(server.dsn, user="app", password="wrong")
        # The server reads its file a moment after the reload.
        while True:
            try:
                psycopg.connect(wrong).close()
            except psycopg.OperationalError:
                break
        for dsn in (wrong, make_conninfo(server.dsn, user="app")):
            outcome = work(TARGET, dsn)
            assert outcome.code == 4
            assert "refused the login" in outcome.err
            assert "DSN" in outcome.err
    finally:
        server.stop()


def test_a_worker_whose_login_may_not_log_in_ends_at_once(dsn: str, db: Db, login: str) -> None:
    db.execute(f"ALTER ROLE {login} NOLOGIN".encode())
    refused = make_conninfo(dsn, user=login)
    outcome = work(TARGET, refused)
    assert outcome.code == 4
    assert "not permitted to log in" in outcome.err
    assert work(TARGET, refused, "--processes", "2").code == 4
    with JobQueue(refused) as queue, pytest.raises(LoginRefused, match="pg_hba"):
        queue.stats()


def test_a_running_worker_ends_when_its_login_is_refused(dsn: str, db: Db, login: str) -> None:
    queue = JobQueue(make_conninfo(dsn, user=login))

    @queue.job
    async def nothing() -> None:
        pass

    async def main() -> int:
        worker = queue.worker(poll=0.05, heartbeat=0.1, lease=1, grace=1)
        running = asyncio.create_task(worker.run())
        job = await nothing.aenqueue()
        await queue.await_for(job, timeout=30)
        db.execute(f"ALTER ROLE {login} NOLOGIN".encode())
        ended = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{login}'"
        await until(lambda: (db.execute(ended.encode()), running.done())[1])
        return (await running).exit_code

    assert run(main()) == 4
    queue.close()


def test_a_server_that_starts_is_an_outage_and_a_refusal_is_none() -> None:
    assert is_temporary(DatabaseUnavailable())
    assert not is_temporary(LoginRefused())


SOCKET = 'connection failed: connection to server on socket "/s/.s.PGSQL.5432" failed: '


@pytest.mark.parametrize(
    ("message", "refused"),
    [
        (SOCKET + 'FATAL:  password authentication failed for user "app"', True),
        (SOCKET + 'FATAL:  role "app" does not exist', True),
        (SOCKET + "fe_sendauth: no password supplied", True),
        (SOCKET + 'FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "app", database "db", SSL off', True),
        (SOCKET + "FATAL:  the database system is starting up", False),
        (SOCKET + "FATAL:  sorry, too many clients already", False),
        (SOCKET + 'FATAL:  database "db" does not exist', False),
        (SOCKET + 'FATAL:  LDAP authentication failed for user "app"', False),
        (SOCKET + "No such file or directory", False),
        (
            (
                "Multiple connection attempts failed. All failures were:\n"
                "- host: 'a', port: None, hostaddr: None: connection failed: Connection refused\n"
                "- host: 'b', port: None, hostaddr: None: connection failed: FATAL:  no pg_hba.conf entry for …"
            ),
            False,
        ),
    ],
)
def test_refusals_and_outages_are_distinguished(message: str, refused: bool) -> None:
    assert _is_refusal(message) is refused
