"""``cancel``, ``retry``, ``delete``, ``reprioritise``, ``reschedule``, ``pause`` and ``resume``."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta, timezone

import pytest

from howdah import JobQueue
from tests.cli.runner import failed_job, howdah
from tests.conftest import Connect


def test_cancel_prints_the_outcome_of_each_job(dsn: str, queue: JobQueue) -> None:
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


def test_retry_prints_the_reason_of_a_refusal(dsn: str, queue: JobQueue) -> None:
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


VERBS = {"cancel": [], "retry": [], "delete": [], "reprioritise": ["150"], "reschedule": ["--delay", "1h"]}


@pytest.mark.parametrize("verb", VERBS)
def test_without_ids_and_filters_it_exits_with_2(dsn: str, queue: JobQueue, verb: str) -> None:
    job = queue.enqueue("x")
    for more in ([], ["--dry-run"]):
        outcome = howdah(verb, *VERBS[verb], *more, dsn=dsn)
        assert (outcome.code, outcome.out) == (2, "")
        assert "--everything is every job" in outcome.err
    assert queue.get(job) == job


@pytest.mark.parametrize("verb", VERBS)
def test_ids_and_filters_exclude_each_other(dsn: str, queue: JobQueue, verb: str) -> None:
    job = queue.enqueue("x")
    for more in (["--type", "x"], ["--everything"], ["--dry-run"]):
        outcome = howdah(verb, *(["150"] if verb == "reprioritise" else []), str(job.id), *more, dsn=dsn)
        assert (outcome.code, outcome.out) == (2, "")
        assert "exclude each other" in outcome.err
    assert howdah(verb, *VERBS[verb], "--everything", "--type", "x", dsn=dsn).code == 2
    assert queue.get(job) == job


def test_delete_reprioritise_and_reschedule_print_the_outcome_of_each_job(dsn: str, queue: JobQueue) -> None:
    waiting, ended = queue.enqueue("x"), failed_job(queue, "y", "broken")
    queue.enqueue("z")
    (running,) = queue.claim(["z"])
    queue.start(running)
    missing = uuid.uuid4()
    wanted = [str(each) for each in (waiting.id, ended.id, running.id, missing)]
    raised = howdah("reprioritise", "explicit", *wanted, dsn=dsn)
    assert raised.code == 1
    assert raised.out.splitlines() == [
        f"{waiting.id}  has priority 150 (explicit)",
        f"{ended.id}  is not pending: it is failed",
        f"{running.id}  is not pending: it is running",
        f"{missing}  not found",
    ]
    postponed = howdah("reschedule", str(waiting.id), "--run-at", "2100-01-01T00:00+00:00", dsn=dsn)
    assert postponed.code == 0
    assert postponed.out.startswith(f"{waiting.id}  is due 2100-01-01 00:00:00.000 UTC")
    assert howdah("reschedule", str(waiting.id), dsn=dsn).code == 0
    assert queue.get(waiting).run_at < datetime.now(timezone.utc) + timedelta(minutes=1)
    deleted = howdah("delete", *wanted, dsn=dsn)
    assert deleted.code == 1
    assert deleted.out.splitlines() == [
        f"{waiting.id}  deleted",
        f"{ended.id}  deleted",
        f"{running.id}  is running: cancel it first",
        f"{missing}  not found",
    ]
    assert [job.id for job in queue.list()] == [running.id]


def test_a_dry_run_counts_and_changes_nothing(dsn: str, queue: JobQueue) -> None:
    failed_job(queue, "mail", "TimeoutError")
    failed_job(queue, "mail", "ValueError")
    failed_job(queue, "text", "TimeoutError")
    queue.enqueue_many("mail", range(1_200))
    before = queue.stats()
    outcome = howdah("retry", "--error", "Timeout", "--dry-run", dsn=dsn)
    assert outcome.code == 0
    assert [line.split() for line in outcome.out.splitlines()[:3]] == [
        ["type", "status", "jobs"],
        ["mail", "failed", "1"],
        ["text", "failed", "1"],
    ]
    assert outcome.out.splitlines()[3:] == ["2 jobs would be made pending again; nothing was changed"]
    assert "mail  pending  1,200" in howdah("cancel", "--type", "mail", "--dry-run", dsn=dsn).out
    assert howdah("delete", "--everything", "--dry-run", "--json", dsn=dsn).lines == [
        {
            "verb": "delete",
            "dry_run": True,
            "jobs": 1_203,
            "groups": [
                {"type": "mail", "status": "failed", "jobs": 2},
                {"type": "mail", "status": "pending", "jobs": 1_200},
                {"type": "text", "status": "failed", "jobs": 1},
            ],
        }
    ]
    nothing = howdah("retry", "--older-than", "1h", "--dry-run", dsn=dsn)
    assert (nothing.code, nothing.out) == (0, "0 jobs would be made pending again; nothing was changed\n")
    assert dict(queue.stats()) == dict(before)


def test_filters_change_what_matches(dsn: str, queue: JobQueue) -> None:
    for error, key in (("TimeoutError", "a"), ("TimeoutError", "b"), ("ValueError", "c")):
        failed_job(queue, "mail", error, key=key)
    queue.enqueue("mail", key="a")
    retried = howdah("retry", "--type", "mail", "--status", "failed", "--error", "Timeout", dsn=dsn)
    assert (retried.code, retried.out) == (1, "1 job made pending again\n")
    assert retried.err == "1 job not changed: live jobs have their keys\n"
    queue.enqueue("text")
    (running,) = queue.claim(["text"])
    queue.start(running)
    raised = howdah("reprioritise", "150", "--key", "b", "--json", dsn=dsn)
    counts = {"asked": 0, "unchanged": 0, "skipped": 0}
    assert raised.lines == [{"verb": "reprioritise", "dry_run": False, "changed": 1, **counts}]
    queue.enqueue("import", per="acme")
    queue.enqueue("import", per="bolt")
    assert howdah("delete", "--per", "acme", dsn=dsn).out == "1 job deleted\n"
    assert howdah("delete", "--per", "bolt", "--type", "import", dsn=dsn).out == "1 job deleted\n"
    assert howdah("reschedule", "--type", "mail", "--delay", "1h", dsn=dsn).out == "2 jobs rescheduled\n"
    cancelled = howdah("cancel", "--type", "mail", "--type", "text", "--reason", "enough", dsn=dsn)
    assert (cancelled.code, cancelled.out) == (0, "2 jobs cancelled\n1 running job asked to stop\n")
    assert {job.last_error for job in queue.list(status="cancelled")} == {"enough"}
    again = howdah("cancel", "--type", "text", dsn=dsn)
    assert (again.code, again.out) == (1, "0 jobs cancelled\n")
    assert "they were asked to stop before" in again.err
    assert howdah("delete", "--status", "cancelled", dsn=dsn).out == "2 jobs deleted\n"
    nothing = howdah("delete", "--type", "none", dsn=dsn)
    assert (nothing.code, nothing.out, nothing.err) == (0, "0 jobs deleted\n", "")


def test_locked_jobs_are_skipped_with_a_note(dsn: str, queue: JobQueue, connect: Connect) -> None:
    job = queue.enqueue("x")
    with connect(autocommit=False) as session:
        session.execute("SELECT FROM live WHERE id = %s FOR UPDATE", (job.id,))
        outcome = howdah("cancel", "--type", "x", dsn=dsn)
    assert (outcome.code, outcome.out) == (1, "0 jobs cancelled\n")
    assert outcome.err == "1 job skipped, in use by another transaction: run the command again\n"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["retry", "--status", "pending"], "It takes jobs that are completed, failed, cancelled"),
        (["delete", "--status", "running", "--dry-run"], "Cancel running jobs first"),
        (["cancel", "--older-than", "long"], "not a duration"),
        (["cancel", "--type", ""], "must not be empty"),
        (["reprioritise", "high", "--type", "x"], "not a priority"),
        (["reprioritise", "--type", "x"], "required"),
        (["reschedule", "--type", "x", "--run-at", "2030-01-01", "--delay", "1h"], "not allowed with"),
    ],
)
def test_a_wrong_filter_exits_with_2(dsn: str, argv: list[str], said: str) -> None:
    outcome = howdah(*argv, dsn=dsn)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err


def test_a_paused_type_is_not_claimed_until_it_goes_on(dsn: str, queue: JobQueue) -> None:
    queue.enqueue("x")
    assert howdah("pause", "x", "--because", "the mail server moves", dsn=dsn).out == "x is paused\n"
    assert queue.claim(["x"]) == []
    assert "(paused)" in howdah("stats", dsn=dsn).out
    assert howdah("pause", "x", dsn=dsn).out == "x was paused already\n"
    assert howdah("resume", "x", dsn=dsn).out == "x resumed\n"
    assert len(queue.claim(["x"])) == 1
    assert howdah("resume", "x", "--json", dsn=dsn).lines == [
        {"type": "x", "per": None, "paused": False, "changed": False}
    ]


def test_a_wrong_type_exits_with_2(dsn: str) -> None:
    assert howdah("pause", "", dsn=dsn).code == 2
    assert howdah("resume", "x" * 51, dsn=dsn).code == 2
