"""``conn=`` on every driver: the verbs are part of the caller's transaction, and their answers are those on psycopg 3."""

from __future__ import annotations

import pytest

from howdah import JobQueue
from tests.drivers.callers import FORMS, opened

EVERY = pytest.mark.parametrize("name", FORMS)


@EVERY
def test_a_verb_is_part_of_the_callers_transaction(dsn: str, queue: JobQueue, name: str) -> None:
    many = range(3)
    with opened(FORMS[name], dsn) as caller:
        caller.begin()
        # The bulk first: its savepoint must not become the transaction.
        assert caller.call(queue, "enqueue_many", "mail", many) == 3
        caller.call(queue, "enqueue", "mail")
        caller.rollback()
        assert len(queue.list()) == 0

        caller.begin()
        with caller.undone():
            caller.call(queue, "enqueue_many", "mail", many)
            caller.call(queue, "enqueue", "mail")
        kept = caller.call(queue, "enqueue", "mail", "kept")
        assert len(queue.list()) == 0
        caller.commit()
        assert [job.id for job in queue.list()] == [kept.id]

        (job,) = queue.claim(["mail"])
        queue.start(job)
        caller.begin()
        caller.call(queue, "complete", job, "undone")
        caller.rollback()
        assert queue.get(job).status == "running"
        caller.begin()
        caller.call(queue, "complete", job, "done")
        caller.commit()
        assert (queue.get(job).status, queue.get(job).result) == ("completed", "done")
