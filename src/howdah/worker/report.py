"""What a worker did, told when it ends."""

from __future__ import annotations

import dataclasses
from collections import Counter

from howdah.outcome import Completed, CompletedByHandler, Crashed, Ending, Failed, Interrupted, Snoozed


@dataclasses.dataclass(slots=True)
class WorkerReport:
    """How many jobs ended how, and whether the worker left as it should."""

    worker_id: str
    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    shed: bool = False
    replaced: bool = False
    left_threads: bool = False

    def count(self, what: str) -> None:
        self.counts[what] += 1

    def written(self, ending: Ending, status: str | None) -> None:
        match ending:
            case _ if status is None:
                self.count("refused")
            case Completed() | CompletedByHandler():
                self.count("completed")
            case Failed() | Crashed() if status == "pending":
                self.count("retried")
            case Snoozed() if status == "pending":
                self.count("snoozed")
            case Interrupted() if status == "pending":
                self.count("handed_back")
            case _:
                self.count(status or "refused")

    @property
    def interrupted(self) -> int:
        return self.counts["interrupted"]

    @property
    def exit_code(self) -> int:
        """0: clean. 2: another worker has its name. 6: the grace ran out, and running jobs were handed back. 7: left, to
        shed handlers that would not end."""
        if self.replaced:
            return 2
        return 7 if self.shed else 6 if self.interrupted else 0

    def __str__(self) -> str:
        told = {"retried": "to be tried again"}
        counts = ", ".join(
            f"{count:,} {told.get(what, what.replace('_', ' '))}" for what, count in self.counts.items() if count
        )
        return f"worker {self.worker_id} has ended: {counts or 'nothing to do'}"
