"""Handlers whose processes leave others behind."""

from __future__ import annotations

import os
import subprocess
import time

from howdah import Job
from tests.faults.handlers import queue, said_by
from tests.worker.ledger import note

PATIENCE = 120.0


@queue.job(max_attempts=1)
def orphans_in_a_thread(job: Job) -> dict[str, int]:
    return leave_an_orphan(job)


@queue.job(max_attempts=1, process=True)
def orphans_in_a_child(job: Job) -> dict[str, int]:
    return leave_an_orphan(job)


def leave_an_orphan(job: Job) -> dict[str, int]:
    """Ends only when the orphan, the child of a child that has ended, was reaped."""
    note("START", job)
    left = subprocess.run(["sh", "-c", "sleep 0.1 >/dev/null & echo $!"], stdout=subprocess.PIPE, check=True)
    orphan, deadline = int(left.stdout), time.monotonic() + PATIENCE
    while is_there(orphan):
        assert time.monotonic() < deadline, f"token {job.token}: the orphan was not reaped"
        time.sleep(0.02)
    note("END", job)
    return said_by(job)


def is_there(pid: int) -> bool:
    """Also as a zombie, which can still be signalled."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
