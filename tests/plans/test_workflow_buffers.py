"""To watch a workflow, and to list those that run, reads no more where there are many that have ended, with many jobs.

Scaled down unless HOWDAH_SCALE=full (`make scale`).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from howdah.db.statements import render, source
from tests.conftest import Connect, Db
from tests.plans.test_claim_buffers import buffers
from tests.size import FULL

EACH = 200_000 if FULL else 5_000
MOST_BUFFERS = 100
TABLES = ("workflows", "workflow_nodes", "workflow_spawned", "workflow_counts")


@pytest.fixture
def crowded(db: Db) -> Iterator[Db]:
    """With the statistics of a queue that had no workflows."""
    for table in TABLES:
        db.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
        db.execute(f"VACUUM (ANALYZE) {table}".encode())
    db.execute(
        "INSERT INTO workflows (id, name, status, created_at, started_at, finished_at, expires_at)"
        f" SELECT new_id(), 'w', 'completed', now(), now(), now(), now() FROM generate_series(1, {EACH})".encode()
    )
    db.execute(
        "INSERT INTO workflow_nodes (workflow_id, node, name, kind, state, job_type, first_id, jobs)"
        " SELECT id, 1, 'a', 'group', 'ended', 'a', first_member_id(), 10 FROM workflows"
    )
    db.execute("INSERT INTO workflow_spawned SELECT workflow_id, 1, first_member_id(), 5, first_id FROM workflow_nodes")
    db.execute("INSERT INTO workflow_counts SELECT id, 0, n FROM workflows, generate_series(0, 3) AS n")
    db.execute(
        "INSERT INTO workflows (id, name, created_at, started_at, expires_at) VALUES ('00000000-0000-7000-8000-000000000001',"
        " 'early', now(), now(), now() + interval '1 day')"
    )
    yield db
    for table in reversed(TABLES):
        db.execute(f"TRUNCATE {table}".encode())
        db.execute(f"ALTER TABLE {table} RESET (autovacuum_enabled)".encode())


def shown(read: str, /, **values: str) -> str:
    statement = render(source(f"reads/{read}"), "howdah")
    for key, value in values.items():
        statement = statement.replace(f"%({key})s", value)
    return statement


def test_the_workflow_of_a_job_is_found_by_its_id(crowded: Db, connect: Connect) -> None:
    ids = {
        "of a node": "SELECT member_id(first_id, 9) AS id, workflow_id FROM workflow_nodes LIMIT 1",
        "behind a node": "SELECT member_id(first_id, 10) AS id, NULL::uuid AS workflow_id FROM workflow_nodes LIMIT 1",
        "spawned": "SELECT member_id(first_id, 4) AS id, workflow_id FROM workflow_spawned OFFSET 100 LIMIT 1",
        "behind what was spawned": "SELECT member_id(first_id, 5) AS id, NULL::uuid AS workflow_id FROM workflow_spawned LIMIT 1",
        "of none": "SELECT new_id() AS id, NULL::uuid AS workflow_id",
    }
    for name, statement in ids.items():
        (row,) = crowded.execute(statement).fetchall()
        (found,) = crowded.execute("SELECT workflow_of(%s) AS workflow_id", (row["id"],)).fetchall()
        assert found["workflow_id"] == row["workflow_id"], name
        assert buffers(crowded, f"SELECT workflow_of('{row['id']}')") <= MOST_BUFFERS, name


def test_the_workflows_that_run_are_found_among_those_that_have_ended(crowded: Db) -> None:
    # A statement of its own is planned by the statistics of now, as autovacuum keeps them.
    crowded.execute("ANALYZE workflows")
    running = shown("running_workflows", name="NULL", before="NULL", limit="20")
    assert [row["name"] for row in crowded.execute(running.encode()).fetchall()] == ["early"]
    assert buffers(crowded, running) <= MOST_BUFFERS


def test_a_watch_reads_the_counts_of_its_workflow_alone(crowded: Db) -> None:
    (row,) = crowded.execute("SELECT id FROM workflows ORDER BY id DESC LIMIT 1").fetchall()
    for name in ("watched_workflows", "workflows_by_id"):
        assert buffers(crowded, shown(name, ids=f"ARRAY['{row['id']}']")) <= MOST_BUFFERS, name
