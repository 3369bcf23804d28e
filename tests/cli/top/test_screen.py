"""What the screen shows, sorts, filters and follows."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import pytest

from howdah import Event, Job, JobQueue
from howdah.cli.commands.top.details import Reader
from howdah.cli.render.progress import short_id
from tests.cli.runner import failed_job, tell_many
from tests.cli.test_health import register
from tests.cli.top.screen import Seen, opened
from tests.conftest import Db


def running_job(queue: JobQueue, job_type: str, percent: float = 0, stage: str | None = None) -> Job:
    queue.enqueue(job_type)
    (job,) = queue.claim([job_type], 1, f"loop of {job_type}")
    queue.start(job)
    queue.progress(job, percent, stage)
    return job


def test_types_jobs_and_workers_appear_and_change_by_themselves(queue: JobQueue, db: Db) -> None:
    queue.enqueue("reindex", delay=3_600)
    queue.enqueue("mail")
    register(db, "post office")
    db.execute("""UPDATE workers SET throughput = '{"mail": {"per_second": 7.5, "run": 0.25, "wait": 90}}'""")

    async def look() -> None:
        async with opened(queue) as seen:
            await seen.until_seen("ann@db.example.org/jobs", "schema howdah", "2 pending", "1 later", "0 running")
            mail, reindex = seen.table("types")
            assert (mail["type"], mail["pending"], mail["later"], mail["workers"]) == ("mail", "1", "0", "1")
            assert (mail["pace"], mail["wait"], mail["run"]) == ("7.5", "1m", "250ms")
            assert mail["oldest"]
            assert (reindex["type"], reindex["later"], reindex["workers"]) == ("reindex", "1", "0")
            (worker,) = seen.table("workers")
            assert (worker["worker"], worker["state"], worker["running"]) == ("post office", "ready", "3/50")
            assert (worker["pid"], worker["version"], worker["loop lag"]) == ("17", "1.0", "2ms")

            job = running_job(queue, "mail", 40, "sorting / letters")
            await seen.until_seen("40%", "sorting / letters", "1 running")
            (shown,) = seen.table("jobs")
            assert (shown["id"], shown["type"], shown["try"]) == (short_id(job.id), "mail", "1/3")
            assert (shown["state"], shown["worker"]) == ("running", "loop of mail")
            queue.progress(job, done=3, total=4)
            await seen.until_seen("75%", "3/4")
            queue.complete(job)
            await seen.until_seen("1 completed")
            await seen.until(lambda: not seen.table("jobs"), "no job runs any more")
            assert float(seen.table("types")[0]["jobs/s"]) > 0
            db.execute("UPDATE workers SET heartbeat_at = heartbeat_at - interval '1 hour'")
            await seen.until(lambda: seen.column("workers", "state") == ["dead"], "the worker is dead")
            assert seen.column("types", "workers") == ["0", "0"]

    asyncio.run(look())


def test_a_stalled_job_is_marked_and_can_be_looked_for(queue: JobQueue, db: Db) -> None:
    running_job(queue, "import", 10)
    running_job(queue, "export", 20)
    db.execute("""UPDATE live SET progress_report = progress_report || '{"stalls": 1}' WHERE job_type = 'import'""")

    async def look() -> None:
        async with opened(queue) as seen:
            await seen.until_seen("1 stalled", "2 running")
            assert {row["type"]: row["state"] for row in seen.table("jobs")} == {
                "import": "stalled",
                "export": "running",
            }
            assert seen.column("types", "stalled") == ["0", "1"]
            await seen.press("t")
            await seen.until(lambda: seen.column("jobs", "type") == ["import"], "only the stalled one")
            await seen.press("t")
            await seen.until(lambda: len(seen.table("jobs")) == 2, "all that run, again")

    asyncio.run(look())


def test_a_type_that_waits_without_a_worker_is_red(queue: JobQueue) -> None:
    queue.enqueue("a type under the cursor")
    queue.enqueue("mail")

    async def look() -> None:
        async with opened(queue) as seen:
            strips = seen.app.screen._compositor.render_strips()
            (line,) = (strip for strip in strips if strip.text.startswith(" mail"))
            zeros = [
                segment for segment in line if segment.text.strip() == "0" and segment.style and segment.style.bold
            ]
            assert zeros
            assert all(color.red > color.green and color.red > color.blue for color in _colors(zeros))

    asyncio.run(look())


def _colors(segments: list) -> list:  # type: ignore[type-arg]
    return [segment.style.color.get_truecolor() for segment in segments]


def test_sorting_goes_through_the_columns_and_keeps_the_row(queue: JobQueue) -> None:
    for job_type, count in (("a", 2), ("b", 3), ("c", 1)):
        queue.enqueue_many(job_type, [None] * count)

    async def look() -> None:
        async with opened(queue) as seen:
            await seen.until_seen("6 pending")
            await seen.press("down")
            assert (_types(seen), seen.chosen("types")) == (["a", "b", "c"], "b")
            await seen.press("s", "s")
            assert "pending ▼" in seen.text
            assert (_types(seen), seen.chosen("types")) == (["b", "a", "c"], "b")
            await seen.press("S")
            assert "pending ▲" in seen.text
            assert (_types(seen), seen.chosen("types")) == (["c", "a", "b"], "b")
            queue.enqueue_many("c", [None] * 4)
            await seen.until(lambda: _types(seen) == ["a", "b", "c"], "what comes later is sorted too")
            assert seen.chosen("types") == "b"

    asyncio.run(look())


def _types(seen: Seen) -> list[str]:
    return [row[next(iter(row))] for row in seen.table("types")]


@pytest.mark.parametrize("word", ["reading", "LOOP OF IMPORT", "import"])
def test_the_filter_finds_type_stage_and_worker(queue: JobQueue, word: str) -> None:
    running_job(queue, "import", 10, "reading")
    running_job(queue, "export", 20, "writing")

    async def look() -> None:
        async with opened(queue) as seen:
            await seen.until(lambda: len(seen.table("jobs")) == 2, "both")
            await seen.filter(word)
            await seen.until(lambda: seen.column("jobs", "type") == ["import"], "one")
            await seen.press("enter")
            await seen.until_seen(f"/{word}")
            running_job(queue, "export", 30)
            await seen.until_seen("3 running")
            assert seen.column("jobs", "type") == ["import"]
            await seen.press("escape")
            await seen.until(lambda: len(seen.table("jobs")) == 3, "all of them")

    asyncio.run(look())


def test_the_filter_finds_an_id(queue: JobQueue) -> None:
    job = running_job(queue, "import")
    running_job(queue, "import")

    async def look() -> None:
        async with opened(queue) as seen:
            await seen.filter(str(job.id))
            await seen.until(lambda: seen.column("jobs", "id") == [short_id(job.id)], "one")

    asyncio.run(look())


def test_enter_on_a_type_shows_what_belongs_to_it(queue: JobQueue) -> None:
    running_job(queue, "import")
    running_job(queue, "export")

    async def look() -> None:
        async with opened(queue) as seen:
            await seen.until(lambda: len(seen.table("jobs")) == 2, "both")
            await seen.press("down", "enter")
            await seen.until(lambda: seen.column("jobs", "type") == ["import"], "those of the type")
            await seen.press("escape")
            await seen.until(lambda: len(seen.table("jobs")) == 2, "both again")

    asyncio.run(look())


def test_details_follow_a_job(queue: JobQueue) -> None:
    queue.enqueue("import", {"file": "a.csv"}, key="only one")
    (job,) = queue.claim(["import"])
    queue.start(job)
    queue.event(job, "opened", {"rows": 12})

    async def look() -> None:
        async with opened(queue) as seen:
            await seen.press("tab", "enter")
            await seen.until_seen(str(job.id), '"file": "a.csv"', 'opened {"rows":12}', "only one", "1 of 3")
            queue.progress(job, 55, "half way")
            queue.event(job, "closed")
            await seen.until_seen("55%", "half way", "closed")
            queue.fail(job, ValueError("the file is empty"), give_up=True)
            await seen.until_seen("ValueError: the file is empty", "failed")
            await seen.press("escape")
            await seen.until_seen("types", "1 failed")

    asyncio.run(look())


def test_details_read_the_last_events_only(queue: JobQueue, db: Db) -> None:
    job = running_job(queue, "import")
    tell_many(db, job, 1_000)
    read: list[Event] = []

    def events(job: Job, **options: Any) -> list[Event]:
        found = JobQueue.events(queue, job, **options)
        read.extend(found)
        return found

    with mock.patch.object(queue, "events", events):
        reader = Reader(job.id)
        assert [event.name for event in reader.read(queue).events] == [f"e{n}" for n in range(971, 1_001)]
        queue.event(job, "closed")
        assert [event.name for event in reader.read(queue).events] == [*(f"e{n}" for n in range(972, 1_001)), "closed"]
    assert len(read) == 31


def test_details_show_the_place_of_a_waiting_job_and_the_result_of_an_ended_one(queue: JobQueue) -> None:
    queue.enqueue("import", priority=150)
    waiting = queue.enqueue("import")

    async def look() -> None:
        async with opened(queue) as seen:
            await seen.press("w")
            await seen.until(lambda: len(seen.table("jobs")) == 2, "those that wait")
            await seen.press("enter")
            await seen.until_seen(str(waiting.id), "1 before it", "no live worker handles this type")
            for job in queue.claim(["import"]):
                queue.start(job)
                queue.complete(job, {"rows": 99})
            await seen.until_seen('"rows": 99', "completed")

    asyncio.run(look())


def test_failed_jobs_are_one_key_away(queue: JobQueue) -> None:
    failed_job(queue, "import", ValueError("no such file"))
    running_job(queue, "export")

    async def look() -> None:
        async with opened(queue) as seen:
            await seen.press("f")
            await seen.until_seen("failed jobs", "ValueError: no such file")
            assert seen.column("jobs", "type") == ["import"]
            await seen.press("escape")
            await seen.until(lambda: seen.column("jobs", "type") == ["export"], "back to what runs")

    asyncio.run(look())


def test_more_jobs_than_the_limit_get_a_note(queue: JobQueue) -> None:
    for _ in range(4):
        running_job(queue, "import")

    async def look() -> None:
        async with opened(queue, limit=3) as seen:
            await seen.until_seen("running jobs, the newest of them")
            assert len(seen.table("jobs")) == 3

    asyncio.run(look())


def test_a_frozen_screen_stays_as_it_is(queue: JobQueue) -> None:
    async def look() -> None:
        async with opened(queue) as seen:
            await seen.press("space")
            await seen.until_seen("frozen")
            await seen.until(lambda: seen.app._asked_at is None, "nothing is asked any more")
            queue.enqueue("mail")
            for _ in range(3):
                seen.app._tick()
            assert seen.app._asked_at is None
            assert seen.table("types") == []
            await seen.press("space")
            await seen.until_seen("1 pending")
            assert "frozen" not in seen.text

    asyncio.run(look())


def test_the_keys_are_explained(queue: JobQueue) -> None:
    async def look() -> None:
        async with opened(queue, size=(120, 40)) as seen:
            await seen.until(lambda: "help" in seen.text.splitlines()[-1], "the footer")
            await seen.press("question_mark")
            await seen.until_seen("sort by the next column", "cancel the job", "pending, but not due yet")
            await seen.press("escape")
            await seen.until_seen("types")

    asyncio.run(look())


@pytest.mark.parametrize("size", [(80, 24), (40, 10), (250, 70)])
def test_it_can_be_drawn_at_any_size(queue: JobQueue, size: tuple[int, int]) -> None:
    for _ in range(30):
        running_job(queue, "import")

    async def look() -> None:
        async with opened(queue, size=size) as seen:
            await seen.press("tab", "ctrl+end")
            # The footer, which is the last line, may be drawn after the rest.
            await seen.until(lambda: len(seen.text.splitlines()) == size[1], "the whole screen")
            assert seen.chosen("jobs") in seen.text

    asyncio.run(look())
