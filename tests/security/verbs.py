"""Every verb of a queue, once, in either form: for tests of what all of them have in common."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg

from howdah import JobQueue
from tests.client.test_verbs import GROUPS
from tests.drivers.callers import Form, opened


class Caller:
    """Calls verbs in one form, on the caller's connection if there is one. Notes which were called.

    form: the kind of the caller's connection, if it is not psycopg's.
    """

    def __init__(
        self,
        queue: JobQueue,
        *,
        awaited: bool,
        own_connection: bool,
        form: type[Form] | None = None,
        verbs_of: Any = None,
    ) -> None:
        self.queue = queue
        self.verbs_of = queue if verbs_of is None else verbs_of
        self.awaited = awaited
        self.own_connection = own_connection
        self.form = form
        self.group: str | None = None
        self.called: set[str] = set()

    def on(self, selection: Any) -> Caller:
        """Calls the verbs of a selection, a workflow or a group, in the same form."""
        options: dict[str, Any] = {"awaited": self.awaited, "own_connection": self.own_connection, "form": self.form}
        return Caller(self.queue, **options, verbs_of=selection)

    def __getattr__(self, name: str) -> Any:
        if name in GROUPS:
            group = self.on(getattr(self.queue, name))
            group.group, group.called = name, self.called
            return group
        return lambda *args, **options: self._call(name, *args, **options)

    def _call(self, name: str, /, *args: Any, **options: Any) -> Any:
        self.called.add(name if self.group is None else f"{self.group}.{name}")
        if self.form is not None:
            with opened(self.form, self.queue.dsn) as caller:
                caller.begin()
                answer = caller.call(self.verbs_of, name, *args, **options)
                caller.commit()
                return answer
        if self.awaited:
            return asyncio.run(self._awaited(name, args, options))
        if not self.own_connection:
            return getattr(self.verbs_of, name)(*args, **options)
        with psycopg.connect(self.queue.dsn) as conn:
            return getattr(self.verbs_of, name)(*args, conn=conn, **options)

    async def _awaited(self, name: str, args: Any, options: Any) -> Any:
        verb = getattr(self.verbs_of, f"a{name}")
        if not self.own_connection:
            return await verb(*args, **options)
        async with await psycopg.AsyncConnection.connect(self.queue.dsn) as conn:
            return await verb(*args, conn=conn, **options)


def call_them_all(caller: Caller) -> None:
    """From the first enqueue to the last prune, and looks at every answer."""
    _add_and_read(caller)
    _hold_and_end(caller)
    _interfere(caller)
    _change_many(caller)
    _schedule(caller)
    _flow(caller)


def _flow(caller: Caller) -> None:
    with caller.queue.workflow("import", data={"a": "ä"}, key="k") as flow:
        flow.add("second", after=flow.add("first", n=1))
    assert [each.id for each in caller.workflows.list(name="import", limit=1)] == [flow.id]
    assert caller.workflows.get("import", "k").id == flow.id
    verbs = caller.on(flow)
    assert (verbs.get().data, verbs.status(), verbs.progress().total) == ({"a": "ä"}, "running", 2)
    assert verbs.cancel("not wanted")
    assert list(flow.watch())[-1].workflow is not None
    # It waits on a connection of the queue's own.
    ended = asyncio.run(flow.await_for(30)) if caller.awaited else flow.wait_for(30)
    assert ended.cancel_reason == "not wanted"
    assert [node.status for node in verbs.nodes()] == ["cancelled", "cancelled"]
    assert verbs.retry() == 2
    for _ in range(2):
        (job,) = caller.claim(["first", "second"], 1, "me")
        caller.start(job)
        caller.complete(job, {"n": 1})
    assert verbs.value() == {"n": 1}


def _add_and_read(caller: Caller) -> None:
    job = caller.enqueue("mail", {"to": "ä"}, key="k", delay=0, timeout=60, meta={"a": 1}, expires_in=3600)
    assert job.created
    assert not caller.enqueue("mail", key="k").created
    count = caller.enqueue_many("bulk", [{"n": 1}, {"n": 2}], key=lambda item: f"NULL{item['n']}", return_ids=True)
    assert count == 2
    got = caller.get(job.id)
    assert (got.data, got.key, got.timeout) == ({"to": "ä"}, "k", job.timeout)
    assert (got.run_at, got.expires_at) == (job.run_at, job.expires_at)
    assert len(caller.list(limit=10, since=job.created_at, least_priority=0, most_priority=1000)) == 3
    assert [each.id for each in caller.list(status="pending", job_type="mail", data={"to": "ä"})] == [job.id]
    assert caller.stats()["mail"].pending == 1
    assert caller.queue_position(job.id).ahead == 0
    assert isinstance(caller.stream_position(), str)
    assert caller.workers() == []
    assert caller.events(job.id) is not None
    assert caller.signal("paid", {"to": "ä"}, key="k") == (0, True)
    assert caller.steps(job.id) == []
    assert caller.enqueue("once", {"n": 1}, unique=("n",)).conflict is None
    assert caller.enqueue("once", {"n": 1}, unique=("n",)).conflict == "kept"
    assert caller.enqueue_many("once", [{"n": 1}, {"n": 2}], unique=("n",)) == 1


def _hold_and_end(caller: Caller) -> None:
    (job,) = caller.claim(["mail"], 1, "me", lease=60)
    caller.start(job)
    caller.progress(job, 40, "half", done=4, total=10)
    caller.progress(job, stage="more")
    caller.event(job, "seen", {"a": None})
    caller.checkpoint(job, {"at": 4})
    assert caller.fail(job, ValueError("no ä"), delay=0) == "pending"
    (job,) = caller.claim(["mail"], 1, "me")
    assert job.resumed == {"at": 4}
    caller.start(job)
    caller.snooze(job, delay=0)
    (job,) = caller.claim(["mail"], 1, "me")
    caller.release(job)
    (job,) = caller.claim(["mail"], 1, "me")
    caller.start(job)
    caller.complete(job, {"done": True})
    ended = caller.get(job.id)
    assert (ended.status, ended.result, ended.errors[0].error) == ("completed", {"done": True}, "ValueError: no ä")
    assert any(event.name == "seen" for event in caller.events(job.id))
    assert [event.name for event in caller.events(job.id, last=1, kinds=["event"])] == ["seen"]


def _interfere(caller: Caller) -> None:
    first, second = caller.list(status="pending", job_type="bulk")
    assert caller.reprioritise(first.id, 7)
    assert caller.reschedule(first.id, delay=3600)
    assert caller.cancel(second.id, "not wanted")
    assert caller.retry(second.id)
    assert caller.delete(second.id)
    caller.pause("bulk", "for now")
    caller.resume("bulk")
    caller.limits.set(5, job_type="bulk")
    caller.limits.set(3, job_type="bulk", each_key=True)
    caller.limits.set_rate("100/s", job_type="bulk")
    caller.limits.set_rate("10/s", job_type="bulk", each_key=True)
    caller.limits.set_weight("bulk", "acme", 2)
    caller.limits.set_max_pending("bulk", 1000, when_full="drop_oldest")
    keyed = caller.enqueue("bulk", {"n": 1}, per="acme", cost=2)
    assert caller.pause("bulk", per="acme")
    assert caller.resume("bulk", per="acme")
    assert [job.id for job in caller.list(per="acme")] == [keyed.id]
    assert caller.on(caller.queue.select(per="acme")).count() == 1
    assert {limit.max_running for limit in caller.limits.list()} == {5, 3, None}
    assert {limit.max_pending for limit in caller.limits.list()} == {1000, None}
    caller.limits.set_max_pending("bulk", None)
    (job,) = caller.claim(["bulk"], 1, "me")
    caller.release(job)
    assert caller.delete(keyed.id)
    for each_key in (False, True):
        caller.limits.set(None, job_type="bulk", each_key=each_key)
        caller.limits.set_rate(None, job_type="bulk", each_key=each_key)
    caller.recover()
    caller.recover_stale_jobs(3600)
    caller.prune(keep=3600)


def _change_many(caller: Caller) -> None:
    pending = caller.on(caller.queue.select(job_type="bulk", status="pending", older_than=0))
    assert pending.count().groups == {("bulk", "pending"): 1}
    assert pending.reprioritise(8) == pending.reschedule(delay=60) == pending.cancel("no") == 1
    cancelled = caller.on(caller.queue.select(key="NULL2", error="no", status="cancelled"))
    assert cancelled.retry() + caller.on(caller.queue.select(key="NULL1", status="cancelled")).retry() == 1
    assert caller.on(caller.queue.select(job_type=["bulk"])).delete() == 1


def _schedule(caller: Caller) -> None:
    caller.schedules.set("nightly", "bulk", {"n": 3}, cron="0 3 * * *", timezone="Europe/Berlin")
    assert caller.schedules.get("nightly").next_run_at is not None
    assert [each.name for each in caller.schedules.list()] == ["nightly"]
    caller.schedules.pause("nightly")
    caller.schedules.resume("nightly")
    caller.schedules.run("nightly")
    assert caller.schedules.delete("nightly")
