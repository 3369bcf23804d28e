"""Slots: which jobs get one, in which order, how many at once, and which jobs are claimed ahead of time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howdah import Job, JobQueue
from howdah.handlers.outcome import Retry
from tests.conftest import Db
from tests.worker import child_handlers
from tests.worker.in_process import PATIENCE, asleep, drain, ended, run, sleeps, statuses, until, working

# How many at once


class Peak:
    """How many of each type run, and the most there were at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, int] = {}
        self.most: dict[str, int] = {}

    def enters(self, *names: str) -> None:
        with self._lock:
            for name in names:
                self._running[name] = self._running.get(name, 0) + 1
                self.most[name] = max(self.most.get(name, 0), self._running[name])

    def leaves(self, *names: str) -> None:
        with self._lock:
            for name in names:
                self._running[name] -= 1


@settings(max_examples=8)
@given(
    limits=st.lists(st.none() | st.integers(1, 4), min_size=1, max_size=4),
    asynchronous=st.booleans(),
    slots=st.integers(1, 6),
    jobs=st.integers(1, 40),
    seed=st.integers(),
)
def test_neither_a_handlers_own_limit_nor_the_workers_is_ever_exceeded(
    server_dsn: str, limits: list[int | None], asynchronous: bool, slots: int, jobs: int, seed: int
) -> None:
    peak, chance = Peak(), random.Random(seed)
    with JobQueue(server_dsn) as queue:
        names = [f"limited {uuid.uuid4().hex}" for _ in limits]
        for name, limit in zip(names, limits, strict=True):
            _register(queue, name, limit, asynchronous, peak)
        for _ in range(jobs):
            queue.enqueue(chance.choice(names), priority=chance.randrange(3))
        report = drain(queue, concurrency=slots, threads=slots)
    assert report.counts["completed"] == jobs
    assert peak.most["all"] <= slots
    for name, limit in zip(names, limits, strict=True):
        assert peak.most.get(name, 0) <= (slots if limit is None else limit)


def _register(queue: JobQueue, name: str, limit: int | None, asynchronous: bool, peak: Peak) -> None:
    async def on_loop() -> None:
        peak.enters(name, "all")
        await asyncio.sleep(0.002)
        peak.leaves(name, "all")

    def in_thread() -> None:
        peak.enters(name, "all")
        threading.Event().wait(0.002)
        peak.leaves(name, "all")

    queue.job(name=name, concurrency=limit)(on_loop if asynchronous else in_thread)


def test_all_slots_are_used(queue: JobQueue) -> None:
    running = 0
    all_busy = asyncio.Event()

    @queue.job
    async def work() -> None:
        nonlocal running
        running += 1
        if running == 7:
            all_busy.set()
        await all_busy.wait()

    queue.enqueue_many("work", [{} for _ in range(7)])
    assert drain(queue, concurrency=7).counts["completed"] == 7


def test_a_type_at_its_limit_does_not_keep_others_from_running(queue: JobQueue) -> None:
    others_done = asyncio.Event()
    done = 0

    @queue.job(concurrency=1, priority=150)
    async def narrow() -> None:
        await others_done.wait()

    @queue.job
    async def wide() -> None:
        nonlocal done
        done += 1
        if done == 20:
            others_done.set()

    queue.enqueue_many("narrow", [{} for _ in range(5)], priority=150)
    queue.enqueue_many("wide", [{} for _ in range(20)])
    assert drain(queue, concurrency=3).counts["completed"] == 25


def test_a_slot_that_a_quick_job_leaves_is_offered_to_the_slow_ones(
    queue: JobQueue, db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()

    @queue.job
    async def quick(gated: bool = False) -> None:
        await gate.passes(gated)

    @queue.job
    async def slow(seconds: float = 0) -> None:
        await asyncio.sleep(seconds)

    async def main() -> None:
        await slow.aenqueue(seconds=0.3)
        queue.enqueue_many("quick", [{} for _ in range(20)])
        async with asleep(queue, db, monkeypatch, "quick", concurrency=1):
            gated = await quick.aenqueue(gated=True)
            await gate.arrived.acquire()
            waiting = await slow.aenqueue()
            with contextlib.suppress(TimeoutError):
                # If it sleeps at all while there is no slot, it is to have fallen asleep again.
                async with asyncio.timeout(0.5):
                    await until(lambda: sleeps(db, "slow"))
            gate.opened.set()
            await ended(queue, gated)
            assert (await ended(queue, waiting)).status == "completed", "the worker does not poll for an hour"

    run(main())


# In which order


def test_with_one_slot_jobs_run_strictly_by_priority_and_then_in_their_order(queue: JobQueue) -> None:
    order: list[tuple[int, int]] = []

    @queue.job
    async def work(priority: int, n: int) -> None:
        order.append((priority, n))

    @queue.job
    async def other(priority: int, n: int) -> None:
        order.append((priority, n))

    chance = random.Random(5)
    jobs = [(chance.randrange(-3, 4), n) for n in range(60)]
    for priority, n in jobs:
        chance.choice([work, other]).using(priority=priority).enqueue(priority=priority, n=n)
    drain(queue, concurrency=1)
    assert order == sorted(jobs, key=lambda job: (-job[0], job[1]))


def test_an_urgent_job_that_arrives_during_a_backlog_starts_next(queue: JobQueue) -> None:
    order: list[int] = []
    started, go_on = asyncio.Event(), asyncio.Event()

    @queue.job
    async def work(n: int) -> None:
        order.append(n)
        started.set()
        await go_on.wait()

    async def main() -> None:
        for n in range(10):
            await work.aenqueue(n=n)
        async with working(queue, concurrency=1):
            await started.wait()
            urgent = await work.using(priority=150).aenqueue(n=100)
            go_on.set()
            await ended(queue, urgent)

    run(main())
    assert order[:2] == [0, 100]


def test_an_urgent_job_of_a_type_that_is_not_claimed_ahead_starts_in_the_midst_of_a_backlog_of_quick_ones(
    queue: JobQueue,
) -> None:
    begun = 0
    backlog = 500
    enough, all_done = asyncio.Event(), asyncio.Event()

    @queue.job
    async def quick() -> None:
        nonlocal begun
        begun += 1
        if begun == 100:
            enough.set()
        if begun == backlog:
            all_done.set()
        # Quick enough to be claimed ahead, and slow enough for the line of those to be never empty.
        await asyncio.sleep(0.005)

    @queue.job
    async def unheard() -> int:
        return begun

    async def main() -> int:
        await queue.aenqueue_many("quick", [{} for _ in range(backlog)])
        async with working(queue, concurrency=5):
            await enough.wait()
            urgent = await unheard.using(priority=150).aenqueue()
            await all_done.wait()
            return int((await ended(queue, urgent)).result)

    assert run(main()) < backlog


@pytest.mark.parametrize("share", [0, 0.2])
def test_a_share_for_the_oldest_lets_an_old_job_through_a_stream_of_urgent_ones(queue: JobQueue, share: float) -> None:
    order: list[str] = []
    length = 150

    @queue.job
    async def old() -> None:
        order.append("old")

    @queue.job
    async def urgent() -> None:
        order.append("urgent")

    old.using(priority=1).enqueue()
    queue.enqueue_many("urgent", [{} for _ in range(length)], priority=150)
    drain(queue, concurrency=1, fair_share=share)
    assert len(order) == length + 1
    assert (order.index("old") < length) is bool(share)


def test_an_ordered_type_runs_one_at_a_time_and_waits_for_a_retry(queue: JobQueue) -> None:
    peak = Peak()
    done: list[int] = []

    @queue.job(ordered=True)
    async def work(n: int, job: Job) -> None:
        peak.enters("work")
        try:
            await asyncio.sleep(0)
            if n == 3 and job.attempts < 3:
                raise Retry(delay=0.1)
            done.append(n)
        finally:
            peak.leaves("work")

    async def main() -> None:
        async with working(queue, concurrency=10):
            jobs = [await work.aenqueue(n=n) for n in range(8)]
            for job in jobs:
                await ended(queue, job)

    run(main())
    assert (done, peak.most) == (list(range(8)), {"work": 1})


def test_an_ordered_job_that_fails_for_good_lets_the_next_go_or_pauses_the_type(queue: JobQueue, db: Db) -> None:
    ran: list[str] = []

    @queue.job(ordered=True, max_attempts=1)
    async def goes_on(n: int) -> None:
        ran.append(f"goes on {n}")
        if n == 1:
            raise ValueError("broken")

    @queue.job(ordered=True, max_attempts=1, pause_on_failure=True)
    async def stops(n: int) -> None:
        ran.append(f"stops {n}")
        if n == 1:
            raise ValueError("broken")

    for n in range(3):
        goes_on.using(max_attempts=1).enqueue(n=n)
        stops.using(max_attempts=1).enqueue(n=n)
    drain(queue)
    assert [each for each in ran if each.startswith("goes")] == ["goes on 0", "goes on 1", "goes on 2"]
    assert [each for each in ran if each.startswith("stops")] == ["stops 0", "stops 1"]
    assert statuses(db, "stops") == {"completed": 1, "failed": 1, "pending": 1}


def test_a_worker_of_fifty_types_drains_them_all(queue: JobQueue) -> None:
    def register(n: int) -> None:
        async def on_loop(n: int) -> int:
            return n

        def in_thread(n: int) -> int:
            return n

        async def in_batches(jobs: list[Job]) -> list[int]:
            return [job.data["n"] for job in jobs]

        kinds: list[tuple[Any, dict[str, Any]]] = [
            (on_loop, {}),
            (on_loop, {"concurrency": 1}),
            (in_thread, {}),
            (in_batches, {"batch_size": 4}),
            (on_loop, {"ordered": True}),
        ]
        function, options = kinds[n % len(kinds)]
        queue.job(name=f"type {n}", **options)(function)

    for n in range(50):
        register(n)
        queue.enqueue_many(f"type {n}", [{"n": n} for _ in range(10)])
    assert drain(queue).counts["completed"] == 500


# Ahead of time


def test_slow_jobs_are_never_claimed_before_they_start(queue: JobQueue, db: Db) -> None:
    waiting: list[int] = []

    @queue.job
    async def slow() -> None:
        waiting.append(statuses(db, "slow").get("claimed", 0))
        await asyncio.sleep(0.15)

    queue.enqueue_many("slow", [{} for _ in range(8)])
    drain(queue, concurrency=2)
    assert waiting == [0] * 8


class Gate:
    """Handlers of this gate wait there while it is closed."""

    def __init__(self) -> None:
        self.arrived = asyncio.Semaphore(0)
        self.opened = asyncio.Event()

    async def passes(self, gated: bool) -> None:
        if gated:
            self.arrived.release()
            await self.opened.wait()


def test_quick_jobs_are_prefetched_and_released_when_the_worker_stops(queue: JobQueue, db: Db) -> None:
    gate = Gate()

    @queue.job
    async def quick(gated: bool = False) -> None:
        await gate.passes(gated)

    async def main() -> None:
        queue.enqueue_many("quick", [{} for _ in range(20)])
        async with working(queue, concurrency=1) as worker:
            await until(lambda: statuses(db, "quick") == {"completed": 20})
            with db.transaction():
                first = queue.enqueue("quick", {"gated": True}, priority=150, conn=db)
                queue.enqueue_many("quick", [{} for _ in range(10)], conn=db)
            await gate.arrived.acquire()
            # Claimed, or started ahead: that depends on how quick they are.
            await until(lambda: statuses(db, "quick").get("pending", 0) < 10)
            worker.stop()
            # The first still runs. A claim that was under way may get the others once more, and releases them.
            await until(lambda: statuses(db, "quick") == {"completed": 20, "pending": 10, "running": 1})
            gate.opened.set()
        assert (await queue.aget(first)).status == "completed"
        row = db.execute(
            "SELECT max(attempts) AS attempts, max(interruptions) AS interruptions FROM howdah.live"
        ).fetchone()
        assert row == {"attempts": 0, "interruptions": 0}, "a job that never began has lost nothing"

    run(main())


def test_slow_jobs_are_not_claimed_together_with_quick_ones(queue: JobQueue, db: Db) -> None:
    gate = Gate()

    @queue.job
    async def quick(gated: bool = False) -> None:
        await gate.passes(gated)

    @queue.job
    async def slow(seconds: float = 0) -> None:
        await asyncio.sleep(seconds)

    async def main() -> None:
        await slow.aenqueue(seconds=0.3)
        queue.enqueue_many("quick", [{} for _ in range(20)])
        async with working(queue, concurrency=2):
            await until(lambda: statuses(db, "quick") == {"completed": 20})
            await until(lambda: statuses(db, "slow") == {"completed": 1})
            with db.transaction():
                queue.enqueue_many("quick", [{"gated": True} for _ in range(2)], priority=150, conn=db)
                queue.enqueue_many("slow", [{} for _ in range(10)], conn=db)
            await gate.arrived.acquire()
            await gate.arrived.acquire()
            # Others could run them meanwhile.
            await until(lambda: statuses(db, "slow").get("claimed", 0) == 0)
            gate.opened.set()
            await until(lambda: statuses(db, "slow") == {"completed": 11})

    run(main())


# Threads


def test_the_threads_of_a_worker_end_with_it(queue: JobQueue) -> None:
    mine: list[threading.Thread] = []

    @queue.job
    def work() -> None:
        mine.append(threading.current_thread())

    queue.enqueue_many("work", [{} for _ in range(20)])
    drain(queue, threads=4)
    for thread in mine:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_two_workers_share_the_work(dsn: str, queue: JobQueue) -> None:
    both = threading.Barrier(2, timeout=PATIENCE)
    done: list[str] = []

    def register(queue: JobQueue, name: str) -> None:
        @queue.job
        def work() -> None:
            both.wait()
            # So long that no worker claims the next one before it can start it.
            threading.Event().wait(0.12)
            done.append(name)

    async def main() -> None:
        with JobQueue(dsn) as other:
            register(queue, "first")
            register(other, "second")
            jobs = queue.enqueue_many("work", [{} for _ in range(10)], return_ids=True)
            async with working(queue, threads=1), working(other, threads=1):
                for id in jobs.ids or ():
                    await queue.await_for(id, timeout=PATIENCE)

    run(main())
    assert sorted(done) == ["first"] * 5 + ["second"] * 5


# Suspects


def suspected(db: Db, job: Job) -> Job:
    """A job that was running when a worker died."""
    db.execute("UPDATE howdah.live SET crashes = 1 WHERE id = %s", (job.id,))
    return job


def test_a_suspect_runs_in_a_child_process_and_others_do_not(dsn: str, db: Db) -> None:
    queue = child_handlers.connected(dsn)
    types = ["where_in_thread", "where_on_loop", "where_in_batch"]
    suspects = [suspected(db, queue.enqueue(name)) for name in types]
    others = [queue.enqueue(name) for name in types]
    drain(queue, types=types, children=1)
    apart, here = ([queue.get(job) for job in jobs] for jobs in (suspects, others))
    assert {job.status for job in (*apart, *here)} == {"completed"}
    assert all((job.result["pid"] if isinstance(job.result, dict) else job.result) == os.getpid() for job in here)
    assert all((job.result["pid"] if isinstance(job.result, dict) else job.result) != os.getpid() for job in apart)
    assert [job.attempts for job in apart] == [1, 1, 1]
    assert apart[2].result["together"] == 1, "what a batch handler answers is read as from any batch"


@pytest.mark.parametrize("asynchronous", [True, False], ids=["on the loop", "in a thread"])
def test_a_suspect_that_no_child_can_import_runs_with_nothing_beside_it(
    queue: JobQueue, db: Db, asynchronous: bool
) -> None:
    peak = Peak()
    beside: list[int] = []

    async def on_loop(suspect: bool) -> None:
        peak.enters("all")
        if suspect:
            peak.most["all"] = 0
            peak.enters("all")
            await asyncio.sleep(0.2)
            beside.append(peak.most["all"])
            peak.leaves("all")
        await asyncio.sleep(0.002)
        peak.leaves("all")

    def in_thread(suspect: bool) -> None:
        asyncio.run(on_loop(suspect))

    handler = queue.job(name="work")(on_loop if asynchronous else in_thread)
    for _ in range(20):
        handler.enqueue(suspect=False)
    jobs = [suspected(db, handler.enqueue(suspect=True)) for _ in range(2)]
    queue.enqueue_many("work", [{"suspect": False} for _ in range(20)])
    report = drain(queue, concurrency=10, threads=10)
    assert report.counts["completed"] == 42
    assert beside == [2, 2], "itself, counted twice, and no other"
    assert [queue.get(job).attempts for job in jobs] == [1, 1]


def test_a_suspect_that_is_cancelled_while_it_waits_to_be_alone_does_not_stop_the_worker(
    queue: JobQueue, db: Db
) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @queue.job
    async def work(gated: bool = False) -> str:
        if gated:
            started.set()
            await go_on.wait()
        return "done"

    async def main() -> None:
        async with working(queue):
            gated = await work.aenqueue(gated=True)
            await started.wait()
            suspect = await work.using(delay=3600).aenqueue()
            suspected(db, suspect)
            await queue.areschedule(suspect)
            await until(lambda: queue.get(suspect).status == "claimed")
            assert await queue.acancel(suspect)
            go_on.set()
            assert (await ended(queue, gated)).result == "done"
            assert (await ended(queue, await work.aenqueue())).result == "done"
            assert (await queue.aget(suspect)).status == "cancelled"

    run(main())


def test_the_end_of_one_suspect_does_not_end_the_solitude_of_another(queue: JobQueue, db: Db, tmp_path: Path) -> None:
    others_are_there, alone, disturbed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @queue.job
    async def lonely() -> bool:
        alone.set()
        await others_are_there.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await disturbed.wait()
        return not disturbed.is_set()

    @queue.job
    async def other() -> None:
        if alone.is_set():
            disturbed.set()

    in_child = queue.job(process=True)(child_handlers.waits_for.function)

    async def main() -> Job:
        first = suspected(db, await in_child.aenqueue(path=str(tmp_path / "go on")))
        async with working(queue, children=2):
            await until(lambda: queue.get(first).current_stage == "waiting")
            second = suspected(db, await lonely.using(delay=3600).aenqueue())
            await queue.areschedule(second)
            await until(lambda: queue.get(second).status == "claimed")
            (tmp_path / "go on").touch()
            await ended(queue, first)
            await queue.aenqueue_many("other", [{} for _ in range(5)])
            others_are_there.set()
            return await ended(queue, second)

    assert run(main()).result is True
