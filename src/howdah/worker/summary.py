"""What a worker did, told when it ends."""

from __future__ import annotations

import dataclasses
from collections import Counter

from howdah.handlers.outcome import Completed, CompletedByHandler, Crashed, Ending, Failed, Interrupted, Snoozed


@dataclasses.dataclass(slots=True)
class WorkerReport:
    """How many jobs ended how, and whether the worker left as it should.

    counts: by what became of them: ``completed``, ``retried``, ``failed``, ``cancelled``, ``snoozed``, ``handed_back``;
        ``refused`` were not this worker's any more when their handlers ended; ``interrupted`` are those of
        ``handed_back`` that the worker's end cut short.
    shed: it left because too many handlers would not end. left_threads: some have not ended yet.
    replaced: it left because another worker has its name.
    refused: it left because the database refuses its login.
    """

    worker_id: str
    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    shed: bool = False
    replaced: bool = False
    refused: bool = False
    left_threads: bool = False

    @property
    def interrupted(self) -> int:
        """How many handlers its end has cut short."""
        return self.counts["interrupted"]

    @property
    def exit_code(self) -> int:
        """0: clean. 2: another worker has its name. 4: the database refuses its login. 6: the grace ran out, and running jobs were handed back. 7: left, to
        shed handlers that would not end."""
        if self.replaced:
            return 2
        if self.refused:
            return 4
        return 7 if self.shed else 6 if self.interrupted else 0

    def __str__(self) -> str:
        told = {"retried": "to be tried again"}
        counts = ", ".join(
            f"{count:,} {told.get(what, what.replace('_', ' '))}" for what, count in self.counts.items() if count
        )
        return f"worker {self.worker_id} has ended: {counts or 'nothing to do'}"


def became(ending: Ending, status: str | None) -> str:
    """What a report counts an attempt as that ended so; the status is the job's since then, None if it was refused."""
    match ending:
        case _ if status is None:
            return "refused"
        case Completed() | CompletedByHandler():
            return "completed"
        case Failed() | Crashed() if status == "pending":
            return "retried"
        case Snoozed() if status == "pending":
            return "snoozed"
        case Interrupted() if status == "pending":
            return "handed_back"
        case _:
            return status
