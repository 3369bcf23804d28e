"""The hub: one connection reads for all subscribers, through outages, and costs nothing without subscribers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from howdah import DatabaseUnavailable, Job, JobQueue, SchemaMissing, Update, WaitTimeout
from howdah.db import plan
from howdah.watch import hub, mailbox, readers, wait, watch
from howdah.watch.hub import Hub
from tests import servers
from tests.client.listener import FLAVOURS, PATIENCE, Listener, has, held, names
from tests.conftest import Db
from tests.worker.durable_server import DurableServer
from tests.worker.test_pooler import pooled_dsn

__all__ = ["pooled_dsn"]


class Rounds:
    """The statements that the hub sends, round by round."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.statements: list[list[str]] = [[]]
        round_, run = hub._HubThread._round, hub._Connection.run

        def counted_round(reading: Any) -> None:
            self.statements.append([])
            round_(reading)

        def counted_run(line: Any, plan: Any) -> Any:
            self.statements[-1].append(plan.__name__)
            return run(line, plan)

        monkeypatch.setattr(hub._HubThread, "_round", counted_round)
        monkeypatch.setattr(hub._Connection, "run", counted_run)

    @property
    def most(self) -> int:
        return max(map(len, self.statements))

    def forget(self) -> None:
        self.statements = [[]]


def watch_locks(db: Db) -> int:
    """How many of the locks that ask for notifications are held."""
    row = db.execute(
        "SELECT count(*) AS n FROM pg_locks WHERE locktype = 'advisory' AND classid = 'live'::regclass::oid AND objid >= 32"
    ).fetchone()
    assert row is not None
    return int(row["n"])


def comes(condition: Callable[[], object]) -> bool:
    """Whether the condition holds sooner or later. There is no signal for it."""
    deadline = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return bool(condition())


# How many statements it sends


@pytest.mark.parametrize("verb", ["watch", "watch_all"])
def test_two_hundred_watchers_send_no_more_statements_than_one(
    queue: JobQueue, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    jobs = [held(queue, f"type {n % 7}") for n in range(20)]
    rounds = Rounds(monkeypatch)

    def story(watchers: int) -> int:
        """Runs jobs while so many watch: how many statements one round had at most."""
        rounds.forget()
        name = f"end {watchers}"

        async def watching(number: int) -> list[Update]:
            updates: list[Update] = []
            job = jobs[number % len(jobs)]
            stream = queue.awatch(job) if verb == "watch" else queue.awatch_all(after=position)
            async with contextlib.aclosing(stream):
                async for update in stream:
                    updates.append(update)
                    if update.name == name:
                        return updates
            raise AssertionError("it ended before")

        async def main() -> None:
            async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
                watches = [tasks.create_task(watching(number)) for number in range(watchers)]
                for n in range(5):
                    for job in jobs:
                        await queue.aevent(job, f"{n}")
                        await queue.aprogress(job, 10 * n)
                for job in jobs:
                    await queue.aevent(job, name)
            for number, task in enumerate(watches):
                expected = [*"01234"] if verb == "watch" else [f"{n}" for n in range(5) for _ in jobs]
                assert names(task.result())[-len(expected) - 1 :] == [*expected, name], number

        position = queue.stream_position()
        asyncio.run(main())
        return rounds.most

    one = story(1)
    many = story(200)
    # One more for new subscribers. A single watcher has rounds of three or four questions, by chance.
    assert many <= max(one, 4) + 1


def test_without_watchers_the_hub_has_no_thread_and_no_locks(dsn: str, db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "LINGER", 0.05)
    name = "hub of this test"
    with JobQueue(make_conninfo(dsn, application_name=name)) as queue:
        job = held(queue)
        queue.event(job, "a")
        with contextlib.closing(queue.watch(job)) as stream:
            assert "a" in (update.name for update in stream)
            assert comes(lambda: watch_locks(db) == 1)
            assert queue._hub()._thread is not None
        assert comes(lambda: queue._hub()._thread is None)
        assert comes(lambda: watch_locks(db) == 0)
        # And it can begin anew.
        queue.event(job, "b")
        assert names(list(_until(queue.watch(job), "b"))) == ["a", "b"]


def stands_at(percent: int) -> Callable[[list[Update]], bool]:
    return lambda updates: any(each.job is not None and each.job.percent == percent for each in updates)


def _until(stream: Any, name: str) -> Iterator[Update]:
    with contextlib.closing(stream):
        for update in stream:
            yield update
            if update.name == name:
                return


def test_without_watchers_no_notification_is_sent(queue: JobQueue, db: Db, connect: Any) -> None:
    listener = connect()
    row = listener.execute("SELECT channel() AS name").fetchone()
    listener.execute(sql.SQL("LISTEN {}").format(sql.Identifier(row["name"])))

    def run_one(job_type: str) -> None:
        job = held(queue, job_type)
        queue.event(job, "a")
        queue.progress(job, 50)
        queue.complete(job)

    def heard() -> list[str]:
        db.execute("SELECT pg_notify(channel(), 'sentinel')")
        payloads: list[str] = []
        for note in listener.notifies(timeout=PATIENCE):
            if note.payload == "sentinel":
                return [each for each in payloads if each.startswith("news")]
            payloads.append(note.payload)
        raise AssertionError("the sentinel did not come")

    run_one("mail")
    assert heard() == []
    waited_for = held(queue, "mail")
    waiting = threading.Thread(target=queue.wait_for, args=(waited_for, PATIENCE))
    waiting.start()
    assert comes(lambda: watch_locks(db) == 1)
    run_one("mail")
    assert heard() != [], "there is a waiter for a job of this type"
    queue.complete(waited_for)
    waiting.join()
    heard()
    assert comes(lambda: watch_locks(db) == 0)
    run_one("mail")
    assert heard() == []


def test_types_that_share_a_lock_do_not_take_it_from_each_other(queue: JobQueue, db: Db) -> None:
    def bucket(job_type: str) -> int:
        row = db.execute("SELECT abs(hashtext(%s) %% 32) AS bucket", (job_type,)).fetchone()
        assert row is not None
        return int(row["bucket"])

    other = next(f"type {n}" for n in range(1000) if bucket(f"type {n}") == bucket("mail"))
    apart = next(f"type {n}" for n in range(1000) if bucket(f"type {n}") != bucket("mail"))
    first, second, third = held(queue, "mail"), held(queue, other), held(queue, apart)
    for job in (first, second, third):
        queue.event(job, "a")
    with (
        Listener(queue, "plain", "watch", first) as one,
        Listener(queue, "plain", "watch", second) as two,
        Listener(queue, "plain", "watch", third) as three,
    ):
        for listener in (one, two, three):
            listener.until(has("a"))
        assert comes(lambda: watch_locks(db) == 2)
        queue.complete(second)
        two.ended()
        queue.complete(third)
        three.ended()
        assert comes(lambda: watch_locks(db) == 1), "what the first needs is still there"
        queue.complete(first)
        one.ended()


class Busy:
    """A job of which there is always news."""

    def __init__(self, queue: JobQueue, job: Job) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(queue, job))

    def _work(self, queue: JobQueue, job: Job) -> None:
        while not self._stop.wait(0.05):
            queue.event(job, "busy")

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def test_an_ended_watch_releases_its_locks_however_busy_the_others_are(queue: JobQueue, db: Db) -> None:
    busy, other = held(queue, "mail"), held(queue, "film")
    queue.event(busy, "a")
    with Listener(queue, "plain", "watch", busy) as listener, Busy(queue, busy):
        listener.until(has("a"))
        with contextlib.closing(queue.watch_all(kinds=["event"], after="")) as everything:
            next(everything)
            assert comes(lambda: watch_locks(db) == 32)
        assert comes(lambda: watch_locks(db) == 1)
        with pytest.raises(WaitTimeout):
            queue.wait_for(other, 0.05)
        assert comes(lambda: watch_locks(db) == 1)


def test_the_last_watch_releases_its_lock_however_busy_its_job_is(queue: JobQueue, db: Db) -> None:
    job = held(queue)
    queue.event(job, "a")
    with Busy(queue, job):
        with contextlib.closing(queue.watch(job, kinds=["event"])) as stream:
            next(stream)
            assert comes(lambda: watch_locks(db) == 1)
        assert comes(lambda: watch_locks(db) == 0)
        thread = queue._hub()._thread
        assert thread is not None
        assert thread.is_alive(), "and not because it has ended"


def test_a_job_that_goes_on_is_not_looked_for_in_the_archive(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which each day is a table to look into."""
    asked: list[str] = []

    def recorded(name: str, **arguments: Any) -> Any:
        asked.append(name)
        return plan.read(name, **arguments)

    monkeypatch.setattr(readers, "read", recorded)
    job = held(queue)
    one = Listener(queue, "plain", "watch", job)
    with Listener(queue, "plain", "watch_all") as everything:
        for percent in (1, 20, 40):
            queue.progress(job, percent)
            for listener in (one, everything):
                listener.until(stands_at(percent))
        assert "live_jobs" in asked
        assert "get_many" not in asked
        queue.complete(job)
        one.ended()
    assert "get_many" in asked


def test_a_live_job_reads_the_same_wherever_it_is_read(queue: JobQueue, db: Db) -> None:
    job = held(queue)
    queue.progress(job, 10, "packing")
    waiting = queue.enqueue("mail")
    db.execute("UPDATE live SET progress_report = progress_report || '{\"stalls\": 1}' WHERE id = %s", (job.id,))
    live, anywhere = (
        queue._database.run(plan.read(name, ids=[job.id, waiting.id])) for name in ("live_jobs", "get_many")
    )
    # What distinguishes versions of a live row has no meaning elsewhere.
    for row in live:
        assert row.pop("version")
    assert {row["id"]: row for row in live} == {row["id"]: row for row in anywhere}
    assert list(live[0]) == list(anywhere[0])
    assert {row["id"]: row["stalled"] for row in live} == {job.id: True, waiting.id: False}


# Weather


@pytest.fixture
def server() -> Iterator[DurableServer]:
    binaries = servers.find(servers.MAJORS[0])
    if binaries is None:
        pytest.skip(f"PostgreSQL {servers.MAJORS[0]} is not installed here")
    with DurableServer(binaries) as server:
        yield server


def lost_and_back(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        event
        for record in caplog.records
        if record.name == "howdah.watching" and (event := getattr(record, "event", None)) is not None
    ]


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_watches_survive_a_restart_of_the_database(
    server: DurableServer, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    with JobQueue(server.dsn, timeout=PATIENCE) as queue:
        queue.migrate()
        jobs = [held(queue, f"type {n}") for n in range(3)]
        after = queue.stream_position()
        for job in jobs:
            queue.event(job, "before")
        streams = [Listener(queue, flavour, "watch", job) for job in jobs for flavour in FLAVOURS]
        alls = [Listener(queue, flavour, "watch_all", after=after) for flavour in FLAVOURS]
        waits = [threading.Thread(target=lambda job=job: ended.append(queue.wait_for(job, PATIENCE))) for job in jobs]
        ended: list[Job] = []
        for wait in waits:
            wait.start()
        for listener in (*streams, *alls):
            listener.until(has("before"))
        server.halt(mode)
        assert comes(lambda: "database_lost" in lost_and_back(caplog))
        with pytest.raises(WaitTimeout):
            # It has begun to wait before, as far as it knows: its time is up although nothing can be asked.
            _wait_without_a_first_look(queue, jobs[0])
        server.start()
        with JobQueue(server.dsn) as worker:
            for job in jobs:
                worker.event(job, "after")
                worker.complete(job, "done")
        for listener in streams:
            updates = listener.ended()
            assert names(updates) == ["before", "after"]
            assert updates[-1].job is not None
            assert updates[-1].job.result == "done"
        for listener in alls:
            listener.until(lambda updates: len([each for each in updates if each.name == "completed"]) == len(jobs))
            listener.stop()
            assert names(listener.updates) == ["before"] * 3 + ["after"] * 3
        for wait in waits:
            wait.join(PATIENCE)
        assert sorted(job.id for job in ended) == sorted(job.id for job in jobs)
        assert comes(lambda: "database_back" in lost_and_back(caplog))
        assert lost_and_back(caplog) == ["database_lost", "database_back"], "said once"


def _wait_without_a_first_look(queue: JobQueue, job: Job) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wait._Waiting, "_look", lambda self, ids: _known(self, job))
        queue.wait_for(job, 0.2)


def _known(waiting: Any, job: Job) -> Iterator[None]:
    waiting._jobs[job.id] = job
    return iter(())


def test_a_connection_that_is_ended_again_and_again_loses_nothing(dsn: str, queue: JobQueue, db: Db) -> None:
    job = held(queue)
    with (
        JobQueue(make_conninfo(dsn, application_name="unlucky")) as unlucky,
        Listener(unlucky, "plain", "watch", job) as one,
        Listener(unlucky, "awaited", "watch_all", after=queue.stream_position()) as all_of_them,
    ):
        one.until(len)
        for n in range(30):
            queue.event(job, f"{n}")
            if n % 3 == 0:
                db.execute(
                    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'unlucky'"
                )
            if n % 7 == 0:
                one.until(has(f"{n}"))
        queue.complete(job)
        assert names(one.ended()) == [f"{n}" for n in range(30)]
        assert names(all_of_them.until(has("completed"))) == [f"{n}" for n in range(30)]


def test_an_error_other_than_an_outage_is_raised_by_every_watch(dsn: str, db: Db, server: DurableServer) -> None:
    with JobQueue(server.dsn) as queue:
        queue.migrate()
        job = held(queue)
        queue.event(job, "a")
        listeners = [Listener(queue, flavour, "watch", job) for flavour in FLAVOURS]
        listeners += [Listener(queue, flavour, "watch_all", after="") for flavour in FLAVOURS]
        for listener in listeners:
            listener.until(has("a"))
        with psycopg.connect(server.dsn) as conn:
            conn.execute("DROP SCHEMA howdah CASCADE")
        errors = [listener.failed() for listener in listeners]
        assert {type(error) for error in errors} == {SchemaMissing}
        assert len(set(map(id, errors))) == len(errors), "each has a traceback of its own"


def test_through_a_pooler_it_polls_and_leaves_no_lock_behind(pooled_dsn: str, dsn: str, db: Db) -> None:
    with JobQueue(pooled_dsn) as queue:
        job, other = held(queue, "mail"), held(queue, "film")
        after = queue.stream_position()
        listeners = [Listener(queue, flavour, "watch", job) for flavour in FLAVOURS]
        listeners += [Listener(queue, flavour, "watch_all", after=after) for flavour in FLAVOURS]
        waiting = threading.Thread(target=queue.wait_for, args=([job, other], PATIENCE))
        waiting.start()
        for n in range(20):
            queue.event(job, f"{n}")
            queue.event(other, f"other {n}")
        for listener in listeners:
            listener.until(has("19"))
        queue.complete(job, 1)
        queue.complete(other, 2)
        for listener in listeners[:2]:
            assert names(listener.ended()) == [f"{n}" for n in range(20)]
        for listener in listeners[2:]:
            listener.until(lambda updates: len([each for each in updates if each.name == "completed"]) == 2)
            listener.stop()
            assert len(names(listener.updates)) == 40
        waiting.join(PATIENCE)
        assert not waiting.is_alive()
        assert watch_locks(db) == 0
    assert watch_locks(db) == 0


def test_a_connection_without_its_own_notification_is_not_tested_again(
    queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a pooler, each time would leave one more session listening."""
    listened: list[Any] = []
    ahead = [0.0]
    listen = hub._Connection.listen

    def counted(line: Any) -> None:
        listened.append(line)
        listen(line)

    monkeypatch.setattr(hub._Connection, "listen", counted)
    monkeypatch.setattr(hub._Connection, "_on_notification", lambda line, payload: None)
    monkeypatch.setattr(hub, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + ahead[0]))
    rounds = Rounds(monkeypatch)
    job = held(queue)
    with Listener(queue, "plain", "watch", job) as listener:
        assert comes(lambda: len(rounds.statements) > 3)
        ahead[0] = 1_000
        before = len(rounds.statements)
        assert comes(lambda: len(rounds.statements) > before + 3)
        assert len(listened) == 1
        queue.complete(job)
        listener.ended()


def test_a_notification_that_is_missed_costs_time_and_nothing_else(
    queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub._Connection, "_on_notification", lambda self, payload: setattr(self, "listening", True))
    job = held(queue)
    listener = Listener(queue, "plain", "watch", job)
    listener.until(len)
    queue.event(job, "a")
    listener.until(has("a"))
    queue.complete(job)
    assert names(listener.ended()) == ["a"]


def test_whatever_passes_by_itself_is_waited_out_and_nothing_else() -> None:
    script = watch.insist("get")
    next(script)
    for error in (DatabaseUnavailable(), psycopg.errors.LockNotAvailable(), psycopg.errors.AdminShutdown()):
        assert isinstance(script.throw(error), plan.Pause)
        assert isinstance(script.send(None), plan.Read)
    with pytest.raises(psycopg.errors.UndefinedTable):
        script.throw(psycopg.errors.UndefinedTable())


# Order


def test_a_mailbox_is_read_in_order_and_the_newest_of_a_key_comes_last() -> None:
    box = mailbox.Mailbox(plan.ThreadWaker(), lambda: None)
    for key, row in ((None, 1), ("state", 2), (None, 3), ("state", 4), (None, 5)):
        box.put(mailbox.Message("event", {"n": row}), key=key)
    box.fail(ValueError("over"))
    assert [message.row and message.row["n"] for message in box.take(2)] == [1, 3]
    assert [message.row and message.row["n"] for message in box.take()] == [4, 5]
    with pytest.raises(ValueError, match="over"):
        box.take()


def test_one_hub_serves_a_queue_and_logs_nothing_without_a_fault(
    queue: JobQueue, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "howdah.watching")
    job = held(queue)
    listeners = [Listener(queue, flavour, "watch", job) for flavour in FLAVOURS * 5]
    hubs: set[Hub] = {queue._hub() for _ in range(10)}
    for listener in listeners:
        listener.until(len)
    queue.complete(job)
    for listener in listeners:
        listener.ended()
    assert len(hubs) == 1
    assert [thread.name for thread in threading.enumerate()].count("howdah-hub") >= 1
    assert lost_and_back(caplog) == []
