"""Unique jobs: what counts as the same job, in which states and for how long, and what a second one does."""

from __future__ import annotations

import asyncio
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, get_args

import psycopg
import pytest
from psycopg.types.json import Jsonb

from howdah import DuplicateJob, InvalidOption, Job, JobQueue, Status, Unique, UniqueKeyBusy
from howdah.encryption import EncryptedCodec, new_key
from howdah.handlers.unique import OnConflict
from howdah.verbs.produce import BULK_SIZE
from tests.clock import TestClock
from tests.conftest import Connect, Db

LIVE: Final = ("pending", "claimed", "running")
STATUSES: Final[tuple[Status, ...]] = ("pending", "claimed", "running", "completed", "failed", "cancelled")
STATES: Final[tuple[tuple[Status, ...], ...]] = (
    ("pending",),
    ("pending", "claimed", "running"),
    ("claimed", "running"),
    STATUSES,
    ("completed", "failed"),
)
VERBS: Final = {"replace": "replaced", "reschedule": "rescheduled"}

Answer = tuple[uuid.UUID | None, bool, str | None]
"""The id of the job (None: this way does not return it), whether it is new, and what happened to the other."""


def by_one(queue: JobQueue, data: Any, rule: Unique) -> Answer:
    job = queue.enqueue("mail", data, unique=rule)
    return job.id, job.created, job.conflict


def by_awaited(queue: JobQueue, data: Any, rule: Unique) -> Answer:
    async def main() -> Job:
        async with JobQueue(queue.dsn) as other:
            return await other.aenqueue("mail", data, unique=rule)

    job = asyncio.run(main())
    return job.id, job.created, job.conflict


def by_bulk(queue: JobQueue, data: Any, rule: Unique) -> Answer:
    added = queue.enqueue_many("mail", [data], unique=rule, return_ids=True)
    assert added.ids is not None
    (conflict,) = added.conflicts or (None,)
    return (added.ids[0] if added else None), bool(added), conflict


def by_conn(queue: JobQueue, data: Any, rule: Unique) -> Answer:
    with psycopg.connect(queue.dsn) as conn:
        job = queue.enqueue("mail", data, unique=rule, conn=conn)
        return job.id, job.created, job.conflict


def by_sql(queue: JobQueue, data: Any, rule: Unique) -> Answer:
    with psycopg.connect(queue.dsn, autocommit=True) as conn:
        try:
            row = conn.execute(
                "SELECT id, created, conflict FROM howdah.enqueue_unique('mail', ARRAY[%s::jsonb], %s)",
                (Jsonb(data), Jsonb(rule.rule)),
            ).fetchone()
        except psycopg.Error as error:
            assert (error.sqlstate, error.diag.message_detail) == ("JQ020", error.diag.message_detail)
            raise DuplicateJob(job_id=uuid.UUID(error.diag.message_detail)) from error
    assert row is not None
    return row


Way = Callable[[JobQueue, Any, Unique], Answer]
WAYS: Final[dict[str, Way]] = {
    "one": by_one,
    "awaited": by_awaited,
    "bulk": by_bulk,
    "conn": by_conn,
    "sql": by_sql,
}


def bring(queue: JobQueue, job: Job, status: Status) -> None:
    """Brings a pending job, the only one, into this state."""
    if status == "cancelled":
        queue.cancel(job)
    elif status != "pending":
        (claimed,) = queue.claim(["mail"])
        assert claimed.id == job.id
        if status != "claimed":
            queue.start(claimed)
        if status == "completed":
            queue.complete(claimed)
        elif status == "failed":
            queue.fail(claimed, "broken", give_up=True)
    assert queue.get(job.id).status == status


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("conflict", get_args(OnConflict))
def test_an_earlier_job_counts_in_the_states_of_the_rule(
    queue: JobQueue, db: Db, way: str, conflict: OnConflict
) -> None:
    for number, (status, states) in enumerate((status, states) for status in STATUSES for states in STATES):
        rule = Unique(by=("n",), states=states, conflict=conflict, within=3600)
        first = queue.enqueue("mail", {"n": number, "text": "first"}, unique=rule)
        assert (first.created, first.conflict) == (True, None)
        bring(queue, first, status)
        expected = VERBS.get(conflict, "kept") if status == "pending" else "kept"
        second = {"n": number, "text": "second"}
        if status in states and conflict == "raise":
            with pytest.raises(DuplicateJob) as refused:
                WAYS[way](queue, second, rule)
            assert refused.value.job_id == first.id
        elif status in states:
            assert WAYS[way](queue, second, rule) in [(first.id, False, expected), (None, False, expected)]
        else:
            job_id, created, what = WAYS[way](queue, second, rule)
            assert (created, what) == (True, None)
            assert job_id != first.id
        text = "second" if expected == "replaced" and status in states else "first"
        assert queue.get(first.id).data["text"] == text
        assert queue.get(first.id).status == status
        db.execute("DELETE FROM howdah.jobs")


def test_a_reindex_that_is_asked_for_while_one_runs_happens_once_more_and_only_once(queue: JobQueue) -> None:
    rule = Unique(states=("pending",))
    queue.enqueue("reindex", unique=rule)
    assert not queue.enqueue("reindex", unique=rule).created
    (running,) = queue.claim(["reindex"])
    queue.start(running)
    assert [queue.enqueue("reindex", unique=rule).created for _ in range(3)] == [True, False, False]
    assert queue.claim(["reindex"], 10)[0].id != running.id
    assert queue.claim(["reindex"], 10) == []


def test_which_arguments_count(queue: JobQueue) -> None:
    assert queue.enqueue("mail", {"to": "a", "n": 1}, unique=True).created
    assert queue.enqueue("mail", {"to": "a", "n": 2}, unique=True).created
    assert not queue.enqueue("mail", {"n": 1, "to": "a"}, unique=True).created
    assert not queue.enqueue("mail", {"n": 2, "to": "a"}, unique=True).created
    assert queue.enqueue("other", {"to": "a", "n": 1}, unique=True).created

    assert queue.enqueue("mail", {"to": {"id": 1, "name": "x"}, "n": 1}, unique=("to.id",)).created
    assert not queue.enqueue("mail", {"to": {"id": 1, "name": "y"}, "n": 2}, unique=("to.id",)).created
    assert queue.enqueue("mail", {"to": {"id": 2}}, unique=("to.id",)).created
    assert queue.enqueue("mail", {"n": 1}, unique=("to.id",)).created
    assert not queue.enqueue("mail", {"to": None}, unique=("to.id",)).created
    # The type alone.
    assert queue.enqueue("mail", {"n": 1}, unique=Unique(by=())).created
    assert not queue.enqueue("mail", unique=Unique(by=())).created


def test_a_key_of_the_call_is_unique_by_its_rule(queue: JobQueue) -> None:
    rule = Unique(by="key", states=("pending",), conflict="replace")
    first = queue.enqueue("mail", {"n": 1}, key="a", unique=rule)
    second = queue.enqueue("mail", {"n": 2}, key="a", unique=rule)
    assert (second.id, second.key, second.data, second.conflict) == (first.id, "a", {"n": 2}, "replaced")
    assert queue.enqueue("mail", key="b", unique=rule).created
    (running,) = queue.claim(["mail"], 1)
    assert (running.id, running.key, queue.get(first.id).key) == (first.id, "a", "a")
    assert queue.enqueue("mail", {"n": 3}, key="a", unique=rule).created
    # A key without a rule is another one.
    assert queue.enqueue("mail", key="a").created
    assert queue.enqueue_many("mail", ["a", "b", "c", "c"], key=str, unique="key") == 1


def test_options_that_contradict_each_other_are_refused(queue: JobQueue) -> None:
    with pytest.raises(InvalidOption, match="unique='key'"):
        queue.enqueue("mail", key="a", unique=True)
    with pytest.raises(InvalidOption, match="pass key="):
        queue.enqueue("mail", unique="key")
    with pytest.raises(InvalidOption, match="pass key="):
        queue.enqueue_many("mail", [1], unique="key")
    with pytest.raises(InvalidOption, match="exclude each other"):
        queue.enqueue("mail", debounce=5, throttle=5)
    with pytest.raises(InvalidOption, match="rules of their own"):
        queue.enqueue("mail", debounce=5, unique=Unique(within=5))
    with pytest.raises(InvalidOption, match="set within="):
        Unique(states=("completed",))
    with pytest.raises(InvalidOption, match=r"at most 14 days.*archive_retention"):
        queue.enqueue("mail", throttle=15 * 86400)
    assert queue.stats() == {}


# The window


def test_a_job_counts_for_so_long_after_it_was_enqueued(queue: JobQueue, clock: TestClock) -> None:
    first = queue.enqueue("mail", unique=Unique(within=60))
    clock.advance(30)
    queue.complete(queue.claim(["mail"])[0])
    clock.advance(29)
    kept = queue.enqueue("mail", unique=Unique(within=60))
    assert (kept.id, kept.created, kept.conflict, kept.status) == (first.id, False, "kept", "completed")
    clock.advance(1)
    second = queue.enqueue("mail", unique=Unique(within=60))
    assert second.created
    # It is still live, and its window has passed.
    clock.advance(60)
    assert queue.enqueue("mail", unique=Unique(within=60)).created


def test_throttle_lets_one_through_within_so_many_seconds(queue: JobQueue, clock: TestClock) -> None:
    queue.enqueue("ping", {"host": "a"}, throttle=60)
    queue.fail(queue.claim(["ping"])[0], "broken", give_up=True)
    assert not queue.enqueue("ping", {"host": "a"}, throttle=60).created
    assert queue.enqueue("ping", {"host": "b"}, throttle=60).created
    clock.advance(60)
    assert queue.enqueue("ping", {"host": "a"}, throttle=60).created
    # What was cancelled has not happened.
    cancelled = queue.enqueue("ping", {"host": "c"}, throttle=60)
    queue.cancel(cancelled)
    assert queue.enqueue("ping", {"host": "c"}, throttle=60).created
    assert queue.enqueue("ping", key="k", throttle=60).created
    assert not queue.enqueue("ping", {"host": "a"}, key="k", throttle=60).created


def test_a_window_begins_when_the_job_was_added_and_not_with_the_transaction(queue: JobQueue, connect: Connect) -> None:
    """The bug: of a transaction that was older than the window, the job counted no more as soon as it had committed."""
    conn = connect(autocommit=False)
    conn.execute("SELECT")
    age = "SELECT FROM clock_timestamp() AS at WHERE at - now() > interval '0.5 s'"
    while not conn.execute(age).rowcount:
        pass
    began = time.monotonic()
    first = queue.enqueue("ping", throttle=0.5, conn=conn)
    assert first.created
    again = queue.enqueue("ping", throttle=0.5, conn=conn)
    assert not again.created or time.monotonic() - began > 0.4
    conn.commit()
    second = queue.enqueue("ping", throttle=0.5)
    assert not second.created or time.monotonic() - began > 0.4
    # To an old transaction, the window of a job that was added since is over as it is to others.
    old = connect(autocommit=False)
    old.execute("SELECT")
    queue.enqueue("ping", {"n": 2}, throttle=0.5)
    added = time.monotonic()
    while time.monotonic() < added + 0.6:
        pass
    assert queue.enqueue("ping", {"n": 2}, throttle=0.5, conn=old).created


def test_debounce_postpones_the_job_and_the_last_payload_wins(queue: JobQueue, clock: TestClock) -> None:
    first = queue.enqueue("save", {"doc": 1, "text": "a"}, unique=("doc",), debounce=5)
    assert first.run_at == clock.now.replace(microsecond=first.run_at.microsecond) + (first.run_at - first.created_at)
    assert (first.run_at - first.created_at).total_seconds() == 5
    for text in ("b", "c"):
        clock.advance(4)
        later = queue.enqueue("save", {"doc": 1, "text": text}, unique=("doc",), debounce=5)
        assert (later.id, later.conflict, later.created) == (first.id, "replaced", False)
        assert (later.run_at - clock.now).total_seconds() == 5
    assert queue.claim(["save"]) == []
    clock.advance(5)
    (job,) = queue.claim(["save"])
    assert job.data == {"doc": 1, "text": "c"}
    # While it runs, the next call adds a job.
    assert queue.enqueue("save", {"doc": 1, "text": "d"}, unique=("doc",), debounce=5).created
    # A time of the call's own comes before that of the rule.
    now = queue.enqueue("save", {"doc": 1, "text": "e"}, unique=("doc",), debounce=5, delay=0)
    assert (now.conflict, now.run_at) == ("replaced", clock.now)


def test_a_job_that_has_expired_does_not_count_any_more(queue: JobQueue, clock: TestClock) -> None:
    first = queue.enqueue("mail", unique=True, expires_in=10)
    clock.advance(10)
    assert queue.get(first.id).status == "pending"
    assert queue.enqueue("mail", unique=True).created


# What happens to the earlier job


def test_a_replaced_job_is_as_new_and_keeps_its_place(queue: JobQueue, clock: TestClock) -> None:
    rule = Unique(by=("n",), conflict="replace")
    first = queue.enqueue("mail", {"n": 1, "v": 1}, unique=rule, priority=5, max_attempts=7, meta={"a": 1}, timeout=9)
    clock.advance(10)
    (claimed,) = queue.claim(["mail"])
    queue.start(claimed)
    queue.progress(claimed, 50, "half")
    queue.checkpoint(claimed, {"done": 5})
    queue.fail(claimed, "broken", delay=1000)
    clock.advance(10)
    replaced = queue.enqueue("mail", {"n": 1, "v": 2}, unique=rule, timeout=3)
    assert (replaced.id, replaced.created, replaced.conflict) == (first.id, False, "replaced")
    assert (replaced.data, replaced.priority, replaced.max_attempts, replaced.meta) == ({"n": 1, "v": 2}, 100, 3, None)
    assert (replaced.attempts, replaced.percent, replaced.current_stage, replaced.resumed) == (0, 0, None, None)
    assert (replaced.created_at, replaced.run_at) == (first.created_at, clock.now)
    assert len(replaced.errors) == 1
    clock.advance(10)
    assert queue.enqueue("mail", {"n": 1, "v": 3}, unique=rule).run_at == replaced.run_at
    (again,) = queue.claim(["mail"])
    assert (again.data, again.resumed, again.attempts) == ({"n": 1, "v": 3}, None, 1)
    queue.complete(again)


def test_a_replaced_job_does_no_step_of_the_other_data(queue: JobQueue, db: Db) -> None:
    """The bug: a step that was done with the old data was skipped with the new, which was never charged."""
    rule = Unique(by=("n",), conflict="replace")
    first = queue.enqueue("pay", {"n": 1, "euro": 5}, unique=rule)
    (claimed,) = queue.claim(["pay"])
    queue.start(claimed)
    queue.progress(claimed, 50)
    assert db.execute("SELECT record_step(%s, %s, 'charge', '5')", (first.id, claimed.token)).rowcount == 1
    queue.fail(claimed, "broken", delay=0)
    assert queue.enqueue("pay", {"n": 1, "euro": 500}, unique=rule).conflict == "replaced"
    assert db.execute("SELECT FROM steps_of(%s)", (first.id,)).rowcount == 0
    replaced = queue.get(first.id)
    assert (replaced.record, replaced.errors[0].error) == (None, "broken")
    (again,) = queue.claim(["pay"])
    assert again.token > claimed.token
    assert db.execute("SELECT FROM live WHERE has_steps").rowcount == 0


@pytest.mark.parametrize("delay", [None, 60])
def test_a_replaced_job_waits_for_nothing_and_is_due_as_the_call_says(
    queue: JobQueue, db: Db, clock: TestClock, delay: float | None
) -> None:
    rule = Unique(by=("n",), conflict="replace")
    first = queue.enqueue("save", {"n": 1, "text": "v1"}, unique=rule)
    (claimed,) = queue.claim(["save"])
    queue.start(claimed)
    db.execute("SELECT record_step(%s, %s, 'upload', '\"v1\"')", (first.id, claimed.token))
    db.execute("SELECT wait_signal(%s, %s, 'signal:approved#1', 'approved')", (first.id, claimed.token))
    assert queue.get(first.id).waits_for is not None
    clock.advance(10)
    replaced = queue.enqueue("save", {"n": 1, "text": "v2"}, unique=rule, delay=delay)
    assert (replaced.conflict, (replaced.run_at - clock.now).total_seconds()) == ("replaced", delay or 0)
    assert queue.get(first.id).waits_for is None
    # What it waited for is no wait of the new job: the signal is kept until that asks for it.
    assert db.execute("SELECT FROM signal_channels").rowcount == 0
    assert queue.signal("approved").woken == 0
    clock.advance(delay or 0)
    (again,) = queue.claim(["save"])
    assert (again.data["text"], db.execute("SELECT FROM steps_of(%s)", (first.id,)).rowcount) == ("v2", 0)


def test_a_rescheduled_job_keeps_its_data(queue: JobQueue, clock: TestClock) -> None:
    rule = Unique(by=("n",), conflict="reschedule")
    first = queue.enqueue("mail", {"n": 1, "v": 1}, unique=rule, delay=60, priority=5)
    moved = queue.enqueue("mail", {"n": 1, "v": 2}, unique=rule, delay=10, priority=7)
    assert (moved.id, moved.conflict, moved.data, moved.priority) == (first.id, "rescheduled", {"n": 1, "v": 1}, 5)
    assert ((moved.run_at - clock.now).total_seconds(), moved.run_at) == (10, moved.first_due_at)
    (job,) = (queue.enqueue("mail", {"n": 1}, unique=rule), *queue.claim(["mail"]))[1:]
    assert job.data == {"n": 1, "v": 1}


@pytest.mark.parametrize(
    "call", ["wait_signal(%s, %s, 'signal:go#1', 'go')", "sleep_until(%s, %s, 'sleep#1', p_delay => '1 h')"]
)
def test_a_job_that_waits_is_not_rescheduled(queue: JobQueue, db: Db, clock: TestClock, call: str) -> None:
    """The bug: it was claimed while it waited, a signal woke others only, and it waited for ever."""
    rule = Unique(by=("n",), conflict="reschedule")
    for n in range(2):
        queue.enqueue("mail", {"n": n}, unique=rule)
    first, second = queue.claim(["mail"], 2)
    for job in (first, second):
        queue.start(job)
        db.execute(f"SELECT {call}".encode(), (job.id, job.token))
    due = queue.get(first.id).run_at
    kept = queue.enqueue("mail", {"n": 0}, unique=rule)
    assert (kept.id, kept.created, kept.conflict, kept.run_at) == (first.id, False, "kept", due)
    assert queue.claim(["mail"], 2) == []
    assert queue.signal("go").woken == (2 if "signal" in call else 0)
    clock.advance(3600)
    assert len(queue.claim(["mail"], 2)) == 2


@pytest.mark.parametrize("conflict", ["keep", "replace", "reschedule"])
def test_a_job_that_is_being_claimed_counts_as_running(queue: JobQueue, connect: Connect, conflict: OnConflict) -> None:
    only_pending = Unique(by=("n",), states=("pending",), conflict=conflict)
    live = Unique(by=("n",), states=("pending", "claimed", "running"), conflict=conflict)
    first = queue.enqueue("mail", {"n": 1, "v": 1}, unique=only_pending)
    claiming = connect(autocommit=False)
    assert claiming.execute("SELECT id FROM claim('w', ARRAY['mail'])").fetchall() == [{"id": first.id}]
    kept = queue.enqueue("mail", {"n": 1, "v": 2}, unique=live)
    assert (kept.id, kept.conflict) == (first.id, "kept")
    second = queue.enqueue("mail", {"n": 1, "v": 3}, unique=only_pending)
    assert second.created
    claiming.commit()
    assert queue.get(first.id).data == {"n": 1, "v": 1}
    assert [job.id for job in queue.claim(["mail"], 10)] == [second.id]


@pytest.mark.parametrize("conflict", ["keep", "replace", "reschedule"])
def test_a_waiting_job_that_stands_for_the_call_starts_after_its_commit(
    queue: JobQueue, connect: Connect, conflict: OnConflict
) -> None:
    """A handler that started before would not see what the transaction wrote."""
    rule = Unique(states=("pending",), conflict=conflict)
    first = queue.enqueue("reindex", unique=rule)
    conn = connect(autocommit=False)
    assert queue.enqueue("reindex", unique=rule, conn=conn).id == first.id
    assert queue.claim(["reindex"]) == []
    conn.commit()
    assert [job.id for job in queue.claim(["reindex"])] == [first.id]


def test_a_job_that_comes_back_from_an_attempt_is_not_refused(queue: JobQueue) -> None:
    rule = Unique(states=("pending",))
    queue.enqueue("mail", unique=rule)
    (first,) = queue.claim(["mail"])
    second = queue.enqueue("mail", unique=rule)
    assert second.created
    queue.fail(first, "broken", delay=0)
    assert {job.status for job in queue.list()} == {"pending"}
    assert not queue.enqueue("mail", unique=rule).created
    # Either of them counts.
    queue.cancel(second)
    assert queue.enqueue("mail", unique=rule).id == first.id


# Bulks


def test_items_of_a_bulk_that_are_the_same(queue: JobQueue) -> None:
    items = [{"n": n, "v": v} for v in range(3) for n in range(2)]
    for conflict, verb, data in (("keep", "kept", 0), ("replace", "replaced", 2), ("reschedule", "rescheduled", 0)):
        rule = Unique(by=("n",), conflict=conflict)  # type: ignore[arg-type]
        added = queue.enqueue_many(conflict, items, unique=rule, return_ids=True)
        assert (added, added.conflicts) == (2, {verb: 4})
        jobs = queue.claim([conflict], 10)
        assert [job.id for job in jobs] == added.ids
        assert [job.data for job in jobs] == [{"n": 0, "v": data}, {"n": 1, "v": data}]
    with pytest.raises(DuplicateJob, match="items 0 and 2 ") as refused:
        queue.enqueue_many("raise", items, unique=Unique(by=("n",), conflict="raise"))
    assert refused.value.job_id is None
    assert "raise" not in queue.stats()
    # A waiting job is not in the way of this rule, and neither is an item of the same bulk.
    assert queue.enqueue_many("running", items, unique=Unique(by=("n",), states=("running",))) == 6


def test_a_bulk_of_many_calls_is_one_transaction(queue: JobQueue) -> None:
    count = 2 * BULK_SIZE + 10
    added = queue.enqueue_many("mail", ({"n": n % (BULK_SIZE + 5)} for n in range(count)), unique=True)
    assert (added, added.conflicts) == (BULK_SIZE + 5, {"kept": count - BULK_SIZE - 5})
    assert [job.data["n"] for job in queue.claim(["mail"], count)] == list(range(BULK_SIZE + 5))
    with pytest.raises(DuplicateJob):
        queue.enqueue_many("other", [{"n": n % BULK_SIZE} for n in range(count)], unique=Unique(conflict="raise"))
    assert "other" not in queue.stats()
    chunked = queue.enqueue_many("mail", ({"m": n % 7} for n in range(20)), unique=True, chunk_size=3)
    assert (chunked, chunked.conflicts) == (7, {"kept": 13})


def test_no_items(queue: JobQueue) -> None:
    added = queue.enqueue_many("mail", [], unique=True, return_ids=True)
    assert (added, added.ids, added.conflicts) == (0, [], {})


# Handlers


def test_the_rule_of_a_handler_holds_for_its_calls(queue: JobQueue) -> None:
    @queue.job(unique=("invoice",))
    def bill(invoice: int, note: str = "") -> None: ...

    @queue.job(debounce=5, unique="key")
    def save(doc: int) -> None: ...

    first = bill.enqueue(invoice=1, note="a")
    assert bill.enqueue(invoice=1, note="b").id == first.id
    assert bill.enqueue_many([{"invoice": 1}, {"invoice": 2}]) == 1
    assert bill.using(unique=False).enqueue(invoice=1).created
    assert bill.using(unique=True).enqueue(invoice=1, note="a").created
    assert queue.enqueue("bill", {"invoice": 2}).conflict == "kept"
    with pytest.raises(DuplicateJob):
        bill.using(unique=Unique(by=("invoice",), conflict="raise")).enqueue(invoice=2)
    with pytest.raises(InvalidOption, match="are unique by their arguments"):
        bill.using(key="a").enqueue(invoice=2)
    assert save.using(key="1").enqueue(doc=1).run_at > first.run_at
    assert save.using(key="1").enqueue(doc=2).data == {"doc": 2}
    with pytest.raises(InvalidOption, match="by their key"):
        save.enqueue(doc=1)


def test_a_rule_by_an_argument_that_there_is_not_is_refused(queue: JobQueue) -> None:
    with pytest.raises(InvalidOption, match="no argument 'invoise': it has invoice"):

        @queue.job(unique=("invoise.number",))
        def bill(invoice: dict[str, int]) -> None: ...

    @queue.job(unique=("anything",))
    def free(**arguments: Any) -> None: ...


def test_sql_producers_use_the_rule_that_a_worker_has_stored(queue: JobQueue, db: Db) -> None:
    @queue.job(unique=("invoice",))
    def bill(invoice: int) -> None: ...

    asyncio.run(queue.run_worker(drain=True))
    first = bill.enqueue(invoice=1)
    (row,) = db.execute("SELECT * FROM enqueue_unique('bill', ARRAY['{\"invoice\": 1}'::jsonb])").fetchall()
    assert (row["id"], row["created"], row["conflict"]) == (first.id, False, "kept")


# An operator's retry


def test_a_retry_is_refused_while_a_live_job_has_the_key(queue: JobQueue) -> None:
    for rule, data in ((Unique(), {"n": 1}), (Unique(states=("pending",)), {"n": 2}), (Unique(within=60), {"n": 3})):
        first = queue.enqueue("mail", data, unique=rule)
        queue.cancel(first)
        second = queue.enqueue("mail", data, unique=rule)
        assert second.created
        assert not queue.retry(first)
        (held,) = queue.claim(["mail"])
        assert queue.retry(first) == (rule.states == ("pending",))
        queue.cancel(first)
        queue.complete(held)
        assert queue.retry(first)
        assert queue.enqueue("mail", data, unique=rule).id == first.id
        assert not queue.retry(second)
        queue.cancel(first)


def test_of_two_ended_jobs_with_one_key_the_newer_is_retried(queue: JobQueue, db: Db) -> None:
    ids = []
    for _ in range(3):
        job = queue.enqueue("mail", unique=True)
        ids.append(job.id)
        queue.cancel(job)
    db.execute("DELETE FROM uniques")
    assert db.execute("SELECT id FROM retry(%s)", (ids,)).fetchall() == [{"id": ids[2]}]
    assert db.execute("SELECT id FROM retry(%s)", (ids,)).fetchall() == []


# Transactions and locks


def test_what_is_rolled_back_is_not_in_the_way(queue: JobQueue, connect: Connect) -> None:
    conn = connect(autocommit=False)
    assert queue.enqueue("mail", unique=True, conn=conn).created
    assert not queue.enqueue("mail", unique=True, conn=conn).created
    conn.rollback()
    assert queue.enqueue("mail", unique=True).created


def waits(db: Db, pid: int) -> bool:
    (row,) = db.execute("SELECT cardinality(pg_blocking_pids(%s)) AS n", (pid,)).fetchall()
    return bool(row["n"])


@pytest.mark.parametrize("commits", [True, False])
def test_a_second_call_waits_for_the_transaction_of_the_first(
    queue: JobQueue, db: Db, connect: Connect, commits: bool
) -> None:
    first, second = connect(autocommit=False), connect()
    job = queue.enqueue("mail", {"n": 1}, unique=True, conn=first)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(queue.enqueue, "mail", {"n": 1}, unique=True, conn=second)
        while not waits(db, second.info.backend_pid):
            assert not waiting.done()
        (first.commit if commits else first.rollback)()
        answer = waiting.result()
    assert (answer.created, answer.id == job.id) == (not commits, commits)


@pytest.mark.parametrize("retried_first", [True, False])
def test_a_retry_and_a_call_at_the_same_moment(queue: JobQueue, db: Db, connect: Connect, retried_first: bool) -> None:
    first, second = connect(autocommit=False), connect()
    ended = queue.enqueue("mail", unique=True)
    queue.cancel(ended)

    def retry(conn: Db) -> bool:
        return queue.retry(ended, conn=conn)

    def enqueue(conn: Db) -> bool:
        return queue.enqueue("mail", unique=True, conn=conn).created

    early, late = (retry, enqueue) if retried_first else (enqueue, retry)
    assert early(first)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(late, second)
        while not waits(db, second.info.backend_pid):
            assert not waiting.done()
        first.commit()
        assert not waiting.result()
    assert queue.stats()["mail"].pending == 1


def test_long_bulks_that_share_keys_run_one_after_the_other(dsn: str) -> None:
    keys = list(range(BULK_SIZE + 500))
    start = threading.Barrier(3)

    def bulk(number: int) -> int:
        mixed = random.Random(number).sample(keys, len(keys))
        start.wait()
        with JobQueue(dsn) as own:
            return own.enqueue_many("mail", mixed, unique=True)

    with ThreadPoolExecutor(3) as pool:
        assert sorted(pool.map(bulk, range(3))) == [0, 0, len(keys)]


def test_a_key_that_stays_locked_raises_unique_key_busy(queue: JobQueue, connect: Connect) -> None:
    holding, impatient = connect(autocommit=False), connect(options="-c lock_timeout=50ms")
    queue.enqueue("mail", unique=True, conn=holding)
    with pytest.raises(UniqueKeyBusy, match="try it again"):
        queue.enqueue("mail", unique=True, conn=impatient)
    assert impatient.execute("SHOW lock_timeout").fetchone() == {"lock_timeout": "50ms"}
    assert queue.enqueue("mail", {"n": 2}, unique=True, conn=impatient).created


def test_crossed_calls_of_two_transactions_end_in_an_error_of_ours(queue: JobQueue, db: Db, connect: Connect) -> None:
    one, two = connect(autocommit=False), connect(autocommit=False)
    for conn in (one, two):
        conn.execute("SET deadlock_timeout = '10ms'")
    queue.enqueue("mail", {"n": 1}, unique=True, conn=one)
    queue.enqueue("mail", {"n": 2}, unique=True, conn=two)

    def cross(conn: Db, n: int) -> bool:
        try:
            queue.enqueue("mail", {"n": n}, unique=True, conn=conn)
        except UniqueKeyBusy:
            conn.rollback()
            return False
        conn.commit()
        return True

    with ThreadPoolExecutor(2) as pool:
        done = sorted(pool.map(cross, (one, two), (2, 1)))
    assert done == [False, True]
    assert queue.stats()["mail"].pending == 2


def test_a_stricter_transaction_gets_no_second_job(queue: JobQueue, connect: Connect) -> None:
    conn = connect(autocommit=False)
    conn.commit()
    conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    rule = Unique(states=("pending",))
    queue.enqueue("mail", unique=rule)
    conn.execute("SELECT 1")
    queue.claim(["mail"])
    assert queue.enqueue("mail", unique=rule).created
    with pytest.raises(psycopg.errors.SerializationFailure):
        queue.enqueue("mail", unique=rule, conn=conn)


def test_a_repeated_call_finds_its_own_job(queue: JobQueue) -> None:
    for rule in (Unique(states=("pending",)), Unique(conflict="raise"), Unique(conflict="replace")):
        own = uuid.uuid4()
        first = queue.enqueue("mail", {"own": str(own)}, id=own, unique=rule)
        assert (first.id, first.created) == (own, True)
        again = queue.enqueue("mail", {"own": str(own)}, id=own, unique=rule)
        assert (again.id, again.created, again.conflict) == (own, False, None)
        (held,) = queue.claim(["mail"])
        assert queue.enqueue("mail", {"own": str(own)}, id=own, unique=rule).id == own
        queue.complete(held)
        assert queue.enqueue("mail", {"own": str(own)}, id=own, unique=rule).status == "completed"


# Encryption


@pytest.fixture
def sealed(dsn: str) -> Iterator[JobQueue]:
    with JobQueue(dsn, codec=EncryptedCodec(new_key())) as queue:
        yield queue


def test_with_a_codec_the_client_hashes(sealed: JobQueue, db: Db) -> None:
    @sealed.job(unique=("invoice.id",))
    def bill(invoice: dict[str, int], note: str = "") -> None: ...

    first = bill.enqueue(invoice={"id": 1, "x": 2}, note="a")
    again = bill.enqueue(invoice={"id": 1, "x": 3}, note="b")
    assert (again.id, again.conflict, again.data["note"]) == (first.id, "kept", "a")
    replaced = bill.using(unique=Unique(by=("invoice.id",), conflict="replace")).enqueue(invoice={"id": 1}, note="c")
    assert (replaced.id, replaced.data["note"]) == (first.id, "c")
    assert bill.enqueue_many([{"invoice": {"id": 1}}, {"invoice": {"id": 2}}, {"invoice": {"id": 2}}]) == 1
    assert sealed.enqueue("mail", {"a": 1, "b": 2}, unique=True).created
    assert not sealed.enqueue("mail", {"b": 2, "a": 1}, unique=True).created
    assert sealed.enqueue("mail", key="k", unique="key").created
    assert not sealed.enqueue("mail", {"n": 1}, key="k", unique="key").created

    asyncio.run(sealed.run_worker(drain=True))
    for statement in (
        "SELECT enqueue_unique('bill', ARRAY['{\"invoice\": {\"id\": 1}}'::jsonb])",
        "SELECT enqueue_unique('mail', ARRAY['{\"howdah.sealed\": \"\"}'::jsonb], '{}')",
    ):
        with pytest.raises(psycopg.Error, match="cannot read the arguments") as refused:
            db.execute(statement.encode())
        assert refused.value.sqlstate == "JQ001"
        assert "p_keys" in (refused.value.diag.message_hint or "")
