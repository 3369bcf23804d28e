"""``cancel``, ``retry``, ``pause`` and ``resume``."""

from __future__ import annotations

import uuid

import pytest

from howdah import JobQueue
from tests.cli.runner import failed_job, howdah


def test_cancel_says_what_became_of_each_job(dsn: str, queue: JobQueue) -> None:
    waiting = queue.enqueue("x")
    ended = failed_job(queue, "y", "broken")
    queue.enqueue("z")
    (running,) = queue.claim(["z"])
    queue.start(running)
    missing = uuid.uuid4()
    wanted = [str(each) for each in (waiting.id, ended.id, running.id, missing)]
    outcome = howdah("cancel", *wanted, "--reason", "customer left", dsn=dsn)
    assert outcome.code == 1
    assert outcome.out.splitlines() == [
        f"{waiting.id}  cancelled",
        f"{ended.id}  has ended as failed",
        f"{running.id}  is running, and was asked to stop",
        f"{missing}  not found",
    ]
    assert queue.get(waiting.id).last_error == "customer left"
    again = howdah("cancel", str(running.id), dsn=dsn)
    assert (again.code, "was asked to stop already" in again.out) == (1, True)


def test_all_changed_exits_with_0(dsn: str, queue: JobQueue) -> None:
    jobs = [str(queue.enqueue("x").id) for _ in range(3)]
    outcome = howdah("cancel", "-", "--json", dsn=dsn, stdin="\n".join(jobs))
    assert outcome.code == 0
    assert outcome.lines == [
        {"id": job, "changed": True, "status": "cancelled", "outcome": "cancelled"} for job in jobs
    ]


def test_a_slip_in_one_id_changes_none(dsn: str, queue: JobQueue) -> None:
    job = queue.enqueue("x")
    assert howdah("cancel", str(job.id), "oops", dsn=dsn).code == 2
    assert queue.get(job.id).status == "pending"


def test_retry_gives_an_ended_job_a_new_life(dsn: str, queue: JobQueue) -> None:
    job = failed_job(queue, "x", "broken")
    outcome = howdah("retry", str(job.id), dsn=dsn)
    assert outcome.code == 0
    assert outcome.out == f"{job.id}  is pending again, with all its attempts\n"
    revived = queue.get(job.id)
    assert (revived.status, revived.attempts) == ("pending", 0)


def test_retry_says_why_it_did_not(dsn: str, queue: JobQueue) -> None:
    pending = queue.enqueue("x")
    ended = failed_job(queue, "y", "broken", key="k")
    queue.enqueue("y", key="k")
    missing = uuid.uuid4()
    outcome = howdah("retry", str(pending.id), str(ended.id), str(missing), dsn=dsn)
    assert outcome.code == 1
    assert outcome.out.splitlines() == [
        f"{pending.id}  has not ended: it is pending",
        f"{ended.id}  stays failed: a live job has its key 'k'",
        f"{missing}  not found",
    ]


@pytest.mark.parametrize("verb", ["cancel", "retry"])
def test_without_an_id_it_exits_with_2(dsn: str, verb: str) -> None:
    assert howdah(verb, dsn=dsn).code == 2


def test_a_paused_type_is_not_claimed_until_it_goes_on(dsn: str, queue: JobQueue) -> None:
    queue.enqueue("x")
    assert howdah("pause", "x", "--because", "the mail server moves", dsn=dsn).out == "x is paused\n"
    assert queue.claim(["x"]) == []
    assert "(paused)" in howdah("stats", dsn=dsn).out
    assert howdah("pause", "x", dsn=dsn).out == "x was paused already\n"
    assert howdah("resume", "x", dsn=dsn).out == "x resumed\n"
    assert len(queue.claim(["x"])) == 1
    assert howdah("resume", "x", "--json", dsn=dsn).lines == [{"type": "x", "paused": False, "changed": False}]


def test_a_wrong_type_exits_with_2(dsn: str) -> None:
    assert howdah("pause", "", dsn=dsn).code == 2
    assert howdah("resume", "x" * 51, dsn=dsn).code == 2
