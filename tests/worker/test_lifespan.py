"""The lifespan: what a worker opens once, and handlers get by type or by name."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from howdah import InvalidArguments, InvalidOption, Job, JobQueue, resource
from howdah.worker import lifespan as lifespans
from tests.worker import child_handlers
from tests.worker.in_process import drain, run, until, working


class Pool:
    def __init__(self, name: str = "main") -> None:
        self.name = name
        self.open = True


class OtherPool(Pool): ...


Story = list[str]


class Lived:
    """A lifespan that records what happened to it."""

    def __init__(self, resources: Callable[[], dict[str | type, Any] | None]) -> None:
        self.story: Story = []
        self._resources = resources

    @contextlib.asynccontextmanager
    async def __call__(self, queue: JobQueue) -> AsyncIterator[dict[str | type, Any] | None]:
        self.story.append("opened")
        try:
            yield self._resources()
        finally:
            self.story.append("closed")


@pytest.fixture
def lived() -> Lived:
    return Lived(lambda: {"main": Pool(), OtherPool: OtherPool("other"), "limit": 5})


@pytest.fixture
def queue(dsn: str, lived: Lived) -> Iterator[JobQueue]:
    with JobQueue(dsn, lifespan=lived) as queue:
        yield queue


def test_it_is_entered_once_with_the_queue_and_left_when_every_job_has_ended(queue: JobQueue, lived: Lived) -> None:
    @queue.job
    async def work(pool: OtherPool = resource()) -> None:
        await asyncio.sleep(0)
        lived.story.append("job")

    for _ in range(5):
        work.enqueue()
    drain(queue, concurrency=2)
    assert lived.story == ["opened", *["job"] * 5, "closed"]


def test_each_worker_has_its_own(queue: JobQueue, lived: Lived) -> None:
    @queue.job
    async def work() -> None: ...

    drain(queue)
    drain(queue)
    assert lived.story == ["opened", "closed"] * 2


def test_handlers_get_resources_by_type_and_by_name(queue: JobQueue) -> None:
    got: list[Any] = []

    @queue.job
    async def on_loop(n: int, other: OtherPool = resource(), limit: int = resource("limit")) -> None:
        got.append((n, other.name, limit))

    @queue.job
    def in_thread(job: Job, pool: Pool = resource("main")) -> None:
        got.append((pool.name, job.resources["main"] is pool, job.resources[OtherPool].name))

    on_loop.enqueue(n=1)
    in_thread.enqueue()
    drain(queue)
    assert sorted(got, key=str) == [("main", True, "other"), (1, "other", 5)]


def test_a_resource_is_no_part_of_the_data(queue: JobQueue) -> None:
    @queue.job
    async def work(n: int, pool: Pool = resource("main")) -> None: ...

    assert work.enqueue(n=5).data == {"n": 5}
    with pytest.raises(InvalidArguments, match="'pool'"):
        work.enqueue(n=5, pool=Pool("mine"))


def test_a_worker_whose_handlers_ask_for_a_resource_that_is_not_there_does_not_begin(queue: JobQueue) -> None:
    @queue.job
    async def by_name(pool: Pool = resource("orders")) -> None: ...

    job = by_name.enqueue()
    with pytest.raises(InvalidOption, match=r"'by_name' asks for 'pool': there is no resource named 'orders'.*'main'"):
        drain(queue)
    assert queue.get(job).status == "pending", "one bad deploy must not fail every job"

    @queue.job
    async def by_type(text: bytes = resource()) -> None: ...

    with pytest.raises(InvalidOption, match="'by_type' asks for 'text': there is no resource of the type bytes"):
        drain(queue, types=["by_type"])


def test_a_lifespan_may_yield_nothing(dsn: str) -> None:
    with JobQueue(dsn, lifespan=Lived(lambda: None)) as queue:

        @queue.job
        async def work(job: Job) -> int:
            return len(job.resources)

        job = work.enqueue()
        drain(queue)
        assert queue.get(job).result == 0


def test_one_that_cannot_be_opened_is_the_workers_error_and_takes_no_job(dsn: str) -> None:
    @contextlib.asynccontextmanager
    async def lifespan(queue: JobQueue) -> AsyncIterator[None]:
        if queue.handlers:
            raise RuntimeError("no API key")
        yield

    with JobQueue(dsn, lifespan=lifespan) as queue:

        @queue.job
        async def work() -> None: ...

        job = work.enqueue()
        with pytest.raises(RuntimeError, match="no API key"):
            drain(queue)
        assert (queue.get(job).status, queue.workers()) == ("pending", [])


def test_it_is_left_when_the_worker_is_cancelled_after_the_jobs_were_released(queue: JobQueue, lived: Lived) -> None:
    @queue.job
    async def work(pool: Pool = resource("main")) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            lived.story.append("job stopped")

    started = asyncio.Event()

    async def main() -> None:
        job = await work.aenqueue()
        task = asyncio.create_task(queue.run_worker(grace=0, poll=0.05))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        back = await queue.aget(job)
        assert (back.status, back.attempts, back.interruptions) == ("pending", 0, 1)

    run(main())
    assert lived.story == ["opened", "job stopped", "closed"]


def test_it_is_left_when_the_worker_cannot_begin(lived: Lived) -> None:
    with JobQueue("host=/nowhere", lifespan=lived) as queue:

        @queue.job
        async def work() -> None: ...

        async def main() -> None:
            async with working(queue):
                while lived.story != ["opened"]:
                    await asyncio.sleep(0.005)

        run(main())
    assert lived.story == ["opened", "closed"]


class Hanging(Lived):
    """It never opens, or never closes."""

    def __init__(self, where: str) -> None:
        super().__init__(lambda: None)
        self.hangs = asyncio.Event()
        self.was_cut = asyncio.Event()
        self._where = where

    @contextlib.asynccontextmanager
    async def __call__(self, queue: JobQueue) -> AsyncIterator[None]:
        await self._pass("opening")
        yield
        await self._pass("closing")

    async def _pass(self, where: str) -> None:
        if where == self._where:
            self.hangs.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.was_cut.set()
        self.story.append(where)


def hanging(dsn: str, where: str) -> tuple[JobQueue, Hanging]:
    lifespan = Hanging(where)
    queue = JobQueue(dsn, lifespan=lifespan)

    @queue.job
    async def work() -> None: ...

    return queue, lifespan


def test_a_worker_is_stopped_while_its_lifespan_does_not_open(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    queue, lifespan = hanging(dsn, "opening")

    async def main() -> None:
        async with working(queue) as worker:
            await lifespan.hangs.wait()
            worker.stop()
        assert worker.summary.exit_code == 0

    with queue:
        run(main())
        assert (lifespan.story, queue.workers()) == ([], [])
    assert "stopped while the lifespan was opening" in caplog.text


@pytest.mark.parametrize("ended_by", ["grace", "second request"])
def test_a_lifespan_that_does_not_close_does_not_keep_the_worker(
    dsn: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, ended_by: str
) -> None:
    monkeypatch.setattr(lifespans, "TO_HURRY", 0.05)
    queue, lifespan = hanging(dsn, "closing")

    async def main() -> None:
        async with working(queue, grace=0.1 if ended_by == "grace" else 3600) as worker:
            worker.stop()
            await lifespan.hangs.wait()
            if ended_by == "second request":
                worker.stop()
            await lifespan.was_cut.wait()
        assert (worker.summary.exit_code, worker.summary.cut_lifespan) == (6, True)

    with queue:
        run(main())
        assert (lifespan.story, queue.workers()) == (["opening"], [])
    waited = "within 0.1 s" if ended_by == "grace" else "after a second request to stop"
    assert f"the lifespan did not close {waited}" in caplog.text


def test_an_early_second_request_leaves_the_lifespan_time_to_close(dsn: str) -> None:
    closed: Story = []

    @contextlib.asynccontextmanager
    async def lifespan(queue: JobQueue) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(closed.append, "closed")

    with JobQueue(dsn, lifespan=lifespan) as queue:

        @queue.job
        async def work() -> None: ...

        async def main() -> None:
            async with working(queue, grace=0) as worker:
                await until(lambda: queue.workers())
                worker.stop()
                worker.stop()
            assert worker.summary.exit_code == 0

        run(main())
    assert closed == ["closed"]


def test_a_timeout_of_the_lifespans_own_is_the_workers_error(dsn: str) -> None:
    @contextlib.asynccontextmanager
    async def lifespan(queue: JobQueue) -> AsyncIterator[None]:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()
        yield

    with JobQueue(dsn, lifespan=lifespan) as queue:

        @queue.job
        async def work() -> None: ...

        with pytest.raises(TimeoutError):
            drain(queue)


def test_a_child_process_opens_its_own_once(dsn: str) -> None:
    queue = child_handlers.connected(dsn)
    before = child_handlers.Tally.opened
    jobs = [child_handlers.opens.enqueue() for _ in range(4)]
    drain(queue, types=["opens"], children=1)
    results = [queue.get(job).result for job in jobs]
    assert all(result["opened in"] == result["pid"] != os.getpid() for result in results)
    assert all(result["times"] == 1 and result["same"] for result in results)
    assert child_handlers.Tally.opened == before + 1, "the worker's own"
