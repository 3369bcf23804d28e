"""Suspects: jobs that were running when a worker died. Each runs apart from others until it ends.

A few at a time, each in a child process of its own; where a child would not find the handler,
alone in this worker. Until its turn comes a suspect is only claimed, so that it loses nothing by waiting.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable

from howdah.model.job import Job
from howdah.worker.claim.slot_group import Crew
from howdah.worker.run.child import will_be_found

Begin = Callable[[Crew, Job], None]


class Suspects:
    """The line of those that wait for a process of their own."""

    def __init__(self, slots: int, *, begin: Begin, alone: Begin) -> None:
        self._slots = slots
        self._begin = begin
        self._alone = alone
        self._line: deque[tuple[Crew, Job]] = deque()
        self._running: set[uuid.UUID] = set()
        self._lonely: uuid.UUID | None = None

    @property
    def somebody_is_alone(self) -> bool:
        return self._lonely is not None

    def is_alone(self, job: Job) -> bool:
        return self._lonely == job.id

    @property
    def has_room(self) -> bool:
        return len(self._line) < self._slots

    def add(self, crew: Crew, job: Job) -> bool:
        """False: the line is long enough, and others may run it sooner."""
        if not self.has_room:
            return False
        self._line.append((crew, job))
        self._next()
        return True

    def ended(self, job: Job) -> None:
        self._running.discard(job.id)
        if self._lonely == job.id:
            self._lonely = None
        self._next()

    def clear(self) -> list[tuple[Crew, Job]]:
        """Takes everybody out of the line."""
        waiting, self._line = list(self._line), deque()
        return waiting

    def _next(self) -> None:
        while self._line and self._lonely is None and len(self._running) < self._slots:
            crew, job = self._line.popleft()
            self._running.add(job.id)
            if will_be_found(crew.handlers[job.job_type]):
                self._begin(crew, job)
            else:
                self._lonely = job.id
                self._alone(crew, job)
