"""A bound on the jobs that wait costs a few pages for each call, however many wait and however many dead entries the index has.

Scaled down unless HOWDAH_SCALE=full (`make scale`).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import Connect, Db
from tests.plans.test_claim_buffers import buffers, buffers_of_a_newcomer
from tests.size import FULL

EACH = 1_000_000 if FULL else 20_000
# The row of the type, the stored count and the sequence.
MORE_BUFFERS = 40
TYPES = ("free", "bound")


@pytest.fixture
def crowded(db: Db) -> Iterator[Db]:
    db.execute("ALTER TABLE live SET (autovacuum_enabled = off)")
    for job_type in TYPES:
        add(db, job_type)
    yield db
    db.execute("TRUNCATE live, archive, archive_counts, backlog_counts")
    db.execute("ALTER TABLE live RESET (autovacuum_enabled)")


def add(db: Db, job_type: str) -> None:
    db.execute(
        "INSERT INTO live (id, job_type, priority, run_at, first_due_at, created_at, max_attempts)"
        " SELECT new_id(), %s, 100 + n %% 2, clock_timestamp(), now(), now(), 3 FROM generate_series(1, %s) AS n",
        (job_type, EACH),
    )


def let_the_count_serve(db: Db, seconds: int = 3600) -> None:
    db.execute(
        "UPDATE backlog_counts SET counted_at = clock_timestamp(), took = %s * interval '1 second', full_took = interval '1 hour'",
        (seconds,),
    )


@pytest.mark.parametrize(("room", "when_full"), [(1_000, "raise"), (0, "drop_oldest")])
def test_a_call_reads_the_stored_count(crowded: Db, connect: Connect, room: int, when_full: str) -> None:
    crowded.execute("SELECT set_max_pending('bound', %s, %s)", (EACH + room, when_full))
    crowded.execute("SELECT has_room('bound')")
    let_the_count_serve(crowded)
    free, bound = (buffers_of_a_newcomer(connect(), f"SELECT enqueue('{job_type}')") for job_type in TYPES)
    print(f"buffers of enqueue, {EACH:,} wait: {free} without a bound, {bound} with one and room for {room:,}")
    # A dropped job is found, locked and moved to the archive.
    assert bound - free <= MORE_BUFFERS + (0 if room else 160)


def test_a_count_passes_no_dead_entries_twice(crowded: Db, connect: Connect) -> None:
    old = connect(autocommit=False)
    old.rollback()
    old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    old.execute("SELECT FROM howdah.live LIMIT 1")
    crowded.execute("DELETE FROM live WHERE job_type = 'bound'")
    crowded.execute("SELECT set_max_pending('bound', 5000)")
    crowded.execute("SELECT enqueue_many('bound', array_fill('{}'::jsonb, ARRAY[100]))")
    count = "SELECT has_room('bound')"
    crowded.execute("DELETE FROM backlog_counts")
    full = buffers(crowded, count)
    crowded.execute(count.encode())
    let_the_count_serve(crowded)
    crowded.execute("UPDATE backlog_counts SET counted_at = counted_at - interval '2 seconds'")
    next_one = buffers(crowded, count)
    old.rollback()
    print(f"buffers of a count of 100 jobs, {EACH:,} dead: {full}, and the next one {next_one}")
    assert next_one < full / 3
