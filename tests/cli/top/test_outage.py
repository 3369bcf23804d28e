"""During an outage the screen shows it; afterwards the screen continues by itself."""

from __future__ import annotations

import asyncio
import re
import threading
from unittest import mock

import pytest

from howdah import Job, JobQueue
from howdah.checks.options import JobOrId
from howdah.cli.commands.top.app import Answered
from howdah.cli.commands.top.details import Details
from tests import servers
from tests.cli.top.screen import opened
from tests.conftest import Connect
from tests.worker.durable_server import DurableServer


def test_an_outage_is_shown_and_survived() -> None:
    binaries = servers.find(servers.MAJORS[0])
    if binaries is None:
        pytest.skip(f"PostgreSQL {servers.MAJORS[0]} is not installed here")

    async def look(server: DurableServer, queue: JobQueue) -> None:
        async with opened(queue) as seen:
            await seen.until_seen("1 pending")
            await asyncio.to_thread(server.halt, "immediate")
            await seen.until(lambda: "no answer" in seen.remarks, "the outage is shown")
            assert re.search(r"no answer since \d\d:\d\d:\d\d, trying again", seen.text)
            assert "1 pending" in seen.text
            await seen.press("p", "y")
            await seen.until(lambda: seen.status.startswith("not done: the database cannot be reached"), "the error")
            await asyncio.to_thread(server.start)
            await seen.until(lambda: "no answer" not in seen.remarks, "it is back")
            with JobQueue(server.dsn) as other:
                other.enqueue("mail")
            await seen.until_seen("2 pending")

    with DurableServer(binaries) as server, JobQueue(server.dsn, timeout=1) as queue:
        queue.migrate()
        queue.enqueue("mail")
        asyncio.run(look(server, queue))


def test_a_database_that_does_not_answer_is_shown_and_does_not_block_the_screen(
    queue: JobQueue, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("howdah.cli.commands.top.app._SLOW", 0.5)
    blocker = connect(autocommit=False)

    async def look() -> None:
        async with opened(queue) as seen:
            blocker.execute("LOCK TABLE howdah.workers IN ACCESS EXCLUSIVE MODE")
            await seen.until(lambda: "no answer since" in seen.remarks, "the outage is shown")
            await seen.press("question_mark")
            await seen.until_seen("sort by the next column")
            await seen.press("escape")
            blocker.rollback()
            queue.enqueue("mail")
            await seen.until_seen("1 pending")
            assert "no answer" not in seen.remarks

    asyncio.run(look())


def test_quitting_does_not_wait_for_an_answer(queue: JobQueue, connect: Connect) -> None:
    blocker = connect(autocommit=False)

    async def look() -> None:
        async with opened(queue) as seen:
            blocker.execute("LOCK TABLE howdah.workers IN ACCESS EXCLUSIVE MODE")
            await seen.until(lambda: seen.app._asked_at is not None, "a question is open")
            await seen.press("q")
            assert seen.app.return_value == 0

    asyncio.run(look())
    blocker.rollback()


def test_what_comes_as_it_ends_does_nothing(queue: JobQueue) -> None:
    async def look() -> None:
        async with opened(queue) as seen:
            await seen.press("q")
        # The screens are gone; a timer and an answer may still be on their way.
        seen.app._tick()
        seen.app._answered(Answered(seen.app._answered_now))

    asyncio.run(look())


def test_details_that_were_closed_before_the_answer_came_do_no_harm(queue: JobQueue, connect: Connect) -> None:
    blocker = connect(autocommit=False)
    queue.enqueue("mail")

    async def look() -> None:
        async with opened(queue) as seen:
            await seen.press("w")
            await seen.until(lambda: len(seen.table("jobs")) == 1, "the job")
            blocker.execute("LOCK TABLE howdah.events IN ACCESS EXCLUSIVE MODE")
            await seen.press("enter")
            await seen.until(lambda: seen.app._asked_at is not None, "its details are asked for")
            await seen.press("escape")
            await seen.until_seen("types")
            blocker.rollback()
            queue.enqueue("mail")
            await seen.until_seen("2 pending")

    asyncio.run(look())


def test_a_job_that_is_gone_closes_no_other_jobs_details(queue: JobQueue, connect: Connect) -> None:
    kept = queue.enqueue("mail")
    gone = queue.enqueue("mail")
    asked, answer = threading.Event(), threading.Event()

    def get(job: JobOrId) -> Job:
        if job == gone.id:
            asked.set()
            answer.wait()
        return JobQueue.get(queue, job)

    async def look() -> None:
        async with opened(queue) as seen:
            await seen.press("w")
            await seen.until(lambda: len(seen.table("jobs")) == 2, "both jobs")
            await seen.press("enter")
            await seen.until(asked.is_set, "the details of one are asked for")
            assert isinstance(seen.app.screen, Details)
            assert seen.app.screen.job.id == gone.id
            await seen.press("escape", "down", "enter")
            connect().execute("DELETE FROM live WHERE id = %s", (gone.id,))
            answer.set()
            await seen.until_seen(str(kept.id), "no live worker handles this type")
            assert "there is no job" not in seen.status
            assert "no answer" not in seen.remarks

    with mock.patch.object(queue, "get", get):
        try:
            asyncio.run(look())
        finally:
            answer.set()


def test_a_job_that_is_gone_closes_its_details(queue: JobQueue, connect: Connect) -> None:
    job = queue.enqueue("mail")

    async def look() -> None:
        async with opened(queue) as seen:
            await seen.press("w")
            await seen.until(lambda: len(seen.table("jobs")) == 1, "the job")
            await seen.press("enter")
            await seen.until_seen(str(job.id))
            connect().execute("DELETE FROM live")
            await seen.until(lambda: seen.app.screen is seen.app.board, "back among the others")
            assert "there is no job" in seen.status

    asyncio.run(look())
