"""The answers of all verbs to one caller, in a transaction that is rolled back: equal where the answers are."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from howdah import JobNotFound, JobQueue, Unique
from tests.drivers.callers import Caller
from tests.odd_settings import ODD

FIRST, SECOND = uuid.UUID(int=1 << 100), uuid.UUID(int=2 << 100)
DIFFERS = ("token", "lease_until", "_home", "_run")
"""By numbers of a sequence, and by the clock of leases, which no test stops."""

LATE = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc)


def transcript(caller: Caller, queue: JobQueue, text: str) -> list[Any]:
    caller.begin()
    try:
        for name, value in ODD.items():
            caller.execute(f"SET {name} = '{value}'" if name != "search_path" else f"SET {name} = {value}")
        return [_comparable(answer) for answer in _answers(caller, queue, text)]
    finally:
        caller.rollback()


def _comparable(answer: Any) -> Any:
    """An answer, without what differs from call to call."""
    if isinstance(answer, uuid.UUID):
        return answer if answer in (FIRST, SECOND) else "made"
    if dataclasses.is_dataclass(answer):
        fields = (each.name for each in dataclasses.fields(answer) if each.name not in DIFFERS)
        return type(answer), {name: _comparable(getattr(answer, name)) for name in fields}
    if isinstance(answer, Sequence) and not isinstance(answer, str):
        return type(answer), [_comparable(each) for each in answer]
    if isinstance(answer, Mapping):
        return type(answer), {name: _comparable(each) for name, each in answer.items()}
    return type(answer), answer, getattr(answer, "groups", None), getattr(answer, "conflicts", None)


def _answers(caller: Caller, queue: JobQueue, text: str) -> Any:
    def call(name: str, *args: Any, **options: Any) -> Any:
        group, _, verb = name.rpartition(".")
        return caller.call(getattr(queue, group) if group else queue, verb, *args, **options)

    def select(name: str, *args: Any, **filters: Any) -> Any:
        return caller.call(queue.select(**filters), name, *args)

    data = {"text": text, "lines": f"\t{text}\n\u2028", text: [1.5, None, True, 10**30, {"deep": [[text]]}]}
    yield call("enqueue", "mail", data, id=FIRST, key=text, meta={text: 1}, timeout=1.25, expires_in=3600, per=text)
    yield call("enqueue", "mail", text, key=text)
    yield call(
        "enqueue", "late", text, id=SECOND, run_at=LATE, priority=-5, retry_policy={"kind": "fixed", "delay": 2.5}
    )
    yield call("enqueue", "once", {"a": text}, unique=Unique(by=["a"]))
    yield call("enqueue", "once", {"a": text}, unique=Unique(by=["a"]))
    yield call(
        "enqueue_many",
        "bulk",
        [data, text, None, 5],
        key=lambda item: str(item)[:40],
        per=lambda item: str(item)[:9],
        cost=2,
    )
    yield call("enqueue_many", "bulk", [text] * 3, unique=True)
    yield call("list", per=text)
    yield call(
        "list",
        data={"text": text},
        job_type=["mail", "late"],
        status=["pending"],
        since=datetime(2000, 1, 1, tzinfo=timezone.utc),
    )
    yield call("queue_position", FIRST)
    (job,) = call("claim", ["mail"], 5, text, lease=90.5)
    yield job
    yield call("start", job)
    yield call("progress", job, 12.5, text, done=1.5, total=12)
    yield call("event", job, text, data)
    yield call("checkpoint", job, data)
    yield call("get", job)
    yield call("fail", job, ValueError(text), delay=2.25)
    yield call("reschedule", job)
    (job,) = call("claim", ["mail"], 1, text)
    yield job
    yield call("start", job)
    yield call("snooze", job, delay=0)
    (job,) = call("claim", ["mail"], 1, text)
    yield call("release", job)
    (job,) = call("claim", ["mail"], 1, text)
    yield call("start", job)
    yield call("complete", job, data)
    yield call("get", job)
    yield call("events", job)
    yield call("events", job, last=2, kinds=["event", "status"])
    yield call("retry", job)
    yield call("reprioritise", job, 7)
    yield call("cancel", job, text)
    yield select("count", per=text, older_than=0)
    yield select("retry", key=text, status="cancelled")
    yield select("cancel", text, job_type="bulk")
    yield select("reprioritise", 3, status="pending", older_than=timedelta(0))
    yield select("delete", error=text)
    yield call("pause", "mail", text), call("pause", "mail", per=text)
    yield call("limits.set", 3, job_type="mail", per=text), call("limits.set_rate", "7/min", group=text)
    yield call("limits.set_weight", "mail", text, 3), call("limits.set_max_pending", "mail", 9, when_full="wait")
    yield call("limits.list"), call("stats"), call("workers")
    yield call("resume", "mail"), call("resume", "mail", per=text)
    yield call("schedules.set", text, "mail", data, cron="30 6 * * MON-FRI", timezone="Europe/Berlin", timeout=2.5)
    yield call("schedules.set", "every", "mail", every=timedelta(days=400, seconds=1.5))
    yield call("schedules.list"), call("schedules.get", text)
    yield call("schedules.pause", text), call("schedules.resume", text), call("schedules.run", text)
    yield call("schedules.delete", text), call("delete", SECOND)
    yield call("recover"), call("recover_stale_jobs", 3600), call("prune", 3600)
    yield isinstance(call("stream_position"), str)
    try:
        call("get", uuid.UUID(int=5))
    except JobNotFound as error:
        yield str(error)
