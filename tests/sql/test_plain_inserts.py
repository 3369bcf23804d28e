"""INSERT and COPY into jobs: many at once, one notification, and ids of the client's own."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.conftest import Connect, Db
from tests.sql import seed
from tests.sql.listening import listener, received
from tests.sql.plain import change, insert, one, row_of, running, send, until_blocked


def sleeper(connect: Connect, *job_types: str) -> Db:
    conn = listener(connect)
    conn.execute("SELECT add_sleeper(%s)", (list(job_types),))
    return conn


def test_an_insert_of_fifty_thousand_jobs_in_one_statement_wakes_once(db: Db, connect: Connect) -> None:
    asleep = sleeper(connect, "x")
    assert change(db, "INSERT INTO jobs (job_type) SELECT 'x' FROM generate_series(1, 50000)") == 50_000
    assert len(received(asleep, db)) == 1
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
    """The connection keeps a plan that was made for one row. With nested loops, these statements would take minutes."""
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
    assert len(received(asleep, db)) == 1


def test_an_insert_of_ended_jobs_wakes_none(db: Db, connect: Connect) -> None:
    asleep = sleeper(connect, "x")
    send(db, "INSERT INTO jobs (job_type, status) VALUES ('x', 'completed'), ('x', 'running')")
    assert received(asleep, db) == []


def test_copy_into_jobs_adds_jobs_with_the_defaults_and_wakes_once(db: Db, connect: Connect) -> None:
    asleep = sleeper(connect, "x")
    with db.cursor().copy("COPY jobs (job_type, data) FROM STDIN") as copy:
        for n in range(1000):
            copy.write_row(("x", f'{{"n": {n}}}'))
    assert len(received(asleep, db)) == 1
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


# Ids of jobs that have ended


@pytest.mark.parametrize("isolation", [psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE])
def test_an_id_of_ones_own_is_refused_where_an_end_cannot_be_seen(
    db: Db, connect: Connect, isolation: psycopg.IsolationLevel
) -> None:
    job_id = running(db)
    strict = connect(autocommit=False)
    strict.commit()
    strict.isolation_level = isolation
    send(strict, "SELECT FROM jobs")
    change(db, seed.COMPLETE, job_id)
    with pytest.raises(psycopg.Error) as refused, strict.transaction():
        send(strict, "INSERT INTO jobs (id, job_type) VALUES ($1, 'x')", job_id)
    assert refused.value.sqlstate == "JQ001"
    insert(strict)
    strict.commit()
    assert len(send(db, "SELECT FROM jobs")) == 2


def own_trigger(db: Db, schema: str, moment: str, body: str) -> None:
    """A trigger of the client, dropped with its schema. Its name sorts after those of Howdah."""
    db.execute(
        f"CREATE FUNCTION {schema}.own() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$".encode(),
    )
    db.execute(
        f"CREATE TRIGGER zz_own {moment} ON jobs FOR EACH ROW WHEN (NEW.job_type = 'x')"
        f" EXECUTE FUNCTION {schema}.own()".encode()
    )


def test_an_ended_id_is_refused_though_a_trigger_inserts_another_job(db: Db, own_schema: str) -> None:
    job_id = running(db, "y")
    change(db, seed.COMPLETE, job_id)
    own_trigger(db, own_schema, "AFTER INSERT", "INSERT INTO jobs (job_type) VALUES ('z'); RETURN NULL;")
    with pytest.raises(psycopg.errors.UniqueViolation):
        send(db, "INSERT INTO jobs (id, job_type) VALUES ($1, 'x')", job_id)
    insert(db)
    assert [row["job_type"] for row in send(db, "SELECT job_type FROM jobs ORDER BY 1")] == ["x", "y", "z"]


def test_an_ended_id_is_refused_though_a_trigger_made_it(db: Db, own_schema: str) -> None:
    job_id = running(db, "y")
    change(db, seed.COMPLETE, job_id)
    own_trigger(db, own_schema, "BEFORE INSERT", f"NEW.id := '{job_id}'; RETURN NEW;")
    with pytest.raises(psycopg.errors.UniqueViolation):
        insert(db)
    assert len(send(db, "SELECT FROM jobs")) == 1


@pytest.mark.parametrize("version", ["that of Howdah", "random"])
def test_an_ended_id_is_refused_though_a_trigger_made_it_where_its_end_cannot_be_seen(
    db: Db, connect: Connect, own_schema: str, version: str
) -> None:
    job_id = uuid.uuid4()
    if version == "random":
        change(db, "INSERT INTO jobs (id, job_type, status) VALUES ($1, 'y', 'running')", job_id)
    else:
        job_id = running(db, "y")
    own_trigger(db, own_schema, "BEFORE INSERT", f"NEW.id := '{job_id}'; RETURN NEW;")
    strict = connect(autocommit=False)
    strict.commit()
    strict.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    send(strict, "SELECT FROM jobs")
    change(db, seed.COMPLETE, job_id)
    with pytest.raises(psycopg.Error) as refused, strict.transaction():
        insert(strict)
    assert refused.value.sqlstate == "JQ001"
    insert(strict, job_type="z")
    strict.commit()
    assert len(send(db, "SELECT FROM jobs")) == 2


# What is written to a job from inside of its own INSERT


WRITES = {
    "UPDATE jobs SET priority = 7 WHERE id = p_id": {"priority": 7, "status": "pending"},
    "UPDATE jobs SET status = 'claimed', worker_id = 'w', attempts = 1 WHERE id = p_id": {
        "status": "claimed",
        "worker_id": "w",
        "attempts": 1,
    },
    "UPDATE jobs SET status = 'completed', progress = 100 WHERE id = p_id": {"status": "completed", "progress": 100},
    "DELETE FROM jobs WHERE id = p_id": None,
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("by", ["RETURNING", "a trigger"])
def test_what_is_written_to_a_job_by_its_own_insert_is_kept(db: Db, own_schema: str, by: str, write: str) -> None:
    db.execute(
        f"CREATE FUNCTION {own_schema}.write(p_id uuid) RETURNS uuid LANGUAGE plpgsql"
        f" AS $$ BEGIN {write}; RETURN p_id; END $$".encode()
    )
    if by == "RETURNING":
        call = f"{own_schema}.write(id)"
    else:
        call = "id"
        own_trigger(db, own_schema, "AFTER INSERT", f"PERFORM {own_schema}.write(NEW.id); RETURN NULL;")
    rows = send(db, f"INSERT INTO jobs (job_type) SELECT 'x' FROM generate_series(1, 2) RETURNING {call} AS id")
    expected = WRITES[write]
    if expected is None:
        assert send(db, "SELECT FROM jobs") == []
        return
    for row in rows:
        found = row_of(db, row["id"])
        assert {column: found[column] for column in expected} == expected
    assert len(send(db, "SELECT FROM jobs")) == 2
