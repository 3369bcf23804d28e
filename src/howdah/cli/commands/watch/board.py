"""The jobs that are watched and have not ended, as far as they are known."""

from __future__ import annotations

import collections
import dataclasses
import uuid
from collections.abc import Iterable
from typing import Final

from howdah.cli.render.event_text import is_an_end
from howdah.cli.render.progress_text import percent
from howdah.model.job import Job
from howdah.model.results import QueuePosition
from howdah.watch.watch import Update

_REMEMBERED: Final = 10_000
"""So many ended jobs are known as such, for what is still said of them."""


@dataclasses.dataclass(slots=True)
class Bar:
    """A job, and where it stands among others while it waits."""

    job: Job
    place: QueuePosition | None = None


class Board:
    """Takes updates in, and tells which of them say something new.

    named: the jobs that were asked for one by one; others leave the board as soon as they do not run.
    """

    def __init__(self, named: Iterable[uuid.UUID] = ()) -> None:
        self.bars: dict[uuid.UUID, Bar] = {}
        self._named = {id: n for n, id in enumerate(named)}
        self._ended: collections.OrderedDict[uuid.UUID, int | None] = collections.OrderedDict()

    def take(self, update: Update, place: QueuePosition | None = None) -> bool:
        """Whether it says anything that was not said before."""
        if update.kind == "progress":
            return update.job is not None and self._stands(update.job, place)
        if is_an_end(update):
            return self._ends(update.job_id, None)
        if update.kind == "status":
            # Pending again: a job that had ended lives once more.
            self._ended.pop(update.job_id, None)
            self._waits(update.job_id)
        return True

    def visible(self, most: int) -> tuple[list[Bar], int]:
        """The bars to show, those of running jobs first and the newest of them, and how many others there are.

        In the order in which they were named, or have come.
        """
        bars = sorted(self.bars.values(), key=lambda bar: self._named.get(bar.job.id, len(self._named)))
        ranked = sorted(range(len(bars)), key=lambda n: (bars[n].job.status != "pending", n), reverse=True)
        shown = sorted(ranked[: max(most, 0)])
        return [bars[n] for n in shown], len(bars) - len(shown)

    def _stands(self, job: Job, place: QueuePosition | None) -> bool:
        if job.ended:
            return self._ends(job.id, job.token)
        if self._has_ended(job.id, job.token):
            # A look from before its end, told after it.
            return False
        self._ended.pop(job.id, None)
        if job.status == "pending" and job.id not in self._named:
            return self.bars.pop(job.id, None) is not None
        before = self.bars.get(job.id)
        self.bars[job.id] = Bar(job, place)
        return before is None or _standing(before.job) != _standing(job)

    def _waits(self, job_id: uuid.UUID) -> None:
        bar = self.bars.get(job_id)
        if bar is not None and job_id in self._named:
            bar.job = dataclasses.replace(bar.job, status="pending", stalled=False)
        else:
            self.bars.pop(job_id, None)

    def _has_ended(self, job_id: uuid.UUID, token: int | None) -> bool:
        """Whether the end of this life is known: a later one has a higher token."""
        if job_id not in self._ended:
            return False
        last = self._ended[job_id]
        return last is None or token is None or token <= last

    def _ends(self, job_id: uuid.UUID, token: int | None) -> bool:
        """token: None if only an event tells of it, which has none."""
        is_known = self._has_ended(job_id, token)
        self.bars.pop(job_id, None)
        if token is not None or not is_known:
            self._ended[job_id] = token
        if len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)
        return not is_known


def _standing(job: Job) -> tuple[object, ...]:
    """What a line about it would say, without what only time changes."""
    counts = None if job.record is None else (job.record.done, job.record.total)
    stops = job.cancel_requested_at is not None
    return job.status, job.attempts, percent(job), job.current_stage, counts, job.stalled, stops, job.run_at
