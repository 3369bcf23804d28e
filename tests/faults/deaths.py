"""Cases in which workers die."""

from __future__ import annotations

import time

from tests.faults.case import case
from tests.faults.stage import Stage


@case(1, "kill9-random", checks="I1 I2 I3 I4 I5 I6 I7")
def kill9_random(stage: Stage) -> None:
    """Every one to three seconds a worker is killed, between claim and start too, and another takes its place."""
    workers = stage.start(4, concurrency=10)
    watcher = stage.start(1, concurrency=10)[0].await_judge()
    with stage.producing():
        for _ in range(stage.scaled(15, 2)):
            time.sleep(stage.chance.uniform(1, 3) if not stage.quick else 0.5)
            victim = stage.chance.choice(workers)
            stage.kill(victim)
            workers[workers.index(victim)] = stage.fleet.start(stage.new_name(), concurrency=10)
    stage.fleet.await_drained()
    assert watcher.is_running
