"""Limits and orders hold whatever a plain SQL client writes, and what it leaves open holds up no more than it must."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from howdah import JobQueue
from tests.conftest import Connect, Db
from tests.sql import seed
from tests.sql.plain import CLAIM_BY_ID, change, claimed, insert, loop_over, row_of, send

CLAIM_ALL = "UPDATE jobs SET status = 'running', worker_id = 'w', attempts = attempts + 1 WHERE status = 'pending'"
HELD = "SELECT FROM jobs WHERE job_type = $1 AND status IN ('claimed', 'running')"
RULES: dict[str, str] = {
    "a limit of the type": "SELECT set_limit('x', p_running => 1)",
    "a limit of each key": "SELECT set_limit('x', p_running => 1, p_each_key => true)",
    "an order": "SELECT declare_type('x', p_ordered => true)",
}
every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)


def held(db: Db, job_type: str = "x") -> int:
    return len(send(db, HELD, job_type))


# No way around a limit or an order


@every_rule
@pytest.mark.parametrize("statement", [CLAIM_ALL, seed.OWN_CLAIM], ids=["of all", "of the seed"])
def test_a_claim_of_many_jobs_gets_those_for_which_there_is_room(db: Db, rule: str, statement: str) -> None:
    db.execute(rule.encode())
    insert(db, 5)
    for _ in range(2):
        send(db, statement, *(["w", ["x"], 5] if statement == seed.OWN_CLAIM else []))
        assert held(db) == 1


@every_rule
def test_a_job_that_has_no_flow_key_yet_cannot_be_claimed(db: Db, rule: str) -> None:
    """A new rule reaches a large backlog bit by bit. What it has not reached would count for no limit."""
    insert(db, 6000)
    db.execute(rule.encode())
    unreached = send(db, "SELECT id FROM live WHERE flow_key IS NULL")
    assert unreached
    assert [change(db, CLAIM_BY_ID, "w", row["id"]) for row in unreached[:3]] == [0, 0, 0]
    assert len(send(db, "SELECT FROM claimable WHERE id = ANY($1)", [row["id"] for row in unreached])) == 0
    for _ in range(3):
        db.execute("SELECT recover()")
    assert len(loop_over(db, "claimable", 3)) == held(db) == 1


@every_rule
@pytest.mark.parametrize("status", ["claimed", "running"])
def test_deviation_3_a_job_cannot_be_inserted_as_held_where_there_are_limits_or_orders(
    db: Db, rule: str, status: str
) -> None:
    db.execute(rule.encode())
    with pytest.raises(psycopg.Error, match="cannot be inserted as held") as refused:
        send(db, "INSERT INTO jobs (job_type, status, worker_id) VALUES ('x', $1, 'w')", status)
    assert refused.value.sqlstate == "JQ005"
    assert send(db, "SELECT FROM jobs") == []
    assert change(db, "INSERT INTO jobs (job_type, status) VALUES ('x', 'pending'), ('x', 'completed')") == 2


@every_rule
def test_deviation_3_a_held_job_cannot_change_to_a_type_with_limits_or_orders(db: Db, rule: str) -> None:
    db.execute(rule.encode())
    job_id = claimed(db, "y")
    assert change(db, "UPDATE jobs SET job_type = 'x' WHERE id = $1", job_id) == 0
    assert change(db, "UPDATE jobs SET job_type = 'z' WHERE id = $1", job_id) == 1
    assert row_of(db, job_id)["job_type"] == "z"


@every_rule
def test_a_claim_that_changes_the_type_obeys_the_limits_and_orders_of_the_new_one(db: Db, rule: str) -> None:
    db.execute(rule.encode())
    insert(db, 5, "y")
    change(db, CLAIM_ALL.replace("status = 'running'", "status = 'running', job_type = 'x'"))
    assert held(db) <= 1
    assert held(db, "y") == 0


def test_a_type_that_has_lost_its_order_gives_all_its_jobs(db: Db) -> None:
    """Its jobs lose it bit by bit, too, and one that has not must not stand in the way of another."""
    db.execute("SELECT declare_type('x', p_ordered => true, p_per => 'key')")
    ids = [*insert(db, 5001)]
    db.execute("SELECT declare_type('x', p_per => 'key')")
    first, second = (row["id"] for row in send(db, "SELECT id FROM live ORDER BY order_key NULLS LAST LIMIT 2"))
    assert {first, second} <= set(ids)
    db.execute("UPDATE live SET order_key = '', own_write = NOT own_write WHERE id = ANY (%s)", ([first, second],))
    assert [change(db, CLAIM_BY_ID, "w", job_id) for job_id in (first, second)] == [1, 1]


# What claimable shows


def test_claimable_leaves_out_jobs_of_a_group_that_has_no_room(db: Db, queue: JobQueue) -> None:
    queue.limits.set(1, group="g")
    db.execute("SELECT declare_type('x', p_groups => ARRAY['g'])")
    for _ in range(2):
        queue.enqueue("x", priority=900)
    others = insert(db, 2, "y")
    assert loop_over(db, "claimable", most=4)[1:] == others


def test_claimable_shows_the_next_job_where_an_order_skips(db: Db, queue: JobQueue) -> None:
    db.execute("SELECT declare_type('x', p_ordered => true, p_order_skips => true)")
    first, second = queue.enqueue("x"), queue.enqueue("x")
    (waiting,) = queue.claim(["x"])
    queue.fail(waiting, "later", delay=3600)
    assert waiting.id == first.id
    assert loop_over(db, "claimable") == [second.id]


# What a client leaves open


@pytest.mark.parametrize("claim", ["of Howdah", "of a plain client"])
def test_deviation_2_an_idle_claim_of_a_new_key_holds_up_no_other_key(
    db: Db, connect: Connect, queue: JobQueue, claim: str
) -> None:
    """The rows of all keys are new, and the claim adds the row of its own."""
    queue.limits.set(1, job_type="x", each_key=True)
    jobs = [queue.enqueue("x", per=key) for key in "abcab"]
    idle, other = connect(), connect()
    with idle.transaction():
        assert change(idle, CLAIM_BY_ID, "idle", jobs[0].id) == 1
        found = [job.id for job in queue.claim(["x"], 5)] if claim == "of Howdah" else loop_over(other, "claimable")
        assert sorted(found) == [jobs[1].id, jobs[2].id]
    assert change(db, seed.COMPLETE, jobs[0].id) == 1
    assert [job.id for job in queue.claim(["x"], 5)] == [jobs[3].id]


def test_a_refused_claim_does_not_hold_up_a_type_with_a_limit(db: Db, connect: Connect, queue: JobQueue) -> None:
    queue.limits.set(1, job_type="x")
    _, second, third = (queue.enqueue("x") for _ in range(3))
    (running,) = queue.claim(["x"])
    client = connect()
    with client.transaction():
        assert change(client, CLAIM_BY_ID, "w", third.id) == 0
        queue.complete(running)
        assert [job.id for job in queue.claim(["x"])] == [second.id]


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_deviation_2_an_operator_does_not_wait_for_ever_for_a_lock(
    db: Db, connect: Connect, queue: JobQueue, verb: str
) -> None:
    queue.limits.set(2, job_type="x")
    insert(db, 2)
    idle, operator = connect(), connect()
    operator.execute("SET statement_timeout = '60s'")
    if verb == "resume":
        queue.pause("x")
    with idle.transaction():
        idle.execute("SELECT FROM types FOR UPDATE")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            send(operator, f"SELECT {verb}_type('x')")
    assert send(operator, f"SELECT {verb}_type('x') AS done") == [{"done": True}]


def test_an_idle_claim_holds_up_neither_an_operator_nor_a_failure_that_pauses_its_type(
    db: Db, connect: Connect, queue: JobQueue
) -> None:
    db.execute("SELECT declare_type('x', p_ordered => true, p_pause_on_failure => true, p_per => 'key')")
    queue.limits.set(5, job_type="x")
    db.execute("SELECT recover()")
    for key in "ab":
        queue.enqueue("x", {"key": key}, max_attempts=1)
    (held,) = queue.claim(["x"], 1)
    (waiting,) = queue.list(status="pending")
    idle, client = connect(), connect()
    with idle.transaction():
        assert change(idle, CLAIM_BY_ID, "idle", waiting.id) == 1
        send(client, "SELECT set_limit('x', p_running => 4)")
        assert change(client, seed.FAIL, held.id, "broken") == 1
        assert queue.get(held.id).status == "failed"
        assert queue.stats()["x"].paused


def test_a_failure_that_pauses_its_type_does_not_wait_for_ever_for_an_operator(
    db: Db, connect: Connect, queue: JobQueue
) -> None:
    """It is not recorded without the pause: the next job would run."""
    db.execute("SELECT declare_type('x', p_ordered => true, p_pause_on_failure => true)")
    queue.enqueue("x", max_attempts=1)
    (held,) = queue.claim(["x"], 1)
    operator, client = connect(), connect()
    client.execute("SET statement_timeout = '60s'")
    with operator.transaction():
        send(operator, "SELECT set_limit('x', p_running => 4)")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            change(client, seed.FAIL, held.id, "broken")
    assert queue.get(held.id).status == "claimed"
    assert change(client, seed.FAIL, held.id, "broken") == 1
    assert queue.stats()["x"].paused


# Stricter transactions


@pytest.mark.parametrize("isolation", [psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE])
@every_rule
def test_deviation_2_a_claim_in_a_transaction_that_cannot_count_is_an_error(
    db: Db, connect: Connect, rule: str, isolation: Any
) -> None:
    db.execute(rule.encode())
    (job_id,) = insert(db)
    strict = connect(autocommit=False)
    strict.commit()
    strict.isolation_level = isolation
    with pytest.raises(psycopg.Error, match="needs a READ COMMITTED transaction") as refused:
        send(strict, CLAIM_BY_ID, "w", job_id)
    assert refused.value.sqlstate == "JQ001"
    strict.rollback()
    # All others can be claimed.
    (other,) = insert(db, job_type="y")
    assert change(strict, CLAIM_BY_ID, "w", other) == 1
    strict.commit()
