"""A call with a unique rule touches a bounded number of pages, however many jobs and keys there are.

Scaled down unless HOWDAH_SCALE=full (`make scale`).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import Connect, Db
from tests.plans.test_claim_buffers import buffers_of_a_newcomer
from tests.size import FULL

EACH = 1_000_000 if FULL else 50_000
# A row of live, with its indexes, and one of uniques, are written; settings, types and segments are read.
MOST_BUFFERS = 400
CALLS = (
    "SELECT * FROM enqueue_unique('mine', ARRAY['{\"n\": -1}'::jsonb], '{\"by\": [\"n\"]}')",
    "SELECT * FROM enqueue_unique('mine', ARRAY['{\"n\": 7}'::jsonb], '{\"by\": \"key\"}', ARRAY['7'])",
    "SELECT * FROM enqueue_unique('mine', ARRAY['{\"n\": 7}'::jsonb], '{\"by\": \"key\", \"within\": 60}', ARRAY['8'])",
    "SELECT * FROM enqueue_unique('mine', ARRAY['{}'::jsonb], '{\"by\": \"key\", \"conflict\": \"replace\"}', ARRAY['9'])",
    "SELECT * FROM enqueue_unique('mine', ARRAY['{}'::jsonb], '{\"by\": \"key\", \"conflict\": \"reschedule\"}', ARRAY['10'])",
    "SELECT * FROM retry(ARRAY[$id])",
    "SELECT prune_uniques()",
)


@pytest.fixture
def crowded(db: Db) -> Iterator[Db]:
    db.execute("ALTER TABLE live SET (autovacuum_enabled = off)")
    for job_type, key in (("foreign", "NULL"), ("mine", "'key:' || n"), ("others", "'key:' || n")):
        db.execute(
            "INSERT INTO live (id, job_type, priority, run_at, first_due_at, created_at, max_attempts, unique_key)"
            f" SELECT new_id(), %s, 100, now(), now(), now(), 3, {key} FROM generate_series(1, %s) AS n".encode(),
            (job_type, EACH),
        )
    db.execute(
        "INSERT INTO uniques (job_type, key, job_id, states, until)"
        " SELECT job_type, unique_key, id, '{pending}', now() + interval '1 day' FROM live WHERE unique_key IS NOT NULL"
    )
    db.execute("SELECT cancel(ARRAY(SELECT id FROM live WHERE job_type = 'others' LIMIT 100))")
    yield db
    db.execute("TRUNCATE live, archive, archive_counts, uniques")
    db.execute("ALTER TABLE live RESET (autovacuum_enabled)")


def test_a_call_touches_a_bounded_number_of_buffers(crowded: Db, connect: Connect) -> None:
    # Looked up before: the archive may be full of dead rows of other tests.
    ended = [row["id"] for row in crowded.execute("SELECT id FROM archive_open LIMIT 2")]

    def buffers(number: int) -> list[int]:
        return [buffers_of_a_newcomer(connect(), call.replace("$id", f"'{ended[number]}'::uuid")) for call in CALLS]

    without_statistics = buffers(0)
    crowded.execute("ANALYZE live")
    crowded.execute("ANALYZE uniques")
    with_statistics = buffers(1)
    print(f"buffers, {EACH:,} each: without statistics {without_statistics}, with {with_statistics}")
    assert max(without_statistics) <= MOST_BUFFERS
    assert max(with_statistics) <= MOST_BUFFERS
