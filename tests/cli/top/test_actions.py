"""What the keys do to jobs and types: only after a yes, and never with --readonly."""

from __future__ import annotations

import asyncio

import pytest

from howdah import JobQueue
from howdah.cli.render.progress import short_id
from tests.cli.runner import failed_job
from tests.cli.top.screen import opened
from tests.cli.top.test_screen import running_job


def test_cancel_asks_and_then_cancels(queue: JobQueue) -> None:
    job = queue.enqueue("mail")

    async def act() -> None:
        async with opened(queue) as seen:
            await seen.press("w")
            await seen.until(lambda: len(seen.table("jobs")) == 1, "the job")
            for refusal in ("n", "escape"):
                await seen.press("c")
                await seen.until_seen(f"Cancel mail {short_id(job.id)}?  y/n")
                await seen.press(refusal)
                await seen.until(lambda: seen.status == "not done", "the refusal is shown")
                assert queue.get(job).status == "pending"
            await seen.press("c", "y")
            await seen.until(lambda: "is cancelled" in seen.status, "the outcome")
            assert queue.get(job).status == "cancelled"
            await seen.until(lambda: not seen.table("jobs"), "it waits no more")

    asyncio.run(act())


def test_what_runs_is_asked_to_stop(queue: JobQueue) -> None:
    job = running_job(queue, "mail")

    async def act() -> None:
        async with opened(queue) as seen:
            await seen.press("tab", "c", "y")
            await seen.until(lambda: "is running, and was asked to stop" in seen.status, "the outcome")
            await seen.until(lambda: seen.column("jobs", "state") == ["stopping"], "it is to be seen")
            assert queue.get(job).cancel_requested_at is not None

    asyncio.run(act())


def test_a_failed_job_gets_a_new_life(queue: JobQueue) -> None:
    job = failed_job(queue, "mail", "broken")

    async def act() -> None:
        async with opened(queue) as seen:
            await seen.press("f")
            await seen.until(lambda: len(seen.table("jobs")) == 1, "the failed one")
            await seen.press("r", "y")
            await seen.until(lambda: "is pending again" in seen.status, "the outcome")
            assert queue.get(job).status == "pending"

    asyncio.run(act())


def test_a_retry_that_is_not_possible_shows_the_reason(queue: JobQueue) -> None:
    running_job(queue, "mail")

    async def act() -> None:
        async with opened(queue) as seen:
            await seen.press("tab", "r", "y")
            await seen.until(lambda: "only a job that has ended can be retried" in seen.status, "the reason")

    asyncio.run(act())


def test_pause_really_pauses_and_resumes(queue: JobQueue) -> None:
    queue.enqueue("mail")

    async def act() -> None:
        async with opened(queue) as seen:
            await seen.press("p")
            await seen.until_seen("Pause mail?")
            assert queue.claim(["other"]) == []
            await seen.press("y")
            await seen.until_seen("mail (paused)")
            assert queue.claim(["mail"]) == []
            assert seen.status == "mail is paused"
            await seen.press("p")
            await seen.until_seen("Resume mail?")
            await seen.press("y")
            await seen.until(lambda: seen.status == "mail resumed", "the outcome")
            assert len(queue.claim(["mail"])) == 1

    asyncio.run(act())


def test_the_priority_of_a_waiting_job_can_be_changed_from_its_details(queue: JobQueue) -> None:
    job = queue.enqueue("mail", priority=100)

    async def act() -> None:
        async with opened(queue) as seen:
            await seen.press("w")
            await seen.until(lambda: len(seen.table("jobs")) == 1, "the job")
            await seen.press("enter")
            await seen.until_seen(str(job.id))
            await seen.press("plus")
            await seen.until_seen("from 100 to 110?")
            await seen.press("y")
            await seen.until_seen("has priority 110")
            assert queue.get(job).priority == 110
            await seen.until(lambda: seen.app.screen is not seen.app.board and "110" in seen.text, "the details")
            await seen.press("minus", "y")
            await seen.until_seen("has priority 100")
            assert queue.get(job).priority == 100

    asyncio.run(act())


@pytest.mark.parametrize("keys", [["c"], ["r"], ["p"], ["plus"], ["enter", "c"]])
def test_readonly_refuses_and_changes_nothing(queue: JobQueue, keys: list[str]) -> None:
    job = queue.enqueue("mail")
    before = queue.get(job)

    async def act() -> None:
        async with opened(queue, readonly=True) as seen:
            await seen.until_seen("read-only")
            await seen.press("w")
            await seen.until(lambda: len(seen.table("jobs")) == 1, "the job")
            await seen.press(*keys, "y")
            await seen.until(lambda: "--readonly" in seen.status, "the refusal")

    asyncio.run(act())
    assert queue.get(job) == before
    assert not queue.stats()["mail"].paused


def test_a_key_without_a_job_shows_a_hint(queue: JobQueue) -> None:
    async def act() -> None:
        async with opened(queue) as seen:
            await seen.press("c")
            await seen.until(lambda: "no job is selected" in seen.status, "a hint")
            await seen.press("p")
            await seen.until(lambda: "no type is selected" in seen.status, "a hint")

    asyncio.run(act())


def test_an_action_that_fails_shows_the_error_and_the_screen_stays(queue: JobQueue) -> None:
    queue.enqueue("mail", priority=2**31 - 1)

    async def act() -> None:
        async with opened(queue) as seen:
            await seen.press("w")
            await seen.until(lambda: len(seen.table("jobs")) == 1, "the job")
            await seen.press("plus", "y")
            await seen.until(lambda: seen.status.startswith("not done: priority"), "the error")
            queue.enqueue("mail")
            await seen.until_seen("2 pending")

    asyncio.run(act())
