"""Cases in which a worker that was given up goes on as if nothing had been."""

from __future__ import annotations

import uuid

from tests.faults.case import case
from tests.faults.stage import Stage
from tests.worker.processes import WorkerProcess, until


@case(4, "zombie-complete", checks="I1 I2 I3 I4 I5 I7")
def zombie_complete(stage: Stage) -> None:
    """A worker stands still for longer than its lease, another one has its job, and then it completes it."""
    overtaken(stage, stage.enqueue("overtaken_completes"))


def overtaken(stage: Stage, job: uuid.UUID) -> tuple[WorkerProcess, WorkerProcess]:
    """The job's first worker is frozen until another runs it, and thawed; then the new owner ends it."""
    stale = stage.start()[0]
    until(lambda: stage.fleet.ledger.count("START") == 1, "the handler has begun")
    owner = stage.start()[0].await_judge()
    stale.freeze()
    stage.fault()
    until(lambda: stage.fleet.ledger.count("START") == 2, "the job has a new owner")
    stage.fleet.ledger.say("overtaken")
    stale.thaw()
    until(lambda: stage.fleet.ledger.count("STALE"), "the stale handler has ended")
    # Whatever it writes is written in the order in which it was said.
    stage.queue.wait_for(stage.enqueue("probe"), timeout=60)
    stage.fleet.ledger.say("finish")
    stage.fleet.await_drained()
    stage.queue.wait_for(job, timeout=60)
    return stale, owner
