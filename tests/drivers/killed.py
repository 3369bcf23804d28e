"""``python -m tests.drivers.killed DSN``: does the work of jobs in processes that are killed between two of its statements.

The type of a job names the form of connection, and the step after which its process is killed.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from howdah import Job, JobQueue
from tests.drivers.callers import FORMS, work


def do(queue: JobQueue, job: Job) -> None:
    name, _, last = job.job_type.partition("-")
    with asyncio.Runner() as runner:
        for step in itertools.islice(work(FORMS[name](queue.dsn), queue, job), int(last) + 1):
            if FORMS[name].awaited:
                runner.run(awaited(step))
            else:
                step()
        os.kill(os.getpid(), signal.SIGKILL)


async def awaited(step: Callable[[], Any]) -> None:
    answer = step()
    if inspect.isawaitable(answer):
        await answer


def in_a_child(dsn: str, job_type: str) -> int:
    """Claims the job and does its work. Returns how the process ended."""
    pid = os.fork()
    if pid == 0:
        try:
            with JobQueue(dsn) as queue:
                (job,) = queue.claim([job_type])
                queue.start(job)
                do(queue, job)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main(dsn: str, *job_types: str) -> None:
    for job_type in job_types:
        ended = in_a_child(dsn, job_type)
        assert ended == -signal.SIGKILL, (job_type, ended)


if __name__ == "__main__":
    main(*sys.argv[1:])
