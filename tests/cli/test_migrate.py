from __future__ import annotations

import psycopg
import pytest

from howdah import JobQueue
from howdah.cli.commands.migrate import _description_of
from howdah.db.migrate import SCHEMA_VERSION, Migration
from tests.cli.runner import howdah, schema_of_its_own

PLAIN_JOBS = """
CREATE TABLE jobs (
    id UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    job_type VARCHAR(50) NOT NULL,
    priority INTEGER NOT NULL DEFAULT 100,
    status VARCHAR(20) NOT NULL DEFAULT 'pending',
    data JSONB NOT NULL DEFAULT '{}',
    progress INTEGER DEFAULT 0,
    current_stage VARCHAR(100),
    events_count INTEGER DEFAULT 0,
    worker_id VARCHAR(100),
    claimed_at TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    started_at TIMESTAMPTZ,
    completed_at TIMESTAMPTZ,
    attempts INTEGER DEFAULT 0,
    max_attempts INTEGER DEFAULT 3,
    last_error TEXT
)
"""


def test_it_installs_once_and_prints_it(dsn: str) -> None:
    with schema_of_its_own(dsn, "cli_install") as schema:
        missing = howdah("migrate", "--check", "--schema", schema, dsn=dsn)
        assert missing.code == 1
        assert "howdah migrate --schema cli_install" in missing.out
        first = howdah("migrate", "--schema", schema, dsn=dsn)
        assert (first.code, first.out) == (0, f"installed version {SCHEMA_VERSION} in schema {schema}\n")
        second = howdah("migrate", dsn=dsn, HOWDAH_SCHEMA=schema)
        assert "already up to date" in second.out
        assert howdah("migrate", "--check", "--schema", schema, dsn=dsn).code == 0


def test_json_has_what_was_done(dsn: str) -> None:
    with schema_of_its_own(dsn, "cli_install") as schema:
        (done,) = howdah("migrate", "--json", "--schema", schema, dsn=dsn).lines
        versions = {"before": 0, "after": SCHEMA_VERSION}
        assert done == {"schema": schema, **versions, "changed": True, "adopted": None, "dependents": [], "roles": []}
        (check,) = howdah("migrate", "--check", "--json", "--schema", schema, dsn=dsn).lines
        assert check == {"schema": schema, "good": True, "problem": None, "differences": []}


def test_check_names_what_is_different(dsn: str) -> None:
    with schema_of_its_own(dsn, "cli_install") as schema, psycopg.connect(dsn, autocommit=True) as conn:
        howdah("migrate", "--schema", schema, dsn=dsn)
        conn.execute("DROP FUNCTION cli_install.pause_type")
        outcome = howdah("migrate", "--check", "--schema", schema, dsn=dsn)
        assert outcome.code == 1
        assert "pause_type" in outcome.out
        assert "is missing" in outcome.out
        assert "difference" in outcome.out
        (as_json,) = howdah("migrate", "--check", "--json", "--schema", schema, dsn=dsn).lines
        assert as_json["good"] is False
        assert any("pause_type" in difference["name"] for difference in as_json["differences"])


def test_the_printed_sql_installs_the_same_schema(dsn: str) -> None:
    with schema_of_its_own(dsn, "cli_script") as schema, psycopg.connect(dsn, autocommit=True) as conn:
        printed = howdah("migrate", "--sql", "--schema", schema, HOWDAH_DSN="host=127.0.0.1 port=1")
        assert printed.code == 0
        conn.execute(printed.out.encode())
        assert howdah("migrate", "--check", "--schema", schema, dsn=dsn).code == 0
        assert "already up to date" in howdah("migrate", "--schema", schema, dsn=dsn).out
        assert howdah("enqueue", "x", "--schema", schema, dsn=dsn).code == 0


def test_a_plain_table_of_jobs_is_adopted_only_when_asked(dsn: str) -> None:
    with schema_of_its_own(dsn, "cli_adopt") as schema, psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("CREATE SCHEMA cli_adopt")
        conn.execute("SELECT set_config('search_path', 'cli_adopt', false)")
        conn.execute(PLAIN_JOBS.encode())
        conn.execute("INSERT INTO jobs (job_type) VALUES ('a'), ('b')")
        refused = howdah("migrate", "--schema", schema, dsn=dsn)
        assert refused.code == 3
        assert "--adopt" in refused.err
        adopted = howdah("migrate", "--adopt", "--schema", schema, dsn=dsn)
        assert adopted.code == 0
        assert "and adopted 2 jobs" in adopted.out
        with JobQueue(dsn, schema) as queue:
            assert {job.job_type for job in queue.list()} == {"a", "b"}


@pytest.mark.parametrize(
    ("before", "after", "adopted", "said"),
    [(1, 2, None, "from version 1 to 2"), (2, 2, None, "renewed the functions"), (0, 2, 1, "adopted 1 job")],
)
def test_each_kind_of_change_has_its_own_description(before: int, after: int, adopted: int | None, said: str) -> None:
    assert said in _description_of(Migration("howdah", before, after, changed=True, adopted=adopted))


@pytest.mark.parametrize(
    "argv",
    [["--sql", "--check"], ["--sql", "--reinstall"], ["--schema", "Nope!"], ["--sql", "--schema", "x; DROP TABLE y"]],
)
def test_a_wrong_call_exits_with_2(dsn: str, argv: list[str]) -> None:
    outcome = howdah("migrate", *argv, dsn=dsn)
    assert (outcome.code, outcome.out) == (2, "")
