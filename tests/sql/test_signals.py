"""Signals, sleeps and steps by SQL alone: what a wait does to its job, and which job gets a signal, whatever happens at the same time."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.clock import TestClock
from tests.conftest import Connect, Db

Row = dict[str, Any]


def one(db: Db, statement: str, *arguments: Any) -> Row:
    (row,) = db.execute(statement.encode(), arguments).fetchall()
    return row


def running(db: Db, job_type: str = "order", **options: Any) -> Row:
    """A job of its own that runs."""
    given = "".join(f", p_{name} => %({name})s" for name in options)
    db.execute(f"SELECT FROM enqueue(%(job_type)s, '{{}}'{given})".encode(), {"job_type": job_type, **options})
    return claimed(db, job_type)


def claimed(db: Db, job_type: str = "order") -> Row:
    return one(db, "SELECT * FROM claim('w', ARRAY[%s::varchar], 1, 1)", job_type)


def wait(
    db: Db, job: Row, name: str = "paid", key: str | None = None, timeout: float | None = None, step: str | None = None
) -> tuple[str, Any]:
    row = one(
        db,
        "SELECT * FROM wait_signal(%s, %s, %s, %s, %s, make_interval(secs => %s))",
        job["id"], job["token"], step or f"signal:{name}#1", name, key, timeout,
    )  # fmt: skip
    return row["state"], row["data"]


def send(db: Db, data: Any = None, name: str = "paid", key: str | None = None) -> tuple[int, bool]:
    row = one(db, "SELECT * FROM signal(%s, %s, %s)", name, None if data is None else Jsonb(data), key)
    return row["woken"], row["kept"]


def live(db: Db, job: Row) -> Row:
    return one(
        db, "SELECT status, attempts, worker_id, token, has_steps, checkpoint FROM live WHERE id = %s", job["id"]
    )


def left_over(db: Db) -> list[Row]:
    return [
        row
        for table in ("signal_channels", "signals")
        for row in db.execute(f"SELECT signal, key FROM {table}".encode()).fetchall()
    ]


def test_a_job_that_waits_is_due_when_its_signal_comes_and_costs_no_attempt(db: Db) -> None:
    job = running(db, max_attempts=1)
    assert wait(db, job, key="17") == ("waiting", None)
    waiting = live(db, job)
    assert (waiting["status"], waiting["attempts"], waiting["worker_id"]) == ("pending", 0, None)
    assert db.execute("SELECT FROM live WHERE run_at = 'infinity'").rowcount == 1
    assert db.execute("SELECT FROM claim('w', '{order}')").rowcount == 0

    assert send(db, "other", key="18") == (0, True)
    assert send(db, "other") == (0, True)
    assert live(db, job)["token"] == waiting["token"]
    assert send(db, {"euro": 5}, key="17") == (1, False)
    again = claimed(db)
    assert (again["id"], again["attempts"], again["first_due_at"]) == (job["id"], 1, job["first_due_at"])
    # Each attempt gets the same answer, and takes nothing more.
    for _ in range(2):
        assert wait(db, again, key="17") == ("done", {"euro": 5})
    assert wait(db, again, key="18", step="signal:paid:18#1") == ("done", "other")
    assert left_over(db) == [{"signal": "paid", "key": ""}] * 2


def test_a_signal_wakes_all_that_wait_and_otherwise_is_kept_first_in_first_out(db: Db) -> None:
    jobs = [running(db) for _ in range(3)]
    assert {wait(db, job) for job in jobs} == {("waiting", None)}
    assert send(db, 1) == (3, False)
    assert [send(db, n) for n in (2, 3, None)] == [(0, True)] * 3
    first, second, third = (claimed(db) for _ in jobs)
    assert [wait(db, job) for job in (first, second, third)] == [("done", 1)] * 3
    assert wait(db, second, step="signal:paid#2") == ("done", 2)
    assert wait(db, first, step="signal:paid#2") == ("done", 3)
    assert wait(db, first, step="signal:paid#3") == ("done", None)
    assert wait(db, first, step="signal:paid#4") == ("waiting", None)


def test_a_wait_times_out_once_and_for_all(db: Db, clock: TestClock) -> None:
    job = running(db)
    assert wait(db, job, timeout=60) == ("waiting", None)
    clock.advance(59)
    assert db.execute("SELECT FROM claim('w', '{order}')").rowcount == 0
    clock.advance(1)
    again = claimed(db)
    # A later attempt with another timeout does not begin a new wait.
    assert wait(db, again, timeout=600) == ("timed out", None)
    assert send(db, "late") == (0, True)
    assert wait(db, again) == ("timed out", None)
    assert wait(db, again, step="signal:paid#2", timeout=0) == ("done", "late")
    assert wait(db, again, step="signal:paid#3", timeout=0) == ("timed out", None)
    assert left_over(db) == []


def test_a_signal_that_comes_while_the_time_out_is_being_noticed_is_not_lost(db: Db, clock: TestClock) -> None:
    job = running(db)
    wait(db, job, timeout=60)
    clock.advance(60)
    again = claimed(db)
    assert send(db, "just now") == (0, True)
    assert wait(db, again, timeout=60) == ("done", "just now")


def test_a_job_whose_wait_was_interrupted_by_a_failure_does_not_take_the_signal_before_it_asks(
    db: Db, clock: TestClock
) -> None:
    job = running(db)
    wait(db, job, timeout=60)
    clock.advance(60)
    again = claimed(db)
    db.execute("SELECT FROM fail(%s, %s, '{oops}', p_delays => '{1 hour}')", ([job["id"]], [again["token"]]))
    assert send(db, 1) == (0, True)
    assert db.execute("SELECT FROM claim('w', '{order}')").rowcount == 0, "the delay of its retry stays"
    clock.advance(3600)
    assert wait(db, claimed(db)) == ("done", 1)


def test_a_stale_claim_can_neither_wait_nor_sleep_nor_record(db: Db) -> None:
    job = running(db)
    stale = {**job, "token": job["token"] - 1}
    assert wait(db, stale) == ("lost", None)
    assert one(db, "SELECT sleep_until(%s, %s, 'sleep#1')", stale["id"], stale["token"])["sleep_until"] == "lost"
    assert one(db, "SELECT record_step(%s, %s, 'a')", stale["id"], stale["token"])["record_step"] is False
    assert live(db, job)["status"] == "running"
    assert (db.execute("SELECT FROM steps").rowcount, left_over(db)) == (0, [])


def test_a_sleep_ends_at_the_moment_of_its_first_call(db: Db, clock: TestClock) -> None:
    def sleep(job: Row, seconds: float) -> str:
        sleeps = "SELECT sleep_until(%s, %s, 'sleep#1', p_delay => make_interval(secs => %s)) AS state"
        return str(one(db, sleeps, job["id"], job["token"], seconds)["state"])

    job = running(db)
    assert sleep(job, 60) == "waiting"
    assert one(db, "SELECT because FROM queue_position(%s)", job["id"])["because"].startswith("it sleeps until ")
    clock.advance(59)
    assert db.execute("SELECT FROM claim('w', '{order}')").rowcount == 0
    clock.advance(1)
    again = claimed(db)
    assert (again["attempts"], sleep(again, 60)) == (1, "done")


def test_only_its_signal_releases_a_job_that_waits(db: Db, plain_role: Db) -> None:
    job = running(db, "order")
    wait(db, job, key="17")
    ids = [job["id"]]
    assert db.execute("SELECT FROM reschedule(%s)", (ids,)).rowcount == 0
    row = one(db, "SELECT * FROM change_selected('reschedule', p_everything => true)")
    assert (row["changed"], row["unchanged"]) == (0, 1)
    assert db.execute("SELECT FROM retry(%s)", (ids,)).rowcount == 0
    for change in ("status = 'running', worker_id = 'x'", "status = 'completed'"):
        assert plain_role.execute(f"UPDATE howdah.jobs SET {change}".encode()).rowcount == 0
    plain_role.execute("UPDATE howdah.jobs SET priority = 7")
    because = one(db, "SELECT because, ahead FROM queue_position(%s)", job["id"])["because"]
    assert because.startswith("it waits for the signal paid (key 17) since ")
    assert send(db, key="17") == (1, False)
    assert claimed(db)["priority"] == 7


def test_what_ends_while_it_waits_leaves_nothing_behind(db: Db, clock: TestClock) -> None:
    cancelled, deleted, gone, expired = (running(db) for _ in range(4))
    for job in (cancelled, deleted, gone, expired):
        wait(db, job)
    db.execute("UPDATE live SET expires_at = clock(), own_write = NOT own_write WHERE id = %s", (expired["id"],))
    db.execute("SELECT FROM cancel(%s)", ([cancelled["id"]],))
    db.execute("SELECT FROM delete_jobs(%s)", ([deleted["id"]],))
    db.execute("DELETE FROM jobs WHERE id = %s", (gone["id"],))
    clock.advance(1)
    assert {row["reason"] for row in db.execute("SELECT reason FROM recover()").fetchall()} == {"expired"}
    assert send(db) == (0, True)
    assert db.execute("SELECT FROM steps").rowcount == 0
    # Cancelled while it ran: it ends, instead of waiting.
    job = running(db, "asked")
    db.execute("SELECT FROM cancel(%s)", ([job["id"]],))
    assert wait(db, job, name="other") == ("waiting", None)
    assert one(db, "SELECT status FROM jobs WHERE id = %s", job["id"])["status"] == "cancelled"
    assert (db.execute("SELECT FROM steps").rowcount, left_over(db)) == (0, [{"signal": "paid", "key": ""}] * 2)


def test_steps_are_kept_for_a_retry_and_go_with_the_job(db: Db, clock: TestClock) -> None:
    job = running(db, max_attempts=1)
    db.execute("SELECT FROM record_step(%s, %s, 'charge', '5')", (job["id"], job["token"]))
    db.execute("SELECT FROM checkpoint(%s, %s, '1')", (job["id"], job["token"]))
    assert wait(db, job, timeout=0)[0] == "timed out"
    db.execute("SELECT FROM fail(%s, %s, '{oops}')", ([job["id"]], [job["token"]]))

    def retried(**options: bool) -> list[str]:
        db.execute("SELECT FROM retry(p_ids => %s, p_fresh => %s)", ([job["id"]], options.get("fresh", False)))
        assert live(db, job)["has_steps"] is True
        return [row["name"] for row in db.execute("SELECT name FROM steps_of(%s)", (job["id"],)).fetchall()]

    # What timed out is waited for again.
    assert (retried(), live(db, job)["checkpoint"]) == (["charge"], 1)
    db.execute("SELECT FROM cancel(%s)", ([job["id"]],))
    assert (retried(fresh=True), live(db, job)["checkpoint"]) == ([], None)

    again = claimed(db)
    db.execute("SELECT FROM record_step(%s, %s, 'charge', '5')", (again["id"], again["token"]))
    db.execute("SELECT FROM complete(%s, %s)", ([again["id"]], [again["token"]]))
    assert db.execute("SELECT FROM steps").rowcount == 1
    db.execute("SELECT FROM rotate('0')")
    clock.advance(1)
    db.execute("SELECT FROM bound_segments()")
    db.execute("SELECT FROM prune('0')")
    assert (db.execute("SELECT FROM jobs").rowcount, db.execute("SELECT FROM steps").rowcount) == (0, 0)


def test_kept_signals_go_after_the_retention(db: Db, clock: TestClock) -> None:
    send(db, "old", key="1")
    send(db, "old", key="2")
    clock.advance(8 * 86400)
    send(db, "new", key="2")
    clock.advance(7 * 86400)
    # Also before a sweep has removed them.
    assert wait(db, running(db), key="2") == ("done", "new")
    send(db, "newer", key="2")
    db.execute("SELECT FROM recover()")
    assert left_over(db) == [{"signal": "paid", "key": "2"}] * 2


def test_a_locked_job_gets_its_signal_when_the_lock_is_released(db: Db, connect: Connect) -> None:
    jobs = [running(db), running(db)]
    for job in jobs:
        wait(db, job)
    other = connect(autocommit=False)
    other.execute("SELECT FROM live WHERE id = %s FOR UPDATE", (jobs[0]["id"],))
    # It waits for nothing.
    db.execute("SET statement_timeout = '10s'")
    assert send(db, 1) == (2, False)
    assert db.execute("SELECT FROM claim('w', '{order}', 10)").rowcount == 1
    db.execute("SELECT FROM recover()")
    assert db.execute("SELECT FROM claim('w', '{order}', 10)").rowcount == 0
    other.rollback()
    db.execute("SELECT FROM recover()")
    assert wait(db, claimed(db)) == ("done", 1)
    assert db.execute("SELECT FROM steps WHERE held_back").rowcount == 0


def test_a_transaction_that_sends_a_signal_delays_only_those_that_ask_for_it(db: Db, connect: Connect) -> None:
    first, second, third = (running(db) for _ in range(3))
    wait(db, first)
    other = connect(autocommit=False)
    assert send(other, 1) == (1, False)
    assert wait(db, second) == ("busy", None)
    assert live(db, second)["status"] == "running"
    assert wait(db, second, name="else") == ("waiting", None)
    assert db.execute("SELECT FROM complete(%s, %s)", ([third["id"]], [third["token"]])).rowcount == 1
    db.execute("SET lock_timeout = '1s'")
    with pytest.raises(psycopg.Error) as refused:
        send(db, 2)
    assert (refused.value.sqlstate, "was not sent" in str(refused.value)) == ("JQ023", True)
    other.rollback()
    # Nothing of it remains.
    assert send(db, 3) == (1, False)
    assert wait(db, claimed(db)) == ("done", 3)


def test_a_snapshot_from_before_the_wait_does_not_lose_it(db: Db, connect: Connect) -> None:
    job = running(db)
    other = connect()
    other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    other.execute("SELECT FROM live")
    wait(db, job)
    with pytest.raises(psycopg.errors.SerializationFailure):
        send(other, 1)
    other.execute("ROLLBACK")
    assert send(other, 2) == (1, False)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("signal('')", "'' is not the name of a signal"),
        ("signal(NULL)", "NULL is not the name"),
        ("signal('a', p_key => '')", "the key of the signal a is empty"),
        ("signal('a', p_key => repeat('x', 201))", "201 characters"),
        ("wait_signal(new_id(), 1, 's', 'a', p_timeout => '-1 s')", "timeout is"),
        ("sleep_until(new_id(), 1, 's', p_delay => '-1 s')", "delay is"),
        ("record_step(new_id(), 1, '')", "'' is not the name of a step"),
        ("record_step(new_id(), 1, 'sleep#1')", "'sleep#1' is not the name of a step"),
    ],
)
def test_a_wrong_call_is_refused_with_the_reason(db: Db, call: str, problem: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        db.execute(f"SELECT {call}".encode())
    assert refused.value.sqlstate == "JQ001"
    assert problem in (refused.value.diag.message_primary or "")


def test_large_data_of_a_signal_is_refused(db: Db) -> None:
    db.execute("UPDATE settings SET max_payload_bytes = 65536")
    with pytest.raises(psycopg.Error) as refused:
        send(db, random.Random(1).randbytes(70_000).hex())
    assert refused.value.sqlstate == "JQ003"


# Races


def work_off(conn: Db, waits: int) -> None:
    """Runs jobs until none is left: each waits so many times, for the key in its data."""
    while conn.execute("SELECT FROM live").rowcount:
        for job in conn.execute("SELECT * FROM claim('w', '{order}', 1, 1)").fetchall():
            states = ["done"]
            while states[-1] == "done" and len(states) <= waits:
                states.append(wait(conn, job, key=job["data"]["key"], step=f"signal:paid#{len(states)}")[0])
            if states[-1] == "busy":
                conn.execute("SELECT FROM snooze(%s, %s)", ([job["id"]], [job["token"]]))
            elif states[-1] == "done":
                conn.execute("SELECT FROM complete(%s, %s)", ([job["id"]], [job["token"]]))


def test_no_signal_passes_a_job_that_is_about_to_wait_for_it(db: Db, connect: Connect) -> None:
    keys = [f"k{n}" for n in range(150)]
    for key in keys:
        db.execute("SELECT FROM enqueue('order', %s)", (Jsonb({"key": key}),))
    workers, senders = [connect() for _ in range(4)], [connect() for _ in range(3)]

    def sends(conn: Db, some: list[str]) -> None:
        for key in random.Random(len(some)).sample(some, len(some)):
            send(conn, key, key=key)

    with ThreadPoolExecutor(7) as pool:
        tasks = [pool.submit(sends, conn, keys[n::3]) for n, conn in enumerate(senders)]
        tasks += [pool.submit(work_off, conn, 1) for conn in workers]
        for task in tasks:
            task.result(120)
    assert db.execute("SELECT FROM steps WHERE state = 'done' AND result = to_jsonb(key)").rowcount == len(keys)
    assert left_over(db) == []


def test_each_kept_signal_is_taken_once_and_in_order(db: Db, connect: Connect) -> None:
    for _ in range(30):
        db.execute("SELECT FROM enqueue('order', %s)", (Jsonb({"key": "one"}),))
    workers, sender = [connect() for _ in range(5)], connect()
    answers: dict[int, tuple[int, bool]] = {}

    def sends() -> None:
        while sender.execute("SELECT FROM live").rowcount:
            answers[len(answers)] = send(sender, len(answers), key="one")

    with ThreadPoolExecutor(6) as pool:
        tasks = [pool.submit(sends), *(pool.submit(work_off, conn, 3) for conn in workers)]
        for task in tasks:
            task.result(120)
    got = db.execute("SELECT result::int AS n, count(*) AS jobs FROM steps GROUP BY 1").fetchall()
    taken = {row["n"]: row["jobs"] for row in got}
    kept = {row["n"] for row in db.execute("SELECT data::int AS n FROM signals").fetchall()}
    assert {n: taken.get(n, 0) for n in answers} == {
        n: woken or (0 if n in kept else 1) for n, (woken, _) in answers.items()
    }
    # What is left was sent after everything that was taken.
    assert not kept or min(kept) > max(taken)
    in_order = "SELECT job_id, array_agg(result::int ORDER BY name) AS got FROM steps GROUP BY 1"
    for row in db.execute(in_order).fetchall():
        assert row["got"] == sorted(set(row["got"]))
