"""A handler that keeps the GIL, in a child process: no other thread of the child runs."""

from __future__ import annotations

import re

from howdah import Job, JobQueue
from tests.worker.ledger import note

queue = JobQueue()


@queue.job(process=True, ordered=True, max_crashes=100)
def holds_the_gil(job: Job) -> None:
    note("START", job)
    re.match(r"(a+)+$", "a" * 60 + "b")  # for years
