"""``TestDatabase``: a clean queue for each test, and nothing of it anywhere else."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from howdah import HowdahError, JobQueue
from howdah.testing import TestDatabase, adrain, drain


@pytest.fixture
def database(howdah_dsn: str) -> Iterator[TestDatabase]:
    """One of its own, which the test may wreck."""
    with TestDatabase(howdah_dsn) as database:
        yield database


@pytest.fixture
def conn(howdah_dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(howdah_dsn, autocommit=True) as conn:
        yield conn


def schemas(conn: psycopg.Connection[Any]) -> set[str]:
    return {name for (name,) in conn.execute("SELECT nspname FROM pg_namespace")}


def execute(conn: psycopg.Connection[Any], statement: str, schema: str) -> list[Any]:
    cursor = conn.execute(sql.SQL(statement.replace("{}", schema)))
    return cursor.fetchall() if cursor.description else []


def contents(conn: psycopg.Connection[Any], schema: str) -> dict[str, Any]:
    """Everything that is in a schema, apart from when it was made."""
    tables = conn.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)).fetchall()
    seen = {
        table: execute(conn, f"SELECT to_jsonb(t) - 'migrated_at' - 'opened_at' FROM {{}}.{table} AS t", schema)
        for (table,) in tables
    }
    for kind, query in {
        "functions": "SELECT proname, prosrc, pg_get_function_sqlbody(oid) FROM pg_proc"
        " WHERE pronamespace = '{}'::regnamespace ORDER BY proname",
        "indexes": "SELECT indexdef FROM pg_indexes WHERE schemaname = '{}' ORDER BY indexdef",
        "triggers": "SELECT tgname FROM pg_trigger JOIN pg_class AS c ON c.oid = tgrelid"
        " WHERE relnamespace = '{}'::regnamespace ORDER BY tgname",
        "segments": "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = '{}.archive'::regclass ORDER BY 1",
    }.items():
        seen[kind] = [str(row).replace(schema, "…") for row in execute(conn, query, schema)]
    return seen


def make_a_mess(database: TestDatabase, conn: psycopg.Connection[Any]) -> None:
    with database.use(JobQueue(database.dsn)) as queue:

        @queue.job(ordered=True, priority=7, timeout=5)
        def work(fail: bool) -> None:
            assert not fail

        for fail in (True, False, True):
            work.enqueue(fail=fail)
        drain(queue)
        queue.enqueue("later", delay=60, key="once")
        queue.cancel(queue.enqueue("never"))
        queue.claim(["later"])
        queue.pause("later", "for a reason")
        queue.schedules.set("nightly", "work", cron="0 3 * * *", data={"fail": False})
    execute(conn, "UPDATE {}.settings SET archive_retention = '1 day', max_crashes = 9", database.schema)
    execute(conn, "SELECT {}.register_worker('forgotten', gen_random_uuid())", database.schema)


def test_cleaning_leaves_what_a_fresh_installation_has(
    database: TestDatabase, howdah_dsn: str, conn: psycopg.Connection[Any]
) -> None:
    make_a_mess(database, conn)
    assert any(rows for table, rows in contents(conn, database.schema).items() if table == "archive_open")
    database.clean()
    with TestDatabase(howdah_dsn) as fresh:
        assert contents(conn, database.schema) == contents(conn, fresh.schema)


CHANGES = """
CREATE TABLE {}.mine (id int)
DROP INDEX {}.live_expiry
CREATE OR REPLACE FUNCTION {}.clock() RETURNS timestamptz LANGUAGE sql STABLE RETURN 'epoch'::timestamptz
CREATE OR REPLACE FUNCTION {}.new_id() RETURNS uuid LANGUAGE sql RETURN gen_random_uuid()
CREATE TRIGGER mine AFTER UPDATE ON {}.live FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()
DROP TABLE {}.archive_open
DROP SCHEMA {} CASCADE
"""


def test_a_change_to_the_schema_itself_is_undone(
    database: TestDatabase, howdah_database: TestDatabase, conn: psycopg.Connection[Any]
) -> None:
    for change in CHANGES.strip().splitlines():
        execute(conn, change, database.schema)
        database.clean()
        assert contents(conn, database.schema) == contents(conn, howdah_database.schema), change


def test_segments_that_a_test_has_closed_are_gone(
    database: TestDatabase, howdah_database: TestDatabase, conn: psycopg.Connection[Any]
) -> None:
    make_a_mess(database, conn)
    assert [row[2] for row in execute(conn, "SELECT * FROM {}.rotate('0')", database.schema)] == [True]
    execute(conn, "SELECT {}.bound_segments()", database.schema)
    make_a_mess(database, conn)
    database.clean()
    assert contents(conn, database.schema) == contents(conn, howdah_database.schema)


def test_what_leaves_the_schema_as_it_was_does_not_make_it_anew(
    database: TestDatabase, conn: psycopg.Connection[Any]
) -> None:
    oid = execute(conn, "SELECT '{}.live'::regclass::oid::int", database.schema)
    make_a_mess(database, conn)
    with database.clock() as clock:
        clock.advance(timedelta(days=400))
    for table in ("live", "archive", "types"):
        execute(conn, f"VACUUM ANALYZE {{}}.{table}", database.schema)
    database.clean()
    assert execute(conn, "SELECT '{}.live'::regclass::oid::int", database.schema) == oid


def test_a_transaction_that_a_test_has_left_open_is_named_as_the_cause(database: TestDatabase) -> None:
    with database.use(JobQueue(database.dsn)) as queue:
        queue.enqueue("a")
        with psycopg.connect(database.dsn) as conn:
            queue.claim(["a"], conn=conn)
            with pytest.raises(HowdahError, match="a transaction is open"):
                database.clean()


def test_tests_at_the_same_time_get_schemas_of_their_own_and_drop_them(
    howdah_dsn: str, conn: psycopg.Connection[Any]
) -> None:
    before = schemas(conn)
    with TestDatabase(howdah_dsn) as one, TestDatabase(howdah_dsn) as two:
        assert schemas(conn) == before | {one.schema, two.schema}
        assert one.schema != two.schema
    assert schemas(conn) == before


def test_a_schema_that_is_not_ours_is_left_alone(howdah_dsn: str, conn: psycopg.Connection[Any]) -> None:
    with TestDatabase(howdah_dsn) as database:
        name = database.schema
    conn.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
    try:
        with TestDatabase(howdah_dsn) as database:
            assert database.schema != name
        assert name in schemas(conn)
    finally:
        conn.execute(sql.SQL("DROP SCHEMA {}").format(sql.Identifier(name)))


def test_a_connection_that_was_lost_does_not_fail_the_end_of_a_run(
    howdah_dsn: str, conn: psycopg.Connection[Any]
) -> None:
    with TestDatabase(howdah_dsn) as database:
        conn.execute("SELECT pg_terminate_backend(%s, 60000)", (database._conn.info.backend_pid,))
    with TestDatabase(howdah_dsn):
        pass


def test_what_killed_tests_have_left_is_taken_over(howdah_dsn: str, conn: psycopg.Connection[Any]) -> None:
    killed = TestDatabase(howdah_dsn)
    make_a_mess(killed, conn)
    conn.execute("SELECT pg_terminate_backend(%s, 60000)", (killed._conn.info.backend_pid,))
    killed._conn.close()
    with contextlib.ExitStack() as stack:
        taken = (stack.enter_context(TestDatabase(howdah_dsn)) for _ in range(20))
        assert any(database.schema == killed.schema for database in taken)
        assert not execute(conn, "SELECT FROM {}.job_details", killed.schema)


def test_a_table_of_jobs_in_the_same_database_is_not_in_the_way(howdah_dsn: str, conn: psycopg.Connection[Any]) -> None:
    conn.execute("CREATE TABLE IF NOT EXISTS public.jobs (id uuid, job_type text, status text, data jsonb)")
    try:
        with TestDatabase(howdah_dsn):
            pass
    finally:
        conn.execute("DROP TABLE public.jobs")


def test_a_queue_points_there_for_a_while_and_then_back(howdah_database: TestDatabase, database: TestDatabase) -> None:
    with JobQueue(database.dsn, database.schema) as queue:
        real = queue.enqueue("real")
        with howdah_database.use(queue) as same:
            assert same is queue
            assert queue.schema == howdah_database.schema
            queue.enqueue("a")
            with database.use(queue):
                queue.enqueue("b")
            assert list(queue.stats()) == ["a"]
        assert queue.schema == database.schema
        assert list(queue.stats()) == ["b", "real"]
        assert queue.get(real).status == "pending"


def test_a_queue_that_is_used_without_a_block_points_back_when_the_test_is_over(database: TestDatabase) -> None:
    queue = JobQueue("host=nowhere", "mine")
    database.use(queue)
    queue.enqueue("a")
    database.release()
    assert queue.schema == "mine"
    assert queue.dsn == "host=nowhere"


def test_the_embedded_server_of_the_project_is_neither_started_nor_forgotten(
    database: TestDatabase, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    for name in ("HOWDAH_DSN", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    queue = JobQueue()
    with database.use(queue):
        queue.enqueue("a")
    assert queue._database.configured is None
    assert not os.listdir(tmp_path)  # noqa: PTH208


def test_an_event_loop_may_end_before_or_after_the_test(database: TestDatabase) -> None:
    queue = JobQueue("host=nowhere")

    @queue.job
    async def greet() -> None:
        pass

    async def main() -> None:
        for _ in range(2):
            database.clean()
            database.use(queue)
            await greet.aenqueue()
            assert len(await adrain(queue)) == 1
            database.release()

    asyncio.run(main())
    asyncio.run(main())


def test_a_test_may_close_its_queue(database: TestDatabase) -> None:
    queue = JobQueue("host=nowhere")
    for _ in range(2):
        with database.use(queue), queue:
            assert queue.enqueue("a").created
    assert queue.dsn == "host=nowhere"
