"""One handler, called directly."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, TypeVar

from howdah.errors import InvalidOption
from howdah.handler import Handler
from howdah.ids import new_id
from howdah.job import Job
from howdah.priority import Priority
from howdah.queue import Resources
from howdah.worker.binding import bound
from howdah.worker.run import Desk, Run

R = TypeVar("R")


def call(handler: Handler[..., R], resources: Resources | None = None, /, **arguments: Any) -> R:
    """Calls a handler as a worker would, but without a database: nothing is enqueued or stored.

    The arguments are checked, and go through JSON and back. A parameter for the job gets a stand-in, whose
    ``progress`` and ``complete`` do nothing. resources: what the queue's lifespan would yield. Returns what the
    function does; await it if that is async.
    """
    if handler.batch is not None:
        raise InvalidOption(f"{handler.name!r} takes jobs in batches: call the handler itself, with a list of jobs")
    job = _stand_in(handler, handler.arguments.encode(arguments))
    desk = Desk(resources or {}, lambda *_: None, lambda *_: None, _complete_nothing)
    return handler.function(**bound(Run(handler, [job], desk)))


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


async def _complete_nothing(*_: object) -> None:
    pass
