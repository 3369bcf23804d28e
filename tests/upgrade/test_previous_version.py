"""Migrations expand first and contract later: clients and workers of the version before continue to work on today's schema."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from howdah import JobQueue
from howdah.db.migrate import SCHEMA_VERSION
from tests.servers import Server
from tests.size import FULL
from tests.upgrade import previous

ACCEPTANCE = (
    (
        *("tests/client", "tests/sql/test_seed.py", "tests/worker/test_zombie.py", "tests/worker/test_outcomes.py"),
        # It installs a function of its own version.
        "--ignore=tests/client/test_prepared.py",
    )
    if FULL
    else ("tests/client/test_verbs.py", "tests/worker/test_outcomes.py")
)


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return previous.extract(tmp_path_factory.mktemp("former"))


@pytest.fixture
def empty_dsn(shared_server: Server) -> Iterator[str]:
    with psycopg.connect(shared_server.dsn, autocommit=True) as conn:
        conn.execute("CREATE DATABASE upgraded")
        yield make_conninfo(shared_server.dsn, dbname="upgraded")
        conn.execute("DROP DATABASE upgraded WITH (FORCE)")


def test_the_former_versions_tests_pass_on_todays_schema(former: Path, empty_dsn: str) -> None:
    with JobQueue(empty_dsn) as queue:
        queue.migrate()
    ran = previous.run_tests(former, empty_dsn, *ACCEPTANCE)
    assert ran.returncode == 0, ran.stdout[-5_000:] + ran.stderr[-2_000:]


def test_an_installation_of_the_former_version_ends_up_as_a_fresh_one(former: Path, empty_dsn: str) -> None:
    for words in (["migrate"], ["enqueue", "old", '{"n": 1}']):
        previous.run_command(former, empty_dsn, *words)
    with JobQueue(empty_dsn) as queue:
        assert queue.migrate().after == SCHEMA_VERSION
        assert queue.check_schema() == []
        assert [job.data for job in queue.claim(["old"])] == [{"n": 1}]
