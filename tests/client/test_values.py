"""``job.value()``: what a handler returned, typed by its annotation; and what it raises where there is nothing."""

from __future__ import annotations

import copy
import dataclasses
import enum
import json
import pickle
import subprocess
import sys
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import msgspec
import psycopg
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howdah import (
    Cancel,
    InvalidArguments,
    InvalidItem,
    InvalidOption,
    InvalidPayload,
    Job,
    JobCancelled,
    JobFailed,
    JobQueue,
    NotEnded,
    NotSuccessful,
    Snooze,
    json_default,
)
from howdah.checks.context import Context
from howdah.checks.values import stored_json
from howdah.encryption import EncryptedCodec, new_key
from howdah.handlers.arguments import Result
from howdah.model.codec import PLAIN
from howdah.testing import drain
from tests.properties.test_arguments import Typed, typed_values

if TYPE_CHECKING:
    from elsewhere import OnlyForTypeCheckers  # type: ignore[import-not-found]


class Colour(enum.Enum):
    RED = "red"


class Invoice(pydantic.BaseModel):
    number: int
    due: datetime
    total: Decimal


class Pair(NamedTuple):
    left: int
    right: str


class Choice(TypedDict):
    colour: Colour


class Flat(msgspec.Struct):
    a: int


@dataclasses.dataclass
class Parcel:
    id: uuid.UUID
    sent: datetime | None
    colours: set[Colour]
    weight: timedelta = timedelta(0)


NOON = datetime(2026, 1, 2, 12, tzinfo=timezone.utc)
PARCEL = Parcel(uuid.UUID(int=7), NOON, {Colour.RED}, timedelta(seconds=1.5))
INVOICE = Invoice(number=1, due=NOON, total=Decimal("1.10"))


def run(queue: JobQueue, handler: Any, **arguments: Any) -> Job[Any]:
    job = handler.enqueue(**arguments)
    drain(queue)
    return queue.get(job)


# What was returned


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, 5),
        (None, None),
        (Parcel, PARCEL),
        (Invoice, INVOICE),
        (list[Invoice], [INVOICE, INVOICE]),
        (dict[Colour, tuple[int, datetime]], {Colour.RED: (1, NOON)}),
        (Pair, Pair(1, "b")),
        (Choice, Choice(colour=Colour.RED)),
        (Flat | None, Flat(3)),
        (Flat | None, None),
        (bytes, b"\x00\xff"),
        (int | Snooze, 5),
        (frozenset[int], frozenset([1, 2])),
        (Any, {"a": [1]}),
        (list[Any], [1, {"a": None}]),
    ],
    ids=repr,
)
@pytest.mark.parametrize("kind", ["async", "thread"])
def test_a_result_comes_back_as_the_annotated_type(queue: JobQueue, kind: str, annotation: Any, value: Any) -> None:
    async def on_the_loop() -> Any:
        return value

    def in_a_thread() -> Any:
        return value

    function: Any = on_the_loop if kind == "async" else in_a_thread
    function.__annotations__["return"] = annotation
    found = run(queue, queue.job(function)).value()
    assert found == value
    assert type(found) is type(value)


def test_what_a_child_process_returns_comes_back_too(dsn: str, tmp_path: Path) -> None:
    tmp_path.joinpath("own_handlers.py").write_text(
        "import datetime, pydantic, sys\n"
        "from howdah import JobQueue\n"
        "from howdah.testing import drain\n"
        "queue = JobQueue(sys.argv[1] if __name__ != '__mp_main__' else None)\n"
        "class Invoice(pydantic.BaseModel):\n"
        "    due: datetime.datetime\n"
        "    total: int\n"
        "@queue.job(process=True)\n"
        "def bill() -> list[Invoice]:\n"
        "    return [Invoice(due=datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc), total=3)]\n",
        encoding="utf-8",
    )
    program = (
        "import own_handlers\nfrom own_handlers import *\n"
        "if __name__ == '__main__':\n"
        "    job = bill.enqueue()\n"
        "    drain(queue)\n"
        "    (invoice,) = job.wait_for(60).value()\n"
        "    print(type(invoice) is Invoice, invoice.due.isoformat(), invoice.total)\n"
        "    queue.close()\n"
    )
    tmp_path.joinpath("main.py").write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "main.py", dsn], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stderr == ""
    assert done.stdout == "True 2026-01-02T00:00:00+00:00 3\n"


def test_where_the_handler_is_not_known_a_value_is_what_was_stored(dsn: str, queue: JobQueue) -> None:
    @queue.job
    def send() -> Parcel:
        return PARCEL

    job = run(queue, send)
    with JobQueue(dsn) as elsewhere:
        assert elsewhere.get(job).value() == {
            "id": str(PARCEL.id), "sent": "2026-01-02T12:00:00Z", "colours": ["red"], "weight": "PT1.5S",
        }  # fmt: skip


def test_an_annotation_that_json_cannot_become_is_no_hindrance(queue: JobQueue) -> None:
    @queue.job
    def paths() -> list[Path]:
        return ["a"]  # type: ignore[list-item]

    @queue.job
    def unknown() -> OnlyForTypeCheckers:
        return {"a": 1}

    @queue.job
    def nothing_said():  # type: ignore[no-untyped-def]
        return [1, 2]

    @queue.job
    def none_at_all() -> None:
        return None

    @queue.job(batch_size=2)
    def many(jobs: list[Job]) -> list[int]:
        return [1 for _ in jobs]

    assert [run(queue, each).value() for each in (paths, unknown, nothing_said, none_at_all, many)] == [
        ["a"], {"a": 1}, [1, 2], None, 1,
    ]  # fmt: skip


def test_the_error_of_a_result_that_does_not_fit_omits_its_value(queue: JobQueue) -> None:
    @queue.job
    def send() -> Parcel:
        return PARCEL

    job = send.enqueue()
    queue.complete(queue.claim(["send"])[0], {"id": "hunter2"})
    with pytest.raises(InvalidArguments, match="send: the result does not fit its annotation") as caught:
        queue.get(job).value()
    assert caught.value.field == "return"
    assert "hunter2" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_result_that_no_json_can_hold_fails_its_job_with_its_place(queue: JobQueue) -> None:
    @queue.job
    def send() -> Any:
        return {"a": [1, object()]}

    job = run(queue, send)
    assert job.status == "failed"
    assert "result.a[1] is an object" in (job.last_error or "")


def test_complete_takes_what_the_handler_would_return(queue: JobQueue) -> None:
    @queue.job
    def bill() -> list[Invoice]:
        return []

    @queue.job
    def bill_in_a_transaction(job: Job) -> list[Invoice]:
        with psycopg.connect(queue.dsn) as conn:
            job.complete([INVOICE], conn=conn)
        return []

    job = bill.enqueue()
    queue.complete(queue.claim(["bill"])[0], [INVOICE])
    assert queue.get(job).result == [{"number": 1, "due": "2026-01-02T12:00:00Z", "total": "1.10"}]
    assert queue.get(job).value() == run(queue, bill_in_a_transaction).value() == [INVOICE]


def test_values_without_an_annotation_must_be_json(queue: JobQueue) -> None:
    @queue.job
    def any_thing() -> Any:
        return {1, 2}

    assert "result is a set, which is not JSON" in (run(queue, any_thing).last_error or "")


UNTYPED: dict[str, Any] = {
    "at": datetime(2026, 1, 2, 12, tzinfo=timezone.utc),
    "total": Decimal("1.10"),
    "id": uuid.UUID(int=7),
    "tags": {"b", "a"},
    "wait": timedelta(seconds=90),
    "nested": [{"bill": INVOICE}],
}
CONVERTED = {
    "at": "2026-01-02T12:00:00Z",
    "total": "1.10",
    "id": str(uuid.UUID(int=7)),
    "tags": ["a", "b"],
    "wait": "PT90S",
    "nested": [{"bill": {"number": 1, "due": "2026-01-02T12:00:00Z", "total": "1.10"}}],
}


@pytest.mark.parametrize("codec", [None, EncryptedCodec(new_key())], ids=["plain", "encrypted"])
def test_json_default_converts_what_json_does_not_have_wherever_it_is_stored(dsn: str, codec: Any) -> None:
    queue = JobQueue(dsn, codec=codec, json_default=json_default)

    @queue.job
    def any_thing(job: Job, **arguments: Any) -> Any:
        job.event("seen", **UNTYPED)
        job.checkpoint(UNTYPED)
        return UNTYPED

    @queue.job(per="id", unique=True)
    def one_of_a_kind(**arguments: Any) -> None: ...

    job = any_thing.enqueue(**UNTYPED)
    assert job.data == queue.get(job).data == CONVERTED
    done = run(queue, any_thing)
    assert (done.result, done.resumed) == (CONVERTED, CONVERTED)
    assert [event.data for event in queue.events(done) if event.name == "seen"] == [CONVERTED]
    # Also where data has another use: as a flow key, and to find a job like it.
    assert queue.enqueue("one_of_a_kind", UNTYPED).flow_key in (None, str(uuid.UUID(int=7)))
    assert not queue.enqueue("one_of_a_kind", UNTYPED).created
    assert queue.enqueue_many("one_of_a_kind", [UNTYPED, {**UNTYPED, "id": uuid.UUID(int=8)}]) == 1
    assert queue.enqueue_many("other", [UNTYPED], key=lambda item: f"{item['at']:%Y}") == 1
    schedule = queue.schedules.set("nightly", "other", UNTYPED, cron="@daily")
    assert schedule.data == CONVERTED
    queue.close()


def test_without_json_default_the_error_names_it_and_with_it_the_place_of_what_it_refuses(dsn: str) -> None:
    with JobQueue(dsn) as queue:
        with pytest.raises(
            InvalidPayload, match=r"data\.at is a datetime, which is not JSON.* or set JobQueue\(json_default=…\)"
        ):
            queue.enqueue("mail", {"at": UNTYPED["at"]})
        with pytest.raises(InvalidOption, match="json_default is a function"):
            JobQueue(dsn, json_default="iso")  # type: ignore[arg-type]
    with JobQueue(dsn, json_default=json_default) as queue:
        refused = {
            r"data\.a\[1\]\.b is an object, which is not JSON, and json_default raised TypeError": {
                "a": [UNTYPED["at"], {"b": object()}]
            },
            r"data\.n is nan": {"at": UNTYPED["at"], "n": float("nan")},
        }
        for words, value in refused.items():
            with pytest.raises(InvalidPayload, match=words):
                queue.enqueue("mail", value)
        with pytest.raises(InvalidItem, match=r"item 1: item 1\.b is an object"):
            queue.enqueue_many("mail", [{}, {"b": object()}])


CONTEXT = Context(codec=PLAIN, max_payload_bytes=10**7, worker_id="me", known={})


@settings(max_examples=300)
@given(st.data(), typed_values)
def test_whatever_the_annotation_what_fits_it_comes_back_equal(data: st.DataObject, typed: Typed) -> None:
    def handler() -> None: ...

    handler.__annotations__["return"] = typed.annotation
    value = data.draw(typed.values)
    try:
        stored = json.loads(stored_json(CONTEXT, Result(handler).encode(value), "result").obj)
    except InvalidPayload:  # a NUL, which PostgreSQL does not have
        return
    if value is not None:
        assert Result(handler).decode(stored) == value


# What was not


def test_a_failed_job_raises_with_the_workers_traceback(queue: JobQueue) -> None:
    @queue.job(max_attempts=2)
    def send() -> int:
        raise LookupError("no such address")

    job = send.using(retry_policy={"kind": "none"}).enqueue()
    drain(queue)
    with pytest.raises(JobFailed) as caught:
        queue.get(job).value()
    error = caught.value
    assert str(error) == f"send {job.id} failed after 2 attempts: LookupError: no such address"
    assert (error.error, error.kind, error.job.id) == ("LookupError: no such address", "failed", job.id)
    assert 'raise LookupError("no such address")' in (error.remote_traceback or "")
    (note,) = error.__notes__
    assert note.startswith("Traceback of the worker:\nTraceback (most recent call last):")
    assert note.endswith("LookupError: no such address")


def test_a_failure_without_a_traceback_has_no_note(queue: JobQueue) -> None:
    job = queue.enqueue("mail")
    queue.fail(queue.claim(["mail"])[0], "no", give_up=True)
    with pytest.raises(JobFailed, match=r"failed after 1 attempt: no$") as caught:
        queue.get(job).value()
    assert not hasattr(caught.value, "__notes__")


def test_a_cancelled_job_and_one_that_has_not_ended_raise_what_they_are(queue: JobQueue) -> None:
    @queue.job
    def never() -> None:
        raise Cancel("not wanted")

    with pytest.raises(JobCancelled, match=r"^never .* was cancelled: not wanted$"):
        run(queue, never).value()
    job = queue.enqueue("mail")
    with pytest.raises(NotEnded, match=r"^mail .* was pending when it was read") as caught:
        job.value()
    assert isinstance(caught.value, NotSuccessful)
    assert caught.value.job is job


@pytest.mark.parametrize(
    "way", [copy.copy, copy.deepcopy, lambda job: pickle.loads(pickle.dumps(job))], ids=["copy", "deepcopy", "pickle"]
)
def test_a_job_can_be_copied_and_sent(queue: JobQueue, way: Callable[[Job], Job]) -> None:
    job = queue.enqueue("mail", {"a": 1})
    assert way(job) == job
    assert dataclasses.asdict(job)["data"] == {"a": 1}
    with pytest.raises(NotEnded) as caught:
        job.value()
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.job) == (str(caught.value), job)


# As type checkers see it

TYPING = """
from typing import assert_type, Any
import psycopg
from howdah import Connection, Job, JobQueue
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session, scoped_session

queue = JobQueue("")

def takes(job: Job, conn: psycopg.Connection, session: Session, scoped: scoped_session[Session], of_any_library: Any) -> None:
    queue.enqueue("mail", conn=conn)
    queue.enqueue("mail", conn=session)
    queue.enqueue("mail", conn=scoped)
    queue.enqueue("mail", conn=of_any_library)
    queue.enqueue("mail", conn="default")
    job.complete(conn=session)
    mine: Connection = session
    queue.enqueue("mail", conn=5)

async def takes_awaited(job: Job, conn: psycopg.AsyncConnection, session: AsyncSession, other: AsyncConnection) -> None:
    await queue.aenqueue("mail", conn=conn)
    await queue.aenqueue("mail", conn=other)
    await queue.aenqueue("mail", conn=session)
    await job.acheckpoint(1, conn=session)

@queue.job
async def on_the_loop(n: int) -> list[str]:
    return []

@queue.job(priority=5)
def in_a_thread(n: int) -> int:
    return n

async def main() -> None:
    assert_type(on_the_loop.enqueue(n=1), Job[list[str]])
    assert_type(in_a_thread.enqueue(n=1), Job[int])
    assert_type(await on_the_loop.aenqueue(n=1), Job[list[str]])
    assert_type(await in_a_thread.aenqueue(n=1), Job[int])
    assert_type(in_a_thread.using(delay=5).enqueue(n=1), Job[int])
    assert_type(await on_the_loop.using(delay=5).aenqueue(n=1), Job[list[str]])
    assert_type(in_a_thread.enqueue(n=1).value(), int)
    assert_type(in_a_thread.enqueue(n=1).wait_for(5).value(), int)
    assert_type((await on_the_loop.enqueue(n=1).await_for()).value(), list[str])
    assert_type(queue.wait_for(in_a_thread.enqueue(n=1)), Job[int])
    assert_type(queue.wait_for([in_a_thread.enqueue(n=1)]), list[Job[int]])
    assert_type((await queue.await_for([on_the_loop.enqueue(n=1)]))[0].value(), list[str])
    assert_type(queue.wait_for("0198a000-0000-7000-8000-000000000000"), Job[Any])
    assert_type(queue.wait_for(["0198a000-0000-7000-8000-000000000000"]), list[Job[Any]])
    assert_type(queue.enqueue("mail").value(), Any)
    for update in queue.watch(in_a_thread.enqueue(n=1)):
        assert_type(update.position, str)
    async for update in queue.awatch_all():
        assert_type(update.job, Job[Any] | None)
    on_the_loop.enqueue(n=1).value().append(5)
"""


def test_a_type_checker_infers_the_type_of_a_value_and_of_conn(tmp_path: Path) -> None:
    snippet = tmp_path / "snippet.py"
    snippet.write_text(TYPING, encoding="utf-8")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(snippet)],
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line for line in checked.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 2, checked.stdout + checked.stderr
    assert 'Argument "conn" has incompatible type "int"' in errors[0]
    assert 'has incompatible type "int"; expected "str"' in errors[1]
