"""Calls one handler directly, without a worker."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any, TypeVar

from howdah.checks.values import stored_json
from howdah.db.plan import Call, Plan, Row, Step
from howdah.errors import InvalidOption
from howdah.handlers.handler import Handler
from howdah.handlers.outcome import Spawned
from howdah.model.ids import new_id
from howdah.model.job import Job
from howdah.model.priority import Priority
from howdah.queue import Resources
from howdah.worker.progress.tracker import Tracker
from howdah.worker.run.run import Run, RunServices

R = TypeVar("R")


def call(handler: Handler[..., R], resources: Resources | None = None, /, **arguments: Any) -> R:
    """Call a handler as a worker would, but without a database: nothing is enqueued or stored.

    The arguments are checked, and converted to JSON and back. A parameter for the job gets a stand-in: its verbs
    check their arguments, and write nothing; after ``checkpoint``, the data is in ``job.resumed``. Steps run, and sleeps return at once.
    resources: what the queue's lifespan would yield. Returns the result of the function; await it if that is async.
    """
    if handler.batch is not None:
        raise InvalidOption(f"{handler.name!r} takes jobs in batches: call the handler itself, with a list of jobs")
    job = _stand_in(handler, handler.arguments.encode(arguments))
    return handler.function(**Run(handler, [job], _NoDatabase(handler, resources or {})).arguments())


class _NoDatabase(RunServices):
    """Checks what it is given, and writes nothing."""

    def __init__(self, handler: Handler[..., Any], resources: Resources) -> None:
        super().__init__(resources, handler.queue._context, handler.queue._database, _NoSink())

    def complete(self, job: Job, result: Any, conn: Any, spawned: Sequence[Spawned] = ()) -> None:  # noqa: ARG002
        stored_json(self.context, result, "result")

    async def acomplete(self, job: Job, result: Any, conn: Any, spawned: Sequence[Spawned] = ()) -> None:
        self.complete(job, result, conn, spawned)

    def checkpoint(self, job: Job, data: Any, conn: Any) -> None:  # noqa: ARG002
        stored = stored_json(self.context, data, "checkpoint")
        object.__setattr__(job, "resumed", self.context.codec.decode(json.loads(stored.obj)))

    async def acheckpoint(self, job: Job, data: Any, conn: Any) -> None:
        self.checkpoint(job, data, conn)

    def perform(self, plan: Plan[Any], conn: Any = None) -> Any:  # noqa: ARG002
        answer: Any = None
        while True:
            try:
                answer = _answered(plan.send(answer))
            except StopIteration as end:
                return end.value

    async def aperform(self, plan: Plan[Any], conn: Any = None) -> Any:
        return self.perform(plan, conn)


class _NoSink:
    def changed(self, tracker: Tracker) -> None:
        pass

    def flush(self, tracker: Tracker, *, ends: bool) -> bool:  # noqa: ARG002
        return True

    async def aflush(self, tracker: Tracker, *, ends: bool) -> bool:  # noqa: ARG002
        return True

    def rest(self, tracker: Tracker) -> Plan[None]:  # noqa: ARG002
        yield from ()


def _answered(step: Step) -> list[Row]:
    """What the database would answer if there were no earlier attempt."""
    assert isinstance(step, Call)
    match step.function:
        case "record_step":
            return [{"record_step": True}]
        case "sleep_until":
            return [{"sleep_until": "done"}]
        case "wait_signal":
            raise InvalidOption(
                "there are no signals without a database: test this handler with drain() and queue.signal(…)"
            )
    return []


def _stand_in(handler: Handler[..., Any], data: Any) -> Job:
    now = datetime.now(timezone.utc)
    declared = handler.declaration
    return Job(
        id=new_id(),
        job_type=handler.name,
        status="running",
        data=data,
        priority=Priority.DISCOVERED if declared["priority"] is None else declared["priority"],
        attempts=1,
        max_attempts=declared["max_attempts"] or 3,
        timeout=declared["timeout"],
        token=1,
        created_at=now,
        run_at=now,
        first_due_at=now,
        claimed_at=now,
        started_at=now,
    )
