"""Jobs that their claim starts before a slot is free: each begins within milliseconds, or loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from howdah import JobQueue
from howdah.worker.run import slot_group
from tests.conftest import Db
from tests.worker.in_process import drain, ended, run, statuses, until, working
from tests.worker.processes import Fleet
from tests.worker.processes import until as until_seen

SLOTS = 50
LEARNED = 300
"""Jobs after which a worker has measured that a type is quick."""
WAITING = 900

# A worker is killed


@pytest.mark.parametrize("place", ["on_the_loop", "in_a_thread"])
def test_prefetched_jobs_of_a_killed_worker_lose_no_attempt(
    place: str, dsn: str, queue: JobQueue, db: Db, tmp_path: Path
) -> None:
    name = f"quick_{place}"
    with Fleet(dsn, tmp_path, "handlers_ahead") as fleet:
        victim = fleet.start("victim", concurrency=SLOTS, threads=SLOTS).await_ready()
        queue.enqueue_many(name, [{} for _ in range(LEARNED)])
        fleet.await_drained()
        with db.transaction():
            queue.enqueue_many(name, [{"stays": True} for _ in range(SLOTS)], priority=150, conn=db)
            queue.enqueue_many(name, [{} for _ in range(WAITING)], conn=db)
        until_seen(lambda: fleet.ledger.count("START") == SLOTS, "every slot is taken")
        victim.freeze()
        begun = {entry.id for entry in fleet.ledger.entries("START")}
        in_hand = [job["id"] for job in fleet.held_by(victim) if job["id"] not in begun]
        assert len(in_hand) >= 300
        victim.kill()
        db.execute("SELECT howdah.register_worker('victim', %s)", (uuid.uuid4(),))

        jobs = {job["id"]: job for job in fleet.jobs("status IN ('pending', 'claimed', 'running')")}
        assert len(jobs) == SLOTS + WAITING
        for id in jobs.keys() - begun:
            job = jobs[id]
            assert (job["status"], job["attempts"], job["crashes"], job["last_error"]) == ("pending", 0, 0, None)
        assert {jobs[id]["status"] for id in begun} == {"pending"}
        assert all(jobs[id]["crashes"] or jobs[id]["interruptions"] for id in begun), "each may be the killer"


@pytest.mark.parametrize("place", ["on_the_loop", "in_a_thread"])
def test_a_job_that_kills_its_worker_is_found_among_hundreds_that_were_started_with_it(
    place: str, dsn: str, queue: JobQueue, tmp_path: Path
) -> None:
    name = f"quick_{place}"
    queue.enqueue_many(name, [{} for _ in range(LEARNED)])
    killer = queue.enqueue(name, {"kills": True})
    queue.enqueue_many(name, [{} for _ in range(WAITING)])
    with Fleet(dsn, tmp_path, "handlers_ahead") as fleet:
        deaths = fleet.drain_as_a_supervisor_would(concurrency=SLOTS, threads=SLOTS, children=4)
        assert deaths <= 2, "noted the second time, a suspect the third"
        jobs = {job["id"]: job for job in fleet.jobs()}
        found = jobs.pop(killer.id)
        assert found["status"] == "failed"
        assert "worker died 3 times" in found["last_error"]
        assert {job["status"] for job in jobs.values()} == {"completed"}


@pytest.mark.parametrize("place", ["on_the_loop", "in_a_thread"])
def test_a_worker_that_stood_still_begins_nothing_that_has_a_new_owner(
    place: str, dsn: str, queue: JobQueue, db: Db, tmp_path: Path
) -> None:
    name = f"quick_{place}"
    with Fleet(dsn, tmp_path, "handlers_ahead") as fleet:
        frozen = fleet.start("frozen", concurrency=SLOTS, threads=SLOTS).await_ready()
        queue.enqueue_many(name, [{} for _ in range(LEARNED)])
        fleet.await_drained()
        with db.transaction():
            queue.enqueue_many(name, [{"stays": True} for _ in range(SLOTS)], priority=150, conn=db)
            queue.enqueue_many(name, [{"tells": True} for _ in range(WAITING)], conn=db)
        until_seen(lambda: fleet.ledger.count("START") == SLOTS, "every slot is taken")
        frozen.freeze()
        fleet.ledger.say("finish")
        fleet.start("other", concurrency=SLOTS, threads=SLOTS)
        fleet.await_drained()

        def begun() -> int:
            return fleet.ledger.count("BEGIN", where=lambda entry: entry.worker == "frozen")

        before = begun()
        frozen.thaw()
        until_seen(lambda: "declared dead" in frozen.log, "it has found that it was declared dead")
        assert frozen.stop() == 0
        assert begun() == before


# A line that does not move


class Gate:
    """Where chosen jobs stay until it is opened, on the loop and in threads."""

    def __init__(self) -> None:
        self.inside = 0
        self._opened = threading.Event()

    def open(self) -> None:
        self._opened.set()

    async def on_the_loop(self) -> None:
        self.inside += 1
        while not self._opened.is_set():
            await asyncio.sleep(0.01)

    def in_a_thread(self) -> None:
        self.inside += 1
        self._opened.wait()


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open()


def handlers(queue: JobQueue, gate: Gate) -> None:
    @queue.job
    async def on_the_loop(*, stays: bool = False) -> None:
        if stays:
            await gate.on_the_loop()

    @queue.job
    def in_a_thread(*, stays: bool = False) -> None:
        if stays:
            gate.in_a_thread()


@contextlib.asynccontextmanager
async def with_a_line(queue: JobQueue, db: Db, gate: Gate, place: str, **options: Any) -> AsyncIterator[uuid.UUID]:
    """A worker of two slots, both taken, with twenty more jobs that were started ahead. Yields the last of these."""
    await queue.aenqueue_many(place, [{} for _ in range(LEARNED)])
    async with working(queue, concurrency=2, threads=2, types=[place], **options):
        await until(lambda: statuses(db, place) == {"completed": LEARNED})
        with db.transaction():
            queue.enqueue_many(place, [{"stays": True} for _ in range(2)], priority=150, conn=db)
            queue.enqueue_many(place, [{} for _ in range(20)], conn=db)
            last = queue.enqueue(place, priority=50, conn=db)
        await until(lambda: gate.inside == 2)
        yield last.id
        gate.open()


PLACES = ["on_the_loop", "in_a_thread"]


@pytest.mark.parametrize("place", PLACES)
def test_a_line_that_does_not_move_goes_back_to_the_queue_and_loses_nothing(
    place: str, queue: JobQueue, db: Db, gate: Gate
) -> None:
    handlers(queue, gate)

    async def main() -> None:
        async with with_a_line(queue, db, gate, place):
            await until(lambda: statuses(db, place) == {"completed": LEARNED, "running": 2, "pending": 21})
            rows = db.execute("SELECT attempts, interruptions FROM howdah.live WHERE status = 'pending'").fetchall()
            assert {(row["attempts"], row["interruptions"]) for row in rows} == {(0, 0)}
            gate.open()
            await until(lambda: statuses(db, place) == {"completed": LEARNED + 23})

    run(main())


@pytest.mark.parametrize("place", PLACES)
def test_a_job_in_the_line_can_be_cancelled(
    place: str, queue: JobQueue, db: Db, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers(queue, gate)

    async def main() -> None:
        async with with_a_line(queue, db, gate, place) as last:
            # Only now: before, it would have learned that the type is quick.
            monkeypatch.setattr(slot_group, "AHEAD", 3600)
            job = await queue.aget(last)
            await queue.acancel(job)
            assert (await ended(queue, job)).status == "cancelled"

    run(main())


@pytest.mark.parametrize("place", PLACES)
def test_a_worker_that_stops_gives_its_line_back_at_once(place: str, queue: JobQueue, db: Db, gate: Gate) -> None:
    handlers(queue, gate)

    async def main() -> None:
        await queue.aenqueue_many(place, [{} for _ in range(LEARNED)])
        async with working(queue, concurrency=2, threads=2, types=[place], grace=60) as worker:
            await until(lambda: statuses(db, place) == {"completed": LEARNED})
            with db.transaction():
                queue.enqueue_many(place, [{"stays": True} for _ in range(2)], priority=150, conn=db)
                queue.enqueue_many(place, [{} for _ in range(20)], conn=db)
            await until(lambda: gate.inside == 2)
            worker.stop()
            await until(lambda: statuses(db, place) == {"completed": LEARNED, "running": 2, "pending": 20})
            rows = db.execute("SELECT attempts, interruptions FROM howdah.live WHERE status = 'pending'").fetchall()
            gate.open()
        assert {(row["attempts"], row["interruptions"]) for row in rows} == {(0, 0)}

    run(main())


# What is written to the database


@pytest.mark.parametrize("place", PLACES)
def test_a_job_that_takes_longer_than_its_type_used_to_is_noted_as_begun(
    place: str, queue: JobQueue, db: Db, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then its worker's death counts against it, and the sweep has its deadline."""
    handlers(queue, gate)
    monkeypatch.setattr(slot_group, "MOST_NOTED", 0)

    async def main() -> None:
        async with with_a_line(queue, db, gate, place):
            noted = "SELECT FROM howdah.live WHERE status = 'running' AND started_at >= claimed_at"
            await until(lambda: len(db.execute(noted).fetchall()) == 2)

    run(main())


def test_a_completed_job_has_its_times_also_if_its_beginning_was_never_noted(
    queue: JobQueue, db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_group, "MOST_NOTED", 0)

    @queue.job
    async def quick(*, fails: bool = False) -> None:
        if fails:
            raise ValueError

    queue.enqueue_many("quick", [{} for _ in range(LEARNED)])
    failing = queue.enqueue("quick", {"fails": True}, max_attempts=3, retry_policy={"kind": "fixed", "delay": 0})
    drain(queue)
    rows = db.execute(
        "SELECT claimed_at <= started_at AND started_at <= finished_at AS told FROM howdah.job_details WHERE status = 'completed'"
    )
    assert {row["told"] for row in rows} == {True}
    attempts = queue.get(failing).errors
    assert len(attempts) == 3
    assert all(attempt.started_at is not None for attempt in attempts)


def test_a_timeout_counts_from_when_the_thread_begins(queue: JobQueue, db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not from when the call was put into the threads' line."""

    @queue.job(timeout=2)
    def work(*, seconds: float = 0) -> None:
        time.sleep(seconds)

    async def main() -> None:
        await queue.aenqueue_many("work", [{} for _ in range(LEARNED)])
        async with working(queue, threads=1):
            await until(lambda: statuses(db, "work") == {"completed": LEARNED})
            # They stay in the line, although it is slow.
            monkeypatch.setattr(slot_group, "AHEAD", 3600)
            await queue.aenqueue_many("work", [{"seconds": 1.2} for _ in range(3)])
            await until(lambda: statuses(db, "work") == {"completed": LEARNED + 3})
        rows = db.execute("SELECT max(attempts) AS attempts FROM howdah.job_details").fetchone()
        assert rows == {"attempts": 1}

    run(main())
