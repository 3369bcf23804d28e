"""Functions that know of no queue."""

from __future__ import annotations

import os
import signal

from howdah import Job


async def die_at_first(job: Job) -> None:
    if job.attempts == 1:
        os.kill(os.getpid(), signal.SIGKILL)
