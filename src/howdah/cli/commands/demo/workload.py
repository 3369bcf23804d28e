"""The jobs of the demo: how many of each type, and the options of the special ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Final

from howdah.cli.commands.demo import handlers
from howdah.cli.commands.demo.handlers import BATCH_SIZE, FAILURES
from howdah.handlers.retry import Exponential
from howdah.model.job import Job
from howdah.model.priority import Priority
from howdah.queue import JobQueue

FEWEST, USUAL, MOST = 60, 300, 5_000
_SHARES: Final = (0.15, 0.35)
_SLOT_SECONDS: Final = 60.0
"""Seconds of sleep of all jobs of the three priorities together; the slots of two workers share it."""
_LONGEST_JOB: Final = 0.2

NEWSLETTERS: Final = 4 * BATCH_SIZE
REPORTS: Final = 8
PRIMES_BELOW: Final = (10_000, 15_000, 20_000, 25_000)
REMINDER_DELAY: Final = 5.0
BACKOFF: Final = Exponential(delay=0.5, factor=2, jitter=0)

PERIODIC: Final = "take_pulse"
FLAKY: Final = "call_partner"
DELAYED: Final = "send_reminder"
TO_CANCEL: Final = "export_everything"
TO_SURVIVE: Final = "render_film"
SPECIAL: Final = (FLAKY, DELAYED, TO_CANCEL, TO_SURVIVE)

STYLES: Final = {Priority.EXPLICIT: "red", Priority.DISCOVERED: "yellow", Priority.BACKFILL: "blue"}


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """One type of job, and how many of them are enqueued; None for the periodic one."""

    job_type: str
    priority: Priority
    count: int | None = 1

    @property
    def runs(self) -> str:
        """Where its handler runs."""
        handler = handlers.queue.handlers[self.job_type]
        places = {"async": "event loop", "thread": "threads", "process": "processes"}
        return "batches" if handler.batch else places[handler.kind]


def kinds(jobs: int) -> tuple[Kind, ...]:
    """All types, in the order in which they are shown. ``jobs`` are divided among the three priorities."""
    explicit, discovered = (max(1, round(jobs * share)) for share in _SHARES)
    return (
        Kind("send_invoice", Priority.EXPLICIT, explicit),
        Kind("resize_photo", Priority.DISCOVERED, discovered),
        Kind("reindex_page", Priority.BACKFILL, jobs - explicit - discovered),
        Kind("send_newsletter", Priority.DISCOVERED, NEWSLETTERS),
        Kind("write_report", Priority.DISCOVERED, REPORTS),
        Kind("count_primes", Priority.DISCOVERED, len(PRIMES_BELOW)),
        Kind(FLAKY, Priority.EXPLICIT),
        Kind(DELAYED, Priority.EXPLICIT),
        Kind(TO_CANCEL, Priority.EXPLICIT),
        Kind(TO_SURVIVE, Priority.EXPLICIT),
        Kind(PERIODIC, Priority.DISCOVERED, None),
    )


def enqueue_all(queue: JobQueue, jobs: int) -> dict[str, Job]:
    """Enqueues the urgent jobs last, so that priorities show; returns the special jobs by their type."""
    special: dict[str, Job] = {}
    for kind in reversed(kinds(jobs)):
        if kind.job_type in SPECIAL:
            special[kind.job_type] = queue.enqueue(kind.job_type, priority=kind.priority, **_options(kind.job_type))
        elif kind.count is not None:
            queue.enqueue_many(
                kind.job_type, _data(kind, min(_LONGEST_JOB, _SLOT_SECONDS / jobs)), priority=kind.priority
            )
    return special


def _options(job_type: str) -> dict[str, Any]:
    match job_type:
        case "call_partner":
            return {"retry_policy": BACKOFF, "max_attempts": FAILURES + 3}
        case "send_reminder":
            return {"delay": REMINDER_DELAY}
    return {}


def _data(kind: Kind, seconds: float) -> Iterator[dict[str, Any]]:
    for number in range(1, (kind.count or 0) + 1):
        match kind.job_type:
            case "send_invoice":
                yield {"invoice": number, "seconds": seconds}
            case "resize_photo":
                yield {"photo": number, "seconds": seconds, "broken": number == 1}
            case "reindex_page":
                yield {"page": number, "seconds": seconds}
            case "count_primes":
                yield {"below": PRIMES_BELOW[number - 1]}
            case "write_report":
                yield {"report": number}
            case _:
                yield {"reader": number}
