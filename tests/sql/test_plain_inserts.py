"""INSERT and COPY into jobs: many at once, one notification, and ids of the client's own."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.conftest import Connect, Db
from tests.sql import seed
from tests.sql.listening import heard, listener
from tests.sql.plain import change, insert, one, row_of, running, send, until_blocked


def sleeper(connect: Connect, *job_types: str) -> Db:
    conn = listener(connect)
    conn.execute("SELECT fall_asleep(%s)", (list(job_types),))
    return conn


def test_an_insert_of_fifty_thousand_jobs_in_one_statement_wakes_once(db: Db, connect: Connect) -> None:
    asleep = sleeper(connect, "x")
    assert change(db, "INSERT INTO jobs (job_type) SELECT 'x' FROM generate_series(1, 50000)") == 50_000
    assert len(heard(asleep, db)) == 1
    assert one(db, "SELECT count(DISTINCT id) AS jobs FROM jobs WHERE status = 'pending'") == {"jobs": 50_000}
    assert len(send(db, seed.CLAIM, "w", ["x"], 1000)) == 1000


MANY = 50_000
INSERT_MANY = f"INSERT INTO jobs (job_type) SELECT 'x' FROM generate_series(1, {MANY})"
INSERT_MANY_ENDED = f"INSERT INTO jobs (job_type, status) SELECT 'x', 'failed' FROM generate_series(1, {MANY})"


@pytest.mark.parametrize(
    "statements",
    [
        [INSERT_MANY, "UPDATE jobs SET status = 'cancelled'", "DELETE FROM jobs"],
        [INSERT_MANY, "UPDATE jobs SET status = 'claimed'", "UPDATE jobs SET status = 'completed'"],
        [INSERT_MANY_ENDED, "DELETE FROM jobs"],
    ],
    ids=["cancel", "complete", "ended"],
)
def test_statements_of_many_jobs_end_where_those_before_were_of_one(db: Db, statements: list[str]) -> None:
    """A plan that was made for one row is kept by the connection. With two loops in it, these would take minutes."""
    for _ in range(7):
        job_id = running(db)
        change(db, seed.COMPLETE, job_id)
        (other,) = insert(db)
        change(db, "UPDATE jobs SET status = 'cancelled' WHERE id = $1", other)
        change(db, "INSERT INTO jobs (job_type, status) VALUES ('x', 'failed')")
        change(db, "DELETE FROM jobs")
    db.execute("SET statement_timeout = '100s'")
    for statement in statements:
        assert change(db, statement) == MANY


def test_two_inserts_of_one_transaction_wake_once(db: Db, connect: Connect) -> None:
    asleep = sleeper(connect, "x")
    with db.transaction():
        insert(db, 3)
        insert(db, 3)
    assert len(heard(asleep, db)) == 1


def test_an_insert_of_ended_jobs_wakes_none(db: Db, connect: Connect) -> None:
    asleep = sleeper(connect, "x")
    send(db, "INSERT INTO jobs (job_type, status) VALUES ('x', 'completed'), ('x', 'running')")
    assert heard(asleep, db) == []


def test_copy_into_jobs_adds_jobs_with_the_defaults_and_wakes_once(db: Db, connect: Connect) -> None:
    asleep = sleeper(connect, "x")
    with db.cursor().copy("COPY jobs (job_type, data) FROM STDIN") as copy:
        for n in range(1000):
            copy.write_row(("x", f'{{"n": {n}}}'))
    assert len(heard(asleep, db)) == 1
    rows = send(db, "SELECT * FROM jobs")
    assert sorted(row["data"]["n"] for row in rows) == list(range(1000))
    assert {(row["status"], row["priority"], row["max_attempts"], row["attempts"]) for row in rows} == {
        ("pending", 100, 3, 0)
    }


def test_an_insert_that_is_rolled_back_leaves_nothing(db: Db) -> None:
    with db.transaction(), db.transaction(force_rollback=True):
        insert(db, 3)
    assert send(db, "SELECT * FROM jobs") == []


def test_what_is_inserted_can_be_changed_by_the_next_statement_of_the_transaction(db: Db) -> None:
    with db.transaction():
        job_id = running(db)
        assert change(db, seed.COMPLETE, job_id) == 1
        assert row_of(db, job_id)["status"] == "completed"


def test_an_id_twice_in_one_statement_is_refused(db: Db) -> None:
    job_id = uuid.uuid4()
    for status in ("pending", "completed"):
        with pytest.raises(psycopg.errors.UniqueViolation):
            send(db, "INSERT INTO jobs (id, job_type, status) VALUES ($1, 'x', $2), ($1, 'x', $2)", job_id, status)
        with pytest.raises(psycopg.errors.UniqueViolation):
            send(
                db, "INSERT INTO jobs (id, job_type, status) VALUES ($1, 'x', 'pending'), ($1, 'x', $2)", job_id, status
            )
    assert send(db, "SELECT FROM jobs") == []


@pytest.mark.parametrize("new", ["pending", "completed"])
@pytest.mark.parametrize("there", ["pending", "completed"])
@pytest.mark.parametrize("values", ["($1, 'x', $2), (NULL, 'x', $2)", "(NULL, 'x', $2), ($1, 'x', $2)"])
def test_an_id_that_exists_is_refused_beside_rows_without_an_id(db: Db, values: str, there: str, new: str) -> None:
    job_id = uuid.uuid4()
    change(db, "INSERT INTO jobs (id, job_type, status) VALUES ($1, 'x', $2)", job_id, there)
    with db.transaction():
        insert(db)
        with pytest.raises(psycopg.errors.UniqueViolation), db.transaction():
            send(db, f"INSERT INTO jobs (id, job_type, status) VALUES {values}", job_id, new)
        insert(db)
    assert len(send(db, "SELECT FROM jobs")) == 3


@pytest.mark.parametrize("status", ["pending", "completed"])
def test_of_two_inserts_of_one_id_at_the_same_time_one_is_refused(db: Db, connect: Connect, status: str) -> None:
    job_id = uuid.uuid4()
    insert_one = "INSERT INTO jobs (id, job_type, status) VALUES ($1, 'x', $2)"
    first, second = connect(), connect()
    with ThreadPoolExecutor(1) as pool:
        with first.transaction():
            assert change(first, insert_one, job_id, status) == 1
            waiting = pool.submit(change, second, insert_one, job_id, status)
            until_blocked(db, second)
        with pytest.raises(psycopg.errors.UniqueViolation):
            waiting.result()
    assert len(send(db, "SELECT FROM jobs WHERE id = $1", job_id)) == 1
