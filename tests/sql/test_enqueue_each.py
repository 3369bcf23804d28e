"""Jobs of several callers in one call: every job or none, with the checks of enqueue."""

from __future__ import annotations

import uuid
from typing import Any

import psycopg
import pytest

from howdah.model.ids import new_id
from tests.conftest import Connect, Db
from tests.sql.test_segments import rotate

EACH = "SELECT * FROM enqueue_each(%(types)s, %(data)s::jsonb[], %(ids)s"


def each(db: Db, more: str = "", types: list[Any] | None = None, **arguments: Any) -> list[dict[str, Any]]:
    """Three jobs, with other arguments where these are given."""
    given: dict[str, Any] = {
        "types": types or ["a", "b", "a"],
        "data": ["1", "2", None],
        "ids": [new_id() for _ in range(3)],
    }
    return db.execute(f"{EACH}{more})".encode(), {**given, **arguments}).fetchall()


def count(db: Db) -> int:
    row = db.execute("SELECT count(*) AS n FROM live").fetchone()
    assert row is not None
    return int(row["n"])


def test_jobs_with_the_same_options_are_one_row_of_the_answer(db: Db) -> None:
    ids = [new_id() for _ in range(3)]
    (answer,) = each(db, ids=ids)
    assert set(answer["ids"]) == set(ids)
    assert (answer["priority"], answer["max_attempts"]) == (100, 3)
    rows = db.execute("SELECT id, job_type, data, run_at, created_at FROM live ORDER BY id").fetchall()
    assert [(row["id"], row["job_type"], row["data"]) for row in rows] == list(zip(ids, "aba", [1, 2, {}], strict=True))
    assert {(row["run_at"], row["created_at"]) for row in rows} == {(answer["run_at"], answer["created_at"])}


def test_each_job_has_its_own_options(db: Db) -> None:
    ids = [new_id() for _ in range(3)]
    answers = each(db, ", p_priorities => %(priorities)s", ids=ids, priorities=[1, None, 3])
    assert {answer["priority"]: answer["ids"] for answer in answers} == {1: ids[:1], 100: ids[1:2], 3: ids[2:]}


def test_no_jobs_are_no_jobs(db: Db) -> None:
    assert db.execute("SELECT * FROM enqueue_each('{}', '{}', '{}')").fetchall() == []


@pytest.mark.parametrize(
    ("state", "more", "arguments"),
    [
        ("JQ002", "", {"types": ["a", "", "a"]}),
        ("JQ002", "", {"types": ["a", None, "a"]}),
        ("JQ002", "", {"types": ["a", "b" * 51, "a"]}),
        ("JQ002", "", {"types": ["a", "b\n", "a"]}),
        ("JQ001", "", {"types": ["a", "b"]}),
        ("JQ001", "", {"data": ["1"]}),
        ("JQ001", "", {"data": None}),
        ("JQ001", "", {"ids": [uuid.uuid4(), None, uuid.uuid4()]}),
        ("JQ001", ", p_max_attempts => ARRAY[1, 0, 1]", {}),
        ("JQ001", ", p_delays => ARRAY[NULL, '-1 s', NULL]::interval[]", {}),
        ("JQ001", ", p_timeouts => ARRAY['1 s', '0', NULL]::interval[]", {}),
        ("JQ001", ", p_expires_ins => ARRAY['1 s', '36501 days', NULL]::interval[]", {}),
        ("JQ001", """, p_retry_policies => ARRAY[NULL, '{"kind": "odd"}', NULL]::jsonb[]""", {}),
        ("JQ001", ", p_metas => ARRAY[NULL, '[]', NULL]::jsonb[]", {}),
        ("JQ003", ", p_metas => ARRAY[NULL, jsonb_build_object('a', repeat('x', 140000)), NULL]", {}),
        ("JQ003", "", {"data": ["1", f'"{"x" * 70_000}"', "2"]}),
        ("23505", "", {"ids": [uuid.UUID(int=1)] * 3}),
    ],
)
def test_one_bad_job_adds_none(db: Db, state: str, more: str, arguments: dict[str, Any]) -> None:
    db.execute("UPDATE settings SET max_payload_bytes = 65536")
    with pytest.raises(psycopg.Error) as caught:
        each(db, more, **arguments)
    assert caught.value.sqlstate == state
    assert count(db) == 0


@pytest.mark.parametrize("is_ended", [False, True])
@pytest.mark.parametrize("is_closed", [False, True])
def test_an_id_that_a_job_has_is_refused(db: Db, is_ended: bool, is_closed: bool) -> None:
    there = new_id()
    db.execute("SELECT enqueue('a', p_id => %s)", (there,))
    if is_ended:
        db.execute("SELECT cancel(ARRAY[%s])", (there,))
    if is_closed:
        (rotated,) = rotate(db)
        assert rotated["closed"]
    with pytest.raises(psycopg.errors.UniqueViolation):
        each(db, ids=[new_id(), there, new_id()])
    assert count(db) == (0 if is_ended else 1)


def test_a_stricter_transaction_is_refused_because_it_sees_no_job_that_ended_meanwhile(connect: Connect) -> None:
    conn = connect(options="-c default_transaction_isolation=repeatable\\ read")
    with pytest.raises(psycopg.Error, match="READ COMMITTED"):
        each(conn)
