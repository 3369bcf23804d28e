"""Jobs with flow keys: in the key's order, within limits, and in turn with other keys."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from typing import Any

import psycopg
import pytest

from howdah import InvalidInput, JobQueue
from howdah.model.job import Job
from tests.clock import TestClock
from tests.conftest import Connect, Db


def declare(db: Db, job_type: str = "t", **options: Any) -> None:
    db.execute(
        "SELECT declare_type(%(job_type)s, p_ordered => %(ordered)s, p_per => %(per)s, p_limit => %(limit)s,"
        " p_order_skips => %(skips)s, p_groups => %(groups)s::text[])",
        {"job_type": job_type, "ordered": False, "per": None, "limit": None, "skips": False, "groups": None, **options},
    )
    db.execute("SELECT recover()")


def keys(jobs: list[Job]) -> list[str]:
    return [str(job.flow_key) for job in jobs]


def numbers(jobs: list[Job]) -> list[int]:
    return [job.data["n"] for job in jobs]


def add(queue: JobQueue, key: str, *ns: int, job_type: str = "t", **options: Any) -> list[Job]:
    return [queue.enqueue(job_type, {"key": key, "n": n}, **options) for n in ns]


# Order


def test_each_key_gives_its_jobs_one_at_a_time_and_in_order(db: Db, queue: JobQueue) -> None:
    declare(db, ordered=True, per="key")
    for n in range(3):
        for key in "abc":
            add(queue, key, n)
    for n in range(3):
        held = queue.claim(["t"], 10)
        assert (sorted(keys(held)), set(numbers(held))) == (["a", "b", "c"], {n})
        assert queue.claim(["t"], 10) == []
        for job in held:
            queue.complete(job)
    assert queue.claim(["t"], 10) == []


def test_a_type_without_per_is_one_key(db: Db, queue: JobQueue) -> None:
    declare(db, ordered=True)
    add(queue, "a", 1)
    add(queue, "b", 2)
    (job,) = queue.claim(["t"], 10)
    assert (job.flow_key, job.order_key, job.data["n"]) == ("", "", 1)
    assert queue.claim(["t"], 10) == []


def test_a_higher_priority_comes_first_within_a_key(db: Db, queue: JobQueue) -> None:
    declare(db, ordered=True, per="key")
    add(queue, "a", 1)
    add(queue, "a", 2, priority=200)
    add(queue, "a", 3, priority=300, delay=60)
    (job,) = queue.claim(["t"], 10)
    assert job.data["n"] == 2


def test_a_head_that_waits_for_its_retry_holds_its_key_and_no_other(db: Db, queue: JobQueue, clock: TestClock) -> None:
    declare(db, ordered=True, per="key")
    add(queue, "a", 1, 2, retry_policy={"kind": "fixed", "delay": 30})
    add(queue, "b", 3, 4)
    held = queue.claim(["t"], 10)
    for job in held:
        if job.flow_key == "a":
            queue.fail(job, "no")
        else:
            queue.complete(job)
    (job,) = queue.claim(["t"], 10)
    assert job.data["n"] == 4
    assert queue.claim(["t"], 10) == []
    queue.complete(job)
    clock.advance(31)
    (job,) = queue.claim(["t"], 10)
    assert job.data["n"] == 1
    queue.complete(job)
    (job,) = queue.claim(["t"], 10)
    assert job.data["n"] == 2


def test_an_order_that_skips_lets_the_next_one_run(db: Db, queue: JobQueue, clock: TestClock) -> None:
    declare(db, ordered=True, per="key", skips=True)
    add(queue, "a", 1, 2, retry_policy={"kind": "fixed", "delay": 30})
    (job,) = queue.claim(["t"], 10)
    queue.fail(job, "no")
    (job,) = queue.claim(["t"], 10)
    assert job.data["n"] == 2
    clock.advance(31)
    assert queue.claim(["t"], 10) == []
    queue.complete(job)
    (job,) = queue.claim(["t"], 10)
    assert job.data["n"] == 1


@pytest.mark.parametrize("verb", ["cancel", "reschedule", "delete", "plain delete"])
def test_a_changed_head_ends_the_rest_of_its_key(db: Db, queue: JobQueue, clock: TestClock, verb: str) -> None:
    declare(db, ordered=True, per="key")
    add(queue, "a", 1, 2, retry_policy={"kind": "fixed", "delay": 1000})
    (job,) = queue.claim(["t"], 10)
    queue.fail(job, "no")
    assert queue.claim(["t"], 10) == []
    assert lines(db) == {"behind": 1, "later": 1}
    if verb == "cancel":
        queue.cancel(job)
    elif verb == "reschedule":
        queue.reschedule(job)
    elif verb == "delete":
        queue.delete(job)
    else:
        db.execute("DELETE FROM jobs WHERE id = %s", (job.id,))
        # A plain DELETE does not end the rest; no rest is longer than a minute.
        clock.advance(61)
    (next_job,) = queue.claim(["t"], 10)
    assert next_job.data["n"] == (1 if verb == "reschedule" else 2)


def test_a_job_of_a_higher_priority_does_not_wait_for_the_retry_of_the_head(
    db: Db, queue: JobQueue, clock: TestClock
) -> None:
    declare(db, ordered=True, per="key")
    add(queue, "a", 1, 2, retry_policy={"kind": "fixed", "delay": 1000})
    (job,) = queue.claim(["t"], 10)
    queue.fail(job, "no")
    assert queue.claim(["t"], 10) == []
    add(queue, "a", 3, priority=150)
    (first,) = queue.claim(["t"], 10)
    assert first.data["n"] == 3
    queue.complete(first)
    # The head still waits, and the others behind it.
    assert queue.claim(["t"], 10) == []
    (waiting,) = (job for job in queue.list(status="pending") if job.data["n"] == 2)
    queue.reprioritise(waiting, 160)
    (next_job,) = queue.claim(["t"], 10)
    assert next_job.data["n"] == 2


def lines(db: Db) -> dict[str, int]:
    rows = db.execute("SELECT line, count(*) AS jobs FROM live WHERE line IS NOT NULL GROUP BY line").fetchall()
    return {row["line"]: row["jobs"] for row in rows}


def test_jobs_of_a_resting_key_cost_a_claim_nothing(db: Db, queue: JobQueue, clock: TestClock) -> None:
    declare(db, ordered=True, per="key")
    queue.enqueue_many(
        "t", ({"key": f"k{n % 50}", "n": n} for n in range(200)), retry_policy={"kind": "fixed", "delay": 40}
    )
    for job in queue.claim(["t"], 50):
        queue.fail(job, "no")
    assert queue.claim(["t"], 10) == []
    assert lines(db) == {"behind": 150, "later": 50}
    queue.enqueue("t", {"key": "other", "n": 1})
    assert keys(queue.claim(["t"], 10)) == ["other"]
    clock.advance(41)
    done: list[int] = []
    while held := queue.claim(["t"], 100):
        done += numbers(held)
        for job in held:
            queue.complete(job)
    assert sorted(done) == list(range(200))
    assert db.execute("SELECT count(*) AS n FROM flow_keys WHERE rests_until IS NOT NULL").fetchone() == {"n": 0}


def test_a_claim_that_waits_while_the_head_fails_sees_that_the_type_is_paused(
    db: Db, queue: JobQueue, connect: Connect
) -> None:
    db.execute("SELECT declare_type('t', p_ordered => true, p_pause_on_failure => true, p_groups => ARRAY['g'])")
    queue.limits.set(5, group="g")
    db.execute("SELECT recover()")
    first, _ = add(queue, "a", 1, 2)
    (held,) = queue.claim(["t"], 1)
    assert held.id == first.id
    claimed: list[Any] = []
    claimer, locker = connect(), connect(autocommit=False)
    locker.execute("SELECT FROM flow_groups FOR UPDATE")
    waits = "SELECT FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"

    def claim() -> None:
        claimed.extend(claimer.execute("SELECT id FROM claim('me', '{t}', 5)").fetchall())

    thread = threading.Thread(target=claim)
    thread.start()
    while thread.is_alive() and db.execute(waits, (claimer.info.backend_pid,)).fetchone() is None:
        pass
    queue.fail(held, "broken", give_up=True)
    locker.rollback()
    thread.join()
    assert claimed == []


def test_a_type_that_is_not_ordered_any_more_has_no_keys(db: Db, queue: JobQueue) -> None:
    declare(db, ordered=True)
    add(queue, "a", 1, 2)
    (held,) = queue.claim(["t"], 10)
    declare(db)
    queue.release(held)
    assert {job.flow_key for job in queue.list()} == {None}
    queue.recover()
    assert db.execute("SELECT keyed FROM types").fetchall() == [{"keyed": False}]
    assert len(queue.claim(["t"], 10)) == 2


# Limits


def test_a_limit_for_each_key(db: Db, queue: JobQueue) -> None:
    declare(db, per="key", limit=2)
    add(queue, "a", *range(5))
    add(queue, "b", *range(5, 6))
    held = queue.claim(["t"], 10)
    assert Counter(keys(held)) == {"a": 2, "b": 1}
    assert queue.claim(["t"], 10) == []
    queue.complete(held[0])
    assert len(queue.claim(["t"], 10)) == (1 if held[0].flow_key == "a" else 0)


def test_a_limit_of_a_type(db: Db, queue: JobQueue) -> None:
    declare(db, limit=3)
    add(queue, "a", *range(5))
    held = queue.claim(["t"], 10)
    assert numbers(held) == [0, 1, 2]
    assert queue.claim(["t"], 10) == []
    queue.release(held[0])
    assert len(queue.claim(["t"], 10)) == 1


def test_a_limit_of_a_group_over_types(db: Db, queue: JobQueue) -> None:
    for job_type in "xy":
        declare(db, job_type, groups=["smtp"])
        add(queue, "", *range(5), job_type=job_type)
    assert len(queue.claim(["x", "y"], 4)) == 4
    queue.limits.set(5, group="smtp")
    assert len(queue.claim(["x", "y"], 10)) == 1
    assert queue.claim(["x"], 10) == []
    queue.limits.set(None, group="smtp")
    assert len(queue.claim(["x", "y"], 10)) == 5


def test_several_limits_at_once(db: Db, queue: JobQueue) -> None:
    declare(db, per="key", limit=2, groups=["g"])
    queue.limits.set(4, job_type="t")
    queue.limits.set(3, group="g")
    for key in "abcd":
        add(queue, key, *range(3))
    held = queue.claim(["t"], 100)
    assert len(held) == 3
    queue.limits.set(9, group="g")
    held += queue.claim(["t"], 100)
    assert len(held) == 4
    queue.limits.set(None, job_type="t")
    held += queue.claim(["t"], 100)
    assert Counter(keys(held)) == dict.fromkeys("abcd", 2)


def test_a_limit_applies_to_jobs_that_wait_and_to_jobs_that_run_already(db: Db, queue: JobQueue) -> None:
    add(queue, "a", *range(6))
    held = queue.claim(["t"], 2)
    queue.limits.set(3, job_type="t")
    assert len(queue.claim(["t"], 10)) == 1
    for job in held:
        queue.complete(job)
    assert len(queue.claim(["t"], 10)) == 2
    queue.limits.set(None, job_type="t")
    assert len(queue.claim(["t"], 10)) == 1


def test_an_operators_limit_beats_the_handlers_until_it_is_reset(db: Db, queue: JobQueue) -> None:
    declare(db, per="key", limit=1)
    add(queue, "a", *range(9))
    queue.limits.set(2, job_type="t", each_key=True)
    declare(db, per="key", limit=1)
    assert len(queue.claim(["t"], 10)) == 2
    queue.limits.set(4, job_type="t", per="a")
    assert len(queue.claim(["t"], 10)) == 2
    queue.limits.set(None, job_type="t", per="a")
    queue.limits.set(None, job_type="t", each_key=True)
    assert queue.claim(["t"], 10) == []
    (limit,) = queue.limits.list()
    assert (limit.each_key, limit.max_running, limit.by_operator) == (True, 1, False)


def test_an_operator_stops_the_keys_of_an_ordered_type(db: Db, queue: JobQueue) -> None:
    declare(db, ordered=True, per="key")
    (job,) = add(queue, "a", 1)
    queue.limits.set(0, job_type="t", each_key=True)
    assert queue.claim(["t"], 10) == []
    assert db.execute("UPDATE jobs SET status = 'running' WHERE id = %s", (job.id,)).rowcount == 0
    queue.limits.set(1, job_type="t", per="a")
    assert len(queue.claim(["t"], 10)) == 1


def test_racing_claims_never_exceed_a_limit(db: Db, queue: JobQueue, dsn: str) -> None:
    declare(db, per="key", limit=7, groups=["g"])
    queue.limits.set(20, job_type="t")
    queue.limits.set(15, group="g")
    queue.enqueue_many("t", ({"key": "abc"[n % 3], "n": n} for n in range(600)))
    most: Counter[str] = Counter()
    problems: list[BaseException] = []

    def work() -> None:
        try:
            with JobQueue(dsn) as own:
                while True:
                    held = own.claim(["t"], 4)
                    with psycopg.connect(dsn) as conn:
                        rows = conn.execute(
                            "SELECT flow_key, count(*) FROM howdah.live WHERE status IN ('claimed', 'running') GROUP BY flow_key"
                        ).fetchall()
                    for key, count in rows:
                        most[key] = max(most[key], count)
                    most["all"] = max(most["all"], sum(count for _, count in rows))
                    for job in held:
                        own.complete(job)
                    if not held and not own.list(status="pending"):
                        return
        except BaseException as error:
            problems.append(error)
            raise

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert max(most[key] for key in "abc") <= 7
    assert most["all"] <= 15
    assert queue.stats()["t"].completed == 600


def until_noted(db: Db, queue: JobQueue) -> None:
    """Claims and completes jobs until it is noted, for the key and for the type, below which token none is held."""
    noted = "SELECT count(held_from) AS n FROM (SELECT held_from FROM flow_keys UNION ALL SELECT held_from FROM flow_types) AS all_notes"
    while db.execute(noted).fetchone() != {"n": 2}:
        add(queue, "a", 1)
        for job in queue.claim(["t"], 1):
            queue.complete(job)


def test_a_claim_that_began_long_ago_is_counted(db: Db, queue: JobQueue, connect: Connect) -> None:
    """Tokens are times of transactions: this one's is below those that counting starts with."""
    declare(db, per="key", limit=2)
    queue.limits.set(3, job_type="t")
    db.execute("SELECT recover()")
    add(queue, "a", *range(10), priority=1)
    late = connect(autocommit=False)
    late.execute("SELECT 1")
    until_noted(db, queue)
    assert late.execute("SELECT count(*) AS n FROM claim('late', '{t}', 1)").fetchone() == {"n": 1}
    late.commit()
    assert len(queue.claim(["t"], 10)) == 1
    add(queue, "b", *range(10))
    assert keys(queue.claim(["t"], 10)) == ["b"]


def test_a_plain_claim_is_counted_whatever_its_token(db: Db, queue: JobQueue, connect: Connect) -> None:
    declare(db, per="key", limit=2)
    queue.limits.set(2, job_type="t")
    db.execute("SELECT recover()")
    with connect(autocommit=False) as late:
        late.execute("SELECT 1")
        until_noted(db, queue)
        add(queue, "a", *range(5))
        late.execute("UPDATE jobs SET status = 'claimed', worker_id = 'me', attempts = 1 WHERE data @> '{\"n\": 0}'")
    assert len(queue.claim(["t"], 10)) == 1


def test_a_limit_that_is_set_again_counts_all_held_jobs(db: Db, queue: JobQueue) -> None:
    declare(db, per="key")
    limits: tuple[dict[str, Any], ...] = ({}, {"each_key": True})
    for options in limits:
        queue.limits.set(2, job_type="t", **options)
    db.execute("SELECT recover()")
    until_noted(db, queue)
    for options in limits:
        queue.limits.set(None, job_type="t", **options)
    add(queue, "a", *range(6))
    assert len(queue.claim(["t"], 3)) == 3
    # As if a transaction had claimed these that began before the counts were noted.
    db.execute("UPDATE live SET token = 5, own_write = NOT own_write WHERE status <> 'pending'")
    for options in limits:
        queue.limits.set(3, job_type="t", **options)
        assert queue.claim(["t"], 10) == []
        db.execute("SELECT recover()")
        assert queue.claim(["t"], 10) == []
        queue.limits.set(None, job_type="t", **options)


def test_what_is_behind_the_jobs_of_the_last_claim_is_found(db: Db, queue: JobQueue, connect: Connect) -> None:
    """Late commits and retries: a claim first looks from where the last one found jobs on."""
    declare(db, per="key")
    late = connect(autocommit=False)
    late.execute("SELECT enqueue('t', '{\"key\": \"late\"}')")
    for key in "abc":
        add(queue, key, *range(5))
    claim = "SELECT flow_key FROM claim('me', '{t}', %s)"
    assert len(db.execute(claim, (5,)).fetchall()) == 5
    late.commit()
    assert {"flow_key": "late"} in db.execute(claim, (11,)).fetchall()


def test_a_dead_worker_frees_its_room(db: Db, queue: JobQueue) -> None:
    declare(db, per="key", limit=1)
    add(queue, "a", 1, 2)
    db.execute("SELECT register_worker('dead', gen_random_uuid())")
    assert db.execute("SELECT count(*) AS n FROM claim('dead', ARRAY['t'], 5)").fetchone() == {"n": 1}
    assert queue.claim(["t"], 10) == []
    db.execute("UPDATE workers SET heartbeat_at = heartbeat_at - interval '1 hour'")
    queue.recover()
    assert len(queue.claim(["t"], 10)) == 1


@pytest.mark.parametrize(
    "wrong",
    [{}, {"job_type": "t", "group": "g"}, {"job_type": "t", "per": "a", "each_key": True}, {"group": "g", "per": "a"}],
)
def test_a_limit_of_nothing_or_of_two_things_is_refused(queue: JobQueue, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="a limit is for a group, a type"):
        queue.limits.set(1, **wrong)


# Turns


def test_keys_take_turns(queue: JobQueue) -> None:
    queue.enqueue_many("t", ({"n": n} for n in range(500)), per="big")
    add(queue, "small", *range(500, 510), per="small")
    started = [queue.claim(["t"], 1)[0].flow_key for _ in range(30)]
    assert started.count("small") == 10
    assert "small" in started[:3]


def test_a_large_claim_is_shared(queue: JobQueue) -> None:
    for key, count in {"a": 1000, "b": 30, "c": 3}.items():
        queue.enqueue_many("t", ({"n": n} for n in range(count)), per=key)
    assert Counter(keys(queue.claim(["t"], 63))) == {"a": 30, "b": 30, "c": 3}


def test_weights(queue: JobQueue) -> None:
    for key in ("light", "heavy"):
        queue.enqueue_many("t", ({"n": n} for n in range(400)), per=key)
    queue.limits.set_weight("t", "heavy", 3)
    started = Counter(key for _ in range(50) for key in keys(queue.claim(["t"], 4)))
    assert 2 <= started["heavy"] / started["light"] <= 4


def test_priority_stays_strict(queue: JobQueue) -> None:
    add(queue, "", *range(3), per="low", priority=10)
    add(queue, "", *range(3, 6), per="high", priority=20)
    assert keys(queue.claim(["t"], 4)) == ["high", "high", "high", "low"]


def test_types_with_and_without_keys_share_a_level(queue: JobQueue) -> None:
    add(queue, "", *range(50), per="k")
    add(queue, "", *range(50), job_type="plain")
    assert Counter(job.job_type for job in queue.claim(["t", "plain"], 20)) == {"t": 10, "plain": 10}
    one_by_one = Counter(queue.claim(["t", "plain"], 1)[0].job_type for _ in range(40))
    assert min(one_by_one.values()) > 5
    assert len(queue.claim(["t", "plain"], 100)) == 40


def test_a_delayed_job_is_claimed_when_it_is_due(queue: JobQueue, clock: TestClock) -> None:
    add(queue, "", 1, per="k", delay=60)
    assert queue.claim(["t"], 5) == []
    clock.advance(61)
    assert len(queue.claim(["t"], 5)) == 1


# Pauses


def test_a_paused_key_rests_and_no_other(db: Db, queue: JobQueue) -> None:
    add(queue, "", 1, 2, per="a")
    add(queue, "", 3, per="b")
    assert queue.pause("t", per="a", because="owes us money")
    assert not queue.pause("t", per="a")
    assert keys(queue.claim(["t"], 10)) == ["b"]
    add(queue, "", 4, per="a")
    assert queue.claim(["t"], 10) == []
    assert lines(db) == {"behind": 3}
    (limit,) = queue.limits.list()
    assert (limit.flow_key, limit.paused_because) == ("a", "owes us money")
    assert queue.resume("t", per="a")
    assert not queue.resume("t", per="a")
    assert numbers(queue.claim(["t"], 10)) == [1, 2, 4]


# Plain SQL


def test_a_plain_claim_of_a_job_that_may_not_run_changes_nothing(db: Db, queue: JobQueue, connect: Connect) -> None:
    declare(db, per="key", limit=1)
    first, second = add(queue, "a", 1, 2)

    def take(job: Job) -> int:
        return db.execute("UPDATE jobs SET status = 'running', worker_id = 'psql' WHERE id = %s", (job.id,)).rowcount

    assert (take(first), take(second)) == (1, 0)
    assert db.execute("SELECT count(*) AS n FROM claimable").fetchone() == {"n": 0}
    db.execute("UPDATE jobs SET status = 'completed' WHERE id = %s", (first.id,))
    assert db.execute("SELECT id FROM claimable").fetchall() == [{"id": second.id}]
    assert take(second) == 1


def test_a_transaction_that_cannot_count_may_not_claim(db: Db, queue: JobQueue, connect: Connect) -> None:
    declare(db, per="key", limit=1)
    (job,) = add(queue, "a", 1)
    strict = connect(autocommit=False)
    strict.rollback()
    strict.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    strict.execute("SET search_path = howdah")
    strict.commit()
    with pytest.raises(psycopg.Error, match="needs a READ COMMITTED transaction"):
        strict.execute("SELECT claim('w', ARRAY['t'])")
    strict.rollback()
    with pytest.raises(psycopg.Error, match="needs a READ COMMITTED transaction"):
        strict.execute("UPDATE jobs SET status = 'running' WHERE id = %s", (job.id,))
    strict.rollback()
    assert len(queue.claim(["t"])) == 1


def test_a_plain_insert_gets_the_key_of_its_type(db: Db, queue: JobQueue) -> None:
    declare(db, ordered=True, per="key")
    db.execute(
        """INSERT INTO jobs (job_type, data) VALUES ('t', '{"key": "a", "n": 1}'), ('t', '{"key": "a", "n": 2}')"""
    )
    (job,) = queue.claim(["t"], 10)
    assert (job.flow_key, job.data["n"]) == ("a", 1)


# What users see


def test_the_queue_position_of_a_job_names_what_it_waits_for(db: Db, queue: JobQueue) -> None:
    declare(db, per="key", limit=1)
    db.execute("SELECT register_worker('w', gen_random_uuid(), p_job_types => ARRAY['t'])")
    _, second = add(queue, "17", 1, 2)
    queue.claim(["t"], 1)
    place = queue.queue_position(second)
    assert place is not None
    assert place.because == "1 of 1 jobs of its key '17' are running"


def test_a_key_is_kept_when_a_job_ends_and_is_retried(queue: JobQueue) -> None:
    (job,) = add(queue, "", 1, per="a")
    (held,) = queue.claim(["t"])
    queue.complete(held)
    assert queue.get(job).flow_key == "a"
    queue.retry(job)
    assert keys(queue.claim(["t"])) == ["a"]


def test_keys_without_jobs_are_removed(db: Db, queue: JobQueue) -> None:
    declare(db, per="key", limit=1)
    for n in range(20):
        add(queue, f"k{n}", n)
    for job in queue.claim(["t"], 20):
        queue.complete(job)
    queue.recover()
    assert db.execute("SELECT count(*) AS n FROM flow_keys").fetchone() == {"n": 0}


def test_an_unknown_id_is_no_key(queue: JobQueue) -> None:
    with pytest.raises(InvalidInput, match="per"):
        queue.enqueue("t", per=uuid.uuid4())  # type: ignore[arg-type]
