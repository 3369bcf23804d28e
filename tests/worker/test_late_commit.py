"""Jobs that are committed late are behind the cursors of all workers: they are found, take their place, and drain like others."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import psycopg
import pytest

from howdah import JobQueue
from tests.size import FULL
from tests.worker.processes import Fleet, until

LATE = 1_000_000 if FULL else 10_000
AHEAD = 500_000 if FULL else 60_000
MOST_BLOCKS = 250
"""Of the live table and its indexes, touched for one job from its claim to its end. A few dozen are usual."""

_TOUCHED = """
    SELECT heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read AS blocks
    FROM pg_statio_all_tables WHERE relid = 'howdah.live'::regclass
"""
_CLAIMS = """
    SELECT min(claimed_at) FILTER (WHERE (data ->> 'late')::boolean) AS first_late,
        max(claimed_at) FILTER (WHERE (data ->> 'late')::boolean) AS last_late,
        max(claimed_at) FILTER (WHERE NOT (data ->> 'late')::boolean) AS last_ahead,
        count(*) AS jobs, count(DISTINCT id) AS ids, max(attempts) AS attempts, min(status) AS status
    FROM howdah.archive
"""


@pytest.mark.timeout(3_600 if FULL else 300)
def test_jobs_behind_every_cursor_are_found_and_drain_like_others(dsn: str, queue: JobQueue, tmp_path: Path) -> None:
    with Fleet(dsn, tmp_path, "handlers_many") as fleet, psycopg.connect(dsn) as late:
        queue.enqueue_many("nothing", ({"late": True} for _ in range(LATE)), conn=late)
        queue.enqueue_many("nothing", ({"late": False} for _ in range(AHEAD)))
        workers = fleet.start_all("one", "two")
        until(lambda: done(fleet) > AHEAD // 10, "the cursors are far ahead")
        late.commit()
        committed_at: datetime = fleet.rows("SELECT clock_timestamp() AS now")[0]["now"]
        done_before, touched_before = done(fleet), touched(fleet)
        until(lambda: done(fleet) == LATE + AHEAD, "all are done")
        assert [worker.stop() for worker in workers] == [0, 0]
        until(lambda: backends(fleet) == 0, "the last of their statistics have arrived")

        claims = fleet.rows(_CLAIMS)[0]
        assert (claims["jobs"], claims["ids"], claims["attempts"], claims["status"]) == (
            LATE + AHEAD,
            LATE + AHEAD,
            1,
            "completed",
        )
        assert claims["last_late"] < claims["last_ahead"], "they are older, and need not wait for what came after them"
        blocks = (touched(fleet) - touched_before) / (LATE + AHEAD - done_before)
        late_rate = LATE / (claims["last_late"] - committed_at).total_seconds()
        rate = (LATE + AHEAD - done_before) / (claims["last_ahead"] - committed_at).total_seconds()
        print(
            f"found after {(claims['first_late'] - committed_at).total_seconds():.2f} s, {blocks:.0f} blocks for each job"
        )
        print(f"the late ones at {late_rate:,.0f} jobs/s, all together at {rate:,.0f} jobs/s")
        assert blocks < MOST_BLOCKS


def done(fleet: Fleet) -> int:
    return int(fleet.rows("SELECT coalesce(sum(jobs), 0) AS jobs FROM howdah.archive_counts")[0]["jobs"])


def backends(fleet: Fleet) -> int:
    names = "SELECT FROM pg_stat_activity WHERE application_name = ANY (%s)"
    return len(fleet.rows(names, [worker.name for worker in fleet.workers]))


def touched(fleet: Fleet) -> int:
    return int(fleet.rows(_TOUCHED)[0]["blocks"])
