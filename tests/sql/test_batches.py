"""One bad row never fails its batch, and every batch returns the rows that it changed."""

from __future__ import annotations

import random
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.conftest import Connect, Db


def hold(db: Db, count: int, start: int = 0) -> list[dict[str, Any]]:
    db.execute("SELECT enqueue_many('a', array_fill('{}'::jsonb, ARRAY[%s::int]))", (count,))
    return db.execute("SELECT id, token FROM claim('w', ARRAY['a'], %s, %s)", (count, start)).fetchall()


BATCHES = {
    "start": "SELECT id FROM start(%(ids)s, %(tokens)s)",
    "progress": "SELECT id FROM progress(%(ids)s, %(tokens)s, array_fill(50, ARRAY[10]))",
    "complete": "SELECT id FROM complete(%(ids)s, %(tokens)s)",
    "fail": "SELECT id FROM fail(%(ids)s, %(tokens)s, array_fill('boom'::text, ARRAY[10]))",
    "release": "SELECT id FROM release(%(ids)s, %(tokens)s)",
    "interrupt": "SELECT id FROM release(%(ids)s, %(tokens)s, p_interrupted => true)",
    "abandon": "SELECT id FROM cancel_held(%(ids)s, %(tokens)s)",
    "crash": "SELECT id FROM crash(%(ids)s, %(tokens)s)",
}
OF_RUNNING_JOBS = {"interrupt", "crash"}


@pytest.mark.parametrize("verb", BATCHES)
def test_stale_unknown_null_and_repeated_rows_do_not_stop_the_others(db: Db, verb: str) -> None:
    status, start = ("running", 3) if verb in OF_RUNNING_JOBS else ("claimed", 0)
    good, stale, twice = (row for row in hold(db, 3, start))
    rows = [
        (stale["id"], stale["token"] - 1), (uuid.uuid4(), 1), (None, None), (good["id"], good["token"]),
        (twice["id"], twice["token"]), (twice["id"], twice["token"]), (stale["id"], None),
    ]  # fmt: skip
    arguments = {"ids": [id for id, _ in rows], "tokens": [token for _, token in rows]}
    changed = db.execute(BATCHES[verb].encode(), arguments).fetchall()
    assert sorted(row["id"] for row in changed) == sorted([good["id"], twice["id"]])
    assert db.execute("SELECT status FROM jobs WHERE id = %s", (stale["id"],)).fetchone() == {"status": status}


@pytest.mark.parametrize("verb", BATCHES)
def test_an_empty_batch_changes_nothing(db: Db, verb: str) -> None:
    hold(db, 1)
    assert db.execute(BATCHES[verb].encode(), {"ids": [], "tokens": []}).fetchall() == []
    assert db.execute("SELECT status FROM jobs").fetchall() == [{"status": "claimed"}]


def test_results_and_errors_go_to_their_own_jobs(db: Db) -> None:
    held = hold(db, 6)
    done, failed = held[:3], held[3:]
    db.execute(
        "SELECT complete(%s, %s, ARRAY['\"r0\"', '\"r1\"', '\"r2\"']::jsonb[])",
        ([row["id"] for row in reversed(done)], [row["token"] for row in done]),
    )
    db.execute(
        "SELECT fail(%s, %s, ARRAY['e0', 'e1', 'e2'], ARRAY['t0', NULL, 't2'], p_give_ups => ARRAY[true, false, true])",
        ([row["id"] for row in failed], [row["token"] for row in failed]),
    )
    rows = db.execute("SELECT id, status, result, last_error, errors FROM job_details ORDER BY id").fetchall()
    by_id = {row["id"]: row for row in rows}
    assert [by_id[row["id"]]["result"] for row in reversed(done)] == ["r0", "r1", "r2"]
    assert [by_id[row["id"]]["last_error"] for row in failed] == ["e0", "e1", "e2"]
    assert [by_id[row["id"]]["status"] for row in failed] == ["failed", "pending", "failed"]
    assert by_id[failed[2]["id"]]["errors"][0]["traceback"] == "t2"


def test_a_job_that_fails_for_ever_keeps_its_first_error_and_the_last_99(db: Db) -> None:
    db.execute("SELECT enqueue('a', p_max_attempts => 1000, p_retry_policy => '{\"kind\": \"none\"}')")
    for n in range(120):
        (held,) = db.execute("SELECT id, token FROM claim('w', ARRAY['a'])").fetchall()
        db.execute("SELECT fail(ARRAY[%s], ARRAY[%s], ARRAY[%s])", (held["id"], held["token"], f"error {n}"))
    row = db.execute("SELECT errors FROM live").fetchone()
    assert row is not None
    assert [entry["error"] for entry in row["errors"]] == ["error 0", *(f"error {n}" for n in range(21, 120))]


@pytest.mark.parametrize("verb", ["fail", "release", "interrupt", "abandon"])
def test_a_stale_token_beside_the_current_one_of_the_same_job_does_not_hide_it(db: Db, verb: str) -> None:
    (held,) = hold(db, 1)
    arguments = {"ids": [held["id"]] * 2, "tokens": [held["token"] - 1, held["token"]]}
    assert len(db.execute(BATCHES[verb].encode(), arguments).fetchall()) == 1


def test_batches_that_overlap_wait_for_each_other_and_not_in_a_circle(db: Db, connect: Connect) -> None:
    db.execute(
        "INSERT INTO live (id, job_type, priority, run_at, first_due_at, created_at, max_attempts)"
        " SELECT gen_random_uuid(), 'a', 100, now(), now(), now(), 99 FROM generate_series(1, 2000)"
    )
    held = db.execute("SELECT id, token FROM claim('w', ARRAY['a'], 2000, 2000)").fetchall()
    ids, tokens = [row["id"] for row in held], [row["token"] for row in held]

    def report(seed: int) -> None:
        order = random.Random(seed).sample(range(2000), 2000)
        some = [ids[n] for n in order], [tokens[n] for n in order]
        conn = connect()
        for _ in range(3):
            conn.execute("SELECT progress(%s, %s, array_fill(1, ARRAY[2000]))", some)
            conn.execute("SELECT fail(%s, %s, '{}')", (some[0], [0] * 2000))
            conn.execute("SELECT cancel(%s)", (some[0],))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(report, range(4)))
    assert db.execute("SELECT count(*) AS n FROM live WHERE cancel_requested_at IS NOT NULL").fetchone() == {"n": 2000}


@pytest.mark.parametrize("verb", BATCHES)
def test_a_batch_locks_its_jobs_in_the_order_of_their_ids_whatever_its_plan_was_made_for(
    db: Db, connect: Connect, verb: str
) -> None:
    batch, other, third = connect(), connect(autocommit=False), connect(autocommit=False)
    db.execute("VACUUM ANALYZE live")
    batch.execute(BATCHES[verb].encode(), {"ids": [], "tokens": []})
    held = hold(db, 5, 5 if verb in OF_RUNNING_JOBS else 0)
    first, *rest = sorted(row["id"] for row in held)
    other.execute("SELECT FROM live WHERE id = %s FOR UPDATE", (first,))
    backwards = sorted(held, key=lambda row: row["id"], reverse=True)
    arguments = {"ids": [row["id"] for row in backwards], "tokens": [row["token"] for row in backwards]}
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(lambda: batch.execute(BATCHES[verb].encode(), arguments).fetchall())
        waits = "SELECT FROM pg_locks WHERE pid = %s AND NOT granted"
        while db.execute(waits, (batch.info.backend_pid,)).fetchone() is None:
            assert not writing.done()
        free = third.execute("SELECT id FROM live WHERE id = ANY(%s) FOR UPDATE SKIP LOCKED", (rest,)).fetchall()
        third.rollback()
        other.rollback()
        assert len(writing.result()) == 5
    assert sorted(row["id"] for row in free) == rest
