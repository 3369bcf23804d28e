"""``enqueue_unique`` for SQL producers: rules and keys that are refused, the rule of a type, and the end of a key."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.clock import TestClock
from tests.conftest import Connect, Db

ADD = "SELECT id, created, conflict FROM enqueue_unique('mail', %s, %s)"
HASH = "0123456789abcdef" * 4


def add(db: Db, data: Any, rule: Any) -> dict[str, Any]:
    (row,) = db.execute(ADD, ([Jsonb(data)], Jsonb(rule))).fetchall()
    return row


def refusal(db: Db, statement: str, *arguments: Any) -> str:
    with pytest.raises(psycopg.Error) as refused:
        db.execute(statement.encode(), arguments)
    assert refused.value.sqlstate == "JQ001"
    assert refused.value.diag.message_hint
    return refused.value.diag.message_primary or ""


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("null", "no JSON object"),
        ("[]", "no JSON object"),
        ('{"way": 1}', "unknown field"),
        ('{"by": "invoice"}', "by is"),
        ('{"by": [1]}', "by is"),
        ('{"by": [""]}', "by is"),
        ('{"by": {}}', "by is"),
        ('{"conflict": "drop"}', "conflict is"),
        ('{"states": []}', "states is"),
        ('{"states": ["gone"]}', "states is"),
        ('{"states": "pending"}', "states is"),
        ('{"within": 0}', "within is"),
        ('{"within": "1 day"}', "within is"),
        ('{"within": 1e20}', "within is"),
        ('{"delay": -1}', "delay is"),
        ('{"delay": {}}', "delay is"),
        ('{"states": ["completed"]}', "at most 14 days"),
        ('{"within": 1209601}', "at most 14 days"),
    ],
)
def test_what_is_no_rule_is_refused_at_a_call_and_for_a_type(db: Db, rule: str, problem: str) -> None:
    assert problem in refusal(db, "SELECT enqueue_unique('mail', ARRAY['{}'::jsonb], %s::jsonb)", rule)
    assert problem in refusal(db, "SELECT declare_type('mail', p_unique_rule => %s::jsonb)", rule)
    assert db.execute("SELECT FROM jobs").fetchall() == []


def test_a_window_of_live_jobs_may_be_longer_than_ended_ones_are_kept(db: Db) -> None:
    assert add(db, {}, {"within": 1e9, "states": ["pending"]})["created"]


def test_calls_that_do_not_fit_their_rule_are_refused(db: Db) -> None:
    two = "ARRAY['{}', '{}']::jsonb[]"
    for rest, problem in (
        ("", "there is no unique rule for type mail"),
        (', \'{"by": "key"}\'', "unique by their keys, and have none"),
        (", '{\"by\": \"key\"}', ARRAY['a']", "there are 1 keys for 2 jobs"),
        (", '{\"by\": \"key\"}', ARRAY['a', NULL]", "there are 1 keys for 2 jobs"),
        (", '{\"by\": \"key\"}', ARRAY['a', 'schedule:x']", "cannot begin with schedule:"),
        (", '{}', ARRAY['a', 'b']", "SHA-256"),
        (", '{}', p_ids => ARRAY[new_id()]", "there are 1 ids for 2 jobs"),
    ):
        assert problem in refusal(db, f"SELECT enqueue_unique('mail', {two}{rest})")
    assert db.execute("SELECT enqueue_unique('mail', '{}', '{}')").fetchall() == []
    (row,) = db.execute("SELECT * FROM enqueue_unique('mail', '{NULL}', '{}', %s)", ([HASH],)).fetchall()
    assert (row["created"], row["priority"], row["max_attempts"]) == (True, 100, 3)


def test_the_rule_of_a_type_is_for_this_function_alone(db: Db) -> None:
    db.execute('SELECT declare_type(\'mail\', p_unique_rule => \'{"by": ["n"], "states": ["pending"]}\')')
    call = "SELECT created FROM enqueue_unique('mail', ARRAY['{\"n\": 1}'::jsonb])"
    assert [db.execute(call.encode()).fetchall() for _ in range(2)] == [[{"created": True}], [{"created": False}]]
    assert db.execute("SELECT created FROM enqueue('mail', '{\"n\": 1}')").fetchall() == [{"created": True}]
    db.execute("INSERT INTO jobs (job_type, data) VALUES ('mail', '{\"n\": 1}')")
    assert db.execute("SELECT enqueued FROM enqueue_many('mail', ARRAY['{\"n\": 1}'::jsonb])").fetchall() == [
        {"enqueued": 1}
    ]
    db.execute("SELECT declare_type('mail')")
    assert "no unique rule" in refusal(db, call)


def uniques(db: Db) -> int:
    (row,) = db.execute("SELECT count(*) AS n FROM uniques").fetchall()
    return int(row["n"])


def test_a_key_is_removed_when_its_job_has_ended_and_its_window_has_passed(db: Db, clock: TestClock) -> None:
    window = {"by": ["n"], "within": 3600}
    for n, rule in enumerate(({"by": ["n"]}, {"by": ["n"]}, window)):
        assert add(db, {"n": n}, rule)["created"]
    clock.advance(61)
    db.execute("SELECT recover()")
    assert uniques(db) == 3
    db.execute("SELECT cancel(ARRAY(SELECT id FROM live WHERE data <> '{\"n\": 1}'))")
    clock.advance(601)
    db.execute("SELECT recover()")
    assert uniques(db) == 2
    # It is not removed too late, either.
    clock.advance(3600)
    db.execute("SELECT recover()")
    assert uniques(db) == 1
    assert not add(db, {"n": 1}, {"by": ["n"]})["created"]


def test_keys_are_removed_in_batches(db: Db, clock: TestClock) -> None:
    for n in range(5):
        add(db, {"n": n}, {})
    db.execute("DELETE FROM jobs")
    clock.advance(61)
    assert [db.execute("SELECT prune_uniques(2) AS n").fetchall()[0]["n"] for _ in range(4)] == [2, 2, 1, 0]


def test_a_key_that_is_in_use_is_not_waited_for_and_not_removed(db: Db, connect: Connect, clock: TestClock) -> None:
    add(db, {"n": 1}, {})
    db.execute("DELETE FROM jobs")
    clock.advance(61)
    other = connect(autocommit=False)
    assert add(other, {"n": 1}, {})["created"]
    assert db.execute("SELECT prune_uniques() AS n").fetchall() == [{"n": 0}]
    other.commit()
    clock.advance(61)
    assert db.execute("SELECT prune_uniques() AS n").fetchall() == [{"n": 0}]
    assert not add(db, {"n": 1}, {})["created"]


@pytest.mark.parametrize("status", ["pending", "running"])
def test_a_row_that_was_lost_or_left_behind_blocks_nothing_and_lets_nothing_through(db: Db, status: str) -> None:
    first = add(db, {"n": 1}, {})
    if status == "running":
        db.execute("SELECT claim('w', ARRAY['mail'], 1, 1)")
    db.execute("DELETE FROM uniques")
    assert add(db, {"n": 1}, {}) == {"id": first["id"], "created": False, "conflict": "kept"}
    assert uniques(db) == 1
    db.execute("DELETE FROM live")
    assert add(db, {"n": 1}, {"within": 3600})["created"]


def test_a_plain_client_that_ends_a_job_frees_its_key(db: Db) -> None:
    add(db, {"n": 1}, {})
    db.execute("UPDATE jobs SET status = 'cancelled'")
    assert add(db, {"n": 1}, {})["created"]
    (kept,) = db.execute("SELECT unique_key IS NOT NULL AS kept FROM archive").fetchall()
    assert kept["kept"]


def test_an_idle_worker_is_woken(db: Db, connect: Connect) -> None:
    listener = connect()
    listener.execute("SELECT add_sleeper(ARRAY['mail'])")
    (channel,) = listener.execute("SELECT channel() AS name").fetchall()
    listener.execute(psycopg.sql.SQL("LISTEN {}").format(psycopg.sql.Identifier(channel["name"])))
    add(db, {"n": 1}, {"conflict": "reschedule", "delay": 60})
    add(db, {"n": 1}, {"conflict": "reschedule"})
    assert len(list(listener.notifies(timeout=30, stop_after=1))) == 1
