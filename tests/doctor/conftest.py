"""A server with durable settings, with a database of its own for each test: on any other the doctor has findings."""

from __future__ import annotations

import contextlib
import itertools
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from howdah import Finding, JobQueue
from tests import servers
from tests.conftest import TABLES
from tests.worker.durable_server import DurableServer
from tests.worker.processes import until

SETTINGS = {
    "max_connections": "40",
    "max_prepared_transactions": "5",
    # Small, so that it can be filled. No autovacuum while a test looks.
    "max_notify_queue_pages": "64",
    "max_wal_size": "32MB",
    "autovacuum_naptime": "1d",
    "autovacuum_freeze_max_age": "100000",
    "wal_receiver_status_interval": "1s",
}

MEMORY = Path("/dev/shm")

Db = psycopg.Connection[dict[str, Any]]
_numbers = itertools.count(1)


class HealthyServer(DurableServer):
    """A server without findings, with settings so small that a test can break it quickly."""

    def __init__(self, binaries: Path) -> None:
        self.source = binaries
        # Its settings are durable, and its files in memory: no test cuts the power.
        fits = MEMORY.exists() and shutil.disk_usage(MEMORY).free > 2 * 2**30
        super().__init__(binaries, SETTINGS, str(MEMORY) if fits else None)


@pytest.fixture(scope="session")
def healthy_server() -> Iterator[HealthyServer]:
    binaries = servers.find(18)
    assert binaries is not None
    with HealthyServer(binaries) as server:
        with psycopg.connect(server.dsn, autocommit=True) as conn:
            conn.execute("CREATE DATABASE healthy")
            with JobQueue(make_conninfo(server.dsn, dbname="healthy")) as queue:
                queue.migrate()
            conn.execute("CREATE DATABASE shared TEMPLATE healthy")
        yield server


@pytest.fixture
def own_dsn(healthy_server: HealthyServer) -> str:
    """The DSN of a database of the test's own, without findings, for tests that change the schema."""
    name = f"own_{next(_numbers)}"
    with psycopg.connect(healthy_server.dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("CREATE DATABASE {} TEMPLATE healthy").format(sql.Identifier(name)))
    # Not dropped: that is a checkpoint each time, and all of them end with the server.
    return make_conninfo(healthy_server.dsn, dbname=name)


@pytest.fixture
def healthy_dsn(healthy_server: HealthyServer) -> str:
    """The DSN of a database without findings, and without rows of other tests."""
    with psycopg.connect(healthy_server.dsn, autocommit=True) as conn:
        conn.execute("ALTER DATABASE shared RESET ALL")
        conn.execute("ALTER DATABASE shared CONNECTION LIMIT -1")
    with psycopg.connect(healthy_server.dsn, dbname="shared", autocommit=True) as conn:
        for table in TABLES:
            if table != "settings":
                conn.execute(sql.SQL("DELETE FROM howdah.{}").format(sql.Identifier(table)))
    return make_conninfo(healthy_server.dsn, dbname="shared")


@pytest.fixture
def db(healthy_dsn: str) -> Iterator[Db]:
    with psycopg.connect(healthy_dsn, autocommit=True, row_factory=dict_row) as conn:
        conn.execute("SELECT set_config('search_path', 'howdah', false)")
        yield conn


@pytest.fixture
def queue(healthy_dsn: str) -> Iterator[JobQueue]:
    with JobQueue(healthy_dsn) as queue:
        yield queue


def found(queue: JobQueue, **options: Any) -> list[Finding]:
    """The findings, where everything can be seen. Drift, which takes longest, is looked for where the schema is the matter."""
    diagnosis = queue.doctor(**{"ignore": ["schema-drift"], **options})
    assert diagnosis.unseen == []
    for finding in diagnosis:
        assert can_be_pasted(finding.remedy), finding.remedy
    return list(diagnosis)


def can_be_pasted(remedy: str) -> bool:
    """A remedy that begins with a statement, or with a command, is nothing else up to a comment of SQL or of the shell."""
    if re.match("[A-Z]{4,} ", remedy):
        return remedy.partition(" -- ")[0].endswith(";")
    return not remedy.startswith(("howdah ", "pip ")) or not re.search(r"[,:;] | and ", remedy.partition("  # ")[0])


def codes(queue: JobQueue, **options: Any) -> list[str]:
    return [finding.code for finding in found(queue, **options)]


def only_finding(queue: JobQueue, code: str, **options: Any) -> Finding:
    """The one finding there is."""
    findings = found(queue, **options)
    assert [finding.code for finding in findings] == [code], findings
    return findings[0]


@contextlib.contextmanager
def system_setting(dsn: str, name: str, value: str) -> Iterator[None]:
    """What ALTER SYSTEM sets, for all sessions that begin inside of the block."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        before = _setting(dsn, name)
        conn.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
        conn.execute("SELECT pg_reload_conf()")
        until(lambda: _setting(dsn, name) != before, f"{name} is {value}")
        try:
            yield
        finally:
            conn.execute(sql.SQL("ALTER SYSTEM RESET {}").format(sql.Identifier(name)))
            conn.execute("SELECT pg_reload_conf()")
            until(lambda: _setting(dsn, name) == before, f"{name} is {before} again")


def _setting(dsn: str, name: str) -> str:
    with psycopg.connect(dsn) as conn:
        row = conn.execute("SELECT current_setting(%s)", (name,)).fetchone()
    assert row is not None
    return str(row[0])


def run_all(db: Db, statements: Sequence[str]) -> None:
    for statement in statements:
        db.execute(statement.encode())


def register(
    db: Db, name: str, *, types: Sequence[str] = ("work",), age: float = 0, up: float = 3_600, **columns: Any
) -> None:
    """A worker that began so many seconds ago, and whose last heartbeat is so old."""
    db.execute(
        "SELECT register_worker(%s, gen_random_uuid(), p_job_types => %s, p_host => 'web-1', p_pid => 4711,"
        " p_version => %s, p_capacity => 50)",
        (name, list(types), columns.get("version", "0.1.0")),
    )
    db.execute(
        "UPDATE workers SET heartbeat_at = heartbeat_at - make_interval(secs => %(age)s),"
        " started_at = started_at - make_interval(secs => %(up)s), registered_at = registered_at - make_interval(secs => %(up)s),"
        " loop_lag = make_interval(secs => %(loop_lag)s), leaked = %(leaked)s, running = %(running)s WHERE worker_id = %(name)s",
        {
            "age": age,
            "up": up,
            "loop_lag": columns.get("loop_lag", 0.001),
            "leaked": columns.get("leaked", 0),
            "running": columns.get("running", 0),
            "name": name,
        },
    )
