"""Many jobs at once: ``queue.select(…)`` and its verbs."""

from __future__ import annotations

import asyncio
import inspect
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from howdah import ChangedCount, InvalidInput, InvalidOption, Job, JobQueue, LeaseLost, Selection
from howdah.db.plan import Call
from howdah.encryption import EncryptedCodec, new_key
from howdah.model.job import STATUSES
from howdah.verbs import selection as selections
from tests.cli.runner import failed_job
from tests.client.test_verbs import parameters
from tests.clock import TestClock
from tests.conftest import Connect, Db

VERBS: dict[str, Callable[[Selection], ChangedCount]] = {
    "cancel": lambda selection: selection.cancel(),
    "delete": lambda selection: selection.delete(),
    "reprioritise": lambda selection: selection.reprioritise(7),
    "reschedule": lambda selection: selection.reschedule(),
    "retry": lambda selection: selection.retry(),
}


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selections, "BATCH", 2)


def one_of_each(queue: JobQueue, job_type: str = "mail") -> dict[str, Job]:
    """A job in each status."""
    for _ in STATUSES:
        queue.enqueue(job_type)
    failed, completed, running, claimed, cancelled = queue.claim([job_type], 5)
    queue.fail(failed, "broken", give_up=True)
    queue.complete(completed)
    queue.start(running)
    queue.cancel(cancelled)
    jobs: dict[str, Job] = {job.status: job for job in queue.list(job_type=job_type)}
    assert set(jobs) == set(STATUSES)
    assert jobs["claimed"].id == claimed.id
    return jobs


def statuses(queue: JobQueue, jobs: dict[str, Job]) -> dict[str, str | None]:
    """What has become of each job; None if it was deleted."""
    now = {job.id: job.status for job in queue.list(limit=100)}
    return {name: now.get(job.id) for name, job in jobs.items()}


# Filters


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_an_awaited_twin_with_the_same_signature_and_docstring(name: str) -> None:
    plain, awaited = getattr(Selection, name), getattr(Selection, f"a{name}")
    assert inspect.iscoroutinefunction(awaited)
    assert parameters(plain) == parameters(awaited)
    assert inspect.getdoc(plain) == inspect.getdoc(awaited)
    assert next(iter(inspect.signature(plain).parameters)) == "self"
    assert awaited.__qualname__ == f"Selection.a{name}"


def test_each_filter_selects(queue: JobQueue) -> None:
    failed_job(queue, "mail", "TimeoutError: too slow")
    failed_job(queue, "mail", "ValueError: no address", key="b")
    failed_job(queue, "text", "TimeoutError: too slow")
    queue.enqueue("mail", key="a")
    queue.enqueue("text", key="a")
    for filters, expected in (
        ({}, 5),
        ({"job_type": "mail"}, 3),
        ({"job_type": ["mail", "text"]}, 5),
        ({"job_type": {"text"}}, 2),
        ({"job_type": []}, 0),
        ({"job_type": "none"}, 0),
        ({"status": "failed"}, 3),
        ({"status": ["failed", "pending"]}, 5),
        ({"status": ()}, 0),
        ({"key": "a"}, 2),
        ({"key": "b"}, 1),
        ({"key": "A"}, 0),
        ({"error": "Timeout"}, 2),
        ({"error": "timeout"}, 0),
        ({"error": ": no add"}, 1),
        ({"error": "%"}, 0),
        ({"older_than": 0}, 5),
        ({"older_than": 3600}, 0),
        ({"job_type": "mail", "status": "failed", "error": "Timeout"}, 1),
        ({"job_type": "mail", "key": "a", "status": "failed"}, 0),
    ):
        assert queue.select(**filters).count() == expected, filters


@pytest.mark.usefixtures("small_batches")
def test_a_flow_key_selects_its_jobs_of_all_types(queue: JobQueue) -> None:
    failed_job(queue, "mail", "no", per="acme")
    for job_type in ("mail", "mail", "text"):
        queue.enqueue(job_type, per="acme")
    queue.enqueue("mail", per=17)
    queue.enqueue("plain")
    (running,) = queue.claim(["text"])
    queue.start(running)
    acme = queue.select(per="acme")
    assert acme.count().groups == {("mail", "failed"): 1, ("mail", "pending"): 2, ("text", "running"): 1}
    assert queue.select(per="acme", job_type="text").count() == 1
    assert queue.select(per=17).count() == queue.select(per="17", status="pending").count() == 1
    assert queue.select(per="bolt").count() == 0
    cancelled = acme.cancel()
    assert (cancelled, cancelled.asked) == (3, 1)
    assert acme.retry() == 1
    assert queue.select().count().groups == {
        ("mail", "cancelled"): 2,
        ("mail", "pending"): 2,
        ("plain", "pending"): 1,
        ("text", "running"): 1,
    }


def test_the_age_of_a_live_job_counts_from_its_creation_and_that_of_an_ended_one_from_its_end(
    queue: JobQueue, clock: TestClock
) -> None:
    queue.enqueue("live")
    queue.enqueue("ended")
    clock.advance(600)
    (held,) = queue.claim(["ended"])
    queue.complete(held)
    clock.advance(60)
    hour = queue.select(older_than=timedelta(minutes=10))
    assert dict(hour.count().groups) == {("live", "pending"): 1}
    assert queue.select(older_than=60).count() == 2
    assert queue.select(older_than=61, job_type="ended").count() == 0
    assert queue.select(older_than=660).count() == 1
    assert queue.select(older_than=661).count() == 0


def test_a_count_has_the_types_and_statuses(queue: JobQueue) -> None:
    queue.enqueue_many("mail", range(3))
    failed_job(queue, "text", "no")
    count = queue.select().count()
    assert (count, count.groups) == (4, {("mail", "pending"): 3, ("text", "failed"): 1})
    assert queue.select().count("retry").groups == {("text", "failed"): 1}
    assert queue.select().count("cancel") == queue.select().count("reschedule") == 3
    assert queue.select(job_type="none").count().groups == {}
    assert pickle.loads(pickle.dumps(count)).groups == count.groups


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ({"status": "late"}, "they are pending"),
        ({"status": 7}, "one or several"),
        ({"job_type": ""}, "must not be empty"),
        ({"job_type": 7}, "list of str"),
        ({"key": ""}, "1 to 200 characters"),
        ({"per": 1.5}, "per is a str"),
        ({"error": ""}, "leave it out"),
        ({"error": 7}, "error is a str"),
        ({"older_than": -1}, "not be negative"),
        ({"older_than": "1h"}, "seconds or a timedelta"),
        ({"everything": True, "key": "a"}, "exclude each other"),
    ],
)
def test_a_wrong_filter_is_refused_at_once(queue: JobQueue, filters: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        queue.select(**filters)


def test_errors_that_are_encrypted_cannot_be_searched(dsn: str) -> None:
    with (
        JobQueue(dsn, codec=EncryptedCodec(new_key())) as queue,
        pytest.raises(InvalidInput, match="through a codec"),
    ):
        queue.select(error="a")


def test_a_selection_shows_its_filters(queue: JobQueue) -> None:
    shown = repr(queue.select(job_type="mail", older_than=60))
    assert shown == "Selection(job_types=['mail'], older_than=datetime.timedelta(seconds=60))"


# Verbs


def test_each_verb_changes_what_it_can_change_and_no_more(queue: JobQueue) -> None:
    jobs = one_of_each(queue)
    others = one_of_each(queue, "other")
    mail = queue.select(job_type="mail")
    assert mail.retry() == 1
    assert queue.get(jobs["failed"]).attempts == 0
    assert mail.reprioritise(150) == 2
    assert mail.reschedule(delay=3600) == 2
    for name in ("failed", "pending"):
        changed = queue.get(jobs[name])
        assert (changed.status, changed.priority) == ("pending", 150)
        assert changed.run_at > datetime.now(timezone.utc) + timedelta(minutes=59)
    cancelled = mail.cancel("not needed")
    assert (cancelled, cancelled.asked, cancelled.unchanged, cancelled.skipped) == (4, 1, 0, 0)
    assert statuses(queue, jobs) == {
        "pending": "cancelled",
        "claimed": "cancelled",
        "running": "running",
        "completed": "completed",
        "failed": "cancelled",
        "cancelled": "cancelled",
    }
    assert queue.get(jobs["pending"]).last_error == queue.get(jobs["running"]).last_error == "not needed"
    assert mail.delete() == 5
    assert [job.status for job in queue.list(job_type="mail")] == ["running"]
    assert statuses(queue, others) == {status: status for status in STATUSES}


def test_completed_and_cancelled_jobs_are_retried_by_request(queue: JobQueue) -> None:
    jobs = one_of_each(queue)
    assert queue.select(job_type="mail", status=["completed", "cancelled"]).retry() == 2
    assert statuses(queue, jobs)["failed"] == "failed"
    assert statuses(queue, jobs)["completed"] == statuses(queue, jobs)["cancelled"] == "pending"


def test_a_deleted_job_leaves_nothing(queue: JobQueue, db: Db) -> None:
    jobs = one_of_each(queue)
    (running,) = queue.list(status="running")
    queue.event(queue.get(running), "seen")
    assert queue.select(everything=True).delete() == 5
    assert [job.id for job in queue.list()] == [jobs["running"].id]
    stats = queue.stats()["mail"]
    assert (stats.running, stats.pending, stats.completed, stats.failed, stats.cancelled) == (1, 0, 0, 0, 0)
    assert db.execute("SELECT DISTINCT job_id FROM events").fetchall() == [{"job_id": running.id}]
    queue.enqueue("mail", id=jobs["failed"].id)
    assert queue.get(jobs["failed"]).status == "pending"


def test_one_job_is_deleted_unless_it_runs(queue: JobQueue) -> None:
    jobs = one_of_each(queue)
    assert queue.delete(jobs["running"]) is False
    assert queue.delete(jobs["failed"]) is True
    assert queue.delete(jobs["pending"]) is True
    assert statuses(queue, jobs)["running"] == "running"
    assert statuses(queue, jobs)["failed"] is statuses(queue, jobs)["pending"] is None


def test_the_holder_of_a_deleted_job_has_lost_it(queue: JobQueue) -> None:
    queue.enqueue("mail")
    (held,) = queue.claim(["mail"])
    assert queue.select(job_type="mail").delete() == 1
    with pytest.raises(LeaseLost):
        queue.start(held)


@pytest.mark.parametrize("verb", VERBS)
def test_without_a_filter_nothing_is_changed(queue: JobQueue, verb: str) -> None:
    jobs = one_of_each(queue)
    with pytest.raises(InvalidInput, match=rf"no filter, and {verb} would change every job: .* everything=True"):
        VERBS[verb](queue.select())
    assert statuses(queue, jobs) == {status: status for status in STATUSES}
    assert queue.select().count() == 6
    assert VERBS[verb](queue.select(everything=True)) > 0


@pytest.mark.parametrize("verb", VERBS)
def test_nothing_matches_and_nothing_is_changed(queue: JobQueue, verb: str) -> None:
    jobs = one_of_each(queue)
    changed = VERBS[verb](queue.select(job_type="none"))
    assert (changed, changed.asked, changed.unchanged, changed.skipped) == (0, 0, 0, 0)
    assert VERBS[verb](queue.select(job_type=[])) == 0
    assert statuses(queue, jobs) == {status: status for status in STATUSES}


@pytest.mark.parametrize(
    ("verb", "status", "said"),
    [
        ("retry", "pending", "It takes jobs that are completed, failed, cancelled"),
        ("cancel", "failed", "It takes jobs that are pending, claimed, running"),
        ("delete", ["failed", "running"], "Cancel running jobs first"),
        ("reprioritise", "claimed", "It takes jobs that are pending"),
        ("reschedule", "completed", "It takes jobs that are pending"),
    ],
)
def test_a_status_that_the_verb_cannot_change_is_refused(queue: JobQueue, verb: str, status: Any, said: str) -> None:
    one_of_each(queue)
    with pytest.raises(InvalidInput, match=said):
        VERBS[verb](queue.select(status=status))
    with pytest.raises(InvalidInput, match=said):
        queue.select(status=status).count(verb)  # type: ignore[arg-type]


def test_wrong_arguments_are_refused(queue: JobQueue) -> None:
    queue.enqueue("mail")
    mail = queue.select(job_type="mail")
    with pytest.raises(InvalidInput, match="priority is an int"):
        mail.reprioritise("high")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="exclude each other"):
        mail.reschedule(run_at=datetime.now(timezone.utc), delay=1)
    with pytest.raises(InvalidInput, match="The verbs are cancel, delete"):
        mail.count("burn")  # type: ignore[arg-type]
    assert mail.reschedule() == 1


def test_all_are_due_at_the_same_time(queue: JobQueue, small_batches: None) -> None:
    queue.enqueue_many("mail", range(5))
    queue.select(job_type="mail").reschedule(delay=60)
    (due,) = {job.run_at for job in queue.list()}
    queue.select(job_type="mail").reschedule(run_at=due + timedelta(days=1))
    assert {job.run_at for job in queue.list()} == {due + timedelta(days=1)}


# Batches


def test_more_jobs_than_a_batch(queue: JobQueue) -> None:
    queue.enqueue_many("mail", range(2_500))
    seen: list[ChangedCount] = []
    assert queue.select(job_type="mail").reprioritise(7, on_progress=seen.append) == 2_500
    assert seen == [1_000, 2_000, 2_500]
    assert queue.select(job_type="mail").cancel() == 2_500
    assert queue.select(job_type="mail", status="cancelled").retry() == 2_500
    assert queue.select(job_type="mail").delete() == 2_500
    assert queue.list().jobs == ()


def test_matches_far_apart_are_all_found(queue: JobQueue, small_batches: None) -> None:
    """A window has twenty jobs here: most windows have no match."""
    for _ in range(4):
        queue.enqueue("rare")
        queue.enqueue_many("common", range(45))
    seen: list[ChangedCount] = []
    assert queue.select(job_type="rare").cancel(on_progress=seen.append) == 4
    assert len(seen) >= 9
    assert queue.select(job_type="common").count() == 180
    queue.enqueue("rare", id="00000000-0000-0000-0000-000000000000")
    queue.enqueue("rare", id="ffffffff-ffff-ffff-ffff-ffffffffffff")
    assert queue.select(job_type="rare").delete() == 6


def test_jobs_that_are_added_meanwhile_are_left(queue: JobQueue, small_batches: None) -> None:
    queue.enqueue_many("mail", range(5))
    added: list[Job] = []
    cancelled = queue.select(job_type="mail").cancel(on_progress=lambda _: added.append(queue.enqueue("mail")))
    assert (cancelled, len(added)) == (5, 3)
    assert {queue.get(job).status for job in added} == {"pending"}


def test_a_job_that_fails_again_is_not_retried_again(queue: JobQueue, small_batches: None) -> None:
    for _ in range(5):
        failed_job(queue, "mail", "no")

    def fail_again(_: ChangedCount) -> None:
        for job in queue.claim(["mail"], 10):
            queue.fail(job, "no again", give_up=True)

    assert queue.select(status="failed").retry(on_progress=fail_again) == 5
    assert {(job.status, job.last_error) for job in queue.list()} == {("failed", "no again")}


def test_a_batch_that_takes_too_long_is_halved() -> None:
    with JobQueue("postgresql://nowhere") as queue:
        chosen = queue.select(job_type="mail")._context
    plan = selections.retry(chosen)
    next(plan)
    called = plan.send([{"clock": datetime.now(timezone.utc)}])
    assert isinstance(called, Call)
    assert called.arguments["limit"] == 1_000
    again = plan.throw(psycopg.errors.QueryCanceled())
    assert isinstance(again, Call)
    assert again.arguments == {**called.arguments, "limit": 500}
    mine: Any = object()
    in_transaction = selections.retry(chosen, conn=mine)
    next(in_transaction)
    in_transaction.send([{"clock": datetime.now(timezone.utc)}])
    with pytest.raises(psycopg.errors.QueryCanceled):
        in_transaction.throw(psycopg.errors.QueryCanceled())


# Other transactions


def test_jobs_that_another_transaction_has_locked_are_skipped(queue: JobQueue, connect: Connect) -> None:
    pending, other = queue.enqueue("mail"), queue.enqueue("mail")
    failed, also_failed = failed_job(queue, "text", "no"), failed_job(queue, "text", "no")
    with connect(autocommit=False) as session:
        session.execute("SELECT FROM live WHERE id = %s FOR UPDATE", (pending.id,))
        session.execute("SELECT FROM archive WHERE id = %s FOR UPDATE", (failed.id,))
        for verb, job_type in (("reprioritise", "mail"), ("reschedule", "mail"), ("cancel", "mail"), ("retry", "text")):
            changed = VERBS[verb](queue.select(job_type=job_type))
            assert (changed, changed.skipped) == (1, 1), verb
        changed = queue.select(everything=True).delete()
        assert (changed, changed.skipped) == (2, 2)
    assert {job.id for job in queue.list()} == {pending.id, failed.id}
    assert {other.id, also_failed.id}.isdisjoint(job.id for job in queue.list())


def test_a_key_that_another_transaction_adds_is_not_waited_for(queue: JobQueue, connect: Connect) -> None:
    jobs = [failed_job(queue, "mail", "no", key=str(n)) for n in range(3)]
    with connect(autocommit=False) as session:
        session.execute("SELECT FROM enqueue('mail', p_key => '1')")
        changed = queue.select(status="failed").retry()
        assert (changed, changed.skipped, changed.unchanged) == (2, 1, 0)
    assert [queue.get(job).status for job in jobs] == ["pending", "failed", "pending"]


def test_many_keys_that_another_transaction_adds_are_not_waited_for_one_after_the_other(
    queue: JobQueue, connect: Connect
) -> None:
    for n in range(30):
        failed_job(queue, "mail", "no", key=str(n))
    with connect(autocommit=False) as session:
        session.execute("SELECT count(*) FROM generate_series(0, 29) AS n, enqueue('mail', p_key => n::text)")
        other = connect()
        # One wait of retry itself may take five seconds.
        other.execute("SET statement_timeout = '20s'")
        answer = other.execute("SELECT * FROM change_selected('retry', p_statuses => '{failed}')").fetchone()
        changed = queue.select(status="failed").retry()
    assert answer is not None
    assert (answer["changed"], answer["skipped"]) == (changed, changed.skipped) == (0, 30)


def test_a_job_whose_key_is_taken_stays_as_it_is(queue: JobQueue) -> None:
    first, second = failed_job(queue, "mail", "no", key="a"), failed_job(queue, "mail", "no", key="b")
    queue.enqueue("mail", key="a")
    changed = queue.select(status="failed").retry()
    assert (changed, changed.unchanged, changed.skipped) == (1, 1, 0)
    assert [queue.get(job).status for job in (first, second)] == ["failed", "pending"]


def test_a_running_job_is_asked_once(queue: JobQueue) -> None:
    jobs = one_of_each(queue)
    running = queue.select(status="running")
    assert (running.cancel(), running.cancel().unchanged) == (1, 1)
    job = queue.get(jobs["running"])
    assert job.status == "running"
    assert job.cancel_requested_at is not None


def test_a_job_that_changes_between_the_count_and_the_verb_is_judged_anew(queue: JobQueue) -> None:
    queue.enqueue_many("mail", range(2))
    pending = queue.select(job_type="mail", status="pending")
    assert pending.count() == 2
    (claimed,) = queue.claim(["mail"], 1)
    assert pending.cancel() == 1
    assert queue.get(claimed).status == "claimed"


def test_jobs_that_are_claimed_meanwhile_are_not_deleted(queue: JobQueue, small_batches: None) -> None:
    queue.enqueue_many("mail", range(400))
    claimed: list[Job] = []

    def claim_half() -> None:
        while len(claimed) < 200 and (more := queue.claim(["mail"], 3)):
            claimed.extend(more)

    with ThreadPoolExecutor(1) as pool:
        claiming = pool.submit(claim_half)
        deleted = queue.select(job_type="mail", status="pending").delete()
        claiming.result()
    left = {job.id: job.status for job in queue.list(limit=1_000)}
    assert {job.id: "claimed" for job in claimed}.items() <= left.items()
    assert deleted + len(left) == 400
    assert len(left) <= len(claimed) + deleted.skipped


# Forms


def test_in_the_callers_transaction_it_is_undone_with_it(queue: JobQueue, dsn: str, small_batches: None) -> None:
    queue.enqueue_many("mail", range(5))
    with psycopg.connect(dsn) as conn:
        assert queue.select(job_type="mail").cancel(conn=conn) == 5
        assert queue.select(job_type="mail", status="cancelled").count(conn=conn) == 5
        assert queue.select(status="pending").count() == 5
        conn.rollback()
    assert queue.select(status="pending").count() == 5


def test_awaited(dsn: str, small_batches: None) -> None:
    async def main() -> None:
        async with JobQueue(dsn) as queue:
            await queue.aenqueue_many("mail", range(5))
            mail = queue.select(job_type="mail")
            seen: list[ChangedCount] = []
            assert await mail.acount() == 5
            assert await mail.areprioritise(7) == 5
            assert await mail.areschedule(delay=60) == 5
            assert await mail.acancel("no", on_progress=seen.append) == 5
            assert seen == [2, 4, 5]
            assert await queue.select(status="cancelled").aretry() == 5
            async with await psycopg.AsyncConnection.connect(dsn) as conn:
                assert await mail.adelete(conn=conn) == 5
            with pytest.raises(InvalidInput):
                await queue.select().adelete()

    asyncio.run(main())


def test_counts_add_up() -> None:
    first = ChangedCount(2, asked=1, skipped=3)
    total = first.plus(changed=1, asked=0, unchanged=4, skipped=1)
    assert repr(total) == "ChangedCount(3, asked=1, unchanged=4, skipped=4)"
    assert pickle.loads(pickle.dumps(total)).skipped == 4


def test_wildcards_stand_for_types_with_a_handler_here_or_in_a_worker(queue: JobQueue, db: Db) -> None:
    db.execute("SELECT howdah.declare_type('mail.send')")  # as a worker elsewhere does
    queue.job(name="mail.bounce")(lambda: None)
    for name in ("mail.send", "mail.bounce", "report", "mailing"):
        queue.enqueue(name)
    assert sorted(job.job_type for job in queue.list(job_type="mail.*")) == ["mail.bounce", "mail.send"]
    assert sorted(job.job_type for job in queue.list(job_type=["*.send", "report"])) == ["mail.send", "report"]
    assert queue.select(job_type="mail.*").cancel() == 2
    assert queue.stats()["report"].pending == 1
    for verb in (lambda: queue.list(job_type="sms.*"), lambda: queue.select(job_type=["report", "sms.*"]).delete()):
        with pytest.raises(InvalidOption, match=r"no job type matches 'sms.\*': there are mail.bounce, mail.send"):
            verb()
