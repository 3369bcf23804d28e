"""Handlers: where they run, what they are called with, and what is refused before anything runs."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import os
import signal
import sys
import threading
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pydantic
import pytest

from howdah import InvalidArguments, InvalidInput, InvalidItem, InvalidOption, Job, JobQueue
from howdah.errors import NotRunning
from tests.conftest import Db
from tests.worker import child_handlers
from tests.worker.in_process import drain, ended, run, statuses, until, working

NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclasses.dataclass
class Address:
    street: str
    number: int


class Person(pydantic.BaseModel):
    name: str
    born: datetime


# Where they run


def test_an_async_handler_runs_on_the_loop_and_its_return_value_is_the_result(queue: JobQueue) -> None:
    @queue.job
    async def add(a: int, b: int) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"sum": a + b, "main": threading.current_thread() is threading.main_thread()}

    job = add.enqueue(a=1, b=2)
    drain(queue)
    done = queue.get(job)
    assert (done.status, done.result, done.percent, done.attempts) == ("completed", {"sum": 3, "main": True}, 100, 1)


def test_a_plain_function_runs_in_a_thread(queue: JobQueue) -> None:
    @queue.job
    def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    job = where.enqueue()
    drain(queue)
    assert queue.get(job).result is False


def test_a_handler_can_run_in_a_child_process(dsn: str) -> None:
    queue = child_handlers.connected(dsn)
    plain = child_handlers.in_process.enqueue(start=NOON, span=timedelta(hours=1))
    awaited = child_handlers.awaited_in_process.enqueue()
    drain(queue, types=["in_process", "awaited_in_process"], children=1)
    done = queue.get(plain)
    assert done.result == {
        "pid": done.result["pid"],
        "end": (NOON + timedelta(hours=1)).isoformat(),
        "id": str(plain.id),
        "attempts": 1,
    }
    assert done.result["pid"] != os.getpid()
    assert queue.get(awaited).result == done.result["pid"], "a child that has done one job does the next"


def test_a_handler_that_does_not_stand_for_its_function_is_found_by_a_child_process_too(dsn: str) -> None:
    queue = child_handlers.connected(dsn)
    job = child_handlers.registered.enqueue()
    drain(queue, types=["registered"], children=1)
    done = queue.get(job)
    assert (done.status, done.result != os.getpid()) == ("completed", True), done.errors


def test_whatever_json_can_hold_goes_to_a_child_process_and_comes_back(dsn: str) -> None:
    queue = child_handlers.connected(dsn)
    values: list[Any] = [None, True, -1, 2**63, 10**30, -(10**30), 1.5, "ä\u2028", [], {"a": [{"b": None}]}, {"": 0}]
    jobs = [child_handlers.echo.enqueue(value=value) for value in values]
    drain(queue, types=["echo"], children=1)
    done = [queue.get(job) for job in jobs]
    assert [(job.status, job.result) for job in done] == [("completed", value) for value in values]


def test_a_child_that_died_while_it_waited_is_replaced(dsn: str) -> None:
    queue = child_handlers.connected(dsn)

    async def main() -> None:
        async with working(queue, types=["echo", "awaited_in_process"], children=1):
            child = (await ended(queue, await child_handlers.awaited_in_process.aenqueue())).result
            os.kill(child, signal.SIGKILL)
            await until(lambda: not _is_alive(child))
            done = await ended(queue, await child_handlers.echo.aenqueue(value="again"))
            assert (done.status, done.result, done.crashes) == ("completed", "again", 0)

    run(main())


def test_a_child_that_died_before_the_job_began_counts_as_no_crash(dsn: str) -> None:
    queue = child_handlers.connected(dsn)

    async def main() -> None:
        async with working(queue, types=["echo", "awaited_in_process"], children=1):
            child = (await ended(queue, await child_handlers.awaited_in_process.aenqueue())).result
            os.kill(child, signal.SIGSTOP)
            job = await child_handlers.echo.aenqueue(value="again")
            await until(lambda: queue.get(job).status == "running")
            os.kill(child, signal.SIGKILL)
            done = await ended(queue, job)
            assert (done.status, done.result, done.crashes) == ("completed", "again", 0)

    run(main())


def _is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_handler_for_child_processes_must_be_importable(queue: JobQueue) -> None:
    def local() -> None: ...

    with pytest.raises(InvalidOption, match="top level of a module"):
        queue.job(process=True)(local)
    assert queue.handlers == {}


def test_calling_a_handler_calls_its_function(queue: JobQueue) -> None:
    @queue.job(name="other.name")
    def twice(n: int) -> int:
        return n * 2

    assert (twice(4), twice.name, getattr(twice, "__name__", None)) == (8, "other.name", "twice")


# What they are called with


def _typed(queue: JobQueue, asynchronous: bool) -> Any:
    """A handler of many types, and what it was called with."""
    seen: list[dict[str, Any]] = []

    async def on_loop(at: datetime, id: uuid.UUID, size: Size, to: Address, who: Person, n: int = 7) -> None:
        seen.append({"at": at, "id": id, "size": size, "to": to, "who": who, "n": n})

    def in_thread(at: datetime, id: uuid.UUID, size: Size, to: Address, who: Person, n: int = 7) -> None:
        seen.append({"at": at, "id": id, "size": size, "to": to, "who": who, "n": n})

    function: Callable[..., Any] = on_loop if asynchronous else in_thread
    return queue.job(name="typed")(function), seen


@pytest.mark.parametrize("asynchronous", [True, False], ids=["on the loop", "in a thread"])
def test_arguments_arrive_as_the_types_that_their_annotations_name(queue: JobQueue, asynchronous: bool) -> None:
    typed, seen = _typed(queue, asynchronous)
    id = uuid.uuid4()
    values = {
        "at": NOON,
        "id": id,
        "size": Size.LARGE,
        "to": Address("Main", 5),
        "who": Person(name="Ada", born=NOON),
    }
    typed.enqueue(**values)
    queue.enqueue(
        "typed",
        {
            "at": "2026-03-01T12:00:00Z",
            "id": str(id),
            "size": "l",
            "to": {"street": "Main", "number": 5},
            "who": {"name": "Ada", "born": "2026-03-01T12:00:00Z"},
            "n": 8,
        },
    )
    drain(queue, concurrency=1, threads=1)
    assert seen == [{**values, "n": 7}, {**values, "n": 8}]


@pytest.mark.parametrize("asynchronous", [True, False], ids=["on the loop", "in a thread"])
def test_data_that_does_not_fit_fails_its_job_alone_and_names_the_field(
    dsn: str, queue: JobQueue, asynchronous: bool, caplog: pytest.LogCaptureFixture
) -> None:
    _, seen = _typed(queue, asynchronous)
    good = {
        "at": NOON.isoformat(),
        "id": str(uuid.uuid4()),
        "size": "s",
        "to": {"street": "Main", "number": 5},
        "who": {"name": "Ada", "born": NOON.isoformat()},
    }
    bad = {
        "at": {**good, "at": "hunter2"},
        "id": {**good, "id": 5},
        "size": {**good, "size": "hunter2"},
        "to.number": {**good, "to": {"street": "Main", "number": "hunter2"}},
        "who": {**good, "who": {"name": "Ada"}},
        "unheard": {**good, "unheard": "hunter2"},
        "street": {name: value for name, value in good.items() if name != "to"} | {"street": "hunter2"},
    }
    with JobQueue(dsn) as producer:
        jobs = {field: producer.enqueue("typed", data) for field, data in bad.items()}
        not_an_object = producer.enqueue("typed", ["hunter2"])
        neighbours = [producer.enqueue("typed", good) for _ in range(3)]
    report = drain(queue)
    for field, job in jobs.items():
        failed = queue.get(job)
        assert (failed.status, failed.attempts) == ("failed", 1), "another attempt would fail in the same way"
        assert field in str(failed.last_error)
        assert "hunter2" not in str((failed.last_error, failed.errors)), "arguments may be secrets"
    assert "JSON object" in str(queue.get(not_an_object).last_error)
    assert {queue.get(job).status for job in neighbours} == {"completed"}
    assert (len(seen), report.counts["failed"], report.counts["completed"]) == (3, 8, 3)
    assert "hunter2" not in caplog.text


def test_a_parameter_annotated_as_job_receives_it_whatever_its_name(queue: JobQueue) -> None:
    seen: list[Job] = []

    @queue.job
    async def on_loop(n: int, me: Job) -> None:
        seen.append(me)

    @queue.job
    def in_thread(this: Job) -> None:
        seen.append(this)

    jobs = [on_loop.enqueue(n=5), in_thread.enqueue()]
    drain(queue)
    by_id = {job.id: job for job in seen}
    first, second = (by_id[job.id] for job in jobs)
    assert (first.data, first.attempts, first.status) == ({"n": 5}, 1, "running")
    assert second.job_type == "in_thread"


def test_the_verbs_of_a_running_job_are_refused_elsewhere(queue: JobQueue) -> None:
    job = queue.enqueue("mail")
    for verb in (job.progress, job.complete, lambda: job.cancelled, lambda: job.resources):
        with pytest.raises(NotRunning, match=r"queue\.progress"):
            verb()


# What is refused


@pytest.fixture
def send(queue: JobQueue) -> Any:
    @queue.job
    async def send(to: str, count: int = 1) -> None: ...

    return send


@pytest.mark.parametrize(
    ("arguments", "field"),
    [({"to": 5}, "to"), ({"to": "x", "count": "many"}, "count"), ({}, "to"), ({"to": "x", "tto": 1}, "tto")],
    ids=["wrong type", "wrong type of an optional one", "missing", "unknown"],
)
def test_arguments_that_do_not_fit_are_refused_at_enqueue_where_the_handler_is_known(
    queue: JobQueue, db: Db, send: Any, arguments: dict[str, Any], field: str
) -> None:
    attempts: list[Callable[[], Any]] = [
        lambda: send.enqueue(**arguments),
        lambda: run(send.aenqueue(**arguments)),
        lambda: send.using(priority=5).enqueue(**arguments),
        lambda: run(send.using(priority=5).aenqueue(**arguments)),
        lambda: queue.enqueue("send", arguments),
        lambda: run(queue.aenqueue("send", arguments)),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidArguments) as refused:
            attempt()
        assert refused.value.field == field
        assert f"'{field}'" in str(refused.value)
    assert statuses(db, "send") == {}


UNREADABLE = {"long": "repeat('9', 60000)"}
if sys.version_info < (3, 13):  # from then on, Python reads what is as deep as PostgreSQL stores
    UNREADABLE["deep"] = "repeat('[', 3000) || repeat(']', 3000)"


@pytest.mark.parametrize("value", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("how", ["typed", "as it is", "in a thread", "batch", "process"])
def test_data_that_python_cannot_read_fails_at_once(queue: JobQueue, dsn: str, db: Db, how: str, value: str) -> None:
    match how:
        case "typed":

            @queue.job(name="hard")
            async def typed(value: list[Any]) -> None: ...
        case "as it is":

            @queue.job(name="hard")
            async def as_it_is(**values: Any) -> None: ...
        case "in a thread":

            @queue.job(name="hard")
            def in_a_thread(value: Any) -> None: ...
        case "batch":

            @queue.job(name="hard", batch_size=5)
            async def batch(jobs: list[Job]) -> None: ...

    name = "echo" if how == "process" else "hard"
    document = f"jsonb_build_object('value', ({value})::jsonb)"
    db.execute(f"SELECT enqueue(%s, {document})".encode(), (name,))
    drain(child_handlers.connected(dsn) if how == "process" else queue)
    row = db.execute("SELECT status, attempts, last_error FROM job_details").fetchone()
    assert row is not None
    assert (row["status"], row["attempts"]) == ("failed", 1)
    assert "read" in row["last_error"]


def test_a_bulk_with_arguments_that_do_not_fit_enqueues_nothing(queue: JobQueue, db: Db, send: Any) -> None:
    items = [{"to": "x"}, {"to": "y"}, {"to": 5}]
    with pytest.raises(InvalidItem, match="'to'") as refused:
        queue.enqueue_many("send", items)
    assert refused.value.index == 2
    for attempt in (send.enqueue_many, send.using(priority=5).enqueue_many):
        with pytest.raises(InvalidInput, match="'to'"):
            attempt(items)
    assert statuses(db, "send") == {}
    added = send.enqueue_many(items[:2], return_ids=True)
    assert added == 2
    assert [queue.get(id).data["to"] for id in added.ids] == ["x", "y"]


def test_types_without_a_handler_here_are_neither_checked_nor_claimed(queue: JobQueue, db: Db, send: Any) -> None:
    send.enqueue(to="x")
    queue.enqueue("unheard", {"to": 5})
    drain(queue)
    assert (statuses(db, "send"), statuses(db, "unheard")) == ({"completed": 1}, {"pending": 1})


def test_a_worker_can_take_some_of_the_types(queue: JobQueue, db: Db, send: Any) -> None:
    @queue.job
    async def other() -> None: ...

    send.enqueue(to="x")
    other.enqueue()
    drain(queue, types=["other"])
    assert (statuses(db, "send"), statuses(db, "other")) == ({"pending": 1}, {"completed": 1})


def test_a_worker_without_handlers_is_refused_with_a_reason(queue: JobQueue, send: Any) -> None:
    with JobQueue("host=/nowhere") as empty, pytest.raises(InvalidOption, match=r"@queue\.job"):
        empty.worker()
    with pytest.raises(InvalidOption, match="no handler for sendd: there are send"):
        queue.worker(types=["sendd"])
    with pytest.raises(InvalidOption):
        queue.worker(types=[])


def test_two_handlers_of_one_name_are_refused(queue: JobQueue, send: Any) -> None:
    with pytest.raises(InvalidOption, match="two handlers for 'send'"):
        queue.job(name="send")(lambda: None)
    with pytest.raises(InvalidOption, match="handler already"):
        queue.job(send)
    assert queue.handlers == {"send": send}


def test_a_function_that_cannot_be_a_handler_is_refused(queue: JobQueue) -> None:
    def generates() -> Any:
        yield 1

    async def generates_too() -> Any:
        yield 1

    def takes_what_json_cannot_hold(socket: threading.Lock) -> None: ...

    functions: list[Any] = [generates, generates_too, 5, takes_what_json_cannot_hold]
    for function in functions:
        with pytest.raises(InvalidOption):
            queue.job(function)
    with pytest.raises(InvalidOption):
        queue.job(batch_size=5, process=True)(child_handlers.where_in_thread.function)
    with pytest.raises(InvalidOption):
        queue.job(batch_size=5, ordered=True)(child_handlers.where_in_thread.function)
    assert queue.handlers == {}
