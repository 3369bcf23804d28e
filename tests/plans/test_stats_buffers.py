"""The statistics read each live job and each key once, however many keys have limits of their own."""

from __future__ import annotations

from howdah.db.statements import read_statement
from tests.conftest import Connect, Db
from tests.plans.test_archive_buffers import measured
from tests.size import FULL

JOBS = 100_000 if FULL else 10_000
FEW = 100


def test_limits_cost_one_lookup_of_each_key(db: Db, connect: Connect) -> None:
    db.execute("SELECT set_limit(p_job_type => 'x', p_running => 3)")
    db.execute(
        "INSERT INTO live (id, job_type, priority, run_at, first_due_at, created_at, max_attempts, flow_key, line)"
        " SELECT new_id(), 'x', 100, now(), now(), now(), 3, n, 'ready' FROM generate_series(1, %s) AS n",
        (JOBS,),
    )
    db.execute(
        "INSERT INTO flow_keys (job_type, flow_key, max_running) SELECT 'x', n, 1 FROM generate_series(1, %s) AS n",
        (JOBS,),
    )
    row = db.execute(
        "SELECT (pg_relation_size('live') + pg_relation_size('flow_keys')) / current_setting('block_size')::int AS pages"
    ).fetchone()
    assert row is not None
    assert measured(connect, read_statement("howdah", "stats").decode()) <= row["pages"] + FEW
