"""Migrations expand first and contract later: clients and workers of the version before go on working on today's schema."""

from __future__ import annotations

from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from howdah import JobQueue
from tests.servers import Server
from tests.upgrade import previous
from tests.worker.processes import FULL

ACCEPTANCE = (
    ("tests/client", "tests/sql/test_seed.py", "tests/worker/test_zombie.py", "tests/worker/test_outcomes.py")
    if FULL
    else ("tests/client/test_verbs.py", "tests/worker/test_outcomes.py")
)


def test_the_former_versions_tests_pass_on_todays_schema(shared_server: Server, tmp_path: Path) -> None:
    with psycopg.connect(shared_server.dsn, autocommit=True) as conn:
        conn.execute("CREATE DATABASE upgraded")
    dsn = make_conninfo(shared_server.dsn, dbname="upgraded")
    with JobQueue(dsn) as queue:
        queue.migrate()
    ran = previous.run_tests(previous.extract(tmp_path), dsn, *ACCEPTANCE)
    assert ran.returncode == 0, ran.stdout[-5_000:] + ran.stderr[-2_000:]
