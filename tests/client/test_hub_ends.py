"""The hub's beginning and ends: threads that cannot be started, loops that are gone, forks, queues that are closed."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading

import pytest

from howdah import JobQueue, WaitTimeout
from howdah.db.plan import LoopWaker
from howdah.watch import mailbox
from howdah.watch.readers import JobWatch
from tests.client.listener import PATIENCE, held
from tests.client.test_hub import comes


def test_the_subscription_of_a_closed_loop_is_removed(queue: JobQueue) -> None:
    job = held(queue)
    loop = asyncio.new_event_loop()

    async def waker() -> LoopWaker:
        return LoopWaker()

    box = mailbox.Mailbox(loop.run_until_complete(waker()), lambda: None)
    queue._hub().join(JobWatch(box, job.id, frozenset(["mail"]), frozenset(["event"]), True, 0))
    assert comes(lambda: box._messages)
    loop.close()
    assert comes(lambda: not queue._hub()._subscriptions), "although there is no news"


@pytest.mark.parametrize("broken", ["threading.Thread.start", "socket.socketpair"])
def test_a_thread_that_could_not_be_started_is_started_for_the_next(
    queue: JobQueue, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no more of them")

    job = held(queue)
    with monkeypatch.context() as patch:
        patch.setattr(broken, refuse)
        with pytest.raises(OSError, match="no more of them"):
            queue.wait_for(job, PATIENCE)
    assert queue._hub()._subscriptions == set()
    with pytest.raises(WaitTimeout):
        queue.wait_for(job, 0.05)
    queue.event(job, "a")
    with contextlib.closing(queue.watch(job, kinds=["event"])) as stream:
        assert next(stream).name == "a"


def test_closing_a_stream_does_not_wait_for_the_lock_of_the_hub(queue: JobQueue) -> None:
    """The garbage collector may close a stream while its thread is within the hub."""
    job = held(queue)
    queue.event(job, "a")
    stream = queue.watch(job, kinds=["event"])
    next(stream)
    with queue._hub()._lock:
        leaving = threading.Thread(target=stream.close, daemon=True)
        leaving.start()
        leaving.join(PATIENCE)
        assert not leaving.is_alive()
    assert queue._hub()._subscriptions == set()


def test_closing_the_queue_ends_a_wait_with_queue_closed(dsn: str) -> None:
    program = """
import sys, threading
from howdah import JobQueue, QueueClosed
queue = JobQueue(sys.argv[1])
job = queue.enqueue("mail")
def wait():
    try:
        queue.wait_for(job)
    except QueueClosed:
        print("closed")
waiting = threading.Thread(target=wait)
waiting.start()
while not queue._hub()._subscriptions:
    pass
queue.close()
waiting.join()
try:
    list(queue.watch(job))
except QueueClosed:
    print("closed too")
"""
    assert python(program, dsn) == "closed\nclosed too\n"


def test_a_process_that_forgets_to_close_its_queue_ends_all_the_same(dsn: str) -> None:
    program = """
import sys
from howdah import JobQueue
queue = JobQueue(sys.argv[1])
job = queue.enqueue("mail")
(claimed,) = queue.claim(["mail"])
queue.event(claimed, "a")
stream = queue.watch(job)
print(next(update.name for update in stream if update.name), flush=True)
"""
    assert python(program, dsn) == "a\n"


FORK = """
import os, sys, warnings
from howdah import JobQueue, QueueClosed

warnings.simplefilter("ignore", DeprecationWarning)  # that threads and forks do not go well together
queue = JobQueue(sys.argv[1])
def held(name):
    queue.enqueue(name)
    (job,) = queue.claim([name])
    queue.event(job, "a")
    return job
first, second = held("first"), held("second")
stream, not_begun = queue.watch(first), queue.watch(first)
print(next(update.name for update in stream if update.name), flush=True)
child = os.fork()
if child == 0:
    own = queue.watch(second)
    assert next(update.name for update in own if update.name) == "a"
    queue.complete(second)
    assert queue.wait_for(second, 30).status == "completed"
    assert list(own)[-1].job.ended
    for theirs in (stream, not_begun):
        try:
            list(theirs)
        except QueueClosed as error:
            assert "begin it anew after a fork" in str(error)
        else:
            raise AssertionError
    queue.close()
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
queue.event(first, "b")
print(next(update.name for update in stream if update.name), flush=True)
queue.complete(first)
print(list(stream)[-1].job.status)
queue.close()
"""


def test_parent_and_child_of_a_fork_both_go_on(dsn: str) -> None:
    assert python(FORK, dsn) == "a\nb\ncompleted\n"


def python(program: str, dsn: str) -> str:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program, dsn],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
