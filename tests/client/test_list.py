"""``list``: filters, pages, and a bounded scan."""

from __future__ import annotations

import random
import uuid
from datetime import datetime, timedelta
from typing import Any

import pytest

from howdah import InvalidInput, Job, JobPage, JobQueue
from howdah.verbs import operate
from tests.clock import TestClock
from tests.conftest import Db


def everything(queue: JobQueue, count: int = 6) -> list[Job]:
    return [queue.enqueue("mail", {"n": n}) for n in range(count)]


def test_the_newest_come_first(queue: JobQueue) -> None:
    jobs = everything(queue)
    assert [job.id for job in queue.list()] == [job.id for job in reversed(jobs)]


def test_pages_go_through_everything_once_also_while_jobs_are_added(queue: JobQueue) -> None:
    jobs = everything(queue, 7)
    seen: list[uuid.UUID] = []
    page = queue.list(limit=3)
    while True:
        seen += [job.id for job in page]
        if page.next is None:
            break
        queue.enqueue("mail", "later")
        page = queue.list(limit=3, before=page.next)
    assert seen == [job.id for job in reversed(jobs)]
    assert page.complete


def test_live_and_ended_jobs_are_in_one_list(queue: JobQueue) -> None:
    jobs = everything(queue, 4)
    queue.cancel(jobs[1])
    queue.complete(queue.claim(["mail"], 1)[0])
    assert [(job.id, job.status) for job in queue.list()] == [
        (jobs[3].id, "pending"),
        (jobs[2].id, "pending"),
        (jobs[1].id, "cancelled"),
        (jobs[0].id, "completed"),
    ]


def test_a_status_or_several_can_be_asked_for(queue: JobQueue) -> None:
    jobs = everything(queue, 5)
    first, second, third = queue.claim(["mail"], 3)
    queue.complete(first)
    queue.fail(second, "no", give_up=True)
    queue.start(third)
    queue.cancel(jobs[3])
    found = {status: [job.id for job in queue.list(status=status)] for status in
             ("completed", "failed", "running", "cancelled", "pending", "claimed")}  # fmt: skip
    assert found == {
        "completed": [jobs[0].id],
        "failed": [jobs[1].id],
        "running": [jobs[2].id],
        "cancelled": [jobs[3].id],
        "pending": [jobs[4].id],
        "claimed": [],
    }
    assert [job.id for job in queue.list(status=["pending", "failed"])] == [jobs[4].id, jobs[1].id]
    assert len(queue.list(status=[])) == 0


def test_filters_narrow_each_other(queue: JobQueue, clock: TestClock) -> None:
    moments: list[datetime] = []
    for n in range(6):
        moments.append(clock.now)
        queue.enqueue(
            "odd" if n % 2 else "even", {"n": n, "tags": ["all", f"t{n}"], "deep": {"a": n}}, priority=n, per=n % 3
        )
        clock.advance(60)

    def found(**filters: Any) -> list[int]:
        return [job.data["n"] for job in queue.list(**filters)]

    assert found(job_type="odd") == [5, 3, 1]
    assert found(job_type=["odd", "even"], limit=2) == [5, 4]
    assert found(job_type="neither") == []
    assert found(per=2) == found(per="2") == [5, 2]
    assert found(per="2", job_type="odd") == [5]
    assert found(data={"tags": ["t3"]}) == [3]
    assert found(data={"deep": {"a": 2}}) == [2]
    assert found(data={"n": 99}) == []
    assert found(least_priority=2, most_priority=4) == [4, 3, 2]
    assert found(since=moments[2], until=moments[4]) == [3, 2]
    assert found(job_type="odd", least_priority=2, until=moments[5]) == [3]


def test_a_filter_finds_pages_of_what_it_matches(queue: JobQueue) -> None:
    for n in range(20):
        queue.enqueue("rare" if n % 5 == 0 else "mail", n)
    first = queue.list(job_type="rare", limit=3)
    assert [job.data for job in first] == [15, 10, 5]
    assert first.next is not None
    assert [job.data for job in queue.list(job_type="rare", limit=3, before=first.next)] == [0]


def test_a_scan_that_stops_at_its_limit_returns_where_to_continue(queue: JobQueue) -> None:
    wanted = queue.enqueue("rare")
    for _ in range(25):
        queue.enqueue("mail")
    pages: list[JobPage] = [queue.list(job_type="rare", scan_limit=10)]
    while pages[-1].next is not None:
        pages.append(queue.list(job_type="rare", scan_limit=10, before=pages[-1].next))
    assert [(len(page), page.complete) for page in pages] == [(0, False), (0, False), (1, True)]
    assert pages[-1][0].id == wanted.id


def test_a_scan_is_made_of_windows_that_miss_nothing(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("howdah.verbs.operate.WINDOW", 4)
    for n in range(30):
        queue.enqueue("rare" if n % 7 == 0 else "mail", n)
    page = queue.list(job_type="rare")
    assert [job.data for job in page] == [28, 21, 14, 7, 0]
    assert (page.next, page.complete) == (None, True)


def test_an_empty_queue_has_one_empty_page(queue: JobQueue) -> None:
    page = queue.list()
    assert (list(page), page.next, page.complete) == ([], None, True)


def test_a_page_is_a_sequence(queue: JobQueue) -> None:
    jobs = everything(queue, 3)
    page = queue.list()
    assert page[0].id == jobs[2].id
    assert [job.id for job in page[1:]] == [jobs[1].id, jobs[0].id]
    assert "3 jobs" in repr(page)


@pytest.mark.parametrize(
    "filters",
    [
        {"status": "done"},
        {"status": 5},
        {"job_type": ""},
        {"job_type": 5},
        {"limit": 0},
        {"limit": 10_001},
        {"limit": True},
        {"scan_limit": 0},
        {"least_priority": 2**31},
        {"since": datetime(2026, 1, 1)},  # noqa: DTZ001
        {"until": "today"},
        {"before": "nonsense"},
        {"data": {"a": float("nan")}},
        {"data": "\x00"},
    ],
    ids=repr,
)
def test_a_filter_that_makes_no_sense_is_refused(queue: JobQueue, filters: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        queue.list(**filters)


def test_a_job_scheduled_for_never_can_be_listed(queue: JobQueue, clock: TestClock) -> None:
    job = queue.enqueue("mail", run_at=clock.now + timedelta(days=36_000))
    assert queue.list()[0] == job


def test_a_brief_list_fetches_nothing_that_may_be_large(queue: JobQueue, db: Db) -> None:
    job = queue.enqueue("mail", {"text": random.Random(7).randbytes(20_000).hex()}, meta={"tag": 1})
    (claimed,) = queue.claim(["mail"], 1)
    queue.fail(claimed, "broken " * 5_000)
    toasted = (
        "SELECT sum(pg_stat_get_xact_numscans(i.indexrelid)) AS n FROM pg_class AS c JOIN pg_index AS i ON i.indrelid = c.reltoastrelid"
        " WHERE c.oid = 'live'::regclass"
    )
    for brief in (True, False):
        with db.transaction():
            (listed,) = queue.list(brief=brief, conn=db)
            (fetched,) = db.execute(toasted).fetchall()
        assert (listed.id, listed.status, listed.attempts) == (job.id, "pending", 1)
        assert bool(fetched["n"]) is not brief
        assert (listed.data is None, listed.meta is None, listed.errors == ()) == (brief,) * 3
        assert (listed.last_error or "").startswith("broken")


def test_a_page_of_large_jobs_ends_early_and_the_next_goes_on_behind_it(
    queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operate, "PAGE_BYTES", 5_000)
    jobs = [queue.enqueue("mail", random.Random(n).randbytes(1_000).hex()) for n in range(7)]
    seen: list[Job] = []
    page = queue.list(limit=100)
    lengths = [len(page.jobs)]
    seen += page
    while page.next is not None:
        page = queue.list(limit=100, before=page.next)
        lengths.append(len(page.jobs))
        seen += page
    assert [(job.id, job.data) for job in seen] == [(job.id, job.data) for job in reversed(jobs)]
    assert max(lengths) < 7
    assert queue.list(limit=100, brief=True).next is None
