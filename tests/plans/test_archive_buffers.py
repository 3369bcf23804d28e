"""An ended job is found by its id, and the newest ones by their order, however many segments the archive has.

Scaled down unless HOWDAH_SCALE=full (`make scale`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from howdah.db.statements import read_statement
from tests.conftest import Connect, Db
from tests.plans.test_claim_buffers import buffers
from tests.size import FULL

EACH = 1_000_000 if FULL else 50_000
# As many as there can be: sixteen that are closed, and the open one.
SEGMENTS = 17
# Each of them is looked into, by three pages of an index or so.
FEW = 80
# The same again for what is done with the job: events, notes, counts.
A_CHANGE = 2 * FEW
# A page of fifty, from the segments' indexes, merged.
A_PAGE = 250


@pytest.fixture
def crowded(db: Db) -> Iterator[Db]:
    """So many jobs that have ended, one in ten of them failed, in all segments."""
    for segment in range(SEGMENTS):
        if segment:
            db.execute("SELECT rotate('0')")
        db.execute(
            "INSERT INTO archive_open (id, token, finished_at, run_at, first_due_at, created_at, priority, attempts, max_attempts,"
            " crashes, interruptions, progress, events_count, job_type, status, data)"
            " SELECT new_id(), 1, now(), now(), now(), now(), 100, 1, 3, 0, 0, 100, 0, 'mine',"
            "     CASE n %% 10 WHEN 0 THEN 'failed' ELSE 'completed' END, '{}'"
            " FROM generate_series(1, %s) AS n",
            (EACH // SEGMENTS,),
        )
    db.execute("SELECT bound_segments()")
    assert db.execute("SELECT count(*) AS n FROM segments").fetchone() == {"n": SEGMENTS}
    yield db
    db.execute("TRUNCATE live, archive, archive_counts, events")
    db.execute("SELECT prune('0')")


@pytest.fixture(params=["without statistics", "with statistics"])
def known(request: pytest.FixtureRequest, crowded: Db) -> Db:
    if request.param == "with statistics":
        crowded.execute("ANALYZE")
    return crowded


def some(db: Db) -> list[str]:
    """Of the first segment, of one in the middle, and of the last; and one that is nowhere."""
    rows = db.execute("SELECT min(id::text) AS id FROM archive GROUP BY tableoid ORDER BY 1").fetchall()
    return [rows[0]["id"], rows[SEGMENTS // 2]["id"], rows[-1]["id"], "00000000-0000-7000-8000-000000000000"]


def test_an_ended_job_is_found_by_its_id(known: Db, connect: Connect) -> None:
    get = read_statement("howdah", "get").decode()
    for job_id in some(known):
        for statement, most in (
            (get % {"id": f"'{job_id}'"}, FEW),
            (f"SELECT * FROM jobs WHERE id = '{job_id}'", FEW),
            (f"UPDATE jobs SET status = 'completed' WHERE id = '{job_id}' AND status = 'running'", FEW),
            (f"SELECT * FROM enqueue('mine', p_id => '{job_id}')", A_CHANGE),
            (f"SELECT * FROM retry(ARRAY['{job_id}']::uuid[])", A_CHANGE),
        ):
            found = measured(connect, statement)
            assert found <= most, statement


def test_the_newest_ended_jobs_are_found_by_their_order(crowded: Db, connect: Connect) -> None:
    crowded.execute("ANALYZE")
    filters = dict.fromkeys(
        ("before", "statuses", "job_types", "flow_key", "least_priority", "most_priority", "since", "until", "data"),
        "NULL",
    )
    page = {**filters, "stalled": "false", "window": "50", "limit": "50", "whole": "true", "most_bytes": "33554432"}
    middle = f"'{some(crowded)[1]}'"
    listed = read_statement("howdah", "list").decode()
    for more in ({}, {"before": middle}, {"statuses": "'{failed}'"}, {"statuses": "'{failed}'", "before": middle}):
        assert measured(connect, listed % {**page, **more}) <= A_PAGE, more


def test_the_archive_is_left_out_where_live_jobs_are_asked_for(crowded: Db) -> None:
    for statement in (
        "SELECT id FROM jobs WHERE status = 'pending' ORDER BY priority DESC, created_at LIMIT 5 FOR UPDATE SKIP LOCKED",
        "UPDATE jobs SET status = 'pending' WHERE status IN ('claimed', 'running') AND attempts < max_attempts",
        "SELECT * FROM claimable ORDER BY priority DESC LIMIT 5",
    ):
        plan = str(crowded.execute(f"EXPLAIN {statement}".encode()).fetchall())
        assert " on live " in plan
        assert " on archive" not in plan, statement


def measured(connect: Connect, statement: str) -> int:
    conn: Any = connect(autocommit=False)
    # Undone, so that the second call goes the same way as the first, whose plans it has.
    with conn.transaction(force_rollback=True):
        conn.execute(statement.encode())
    found = buffers(conn, statement)
    conn.rollback()
    print(f"{found:,} buffers: {' '.join(statement.split())[:160]}")
    return found
