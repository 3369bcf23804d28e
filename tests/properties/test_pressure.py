"""A bound on the jobs that wait: whatever happens to jobs, calls that follow one another never exceed it, and none is lost."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from howdah import JobQueue, QueueFull, Unique
from howdah.model.job import Job
from howdah.model.results import WhenFull
from tests.clock import TestClock
from tests.conftest import Db

BOUND = 4

operations = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from([50, 100, 100, 200]), st.sampled_from([0, 0, 30])),
        st.tuples(st.just("add_many"), st.integers(1, 7), st.sampled_from([50, 100])),
        st.tuples(st.just("insert"), st.integers(1, 3)),
        st.tuples(
            st.just("unique"), st.sets(st.integers(0, 5), min_size=1, max_size=5), st.sampled_from(["keep", "replace"])
        ),
        st.tuples(st.just("claim"), st.integers(1, 3)),
        st.tuples(st.sampled_from(["complete", "fail", "release"]), st.integers(0, 9)),
        st.tuples(st.just("cancel"), st.integers(0, 9)),
        st.tuples(st.just("bound"), st.sampled_from([2, 4, 6])),
        st.tuples(st.just("wait"), st.sampled_from([1, 40])),
    ),
    min_size=10,
    max_size=40,
)


class World:
    """A queue with one type, and what is expected of it."""

    def __init__(self, when_full: WhenFull, db: Db, queue: JobQueue, clock: TestClock) -> None:
        self.when_full, self.db, self.queue, self.clock = when_full, db, queue, clock
        self.bound = BOUND
        self.numbers = itertools.count()
        self.waiting: dict[uuid.UUID, tuple[int, Any]] = {}
        """The jobs that wait, with their priority and when they are due: the one with the least is dropped first."""
        self.held: list[Job] = []
        self.unique: dict[int, list[uuid.UUID]] = {}
        """The jobs of each key, in the order in which they were added."""
        self.dropped: set[uuid.UUID] = set()
        self.ended: set[uuid.UUID] = set()
        for table in ("live", "archive", "types", "backlog_counts", "uniques"):
            db.execute(f"DELETE FROM {table}".encode())
        queue.limits.set_max_pending("t", BOUND, when_full=when_full)

    def do(self, word: str, *arguments: Any) -> None:
        # Each operation has a moment of its own, so that one job is the oldest.
        self.clock.advance(0.001)
        match word, *arguments:
            case "add", priority, delay:
                self.add(1, lambda: [self.queue.enqueue("t", priority=priority, delay=delay).id])
            case "add_many", count, priority:
                self.add(count, lambda: self.add_many(count, priority))
            case "insert", count:
                self.add(count, lambda: self.insert(count))
            case "unique", keys, conflict:
                self.add_unique(sorted(keys), conflict)
            case "claim", count:
                for job in self.queue.claim(["t"], count):
                    del self.waiting[job.id]
                    self.held.append(job)
            case (("complete" | "fail" | "release"), place) if self.held:
                job = self.held.pop(place % len(self.held))
                if word == "release":
                    self.queue.release(job)
                elif word == "complete":
                    self.queue.complete(job)
                else:
                    self.queue.fail(job, "again", delay=20)
                if word == "complete":
                    self.ended.add(job.id)
                else:
                    self.note([job.id])
            case "cancel", place if self.waiting:
                id = sorted(self.waiting)[place % len(self.waiting)]
                self.queue.cancel(id)
                self.ended.add(id)
                del self.waiting[id]
            case "bound", most:
                self.bound = most
                self.queue.limits.set_max_pending("t", most, when_full=self.when_full)
            case "wait", seconds:
                self.clock.advance(seconds)

    def add_many(self, count: int, priority: int) -> list[uuid.UUID]:
        return self.queue.enqueue_many("t", [{}] * count, priority=priority, return_ids=True).ids or []

    def insert(self, count: int) -> list[uuid.UUID]:
        rows = self.db.execute(
            "INSERT INTO jobs (job_type) SELECT 't' FROM generate_series(1, %s) RETURNING id", (count,)
        )
        return [row["id"] for row in rows]

    def add(self, count: int, add: Callable[[], list[uuid.UUID]]) -> None:
        excess = max(len(self.waiting) + count - self.bound, 0)
        if self.when_full == "raise" and excess:
            with pytest.raises((QueueFull, psycopg.errors.Error), match="there is no room for"):
                add()
            return
        # Jobs that wait already go first, and new ones only if there are too many of these alone.
        oldest = sorted(self.waiting, key=lambda id: (*self.waiting[id], id))
        ids = add()
        gone = oldest[:excess]
        assert len(ids) == count
        self.note([id for id in ids if not self.is_dropped(id)])
        mine = [id for id in ids if self.is_dropped(id)]
        assert len(mine) == excess - len(gone)
        for id in gone:
            del self.waiting[id]
        self.dropped.update(gone, mine)

    def add_unique(self, keys: list[int], conflict: Any) -> None:
        rule = Unique(by=("key",), states=("pending",), conflict=conflict)
        known = {key: id for key in keys for id in self.unique.get(key, []) if id in self.waiting}
        excess = max(len(self.waiting) + len(keys) - len(known) - self.bound, 0) if len(keys) > len(known) else 0
        items = [{"key": key, "no": next(self.numbers)} for key in keys]
        if self.when_full == "raise" and excess:
            with pytest.raises(QueueFull):
                self.queue.enqueue_many("t", items, unique=rule)
            return
        others = sorted(set(self.waiting) - set(known.values()), key=lambda id: (*self.waiting[id], id))
        rows = self.db.execute(
            "SELECT id, created, conflict FROM enqueue_unique('t', %s, %s)",
            ([Jsonb(i) for i in items], Jsonb(rule.rule)),
        ).fetchall()
        for item, row in zip(items, rows, strict=True):
            assert row["id"] == known.get(item["key"], row["id"])
            assert row["conflict"] == (
                {"keep": "kept", "replace": "replaced"}[conflict] if item["key"] in known else None
            )
            if row["created"] or conflict == "replace":
                # What is reported as written is stored, even if the job is dropped at once.
                assert self.queue.get(row["id"]).data == item
        for item, row in zip(items, rows, strict=True):
            if row["created"]:
                self.unique.setdefault(item["key"], []).append(row["id"])
        before = set(self.waiting)
        self.note([row["id"] for row in rows])
        gone = {id for id in self.waiting if self.is_dropped(id)}
        assert len(gone) == excess
        # Jobs that wait already, and are none of the call's, go first.
        assert gone >= set(others[:excess])
        assert gone & before <= set(others) or len(others) < excess
        for id in gone:
            del self.waiting[id]
        self.dropped |= gone

    def is_dropped(self, id: uuid.UUID) -> bool:
        return self.queue.get(id).status == "cancelled"

    def note(self, ids: list[uuid.UUID]) -> None:
        for id in ids:
            job = self.queue.get(id)
            self.waiting[id] = (job.priority, job.run_at)

    def check(self) -> None:
        jobs = self.queue.list(job_type="t", limit=1_000)
        assert {job.id for job in jobs if job.status == "pending"} == set(self.waiting)
        assert {
            job.id for job in jobs if job.status == "cancelled" and "dropped" in (job.last_error or "")
        } == self.dropped
        assert {job.id for job in jobs} == {*self.waiting, *self.dropped, *self.ended, *(job.id for job in self.held)}

    def run(self, words: list[tuple[Any, ...]]) -> None:
        for word in words:
            before = len(self.waiting)
            self.do(*word)
            self.check()
            if word[0] in ("add", "add_many", "insert", "unique"):
                # What came back from attempts, or waited before the bound was lowered, is never refused.
                assert len(self.waiting) <= max(self.bound, before)


@pytest.mark.parametrize("when_full", ["raise", "drop_oldest"])
def test_the_bound_holds_and_no_job_is_lost(when_full: WhenFull, db: Db, queue: JobQueue, clock: TestClock) -> None:
    @settings(max_examples=25)
    @given(words=operations)
    def runs(words: list[tuple[Any, ...]]) -> None:
        World(when_full, db, queue, clock).run(words)

    runs()
