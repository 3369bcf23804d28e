"""A handler that blocks the event loop for longer than the lease does not look dead: nothing runs a second time."""

from __future__ import annotations

import re
from pathlib import Path

from howdah import JobQueue
from tests.worker.ledger import times
from tests.worker.processes import LEASE, Fleet, until


def test_a_blocked_loop_loses_nothing_and_the_log_names_the_blocker(dsn: str, queue: JobQueue, tmp_path: Path) -> None:
    with Fleet(dsn, tmp_path, "handlers_blocked") as fleet:
        watcher = fleet.start("watcher", types=["elsewhere"])
        blocked = fleet.start("blocked", concurrency=10).await_ready()
        blocker = queue.enqueue("forgets_to_await", {"seconds": 3 * LEASE})
        for _ in range(5):
            queue.enqueue("beside")
            queue.enqueue("beside_in_a_thread")
        until(lambda: fleet.ledger.count("START") == 11, "all have begun")
        watcher.await_judge()
        assert fleet.ledger.count("END", where=lambda entry: entry.id == blocker.id) == 0, "somebody watches meanwhile"
        fleet.await_drained()

        jobs = fleet.jobs()
        assert {(job["status"], job["attempts"], job["worker_id"]) for job in jobs} == {("completed", 1, "blocked")}
        assert times(fleet.ledger.entries("START")) == {job["id"]: 1 for job in jobs}
        assert times(fleet.ledger.entries("END")) == {job["id"]: 1 for job in jobs}
        assert blocked.stop() == 0
        assert watcher.stop() == 0
        named = re.findall(
            r"the event loop has stood still .* held up by (.*) in (\w+): nothing else runs", blocked.log
        )
        assert len(named) == 1, "said once"
        assert f"forgets_to_await {blocker.id}" in named[0][0]
        assert "handlers_blocked.py" in named[0][0]
        assert "given up for dead" not in blocked.log
