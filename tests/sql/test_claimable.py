"""claimable: the pending jobs that may be claimed now, for loops of SELECT … FOR UPDATE SKIP LOCKED and UPDATE."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from howdah import JobQueue
from tests.conftest import Connect, Db
from tests.sql import seed
from tests.sql.plain import (
    CLAIM_BY_ID,
    change,
    insert,
    loop_over,
    one,
    row_of,
    run_connected,
    running,
    send,
    until_blocked,
)


def test_claimable_has_the_columns_of_jobs(db: Db) -> None:
    rows = send(
        db,
        "SELECT attname, format_type(atttypid, atttypmod) AS type FROM pg_attribute"
        " WHERE attrelid = 'claimable'::regclass AND attnum > 0 ORDER BY attnum",
    )
    assert tuple((row["attname"], row["type"]) for row in rows) == seed.COLUMNS


def make_what_cannot_be_claimed(db: Db, queue: JobQueue) -> None:
    """One job of each kind that is pending and cannot be claimed, all of a high priority; and held ones."""
    queue.enqueue("later", priority=900, delay=3600)
    queue.enqueue("paused", priority=900)
    queue.pause("paused")
    queue.enqueue("expired", priority=900, expires_in=3600)
    send(
        db,
        "UPDATE live SET expires_at = now() - interval '1 minute', own_write = NOT own_write WHERE job_type = 'expired'",
    )
    send(db, "INSERT INTO jobs (job_type, priority, attempts, max_attempts) VALUES ('spent', 900, 3, 3)")
    db.execute("SELECT declare_type('busy', p_ordered => true)")
    queue.enqueue("busy", priority=900)
    queue.enqueue("busy", priority=900)
    queue.claim(["busy"])
    running(db, "held")


def test_claimable_leaves_out_what_cannot_be_claimed_now(db: Db, queue: JobQueue) -> None:
    make_what_cannot_be_claimed(db, queue)
    assert send(db, "SELECT * FROM claimable") == []
    due = insert(db, 2)
    assert sorted(row["id"] for row in send(db, "SELECT * FROM claimable")) == sorted(due)
    assert send(db, "SELECT * FROM claimable ORDER BY id") == send(
        db, "SELECT * FROM jobs WHERE id = ANY($1) ORDER BY id", due
    )


def test_claimable_shows_the_first_of_an_ordered_type_that_is_not_busy(db: Db, queue: JobQueue) -> None:
    db.execute("SELECT declare_type('line', p_ordered => true)")
    jobs = [queue.enqueue("line") for _ in range(3)]
    for job in jobs:
        assert [row["id"] for row in send(db, "SELECT id FROM claimable")] == [job.id]
        assert loop_over(db, "claimable") == [job.id]
        assert send(db, "SELECT id FROM claimable") == []
        assert change(db, seed.COMPLETE, job.id) == 1
    assert send(db, "SELECT id FROM claimable") == []


def test_a_two_statement_loop_over_claimable_never_looks_at_a_job_that_it_cannot_claim(db: Db, queue: JobQueue) -> None:
    make_what_cannot_be_claimed(db, queue)
    due = insert(db, 20)
    assert loop_over(db, "claimable", most=21) == due
    # Over jobs, it looks at the job of the highest priority again and again.
    insert(db)
    assert loop_over(db, "jobs", most=5) == []


def test_a_loop_over_claimable_claims_in_the_order_that_it_asks_for(db: Db) -> None:
    rows = send(
        db, "INSERT INTO jobs (job_type, priority, created_at) SELECT 'x', p, now() - make_interval(secs => n)"
        " FROM (VALUES (30, 1), (150, 2), (150, 3), (100, 4), (30, 5)) AS v (p, n) RETURNING id, priority, created_at",
    )  # fmt: skip
    rows.sort(key=lambda row: (-row["priority"], row["created_at"]))
    assert loop_over(db, "claimable") == [row["id"] for row in rows]


def test_claimable_locks_the_job(db: Db, connect: Connect) -> None:
    first, second = insert(db, 2)
    holder, other = connect(), connect()
    with holder.transaction():
        assert one(holder, "SELECT id FROM claimable WHERE id = $1 FOR UPDATE", first)
        free = send(other, "SELECT id FROM claimable FOR UPDATE SKIP LOCKED")
        assert [row["id"] for row in free] == [second]
        assert [row["id"] for row in send(other, seed.CLAIM, "other", ["x"], 10)] == [second]


def test_a_look_at_claimable_that_waited_for_a_claim_does_not_see_the_job(db: Db, connect: Connect) -> None:
    (job_id,) = insert(db)
    holder, other = connect(), connect()
    with ThreadPoolExecutor(1) as pool:
        with holder.transaction():
            assert change(holder, CLAIM_BY_ID, "first", job_id) == 1
            waiting = pool.submit(send, other, "SELECT id FROM claimable WHERE id = $1 FOR UPDATE", job_id)
            until_blocked(db, other)
        assert waiting.result() == []


def test_clients_that_loop_over_claimable_beside_howdah_get_no_job_twice(db: Db, connect: Connect) -> None:
    db.execute("SELECT declare_type('line', p_ordered => true)")
    expected = sorted([*insert(db, 300), *insert(db, 20, "line")])
    taken: list[uuid.UUID] = []

    def plain(conn: Db) -> None:
        while send(conn, "SELECT id FROM jobs WHERE status = 'pending' LIMIT 1"):
            for job_id in loop_over(conn, "claimable", most=5):
                taken.append(job_id)
                assert change(conn, seed.COMPLETE, job_id) == 1

    def howdah(conn: Db) -> None:
        while send(conn, "SELECT id FROM jobs WHERE status = 'pending' LIMIT 1"):
            for row in send(conn, seed.CLAIM, "howdah", ["x", "line"], 5):
                taken.append(row["id"])
                assert change(conn, seed.COMPLETE, row["id"]) == 1

    run_connected(connect, plain, plain, plain, howdah)
    assert sorted(taken) == expected


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE claimable SET status = 'claimed'",
        "DELETE FROM claimable",
        "INSERT INTO claimable (job_type) VALUES ('x')",
    ],
)
def test_writes_through_claimable_are_refused(db: Db, statement: str) -> None:
    (job_id,) = insert(db)
    with pytest.raises(psycopg.Error, match="claimable is for SELECT") as caught:
        db.execute(statement.encode())
    assert caught.value.sqlstate == "JQ005"
    assert row_of(db, job_id)["status"] == "pending"


def test_a_job_that_was_added_after_the_transaction_began_can_be_claimed_in_it(db: Db, connect: Connect) -> None:
    """The client sees it and locks it: if its claim were refused, the client would run it nevertheless."""
    client = connect(autocommit=False)
    client.execute("SELECT")
    job = db.execute("INSERT INTO jobs (job_type) VALUES ('a') RETURNING id").fetchone()
    for relation in ("claimable", "jobs"):
        locked = client.execute(f"SELECT id FROM {relation} WHERE status = 'pending' FOR UPDATE SKIP LOCKED".encode())
        assert locked.fetchall() == [job]
    claim = "UPDATE jobs SET status = 'claimed', worker_id = 'w', claimed_at = now(), attempts = attempts + 1"
    assert client.execute(claim).rowcount == 1


def test_a_claim_in_an_open_transaction_holds_its_key_and_others_pass_it_by(
    db: Db, queue: JobQueue, connect: Connect
) -> None:
    queue.limits.set(5, job_type="x", each_key=True)
    acme, *more = (queue.enqueue("x", per=key) for key in ("acme", "acme", "bolt"))
    with connect(autocommit=False) as mine:
        assert change(mine, CLAIM_BY_ID, "loop", acme.id) == 1
        assert [job.flow_key for job in queue.claim(["x"], 5)] == ["bolt"]
        mine.commit()
    assert [job.id for job in queue.claim(["x"], 5)] == [more[0].id]


def test_a_claim_in_an_open_transaction_holds_a_type_with_a_limit(db: Db, queue: JobQueue, connect: Connect) -> None:
    queue.limits.set(5, job_type="x")
    first, second = (queue.enqueue("x", per=key) for key in ("acme", "bolt"))
    other = queue.enqueue("y")
    with connect(autocommit=False) as mine:
        assert change(mine, CLAIM_BY_ID, "loop", first.id) == 1
        assert [job.id for job in queue.claim(["x", "y"], 5)] == [other.id]
        mine.commit()
    assert [job.id for job in queue.claim(["x", "y"], 5)] == [second.id]
