"""A client continues to work while a newer schema, with columns that it does not know, is installed."""

from __future__ import annotations

from howdah import JobQueue
from tests.conftest import Db


def test_columns_that_are_not_known_yet_are_passed_over(queue: JobQueue, db: Db) -> None:
    queue.enqueue("import", {"file": 7})
    db.execute("ALTER TABLE howdah.live ADD COLUMN of_the_future int DEFAULT 1")
    try:
        (job,) = queue.claim(["import"])
        assert (job.data, job.attempts) == ({"file": 7}, 1)
        queue.complete(job)
    finally:
        db.execute("ALTER TABLE howdah.live DROP COLUMN of_the_future")
