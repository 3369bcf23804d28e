"""``call`` calls one handler as a worker would, without a database."""

from __future__ import annotations

import asyncio
import uuid
from datetime import datetime, timezone
from typing import Annotated, Any

import pytest

from howdah import InvalidArguments, InvalidOption, InvalidPayload, Job, JobQueue, Resource
from howdah.testing import call

queue = JobQueue("host=nowhere")


@queue.job
def plan(at: datetime, ids: set[uuid.UUID], note: str = "none") -> tuple[datetime, set[uuid.UUID], str]:
    return at, ids, note


@queue.job
async def wait(seconds: float) -> float:
    return seconds


@queue.job(priority=150, max_attempts=7)
def report(job: Job) -> dict[str, Any]:
    job.progress(50, "half")
    job.complete()
    return {"priority": job.priority, "attempts": job.attempts, "of": job.max_attempts, "cancelled": job.cancelled}


@queue.job
def store(text: str, shelf: Annotated[list[str], Resource], name: Annotated[str, Resource("name")]) -> None:
    shelf.append(f"{name}: {text}")


@queue.job(batch_size=10)
def count(jobs: list[Job]) -> None:
    pass


def test_arguments_go_through_json_and_back() -> None:
    now, ids = datetime.now(timezone.utc), {uuid.uuid4(), uuid.uuid4()}
    assert call(plan, at=now, ids=ids) == (now, ids, "none")


def test_arguments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidArguments, match="id"):
        call(plan, at=datetime.now(timezone.utc), id=[])
    with pytest.raises(InvalidArguments, match="at"):
        call(plan, at="soon", ids=[])


def test_an_async_handler_is_awaited() -> None:
    async def main() -> float:
        return await call(wait, seconds=2.5)

    assert asyncio.run(main()) == 2.5


def test_a_handler_with_a_job_parameter_gets_a_stand_in() -> None:
    assert call(report) == {"priority": 150, "attempts": 1, "of": 7, "cancelled": False}


def test_the_stand_in_takes_and_checks_all_updates_of_a_handler() -> None:
    @queue.job
    async def load(rows: list[int], mistake: bool, job: Job) -> Any:
        with job.stage("load", weight=50):
            for row in job.track(rows):
                job.event("row", n=row)
        job.advance(1, total=2)
        await job.acheckpoint({"rows": tuple(rows)})
        if mistake:
            job.event("mistake", what=object())
        await job.acomplete("done")
        return job.resumed

    async def main() -> Any:
        with pytest.raises(InvalidPayload, match=r"event data\.what"):
            await call(load, rows=[], mistake=True)
        return await call(load, rows=[1, 2], mistake=False)

    assert asyncio.run(main()) == {"rows": [1, 2]}, "the last checkpoint, as the next attempt would find it"


def test_resources_are_what_the_test_passes() -> None:
    shelf: list[str] = []
    call(store, {"name": "Ann", "shelf": shelf}, text="hello")
    assert shelf == ["Ann: hello"]


def test_a_batch_handler_is_called_directly() -> None:
    with pytest.raises(InvalidOption, match="list of jobs"):
        call(count)
