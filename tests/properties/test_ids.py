"""A job whose id its caller has chosen is added once, whatever the id says of its own time."""

from __future__ import annotations

import time
import uuid
from datetime import timedelta

import psycopg
from hypothesis import example, given, settings
from hypothesis import strategies as st

from howdah import JobQueue

DAY = 86_400_000
SPANS = st.integers(-60_000, 60_000) | st.integers(-20_000 * DAY, 20_000 * DAY)


def version_7(milliseconds: int, rest: int) -> uuid.UUID:
    """Of a moment, so many milliseconds from now."""
    moment = min(max(time.time_ns() // 1_000_000 + milliseconds, 0), 2**48 - 1)
    return uuid.UUID(int=moment << 80 | 7 << 76 | (rest >> 62 & 0xFFF) << 64 | 2 << 62 | rest & (1 << 62) - 1)


IDS = st.one_of(
    st.uuids(version=4),
    st.uuids(),
    st.builds(version_7, SPANS, st.integers(0, 2**74 - 1)),
    st.sampled_from([uuid.UUID(int=0), uuid.UUID(int=2**128 - 1)]),
)


def test_a_callers_id_is_one_job_until_it_is_pruned(queue: JobQueue, dsn: str) -> None:
    @settings(max_examples=60)
    @given(job_id=IDS, rotates=st.booleans())
    @example(job_id=version_7(2 * DAY, 1), rotates=True)
    @example(job_id=version_7(-2 * DAY, 2), rotates=True)
    def once(job_id: uuid.UUID, rotates: bool) -> None:
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("DELETE FROM howdah.live")
            conn.execute("DELETE FROM howdah.archive")
            assert queue.enqueue("a", id=job_id).created
            assert not queue.enqueue("a", id=job_id).created
            assert not queue.enqueue("b", id=job_id).created
            (job,) = queue.claim(["a"], 10)
            assert job.id == job_id
            assert not queue.enqueue("a", id=job_id).created
            queue.complete(job)
            if rotates:
                conn.execute("SELECT howdah.rotate('0')")
            again = queue.enqueue("a", id=job_id)
            assert (again.created, again.status) == (False, "completed")
            assert conn.execute("SELECT count(*) FROM howdah.jobs").fetchone() == (1,)
            queue.prune(keep=timedelta(days=1))

    once()
