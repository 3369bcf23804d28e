"""Turns between keys, with a key that has very many jobs."""

from __future__ import annotations

from collections import Counter

import pytest

from howdah import JobQueue
from tests.size import FULL

MANY = 1_000_000 if FULL else 20_000


def started(queue: JobQueue, batch_size: int, most: int) -> list[str]:
    """The keys of jobs in the order in which they are claimed; each claim is completed before the next."""
    keys: list[str] = []
    while len(keys) < most:
        jobs = queue.claim(["t"], batch_size)
        keys += [str(job.flow_key) for job in jobs]
        for job in jobs:
            queue.complete(job)
    return keys


@pytest.mark.parametrize("limit", [None, 3])
def test_a_key_with_a_million_jobs_does_not_delay_one_with_ten(queue: JobQueue, limit: int | None) -> None:
    if limit is not None:
        queue.limits.set(limit, job_type="t", each_key=True)
    queue.enqueue_many("t", ({} for _ in range(MANY)), per="a")
    queue.enqueue_many("t", ({} for _ in range(10)), per="b")
    keys = started(queue, 5, MANY // 100)
    last = max(place for place, key in enumerate(keys) if key == "b")
    assert keys.count("b") == 10
    assert last < MANY // 100


def test_weights_are_shares(queue: JobQueue) -> None:
    queue.limits.set_weight("t", "heavy", 3)
    for key in ("heavy", "light"):
        queue.enqueue_many("t", ({} for _ in range(MANY // 10)), per=key)
    shares = Counter(started(queue, 1, 400) + started(queue, 40, 1_600))
    assert 2.4 < shares["heavy"] / shares["light"] < 3.7
