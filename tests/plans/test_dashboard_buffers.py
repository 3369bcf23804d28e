"""The dashboard reads a large queue without reading all of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest

from howdah import JobQueue
from howdah.db.statements import read_statement
from howdah.web.filters import filter_of
from howdah.web.plans import WINDOW
from tests.conftest import Db

JOBS = 20_000
ANYWHERE = {"node": None, "first_id": None}
SETTINGS = ("plan_cache_mode", "force_custom_plan"), ("enable_seqscan", "off"), ("jit", "off")


@pytest.fixture
def large(queue: JobQueue, db: Db) -> Iterator[Db]:
    """As many live jobs as ended ones, most of them completed."""
    for job_type in ("mail", "report"):
        queue.enqueue_many(job_type, ({"user": n} for n in range(JOBS // 2)))
    db.execute(
        "INSERT INTO archive_open (id, job_type, priority, status, data, progress, events_count, created_at, attempts, max_attempts, token,"
        " finished_at, run_at, first_due_at, crashes, interruptions)"
        " SELECT new_id(), 'mail', 100, CASE WHEN n %% 50 = 0 THEN 'failed' ELSE 'completed' END, '{}', 100, 0, now(), 1, 3, n, now(), now(), now(), 0, 0"
        " FROM generate_series(1, %s) AS n",
        (JOBS,),
    )
    db.execute("VACUUM ANALYZE live, archive_open")
    yield db
    db.execute("TRUNCATE live, archive, archive_counts, events")


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def buffers(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


def explained(db: Db, statement: bytes, arguments: dict[str, Any]) -> dict[str, Any]:
    with db.transaction():
        for name, value in SETTINGS:
            db.execute("SELECT set_config(%s, %s, true)", (name, value))
        (row,) = db.execute(b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement, arguments).fetchall()
    found: dict[str, Any] = row["QUERY PLAN"][0]["Plan"]
    return found


@pytest.mark.parametrize("status", ["", "pending", "failed", "completed", "cancelled"])
def test_a_page_of_jobs_reads_about_as_many_as_it_shows(large: Db, status: str) -> None:
    wanted = filter_of([("status", status)])
    arguments = wanted.arguments(datetime.now(timezone.utc))
    plan = explained(
        large,
        read_statement("howdah", "web/jobs"),
        {**arguments, **ANYWHERE, "before": None, "window": WINDOW, "limit": 51},
    )
    scans = [node for node in nodes(plan) if node["Node Type"] == "Seq Scan" and node["Actual Rows"]]
    assert scans == []
    assert buffers(plan) < 600


@pytest.mark.parametrize("status", ["pending", "completed"])
def test_the_jobs_of_a_page_are_found_by_their_ids(large: Db, status: str) -> None:
    rows = large.execute("SELECT id FROM job_details WHERE status = %s ORDER BY id DESC LIMIT 50", (status,)).fetchall()
    plan = explained(large, read_statement("howdah", "web/brief"), {"ids": [row["id"] for row in rows]})
    assert plan["Actual Rows"] == 50
    assert buffers(plan) < 600


def test_a_filter_without_an_index_reads_one_window(large: Db) -> None:
    wanted = filter_of([("error", "nothing has this")])
    arguments = wanted.arguments(datetime.now(timezone.utc))
    plan = explained(
        large,
        read_statement("howdah", "web/jobs"),
        {**arguments, **ANYWHERE, "before": None, "window": WINDOW, "limit": 51},
    )
    assert max(node["Actual Rows"] for node in nodes(plan)) <= WINDOW


def test_counting_does_not_read_the_backlog(large: Db) -> None:
    # The first call of a session also reads the catalogues.
    _, plan = (explained(large, b"SELECT * FROM howdah.live_counts(p_cap => 100)", {}) for _ in range(2))
    assert buffers(plan) < 150


def test_counting_many_types_reads_a_few_jobs_of_each(queue: JobQueue, db: Db) -> None:
    for n in range(400):
        queue.enqueue_many(f"type {n}", range(100))
    db.execute("VACUUM ANALYZE live")
    _, plan = (explained(db, b"SELECT * FROM howdah.live_counts()", {}) for _ in range(2))
    assert buffers(plan) < 30_000
    assert db.execute("SELECT count(*) AS types, bool_or(exact) AS exact FROM live_counts()").fetchone() == {
        "types": 400,
        "exact": False,
    }
    db.execute("TRUNCATE live, archive, archive_counts, events")


def test_a_search_for_workflows_counts_the_jobs_of_those_that_it_shows(db: Db) -> None:
    db.execute(
        "INSERT INTO workflows (id, name, created_at, expires_at) SELECT new_id(), 'import', now(), now() FROM generate_series(1, 3000)"
    )
    db.execute(
        "INSERT INTO workflow_counts (workflow_id, node, stripe, remaining) SELECT w.id, 0, s, 1 FROM workflows AS w, generate_series(0, 3) AS s"
    )
    db.execute("VACUUM ANALYZE workflows, workflow_counts")
    statement = read_statement("howdah", "web/workflows")
    place = {"status": None, "before": None, "window": WINDOW, "limit": 51}
    assert buffers(explained(db, statement, {"name": "other", **place})) < 300
    assert buffers(explained(db, statement, {"name": "import", **place})) < 600
    db.execute("TRUNCATE workflows, workflow_counts")


def test_the_jobs_of_an_old_node_are_found_without_those_that_came_later(large: Db, queue: JobQueue) -> None:
    with queue.workflow("import") as flow:
        flow.add("parse", name="parse")
    (node,) = large.execute("SELECT first_id FROM workflow_nodes WHERE node = 1").fetchall()
    queue.enqueue_many("mail", range(JOBS // 2))
    arguments = filter_of([("workflow", str(flow.id)), ("node", "parse")]).arguments(datetime.now(timezone.utc))
    its = {"node": 1, "first_id": node["first_id"], "before": uuid.UUID(int=node["first_id"].int + 1)}
    plan = explained(large, read_statement("howdah", "web/jobs"), {**arguments, **its, "window": WINDOW, "limit": 51})
    assert plan["Actual Rows"] == 1
    assert buffers(plan) < 200
    large.execute("TRUNCATE workflows, workflow_nodes, workflow_edges, workflow_counts")


def test_signals_that_very_many_jobs_wait_for_are_counted_up_to_a_bound(queue: JobQueue, db: Db) -> None:
    queue.enqueue_many("buy", range(JOBS))
    db.execute(
        "INSERT INTO steps (job_id, name, kind, state, attempt, token, begun_at, signal, key)"
        " SELECT j.id, 'signal:paid#1', 'signal', 'waiting', 1, j.token, now(), 'paid', '' FROM live AS j"
    )
    db.execute("INSERT INTO signal_channels (signal, key, used_at) VALUES ('paid', '', now())")
    _, plan = (explained(db, b"SELECT * FROM howdah.signal_counts()", {}) for _ in range(2))
    assert buffers(plan) < 2_000
    assert db.execute("SELECT waiting, exact FROM signal_counts()").fetchall() == [{"waiting": 200, "exact": False}]
    db.execute("TRUNCATE steps, signal_channels, live, archive, archive_counts, events")
