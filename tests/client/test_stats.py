"""``stats``: how many jobs of each type are in each status."""

from __future__ import annotations

from datetime import timedelta

import psycopg

from howdah import JobQueue, TypeStats
from tests.clock import TestClock


def test_an_empty_queue_has_no_statistics(queue: JobQueue) -> None:
    stats = queue.stats()
    assert (len(stats), stats.total) == (0, TypeStats())


def test_every_status_is_counted_for_every_type(queue: JobQueue, clock: TestClock) -> None:
    queue.enqueue_many("mail", range(7))
    queue.enqueue_many("mail", range(2), delay=60)
    queue.enqueue_many("post", range(3))
    first, second, third, fourth = queue.claim(["mail"], 4)
    queue.complete(first)
    queue.fail(second, "no", give_up=True)
    queue.start(third)
    queue.cancel(queue.enqueue("mail"))
    clock.advance(1)
    stats = queue.stats()
    assert list(stats) == ["mail", "post"]
    assert stats["mail"] == TypeStats(
        pending=5, scheduled=2, claimed=1, running=1, completed=1, failed=1, cancelled=1,
        oldest_due=clock.now - timedelta(seconds=1),
    )  # fmt: skip
    assert stats["post"].pending == 3
    assert (stats.total.pending, stats.total.scheduled, stats.total.completed) == (8, 2, 1)
    assert fourth.status == "claimed"


def test_a_retry_takes_the_job_out_of_the_ended_ones(queue: JobQueue) -> None:
    job = queue.enqueue("mail")
    queue.cancel(job)
    assert (queue.stats()["mail"].cancelled, queue.stats()["mail"].pending) == (1, 0)
    queue.retry(job)
    assert (queue.stats()["mail"].cancelled, queue.stats()["mail"].pending) == (0, 1)


def test_what_is_rolled_back_was_never_counted(dsn: str, queue: JobQueue) -> None:
    queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    with psycopg.connect(dsn) as conn, conn.transaction(force_rollback=True):
        queue.complete(job, conn=conn)
        assert queue.stats(conn=conn)["mail"].completed == 1
    assert (queue.stats()["mail"].completed, queue.stats()["mail"].claimed) == (0, 1)


def test_a_paused_type_without_jobs_is_paused_in_the_stats(queue: JobQueue) -> None:
    queue.pause("mail")
    queue.enqueue("post")
    stats = queue.stats()
    assert (stats["mail"].paused, stats["post"].paused, stats.total.paused) == (True, False, False)


def test_limits_and_paused_keys_are_shown_also_without_jobs(queue: JobQueue) -> None:
    queue.limits.set(3, job_type="mail")
    queue.limits.set(2, job_type="mail", each_key=True)
    queue.limits.set(1, job_type="mail", per="acme")
    queue.limits.set(9, group="smtp")
    for key in ("acme", "bolt"):
        queue.pause("mail", per=key)
    queue.enqueue("post")
    stats = queue.stats()
    assert list(stats) == ["mail", "post"]
    assert stats["mail"] == TypeStats(limit=3, key_limit=2, paused_keys=2)
    assert (stats["post"].limit, stats["post"].key_limit, stats["post"].paused_keys) == (None, None, 0)
    assert stats.total.limit is None
