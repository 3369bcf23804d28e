"""What cannot run holds up nothing else: crowds of keys that are full or stopped, locks of others, and transactions left open."""

from __future__ import annotations

import pytest

from howdah import JobQueue
from tests.conftest import Connect, Db
from tests.plans.test_claim_buffers import buffers
from tests.size import FULL
from tests.sql.plain import CLAIM_BY_ID, change
from tests.sql.test_flow import add, declare, keys

CROWD = 100_000 if FULL else 3_000


def until_claimed(queue: JobQueue, most: int) -> list[str]:
    """The keys of the first claim that gets a job."""
    for _ in range(most):
        if held := queue.claim(["t"], 10):
            return keys(held)
    return []


def test_a_key_behind_a_crowd_of_stopped_ones_has_its_turn(db: Db, queue: JobQueue) -> None:
    declare(db, per="key")
    queue.limits.set(0, job_type="t", each_key=True)
    queue.limits.set(1, job_type="t", per="z")
    queue.enqueue_many("t", ({"key": f"key {n}"} for n in range(CROWD)))
    add(queue, "z", 1)
    # Each claim looks at some of them at least.
    assert until_claimed(queue, CROWD // 10) == ["z"]


def test_stopped_keys_cost_a_claim_nothing(db: Db, queue: JobQueue) -> None:
    declare(db, per="key")
    queue.limits.set(0, job_type="t", each_key=True)
    queue.enqueue_many("t", ({"key": f"key {n}"} for n in range(CROWD)))
    resting = "SELECT count(*) AS n FROM flow_keys WHERE rests_until = 'infinity'"
    while db.execute(resting).fetchone() != {"n": CROWD}:
        assert queue.claim(["t"], 10) == []
    db.execute("VACUUM ANALYZE live")
    claim = "SELECT * FROM claim('w', '{t}', 10)"
    buffers(db, claim)
    assert buffers(db, claim) < 200


@pytest.mark.parametrize("each_key", [True, False])
def test_a_stopped_key_goes_on_with_its_next_limit(db: Db, queue: JobQueue, each_key: bool) -> None:
    declare(db, per="key")
    options = {"each_key": True} if each_key else {"per": "a"}
    queue.limits.set(0, job_type="t", **options)
    add(queue, "a", 1, 2)
    assert [queue.claim(["t"], 10) for _ in range(2)] == [[], []]
    queue.limits.set(2 if each_key else None, job_type="t", **options)
    assert keys(queue.claim(["t"], 10)) == ["a", "a"]


def test_a_crowd_of_full_keys_is_passed_without_a_lock(db: Db, queue: JobQueue) -> None:
    declare(db, per="key", limit=1)
    queue.enqueue_many("t", ({"key": f"key {n % CROWD}"} for n in range(2 * CROWD)))
    held = 0
    while jobs := queue.claim(["t"], 500):
        held += len(jobs)
    assert held == CROWD
    add(queue, "z", 1)
    assert until_claimed(queue, CROWD // 100) == ["z"]
    db.execute("VACUUM ANALYZE live")
    with db.transaction():
        assert db.execute("SELECT FROM claim('w', '{t}', 10)").fetchall() == []
        # The first keys are looked at under their locks, and all others are not.
        locked = "SELECT count(*) AS n FROM flow_keys WHERE xmax = pg_current_xact_id()::xid"
        row = db.execute(locked).fetchone()
    assert row is not None
    assert row["n"] < 200


def test_a_locked_group_holds_up_a_claim_of_many_of_its_types_once(db: Db, queue: JobQueue, connect: Connect) -> None:
    """It waits 100 ms for each of them otherwise."""
    queue.limits.set(50, group="g")
    types = [f"t{n}" for n in range(40)]
    for job_type in types:
        declare(db, job_type, groups=["g"])
    jobs = [queue.enqueue(job_type) for job_type in types]
    plain = queue.enqueue("plain")
    idle = connect()
    claimer = connect()
    claimer.execute("SET statement_timeout = '3s'")
    with idle.transaction():
        assert change(idle, CLAIM_BY_ID, "idle", jobs[0].id) == 1
        claimed = claimer.execute("SELECT id FROM claim('w', %s, 50)", ([*types, "plain"],)).fetchall()
        assert claimed == [{"id": plain.id}]
    assert len(queue.claim(types, 50)) == len(types) - 1


def test_an_open_transaction_does_not_make_each_claim_write_the_type(db: Db, queue: JobQueue, connect: Connect) -> None:
    """Any login can leave one open. Every enqueue reads the row, and would wade through its versions."""
    with connect().transaction():
        queue.limits.set(3, job_type="t")
        add(queue, "a", *range(20))
        version = "SELECT xmin, ctid, settling FROM types WHERE job_type = 't'"
        # On a slow machine, a claim may leave it to the next ones to look for transactions.
        while not (before := db.execute(version).fetchone() or {}).get("settling"):
            queue.claim(["t"], 1)
        for _ in range(5):
            queue.claim(["t"], 1)
        assert db.execute(version).fetchone() == before
