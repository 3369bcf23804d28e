"""A queue with hooks in the thread of its handlers, which a child process can import."""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

from howdah import Job, JobQueue

in_thread = threading.local()
tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="none")


@contextlib.contextmanager
def thread_lifespan(queue: JobQueue) -> Iterator[None]:
    in_thread.lives = getattr(in_thread, "lives", 0) + 1
    yield


queue = JobQueue(
    "host=/nowhere", thread_lifespan=thread_lifespan, json_default=lambda value: f"a {type(value).__name__}"
)


@queue.middleware
def per_job(job: Job, call_next: Callable[[Job], Any]) -> Any:
    in_thread.session = str(job.id)
    token = tenant.set("acme")
    try:
        result = call_next(job)
    except KeyError as error:
        raise ValueError(f"through the hook: {error}") from None
    finally:
        tenant.reset(token)
    return {**result, "pid_of_hook": os.getpid()}


def seen() -> dict[str, Any]:
    return {
        "session": getattr(in_thread, "session", None),
        "tenant": tenant.get(),
        "pid": os.getpid(),
        "lives": getattr(in_thread, "lives", 0),
        "converted": {1, 2},
    }


@queue.job(process=True)
def looks() -> Any:
    return seen()


@queue.job(process=True)
async def looks_awaited() -> Any:
    return seen()


@queue.job(process=True, max_attempts=1)
def breaks() -> None:
    raise KeyError("lost")
