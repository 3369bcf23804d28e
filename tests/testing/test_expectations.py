"""``enqueued`` and its assertions: what they find, and their messages when they fail."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest

from howdah import Handler, InvalidOption, JobQueue, Priority
from howdah.testing import assert_enqueued, assert_not_enqueued, drain, enqueued


@pytest.fixture
def remind(howdah_queue: JobQueue) -> Handler[..., None]:
    @howdah_queue.job
    def remind(invoice: int, on: date | None = None) -> None:
        pass

    return remind


def failure_of(assertion: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        assertion(*arguments, **options)
    return str(caught.value)


def test_jobs_are_found_by_type_handler_and_data(howdah_queue: JobQueue, remind: Handler[..., None]) -> None:
    first = remind.enqueue(invoice=1)
    second = remind.enqueue(invoice=2, on=date(2030, 1, 31))
    other = howdah_queue.enqueue("elsewhere", {"deep": {"a": 1, "b": [1, 2]}, "more": None})
    assert [job.id for job in enqueued(howdah_queue)] == [first.id, second.id, other.id]
    assert [job.id for job in enqueued(howdah_queue, "remind")] == [first.id, second.id]
    assert [job.id for job in enqueued(howdah_queue, remind, {"invoice": 2})] == [second.id]
    assert [job.id for job in enqueued(howdah_queue, data={"deep": {"b": [1, 2]}})] == [other.id]
    assert not enqueued(howdah_queue, data={"deep": {"b": [1]}})
    assert not enqueued(howdah_queue, data={"deep": {"c": None}})


def test_data_may_be_given_as_the_handler_gets_it(howdah_queue: JobQueue, remind: Handler[..., None]) -> None:
    job = remind.enqueue(invoice=2, on=date(2030, 1, 31))
    assert assert_enqueued(howdah_queue, remind, {"on": date(2030, 1, 31)}).id == job.id
    assert assert_enqueued(howdah_queue, remind, {"on": "2030-01-31"}).id == job.id
    assert_not_enqueued(howdah_queue, remind, {"on": date(2030, 2, 1)})


def test_more_jobs_than_fit_on_a_page_are_found(howdah_queue: JobQueue) -> None:
    howdah_queue.enqueue_many("count", ({"n": n} for n in range(2_100)))
    assert [job.data["n"] for job in enqueued(howdah_queue)] == list(range(2_100))


def test_what_has_been_run_since_was_enqueued_all_the_same(howdah_queue: JobQueue, remind: Handler[..., None]) -> None:
    remind.enqueue(invoice=1)
    drain(howdah_queue)
    assert assert_enqueued(howdah_queue, remind).status == "completed"


def test_the_newest_of_several_is_returned(howdah_queue: JobQueue, remind: Handler[..., None]) -> None:
    remind.enqueue(invoice=1)
    newest = remind.enqueue(invoice=1)
    assert assert_enqueued(howdah_queue, remind, {"invoice": 1}, count=2).id == newest.id


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ({"priority": 150}, {"priority": 100}),
        ({"key": "nightly"}, {"key": "daily"}),
        ({"delay": 3600}, {"delay": 60}),
        ({"delay": timedelta(hours=1)}, {"delay": 0}),
        ({"within": 3600}, {"within": 3599}),
        ({"count": 1}, {"count": 2}),
    ],
    ids=str,
)
def test_the_options_of_a_job_can_be_asked_for(
    howdah_queue: JobQueue, right: dict[str, Any], wrong: dict[str, Any]
) -> None:
    howdah_queue.enqueue("report", priority=Priority.EXPLICIT, key="nightly", delay=3600)
    assert_enqueued(howdah_queue, "report", **right)
    failure_of(assert_enqueued, howdah_queue, "report", **wrong)
    if "count" not in wrong:
        assert_not_enqueued(howdah_queue, "report", **wrong)
        failure_of(assert_not_enqueued, howdah_queue, "report", **right)


def test_a_failed_expectation_lists_what_was_enqueued_instead(
    howdah_queue: JobQueue, remind: Handler[..., None]
) -> None:
    remind.enqueue(invoice=17)
    howdah_queue.enqueue("report", key="nightly", delay=3600)
    assert failure_of(assert_enqueued, howdah_queue, remind, {"invoice": 18}, priority=150, within=60) == (
        "remind with {'invoice': 18}, priority 150, within 0:01:00 was not enqueued. These jobs were, the newest last:\n"
        "  remind {'invoice': 17}, pending, priority 100\n"
        "  report {}, pending, priority 100, key 'nightly', delay 1:00:00"
    )
    assert failure_of(assert_enqueued, howdah_queue, remind, count=3).startswith(
        "remind was enqueued once, not 3 times"
    )
    assert failure_of(assert_not_enqueued, howdah_queue, remind).startswith("remind was enqueued once, and should not")
    assert failure_of(assert_not_enqueued, howdah_queue).startswith("a job was enqueued 2 times, and should not")


def test_a_failed_expectation_of_an_empty_queue_states_that_it_is_empty(howdah_queue: JobQueue) -> None:
    assert failure_of(assert_enqueued, howdah_queue, "report") == "report was not enqueued. Nothing was."
    assert_not_enqueued(howdah_queue)


def test_a_failure_is_short_and_obeyed_by_no_terminal(howdah_queue: JobQueue) -> None:
    howdah_queue.enqueue_many("large", ({"n": n, "text": "\x1b[2J" + "x" * 5_000} for n in range(50)))
    said = failure_of(assert_enqueued, howdah_queue, "report")
    assert len(said) < 4_000
    assert "  … 40 before these\n" in said
    assert "'n': 49" in said
    assert not re.search(r"[^\n -~…]", said)


def test_a_count_of_none_at_all_is_another_question(howdah_queue: JobQueue) -> None:
    with pytest.raises(InvalidOption, match="count"):
        assert_enqueued(howdah_queue, "report", count=0)
