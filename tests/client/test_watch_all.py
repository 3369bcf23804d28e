"""``watch_all``: the stream of all jobs, from any place on: none missed, none twice, whatever commits when."""

from __future__ import annotations

import random
import re
import threading
import time
from typing import Any

import psycopg
import pytest

from howdah import InvalidJobType, InvalidOption, Job, JobQueue, PositionLost
from howdah.watch import mailbox
from tests.client.listener import FLAVOURS, PATIENCE, Listener, has, held, names, without_progress
from tests.conftest import Connect, Db

every_flavour = pytest.mark.parametrize("flavour", FLAVOURS)


@every_flavour
def test_the_updates_of_all_jobs_come_in_order(queue: JobQueue, flavour: str) -> None:
    with Listener(queue, flavour, "watch_all", after=queue.stream_position()) as listener:
        first, second = held(queue, "mail"), held(queue, "film")
        for n in range(10):
            queue.event(first, f"mail {n}", {"n": n})
            queue.event(second, f"film {n}")
        queue.complete(first)
        queue.fail(second, "no", give_up=True)
        updates = listener.until(has("failed"))
    assert names(updates) == [f"{kind} {n}" for n in range(10) for kind in ("mail", "film")]
    mails = [each for each in updates if each.job_id == first.id and each.kind != "progress"]
    assert [each.data for each in mails[:-1]] == [{"n": n} for n in range(10)]
    assert [(each.kind, each.name, each.job_type) for each in (mails[-1], mails[0])] == [
        ("status", "completed", "mail"), ("event", "mail 0", "mail"),
    ]  # fmt: skip


@every_flavour
def test_it_begins_now_at_a_position_or_with_the_oldest(queue: JobQueue, flavour: str) -> None:
    job = held(queue)
    queue.event(job, "before")
    position = queue.stream_position()
    queue.event(job, "after it")
    with (
        Listener(queue, flavour, "watch_all") as now,
        Listener(queue, flavour, "watch_all", after=position) as since,
        Listener(queue, flavour, "watch_all", after="") as oldest,
    ):
        since.until(has("after it"))
        oldest.until(has("after it"))
        # The first update has its position as soon as it listens.
        now.until(len)
        queue.event(job, "now")
        assert names(now.until(has("now"))) == ["now"]
        assert names(since.until(has("now"))) == ["after it", "now"]
        assert names(oldest.until(has("now"))) == ["before", "after it", "now"]


@every_flavour
def test_only_some_types_and_kinds_may_be_wanted(queue: JobQueue, db: Db, flavour: str) -> None:
    after = queue.stream_position()
    jobs = {name: held(queue, name) for name in ("mail", "film", "book")}
    with (
        Listener(queue, flavour, "watch_all", types=["mail", "book"], kinds=["event"], after=after) as some,
        Listener(queue, flavour, "watch_all", types={"film"}, kinds=["status", "progress"], after=after) as other,
    ):
        for name, job in jobs.items():
            queue.event(job, name)
        other.until(len)
        for job in jobs.values():
            queue.complete(job)
        queue.event(held(queue, "book"), "end")
        assert names(some.until(has("end"))) == ["mail", "book", "end"]
        assert {each.kind for each in some.updates} == {"event"}
        updates = other.until(lambda updates: updates and updates[-1].job and updates[-1].job.ended)
        assert {each.job_type for each in updates} == {"film"}
        assert [name for _, name, _ in without_progress(updates)] == ["completed"]


@every_flavour
def test_a_watcher_can_go_on_behind_any_update(queue: JobQueue, flavour: str) -> None:
    jobs = [held(queue, name) for name in ("mail", "film")]
    with Listener(queue, flavour, "watch_all", after=queue.stream_position()) as listener:
        for n in range(8):
            queue.event(jobs[n % 2], f"{n}")
            if n % 3 == 0:
                listener.until(has(f"{n}"))
        queue.progress(jobs[0], 50)
        queue.event(jobs[0], "end")
        updates = listener.until(has("end"))
    end = next(index for index, each in enumerate(updates) if each.name == "end")
    for index, update in enumerate(updates[:end]):
        with Listener(queue, flavour, "watch_all", after=update.position) as resumed:
            assert names(resumed.until(has("end"))) == names(updates[index + 1 :])


@every_flavour
@pytest.mark.parametrize("pages", [10, 1])
def test_a_long_stream_is_read_page_by_page_while_it_goes_on(
    queue: JobQueue, db: Db, monkeypatch: pytest.MonkeyPatch, flavour: str, pages: int
) -> None:
    monkeypatch.setattr("howdah.watch.readers._LIVE_PAGES", pages)
    job = held(queue)

    def happen(first: int, count: int) -> None:
        db.execute(
            "SELECT record_events(array_fill(%s::uuid, ARRAY[%s]), array_fill(%s::bigint, ARRAY[%s]), %s::text[], %s::jsonb[])",
            (job.id, count, job.token, count, [f"{n}" for n in range(first, first + count)], [None] * count),
        )

    happen(0, 3_500)
    with Listener(queue, flavour, "watch_all", after="", kinds=["event"]) as listener:
        listener.until(len)
        happen(3_500, 2_200)
        assert names(listener.until(has("5699"))) == [f"{n}" for n in range(5_700)]


@every_flavour
@pytest.mark.parametrize("bystander", [False, True], ids=["", "with a transaction that stays open"])
def test_an_event_that_commits_after_younger_ones_comes_and_does_not_delay_them(
    queue: JobQueue, connect: Connect, flavour: str, bystander: bool
) -> None:
    late, early = held(queue, "mail"), held(queue, "film")
    if bystander:
        idle = connect(autocommit=False)
        idle.execute("SELECT pg_current_xact_id()")
    begin = queue.stream_position()
    with Listener(queue, flavour, "watch_all", after=begin) as live, psycopg.connect(queue.dsn) as conn:
        queue.event(late, "late", conn=conn)
        for n in range(3):
            queue.event(early, f"early {n}")
        seen = live.until(has("early 2"), "what was committed, while something older is not")
        assert names(seen) == ["early 0", "early 1", "early 2"]
        with Listener(queue, flavour, "watch_all", after=begin) as other:
            seen_by_another = other.until(has("early 2"))
        conn.commit()
        assert names(live.until(has("late"))) == ["early 0", "early 1", "early 2", "late"]
        for resumed_after in (seen[-1].position, seen_by_another[-1].position):
            with Listener(queue, flavour, "watch_all", after=resumed_after) as resumed:
                assert names(resumed.until(has("late"))) == ["late"]
        between = next(each.position for each in seen if each.name == "early 0")
        with Listener(queue, flavour, "watch_all", after=between) as resumed:
            assert sorted(filter(None, names(resumed.until(has("late"))))) == ["early 1", "early 2", "late"]
        queue.event(early, "end")
        with Listener(queue, flavour, "watch_all", after=begin) as again:
            assert sorted(filter(None, names(again.until(has("end"))))) == [
                "early 0",
                "early 1",
                "early 2",
                "end",
                "late",
            ]


def test_overlapping_writers_and_resumed_readers_get_each_event_once(dsn: str, queue: JobQueue) -> None:
    """Writers whose transactions overlap in every way, and readers that break off and resume at random."""
    count, writers = 40, 6
    jobs = [held(queue, f"type {n % 3}") for n in range(writers)]
    expected = {f"{writer} {n}" for writer in range(writers) for n in range(count)}
    after = queue.stream_position()

    def write(writer: int) -> None:
        dice = random.Random(writer)
        with psycopg.connect(dsn) as conn:
            for n in range(count):
                queue.event(jobs[writer], f"{writer} {n}", conn=conn)
                if dice.random() < 0.5:
                    time.sleep(dice.random() / 200)
                    conn.commit()

    def read(reader: int) -> None:
        dice = random.Random(-reader)
        position, heard = after, list[str | None]()
        deadline = time.monotonic() + PATIENCE
        while len(heard) < len(expected) and time.monotonic() < deadline:
            stop_after = dice.randint(1, 30)
            for update in queue.watch_all(after=position):
                position = update.position
                heard += names([update])
                stop_after -= 1
                if not stop_after or len(heard) == len(expected):
                    break
        results[reader] = heard

    results: dict[int, list[str | None]] = {}
    threads = [threading.Thread(target=write, args=(n,)) for n in range(writers)]
    threads += [threading.Thread(target=read, args=(n,)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE + 10)
    assert len(results) == 5
    for heard in results.values():
        assert len(heard) == len(expected)
        assert set(heard) == expected
        for writer in range(writers):
            own = [name for name in heard if name and name.startswith(f"{writer} ")]
            assert own == [f"{writer} {n}" for n in range(count)], "in order within each job"


@every_flavour
def test_a_slow_reader_misses_nothing_within_bounded_memory(
    queue: JobQueue, flavour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox, "ROOM", 20)
    may_go_on = threading.Event()
    job = held(queue)
    lost = threading.Event()
    put = mailbox.Mailbox.put

    def watched(self: mailbox.Mailbox, note: mailbox.Message, key: Any = None) -> None:
        put(self, note, key)
        assert len(self._messages) <= 21
        if self.is_lost:
            lost.set()

    monkeypatch.setattr(mailbox.Mailbox, "put", watched)

    def wait(_: object) -> None:
        assert may_go_on.wait(PATIENCE)

    with Listener(queue, flavour, "watch_all", after=queue.stream_position(), kinds=["event"], pace=wait) as slow:
        queue.event(job, "first")
        slow.until(has("first"))
        for n in range(100):
            queue.event(job, f"{n}")
        assert lost.wait(PATIENCE)
        may_go_on.set()
        slow.until(has("99"))
        queue.event(job, "end")
        assert names(slow.until(has("end"))) == ["first", *(f"{n}" for n in range(100)), "end"]


@every_flavour
def test_every_job_that_reports_comes_with_its_progress_and_its_end(queue: JobQueue, flavour: str) -> None:
    quiet, running = held(queue, "quiet"), held(queue, "mail")
    queue.progress(running, 10, "packing")
    with Listener(queue, flavour, "watch_all", kinds=["progress"]) as listener:
        (first,) = listener.until(len)
        assert first.job is not None
        assert (first.job_id, first.job.percent, first.job.current_stage) == (running.id, 10, "packing")
        queue.progress(running, 60)
        listener.until(lambda updates: updates[-1].job and updates[-1].job.percent == 60)
        queue.complete(quiet)
        queue.complete(running)
        updates = listener.until(lambda updates: updates[-1].job and updates[-1].job.ended)
        assert {each.job_id for each in updates} == {running.id}
        # A later watch gets no update of an ended job.
        late = held(queue, "mail")
        queue.progress(late, 5)
        with Listener(queue, flavour, "watch_all", kinds=["progress"]) as another:
            assert another.until(len)[0].job_id == late.id


@every_flavour
def test_the_end_of_a_job_that_reported_comes_even_if_it_was_never_read_live(queue: JobQueue, flavour: str) -> None:
    def complete(job: Job, conn: Any) -> None:
        queue.complete(job, conn=conn)

    def fail(job: Job, conn: Any) -> None:
        queue.fail(job, "no", give_up=True, conn=conn)

    bystander = held(queue, "mail")
    queue.progress(bystander, 10)
    with (
        Listener(queue, flavour, "watch_all", kinds=["progress"], types=["mail", "film"]) as listener,
        Listener(queue, flavour, "watch_all", kinds=["progress"], types=["mail"]) as another,
    ):
        listener.until(len)
        another.until(len)
        quick = []
        with psycopg.connect(queue.dsn) as conn:
            for end in (complete, fail):
                queue.enqueue("film", conn=conn)
                (job,) = queue.claim(["film"], conn=conn)
                queue.progress(job, 50, conn=conn)
                end(job, conn)
                quick.append(job.id)
        queue.complete(bystander)
        updates = listener.until(lambda updates: sum(each.job is not None and each.job.ended for each in updates) == 3)
        another.until(lambda updates: updates[-1].job and updates[-1].job.ended)
    ends = [(each.job_id, each.job.status) for each in updates if each.job is not None and each.job_type == "film"]
    assert sorted(ends) == sorted(zip(quick, ["completed", "failed"], strict=True)), "each once"
    assert {each.kind for each in updates} == {"progress"}
    assert {each.job_type for each in another.updates} == {"mail"}


@every_flavour
def test_all_updates_of_a_job_come_before_its_end(queue: JobQueue, flavour: str) -> None:
    with Listener(queue, flavour, "watch_all", after=queue.stream_position()) as listener:
        for _ in range(20):
            job = held(queue)
            queue.progress(job, 50)
            queue.event(job, "last")
            queue.complete(job)
        listener.until(lambda updates: len([each for each in updates if each.name == "completed"]) == 20)
        queue.event(held(queue), "end")
        updates = listener.until(has("end"))
    ended = [index for index, each in enumerate(updates) if each.job is not None and each.job.ended]
    for index in ended:
        of_it = [each for each in updates if each.job_id == updates[index].job_id]
        assert without_progress(of_it)[-1][1] == "completed"
        assert of_it[-1] is updates[index]


@every_flavour
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"after": 5}, InvalidOption), ({"kinds": ["x"]}, InvalidOption), ({"types": "mail"}, InvalidJobType),
        ({"types": [""]}, InvalidJobType),
    ],
    ids=repr,
)  # fmt: skip
def test_what_makes_no_sense_is_refused(
    queue: JobQueue, flavour: str, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        Listener(queue, flavour, "watch_all", **options)


@every_flavour
def test_a_position_that_is_none_or_of_another_database_is_refused(queue: JobQueue, flavour: str) -> None:
    assert isinstance(Listener(queue, flavour, "watch_all", after="here").failed(), InvalidOption)
    ahead = re.sub(r"\d+", str(10**12), queue.stream_position())
    assert isinstance(Listener(queue, flavour, "watch_all", after=ahead).failed(), PositionLost)
