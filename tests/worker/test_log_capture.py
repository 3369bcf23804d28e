"""What handlers log is kept with their jobs, whichever way it was logged, and nothing else is."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from howdah import Job, JobQueue
from howdah.handlers.outcome import Fail
from howdah.worker.progress import tracker
from howdah.worker.run import log_capture
from tests.conftest import Db
from tests.worker import handlers_reporting
from tests.worker.handlers_reporting import KINDS, handler
from tests.worker.in_process import drain, run, until, working

ALL_KINDS = pytest.mark.parametrize("kind", KINDS)
log = logging.getLogger("reporting")


@pytest.fixture(autouse=True)
def everything_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """pytest's own handlers make logging configured; its loggers still decide what is logged at all."""
    caplog.set_level(logging.DEBUG, logger="reporting")
    caplog.set_level(logging.DEBUG, logger="howdah")
    yield
    assert log_capture._capture not in logging.getLogger().handlers, "it is gone when the worker is"


def logged(db: Db, job: Job) -> list[tuple[str, str, str]]:
    """Level, logger and message of what a job has logged."""
    rows = db.execute(
        "SELECT name, data FROM howdah.events WHERE job_id = %s AND kind = 'log' ORDER BY seq", (job.id,)
    ).fetchall()
    return [(row["name"], row["data"]["logger"], row["data"]["message"]) for row in rows]


def messages(db: Db, job: Job) -> list[str]:
    return [message for _, _, message in logged(db, job)]


@ALL_KINDS
def test_what_a_handler_logs_is_kept_with_its_job(dsn: str, db: Db, kind: str) -> None:
    queue = handlers_reporting.connected(dsn)
    job = handler("logs", kind).enqueue()
    drain(queue, children=1)
    *lines, (level, logger, message) = logged(db, job)
    assert lines == [
        ("INFO", "reporting", "loaded 7 rows of a file"),
        ("WARNING", "reporting", "slowly"),
        ("ERROR", "reporting.deeper", "deeply"),
    ]
    assert (level, logger) == ("ERROR", "reporting")
    assert message.startswith("it broke\nTraceback (most recent call last):")
    assert message.endswith("KeyError: 'missing'")
    assert queue.get(job).events_count == 0, "a log record is not an event"


@ALL_KINDS
def test_a_handler_with_its_logs_off_keeps_none(dsn: str, db: Db, kind: str) -> None:
    queue = handlers_reporting.connected(dsn)
    job = handler("logs_in_vain", kind).enqueue()
    drain(queue, children=1)
    assert logged(db, job) == []


@ALL_KINDS
def test_a_worker_that_captures_nothing_keeps_none(dsn: str, db: Db, kind: str) -> None:
    queue = handlers_reporting.connected(dsn)
    job = handler("logs", kind).enqueue()
    drain(queue, children=1, capture_logs=False)
    assert (queue.get(job).status, logged(db, job)) == ("failed", [])


def test_a_child_keeps_what_its_loop_and_its_threads_log(dsn: str, db: Db) -> None:
    queue = handlers_reporting.connected(dsn)
    job = handlers_reporting.logs_awaited.enqueue()
    drain(queue, children=1)
    assert messages(db, job) == ["from a thread of a child", "from the loop of a child"]


@pytest.mark.parametrize(("level", "kept"), [("DEBUG", 3), ("info", 2), (logging.WARNING, 1), (35, 0)], ids=str)
def test_the_handler_sets_the_lowest_level_kept(queue: JobQueue, db: Db, level: Any, kept: int) -> None:
    @queue.job(log_level=level)
    async def work() -> None:
        log.debug("quiet")
        log.info("normal")
        log.warning("loud")

    job = work.enqueue()
    drain(queue)
    assert messages(db, job) == ["quiet", "normal", "loud"][3 - kept :]


def test_jobs_that_run_side_by_side_keep_their_own(queue: JobQueue, db: Db) -> None:
    together = asyncio.Barrier(5)
    in_threads = threading.Barrier(5)

    async def later(n: int) -> None:
        await asyncio.sleep(0)
        log.info("task of %d", n)

    @queue.job
    async def on_loop(n: int) -> None:
        await together.wait()
        log.info("loop %d", n)
        await asyncio.gather(later(n), asyncio.to_thread(log.info, "thread of %d", n))

    @queue.job
    def in_thread(n: int) -> None:
        in_threads.wait()
        log.info("thread %d", n)

    on_loops = [on_loop.enqueue(n=n) for n in range(5)]
    in_thread_jobs = [in_thread.enqueue(n=n) for n in range(5)]
    drain(queue)
    for n, job in enumerate(on_loops):
        assert sorted(messages(db, job)) == [f"loop {n}", f"task of {n}", f"thread of {n}"]
    for n, job in enumerate(in_thread_jobs):
        assert messages(db, job) == [f"thread {n}"]


def test_logs_of_a_batch_are_kept_with_its_first_job(queue: JobQueue, db: Db) -> None:
    @queue.job(batch_size=3)
    def work(jobs: list[Job]) -> None:
        log.info("%d jobs", len(jobs))

    jobs = [work.enqueue() for _ in range(3)]
    drain(queue)
    assert [messages(db, job) for job in jobs] == [["3 jobs"], [], []]


def test_each_attempt_keeps_its_own_logs(queue: JobQueue, db: Db) -> None:
    @queue.job(max_attempts=2, retry=lambda job, error: 0)
    def work(job: Job) -> None:
        log.info("attempt %d", job.attempts)
        raise ValueError("again")

    job = work.enqueue()
    drain(queue)
    rows = db.execute(
        "SELECT attempt, data ->> 'message' AS message FROM howdah.events WHERE job_id = %s AND kind = 'log'"
        " ORDER BY seq",
        (job.id,),
    ).fetchall()
    assert [(row["attempt"], row["message"]) for row in rows] == [(1, "attempt 1"), (2, "attempt 2")]


def test_logs_and_events_keep_their_order(queue: JobQueue, db: Db) -> None:
    @queue.job
    def work(job: Job) -> None:
        for n in range(10):
            log.info("%d", n)
            job.event("event", n=n)

    job = work.enqueue()
    drain(queue)
    rows = db.execute(
        "SELECT kind, seq FROM howdah.events WHERE job_id = %s AND kind <> 'status' ORDER BY seq", (job.id,)
    ).fetchall()
    assert [(row["kind"], row["seq"]) for row in rows] == [(("log", "event")[n % 2], n + 1) for n in range(20)]
    assert queue.get(job).events_count == 10


def test_too_many_and_too_long_ones_are_cut_and_counted(
    queue: JobQueue, db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracker, "MAX_LOGS", 20)

    @queue.job(max_attempts=1)
    def work() -> None:
        log.info("long: %s", "x" * 10_000)
        for n in range(30):
            log.info("line %d", n)
        raise Fail("in the end")

    job = work.enqueue()
    drain(queue)
    long, *others = messages(db, job)
    assert len(long) == 4_000
    assert long.endswith("… (10,006 characters)")
    assert others == [f"line {n}" for n in range(19)]
    rows = db.execute("SELECT name, data FROM howdah.events WHERE kind = 'event'").fetchall()
    assert rows == [{"name": "howdah.left_out", "data": {"events": 0, "logs": 11}}]


class Unreadable:
    def __str__(self) -> str:
        raise RuntimeError("not even this")


class Chatty:
    def __str__(self) -> str:
        log.info("asked for my name")
        return "chatty"


def test_a_message_that_cannot_be_formatted_does_not_fail_the_job(
    queue: JobQueue, db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    # pytest's own handler would raise.
    monkeypatch.setattr(logging, "raiseExceptions", False)

    @queue.job
    def work() -> str:
        logger = logging.Logger("alone", logging.DEBUG)
        logger.parent = None
        logger.addHandler(log_capture._capture)
        logger.info("too few %s %s", 1)
        logger.info("nul \x00 and surrogate \ud800")
        logger.info(Unreadable())
        logger.info("by %s", Chatty())
        logger.info("%(name)s is missing", {"other": 1})
        logger.log(7, "a level without a name")
        return "done"

    job = work.using(max_attempts=1).enqueue()
    drain(queue)
    assert queue.get(job).result == "done"
    assert messages(db, job) == [
        "too few %s %s",
        "nul \\x00 and surrogate \\ud800",
        "by chatty",
        "%(name)s is missing",
    ]
    left_out = db.execute("SELECT data FROM howdah.events WHERE name = 'howdah.left_out'").fetchone()
    assert left_out == {"data": {"events": 0, "logs": 1}}, "the one that could not be read at all"


class Sealing:
    """A codec that cannot store some things."""

    def encode(self, value: Any) -> Any:
        if "unstorable" in str(value):
            raise TypeError("this codec does not like it")
        return {"sealed": value}

    def decode(self, value: Any) -> Any:
        return value["sealed"]


def test_logs_go_through_the_codec_which_may_refuse_them(dsn: str, db: Db) -> None:
    with JobQueue(dsn, codec=Sealing()) as queue:

        @queue.job
        def work() -> None:
            log.info("fine")
            log.info("unstorable")

        job = work.enqueue()
        drain(queue)
        assert queue.get(job).status == "completed"
    rows = db.execute(
        "SELECT kind, data FROM howdah.events WHERE job_id = %s AND kind <> 'status' ORDER BY seq", (job.id,)
    ).fetchall()
    assert rows == [
        {"kind": "log", "data": {"sealed": {"logger": "reporting", "message": "fine"}}},
        {"kind": "event", "data": {"sealed": {"events": 0, "logs": 1}}},
    ]


# The process that it runs in


def test_it_exists_as_long_as_any_worker_uses_it(queue: JobQueue, dsn: str) -> None:
    root = logging.getLogger()

    @queue.job
    async def work() -> None: ...

    async def main() -> None:
        with JobQueue(dsn) as other:
            other.job(name="other")(lambda: None)
            async with working(queue):
                async with working(other):
                    await until(lambda: log_capture._capture in root.handlers)
                assert root.handlers.count(log_capture._capture) == 1
        assert log_capture._capture not in root.handlers

    run(main())


def test_the_capture_is_restored_after_logging_is_configured_anew(
    queue: JobQueue, db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", list(root.handlers))

    @queue.job
    async def work() -> None:
        log.info("still here")

    async def main() -> Job:
        async with working(queue):
            await until(lambda: log_capture._capture in root.handlers)
            root.removeHandler(log_capture._capture)
            return await queue.await_for(await work.aenqueue(), timeout=30)

    assert messages(db, run(main())) == ["still here"]


@contextlib.contextmanager
def unconfigured() -> Iterator[logging.Logger]:
    """Logging as Python starts with it. pytest configures it for each test again."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    root.handlers = []
    root.setLevel(logging.WARNING)
    try:
        yield root
    finally:
        root.handlers = handlers
        root.setLevel(level)


def test_without_configured_logging_warnings_are_still_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with unconfigured(), log_capture.installed(logging.INFO):
        logging.getLogger("some.library").warning("look out")
        logging.getLogger("some.library").info("never mind")
    assert capsys.readouterr().err == "look out\n"


def test_where_a_library_has_its_own_handler_the_capture_shows_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    library = logging.getLogger("some.library")
    monkeypatch.setattr(library, "handlers", [logging.NullHandler()])
    with unconfigured(), log_capture.installed(logging.INFO):
        library.getChild("inner").warning("look out")
    assert capsys.readouterr().err == ""


def test_the_level_is_lowered_only_meanwhile() -> None:
    with unconfigured() as root:
        with log_capture.installed(logging.INFO):
            assert root.level == logging.INFO
            with log_capture.installed(logging.DEBUG):
                assert root.level == logging.DEBUG
            assert root.level == logging.INFO
        assert root.level == logging.WARNING
        with log_capture.installed(logging.ERROR):
            assert root.level == logging.WARNING
        with log_capture.installed(None):
            assert root.handlers == []


def test_a_configured_level_is_kept() -> None:
    with unconfigured() as root:
        with log_capture.installed(logging.INFO):
            root.setLevel(logging.ERROR)
            with log_capture.installed(logging.DEBUG):
                assert root.level == logging.ERROR
        assert root.level == logging.ERROR
        root.setLevel(logging.WARNING)
        root.addHandler(logging.NullHandler())
        with log_capture.installed(logging.DEBUG):
            assert root.level == logging.WARNING


SCRIPT = """
import logging, sys
from howdah import JobQueue
from howdah.testing import drain

queue = JobQueue(sys.argv[1])

@queue.job
def work():
    logging.getLogger("app").info("nothing is configured")
    logging.getLogger("app").warning("shown too")

work.enqueue()
drain(queue)
"""


def test_a_plain_script_keeps_what_it_logs_and_shows_what_it_would(dsn: str, db: Db) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, dsn], capture_output=True, text=True, timeout=180, check=True)
    rows = db.execute(
        "SELECT data ->> 'message' AS message FROM howdah.events WHERE kind = 'log' ORDER BY seq"
    ).fetchall()
    assert [row["message"] for row in rows] == ["nothing is configured", "shown too"]
    assert done.stderr == "shown too\n"
