"""Rates: jobs start as often as the buckets of their key, their type and its groups allow."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from howdah import InvalidInput, JobQueue, Rate
from howdah.model.job import Job
from tests.clock import TestClock
from tests.conftest import Connect, Db
from tests.rates import check_rate


def declare(db: Db, job_type: str = "t", rate: str | None = None, **options: Any) -> None:
    """rate: jobs, seconds and burst, as a row of SQL."""
    db.execute(
        "SELECT declare_type(%(job_type)s, p_ordered => %(ordered)s, p_per => %(per)s, p_limit => %(limit)s,"
        " p_groups => %(groups)s::text[], p_rate => %(rate)s::rate, p_cost => %(cost)s)",
        {
            "job_type": job_type,
            "ordered": False,
            "per": None,
            "limit": None,
            "groups": None,
            "cost": None,
            "rate": rate,
            **options,
        },
    )


def add(queue: JobQueue, count: int, key: str = "a", job_type: str = "t", **options: Any) -> list[Job]:
    return [queue.enqueue(job_type, {"key": key, "n": n}, **options) for n in range(count)]


def starts(queue: JobQueue, *types: str) -> int:
    """How many jobs can be claimed now."""
    return len(queue.claim(types or ["t"], 1000))


def starts_soon(queue: JobQueue) -> int:
    """The same after a step of the clock: for some tenths of a second, a session begins where nothing was due when it last looked."""
    end, found = time.monotonic() + 30, 0
    while not found and time.monotonic() < end:
        found = starts(queue)
    return found


def test_a_type_starts_its_burst_at_once_and_then_at_its_rate(db: Db, queue: JobQueue, clock: TestClock) -> None:
    declare(db, rate="(10, 1, 5)")
    add(queue, 30)
    assert [starts(queue), starts(queue)] == [5, 0]
    clock.advance(0.1)
    assert [starts(queue), starts(queue)] == [1, 0]
    clock.advance(0.25)
    assert starts(queue) == 2
    clock.advance(0.05)
    assert starts(queue) == 1
    clock.advance(3600)
    assert starts(queue) == 5


def test_each_key_has_a_bucket_of_its_own(db: Db, queue: JobQueue, clock: TestClock) -> None:
    declare(db, rate="(1, 60, 2)", per="key")
    add(queue, 3, "a")
    add(queue, 1, "b")
    assert sorted(str(job.flow_key) for job in queue.claim(["t"], 10)) == ["a", "a", "b"]
    assert starts(queue) == 0
    add(queue, 2, "b")
    assert [str(job.flow_key) for job in queue.claim(["t"], 10)] == ["b"]
    clock.advance(60)
    assert sorted(str(job.flow_key) for job in queue.claim(["t"], 10)) == ["a", "b"]


def test_a_group_shares_a_bucket_over_types(db: Db, queue: JobQueue, clock: TestClock) -> None:
    for job_type in ("t", "u"):
        declare(db, job_type, groups=["smtp"])
        add(queue, 10, job_type=job_type)
    queue.limits.set_rate(Rate(6, 60, burst=4), group="smtp")
    assert [starts(queue, "t", "u"), starts(queue, "t"), starts(queue, "u")] == [4, 0, 0]
    clock.advance(10)
    assert [starts(queue, "u"), starts(queue, "t")] == [1, 0]


def test_all_buckets_of_a_job_must_have_a_token(db: Db, queue: JobQueue, clock: TestClock) -> None:
    declare(db, rate="(1, 10, 2)", per="key", groups=["g"], limit=3)
    queue.limits.set_rate("5/10s", job_type="t")
    queue.limits.set_rate(Rate(7, 10), group="g")
    for key in "abcd":
        add(queue, 4, key)
    held = queue.claim(["t"], 100)
    assert len(held) == 5
    assert max(sum(job.flow_key == key for job in held) for key in "abcd") <= 2
    # The group has two tokens left, the type none.
    assert starts(queue) == 0
    clock.advance(2)
    assert starts(queue) == 1


def test_what_only_one_bucket_refuses_costs_the_others_nothing(db: Db, queue: JobQueue, clock: TestClock) -> None:
    declare(db, rate="(1, 10, 4)", per="key", cost=2)
    queue.limits.set_rate(Rate(1, 10, burst=2), job_type="t")
    add(queue, 3)
    assert starts(queue) == 1
    clock.advance(20)
    # The key has both tokens back that it would have spent on jobs that did not fit the type.
    row = db.execute(
        "SELECT tokens(t.declared_rate, k.full_at) FROM flow_keys AS k JOIN types AS t USING (job_type)"
    ).fetchone()
    assert row == {"tokens": 4.0}


def test_a_job_takes_as_many_tokens_as_it_costs(db: Db, queue: JobQueue, clock: TestClock) -> None:
    declare(db, rate="(1, 1, 10)", cost=3)
    add(queue, 2)
    add(queue, 1, cost=4)
    add(queue, 2)
    assert [job.cost for job in queue.claim(["t"], 10)] == [None, None, 4]
    clock.advance(2)
    assert starts(queue) == 0
    clock.advance(1)
    assert starts(queue) == 1


@pytest.mark.parametrize("per", [None, "key"])
def test_cheap_jobs_do_not_overtake_one_that_waits_for_its_tokens(
    db: Db, queue: JobQueue, clock: TestClock, per: str | None
) -> None:
    declare(db, rate="(1, 1, 5)", per=per)
    add(queue, 3)
    add(queue, 1, cost=5)
    add(queue, 10)
    assert starts(queue) == 3
    for _ in range(2):
        clock.advance(1)
        assert starts(queue) == 0
    clock.advance(1)
    assert [job.cost for job in queue.claim(["t"], 10)] == [5]


def test_a_job_that_costs_more_than_a_bucket_holds_takes_all_of_it(db: Db, queue: JobQueue, clock: TestClock) -> None:
    declare(db, rate="(1, 1, 5)")
    add(queue, 2, cost=100)
    assert starts(queue) == 1
    clock.advance(4)
    assert starts(queue) == 0
    clock.advance(1)
    assert starts(queue) == 1


def test_an_operators_rate_beats_the_handlers_until_it_is_reset(db: Db, queue: JobQueue, clock: TestClock) -> None:
    declare(db, rate="(1, 60, 1)")
    add(queue, 100)
    assert starts(queue) == 1
    queue.limits.set_rate("10/s", job_type="t")
    assert [str(limit.rate) for limit in queue.limits.list()] == ["10/s"]
    clock.advance(1)
    assert starts(queue) == 10
    queue.limits.set_rate(None, job_type="t")
    clock.advance(60)
    assert [starts(queue), starts(queue)] == [1, 0]
    clock.advance(30)
    assert starts(queue) == 0


def test_a_rate_applies_to_jobs_that_wait_already_and_to_one_key(db: Db, queue: JobQueue, clock: TestClock) -> None:
    add(queue, 5)
    queue.limits.set_rate("2/min", job_type="t")
    assert starts(queue) == 2
    queue.limits.set_rate(None, job_type="t")
    queue.limits.set_rate("1/min", job_type="u", per="x")
    add(queue, 3, job_type="u", per="x")
    add(queue, 3, job_type="u", per="y")
    assert sorted(str(job.flow_key) for job in queue.claim(["u"], 10)) == ["x", "y", "y", "y"]


@pytest.mark.parametrize(
    "limited", [{"job_type": "t"}, {"job_type": "t", "each_key": True}, {"job_type": "t", "per": "a"}, {"group": "g"}]
)
def test_a_changed_rate_takes_over_the_tokens_that_are_spent(
    db: Db, queue: JobQueue, clock: TestClock, limited: dict[str, Any]
) -> None:
    declare(db, per="key", groups=["g"])
    queue.limits.set_rate(Rate(10, seconds=1, burst=10), **limited)
    add(queue, 40)
    assert starts(queue) == 10
    # From an empty bucket to one that is slower: nothing may start for an hour.
    queue.limits.set_rate(Rate(1, seconds=3600, burst=1), **limited)
    clock.advance(3590)
    assert starts(queue) == 0
    clock.advance(10)
    assert [starts(queue), starts(queue)] == [1, 0]
    # One token is spent, and a fast rate soon replaces it.
    queue.limits.set_rate(Rate(10, seconds=1, burst=10), **limited)
    assert starts(queue) == 9
    clock.advance(0.1)
    assert starts(queue) == 1


def test_a_handlers_changed_rate_takes_over_the_tokens_that_are_spent(
    db: Db, queue: JobQueue, clock: TestClock
) -> None:
    declare(db, rate="(10, 1, 10)")
    add(queue, 40)
    assert starts(queue) == 10
    declare(db, rate="(1, 3600, 1)")
    clock.advance(3590)
    assert starts(queue) == 0


@pytest.mark.parametrize("limited", [{"job_type": "t"}, {"job_type": "t", "each_key": True}, {"group": "g"}])
def test_a_clock_that_was_ahead_for_a_moment_stops_no_bucket(
    db: Db, queue: JobQueue, clock: TestClock, limited: dict[str, Any]
) -> None:
    """No sweep has seen that it was."""
    declare(db, per="key", groups=["g"])
    queue.limits.set_rate(Rate(10, seconds=1, burst=10), **limited)
    add(queue, 40)
    clock.advance(5 * 3600)
    assert starts(queue) == 10
    clock.advance(-5 * 3600)
    assert starts(queue) == 0
    queue.recover()
    assert starts(queue) == 0
    clock.advance(2)
    assert starts(queue) == 10


def test_an_order_has_a_rate_too(db: Db, queue: JobQueue, clock: TestClock) -> None:
    declare(db, rate="(1, 1, 1)", per="key", ordered=True)
    add(queue, 3)
    for n in range(3):
        (job,) = queue.claim(["t"], 10)
        assert job.data["n"] == n
        queue.complete(job)
        assert starts(queue) == 0
        clock.advance(1)


def test_only_a_job_that_has_not_started_gives_its_tokens_back(db: Db, queue: JobQueue, clock: TestClock) -> None:
    declare(db, rate="(1, 60, 2)", per="key", groups=["g"])
    queue.limits.set_rate(Rate(1, 60, burst=2), group="g")
    queue.limits.set_rate(Rate(1, 60, burst=2), job_type="t")
    add(queue, 4)
    first, second = queue.claim(["t"], 10)
    queue.release(first)
    queue.start(second)
    queue.snooze(second, delay=0)
    assert starts(queue) == 1


@pytest.mark.parametrize("per", [None, "key"])
def test_a_bucket_follows_a_clock_that_goes_back(db: Db, queue: JobQueue, clock: TestClock, per: str | None) -> None:
    declare(db, rate="(1, 1, 3)", per=per)
    add(queue, 10)
    clock.advance(3600)
    queue.recover()
    assert starts(queue) == 3
    clock.advance(-3600)
    assert starts(queue) == 0
    queue.recover()
    assert starts(queue) == 0
    clock.advance(1)
    assert starts_soon(queue) == 1
    clock.advance(3)
    assert starts_soon(queue) == 3


def test_a_plain_client_spends_tokens_too(db: Db, queue: JobQueue, connect: Connect) -> None:
    declare(db, rate="(1, 3600, 1)", per="key")
    add(queue, 2)
    claim = (
        "UPDATE jobs SET status = 'claimed', worker_id = 'me', attempts = attempts + 1"
        " WHERE id = (SELECT id FROM jobs WHERE status = 'pending' AND job_type = 't' LIMIT 1 FOR UPDATE SKIP LOCKED)"
    )
    with connect(autocommit=False) as other:
        assert other.execute(claim).rowcount == 1
        other.rollback()
    assert [db.execute(claim).rowcount for _ in range(2)] == [1, 0]
    assert starts(queue) == 0
    assert db.execute("SELECT count(*) AS n FROM claimable").fetchone() == {"n": 0}


def test_next_due_is_when_the_next_job_may_start(db: Db, queue: JobQueue, clock: TestClock) -> None:
    declare(db, rate="(1, 10, 1)")
    declare(db, "u", rate="(1, 20, 1)", per="key")
    next_due = "SELECT next_due(%s::varchar[]) AS due"
    for job_type, seconds in (("t", 10), ("u", 20)):
        add(queue, 2, job_type=job_type)
        assert db.execute(next_due, ([job_type],)).fetchone() == {"due": None}
        assert [starts(queue, job_type), starts(queue, job_type)] == [1, 0]
        assert db.execute(next_due, ([job_type],)).fetchone() == {"due": timedelta(seconds=seconds)}


def test_the_queue_position_of_a_job_names_the_rate_it_waits_for(db: Db, queue: JobQueue, clock: TestClock) -> None:
    declare(db, rate="(2, 60, 2)", per="key")
    *_, last = add(queue, 3)
    assert starts(queue) == 2
    place = queue.queue_position(last)
    assert place is not None
    assert place.because == "its key 'a' may start 2 jobs in 60 s, and this one in 30.0 s"


def test_a_bucket_is_kept_until_it_is_full(db: Db, queue: JobQueue, clock: TestClock) -> None:
    declare(db, rate="(1, 60, 1)", per="key")
    add(queue, 1)
    for held in queue.claim(["t"], 10):
        queue.complete(held)
    queue.recover()
    add(queue, 1)
    assert starts(queue) == 0
    clock.advance(60)
    assert starts(queue) == 1


@pytest.mark.parametrize(
    "options",
    [{"rate": "(4, 0.2, 4)"}, {"rate": "(4, 0.2, 4)", "per": "key"}, {"groups": ["g"]}],
    ids=["type", "key", "group"],
)
def test_tokens_are_taken_now_however_old_the_transaction_is(
    db: Db, queue: JobQueue, connect: Connect, options: dict[str, Any]
) -> None:
    """The bug: each of these transactions had a full bucket of its own, that of the moment at which it had begun."""
    queue.limits.set_rate(Rate(4, seconds=0.2), group="g")
    declare(db, **options)
    add(queue, 40)
    old = [connect(autocommit=False) for _ in range(3)]
    for conn in old:
        conn.commit()
        conn.execute("SELECT")
        until(conn, 0.21)
    claimed = []
    for conn in old:
        (row,) = conn.execute("SELECT count(*) AS n, clock_timestamp() AS at FROM claim('w', '{t}', 10)").fetchall()
        claimed += [row["at"]] * row["n"]
        conn.commit()
    assert len(claimed) >= 4
    check_rate(claimed, 20, 4)


def until(conn: Db, seconds: float) -> None:
    """Returns when the transaction is so old."""
    while not conn.execute(
        "SELECT FROM clock_timestamp() AS at WHERE at > now() + make_interval(secs => %s)", (seconds,)
    ).rowcount:
        pass


def test_racing_claims_never_exceed_a_rate(db: Db, queue: JobQueue, dsn: str) -> None:
    declare(db, rate="(200, 1, 20)", per="key", groups=["g"])
    queue.limits.set_rate(Rate(400, 1, burst=30), group="g")
    wanted = 250
    for key in "abc":
        queue.enqueue_many("t", ({"key": key} for _ in range(100)))
    taken: list[tuple[datetime, str]] = []
    failures: list[BaseException] = []

    def claim() -> None:
        try:
            with JobQueue(dsn) as mine:
                while len(taken) < wanted and not failures:
                    taken.extend(
                        (job.claimed_at, str(job.flow_key))
                        for job in mine.claim(["t"], 10)
                        if job.claimed_at is not None
                    )
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=claim) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    check_rate([at for at, _ in taken], 400, 30)
    for key in "abc":
        check_rate([at for at, of in taken if of == key], 200, 20)


@pytest.mark.parametrize(
    "wrong",
    ["50", "50/fortnight", "0/s", "-1/s", "1/0s", "1e9/s", "", Rate, 5, True],
)
def test_what_is_no_rate_is_refused(queue: JobQueue, wrong: Any) -> None:
    with pytest.raises(InvalidInput):
        queue.limits.set_rate(wrong, job_type="t")
    assert queue.limits.list() == []


@pytest.mark.parametrize("wrong", ["0, 1, 1", "1, 0, 1", "1, 'NaN', 1", "1, 1, 0", "1, 'infinity', 1", "2000000, 1, 1"])
def test_what_is_no_rate_is_refused_by_the_database(db: Db, queue: JobQueue, wrong: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        db.execute(f"SELECT set_rate('t', NULL, NULL, {wrong})")
    assert refused.value.sqlstate == "JQ001"
    with pytest.raises(psycopg.Error) as refused:
        declare(db, rate=f"({wrong})".replace("'", ""))
    assert refused.value.sqlstate == "JQ001"
    assert queue.limits.list() == []
