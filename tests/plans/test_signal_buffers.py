"""Jobs that wait for signals are not walked: neither by claims and the sweep, nor by signals and waits of others.

Scaled down unless HOWDAH_SCALE=full (`make scale`).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import Connect, Db
from tests.plans.test_claim_buffers import buffers as buffers_of
from tests.size import FULL

EACH = 1_000_000 if FULL else 30_000
# An attempt that ends writes a row of live with its indexes, and one of steps, and of the channel.
MOST_BUFFERS = 400
TABLES = ("live", "steps", "signals", "signal_channels")
CALLS = (
    "SELECT * FROM signal('go', '1', '7')",
    "SELECT * FROM signal('go', '1', 'none')",
    "SELECT * FROM signal('all but none')",
    "SELECT * FROM wait_signal($id, 1, 'signal:go#1', 'go', 'mine')",
    "SELECT * FROM wait_signal($id, 1, 'signal:kept:k#1', 'kept', 'k')",
    "SELECT * FROM sleep_until($id, 1, 'sleep#1', p_delay => '1 day')",
    "SELECT * FROM record_step($id, 1, 'a', '1')",
    "SELECT * FROM steps_of($id)",
    "SELECT * FROM reschedule(ARRAY[$id])",
    "SELECT * FROM claim('w', '{order,other}', 1, 1)",
    "SELECT * FROM next_due('{order,other}')",
    "SELECT * FROM recover()",
)


@pytest.fixture
def crowded(db: Db) -> Iterator[Db]:
    """With the statistics of a drained queue, whose tables were empty."""
    for table in TABLES:
        db.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
    crowd(db)
    for table in TABLES:
        db.execute(f"DELETE FROM {table}".encode())
        db.execute(f"VACUUM (ANALYZE, TRUNCATE off) {table}".encode())
    crowd(db)
    yield db
    db.execute("TRUNCATE live, steps, signals, signal_channels, archive, archive_counts")
    for table in TABLES:
        db.execute(f"ALTER TABLE {table} RESET (autovacuum_enabled)".encode())


def crowd(db: Db) -> None:
    columns = "(id, job_type, priority, run_at, first_due_at, created_at, max_attempts, has_steps"
    db.execute(
        f"INSERT INTO live {columns}) SELECT new_id(), 'order', 100, 'infinity', now(), now(), 3, true"
        f" FROM generate_series(1, {EACH})".encode()
    )
    db.execute(
        "INSERT INTO steps (job_id, name, kind, state, attempt, token, begun_at, signal, key)"
        " SELECT id, 'signal:go#1', 'signal', 'waiting', 1, 0, now(), 'go', row_number() OVER () FROM live"
    )
    db.execute("INSERT INTO signal_channels SELECT signal, key, now() FROM steps")
    db.execute(
        f"INSERT INTO signals (signal, key, kept_at) SELECT 'kept', 'k', now() FROM generate_series(1, {EACH})".encode()
    )
    db.execute("INSERT INTO signal_channels VALUES ('kept', 'k', now())")
    db.execute(
        f"INSERT INTO live {columns}, status, worker_id, token) SELECT new_id(), 'other', 100, now(), now(), now(), 3,"
        " NULL, 'running', 'w', 1".encode()
    )


def undone(db: Db, statement: str) -> int:
    """The second call is measured: the first one also reads the catalogues. Neither changes anything."""
    measured = 0
    for _ in range(2):
        with db.transaction(force_rollback=True):
            measured = buffers_of(db, statement)
    return measured


def test_a_call_touches_a_bounded_number_of_buffers(crowded: Db, connect: Connect) -> None:
    held = crowded.execute("SELECT id FROM live WHERE status = 'running'").fetchone()
    assert held is not None

    def buffers() -> list[int]:
        return [undone(connect(), call.replace("$id", f"'{held['id']}'::uuid")) for call in CALLS]

    of_before = buffers()
    for table in TABLES:
        crowded.execute(f"ANALYZE {table}".encode())
    of_now = buffers()
    print(f"buffers, {EACH:,} that wait: with statistics of before {of_before}, of now {of_now}")
    assert max(of_before) <= MOST_BUFFERS
    assert max(of_now) <= MOST_BUFFERS
