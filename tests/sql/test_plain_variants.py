"""The statements of the seed in other forms: in functions, by ORMs, from other languages.

A plain table of the seed is the oracle: the same statement must give the same answer, and leave the same row.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import uuid
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from django.db import transaction  # type: ignore[import-untyped]
from django.db.models import F  # type: ignore[import-untyped]
from psycopg import sql
from sqlalchemy.orm import Session

from howdah import JobQueue
from tests.conftest import Connect, Db
from tests.sql import seed
from tests.sql.plain import CLAIM_BY_ID, change, one, run_connected, send
from tests.sql.plain_forms import COMPLETE, FAIL, FORMS, RECOVER
from tests.sql.plain_orm import AlchemyJob, DjangoJob, alchemy, django_database


@pytest.fixture
def plain_table(connect: Connect, own_schema: str) -> Db:
    """A connection to the seed's own table, on which nothing of Howdah is."""
    conn = connect()
    conn.execute("SELECT set_config('search_path', %s, false)", (own_schema,))
    conn.execute(seed.CREATE_TABLE.encode())
    return conn


def on(conn: Db, before: list[str], act: Callable[[Db, uuid.UUID], int]) -> tuple[int, dict[str, Any]]:
    """What a statement answers on the only job, after the statements before it; and the row that it leaves."""
    conn.execute("DELETE FROM jobs")
    job_id = one(conn, "INSERT INTO jobs (job_type) VALUES ('x') RETURNING id")["id"]
    for statement in before:
        assert change(conn, statement, job_id) == 1
    answer = act(conn, job_id)
    row = one(conn, "SELECT * FROM jobs WHERE id = $1", job_id)
    # Random, or dependent on the time.
    for name in ("id", "created_at", "claimed_at", "started_at", "completed_at"):
        row[name] = row[name] is not None
    return answer, row


CLAIMED = (
    "UPDATE jobs SET status = 'claimed', worker_id = 'w', claimed_at = NOW(), attempts = attempts + 1 WHERE id = $1"
)
STARTED = "UPDATE jobs SET status = 'running', started_at = NOW() WHERE id = $1"
REPORTED = "UPDATE jobs SET progress = 40, current_stage = 'half', events_count = events_count + 1 WHERE id = $1"
ONE_ATTEMPT = "UPDATE jobs SET max_attempts = 1 WHERE id = $1"
FAILED = seed.FAIL.replace("$2", "'before'")
HELD = {
    "claimed": [CLAIMED],
    "running": [CLAIMED, STARTED, REPORTED],
    "on its second attempt": [CLAIMED, STARTED, FAILED, CLAIMED, STARTED],
}
ON_ITS_LAST_ATTEMPT = [ONE_ATTEMPT, CLAIMED, STARTED]


@pytest.mark.parametrize("form", FORMS)
def test_a_complete_has_the_answer_of_a_plain_table(db: Db, plain_table: Db, form: str) -> None:
    for before in HELD.values():
        assert_same(db, plain_table, before, lambda conn, job_id: FORMS[form](conn, COMPLETE, job_id))


@pytest.mark.parametrize("form", FORMS)
def test_a_fail_has_the_answer_of_a_plain_table(db: Db, plain_table: Db, form: str) -> None:
    for before in (*HELD.values(), ON_ITS_LAST_ATTEMPT):
        assert_same(db, plain_table, before, lambda conn, job_id: FORMS[form](conn, FAIL, job_id, "boom"))


@pytest.mark.parametrize("form", FORMS)
def test_a_recovery_has_the_answer_of_a_plain_table(db: Db, plain_table: Db, form: str) -> None:
    for before in (*HELD.values(), ON_ITS_LAST_ATTEMPT, []):
        assert_same(db, plain_table, before, lambda conn, _: FORMS[form](conn, RECOVER, "-1 hour"))
        assert_same(db, plain_table, before, lambda conn, _: FORMS[form](conn, RECOVER, "1 hour"))


def assert_same(db: Db, plain_table: Db, before: list[str], act: Callable[[Db, uuid.UUID], int]) -> None:
    assert on(db, before, act) == on(plain_table, before, act), before


# Other ways to insert


def by_values(conn: Db, dsn: str) -> None:
    send(conn, "INSERT INTO jobs (job_type, data) VALUES ($1, $2), ($1, $2)", "x", '{"a": 1}')


def by_a_function(conn: Db, dsn: str) -> None:
    conn.execute(
        "CREATE OR REPLACE FUNCTION pg_temp.add(text, jsonb) RETURNS SETOF uuid LANGUAGE sql"
        " AS 'INSERT INTO jobs (job_type, data) VALUES ($1, $2), ($1, $2) RETURNING id'"
    )
    assert len(send(conn, "SELECT pg_temp.add('x', '{\"a\": 1}')")) == 2


def by_a_do_block(conn: Db, dsn: str) -> None:
    conn.execute("""
        DO $$ BEGIN
            FOR i IN 1..2 LOOP
                EXECUTE 'INSERT INTO jobs (job_type, data) VALUES ($1, $2)' USING 'x', '{"a": 1}'::jsonb;
            END LOOP;
        END $$""")


def by_a_trigger(conn: Db, dsn: str) -> None:
    """The job of an order is added in the order's own transaction."""
    conn.execute("CREATE TEMP TABLE orders (a int)")
    conn.execute("""
        CREATE FUNCTION pg_temp.add_job() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN INSERT INTO jobs (job_type, data) VALUES ('x', to_jsonb(NEW)); RETURN NULL; END $$""")
    conn.execute("CREATE TRIGGER t AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION pg_temp.add_job()")
    conn.execute("INSERT INTO orders VALUES (1), (1)")
    conn.execute("DROP TABLE orders")


def through_a_view(conn: Db, dsn: str) -> None:
    conn.execute("CREATE TEMP VIEW own_jobs AS SELECT * FROM jobs")
    conn.execute("INSERT INTO own_jobs (job_type, data) VALUES ('x', '{\"a\": 1}'), ('x', '{\"a\": 1}')")
    conn.execute("DROP VIEW own_jobs")


def by_merge(conn: Db, dsn: str) -> None:
    statement = (
        "MERGE INTO jobs AS j USING (SELECT $1::uuid AS id UNION SELECT $2) AS new ON j.id = new.id"
        " WHEN MATCHED THEN UPDATE SET data = '{\"a\": 1}'"
        " WHEN NOT MATCHED THEN INSERT (id, job_type, data) VALUES (new.id, 'x', '{}')"
    )
    ids = uuid.uuid4(), uuid.uuid4()
    assert change(conn, statement, *ids) == 2
    assert change(conn, statement, *ids) == 2, "the same again finds them"


def by_copy(conn: Db, dsn: str) -> None:
    with conn.cursor().copy("COPY jobs (job_type, data) FROM STDIN") as copy:
        for _ in range(2):
            copy.write_row(("x", '{"a": 1}'))


def by_alchemy_core(conn: Db, dsn: str) -> None:
    with alchemy(dsn) as engine, engine.begin() as connection:
        connection.execute(sa.insert(AlchemyJob), [{"job_type": "x", "data": {"a": 1}}] * 2)


def by_alchemy_objects(conn: Db, dsn: str) -> None:
    with alchemy(dsn) as engine, Session(engine) as session:
        jobs = [AlchemyJob(job_type="x", data={"a": 1}) for _ in range(2)]
        session.add_all(jobs)
        session.commit()
        assert {job.priority for job in jobs} == {100}
        assert len({job.id for job in jobs}) == 2


def by_django_create(conn: Db, dsn: str) -> None:
    with django_database(dsn) as alias:
        for _ in range(2):
            job = DjangoJob.objects.using(alias).create(job_type="x", data={"a": 1})
            job.refresh_from_db()
            assert job.created_at is not None


def by_django_bulk_create(conn: Db, dsn: str) -> None:
    with django_database(dsn) as alias:
        DjangoJob.objects.using(alias).bulk_create([DjangoJob(job_type="x", data={"a": 1}) for _ in range(2)])


INSERTS = [
    by_values, by_a_function, by_a_do_block, by_a_trigger, through_a_view, by_merge, by_copy, by_alchemy_core,
    by_alchemy_objects, by_django_create, by_django_bulk_create,
]  # fmt: skip


@pytest.mark.parametrize("add", INSERTS, ids=lambda add: add.__name__)
def test_jobs_can_be_inserted_in_any_way_and_are_run_by_howdah(
    dsn: str, db: Db, queue: JobQueue, add: Callable[[Db, str], None]
) -> None:
    add(db, dsn)
    jobs = queue.claim(["x"], batch_size=10)
    assert [(job.data, job.priority, job.max_attempts, job.attempts) for job in jobs] == [({"a": 1}, 100, 3, 1)] * 2
    for job in jobs:
        queue.complete(job)
    assert queue.stats()["x"].completed == 2


# Other ways to claim. Each takes a few jobs, and returns the ids that it got.

Claim = Callable[[Db, str, str], list[uuid.UUID]]


def in_one_statement(conn: Db, dsn: str, name: str) -> list[uuid.UUID]:
    return [row["id"] for row in send(conn, seed.OWN_CLAIM, name, ["x"], 3)]


def in_two_statements(conn: Db, dsn: str, name: str) -> list[uuid.UUID]:
    with conn.transaction():
        ids = [row["id"] for row in send(conn, seed.SELECT_FOR_UPDATE, ["x"], 3)]
        statement = CLAIM_BY_ID.replace("id = $2", "id = ANY($2)")
        assert change(conn, statement, name, ids) == len(ids)
    return ids


def by_update_where_id_is_a_sub_select(conn: Db, dsn: str, name: str) -> list[uuid.UUID]:
    statement = CLAIM_BY_ID.replace(
        "id = $2",
        "id = (SELECT id FROM jobs WHERE status = 'pending' ORDER BY priority DESC, created_at LIMIT 1"
        " FOR UPDATE SKIP LOCKED) RETURNING id",
    )
    return [row["id"] for row in send(conn, statement, name)]


def by_a_row_number_of_the_table(conn: Db, dsn: str, name: str) -> list[uuid.UUID]:
    statement = CLAIM_BY_ID.replace(
        "id = $2",
        "ctid = ANY (ARRAY(SELECT ctid FROM jobs WHERE status = 'pending' LIMIT 3 FOR UPDATE SKIP LOCKED))"
        " AND status = 'pending' RETURNING id",
    )
    return [row["id"] for row in send(conn, statement, name)]


def by_compare_and_set(conn: Db, dsn: str, name: str) -> list[uuid.UUID]:
    due = send(conn, "SELECT id, attempts FROM jobs WHERE status = $1 LIMIT 3", "pending")
    statement = f"{CLAIM_BY_ID} AND status = $3 AND attempts = $4"
    return [row["id"] for row in due if change(conn, statement, name, row["id"], "pending", row["attempts"])]


def by_a_loop_in_a_function(conn: Db, dsn: str, name: str) -> list[uuid.UUID]:
    conn.execute("""
        CREATE OR REPLACE FUNCTION pg_temp.grab_pending(p_worker text) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
        DECLARE
            v_job jobs;
        BEGIN
            FOR v_job IN SELECT * FROM jobs WHERE status = 'pending' ORDER BY priority DESC, created_at LIMIT 3
                FOR UPDATE SKIP LOCKED
            LOOP
                UPDATE jobs SET status = 'claimed', worker_id = p_worker, claimed_at = now(), attempts = attempts + 1
                WHERE id = v_job.id;
                RETURN NEXT v_job.id;
            END LOOP;
        END $$""")
    return [row["grab_pending"] for row in send(conn, "SELECT pg_temp.grab_pending($1)", name)]


def by_a_cursor(conn: Db, dsn: str, name: str) -> list[uuid.UUID]:
    got = []
    with conn.transaction():
        send(conn, "DECLARE due CURSOR FOR SELECT id FROM jobs WHERE status = 'pending' FOR UPDATE SKIP LOCKED")
        for _ in range(3):
            for row in send(conn, "FETCH due"):
                assert change(conn, CLAIM_BY_ID.replace("id = $2", "CURRENT OF due"), name) == 1
                got.append(row["id"])
    return got


def by_claimable(conn: Db, dsn: str, name: str) -> list[uuid.UUID]:
    with conn.transaction():
        due = send(
            conn, "SELECT id FROM claimable WHERE job_type = $1 ORDER BY priority DESC, created_at LIMIT 3"
            " FOR UPDATE SKIP LOCKED", "x",
        )  # fmt: skip
        ids = [row["id"] for row in due]
        assert change(conn, CLAIM_BY_ID.replace("id = $2", "id = ANY($2)"), name, ids) == len(ids)
    return ids


def by_alchemy(conn: Db, dsn: str, name: str) -> list[uuid.UUID]:
    due = (
        sa.select(AlchemyJob)
        .where(AlchemyJob.status == "pending")
        .order_by(AlchemyJob.priority.desc(), AlchemyJob.created_at)
        .limit(3)
        .with_for_update(skip_locked=True)
    )
    with alchemy(dsn) as engine, Session(engine) as session, session.begin():
        jobs = session.scalars(due).all()
        for job in jobs:
            job.status, job.worker_id, job.claimed_at = "claimed", name, datetime.now(timezone.utc)
            job.attempts += 1
        return [job.id for job in jobs]


def by_django(conn: Db, dsn: str, name: str) -> list[uuid.UUID]:
    with django_database(dsn) as alias, transaction.atomic(using=alias):
        due = DjangoJob.objects.using(alias).select_for_update(skip_locked=True).filter(status="pending")
        jobs = list(due.order_by("-priority", "created_at")[:3])
        for job in jobs:
            job.status, job.worker_id, job.claimed_at = "claimed", name, datetime.now(timezone.utc)
            job.attempts += 1
            job.save()
        return [job.id for job in jobs]


def by_django_compare_and_set(conn: Db, dsn: str, name: str) -> list[uuid.UUID]:
    with django_database(dsn) as alias:
        jobs = DjangoJob.objects.using(alias).filter(status="pending")
        return [
            job.id
            for job in jobs[:3]
            if jobs.filter(pk=job.pk).update(
                status="claimed", worker_id=name, claimed_at=datetime.now(timezone.utc), attempts=F("attempts") + 1
            )
        ]


def by_the_function_of_the_seed(conn: Db, dsn: str, name: str) -> list[uuid.UUID]:
    return [row["id"] for row in send(conn, seed.CLAIM, name, ["x"], 3)]


CLAIMS: list[Claim] = [
    in_one_statement, in_two_statements, by_update_where_id_is_a_sub_select, by_a_row_number_of_the_table,
    by_compare_and_set, by_a_loop_in_a_function, by_a_cursor, by_claimable, by_alchemy, by_django,
    by_django_compare_and_set, by_the_function_of_the_seed,
]  # fmt: skip


def claim_all(conn: Db, dsn: str, claim: Claim, name: str, got: list[uuid.UUID]) -> None:
    while send(conn, "SELECT FROM jobs WHERE status = 'pending' LIMIT 1"):
        got.extend(claim(conn, dsn, name))


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.__name__)
def test_clients_of_one_kind_get_each_job_once(dsn: str, db: Db, connect: Connect, claim: Claim) -> None:
    send(db, "INSERT INTO jobs (job_type) SELECT 'x' FROM generate_series(1, 60)")
    # Ended jobs, where a live one might be.
    send(db, "INSERT INTO jobs (job_type, status) SELECT 'x', 'completed' FROM generate_series(1, 60)")
    got: list[uuid.UUID] = []
    run_connected(connect, *(partial(claim_all, dsn=dsn, claim=claim, name=f"client-{n}", got=got) for n in range(3)))
    assert len(got) == len(set(got)) == 60
    held = send(db, "SELECT worker_id, attempts FROM jobs WHERE status = 'claimed'")
    assert len(held) == 60
    assert {row["attempts"] for row in held} == {1}


def test_clients_of_all_kinds_at_once_get_each_job_once(dsn: str, db: Db, connect: Connect) -> None:
    send(db, "INSERT INTO jobs (job_type) SELECT 'x' FROM generate_series(1, 400)")
    got: list[uuid.UUID] = []
    run_connected(
        connect,
        *(partial(claim_all, dsn=dsn, claim=claim, name=claim.__name__, got=got) for claim in CLAIMS),
    )
    assert len(got) == len(set(got)) == 400


# From insert to end, by ORMs and from Ruby


def test_the_life_of_a_job_by_sqlalchemy(dsn: str, db: Db, queue: JobQueue) -> None:
    with alchemy(dsn) as engine, Session(engine, expire_on_commit=False) as session:
        job = AlchemyJob(job_type="x", data={"a": 1})
        session.add(job)
        session.commit()
        for attempt in (1, 2):
            job = session.scalars(
                sa.select(AlchemyJob).where(AlchemyJob.status == "pending").limit(1).with_for_update(skip_locked=True)
            ).one()
            job.status, job.worker_id, job.attempts = "claimed", "w", AlchemyJob.attempts + 1
            session.commit()
            job.status, job.started_at = "running", datetime.now(timezone.utc)
            session.commit()
            job.progress, job.current_stage = 50 * attempt, "half"
            session.commit()
            if attempt == 1:
                job.status, job.last_error, job.worker_id, job.claimed_at = "pending", "boom", None, None
                session.commit()
        job.status, job.completed_at = "completed", datetime.now(timezone.utc)
        session.commit()
        session.refresh(job)
        assert (job.status, job.attempts, job.progress, job.last_error) == ("completed", 2, 100, "boom")
    assert [error.error for error in queue.get(job.id).errors] == ["boom"]
    with alchemy(dsn) as engine, Session(engine) as session:
        session.delete(session.get_one(AlchemyJob, job.id))
        session.commit()
    assert send(db, "SELECT FROM jobs") == []


def test_the_life_of_a_job_by_django(dsn: str, db: Db, queue: JobQueue) -> None:
    with django_database(dsn) as alias:
        jobs = DjangoJob.objects.using(alias)
        jobs.create(job_type="x", data={"a": 1})
        for attempt in (1, 2):
            with transaction.atomic(using=alias):
                job = jobs.select_for_update(skip_locked=True).filter(status="pending").first()
                assert job is not None
                job.status, job.worker_id, job.attempts = "claimed", "w", job.attempts + 1
                job.save()
            job.status, job.started_at = "running", datetime.now(timezone.utc)
            job.save()
            job.progress, job.current_stage = 50 * attempt, "half"
            job.save(update_fields=["progress", "current_stage"])
            assert jobs.filter(pk=job.pk).update(events_count=F("events_count") + 1) == 1
            job.refresh_from_db()
            if attempt == 1:
                job.status, job.last_error, job.worker_id, job.claimed_at = "pending", "boom", None, None
                job.save()
        job.status, job.completed_at = "completed", datetime.now(timezone.utc)
        job.save()
        job.refresh_from_db()
        assert (job.status, job.attempts, job.progress, job.events_count) == ("completed", 2, 100, 2)
        assert [error.error for error in queue.get(job.id).errors] == ["boom"]
        assert jobs.values_list("status").get() == ("completed",)
        job.delete()
    assert send(db, "SELECT FROM jobs") == []


RUBY = """
conn = PG.connect(ARGV[0])
conn.exec("SET search_path TO howdah")
conn.type_map_for_results = PG::BasicTypeMapForResults.new(conn)
said = {"notices" => [], "changed" => []}
conn.set_notice_processor { |notice| said["notices"] << notice }
conn.exec_params("INSERT INTO jobs (job_type, data) VALUES ($1, $2)", ["x", '{"a": 1}'])
conn.prepare("fail", "UPDATE jobs SET status = CASE WHEN attempts >= max_attempts THEN 'failed' ELSE 'pending' END, " \
  "last_error = $2, worker_id = NULL, claimed_at = NULL WHERE id = $1")
claim = lambda do
  conn.transaction do
    found = conn.exec_params("SELECT id FROM jobs WHERE status = $1 ORDER BY priority DESC, created_at LIMIT 1 " \
      "FOR UPDATE SKIP LOCKED", ["pending"])
    id = found[0]["id"]
    said["changed"] << conn.exec_params("UPDATE jobs SET status = $1, worker_id = $2, claimed_at = NOW(), " \
      "attempts = attempts + 1 WHERE id = $3 AND status = $4", ["claimed", "ruby", id, "pending"]).cmd_tuples
    id
  end
end
2.times do
  id = claim.call
  said["changed"] << conn.exec_prepared("fail", [id, "the same"]).cmd_tuples
end
id = claim.call
said["changed"] << conn.exec_params("UPDATE jobs SET status = 'running', started_at = NOW() WHERE id = $1", [id]).cmd_tuples
said["done"] = conn.exec_params("UPDATE jobs SET status = 'completed', progress = 100, completed_at = NOW() " \
  "WHERE id = $1 RETURNING status, progress, attempts, worker_id", [id])[0]
said["changed"] << conn.exec_params("UPDATE jobs SET progress = 1 WHERE id = $1", [id]).cmd_tuples
puts JSON.generate(said)
"""


def test_the_life_of_a_job_from_ruby(dsn: str, db: Db, queue: JobQueue) -> None:
    ruby = shutil.which("ruby")
    if ruby is None or subprocess.run([ruby, "-rpg", "-e", ""], capture_output=True).returncode:
        pytest.skip("Ruby with its gem pg is not installed here (Debian: apt-get install ruby-pg)")
    result = subprocess.run([ruby, "-rpg", "-rjson", "-e", RUBY, dsn], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == {
        "notices": [],
        "changed": [1, 1, 1, 1, 1, 1, 0],
        "done": {"status": "completed", "progress": 100, "attempts": 3, "worker_id": "ruby"},
    }
    (row,) = send(db, "SELECT id, status FROM jobs")
    assert [error.error for error in queue.get(row["id"]).errors] == ["the same"] * 2


# What else is done with a table


def test_jobs_that_end_can_be_copied_to_a_history_by_the_statement_that_ends_them(db: Db, own_schema: str) -> None:
    db.execute(sql.SQL("CREATE TABLE {}.history AS SELECT * FROM jobs").format(sql.Identifier(own_schema)))
    job_id = one(db, "INSERT INTO jobs (job_type) VALUES ('x') RETURNING id")["id"]
    change(db, CLAIM_BY_ID, "w", job_id)
    end = seed.COMPLETE + " RETURNING *"
    assert change(db, f"WITH done AS ({end}) INSERT INTO {own_schema}.history SELECT * FROM done", job_id) == 1
    assert send(db, f"SELECT * FROM {own_schema}.history") == send(db, "SELECT * FROM jobs")


def test_ended_jobs_can_be_moved_to_a_history_by_a_delete(db: Db, queue: JobQueue, own_schema: str) -> None:
    db.execute(sql.SQL("CREATE TABLE {}.history AS SELECT * FROM jobs").format(sql.Identifier(own_schema)))
    send(
        db,
        "INSERT INTO jobs (job_type, status) SELECT 'x', s FROM unnest(ARRAY['pending', 'completed', 'failed']) AS s",
    )
    ended = send(db, "SELECT * FROM jobs WHERE status <> 'pending' ORDER BY id")
    move = (
        "WITH gone AS (DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE status IN ('completed', 'failed')"
        f" LIMIT 1000) RETURNING *) INSERT INTO {own_schema}.history SELECT * FROM gone"
    )
    assert change(db, move) == 2
    assert send(db, f"SELECT * FROM {own_schema}.history ORDER BY id") == ended
    assert [row["status"] for row in send(db, "SELECT status FROM jobs")] == ["pending"]
    assert (queue.stats()["x"].completed, queue.stats()["x"].failed) == (0, 0)


def test_ended_jobs_can_be_deleted_and_inserted_anew_by_one_statement(db: Db, queue: JobQueue) -> None:
    job_id = one(db, "INSERT INTO jobs (job_type, status, data) VALUES ('x', 'failed', '{\"a\": 1}') RETURNING id")[
        "id"
    ]
    again = (
        "WITH gone AS (DELETE FROM jobs WHERE status = 'failed' RETURNING id, job_type, data)"
        " INSERT INTO jobs (id, job_type, data) SELECT id, job_type, data FROM gone"
    )
    assert change(db, again) == 1
    assert one(db, "SELECT id, status, data FROM jobs") == {"id": job_id, "status": "pending", "data": {"a": 1}}
    assert queue.stats()["x"].failed == 0
    assert [job.id for job in queue.claim(["x"])] == [job_id]


def test_two_updates_of_one_statement_end_two_jobs(db: Db, queue: JobQueue) -> None:
    first, second = (row["id"] for row in send(db, "INSERT INTO jobs (job_type) VALUES ('x'), ('x') RETURNING id"))
    for job_id in (first, second):
        change(db, CLAIM_BY_ID, "w", job_id)
    statement = (
        "WITH done AS (UPDATE jobs SET status = 'completed' WHERE id = $1 RETURNING id),"
        " lost AS (UPDATE jobs SET status = 'failed', last_error = 'boom' WHERE id = $2 RETURNING id)"
        " SELECT id FROM done UNION ALL SELECT id FROM lost"
    )
    assert len(send(db, statement, first, second)) == 2
    assert (queue.get(first).status, queue.get(second).status) == ("completed", "failed")
    assert (queue.stats()["x"].completed, queue.stats()["x"].failed) == (1, 1)


def test_returning_has_old_and_new(db: Db, major: int) -> None:
    if major < 18:
        pytest.skip("RETURNING old and new came with PostgreSQL 18")
    job_id = one(db, "INSERT INTO jobs (job_type) VALUES ('x') RETURNING id")["id"]
    answer = one(db, f"{CLAIM_BY_ID} RETURNING old.status AS was, new.status AS is, new.attempts", "w", job_id)
    assert answer == {"was": "pending", "is": "claimed", "attempts": 1}


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_client_may_use_stricter_transactions(db: Db, connect: Connect, level: str) -> None:
    conn = connect()
    conn.execute(f"SET default_transaction_isolation = '{level.lower()}'".encode())
    with conn.transaction():
        job_id = one(conn, "INSERT INTO jobs (job_type) VALUES ('x') RETURNING id")["id"]
        assert change(conn, CLAIM_BY_ID, "w", job_id) == 1
        assert change(conn, seed.FAIL, job_id, "boom") == 1
        assert [row["id"] for row in send(conn, seed.OWN_CLAIM, "w", ["x"], 1)] == [job_id]
        assert change(conn, seed.COMPLETE, job_id) == 1
    assert one(db, "SELECT status, attempts FROM jobs") == {"status": "completed", "attempts": 2}


def test_a_savepoint_takes_back_the_end_of_a_job(db: Db, queue: JobQueue) -> None:
    job_id = one(db, "INSERT INTO jobs (job_type) VALUES ('x') RETURNING id")["id"]
    change(db, CLAIM_BY_ID, "w", job_id)
    with db.transaction():
        with db.transaction(force_rollback=True):
            assert change(db, seed.COMPLETE, job_id) == 1
        assert one(db, "SELECT status FROM jobs") == {"status": "claimed"}
        assert change(db, seed.FAIL, job_id, "boom") == 1
    assert one(db, "SELECT status, last_error FROM jobs") == {"status": "pending", "last_error": "boom"}
    assert queue.stats()["x"].completed == 0
