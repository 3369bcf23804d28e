"""The size limits of a job: the database refuses values that are too large for a worker."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from howdah import JobQueue, PayloadTooLarge
from tests.conftest import Db
from tests.sql.holding import hold

LEAST = 65_536


@pytest.fixture
def limited(db: Db) -> Iterator[Db]:
    db.execute("UPDATE settings SET max_payload_bytes = 100000")
    yield db
    db.execute("DROP TABLE IF EXISTS stored")


def refused(db: Db, statement: str, *values: object) -> str:
    with pytest.raises(psycopg.Error) as raised:
        db.execute(statement.encode(), values)
    assert raised.value.sqlstate == "JQ003"
    assert "max_payload_bytes" in (raised.value.diag.message_hint or "")
    return str(raised.value)


LARGE = "to_jsonb(repeat('x', 100001))"


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT enqueue('a', {LARGE})",
        f"SELECT enqueue_many('a', ARRAY['1', {LARGE}, '2'])",
        f"SELECT enqueue_many('a', ARRAY['1', {LARGE}, '2'], ARRAY['x', 'y', 'z'])",
        f"INSERT INTO jobs (job_type, data) VALUES ('a', '{{}}'), ('a', {LARGE})",
        f"SELECT schedule('s', 'a', {LARGE}, p_every => '1 hour')",
    ],
)
def test_data_that_is_too_large_is_refused_by_every_door(limited: Db, statement: str) -> None:
    refused(limited, statement)
    assert limited.execute("SELECT count(*) AS n FROM jobs").fetchone() == {"n": 0}
    limited.execute(statement.replace("100001", "90000").encode())


SOURCE = "jsonb_build_object('parameter', 'x', 'node', 1, 'path', '[]'::jsonb, 'more', repeat('x', 100001))"


@pytest.mark.parametrize(
    "parts",
    [
        f"p_templates => ARRAY[NULL, {LARGE}], p_items => ARRAY[NULL, {SOURCE.replace('100001', '1')}]",
        f"p_items => ARRAY[NULL, {SOURCE}]",
        f"p_inputs => ARRAY[NULL, jsonb_build_array(jsonb_build_object('parameter', 'x', 'list', true, 'sources', ARRAY[{SOURCE}]))]",
    ],
)
def test_what_a_node_of_a_workflow_has_is_bounded_too(limited: Db, parts: str) -> None:
    """Workers read it, before they have claimed anything."""
    add = "SELECT add_nodes(w.id, ARRAY[1, 2], ARRAY['a', 'b'], p_kinds => ARRAY['job', '{}'], p_parents => ARRAY[1], p_children => ARRAY[2], {})"
    statement = f"{add.format('job' if 'inputs' in parts else 'map', parts)} FROM enqueue_workflow('w') AS w"
    refused(limited, statement)
    limited.execute(statement.replace("100001", "90000").encode())


def test_data_that_comes_compressed_from_a_table_is_measured_as_it_is(limited: Db) -> None:
    # Two megabytes, of which compression leaves little.
    limited.execute(
        "CREATE TABLE stored AS SELECT jsonb_agg(md5((n / 20)::text)) AS data FROM generate_series(1, 60000) AS n"
    )
    (row,) = limited.execute("SELECT pg_column_size(data) AS size FROM stored").fetchall()
    assert row["size"] > LEAST
    for statement in (
        "SELECT enqueue('a', data) FROM stored",
        "SELECT enqueue_many('a', ARRAY[data]) FROM stored",
        "INSERT INTO jobs (job_type, data) SELECT 'a', data FROM stored",
    ):
        refused(limited, statement)


def test_what_a_worker_writes_is_bounded_too_and_the_job_goes_on(limited: Db) -> None:
    (job,) = hold(limited)
    refused(limited, f"SELECT complete(ARRAY[%s], ARRAY[%s], ARRAY[{LARGE}])", *job)
    refused(limited, f"SELECT checkpoint(%s, %s, {LARGE})", *job)
    refused(limited, f"SELECT record_events(ARRAY[%s], ARRAY[%s], ARRAY['e'], ARRAY[{LARGE}])", *job)
    assert limited.execute("SELECT id FROM complete(ARRAY[%s], ARRAY[%s])", job).fetchall() == [{"id": job.id}]


def test_an_error_that_is_too_long_is_cut_and_the_attempt_ends(db: Db) -> None:
    (job,) = hold(db)
    db.execute("SELECT fail(ARRAY[%s], ARRAY[%s], ARRAY[repeat('e', 3000000)], ARRAY[repeat('t', 3000000)])", job)
    (row,) = db.execute("SELECT length(last_error) AS error, length(errors::text) AS all FROM job_details").fetchall()
    assert row["error"] == 1_000_000
    assert row["all"] < 2_100_000


def test_a_client_gets_the_databases_limit_as_its_own_error(limited: Db, dsn: str) -> None:
    with JobQueue(dsn, max_payload_bytes=10_000_000) as queue:
        with pytest.raises(PayloadTooLarge, match="max_payload_bytes"):
            queue.enqueue("a", "x" * 200_000)
        limited.execute("UPDATE settings SET max_payload_bytes = 1000000")
        assert queue.enqueue("a", "x" * 200_000).created


@pytest.mark.parametrize("bytes", [0, LEAST - 1, 2_000_000_000])
def test_the_limit_itself_has_bounds(db: Db, bytes: int) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        db.execute("UPDATE settings SET max_payload_bytes = %s", (bytes,))


POLICY = "p_retry_policy => jsonb_build_object('kind', 'none', 'x', repeat('x', 10000))"


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT enqueue('a', {POLICY})",
        f"SELECT enqueue_many('a', ARRAY['1']::jsonb[], {POLICY})",
        f"SELECT declare_type('a', {POLICY})",
        "SELECT declare_type('a', p_per => repeat('x', 201))",
        "SELECT declare_type('a', p_groups => ARRAY['b', repeat('x', 201)])",
        "SELECT record_audit('me', 'cancel', to_jsonb(repeat('x', 20000000)))",
        "SELECT register_worker('w', gen_random_uuid(), p_job_types => array_fill('a'::varchar, ARRAY[100001]))",
    ],
)
def test_what_is_not_data_is_bounded_too(db: Db, statement: str) -> None:
    with pytest.raises(psycopg.Error) as raised:
        db.execute(statement.encode())
    assert raised.value.sqlstate == "JQ003"


def test_a_reason_that_is_too_long_is_cut(db: Db) -> None:
    db.execute("SELECT enqueue('a')")
    (running,) = hold(db)
    db.execute("SELECT enqueue('a')")
    db.execute("SELECT cancel(ARRAY(SELECT id FROM live), repeat('x', 3000000))")
    rows = db.execute("SELECT id, status, length(last_error) AS length FROM job_details").fetchall()
    assert {row["length"] for row in rows} == {1_000_000}
    assert {row["status"] for row in rows if row["id"] == running.id} == {"running"}
    db.execute("SELECT pause_type('a', repeat('x', 30000)), pause_key('a', 'k', repeat('x', 30000))")
    db.execute(
        "SELECT cancel_workflow(w.id, repeat('x', 30000), p_fails => true) FROM enqueue_workflow('w') AS w,"
        " LATERAL add_nodes(w.id, ARRAY[1], ARRAY['b']), LATERAL add_node_jobs(w.id, ARRAY[1], ARRAY[0], ARRAY['{}'::jsonb]),"
        " LATERAL start_workflow(w.id)"
    )
    (row,) = db.execute(
        "SELECT length(t.paused_because) AS type, length(k.paused_because) AS key, length(w.error) AS workflow,"
        " length(w.cancel_reason) AS reason"
        " FROM types AS t, flow_keys AS k, workflows AS w WHERE t.job_type = 'a'"
    ).fetchall()
    assert set(row.values()) == {10_000}
