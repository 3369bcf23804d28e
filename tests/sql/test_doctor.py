"""Every check of the doctor runs on every version of PostgreSQL."""

from __future__ import annotations

from howdah import JobQueue
from tests.conftest import Db


def test_nothing_is_found_but_that_these_servers_are_not_durable(queue: JobQueue, db: Db) -> None:
    # The tests before have left dead rows.
    db.execute("VACUUM")
    diagnosis = queue.doctor()
    assert [finding.code for finding in diagnosis] == ["fsync-off", "full-page-writes-off"]
    assert diagnosis.unseen == []
