"""The dashboard reads a large queue without reading all of it."""

from __future__ import annotations

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
