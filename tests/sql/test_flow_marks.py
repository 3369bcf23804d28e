"""The next job of a key is the same whether the search for it begins at a mark or at the beginning."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from howdah import JobQueue
from tests.clock import TestClock
from tests.conftest import Connect, Db
from tests.plans.test_claim_buffers import buffers
from tests.sql.test_flow import add, declare, numbers


@pytest.fixture
def marking(db: Db, queue: JobQueue, connect: Connect) -> None:
    """An order with marks: entries of jobs that are gone stay in the index, because an old transaction is open."""
    declare(db, per="key", ordered=True)
    connect(autocommit=False).execute("SELECT pg_current_xact_id()")
    churn(queue)
    assert mark(db) is not None


def churn(queue: JobQueue, count: int = 60) -> None:
    add(queue, "a", *range(1000, 1000 + count))
    for _ in range(count):
        (job,) = queue.claim(["t"], 1)
        queue.complete(job)


def mark(db: Db) -> dict[str, Any] | None:
    return db.execute("SELECT (mark).* FROM flow_keys WHERE flow_key = 'a' AND mark IS NOT NULL").fetchone()


def enqueue(conn: Db, number: int, priority: int = 100, delay: float = 0) -> None:
    conn.execute(
        "SELECT howdah.enqueue('t', jsonb_build_object('key', 'a', 'n', %s::int), p_priority => %s, p_run_at => howdah.clock() + %s * interval '1 second')",
        (number, priority, delay),
    )


@pytest.mark.usefixtures("marking")
@pytest.mark.parametrize("committed", ["before the next mark", "after it"])
def test_a_job_that_is_committed_late_is_next(db: Db, queue: JobQueue, connect: Connect, committed: str) -> None:
    with connect().transaction() as late:
        enqueue(late.connection, 1)
        before = mark(db)
        churn(queue, 3 if committed == "before the next mark" else 60)
        add(queue, "a", 2)
    assert committed == "before the next mark" or mark(db) != before
    for number in (1, 2):
        (job,) = queue.claim(["t"], 5)
        assert numbers([job]) == [number]
        queue.complete(job)


@pytest.mark.usefixtures("marking")
def test_marks_are_not_used_in_another_cluster(db: Db, queue: JobQueue) -> None:
    # As after a restore: its transactions are ahead of ours.
    db.execute(
        "UPDATE flow_keys SET mark.xmax = '1000000000', mark.open = '{}', mark.first_due_at = 'infinity' WHERE mark IS NOT NULL"
    )
    add(queue, "a", 1)
    assert numbers(queue.claim(["t"], 5)) == [1]
    db.execute("SELECT restamp_events()")
    assert mark(db) is None


@pytest.mark.usefixtures("marking")
def test_the_search_for_the_next_job_passes_no_former_ones(db: Db, queue: JobQueue) -> None:
    add(queue, "a", *range(2000))
    costs = []
    for _ in range(300):
        with db.transaction():
            held = db.execute("SELECT id, token FROM claim('w', '{t}', 1)").fetchone()
            assert held is not None
            costs.append(buffers(db, "SELECT * FROM claim('w', '{t}', 1)"))
            db.execute("SELECT complete(ARRAY[%s]::uuid[], ARRAY[%s]::bigint[])", (held["id"], held["token"]))
    print(costs[::20])
    assert sum(costs[-20:]) < 2 * sum(costs[20:40])


class Storm:
    """Random calls, some of them in transactions that commit later or never."""

    def __init__(self, db: Db, queue: JobQueue, clock: TestClock, others: list[Db], seed: int) -> None:
        self.db, self.queue, self.clock, self.others = db, queue, clock, others
        self.random = random.Random(seed)
        self.held: list[Any] = []
        self.number = 0

    def step(self) -> None:
        steps: list[Callable[[], None]] = [self.work] * 8 + [self.add] * 6 + [self.change] * 2 + [self.end, self.move]
        self.random.choice(steps)()

    def add(self) -> None:
        """Mostly into transactions that stay open for a while."""
        self.number += 1
        conn = self.random.choice([self.db, *self.others])
        enqueue(conn, self.number, self.random.choice([100, 100, 100, 150]), self.random.choice([0, 0, 0, -5, -60, 2]))

    def end(self) -> None:
        conn = self.random.choice(self.others)
        self.random.choice([conn.commit, conn.rollback])()

    def move(self) -> None:
        self.clock.advance(self.random.choice([0.001, 1, 1, 30]))

    def work(self) -> None:
        self.held += self.queue.claim(["t"], 5)
        if not self.held:
            return
        job = self.held.pop()
        how = self.random.choice(["complete"] * 5 + ["fail", "release"])
        if how == "complete":
            self.queue.complete(job)
        elif how == "fail":
            self.queue.fail(job, "broken")
        else:
            self.queue.release(job)

    def change(self) -> None:
        """Something about a job that waits."""
        waiting = self.db.execute("SELECT id FROM jobs WHERE status = 'pending' ORDER BY random() LIMIT 1").fetchone()
        if waiting is None:
            return
        statement = self.random.choice(
            [
                "SELECT reprioritise(ARRAY[%s]::uuid[], 150)",
                "SELECT reprioritise(ARRAY[%s]::uuid[], 100)",
                "SELECT reschedule(ARRAY[%s]::uuid[], clock() - interval '30 seconds')",
                "UPDATE jobs SET priority = 150 WHERE id = %s",
            ]
        )
        self.db.execute(statement.encode(), (waiting["id"],))


@pytest.mark.usefixtures("marking")
@pytest.mark.parametrize("seed", range(4))
def test_the_search_from_a_mark_finds_what_the_whole_search_finds(
    db: Db, queue: JobQueue, clock: TestClock, connect: Connect, seed: int
) -> None:
    storm = Storm(db, queue, clock, [connect(autocommit=False) for _ in range(3)], seed)
    compared = (
        "SELECT (SELECT id FROM flow_head('t', 'a', k.mark)) AS from_mark, (SELECT id FROM flow_head('t', 'a')) AS whole"
        " FROM flow_keys AS k WHERE k.flow_key = 'a' AND k.mark IS NOT NULL"
    )
    marks = set()
    try:
        for _ in range(300):
            storm.step()
            if found := db.execute(compared).fetchone():
                assert found["from_mark"] == found["whole"]
                marks.add((mark(db) or {}).get("id"))
    finally:
        # They read the clock, which is removed next.
        for conn in storm.others:
            conn.rollback()
    assert len(marks) > 3
