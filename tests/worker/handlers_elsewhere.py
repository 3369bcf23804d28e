"""A queue whose handler is a function of another module, where no child process would find it."""

from __future__ import annotations

from howdah import JobQueue
from tests.worker import plain_functions

queue = JobQueue()
queue.job(plain_functions.die_at_first)
