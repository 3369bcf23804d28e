"""The jobs of the demo: how many of each type, and the options of the special ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
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
    """One type of job.

    count: how many of them are enqueued; None for the periodic one. data: that of each of them, by its number from 1 on; None for
    the special ones. options: of enqueueing them.
    """

    job_type: str
    priority: Priority
    count: int | None = 1
    data: Callable[[int], dict[str, Any]] | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def runs(self) -> str:
        """Where its handler runs."""
        handler = handlers.queue.handlers[self.job_type]
        places = {"async": "event loop", "thread": "threads", "process": "processes"}
        return "batches" if handler.batch else places[handler.kind]


def kinds(jobs: int) -> tuple[Kind, ...]:
    """All types, in the order in which they are shown. ``jobs`` are divided among the three priorities."""
    explicit, discovered = (max(1, round(jobs * share)) for share in _SHARES)
    rest, urgent, usual = jobs - explicit - discovered, Priority.EXPLICIT, Priority.DISCOVERED
    seconds = min(_LONGEST_JOB, _SLOT_SECONDS / jobs)
    return (
        Kind("send_invoice", urgent, explicit, lambda n: {"invoice": n, "seconds": seconds}),
        Kind("resize_photo", usual, discovered, lambda n: {"photo": n, "seconds": seconds, "broken": n == 1}),
        Kind("reindex_page", Priority.BACKFILL, rest, lambda n: {"page": n, "seconds": seconds}),
        Kind("send_newsletter", usual, NEWSLETTERS, lambda n: {"reader": n}),
        Kind("write_report", usual, REPORTS, lambda n: {"report": n}),
        Kind("count_primes", usual, len(PRIMES_BELOW), lambda n: {"below": PRIMES_BELOW[n - 1]}),
        Kind(FLAKY, urgent, options={"retry_policy": BACKOFF, "max_attempts": FAILURES + 3}),
        Kind(DELAYED, urgent, options={"delay": REMINDER_DELAY}),
        Kind(TO_CANCEL, urgent),
        Kind(TO_SURVIVE, urgent),
        Kind(PERIODIC, usual, None),
    )


def enqueue_all(queue: JobQueue, jobs: int) -> dict[str, Job]:
    """Enqueues the urgent jobs last, so that priorities show; returns the special jobs by their type."""
    special: dict[str, Job] = {}
    for kind in reversed(kinds(jobs)):
        if kind.count is not None and kind.data is not None:
            queue.enqueue_many(kind.job_type, map(kind.data, range(1, kind.count + 1)), priority=kind.priority)
        elif kind.count is not None:
            special[kind.job_type] = queue.enqueue(kind.job_type, priority=kind.priority, **kind.options)
    return special
