"""Each verb in two forms that do the same."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

import psycopg
import pytest

from howdah import JobNotFound, JobQueue, LeaseLost, Limits, Schedules, Workflows
from tests.clock import TestClock

TWINS = {"wait_for": "await_for"}
# They send nothing to the database.
NO_VERBS = {"close", "aclose", "connect_to", "job", "middleware", "periodic", "select", "worker", "workflow"}
STREAMS = {"watch": "awatch", "watch_all": "awatch_all"}
SCHEMA_VERBS = {"migrate", "check_schema", "doctor"}
# They last longer than one transaction.
PATIENT_VERBS = {"wait_for"}
GROUPS: dict[str, type] = {"schedules": Schedules, "limits": Limits, "workflows": Workflows}
"""Their verbs go by both names: schedules.set."""
VERBS = sorted(
    name if group is None else f"{group}.{name}"
    for group, kind in [(None, JobQueue), *GROUPS.items()]
    for name, value in vars(kind).items()
    if callable(value)
    and not name.startswith("_")
    and name not in {*NO_VERBS, *STREAMS, *STREAMS.values()}
    and not inspect.iscoroutinefunction(value)
)
JOB_VERBS = sorted(set(VERBS) - SCHEMA_VERBS - PATIENT_VERBS)


def twin(name: str) -> str:
    group, dot, plain = name.rpartition(".")
    return f"{group}{dot}{TWINS.get(plain, f'a{plain}')}"


def verb(name: str) -> Any:
    group, _, own = name.rpartition(".")
    return getattr(GROUPS[group] if group else JobQueue, own)


def parameters(function: Callable[..., Any]) -> list[tuple[str, Any, Any, Any]]:
    # All but the first, which is self.
    return [(p.name, p.kind, p.default, p.annotation) for p in inspect.signature(function).parameters.values()][1:]


def test_a_queue_makes_each_group_of_verbs_once_and_it_follows_connect_to(dsn: str) -> None:
    groups = {name for name, value in vars(JobQueue).items() if isinstance(value, functools.cached_property)}
    assert groups == set(GROUPS)
    with JobQueue("host=/nowhere") as queue:
        schedules = queue.schedules
        queue.connect_to(dsn)
        assert schedules is queue.schedules
        assert schedules.list() == []


def test_the_verbs_are_those_of_the_design() -> None:
    assert set(VERBS) >= {
        "enqueue", "enqueue_many", "get", "list", "cancel", "retry", "stats", "wait_for", "claim", "start", "progress",
        "complete", "fail", "release", "snooze", "recover", "recover_stale_jobs", "prune", "pause", "resume",
        "reschedule", "reprioritise", "delete", "migrate", "event", "events", "checkpoint", "queue_position", "stream_position",
    }  # fmt: skip


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_an_awaited_twin_with_the_same_signature_and_docstring(name: str) -> None:
    plain, awaited = verb(name), verb(twin(name))
    assert inspect.iscoroutinefunction(awaited)
    assert parameters(plain) == parameters(awaited)
    assert inspect.getdoc(plain) == inspect.getdoc(awaited)
    assert inspect.getdoc(plain)


@pytest.mark.parametrize(("plain", "awaited"), STREAMS.items())
def test_every_stream_has_an_awaited_twin(plain: str, awaited: str) -> None:
    assert parameters(getattr(JobQueue, plain)) == parameters(getattr(JobQueue, awaited))
    assert inspect.getdoc(getattr(JobQueue, plain)) == inspect.getdoc(getattr(JobQueue, awaited))


@pytest.mark.parametrize("name", JOB_VERBS)
def test_every_verb_takes_a_connection_of_the_callers(name: str) -> None:
    for each in (name, twin(name)):
        conn = inspect.signature(verb(each)).parameters.get("conn")
        assert conn is not None, f"{name} takes no conn=: its plan needs the parameter, see CONTRIBUTING.md"
        assert (conn.kind, conn.default) == (inspect.Parameter.KEYWORD_ONLY, None)


def test_the_help_of_a_verb_is_that_of_a_method() -> None:
    strange: list[str] = []
    for name in JOB_VERBS:
        for each in (name, twin(name)):
            signature, called = inspect.signature(verb(each)), verb(each).__name__
            if next(iter(signature.parameters)) != "self" or "Plan" in str(signature) or not each.endswith(called):
                strange.append(f"{called}{signature}")
    assert strange == []


Do = Callable[..., Any]


@pytest.fixture(params=["plain", "awaited", "plain with conn", "awaited with conn"])
def do(request: pytest.FixtureRequest, dsn: str) -> Iterator[Do]:
    """Runs a verb by its plain name, in one of the forms."""
    with_conn = request.param.endswith("conn")
    if request.param.startswith("plain"):
        with JobQueue(dsn, worker_id="me") as queue, psycopg.connect(dsn, autocommit=True) as conn:
            extra = {"conn": conn} if with_conn else {}

            def call(name: str, *args: Any, **kwargs: Any) -> Any:
                return attrgetter(name)(queue)(*args, **({} if name in PATIENT_VERBS else extra), **kwargs)

            yield call
        return
    with asyncio.Runner() as runner:
        queue = JobQueue(dsn, worker_id="me")
        aconn = runner.run(_connected(dsn))
        aextra = {"conn": aconn} if with_conn else {}

        async def run(name: str, *args: Any, **kwargs: Any) -> Any:
            given = {} if name in PATIENT_VERBS else aextra
            return await attrgetter(twin(name))(queue)(*args, **given, **kwargs)

        yield lambda *args, **kwargs: runner.run(run(*args, **kwargs))
        runner.run(aconn.close())
        runner.run(queue.aclose())


async def _connected(dsn: str) -> psycopg.AsyncConnection[Any]:
    return await psycopg.AsyncConnection.connect(dsn, autocommit=True)


def test_both_forms_do_the_same(do: Do, clock: TestClock) -> None:
    job = do("enqueue", "mail", {"n": 0}, key="k", retry_policy={"kind": "fixed", "delay": 30})
    assert do("get", job) == job
    assert do("enqueue", "mail", key="k").created is False
    assert do("enqueue_many", "mail", [{"n": 1}, {"n": 2}, {"n": 3}], return_ids=True).ids is not None
    assert [each.data["n"] for each in do("list", job_type="mail", data={"n": 2})] == [2]
    assert do("reprioritise", job, 500) is True
    assert do("reschedule", job, delay=10) is True
    clock.advance(10)
    assert do("pause", "mail", "for lunch") is True
    assert do("claim", ["mail"]) == []
    assert do("resume", "mail") is True

    claimed = do("claim", ["mail"], 4)
    assert [(each.data["n"], each.worker_id) for each in claimed] == [(0, "me"), (1, "me"), (2, "me"), (3, "me")]
    for each in claimed[:3]:
        assert do("start", each) is None
    assert do("progress", claimed[0], 30, "packing") is None
    assert do("progress", claimed[0], done=1, total=8) is None
    assert do("event", claimed[0], "packed", {"box": 7}) == 1
    assert do("event", claimed[0], "sealed") == 2
    assert [(each.seq, each.name, each.data) for each in do("events", job)] == [
        (1, "packed", {"box": 7}),
        (2, "sealed", None),
    ]
    assert [each.seq for each in do("events", job, after=1, kinds=["event"])] == [2]
    assert [each.seq for each in do("events", job, last=1)] == [2]
    assert do("checkpoint", claimed[0], {"at": 5}) is None
    kept = do("get", job)
    assert (kept.percent, kept.record.percent, kept.record.done, kept.resumed) == (12, 12.5, 1, {"at": 5})
    assert do("queue_position", claimed[0]) is None
    assert do("stream_position")
    assert do("fail", claimed[0], ValueError("no")) == "pending"
    assert do("complete", claimed[1], {"sent": True}) is None
    assert do("snooze", claimed[2], delay=60) is None
    assert do("release", claimed[3]) is None
    assert do("queue_position", claimed[3]).ahead == 0
    for verb in ("start", "progress", "complete", "snooze", "release"):
        with pytest.raises(LeaseLost):
            do(verb, claimed[3])
    for verb in ("fail", "event", "checkpoint"):
        with pytest.raises(LeaseLost):
            do(verb, claimed[3], "no")

    assert do("wait_for", claimed[1], timeout=5).result == {"sent": True}
    assert do("cancel", claimed[3], "enough") is True
    assert do("retry", claimed[3]) is True
    assert do("cancel", claimed[3]) is True
    assert do("claim", ["mail"]) == []
    assert do("recover") == []
    for verb in ("get", "events", "queue_position", "wait_for"):
        with pytest.raises(JobNotFound):
            do(verb, "0198a000-0000-7000-8000-000000000000")

    stats = do("stats")["mail"]
    assert (stats.completed, stats.cancelled, stats.failed) == (1, 1, 0)
    assert do("prune") == []


def test_both_forms_recover_alike(do: Do, clock: TestClock) -> None:
    do("enqueue", "mail")
    do("claim", ["mail"])
    assert do("recover_stale_jobs", 60) == 0
    clock.advance(61)
    assert do("recover_stale_jobs", 60) == 1
    assert do("list")[0].errors[0].kind == "lease passed"
