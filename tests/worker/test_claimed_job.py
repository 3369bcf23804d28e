"""A claimed job is decoded only as far as it is read, and reading it gives the same values as reading any other job."""

from __future__ import annotations

import copy
import dataclasses
import gc
import json
import pickle
import types
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from howdah import Fixed, InvalidArguments, Job, JobQueue
from howdah.handlers.arguments import Arguments
from howdah.model.claimed_job import ClaimedJob
from tests.worker.in_process import drain

PRIVATE = {"_attempt", "_home"}


def fields(job: Job) -> dict[str, Any]:
    return {field.name: getattr(job, field.name) for field in dataclasses.fields(job)}


def test_a_handlers_job_has_everything_that_the_database_has(queue: JobQueue) -> None:
    seen: list[tuple[Job, Job]] = []

    @queue.job(max_attempts=4)
    async def work(job: Job, n: int) -> None:
        seen.append((job, await queue.aget(job.id)))
        if job.attempts == 1:
            await job.acheckpoint({"at": n})
            raise ValueError("not yet")

    work.using(
        priority=7, key="k", timeout=60, expires_in=3600, retry_policy=Fixed(0), meta={"tag": "x"}, delay=0
    ).enqueue(n=1)
    drain(queue)
    assert [job.attempts for job, _ in seen] == [1, 2]
    for job, shown in seen:
        ours, theirs = fields(job), fields(shown)
        differ = {name for name in ours if ours[name] != theirs[name]} - PRIVATE
        # The view shows neither how long a claim without a registered worker would last, nor a moment of its own.
        assert differ <= {"lease"}, {name: (ours[name], theirs[name]) for name in differ}
    second = seen[1][0]
    assert second.resumed == {"at": 1}
    assert [error.error for error in second.errors] == ["ValueError: not yet"]
    assert second.timeout == timedelta(seconds=60)


def test_an_unread_job_can_be_copied_compared_and_shown(queue: JobQueue) -> None:
    jobs: list[Job] = []

    @queue.job(batch_size=10)
    async def work(batch: list[Job]) -> None:
        for job in batch:
            jobs.append(dataclasses.replace(copy.copy(job), _attempt=None, _home=None))
            assert job == jobs[-1]
            assert repr(job) == repr(jobs[-1])
            assert pickle.loads(pickle.dumps(jobs[-1])) == job
            assert not hasattr(job, "nothing_of_this_name")
            with pytest.raises(AttributeError, match="nothing_of_this_name"):
                job.nothing_of_this_name  # type: ignore[attr-defined]  # noqa: B018

    queue.enqueue_many("work", ({"n": n} for n in range(3)))
    drain(queue)
    assert [job.data for job in jobs] == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_a_job_that_runs_for_long_does_not_keep_the_others_of_its_claim(queue: JobQueue) -> None:
    kept: list[Job] = []

    @queue.job
    async def work(job: Job, text: str) -> None:
        if not kept:
            kept.append(job)

    texts = [f"<{n}>" + "x" * 1000 for n in range(50)]
    queue.enqueue_many("work", ({"text": text} for text in texts))
    drain(queue)
    others = [text for text in texts if text != kept[0].data["text"]]
    gc.collect()
    (job,) = kept
    assert isinstance(job, ClaimedJob)
    reachable = [each for each in _reachable((job._rows, job._row)) if isinstance(each, bytes)]
    assert not [text for text in others if any(text.encode() in each for each in reachable)]


def _reachable(root: object) -> list[object]:
    """What an object holds, by whatever way that does not lead through a module, a class or a frame."""
    seen: dict[int, object] = {}
    pending = [root]
    while pending:
        each = pending.pop()
        if id(each) in seen or isinstance(
            each, type | types.ModuleType | types.FrameType | types.FunctionType | JobQueue
        ):
            continue
        seen[id(each)] = each
        pending.extend(gc.get_referents(each))
    return list(seen.values())


def test_years_that_python_does_not_know_are_no_obstacle(queue: JobQueue, db: Any) -> None:
    seen: list[datetime | None] = []

    @queue.job
    async def work(job: Job) -> None:
        seen.append(job.expires_at)

    queue.enqueue("work")
    db.execute("UPDATE howdah.live SET expires_at = 'infinity', created_at = '0044-03-15 BC'")
    drain(queue)
    assert seen == [datetime.max.replace(tzinfo=timezone.utc)]


def handler(a: int, b: float = 0.5, c: str | None = None, d: list[int] = [], e: dict[str, Any] = {}) -> None:  # noqa: B006
    """Some of everything."""


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.fixed_dictionaries(
        {"a": st.integers() | anything},
        optional={
            "b": st.floats(allow_nan=False) | anything,
            "c": anything,
            "d": anything,
            "e": anything,
            "x": anything,
        },
    )
    | anything
)
def test_arguments_read_from_text_are_those_read_from_values(data: Any) -> None:
    arguments = Arguments(handler)
    text = json.dumps(data)

    def outcome(read: Any) -> Any:
        try:
            return read()
        except InvalidArguments as error:
            return type(error), str(error)

    quick = outcome(lambda: arguments.decode_json(text.encode()))
    slow = outcome(lambda: arguments.decode(json.loads(text)))
    # As text too: 1, 1.0 and True are equal.
    assert (quick, _shown(quick)) == (slow, _shown(slow))


def _shown(outcome: Any) -> str:
    return repr(sorted(outcome.items()) if isinstance(outcome, dict) else outcome)
