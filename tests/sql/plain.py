"""What the tests of plain SQL clients share: statements with $1 in them, jobs in each state, threads, and waiting for a lock."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from psycopg import RawCursor
from psycopg.rows import dict_row

from howdah import Job, JobQueue
from tests.conftest import Connect, Db

PATIENCE = 120.0

CLAIM_BY_ID = """
UPDATE jobs
SET status = 'claimed', worker_id = $1, claimed_at = NOW(), attempts = attempts + 1
WHERE id = $2"""


def send(conn: Db, statement: str, *arguments: Any) -> list[dict[str, Any]]:
    """Send a statement as a Go or JavaScript client does, with $1 and $2 in it, and return its rows."""
    cursor = RawCursor(conn, row_factory=dict_row)
    cursor.execute(statement.encode(), arguments)
    # A SELECT of no column has rows, and an empty description.
    return cursor.fetchall() if cursor.description is not None else []


def change(conn: Db, statement: str, *arguments: Any) -> int:
    """Send a statement that writes, and return its row count."""
    return RawCursor(conn).execute(statement.encode(), arguments).rowcount


def one(conn: Db, statement: str, *arguments: Any) -> dict[str, Any]:
    (row,) = send(conn, statement, *arguments)
    return row


def run_together(*loops: Callable[[], None]) -> None:
    """Run each in a thread of its own; the first error fails the test."""
    with ThreadPoolExecutor(len(loops)) as pool:
        for future in [pool.submit(loop) for loop in loops]:
            future.result()


def run_connected(connect: Connect, *loops: Callable[[Db], None]) -> None:
    """The same, each with a connection of its own."""
    run_together(*(partial(loop, connect()) for loop in loops))


def until_blocked(db: Db, conn: Db) -> None:
    """Return when the statement of another connection waits for a lock."""
    deadline = time.monotonic() + PATIENCE
    while not is_blocked(db, conn):
        assert time.monotonic() < deadline, "it did not wait for a lock"
        time.sleep(0.005)


def is_blocked(db: Db, conn: Db) -> bool:
    query = "SELECT FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
    return db.execute(query, (conn.info.backend_pid,)).fetchone() is not None


def insert(db: Db, count: int = 1, job_type: str = "x") -> list[uuid.UUID]:
    rows = send(db, "INSERT INTO jobs (job_type) SELECT $1 FROM generate_series(1, $2) RETURNING id", job_type, count)
    return [row["id"] for row in rows]


def row_of(db: Db, job_id: uuid.UUID) -> dict[str, Any]:
    return one(db, "SELECT * FROM jobs WHERE id = $1", job_id)


def details_of(db: Db, job_id: uuid.UUID) -> dict[str, Any]:
    return one(db, "SELECT * FROM job_details WHERE id = $1", job_id)


def claimed(db: Db, job_type: str = "x", worker: str = "w") -> uuid.UUID:
    """A job that was inserted and claimed by plain statements."""
    (job_id,) = insert(db, job_type=job_type)
    assert change(db, CLAIM_BY_ID, worker, job_id) == 1
    return job_id


def running(db: Db, job_type: str = "x", worker: str = "w") -> uuid.UUID:
    job_id = claimed(db, job_type, worker)
    assert change(db, "UPDATE jobs SET status = 'running', started_at = NOW() WHERE id = $1", job_id) == 1
    return job_id


def register(db: Db, worker: str) -> None:
    db.execute("SELECT register_worker(%s, gen_random_uuid())", (worker,))


def running_under(db: Db, queue: JobQueue, worker: str, **options: Any) -> Job[Any]:
    """A job that runs under a registered worker, whose heartbeat is fresh until the clock moves."""
    register(db, worker)
    queue.enqueue("x", **options)
    (held,) = queue.claim(["x"], worker_id=worker)
    queue.start(held)
    return held


MADE = {"pending": lambda db: insert(db)[0], "claimed": claimed, "running": running}


def loop_over(conn: Db, relation: str, most: int = 50) -> list[uuid.UUID]:
    """A client with two statements that takes one job at a time, until there is none or the limit is reached."""
    got: list[uuid.UUID] = []
    for _ in range(most):
        with conn.transaction():
            rows = send(conn, f"SELECT id FROM {relation} WHERE status = 'pending'"
                        " ORDER BY priority DESC, created_at LIMIT 1 FOR UPDATE SKIP LOCKED")  # fmt: skip
            if not rows:
                return got
            if change(conn, CLAIM_BY_ID, "loop", rows[0]["id"]):
                got.append(rows[0]["id"])
    return got
