"""Adding jobs by SQL: ids, keys, repeats, races."""

from __future__ import annotations

import random
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.conftest import Connect, Db


def one(db: Db, statement: str, *arguments: Any) -> dict[str, Any]:
    row = db.execute(statement.encode(), arguments).fetchone()
    assert row is not None
    return row


def test_ids_of_one_statement_and_of_one_transaction_increase_strictly(db: Db) -> None:
    with db.transaction():
        ids = [
            row["id"] for _ in range(3) for row in db.execute("SELECT new_id() AS id FROM generate_series(1, 20000)")
        ]
    assert ids == sorted(set(ids))
    assert {made.version for made in ids} == {7}
    assert {made.variant for made in ids} == {uuid.RFC_4122}


def test_enqueue_many_keeps_the_order_of_its_items_across_calls(db: Db) -> None:
    with db.transaction():
        for start in (0, 500, 1000):
            db.execute(
                "SELECT enqueue_many('a', (SELECT array_agg(to_jsonb(n) ORDER BY n) FROM generate_series(%s::int, %s::int) AS n))",
                (start, start + 499),
            )
    claimed = db.execute("SELECT data FROM claim('w', ARRAY['a'], 1500)").fetchall()
    assert [row["data"] for row in claimed] == list(range(1500))


def test_a_key_is_unique_among_the_live_jobs_of_its_type(db: Db) -> None:
    first = one(db, "SELECT * FROM enqueue('a', p_key => 'k')")
    again = one(db, "SELECT * FROM enqueue('a', p_key => 'k')")
    other = one(db, "SELECT * FROM enqueue('b', p_key => 'k')")
    assert (first["created"], again["created"], other["created"]) == (True, False, True)
    assert again["id"] == first["id"]
    (held,) = db.execute("SELECT id, token FROM claim('w', ARRAY['a'])").fetchall()
    assert not one(db, "SELECT * FROM enqueue('a', p_key => 'k')")["created"]
    db.execute("SELECT complete(ARRAY[%s], ARRAY[%s])", (held["id"], held["token"]))
    assert one(db, "SELECT * FROM enqueue('a', p_key => 'k')")["created"]


def test_an_id_that_was_made_long_ago_is_not_taken_for_a_new_one(db: Db) -> None:
    an_hour_ago = int((time.time() - 3600) * 1000)
    for made in (uuid.UUID(f"{an_hour_ago:012x}70008000000000000001"), uuid.uuid4()):
        for is_first in (True, False):
            answer = one(db, "SELECT * FROM enqueue('a', p_id => %s)", made)
            assert answer["created"] is is_first
        (held,) = db.execute("SELECT id, token FROM claim('w', ARRAY['a'])").fetchall()
        db.execute("SELECT complete(ARRAY[%s], ARRAY[%s])", (held["id"], held["token"]))
        assert not one(db, "SELECT * FROM enqueue('a', p_id => %s)", made)["created"]
        found = db.execute("SELECT status FROM job_details WHERE id = %s", (made,)).fetchall()
        assert found == [{"status": "completed"}]


def test_an_id_is_enqueued_once_even_after_its_job_has_ended(db: Db) -> None:
    made = one(db, "SELECT new_id() AS id")["id"]
    assert one(db, "SELECT * FROM enqueue('a', p_id => %s)", made)["created"]
    assert not one(db, "SELECT * FROM enqueue('a', p_id => %s)", made)["created"]
    (held,) = db.execute("SELECT id, token FROM claim('w', ARRAY['a'])").fetchall()
    db.execute("SELECT complete(ARRAY[%s], ARRAY[%s])", (held["id"], held["token"]))
    assert not one(db, "SELECT * FROM enqueue('a', p_id => %s)", made)["created"]
    assert db.execute("SELECT count(*) AS n FROM jobs").fetchone() == {"n": 1}


@pytest.mark.parametrize("version", [4, 7])
def test_a_repeat_that_waits_for_the_end_of_its_job_does_not_run_it_again(
    db: Db, connect: Connect, version: int
) -> None:
    made = uuid.uuid4() if version == 4 else one(db, "SELECT new_id() AS id")["id"]
    db.execute("SELECT enqueue('a', p_id => %s)", (made,))
    (held,) = db.execute("SELECT id, token FROM claim('w', ARRAY['a'])").fetchall()
    completing = connect(autocommit=False)
    completing.execute("SELECT complete(ARRAY[%s], ARRAY[%s])", (held["id"], held["token"]))
    repeating = connect()
    with ThreadPoolExecutor(1) as pool:
        repeat = pool.submit(one, repeating, "SELECT * FROM enqueue('a', p_id => %s)", made)
        blocked = "SELECT 1 FROM pg_locks WHERE pid = %s AND NOT granted"
        while db.execute(blocked, (repeating.info.backend_pid,)).fetchone() is None:
            assert not repeat.done()
        completing.commit()
        assert not repeat.result()["created"]
    assert db.execute("SELECT status FROM jobs").fetchall() == [{"status": "completed"}]


def test_sixteen_producers_of_the_same_keys_make_one_job_each(db: Db, connect: Connect) -> None:
    keys = [f"key {n}" for n in range(40)]

    def produce(seed: int) -> None:
        conn, rng = connect(), random.Random(seed)
        for _ in range(5):
            some = rng.sample(keys, 20)
            conn.execute("SELECT enqueue_many('bulk', array_fill('{}'::jsonb, ARRAY[20]), %s)", (some,))
            conn.execute("SELECT enqueue('one', p_key => %s)", (rng.choice(keys),))
            with conn.transaction(force_rollback=True):
                conn.execute("SELECT enqueue_many('bulk', array_fill('{}'::jsonb, ARRAY[20]), %s)", (some,))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(produce, range(16)))
    made = [row["key"] for row in db.execute("SELECT key FROM live WHERE job_type = 'bulk'")]
    assert sorted(made) == sorted(keys)


@pytest.mark.parametrize(
    ("call", "sqlstate"),
    [
        ("enqueue('')", "JQ002"),
        ("enqueue(NULL)", "JQ002"),
        ("enqueue(repeat('x', 51))", "JQ002"),
        ("enqueue(E'a\\nb')", "JQ002"),
        ("enqueue('a', p_max_attempts => 0)", "JQ001"),
        ("enqueue('a', p_delay => '-1 second')", "JQ001"),
        ("enqueue('a', p_timeout => '0')", "JQ001"),
        ("enqueue('a', p_retry_policy => '{\"kind\": \"sometimes\"}')", "JQ001"),
        ("enqueue('a', p_retry_policy => '{\"kind\": \"fixed\"}')", "JQ001"),
        ("enqueue('a', p_key => repeat('x', 201))", "JQ001"),
        ("enqueue_many('a', '{1,2}', ARRAY['y', repeat('x', 201)])", "JQ001"),
        ("enqueue_many('', ARRAY['1']::jsonb[])", "JQ002"),
        ("declare_type('a', p_max_attempts => 0)", "JQ001"),
        ("pause_type('')", "JQ002"),
        ("claim('', ARRAY['a'])", "JQ001"),
        ("recover_stale_jobs('-1 second')", "JQ001"),
        ("prune('-1 day')", "JQ001"),
    ],
)
def test_a_mistake_has_a_sqlstate_of_ours_and_changes_nothing(db: Db, call: str, sqlstate: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        db.execute(f"SELECT * FROM {call}".encode())
    assert caught.value.sqlstate == sqlstate
    assert db.execute("SELECT count(*) AS n FROM jobs").fetchone() == {"n": 0}


def test_a_type_gives_its_defaults_to_producers_without_the_handler(db: Db) -> None:
    db.execute(
        "SELECT declare_type('t', p_priority => 7, p_max_attempts => 9, p_timeout => '1 minute', p_expires_in => '1 hour',"
        ' p_retry_policy => \'{"kind": "fixed", "delay": 4}\')'
    )
    made = one(db, "SELECT * FROM enqueue('t')")["id"]
    job = one(db, "SELECT *, expires_at - run_at = interval '1 hour' AS expires FROM live WHERE id = %s", made)
    assert (job["priority"], job["max_attempts"], job["timeout"].seconds, job["expires"]) == (7, 9, 60, True)
    assert job["retry_policy"] == {"kind": "fixed", "delay": 4}
