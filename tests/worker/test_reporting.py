"""The reports of handlers reach the database: exactly, in order, in few writes, and before their jobs end."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from howdah import InvalidOption, Job, JobQueue, LeaseLost
from howdah.db.plan import Call, Plan
from howdah.errors import DatabaseUnavailable
from howdah.handlers.outcome import Fail
from howdah.worker.connection import WorkerConnection
from howdah.worker.progress import buffer
from howdah.worker.progress.tracker import Unwritten
from howdah.worker.run import children, completer
from howdah.worker.run.child import Reports
from howdah.worker.run.run import Run
from tests import servers
from tests.conftest import Db
from tests.worker import handlers_reporting
from tests.worker.durable_server import DurableServer
from tests.worker.handlers_reporting import KINDS, handler
from tests.worker.in_process import drain, ended, happened, run, until, working
from tests.worker.processes import Fleet
from tests.worker.processes import until as waited

ALL_KINDS = pytest.mark.parametrize("kind", KINDS)


def events(db: Db, job: Job, *kinds: str) -> list[dict[str, Any]]:
    """What happened to a job, in order, without how it ended."""
    rows = db.execute("SELECT * FROM howdah.events WHERE job_id = %s ORDER BY seq", (job.id,)).fetchall()
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1)), "no gap and nothing twice"
    assert [row["stream_no"] for row in rows] == sorted(row["stream_no"] for row in rows)
    return [row for row in rows if row["kind"] in (kinds or ("event", "log"))]


def recorded(db: Db, job: Job, *kinds: str) -> list[tuple[str, Any]]:
    return [(row["name"], row["data"]) for row in events(db, job, *kinds)]


# Every verb, from every kind of handler


@ALL_KINDS
def test_the_last_updates_of_a_handler_are_stored_when_its_job_has_ended(dsn: str, db: Db, kind: str) -> None:
    queue = handlers_reporting.connected(dsn)
    job = handler("everything", kind).enqueue()
    drain(queue, children=1)
    done = queue.get(job)
    assert (done.status, done.last_error) == ("failed", "in the middle of it")
    assert (done.percent, done.current_stage) == (75, "store / half-way")
    assert done.record is not None
    assert (done.record.percent, done.record.attempt) == (75.0, 1)
    assert done.resumed == {"at": [1, 2]}
    assert recorded(db, job) == [
        ("began", {"who": "handler"}),
        ("ten", {"n": 0}),
        ("ten", {"n": 10}),
        ("ten", {"n": 20}),
        ("stops", {}),
    ]
    assert done.events_count == 5


def test_async_loops_are_tracked_too(dsn: str) -> None:
    queue = handlers_reporting.connected(dsn)
    job = handlers_reporting.awaits_everything.enqueue()
    drain(queue)
    done = queue.get(job)
    assert (done.percent, done.current_stage, done.resumed) == (20, "walk", {"n": 4})


def test_counts_are_those_of_the_stage_that_it_is_in(queue: JobQueue) -> None:
    @queue.job(max_attempts=1)
    async def work(job: Job) -> None:
        with job.stage("first", 20):
            job.advance(5, total=5)
        job.advance(3, total=12, stage="second")
        raise Fail("here it ended")

    job = work.enqueue()
    drain(queue)
    record = queue.get(job).record
    assert record is not None
    assert (record.percent, record.done, record.total) == (25.0, 3.0, 12.0)


def test_a_job_that_completes_is_at_its_end_and_shows_what_it_was_in_last(queue: JobQueue) -> None:
    @queue.job
    def work(job: Job) -> None:
        for _ in job.track(range(3), "walk", weight=10):
            pass
        with job.stage("tidy", 10):
            pass

    job = work.enqueue()
    drain(queue)
    done = queue.get(job)
    assert (done.status, done.percent, done.current_stage) == ("completed", 100, "tidy")
    assert done.record is not None
    assert done.record.percent == 100


def test_every_job_of_a_batch_has_progress_and_events_of_its_own(queue: JobQueue, db: Db) -> None:
    @queue.job(batch_size=10, max_attempts=1)
    def work(jobs: list[Job]) -> None:
        for n, job in enumerate(jobs):
            job.progress(10 * n, f"job {n}")
            job.event("seen", n=n)
        raise Fail("all of them")

    jobs = [work.enqueue() for _ in range(4)]
    drain(queue)
    assert [(queue.get(job).percent, queue.get(job).current_stage) for job in jobs] == [
        (10 * n, f"job {n}") for n in range(4)
    ]
    assert [recorded(db, job) for job in jobs] == [[("seen", {"n": n})] for n in range(4)]


def test_progress_and_events_are_seen_while_the_job_runs(queue: JobQueue, db: Db) -> None:
    go_on = asyncio.Event()

    @queue.job
    async def work(job: Job) -> None:
        job.progress(done=2, total=8, stage="early")
        job.event("early")
        await go_on.wait()

    async def main() -> None:
        job = await work.aenqueue()
        async with working(queue):
            await until(lambda: queue.get(job).percent == 25)
            await until(lambda: recorded(db, job) == [("early", {})])
            assert queue.get(job).status == "running"
            go_on.set()
            await ended(queue, job)

    run(main())


def test_a_report_that_makes_no_sense_is_the_handlers_own_error(queue: JobQueue, db: Db) -> None:
    @queue.job(max_attempts=1)
    async def work(how: str, job: Job) -> None:
        match how:
            case "name":
                job.event("")
            case "data":
                job.event("x", when=object())
            case "size":
                job.event("x", text="x" * 100_000)
            case "total":
                job.progress(done=1, total=-1)
            case "checkpoint":
                job.checkpoint({1, 2})

    jobs = {how: work.enqueue(how=how) for how in ("name", "data", "size", "total", "checkpoint")}
    drain(queue)
    errors = {how: str(queue.get(job).last_error) for how, job in jobs.items()}
    assert errors["name"].startswith("InvalidOption: the name of an event")
    assert errors["data"].startswith("InvalidPayload: event data.when")
    assert errors["size"].startswith("PayloadTooLarge: event data")
    assert errors["total"].startswith("InvalidOption: total")
    assert errors["checkpoint"].startswith("InvalidPayload: checkpoint")


# Few writes


class Writes:
    """How many statements of a kind were sent, and how large each was."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: dict[str, list[int]] = {"progress": [], "record_events": []}
        original = WorkerConnection.run

        async def counted(connection: WorkerConnection, plan: Plan[Any]) -> Any:
            return await original(connection, self._seen(plan))

        monkeypatch.setattr(WorkerConnection, "run", counted)

    def _seen(self, plan: Plan[Any]) -> Plan[Any]:
        answer = None
        while True:
            try:
                step = plan.send(answer)
            except StopIteration as end:
                return end.value
            if isinstance(step, Call) and step.function in self.sizes:
                self.sizes[step.function].append(len(step.arguments["ids"]))
            answer = yield step


@ALL_KINDS
def test_a_tight_loop_makes_few_writes_and_its_last_update_is_exact(
    dsn: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    queue = handlers_reporting.connected(dsn)
    writes = Writes(monkeypatch)
    messages: list[Reports] = []
    on_reports = children.Child._on_reports

    def counted(child: children.Child, run: Run, said: Reports) -> None:
        messages.append(said)
        on_reports(child, run, said)

    monkeypatch.setattr(children.Child, "_on_reports", counted)
    job = handler("counts", kind).enqueue(times=100_000)
    drain(queue, children=1)
    done = queue.get(job)
    assert (done.status, done.current_stage) == ("completed", "last")
    assert done.record is not None
    assert (done.record.done, done.record.total) == (100_000.0, 100_000.0)
    assert 1 <= len(writes.sizes["progress"]) < 200
    assert len(messages) < 200


def test_many_jobs_are_written_together(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    together = asyncio.Event()
    waiting = 0

    @queue.job(max_attempts=1)
    async def work(job: Job) -> None:
        nonlocal waiting
        waiting += 1
        job.progress(waiting)
        job.event("here")
        if waiting == 100:
            together.set()
        await together.wait()
        job.progress(77)
        raise Fail("all at once")

    writes = Writes(monkeypatch)
    jobs = [work.enqueue() for _ in range(100)]
    drain(queue, concurrency=100)
    assert {queue.get(job).percent for job in jobs} == {77}
    assert sum(writes.sizes["record_events"]) == 100
    assert len(writes.sizes["progress"]) + len(writes.sizes["record_events"]) < 50


def test_many_events_keep_their_order_and_are_written_in_pieces(
    queue: JobQueue, db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffer, "MOST_EVENTS", 100)

    @queue.job
    def work(job: Job) -> None:
        for n in range(1_050):
            job.event("step", n=n)

    writes = Writes(monkeypatch)
    job = work.enqueue()
    drain(queue)
    assert [data["n"] for _, data in recorded(db, job)] == list(range(1_050))
    assert max(writes.sizes["record_events"]) == 100
    assert queue.get(job).events_count == 1_050


@ALL_KINDS
def test_large_events_are_written_in_pieces_too(dsn: str, db: Db, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(buffer, "MOST_CHARACTERS", 100_000)
    queue = handlers_reporting.connected(dsn)
    writes = Writes(monkeypatch)
    job = handler("tells_much", kind).enqueue()
    drain(queue, children=1)
    assert [data["n"] for _, data in recorded(db, job)] == list(range(300))
    assert max(writes.sizes["record_events"]) < 20


@ALL_KINDS
def test_events_beyond_the_limit_are_counted_and_recorded(dsn: str, db: Db, kind: str) -> None:
    queue = handlers_reporting.connected(dsn)
    job = handler("floods", kind).enqueue()
    drain(queue, children=1)
    assert recorded(db, job) == [
        ("step", {"n": 0}),
        ("step", {"n": 1}),
        ("step", {"n": 2}),
        ("howdah.left_out", {"events": 2, "logs": 0}),
    ]


# Checkpoints


@ALL_KINDS
def test_the_next_attempt_goes_on_from_the_checkpoint_and_events_of_failed_ones_are_kept(
    dsn: str, db: Db, kind: str
) -> None:
    queue = handlers_reporting.connected(dsn)
    job = handler("resumes", kind).enqueue()
    drain(queue, children=1)
    done = queue.get(job)
    assert (done.status, done.result, done.attempts) == ("completed", [1, 2], 3)
    assert [(row["name"], row["attempt"], row["data"]) for row in events(db, job)] == [
        ("failing", 1, {"attempt": 1}),
        ("failing", 2, {"attempt": 2}),
    ]


def test_a_checkpoint_is_committed_when_it_returns_also_on_the_loop(dsn: str) -> None:
    queue = handlers_reporting.connected(dsn)
    job = handlers_reporting.checkpoints_on_the_loop.enqueue()
    drain(queue)
    assert queue.get(job).result == "blocking"


@ALL_KINDS
def test_a_checkpoint_does_not_overtake_earlier_events(dsn: str, db: Db, kind: str) -> None:
    queue = handlers_reporting.connected(dsn)
    job = handler("keeps", kind).enqueue()
    drain(queue, children=1)
    three = [f"file {n}" for n in range(3)]
    assert queue.get(job).result == [three[:1], three[:2], three, three]
    assert [name for name, _ in recorded(db, job)] == [*three, "howdah.left_out"], (
        "left out is recorded once, at the end"
    )


def test_also_a_checkpoint_that_is_awaited(queue: JobQueue) -> None:
    @queue.job
    async def work(job: Job) -> list[str]:
        job.event("file")
        await job.acheckpoint(1)
        return [event.name for event in await queue.aevents(job)]

    job = work.enqueue()
    drain(queue)
    assert queue.get(job).result == ["file"]


def test_a_checkpoint_outlives_the_worker_that_was_killed(dsn: str, queue: JobQueue, db: Db, tmp_path: Path) -> None:
    with Fleet(dsn, tmp_path, "handlers_reporting") as fleet:
        first = fleet.start("first", types=["survives"]).await_ready()
        job = queue.enqueue("survives")
        waited(lambda: fleet.ledger.count("KEPT"), "the checkpoint is kept")
        waited(lambda: recorded(db, job), "its event is written")
        first.kill()
        fleet.start("second", types=["survives"])
        done = queue.wait_for(job, timeout=180)
    assert (done.status, done.result, done.crashes) == ("completed", {"chapter": 3}, 1)
    assert recorded(db, job) == [("first life", {})]


# An attempt that is over


def test_a_stale_attempt_changes_nothing_and_its_checkpoint_raises(queue: JobQueue, db: Db) -> None:
    started, go_on, over = threading.Event(), threading.Event(), threading.Event()
    raised: list[BaseException] = []

    @queue.job
    def work(job: Job) -> str:
        if started.is_set():
            return "new"
        started.set()
        go_on.wait()
        job.progress(66, "stale")
        job.event("stale")
        try:
            job.checkpoint("stale")
        except LeaseLost as error:
            raised.append(error)
        over.set()
        return "stale"

    async def main() -> Job:
        job = await work.aenqueue()
        async with working(queue, heartbeat=5, lease=30, threads=2):
            await happened(started)
            db.execute(
                "SELECT * FROM howdah.release(ARRAY[%s], ARRAY[%s]::bigint[], true)", (job.id, queue.get(job).token)
            )
            done = await ended(queue, job)
            go_on.set()
            await happened(over)
            return done

    job = run(main())
    done = queue.get(job)
    assert (done.result, done.current_stage, done.resumed, done.percent) == ("new", None, None, 100)
    assert recorded(db, job) == []
    assert len(raised) == 1


def test_a_first_update_after_the_end_is_dropped(queue: JobQueue) -> None:
    ended_jobs: list[Job] = []

    @queue.job
    async def work(job: Job) -> None:
        ended_jobs.append(job)

    work.enqueue()
    drain(queue)
    (job,) = ended_jobs
    job.event("late")
    job.progress(5)
    attempt: Any = job._attempt
    assert attempt.reporter(job).take() == Unwritten(None, [])


@ALL_KINDS
def test_updates_before_a_completion_in_a_transaction_are_stored(dsn: str, db: Db, kind: str) -> None:
    queue = handlers_reporting.connected(dsn)
    job = handler("pays", kind).enqueue(dsn=dsn)
    drain(queue, children=1)
    done = queue.get(job)
    assert (done.status, done.result, done.current_stage) == ("completed", {"paid": True}, "paying")
    left_out = ("howdah.left_out", {"events": 2, "logs": 0})
    assert recorded(db, job) == [*(("paid", {"n": n}) for n in range(3)), left_out]


def test_also_when_it_is_awaited(queue: JobQueue, db: Db, dsn: str) -> None:
    @queue.job
    async def work(job: Job) -> None:
        async with await psycopg.AsyncConnection.connect(dsn) as conn:
            job.progress(80, "paying")
            job.event("paid")
            await job.acomplete(7, conn=conn)

    job = work.enqueue()
    drain(queue)
    done = queue.get(job)
    assert (done.status, done.result, done.current_stage) == ("completed", 7, "paying")
    assert recorded(db, job) == [("paid", {})]


@pytest.mark.parametrize("on_its_way", ["not yet sent", "not yet answered"])
@pytest.mark.parametrize("end", ["completes", "checkpoints"])
def test_what_is_on_its_way_when_the_loop_is_held_up_is_kept_once_and_in_order(
    queue: JobQueue, db: Db, monkeypatch: pytest.MonkeyPatch, on_its_way: str, end: str
) -> None:
    writing, go_on = asyncio.Event(), asyncio.Event()
    original = WorkerConnection.run

    async def held_up(connection: WorkerConnection, plan: Plan[Any]) -> Any:
        if getattr(plan, "__name__", None) != "record_events":
            return await original(connection, plan)
        answer = await original(connection, plan) if on_its_way == "not yet answered" else None
        writing.set()
        await go_on.wait()
        return answer if on_its_way == "not yet answered" else await original(connection, plan)

    monkeypatch.setattr(WorkerConnection, "run", held_up)

    @queue.job
    async def work(job: Job) -> None:
        job.event("a")
        job.event("b")
        await writing.wait()
        job.event("c")
        job.progress(77, "last")
        if end == "completes":
            job.complete()
        else:
            job.checkpoint(1)
        go_on.set()
        job.event("d")

    job = work.enqueue()
    drain(queue)
    done = queue.get(job)
    assert (done.status, done.current_stage) == ("completed", "last")
    names = ["a", "b", "c"] if end == "completes" else ["a", "b", "c", "d"]
    assert [name for name, _ in recorded(db, job)] == names


def test_what_is_written_with_a_completion_that_is_rolled_back_is_written_nevertheless(
    queue: JobQueue, db: Db, dsn: str
) -> None:
    @queue.job(max_attempts=1)
    async def work(job: Job) -> None:
        with psycopg.connect(dsn) as conn:
            job.event("paid")
            job.complete(1, conn=conn)
            conn.rollback()
        raise Fail("it was not")

    job = work.enqueue()
    drain(queue)
    assert recorded(db, job) == [("paid", {})]


@pytest.mark.parametrize("kind", ["awaited", "thread"])
def test_updates_of_a_job_locked_by_its_handler_are_written_with_its_completion(
    queue: JobQueue, db: Db, dsn: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(completer, "PATIENCE", 0.5)

    @queue.job
    async def awaited(job: Job) -> None:
        async with await psycopg.AsyncConnection.connect(dsn) as conn:
            await conn.execute(LOCK, (job.id,))
            job.event("important")
            await job.acomplete(1, conn=conn)

    @queue.job
    def thread(job: Job) -> None:
        with psycopg.connect(dsn) as conn:
            conn.execute(LOCK, (job.id,))
            job.event("important")
            job.complete(1, conn=conn)

    job = queue.enqueue(kind)
    drain(queue)
    assert queue.get(job).status == "completed"
    # Only events: under load the driver may log that it has closed a connection, while the handler waits for it.
    assert recorded(db, job, "event") == [("important", {})]


def test_updates_sent_before_a_child_is_killed_are_kept(dsn: str, db: Db, tmp_path: Path) -> None:
    queue = handlers_reporting.connected(dsn)
    go_on = tmp_path / "go on"

    async def main() -> Job:
        job = await handlers_reporting.is_killed.using(max_attempts=1).aenqueue(go_on=str(go_on))
        async with working(queue, types=["is_killed"], children=1):
            await until(lambda: queue.get(job).current_stage == "before" and recorded(db, job))
            go_on.touch()
            return await ended(queue, job)

    done = run(main())
    assert (done.status, done.percent, done.current_stage) == ("failed", 30, "before")
    assert recorded(db, done) == [("before", {})]


# What cannot be written


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


def test_one_event_that_can_not_be_stored_loses_no_other(
    queue: JobQueue, db: Db, caplog: pytest.LogCaptureFixture
) -> None:
    @queue.job
    def work(n: int, job: Job) -> None:
        for step in range(20):
            job.event("bad" if n == 3 and step == 7 else "good", step=step)

    jobs = [work.enqueue(n=n) for n in range(6)]
    with refusing(db, "events_open", "INSERT", "NEW.name = 'bad'"):
        drain(queue)
    for n, job in enumerate(jobs):
        assert queue.get(job).status == "completed"
        assert [data["step"] for _, data in recorded(db, job)] == [step for step in range(20) if (n, step) != (3, 7)]
    refused = [
        record
        for record in caplog.records
        if "the database refused" in record.message and "it is lost" in record.message
    ]
    assert [getattr(record, "job_id", None) for record in refused] == [str(jobs[3].id)]
    assert "event 'bad'" in refused[0].message


@contextlib.contextmanager
def rotating(dsn: str, table: str) -> Iterator[None]:
    """Meanwhile a table of the open segment is locked, as by a rotation; at the end it is in a closed one."""
    with psycopg.connect(dsn) as conn:
        conn.execute(f"LOCK TABLE howdah.{table} IN ACCESS EXCLUSIVE MODE")
        yield
        conn.execute("SELECT howdah.rotate('0')")


@pytest.fixture
def closed_segments_go(db: Db) -> Iterator[None]:
    yield
    db.execute("SELECT prune('0')")


def waits_for(db: Db, table: str, function: str) -> bool:
    """Whether a call of this function waits for that table."""
    waiting = (
        "SELECT FROM pg_locks JOIN pg_stat_activity USING (pid)"
        " WHERE NOT granted AND relation = to_regclass(%s) AND query ~ %s"
    )
    return bool(db.execute(waiting, (f"howdah.{table}", rf"\m{function}\M")).fetchall())


@pytest.mark.usefixtures("closed_segments_go")
def test_a_job_does_not_end_while_its_events_have_to_wait_and_they_are_not_lost_for_a_rotation(
    queue: JobQueue, db: Db, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    runs, go_on = threading.Event(), threading.Event()

    @queue.job
    def work(job: Job) -> None:
        runs.set()
        go_on.wait()
        job.event("kept")

    async def main() -> Job:
        async with working(queue):
            job = await work.aenqueue()
            await until(runs.is_set)
            with rotating(dsn, "events_open"):
                go_on.set()
                await until(lambda: waits_for(db, "events_open", "record_events"))
                assert queue.get(job).status == "running"
            return await ended(queue, job)

    job = run(main())
    assert job.status == "completed"
    assert recorded(db, job) == [("kept", {})]
    assert "lost" not in caplog.text


@pytest.mark.usefixtures("closed_segments_go")
def test_an_end_is_not_lost_to_a_rotation(queue: JobQueue, db: Db, dsn: str) -> None:
    runs, go_on = threading.Event(), threading.Event()

    @queue.job(max_attempts=1)
    def work() -> int:
        runs.set()
        go_on.wait()
        return 5

    async def main() -> Job:
        async with working(queue):
            job = await work.aenqueue()
            await until(runs.is_set)
            with rotating(dsn, "archive_open"):
                go_on.set()
                await until(lambda: waits_for(db, "archive_open", "complete"))
            return await ended(queue, job)

    job = run(main())
    assert (job.status, job.result) == ("completed", 5)


def test_one_report_that_can_not_be_stored_keeps_no_other_from_it(
    queue: JobQueue, db: Db, caplog: pytest.LogCaptureFixture
) -> None:
    together = asyncio.Event()
    waiting = 0

    @queue.job(max_attempts=1)
    async def work(n: int, job: Job) -> None:
        nonlocal waiting
        waiting += 1
        job.progress(50, "unwanted" if n == 4 else "fine")
        if waiting == 10:
            together.set()
        await together.wait()
        raise Fail("all at once")

    jobs = [work.enqueue(n=n) for n in range(10)]
    with refusing(db, "live", "UPDATE", "NEW.current_stage = 'unwanted'"):
        drain(queue, concurrency=10)
    assert [queue.get(job).current_stage for job in jobs] == ["fine"] * 4 + [None] + ["fine"] * 5
    assert {queue.get(job).status for job in jobs} == {"failed"}
    assert f"progress of job {jobs[4].id}" in caplog.text


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Grows whenever reports cannot be written because another transaction has locked the job."""
    waits: list[object] = []
    original = buffer.ProgressBuffer._put_back

    def put_back(self: buffer.ProgressBuffer, taken: Any) -> bool:
        if taken.has_to_wait:
            waits.append(taken)
        return original(self, taken)

    monkeypatch.setattr(buffer.ProgressBuffer, "_put_back", put_back)
    return waits


LOCK = "SELECT FROM howdah.live WHERE id = %s FOR UPDATE"


def test_updates_of_a_locked_job_wait_for_it_and_others_do_not(
    queue: JobQueue, db: Db, dsn: str, waits: list[object]
) -> None:
    said, go_on = threading.Event(), threading.Event()

    @queue.job
    def work(role: str, job: Job) -> None:
        if role == "locked":
            with psycopg.connect(dsn) as conn:
                conn.execute(LOCK, (job.id,))
                for n in range(3):
                    job.progress(10 * n, "locked")
                    job.event("locked", n=n)
                said.set()
                go_on.wait()
            job.event("last")
        else:
            job.event("other")
            job.progress(40, "other")

    async def main() -> Job:
        async with working(queue, threads=2):
            first = await work.aenqueue(role="locked")
            await happened(said)
            await until(lambda: waits)
            second = await work.aenqueue(role="other")
            assert (await ended(queue, second)).status == "completed"
            assert recorded(db, second) == [("other", {})]
            go_on.set()
            return await ended(queue, first)

    first = run(main())
    assert (first.status, first.current_stage) == ("completed", "locked")
    assert recorded(db, first) == [("locked", {"n": 0}), ("locked", {"n": 1}), ("locked", {"n": 2}), ("last", {})]


def test_a_locked_job_does_not_hold_up_the_others(
    queue: JobQueue, dsn: str, waits: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completer, "PATIENCE", 1.0)
    held_up: list[BaseException] = []
    original = WorkerConnection.run
    talk = True

    async def counted(connection: WorkerConnection, plan: Plan[Any]) -> Any:
        try:
            return await original(connection, plan)
        except asyncio.CancelledError as error:
            held_up.append(error)
            raise

    @queue.job
    async def work(job: Job) -> None:
        while talk:
            job.advance()
            await asyncio.sleep(0.01)

    async def main() -> list[Job]:
        nonlocal talk
        jobs = [await work.aenqueue() for _ in range(16)]
        async with working(queue, concurrency=16):
            await until(lambda: all(queue.get(job).record for job in jobs))
            with psycopg.connect(dsn) as conn:
                monkeypatch.setattr(WorkerConnection, "run", counted)
                conn.execute(LOCK, (jobs[7].id,))
                await until(lambda: sum(taken.tracker.ref[0] == jobs[7].id for taken in waits) >= 4)
                monkeypatch.setattr(WorkerConnection, "run", original)
            talk = False
            return [await ended(queue, job) for job in jobs]

    assert {job.status for job in run(main())} == {"completed"}
    assert held_up == []


def test_a_locked_job_does_not_end_before_its_last_updates_are_written(
    queue: JobQueue, db: Db, dsn: str, waits: list[object]
) -> None:
    started, locked = threading.Event(), threading.Event()

    @queue.job
    def work(job: Job) -> None:
        started.set()
        locked.wait()
        job.progress(40, "last")
        for n in range(3):
            job.event("last", n=n)

    async def main() -> Job:
        async with working(queue):
            job = await work.aenqueue()
            await happened(started)
            with psycopg.connect(dsn) as conn:
                conn.execute(LOCK, (job.id,))
                locked.set()
                # Once because of the report, and once more because the job is to end.
                await until(lambda: len(waits) >= 2)
            return await ended(queue, job)

    done = run(main())
    assert (done.status, done.current_stage) == ("completed", "last")
    assert recorded(db, done) == [("last", {"n": n}) for n in range(3)]


def test_events_whose_writing_was_not_answered_are_not_written_twice(
    queue: JobQueue, db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = WorkerConnection.run
    lost: list[str] = []

    async def loses_an_answer(connection: WorkerConnection, plan: Plan[Any]) -> Any:
        is_about_events = getattr(plan, "__name__", None) == "record_events"
        answer = await original(connection, plan)
        if is_about_events and len(lost) < 2:
            lost.append("the connection broke as the answer came")
            raise DatabaseUnavailable(lost[-1])
        return answer

    monkeypatch.setattr(WorkerConnection, "run", loses_an_answer)

    @queue.job
    def work(job: Job) -> None:
        for n in range(30):
            job.event("step", n=n)

    jobs = [work.enqueue() for _ in range(2)]
    drain(queue)
    assert len(lost) == 2
    for job in jobs:
        assert [data["n"] for _, data in recorded(db, job)] == list(range(30))


def test_updates_made_during_an_outage_are_stored_after_it() -> None:
    binaries = servers.find(servers.MAJORS[0])
    if binaries is None:
        pytest.skip(f"PostgreSQL {servers.MAJORS[0]} is not installed here")
    with DurableServer(binaries) as server, JobQueue(server.dsn) as queue:
        queue.migrate()
        started, gone, said, go_on = (threading.Event() for _ in range(4))

        @queue.job(max_attempts=1)
        def work(job: Job) -> None:
            job.event("before")
            job.progress(10, "before")
            started.set()
            gone.wait()
            for n in range(50):
                job.progress(n, "meanwhile")
                job.event("meanwhile", n=n)
            said.set()
            go_on.wait()
            raise Fail("to see it as it was")

        async def main() -> Job:
            job = await work.aenqueue()
            async with working(queue, lease=120, heartbeat=1):
                await happened(started)
                await until(lambda: queue.get(job).current_stage == "before")
                await asyncio.to_thread(server.halt, "immediate")
                gone.set()
                await happened(said)
                go_on.set()
                await asyncio.to_thread(server.start)
                return await ended(queue, job)

        done = run(main())
        with psycopg.connect(server.dsn) as conn:
            rows = conn.execute(
                "SELECT name, data ->> 'n' FROM howdah.events WHERE kind = 'event' ORDER BY job_id, seq"
            ).fetchall()
        assert (done.status, done.percent, done.current_stage) == ("failed", 49, "meanwhile")
        assert rows == [("before", None), *(("meanwhile", str(n)) for n in range(50))]


# Options


def test_a_type_that_fails_when_it_stalls_is_declared_so(queue: JobQueue, db: Db) -> None:
    @queue.job(fail_stalled=True)
    async def strict() -> None: ...

    @queue.job
    async def lenient() -> None: ...

    drain(queue)
    rows: Sequence[Any] = db.execute("SELECT job_type, fail_stalled FROM howdah.types ORDER BY job_type").fetchall()
    assert [(row["job_type"], row["fail_stalled"]) for row in rows] == [("lenient", False), ("strict", True)]


@pytest.mark.parametrize(
    "options",
    [{"log_level": "LOUD"}, {"log_level": -1}, {"log_level": True}, {"max_events": -1}, {"max_events": "many"}],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(queue: JobQueue, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        queue.job(**options)(lambda: None)
