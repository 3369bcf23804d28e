"""Crews: handlers that share slots, and the claimed jobs that wait here for one.

The handlers on the loop, those in threads and those in child processes are a crew each; every batch
handler is one of its own, because it takes many jobs with one slot.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple

from howdah.handlers.handler import AnyHandler, Kind
from howdah.model.job import Job
from howdah.worker.options import WorkerOptions

AHEAD = 0.1
"""Seconds of work that may wait here, claimed but not started. More would hoard jobs and delay urgent ones."""
MOST_IN_HAND = 1_000
"""With those that run. Where there are so many slots, nothing waits: to be started by its claim costs one write less."""


class Demand(NamedTuple):
    """What a claim asks for."""

    types: Sequence[str]
    limits: Sequence[int | None] | None
    batch_size: int
    start: int
    ahead_types: Sequence[str] | None = None
    """Of what is not started at once: only these types may wait."""


class Crew:
    """Slots of one kind, the handlers that use them, and who waits for one."""

    def __init__(self, name: str, slots: int, handlers: Sequence[AnyHandler]) -> None:
        self.name = name
        self.slots = slots
        self.handlers: Mapping[str, AnyHandler] = {handler.name: handler for handler in handlers}
        self.busy = 0
        self.waiting: list[tuple[tuple[Any, ...], Job]] = []
        self.room = asyncio.Event()
        self.on_unbound: Callable[[], None] = lambda: None
        """Called when a type that the last claim could not ask for freely can be asked for again."""
        self.on_time: Callable[[], None] = lambda: None
        """Called when what waits here has waited long enough."""
        self.undeclared: Set[str] = frozenset()
        """Types that are not claimed yet: see Declarations."""
        self._limited = {handler.name for handler in handlers if handler.concurrency is not None}
        self._held = Counter[str]()
        """Of the types with a limit of their own."""
        self._pace: dict[str, float] = {}
        self._bound: set[str] = set()
        self._ahead = 0
        self._last_start = 0.0

    # What is wanted

    @property
    def free(self) -> int:
        return max(self.slots - self.busy - len(self.waiting), 0)

    def demand(self) -> Demand | None:
        """What to ask for now; None if there is no room.

        As many jobs as there are free slots; and, while all that comes is quick, some more that wait here. No type
        is asked for less than others, unless its handler has a limit of its own: that would break the order.
        """
        free = self.free
        # At most half of it all: the next claim is under way while what the last one brought still runs.
        most = min(free + self._room_ahead(), max((self.slots + self._ahead) // 2, 1))
        limits = {name: self._limit(handler, free, most) for name, handler in self.handlers.items()}
        asked = {name: limit for name, limit in limits.items() if limit > 0}
        self._bound = {name for name, limit in limits.items() if limit < most}
        if not asked:
            return None
        binding = any(limit < most for limit in asked.values())
        most = max(asked.values())
        quick = [name for name in asked if self._quick(name)] if most > free else None
        return Demand(
            list(asked), list(asked.values()) if binding else None, most, 0 if self.in_children else free, quick
        )

    def saw(self, jobs: Sequence[Job], *, cut: bool) -> None:
        """What a claim brought says whether jobs may wait here; ``cut``: the next one in the queue may not."""
        names = {job.job_type for job in jobs}
        self._ahead = 0 if cut else min(map(self._quick, names), default=self._ahead)

    @property
    def kind(self) -> Kind:
        return next(iter(self.handlers.values())).kind

    @property
    def in_children(self) -> bool:
        """Each job waits for a child process that is ready: none is started by its claim."""
        return self.kind == "process"

    def is_stuck(self) -> bool:
        """Whether jobs have waited here for long although they should have been quick. Then none is claimed ahead."""
        if not self.waiting or self.busy < self.slots or time.monotonic() - self._last_start < 5 * AHEAD:
            return False
        self._ahead = 0
        return True

    def _room_ahead(self) -> int:
        # In gulps: a claim for each single job that has left the line would cost more than the job.
        return self._ahead - len(self.waiting) if len(self.waiting) <= self._ahead // 2 else 0

    def _quick(self, name: str) -> int:
        """Jobs of a type that, with those that run, make about AHEAD seconds of work; none while the pace is unknown or slow."""
        pace = self._pace.get(name)
        if pace is None or pace > AHEAD or self.handlers[name].concurrency is not None:
            return 0
        return max(min(int(self.slots * AHEAD / max(pace, 1e-6)), MOST_IN_HAND) - self.slots, 0)

    def _limit(self, handler: AnyHandler, free: int, most: int) -> int:
        """All that is asked for, or what the handler's own concurrency leaves of the free slots."""
        if handler.name in self.undeclared:
            return 0
        if handler.concurrency is None:
            return most
        return max(min(handler.concurrency - self._held[handler.name], free, most), 0)

    # What happens to jobs

    def took(self, job: Job) -> None:
        if job.job_type in self._limited:
            self._held[job.job_type] += 1

    def lets_go(self, job: Job) -> None:
        """A job of this crew is no longer held, or its slot is free."""
        if job.job_type in self._limited:
            self._held[job.job_type] -= 1
        self.room.set()
        if job.job_type in self._bound:
            self.on_unbound()

    def waits(self, job: Job, *, first: bool = False) -> None:
        heapq.heappush(self.waiting, ((not first, -job.priority, job.run_at, job.id, job.token), job))

    def next_to_start(self) -> list[Job]:
        """The jobs that wait and for which there is a slot now. Their slots are taken."""
        starting: list[Job] = []
        self._last_start = time.monotonic()
        while self.waiting and self.busy < self.slots:
            starting.append(heapq.heappop(self.waiting)[1])
            self.busy += 1
        return starting

    def take_waiting(self, which: Callable[[Job], bool] = lambda _: True) -> list[Job]:
        """Takes jobs out of the line."""
        taken = [job for _, job in self.waiting if which(job)]
        self.waiting = [entry for entry in self.waiting if not which(entry[1])]
        heapq.heapify(self.waiting)
        return taken

    def measured(self, name: str, seconds: float, jobs: int = 1) -> None:
        """A handler took so long. Recent calls count more than old ones."""
        each = seconds / max(jobs, 1)
        known = self._pace.get(name)
        self._pace[name] = each if known is None else known + (each - known) * 0.1

    def calls(self) -> Iterable[Sequence[Job]]:
        """The calls that can be made with what waits here."""
        return ([job] for job in self.next_to_start())


class BatchCrew(Crew):
    """One batch handler: a slot is a call, and a call takes many jobs."""

    def __init__(self, slots: int, handler: AnyHandler) -> None:
        super().__init__(f"batches of {handler.name}", slots, [handler])
        assert handler.batch is not None
        self.batch = handler.batch
        self._since: float | None = None
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def free(self) -> int:
        return 0 if self.busy >= self.slots else max(self.batch.size - len(self.waiting), 0)

    def demand(self) -> Demand | None:
        free = self.free
        if not free or not self.undeclared.isdisjoint(self.handlers):
            return None
        # Without a wait the claim itself makes the batch, and starts it in the same write.
        start = free if not self.batch.wait and not self.waiting else 0
        return Demand(list(self.handlers), None, free, start)

    def waits(self, job: Job, *, first: bool = False) -> None:
        super().waits(job, first=first)
        if self._since is None:
            self._since = time.monotonic()
            self._alarm = asyncio.get_running_loop().call_later(self.batch.wait, self.on_time)

    def calls(self) -> Iterable[Sequence[Job]]:
        while self.waiting and self.busy < self.slots and self._is_time():
            size = min(self.batch.size, len(self.waiting))
            self.busy += 1
            jobs = [heapq.heappop(self.waiting)[1] for _ in range(size)]
            if not self.waiting:
                self._forget()
            yield jobs

    def is_stuck(self) -> bool:
        return False

    def take_waiting(self, which: Callable[[Job], bool] = lambda _: True) -> list[Job]:
        taken = super().take_waiting(which)
        if not self.waiting:
            self._forget()
        return taken

    def _is_time(self) -> bool:
        full = len(self.waiting) >= self.batch.size
        return full or (self._since is not None and time.monotonic() - self._since >= self.batch.wait * 0.999)

    def _forget(self) -> None:
        self._since = None
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None


def crews_of(handlers: Iterable[AnyHandler], options: WorkerOptions) -> list[Crew]:
    """The crews that these handlers need."""
    known = list(handlers)
    kinds = {
        "async": ("the loop", options.concurrency),
        "thread": ("threads", options.threads),
        "process": ("child processes", options.children),
    }
    crews: list[Crew] = []
    for kind, (name, slots) in kinds.items():
        members = [handler for handler in known if handler.kind == kind and handler.batch is None]
        if members:
            crews.append(Crew(name, slots, members))
    return crews + [BatchCrew(handler.concurrency or 1, handler) for handler in known if handler.batch is not None]
