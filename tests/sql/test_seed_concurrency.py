"""Plain SQL clients and Howdah's own functions on the same jobs at the same time."""

from __future__ import annotations

import random
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import psycopg
import pytest

from tests.conftest import Connect, Db
from tests.size import FULL
from tests.sql import seed
from tests.sql.plain import change, one, run_connected, run_together, send

JOBS = 20_000 if FULL else 4_000
TYPES = ["a", "b", "c"]
COMPLETE_ALL = "SELECT FROM complete($1::uuid[], $2::bigint[])"
FAIL_ALL = "SELECT FROM fail($1::uuid[], $2::bigint[], array_fill('boom'::text, ARRAY[cardinality($1)]))"


@pytest.fixture
def finals(db: Db) -> Iterator[Callable[[], Counter[uuid.UUID]]]:
    """Count final transitions with a trigger of the test."""
    db.execute("CREATE TABLE final_transitions (id uuid, status text)")
    db.execute(
        "CREATE FUNCTION note_final() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO howdah.final_transitions VALUES (NEW.id, NEW.status); RETURN NULL; END $$"
    )
    db.execute("CREATE TRIGGER note_final AFTER INSERT ON archive_open FOR EACH ROW EXECUTE FUNCTION note_final()")
    yield lambda: Counter(row["id"] for row in db.execute("SELECT id FROM final_transitions"))
    db.execute("DROP TRIGGER note_final ON archive_open")
    db.execute("DROP FUNCTION note_final")
    db.execute("DROP TABLE final_transitions")


def fill(db: Db, jobs: int) -> None:
    for job_type in TYPES:
        db.execute(
            "SELECT enqueue_many(%s, array_fill('{}'::jsonb, ARRAY[%s::int]), p_max_attempts => 1000,"
            ' p_retry_policy => \'{"kind": "none"}\')',
            (job_type, jobs // len(TYPES) + 1),
        )


def test_seed_clients_and_howdah_live_together(
    db: Db, connect: Connect, finals: Callable[[], Counter[uuid.UUID]]
) -> None:
    fill(db, JOBS)
    all_ids = {row["id"] for row in db.execute("SELECT id FROM live")}
    drained = threading.Event()

    def nothing_live(conn: Db) -> bool:
        return not send(conn, "SELECT id FROM live LIMIT 1")

    def seed_worker(conn: Db, name: str) -> None:
        rng = random.Random(name)
        while not drained.is_set():
            for job in send(conn, seed.CLAIM, name, TYPES, 50):
                if rng.random() < 0.1:
                    send(conn, seed.FAIL, job["id"], f"{name} failed")
                else:
                    send(conn, seed.COMPLETE, job["id"])

    def howdah_worker(conn: Db) -> None:
        rng = random.Random(1)
        while not drained.is_set():
            held = send(conn, "SELECT id, token FROM claim('howdah', $1, 100, 50)", TYPES)
            failing = [job for job in held if rng.random() < 0.1]
            in_batches(conn, COMPLETE_ALL, [job for job in held if job not in failing])
            in_batches(conn, FAIL_ALL, failing)

    def impatient_operator(conn: Db) -> None:
        rng = random.Random(2)
        while not drained.is_set() and not nothing_live(conn):
            send(conn, seed.RECOVER_STALE_JOBS, f"{rng.choice([0, 1, 5, 20])} milliseconds")
            send(conn, "SELECT recover_stale_jobs($1)", "10 milliseconds")
            send(conn, "SELECT * FROM recover()")
        drained.set()

    # The end of a test must not wait for a loop whose counterpart has failed.
    def guarded(loop: Callable[..., None], *arguments: Any) -> Callable[[], None]:
        def run() -> None:
            try:
                loop(connect(), *arguments)
            except BaseException:
                drained.set()
                raise

        return run

    run_together(
        guarded(seed_worker, "go-1"), guarded(seed_worker, "go-2"), guarded(howdah_worker), guarded(impatient_operator)
    )
    counts = finals()
    assert counts.keys() == all_ids, "every job ends"
    assert set(counts.values()) == {1}, "and ends once"
    statuses = {row["status"] for row in db.execute("SELECT DISTINCT status FROM jobs")}
    assert statuses == {"completed"}


def in_batches(conn: Db, call: str, jobs: list[dict[str, Any]]) -> None:
    """As a worker of Howdah does: jobs that a plain client has locked are skipped, and tried again at once."""

    def write(some: list[dict[str, Any]]) -> None:
        send(conn, call, [job["id"] for job in some], [job["token"] for job in some])

    while jobs:
        try:
            with conn.transaction():
                conn.execute("SET LOCAL lock_timeout = '100ms'")
                write(jobs)
            return
        except psycopg.errors.LockNotAvailable:
            with conn.transaction():
                locked = one(conn, "SELECT skip_locked($1) AS ids", [job["id"] for job in jobs])["ids"]
                write([job for job in jobs if job["id"] not in locked])
            jobs = [job for job in jobs if job["id"] in locked]


@pytest.mark.parametrize("two_statements", [False, True], ids=["one statement", "select, then update"])
def test_a_client_with_its_own_skip_locked_loop_gets_no_job_twice(
    db: Db, connect: Connect, two_statements: bool
) -> None:
    fill(db, 1_050)
    total = len(db.execute("SELECT id FROM live").fetchall())
    got: list[uuid.UUID] = []

    def in_one(conn: Db, name: str) -> list[uuid.UUID]:
        return [row["id"] for row in send(conn, seed.OWN_CLAIM, name, TYPES, 10)]

    def in_two(conn: Db, name: str) -> list[uuid.UUID]:
        with conn.transaction():
            ids = [row["id"] for row in send(conn, seed.SELECT_FOR_UPDATE, TYPES, 10)]
            change(
                conn, "UPDATE jobs SET status = 'claimed', worker_id = $1, claimed_at = NOW(), attempts = attempts + 1"
                " WHERE id = ANY($2)", name, ids,
            )  # fmt: skip
            # It relies on its SELECT, and ignores the row count of the UPDATE.
            return ids

    def loop(conn: Db, name: str) -> None:
        while conn.execute("SELECT FROM live WHERE status = 'pending' LIMIT 1").fetchone() is not None:
            got.extend((in_two if two_statements else in_one)(conn, name))

    run_connected(connect, *(partial(loop, name=f"client-{n}") for n in range(4)))
    assert len(got) == total
    assert len(set(got)) == total
