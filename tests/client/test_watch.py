"""``watch``: everything that happens to one job, each once, in order, and its end last."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from howdah import InvalidOption, Job, JobNotFound, JobQueue, QueueClosed, Update
from howdah.watch import mailbox
from tests.client.listener import FLAVOURS, Listener, has, held, names, without_progress
from tests.conftest import Connect, Db

pytestmark = pytest.mark.parametrize("flavour", FLAVOURS)


def run(queue: JobQueue, job: Job, *events: str) -> None:
    for name in events:
        queue.event(job, name, {"is": name})


def whole(queue: JobQueue, flavour: str, job: Job, **options: Any) -> list[Update]:
    """The stream of a job that ends by itself."""
    return Listener(queue, flavour, "watch", job, **options).ended()


def the_last_is_the_end(updates: list[Update], status: str) -> bool:
    ends = [each for each in updates if each.job is not None and each.job.status == status]
    return ends == updates[-1:]


def stands_at(percent: int) -> Callable[[list[Update]], bool]:
    return lambda updates: any(each.job is not None and each.job.percent == percent for each in updates[-1:])


def test_all_updates_come_in_order_and_the_end_last(queue: JobQueue, flavour: str) -> None:
    job = queue.enqueue("mail", {"to": "you"})
    listener = Listener(queue, flavour, "watch", job)
    (first,) = listener.until(len)
    assert (first.kind, first.job, first.job_type, first.position) == ("progress", job, "mail", "0")
    (claimed,) = queue.claim(["mail"])
    queue.start(claimed)
    run(queue, claimed, "a", "b")
    queue.progress(claimed, 40, "packing")
    listener.until(stands_at(40))
    run(queue, claimed, "c")
    queue.complete(claimed, {"sent": 1})
    updates = listener.ended()
    assert [(kind, name) for kind, name, _ in without_progress(updates)] == [
        ("event", "a"), ("event", "b"), ("event", "c"), ("status", "completed"),
    ]  # fmt: skip
    assert [each.data for each in updates if each.kind == "event"] == [{"is": name} for name in "abc"]
    assert the_last_is_the_end(updates, "completed")
    assert updates[-1].job == queue.get(job)
    at_forty = next(each for each in updates if each.job is not None and each.job.percent == 40)
    assert at_forty.job is not None
    assert (at_forty.job.current_stage, at_forty.job.record and at_forty.job.record.percent) == ("packing", 40.0)


def test_several_watchers_get_the_same_updates_wherever_they_begin(dsn: str, queue: JobQueue, flavour: str) -> None:
    job = held(queue)
    run(queue, job, "a", "b")
    with JobQueue(dsn) as elsewhere:
        listeners = [Listener(each, kind, "watch", job) for each in (queue, elsewhere) for kind in (*FLAVOURS, flavour)]
        for listener in listeners:
            listener.until(has("b"))
        run(queue, job, "c")
        late = Listener(queue, flavour, "watch", job)
        run(queue, job, "d")
        queue.fail(job, "no", give_up=True)
        streams = [each.ended() for each in (*listeners, late)]
    for updates in streams:
        assert names(updates) == ["a", "b", "c", "d"]
        assert [each.position for each in updates if each.kind != "progress"] == ["1", "2", "3", "4", "5"]
        # A late watcher may have found it ended, and have got that update first.
        assert the_last_is_the_end(updates[1:], "failed")


def test_failed_attempts_are_updates_and_not_the_end(queue: JobQueue, flavour: str) -> None:
    job = queue.enqueue("mail", retry_policy={"kind": "none"})
    listener = Listener(queue, flavour, "watch", job)
    for error in ("first", "second"):
        (claimed,) = queue.claim(["mail"])
        queue.fail(claimed, error)
    listener.until(lambda updates: len(without_progress(updates)) == 2)
    (claimed,) = queue.claim(["mail"])
    queue.complete(claimed)
    updates = listener.ended()
    assert [(name, data["cause"], data.get("error")) for _, name, data in without_progress(updates)] == [
        ("pending", "failed", "first"), ("pending", "failed", "second"), ("completed", "completed", None),
    ]  # fmt: skip
    assert [each.attempt for each in updates if each.kind == "status"] == [1, 2, 3]


def test_a_watcher_can_go_on_behind_any_update(queue: JobQueue, flavour: str) -> None:
    job = held(queue)
    listener = Listener(queue, flavour, "watch", job)
    for name in "abcdefgh":
        run(queue, job, name)
        listener.until(has(name))
    queue.complete(job)
    everything = listener.ended()
    for index, update in enumerate(everything):
        rest = whole(queue, flavour, job, after=update.position)
        assert without_progress(rest) == without_progress(everything[index + 1 :])
        if update is everything[-1]:
            assert rest == []
        else:
            assert the_last_is_the_end(rest[-1:], "completed")


def test_a_watch_of_a_running_job_can_be_resumed(queue: JobQueue, flavour: str) -> None:
    job = held(queue)
    run(queue, job, "a", "b", "c")
    with Listener(queue, flavour, "watch", job) as listener:
        updates = listener.until(has("c"))
    resumed = Listener(queue, flavour, "watch", job, after=next(each.position for each in updates if each.name == "b"))
    resumed.until(has("c"))
    run(queue, job, "d")
    queue.complete(job)
    assert names(resumed.ended()) == ["c", "d"]


def test_a_resumed_watch_gets_a_new_life_but_not_the_old_end_again(queue: JobQueue, flavour: str) -> None:
    job = held(queue)
    run(queue, job, "a")
    queue.fail(job, "no", give_up=True)
    end = whole(queue, flavour, job)[-1].position
    assert whole(queue, flavour, job, after=end) == []
    queue.retry(job)
    listener = Listener(queue, flavour, "watch", job, after=end)
    listener.until(len)
    (again,) = queue.claim(["mail"])
    run(queue, again, "b")
    queue.complete(again)
    updates = listener.ended()
    assert next((name, data) for _, name, data in without_progress(updates)) == ("pending", {"cause": "retried"})
    assert names(updates) == ["b"]
    assert the_last_is_the_end(updates, "completed")
    assert names(whole(queue, flavour, job, after=end)) == ["b"]


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["event"], ["event", "event"]),
        (["log"], ["log"]),
        (["status"], ["status"]),
        (("status", "log"), ["log", "status"]),
        ({"progress"}, []),
        (["progress", "event"], ["event", "event"]),
    ],
    ids=repr,
)
def test_only_some_kinds_may_be_wanted(queue: JobQueue, db: Db, flavour: str, kinds: Any, expected: list[str]) -> None:
    job = held(queue)
    listener = Listener(queue, flavour, "watch", job, kinds=kinds)
    for name, kind in (("a", "event"), ("INFO", "log"), ("b", "event")):
        db.execute(
            "SELECT record_events(ARRAY[%s], ARRAY[%s], ARRAY[%s], ARRAY['{}'::jsonb], ARRAY[%s])",
            (job.id, job.token, name, kind),
        )
    queue.complete(job)
    for updates in (listener.ended(), whole(queue, flavour, job, kinds=kinds)):
        assert [kind for kind, _, _ in without_progress(updates)] == expected
        if "progress" in kinds:
            assert the_last_is_the_end(updates[-1:], "completed")
        else:
            assert all(each.job is None for each in updates)


def test_an_ended_job_comes_at_once_and_without_a_thread(queue: JobQueue, flavour: str) -> None:
    job = queue.enqueue("mail")
    queue.cancel(job, "not wanted")
    (only,) = whole(queue, flavour, job)
    assert only.job is not None
    assert (only.job.status, only.job.ended) == ("cancelled", True)
    assert queue._hub()._thread is None


def test_a_watch_of_thousands_of_events_is_complete(queue: JobQueue, db: Db, flavour: str) -> None:
    job = held(queue)
    record = "SELECT record_events(array_fill(%s::uuid, ARRAY[%s]), array_fill(%s::bigint, ARRAY[%s]), %s::text[], %s::jsonb[])"

    def happen(first: int, count: int) -> None:
        data = [str(n) for n in range(first, first + count)]
        db.execute(record, (job.id, count, job.token, count, ["n"] * count, data))

    happen(0, 2_500)
    listener = Listener(queue, flavour, "watch", job)
    listener.until(lambda updates: len(updates) > 1)
    happen(2_500, 2_500)
    queue.complete(job)
    for updates in (listener.ended(), whole(queue, flavour, job)):
        assert [each.data for each in updates if each.kind == "event"] == list(range(5_000))
        assert the_last_is_the_end(updates[-1:], "completed")


def test_a_slow_reader_misses_nothing_within_bounded_memory(
    queue: JobQueue, flavour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox, "ROOM", 20)
    monkeypatch.setattr("howdah.watch.readers.PAGE", 20)
    most = 0
    put = mailbox.Mailbox.put

    def counted(self: mailbox.Mailbox, note: mailbox.Message, key: Any = None) -> None:
        nonlocal most
        put(self, note, key)
        most = max(most, len(self._messages))

    monkeypatch.setattr(mailbox.Mailbox, "put", counted)
    may_go_on = threading.Event()
    job = held(queue)
    slow = Listener(queue, flavour, "watch", job, pace=lambda _: assert_comes(may_go_on))
    quick = Listener(queue, flavour, "watch", job)
    slow.until(len)
    for n in range(200):
        queue.event(job, f"{n}")
    quick.until(has("199"))
    queue.complete(job)
    quick.ended()
    may_go_on.set()
    assert names(slow.ended()) == [f"{n}" for n in range(200)]
    assert most <= 41, "as much as it has room for, and one page"


def assert_comes(event: threading.Event) -> None:
    assert event.wait(60)


def test_unread_progress_is_replaced_by_later_progress(queue: JobQueue, flavour: str) -> None:
    may_go_on = threading.Event()
    job = held(queue)
    slow = Listener(queue, flavour, "watch", job, kinds=["progress"], pace=lambda _: assert_comes(may_go_on))
    quick = Listener(queue, flavour, "watch", job, kinds=["progress"])
    slow.until(len)
    for percent in range(1, 30):
        queue.progress(job, percent)
        quick.until(stands_at(percent))
    may_go_on.set()
    slow.until(stands_at(29))
    assert len(slow.updates) <= 3, "the first, perhaps one more, and the newest"
    queue.complete(job)
    for listener in (slow, quick):
        assert the_last_is_the_end(listener.ended(), "completed")


def test_an_event_of_a_transaction_that_commits_late_comes_after_the_commit(
    queue: JobQueue, connect: Connect, flavour: str
) -> None:
    job, other = held(queue, "mail"), held(queue, "other")
    listener = Listener(queue, flavour, "watch", job)
    listener.until(len)
    with psycopg.connect(queue.dsn) as conn:
        queue.event(job, "late", conn=conn)
        queue.event(other, "early")
    queue.event(job, "then")
    queue.complete(job)
    assert names(listener.ended()) == ["late", "then"]


def test_a_new_life_that_begins_while_the_old_one_is_read_comes_after_its_end(
    queue: JobQueue, flavour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("howdah.watch.watch.PAGE", 2)
    job = held(queue)
    run(queue, job, "a", "b", "c")
    queue.fail(job, "no", give_up=True)

    def revive(update: Update) -> None:
        if update.name == "a":
            queue.retry(job)
            (again,) = queue.claim(["mail"])
            run(queue, again, "d", "e")
            queue.complete(again)

    first = whole(queue, flavour, job, pace=revive)
    assert names(first) == ["a", "b", "c"]
    assert first[-1].job is not None
    assert (without_progress(first)[-1][1], first[-1].job.status) == ("failed", "failed")
    assert names(whole(queue, flavour, job, after=first[-1].position)) == ["d", "e"]


@pytest.mark.parametrize("created_at", ["2000-01-01", "now", "2100-01-01"])
def test_events_are_found_whenever_they_happened(queue: JobQueue, db: Db, flavour: str, created_at: str) -> None:
    """Also those from before the job was made."""
    row = db.execute(
        "INSERT INTO jobs (id, job_type, status, created_at) VALUES (gen_random_uuid(), 'mail', 'pending', %s) RETURNING id",
        (created_at,),
    ).fetchone()
    assert row is not None
    (job,) = queue.claim(["mail"])
    assert job.id == row["id"]
    listener = Listener(queue, flavour, "watch", job)
    listener.until(len)
    db.execute(
        "SELECT record_events(ARRAY[%s], ARRAY[%s], ARRAY['old'], p_ages => ARRAY[interval '2 hours'])",
        (job.id, job.token),
    )
    listener.until(has("old"))
    run(queue, job, "new")
    queue.complete(job)
    assert names(listener.ended()) == ["old", "new"]


def test_a_job_that_is_not_there_cannot_be_watched(queue: JobQueue, flavour: str) -> None:
    with pytest.raises(JobNotFound):
        whole(queue, flavour, uuid.uuid4())  # type: ignore[arg-type]


def test_a_job_that_is_deleted_is_not_watched_for_ever(queue: JobQueue, db: Db, flavour: str) -> None:
    job = queue.enqueue("mail")
    listener = Listener(queue, flavour, "watch", job)
    listener.until(len)
    queue.cancel(job)
    db.execute("DELETE FROM jobs WHERE id = %s", (job.id,))
    # Whichever came first: that it was cancelled, or that it is gone.
    listener._thread.join(60)
    assert isinstance(listener.error, JobNotFound | None)
    assert not listener._thread.is_alive()


@pytest.mark.parametrize(
    "options",
    [{"after": "x"}, {"after": "-1"}, {"after": "1-"}, {"after": 5}, {"after": "9" * 10}, {"kinds": "event"},
     {"kinds": ["evnt"]}, {"kinds": []}, {"kinds": 5}],
    ids=repr,
)  # fmt: skip
def test_what_makes_no_sense_is_refused(queue: JobQueue, flavour: str, options: dict[str, Any]) -> None:
    job = queue.enqueue("mail")
    with pytest.raises(InvalidOption):
        Listener(queue, flavour, "watch", job, **options)


def test_a_watch_that_is_broken_off_is_unsubscribed(queue: JobQueue, flavour: str) -> None:
    job = held(queue)
    run(queue, job, "a")

    def plain() -> None:
        for update in queue.watch(job):
            if update.name == "a":
                assert len(queue._hub()._subscriptions) == 1
                break
        assert queue._hub()._subscriptions == set()

    async def awaited() -> None:
        async for update in queue.awatch(job):
            if update.name == "a":
                assert len(queue._hub()._subscriptions) == 1
                break
        # The loop closes what was broken off, by and by.
        while queue._hub()._subscriptions:
            await asyncio.sleep(0)

    plain() if flavour == "plain" else asyncio.run(asyncio.wait_for(awaited(), 60))


def test_a_task_that_is_cancelled_while_it_watches_is_unsubscribed(queue: JobQueue, flavour: str) -> None:
    job = held(queue)
    run(queue, job, "a")
    listener = Listener(queue, "awaited", "watch", job)
    listener.until(has("a"))
    listener.stop()
    listener._thread.join(60)
    assert queue._hub()._subscriptions == set()


def test_closing_the_queue_ends_its_watchers_with_an_error(dsn: str, flavour: str) -> None:
    queue = JobQueue(dsn)
    job = held(queue)
    listener = Listener(queue, flavour, "watch", job)
    run(queue, job, "a")
    listener.until(has("a"))
    queue.close()
    assert isinstance(listener.failed(), QueueClosed)
