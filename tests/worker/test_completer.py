"""What a worker writes: progress in few writes, and endings of which no bad one spoils the others."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from howdah import InvalidOption, Job, JobQueue
from howdah.handlers.outcome import Cancel, Fail, Retry, Snooze
from howdah.worker.calls import claim_ref
from howdah.worker.progress import buffer
from howdah.worker.progress.tracker import Tracker
from howdah.worker.run import completer
from tests.conftest import Db
from tests.worker import child_handlers
from tests.worker.in_process import PATIENCE, drain, ended, happened, run, statuses, until, working

# Endings


@contextlib.contextmanager
def refusing(db: Db, table: str, moment: str, condition: str) -> Iterator[None]:
    """Meanwhile the database refuses such rows."""
    db.execute(
        "CREATE FUNCTION public.howdah_test_refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'refused by a test'; END $$"
    )
    db.execute(
        f"CREATE TRIGGER howdah_test_refuse BEFORE {moment} ON howdah.{table} FOR EACH ROW WHEN ({condition})"
        " EXECUTE FUNCTION public.howdah_test_refuse()"
    )
    try:
        yield
    finally:
        db.execute("DROP FUNCTION public.howdah_test_refuse() CASCADE")


def test_one_bad_ending_among_a_hundred_keeps_none_of_the_others_from_ending(queue: JobQueue, db: Db) -> None:
    together = asyncio.Event()
    waiting = 0

    @queue.job
    async def work(n: int) -> int:
        nonlocal waiting
        waiting += 1
        if waiting == 100:
            together.set()
        await together.wait()
        return n

    jobs = [work.using(max_attempts=1).enqueue(n=n) for n in range(100)]
    with refusing(db, "archive_open", "INSERT", f"NEW.id = '{jobs[41].id}' AND NEW.status = 'completed'"):
        report = drain(queue, concurrency=100)
    assert statuses(db, "work") == {"completed": 99, "failed": 1}
    bad = queue.get(jobs[41])
    assert "could not be stored" in str(bad.last_error)
    assert "refused by a test" in str(bad.last_error)
    assert (report.counts["completed"], report.counts["failed"]) == (99, 1)


def test_one_that_can_not_even_fail_is_tried_on_and_the_others_end(
    queue: JobQueue, db: Db, caplog: pytest.LogCaptureFixture
) -> None:
    @queue.job
    async def work(n: int) -> int:
        return n

    async def main() -> None:
        jobs = [await work.using(max_attempts=1).aenqueue(n=n) for n in range(20)]
        with refusing(db, "archive_open", "INSERT", f"NEW.id = '{jobs[7].id}'"):
            async with working(queue):
                await until(lambda: statuses(db, "work").get("completed") == 19)
                await until(lambda: "the database refused" in caplog.text)
                assert (await ended(queue, await work.aenqueue(n=1))).result == 1

    run(main())


@pytest.mark.parametrize(
    "outcome",
    [Retry("again", delay=3600), Snooze(3600), Cancel("unwanted"), Fail("hopeless"), ValueError("broken")],
    ids=lambda outcome: type(outcome).__name__,
)
def test_endings_of_every_kind_survive_a_bad_one_among_them(queue: JobQueue, db: Db, outcome: BaseException) -> None:
    together = asyncio.Event()
    waiting = 0

    @queue.job
    async def work() -> None:
        nonlocal waiting
        waiting += 1
        if waiting == 10:
            together.set()
        await together.wait()
        raise outcome

    async def main() -> None:
        jobs = [await work.aenqueue() for _ in range(10)]
        with refusing(db, "live", "UPDATE", f"NEW.id = '{jobs[4].id}' AND OLD.status = 'running'"):
            async with working(queue, concurrency=10):
                await until(lambda: statuses(db, "work").get("running", 0) == 1 and together.is_set())
                left = [(await queue.aget(job)).status for job in jobs]
        assert left[4] == "running"
        assert len(set(left)) == 2

    run(main())


class Particular:
    """A codec that cannot store some things, and cannot read others."""

    def encode(self, value: Any) -> Any:
        if "unstorable" in str(value):
            raise TypeError("this codec does not like it")
        return {"sealed": value}

    def decode(self, value: Any) -> Any:
        if "unreadable" in str(value):
            raise TypeError("this codec cannot open it")
        return value["sealed"]


def test_a_codec_that_fails_on_one_job_spoils_no_other(dsn: str, db: Db) -> None:
    with JobQueue(dsn, codec=Particular()) as queue:

        @queue.job
        async def work(how: str) -> str:
            match how:
                case "error":
                    raise ValueError("unstorable")
                case "result":
                    return "unstorable"
                case "cancel":
                    raise Cancel("unstorable")
            return "fine"

        bad = [work.using(max_attempts=1).enqueue(how=how) for how in ("error", "result", "cancel", "unreadable")]
        good = [work.enqueue(how="") for _ in range(10)]
        drain(queue)
        rows = db.execute("SELECT status FROM howdah.jobs WHERE id = ANY (%s)", ([job.id for job in bad],)).fetchall()
        assert {row["status"] for row in rows} <= {"failed", "pending", "cancelled"}
        assert {queue.get(job).result for job in good} == {"fine"}


def test_a_thousand_endings_are_written_in_few_transactions(queue: JobQueue, db: Db) -> None:
    @queue.job
    async def work() -> None: ...

    queue.enqueue_many("work", [{} for _ in range(1000)])
    db.execute("CREATE TABLE public.howdah_test_writes (xid xid8)")
    db.execute(
        "CREATE FUNCTION public.howdah_test_count() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN INSERT INTO public.howdah_test_writes VALUES (pg_current_xact_id()); RETURN NULL; END $$"
    )
    db.execute(
        "CREATE TRIGGER howdah_test_count AFTER DELETE ON howdah.live FOR EACH STATEMENT"
        " EXECUTE FUNCTION public.howdah_test_count()"
    )
    try:
        drain(queue, concurrency=200)
        row = db.execute("SELECT count(DISTINCT xid) AS n FROM public.howdah_test_writes").fetchone()
    finally:
        db.execute("DROP FUNCTION public.howdah_test_count() CASCADE")
        db.execute("DROP TABLE public.howdah_test_writes")
    assert row is not None
    assert statuses(db, "work") == {"completed": 1000}
    assert row["n"] <= 300


# Progress


def test_progress_can_be_seen_while_the_job_runs(queue: JobQueue) -> None:
    go_on = asyncio.Event()

    @queue.job
    async def work(job: Job) -> None:
        job.progress(40, "downloading")
        await go_on.wait()

    async def main() -> None:
        job = await work.aenqueue()
        async with working(queue):
            await until(lambda: queue.get(job).percent == 40)
            assert queue.get(job).current_stage == "downloading"
            go_on.set()
            done = await ended(queue, job)
        assert (done.percent, done.current_stage) == (100, "downloading")

    run(main())


@pytest.mark.parametrize("asynchronous", [True, False], ids=["on the loop", "in a thread"])
def test_the_last_report_is_there_when_the_job_has_ended(queue: JobQueue, asynchronous: bool) -> None:
    def report(job: Job) -> None:
        for step in range(1, 61):
            job.progress(step)
            job.progress(stage=f"step {step}")
        raise Fail("here it ended")

    async def on_loop(job: Job) -> None:
        report(job)

    handler = queue.job(name="work")(on_loop if asynchronous else report)
    jobs = [handler.enqueue() for _ in range(20)]
    drain(queue)
    done = [queue.get(job) for job in jobs]
    assert {(job.status, job.percent, job.current_stage) for job in done} == {("failed", 60, "step 60")}


def test_the_last_report_of_a_child_process_is_there_too(dsn: str) -> None:
    queue = child_handlers.connected(dsn)
    job = child_handlers.steps.enqueue()
    drain(queue, types=["steps"], children=1)
    assert queue.get(job).current_stage == "step 99"


def test_a_report_that_makes_no_sense_is_the_handlers_error(queue: JobQueue) -> None:
    refused: list[str] = []

    @queue.job
    async def work(job: Job) -> None:
        for percent, stage in (("50", None), (b"5", None), (None, 7), (None, ["a"])):
            try:
                job.progress(percent, stage)  # type: ignore[arg-type]
            except InvalidOption as error:
                refused.append(str(error))
        job.progress(5, "fine")

    job = work.enqueue()
    drain(queue)
    assert (len(refused), queue.get(job).status, queue.get(job).current_stage) == (4, "completed", "fine")


@pytest.mark.parametrize("asynchronous", [True, False], ids=["on the loop", "in a thread"])
def test_a_million_reports_make_few_writes(queue: JobQueue, db: Db, asynchronous: bool) -> None:
    calls = 1_000_000 if asynchronous else 200_000

    def report(job: Job) -> None:
        for step in range(calls):
            job.progress(step * 100 // calls)
        job.progress(99, "last")

    async def on_loop(job: Job) -> None:
        report(job)

    handler = queue.job(name="work")(on_loop if asynchronous else report)
    job = handler.enqueue()
    db.execute("CREATE TABLE public.howdah_test_writes (id uuid)")
    db.execute(
        "CREATE FUNCTION public.howdah_test_count() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN INSERT INTO public.howdah_test_writes VALUES (NEW.id); RETURN NULL; END $$"
    )
    db.execute(
        "CREATE TRIGGER howdah_test_count AFTER UPDATE ON howdah.live FOR EACH ROW"
        " EXECUTE FUNCTION public.howdah_test_count()"
    )
    try:
        drain(queue)
        row = db.execute("SELECT count(*) AS n FROM public.howdah_test_writes").fetchone()
    finally:
        db.execute("DROP FUNCTION public.howdah_test_count() CASCADE")
        db.execute("DROP TABLE public.howdah_test_writes")
    assert row is not None
    assert (queue.get(job).status, queue.get(job).current_stage) == ("completed", "last")
    assert row["n"] < 200


class Slow(uuid.UUID):
    """An id during whose use other threads get their turn."""

    def __hash__(self) -> int:
        time.sleep(0)
        return super().__hash__()


class Recorded:
    """A link that keeps the last stage that was written of each job."""

    def __init__(self) -> None:
        self.stages: dict[int, str] = {}

    async def run(self, plan: Any) -> set[uuid.UUID]:
        step = plan.send(None)
        self.stages.update(zip((id.int for id in step.arguments["ids"]), step.arguments["stages"], strict=True))
        await asyncio.sleep(0)
        return set()


def test_no_report_of_many_threads_at_once_is_lost(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer, "REPORT_EVERY", 0)
    job = queue.enqueue("work")
    jobs = [dataclasses.replace(job, id=Slow(int=n)) for n in range(60)]
    last: dict[int, str] = {}

    async def main() -> Recorded:
        link = Recorded()
        writer = completer.Completer(queue._database, link, queue._context, lambda *_: None)  # type: ignore[arg-type]

        def report(mine: list[Tracker]) -> None:
            for step in range(30):
                for tracker in mine:
                    tracker.progress(None, f"step {step}", None, None)
                    last[tracker.ref[0].int] = f"step {step}"

        trackers = [Tracker(claim_ref(job), queue._context, writer.changed) for job in jobs]
        threads = [threading.Thread(target=report, args=(trackers[n::4],), daemon=True) for n in range(4)]
        for thread in threads:
            thread.start()
        await until(lambda: not any(thread.is_alive() for thread in threads))
        async with asyncio.timeout(PATIENCE / 2):
            await writer.flush_all()
        await writer.close()
        return link

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        written = run(main())
    finally:
        sys.setswitchinterval(before)
    assert written.stages == last


def test_what_a_lost_job_reports_changes_nothing(queue: JobQueue, db: Db) -> None:
    started, go_on, reported = threading.Event(), threading.Event(), threading.Event()

    @queue.job
    def work(job: Job) -> None:
        if not started.is_set():
            started.set()
            go_on.wait()
            job.progress(66, "stale")
            reported.set()

    async def main() -> Job:
        job = await work.aenqueue()
        async with working(queue):
            await happened(started)
            db.execute(
                "SELECT * FROM howdah.release(ARRAY[%s], ARRAY[%s]::bigint[], true)", (job.id, queue.get(job).token)
            )
            done = await ended(queue, job)
            go_on.set()
            await happened(reported)
            return done

    assert run(main()).status == "completed"
    row = db.execute("SELECT DISTINCT current_stage FROM howdah.jobs").fetchone()
    assert row == {"current_stage": None}
