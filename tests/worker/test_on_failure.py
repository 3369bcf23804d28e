"""``on_failure=``: a handler that runs when a job of another one has failed for good."""

from __future__ import annotations

from typing import Any

import pytest

from howdah import FailedJob, InvalidOption, JobQueue
from howdah.encryption import EncryptedCodec, new_key
from tests.clock import TestClock
from tests.worker.in_process import drain


@pytest.mark.parametrize("codec", [None, EncryptedCodec(new_key())], ids=["plain", "encrypted"])
def test_the_other_handler_gets_the_job_that_failed(dsn: str, codec: Any, clock: TestClock) -> None:
    queue = JobQueue(dsn, codec=codec)
    seen: list[FailedJob] = []

    @queue.job
    def tell(failed: FailedJob) -> str:
        seen.append(failed)
        return f"told about {failed.job_type}"

    @queue.job(on_failure=tell, max_attempts=2, retry=[0])
    def pay(order: int) -> None:
        raise ValueError(f"order {order} is unpaid")

    @queue.job(on_failure="tell", max_attempts=1, timeout=60)
    def ship(order: int) -> None: ...

    job = pay.enqueue(order=7)
    drain(queue)
    drain(queue)
    assert seen == [FailedJob(job.id, "pay", "ValueError: order 7 is unpaid", {"order": 7}, 2)]
    told = list(queue.list(job_type="tell"))
    assert [(each.status, each.result, each.data["failed"]["data"]) for each in told] == [
        ("completed", "told about pay", {"order": 7})
    ]
    # The sweep fails it, when no worker is there: the other job is added by the database.
    job = ship.enqueue(order=8)
    (held,) = queue.claim(["ship"])
    queue.start(held)
    clock.advance(3600)
    queue.recover()
    drain(queue)
    assert (seen[1].id, seen[1].job_type, seen[1].data) == (job.id, "ship", {"order": 8})
    assert seen[1].error == queue.get(job).last_error
    queue.close()


def test_a_value_of_another_key_is_not_read_as_plain(dsn: str) -> None:
    """The record around it is plain JSON. The data inside is not, and must not be trusted without the key."""
    queue = JobQueue(dsn, codec=EncryptedCodec(new_key()))
    called: list[FailedJob] = []

    @queue.job
    def tell(failed: FailedJob) -> None:
        called.append(failed)

    record = {"id": str(queue.enqueue("x").id), "job_type": "x", "error": "boom", "data": {"order": 7}, "attempts": 1}
    with JobQueue(dsn) as plain:
        job = plain.enqueue("tell", {"failed": record})
    drain(queue)
    assert called == []
    assert "not encrypted" in (queue.get(job).last_error or "")
    queue.close()


def test_a_handler_that_cannot_be_one_is_refused(queue: JobQueue) -> None:
    @queue.job
    def deaf(order: int) -> None: ...

    other = JobQueue("host=/nowhere")

    @other.job
    def elsewhere(failed: FailedJob) -> None: ...

    wrong: dict[Any, str] = {
        deaf: "for on_failure there is no argument 'failed': it has order",
        elsewhere: "a handler of another queue",
        5: "a job type is a str",
        "": "must not be empty",
    }
    for on_failure, words in wrong.items():
        with pytest.raises(Exception, match=words):
            queue.job(on_failure=on_failure)(lambda: None)
    queue.job(name="pay", on_failure="deaf")(lambda: None)
    with pytest.raises(InvalidOption, match="for on_failure there is no argument 'failed'"):
        queue.worker()
    queue.handlers.pop("pay")
    queue.job(name="pay", on_failure="in another program")(lambda: None)
    queue.worker()
