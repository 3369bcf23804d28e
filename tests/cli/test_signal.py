"""``howdah signal``, and what the other commands show of a job that waits."""

from __future__ import annotations

import json
import re

import pytest

from howdah import Job, JobQueue, SignalTimeout
from tests.cli.runner import howdah
from tests.clock import TestClock
from tests.conftest import Db
from tests.worker.in_process import drain


def waiting(queue: JobQueue) -> Job:
    @queue.job(max_attempts=1)
    def order(job: Job) -> object:
        job.step("reserve", lambda: {"seat": "12a"})
        return job.wait_signal("paid", key="17", timeout=3600)

    job = order.enqueue()
    drain(queue)
    return job


def test_it_wakes_those_that_wait_or_is_kept(dsn: str, queue: JobQueue) -> None:
    job = waiting(queue)
    kept = howdah("signal", "paid", dsn=dsn)
    assert (kept.code, kept.out) == (0, "no job waits for it: it is kept for the next one that does\n")
    assert howdah("signal", "paid", "--data", "euro=5", "--key", "17", dsn=dsn).out == "1 job woken\n"
    drain(queue)
    assert queue.get(job).result == {"euro": 5}
    sent = howdah("signal", "paid", '{"euro": 6}', "--key", "17", "--json", dsn=dsn)
    assert json.loads(sent.out) == {"woken": 0, "kept": True}
    wrong = howdah("signal", "paid", "{", dsn=dsn)
    assert (wrong.code, "is not JSON" in wrong.err) == (2, True)


def test_the_other_commands_show_what_a_job_waits_for(dsn: str, queue: JobQueue, db: Db) -> None:
    job = waiting(queue)
    says = "waits for the signal paid (key 17) since 20"
    shown = howdah("show", str(job.id), dsn=dsn).out
    assert says in shown
    assert re.search("reserve +done 20", shown)
    assert '{"seat": "12a"}' in shown.replace('{"seat":"12a"}', '{"seat": "12a"}')
    assert "signal:paid:17#1  waits since" in shown
    assert [step["state"] for step in json.loads(howdah("show", str(job.id), "--json", dsn=dsn).out)["steps"]] == [
        "done",
        "waiting",
    ]
    assert says in howdah("list", dsn=dsn).out
    for verb in ("retry", "reschedule"):
        refused = howdah(verb, str(job.id), dsn=dsn)
        assert (refused.code, says in refused.out) == (1, True)
    assert db.execute("SELECT FROM live WHERE status = 'pending'").rowcount == 1


def test_a_fresh_retry_begins_without_the_steps(dsn: str, queue: JobQueue, clock: TestClock) -> None:
    job = waiting(queue)
    clock.advance(3601)
    drain(queue)
    failed = queue.get(job)
    assert (failed.status, failed.errors[-1].exception) == ("failed", "howdah.errors.SignalTimeout")
    assert issubclass(SignalTimeout, TimeoutError)
    assert howdah("retry", str(job.id), dsn=dsn).code == 0
    assert [step.name for step in queue.steps(job)] == ["reserve"]
    queue.cancel(job)
    assert howdah("retry", "--type", "order", "--status", "cancelled", "--fresh", dsn=dsn).code == 0
    assert queue.steps(job) == []


@pytest.mark.parametrize("arguments", [["signal"], ["signal", ""], ["signal", "a", "--key", ""]])
def test_a_wrong_call_exits_with_2(dsn: str, arguments: list[str]) -> None:
    assert howdah(*arguments, dsn=dsn).code == 2
