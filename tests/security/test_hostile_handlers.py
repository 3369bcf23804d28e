"""Case 37: whatever a handler does, its failure is recorded, the other jobs complete and its worker keeps running."""

from __future__ import annotations

import pytest

from howdah import JobQueue
from tests.security.hostile_handlers import FINE, RAISED, RETURNED
from tests.security.working import work

WHERE = ["on_the_loop", "in_a_thread", "in_a_child"]


def test_every_failure_is_recorded_and_every_other_job_completes(dsn: str, queue: JobQueue) -> None:
    jobs = {
        (where, how): queue.enqueue(where, {"how": how}, max_attempts=1)
        for where in WHERE
        for how in (*RAISED, *RETURNED, *FINE)
    }
    said = work("tests.security.hostile_handlers", dsn, "--drain", "--children", "1")
    assert said.code == 0, said.err
    for (where, how), job in jobs.items():
        ended = queue.get(job)
        if how in FINE:
            assert (ended.status, ended.result) == ("completed", FINE[how]), (where, how, ended.last_error)
            continue
        assert (ended.status, ended.attempts, ended.crashes) == ("failed", 1, 0), (where, how, ended.last_error)
        error = ended.last_error or ""
        # A coroutine cannot raise StopIteration: Python makes a RuntimeError of it, and names it.
        kind = type(RAISED[how]).__name__ if how in RAISED else "result"
        assert kind in error, (where, how, error)
        if how in RAISED:
            assert "misbehave" in (ended.errors[0].traceback or ""), (where, how)


@pytest.mark.parametrize(
    ("where", "how"), [("in_a_thread", "closes everything"), ("in_a_child", "closes everything")], ids=str
)
def test_a_handler_that_closes_the_streams_of_its_process_ends_its_job(
    dsn: str, queue: JobQueue, where: str, how: str
) -> None:
    job = queue.enqueue(where, {"how": how}, max_attempts=1)
    after = queue.enqueue(where, {"how": "text"}, max_attempts=1)
    said = work("tests.security.hostile_handlers", dsn, "--drain", "--children", "1", "--concurrency", "1")
    assert [queue.get(each).status for each in (job, after)] == ["completed", "completed"], said.err
    assert said.code == 0
