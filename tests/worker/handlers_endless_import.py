"""A handler whose module is never done with being imported, where a child process does that."""

from __future__ import annotations

import multiprocessing
import signal

from howdah import JobQueue

queue = JobQueue()

if multiprocessing.parent_process() is not None:
    while True:
        signal.pause()


@queue.job(process=True)
def never_begins() -> None: ...
