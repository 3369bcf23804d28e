"""The summary of a worker's jobs, returned when it ends."""

from __future__ import annotations

import dataclasses
from collections import Counter


@dataclasses.dataclass(slots=True)
class WorkerSummary:
    """How many jobs ended in which way, and why the worker ended.

    counts: by the way they ended: ``completed``, ``retried``, ``failed``, ``cancelled``, ``snoozed``, ``handed_back``;
        ``refused`` were no longer held by this worker when their handlers ended; ``interrupted`` are those of
        ``handed_back`` that the worker stopped when it ended; ``unwritten`` could not be written before it ended, and run again.
    shed: it ended because too many handlers did not. left_threads: some have not ended yet.
    replaced: it ended because another worker has its name.
    refused: it ended because the database refuses its login.
    """

    worker_id: str
    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    shed: bool = False
    replaced: bool = False
    refused: bool = False
    left_threads: bool = False
    cut_lifespan: bool = False

    @property
    def interrupted(self) -> int:
        """How many handlers it stopped when it ended."""
        return self.counts["interrupted"]

    @property
    def exit_code(self) -> int:
        """0: clean. 2: another worker has its name. 4: the database refuses its login. 6: the grace ran out, and
        running jobs were handed back, or ends could not be written, or the lifespan did not end. 7: too many handlers did not end."""
        if self.replaced:
            return 2
        if self.refused:
            return 4
        if self.shed:
            return 7
        return 6 if self.interrupted or self.counts["unwritten"] or self.cut_lifespan else 0

    def __str__(self) -> str:
        words = {"retried": "to be tried again"}
        counts = ", ".join(
            f"{count:,} {words.get(what, what.replace('_', ' '))}" for what, count in self.counts.items() if count
        )
        return f"worker {self.worker_id} has ended: {counts or 'nothing to do'}"
