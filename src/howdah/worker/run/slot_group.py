"""Slot groups: handlers that share slots, and the claimed jobs that wait for one of them.

The handlers on the loop, those in threads and those in child processes form one group each. Every batch handler has a
group of its own, because one slot of it takes many jobs. A group also holds the state of its claimer that other parts
of the worker look at or change.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from datetime import datetime

from howdah.handlers.handler import AnyHandler
from howdah.model.job import Job
from howdah.worker.calls import Claim, Demand
from howdah.worker.options import WorkerOptions

AHEAD = 0.1
"""Seconds of work that may wait here. More would hoard jobs and delay urgent ones."""
MOST_IN_HAND = 2_000
"""Jobs that run or wait. With so many slots nothing waits."""
INSTANT = 0.001
"""Seconds on average, up to which jobs that wait here are started by their claim: each write costs more than such a job."""
SEEM_SLOWER = 0.01
"""The share of types that may seem slower than that: of hundreds, some are always measured while the machine does something else."""
AHEAD_STARTED = 0.025
"""Seconds of their work that may wait here. What users see as running begins within milliseconds."""
MOST_NOTED = 100
"""Jobs of such types that a claim notes as begun: so many begin in one turn of the loop."""


class SlotGroup:
    """Slots of one kind, the handlers that use them, and the jobs that wait for one."""

    def __init__(self, name: str, slots: int, handlers: Sequence[AnyHandler]) -> None:
        self.name = name
        self.slots = slots
        self.handlers: Mapping[str, AnyHandler] = {handler.name: handler for handler in handlers}
        self.kind = handlers[0].kind
        self.in_children = self.kind == "process"
        """Each job waits for a child process that is ready: none is started by its claim."""
        self.reach = slots
        """Calls that may be made at once. Threads take calls in turn, so that more of them than there are slots may be in their line."""
        self.busy = 0
        """Calls that have been made, and have not ended."""
        self._line: deque[Job] = deque()
        self._first: deque[Job] = deque()
        """Jobs that begin before the line: they have waited longest."""
        self.on_time: Callable[[], None] = lambda: None
        """Called when the waiting jobs have waited long enough."""
        self.undeclared: Set[str] = frozenset()
        """Types that are not claimed yet: see Declarations."""
        self.room = asyncio.Event()
        """Set when there may be room for another job."""
        self.look = asyncio.Event()
        """Set when there may be a job to claim."""
        self.buckets: frozenset[int] = frozenset()
        """The buckets of wake-ups that the sleeping claimer is interested in; empty: all."""
        self.claiming = False
        self.last_claim: float | None = None
        self.activity = 0
        """Grows with each job that arrives or ends. ``empty_at`` is its value at the last claim that found nothing."""
        self.empty_at = -1
        self._limited = {handler.name for handler in handlers if handler.concurrency is not None}
        self._held = Counter[str]()
        """Only of types with a limit of their own."""
        self._seconds: dict[str, float] = {}
        """How long a job of a type takes, on average."""
        self._bound: set[str] = set()
        """The types of which the last claim asked for fewer jobs than there was room for."""
        self._ahead = 0
        self._starts_ahead = False
        """Whether the last demand was for jobs that their claim starts."""
        self._last_begin = 0.0
        self._pace: float | None = None
        """How many jobs leave the line in a second. Calls share the loop and wait for their starts, so it is less than their averages promise."""
        self._timed = 0
        """Jobs of which the leaving is timed, all together."""
        self._to_leave = 0
        """How many of these have not left yet."""
        self._timed_since = 0.0

    def wake(self, bucket: int | None = None) -> None:
        """There may be a job to claim, of a type in this bucket."""
        if bucket is None or not self.buckets or bucket in self.buckets:
            self.look.set()

    @property
    def waiting(self) -> int:
        """Jobs that wait for a slot: claimed, or started ahead by their claim."""
        return len(self._line) + len(self._first)

    # What to claim

    def demand(self, most: int) -> Demand | None:
        """What to claim now, up to ``most`` jobs; None if there is no room.

        As many jobs as there are free slots, and, while all of them are quick, some more that wait here. No type gets a
        smaller share than the others, unless its handler has a limit: that would break the order.
        """
        waiting = self.waiting + max(self.busy - self.slots, 0)
        free = max(self.slots - self.busy - waiting, 0)
        # Many at once: a claim for each job that has left the line would cost more than the job.
        room = free + (self._ahead - waiting if waiting <= self._ahead // 2 else 0)
        # At most half of it all: the next claim is under way while the jobs of the last one still run.
        room = min(room, max((self.slots + self._ahead) // 2, 1), most)
        self._bound.clear()
        if room <= 0:  # asked very often, and there may be thousands of types
            return None
        limits = {name: self._limit(handler, free, room) for name, handler in self.handlers.items()}
        asked = {name: limit for name, limit in limits.items() if limit > 0}
        self._bound.update([name for name, limit in limits.items() if limit < room])
        if not asked:
            return None
        size = max(asked.values())
        quick = [name for name in asked if self._quick(name, AHEAD)] if size > free else None
        start = 0 if self.in_children else min(free, size)
        start_ahead = not self.in_children and self._are_instant(asked if quick is None else quick)
        self._starts_ahead = start_ahead
        if start_ahead:
            start = min(start, MOST_NOTED)
        limits_asked = list(asked.values()) if min(asked.values()) < room else None
        return Demand(list(asked), limits_asked, size, start, quick, start_ahead)

    def is_stuck(self) -> bool:
        """Whether waiting jobs that were expected to be quick have waited for long. Then none is claimed ahead."""
        if self.busy < self.slots or time.monotonic() - self._last_begin < 5 * AHEAD:
            return False
        self._ahead = 0
        return True

    def _quick(self, name: str, within: float) -> int:
        """How many jobs of a type, beyond the slots, may wait here and begin within these seconds.

        0 if it is unknown how long they take, or they are slow.
        """
        seconds = self._seconds.get(name)
        if seconds is None or seconds > AHEAD or self.handlers[name].concurrency is not None:
            return 0
        if seconds < INSTANT:
            within = AHEAD_STARTED
        most = MOST_IN_HAND
        if self._pace is not None:
            # As many as there are slots may wait in any case: without a line, no pace is known.
            most = min(most, max(int(self._pace * within), 2 * self.slots))
        return max(min(int(self.slots * within / max(seconds, 1e-6)), most) - self.slots, 0)

    def _are_instant(self, names: Collection[str]) -> bool:
        slower = [seconds for name in names if (seconds := self._seconds.get(name, AHEAD)) >= INSTANT]
        return not slower or (len(slower) <= SEEM_SLOWER * len(names) and max(slower) < AHEAD_STARTED)

    def _limit(self, handler: AnyHandler, free: int, room: int) -> int:
        """All the room, or what the handler's own concurrency leaves of the free slots."""
        if handler.name in self.undeclared:
            return 0
        if handler.concurrency is None:
            return room
        return max(min(handler.concurrency - self._held[handler.name], free, room), 0)

    # What happens to jobs

    def take(self, jobs: Sequence[Job], claim: Claim, *, by_age: bool) -> None:
        """These jobs of a claim are held now. They also show whether jobs may wait here."""
        if self._limited:
            self._held.update(job.job_type for job in jobs if job.job_type in self._limited)
        if not by_age:
            within = AHEAD_STARTED if self._starts_ahead else AHEAD
            ahead = [self._quick(name, within) for name in dict.fromkeys(job.job_type for job in jobs)]
            self._ahead = 0 if claim.cut else min(ahead, default=self._ahead)

    def release(self, jobs: Sequence[Job], seconds: float | None = None) -> None:
        """Jobs are no longer held, or their slot is free; seconds: how long their handler took."""
        if self._limited or self._bound:
            for job in jobs:
                if job.job_type in self._limited:
                    self._held[job.job_type] -= 1
                if job.job_type in self._bound:
                    self.look.set()
        if seconds is not None:
            name, each = jobs[0].job_type, seconds / len(jobs)
            known = self._seconds.get(name)
            # Recent calls count more than old ones.
            self._seconds[name] = each if known is None else known + (each - known) * 0.1
        self.room.set()

    def wait(self, jobs: Sequence[Job], *, first: bool = False) -> None:
        """Put the jobs of a claim into the line. Both are in the order in which jobs begin."""
        line = self._first if first else self._line
        if line and jobs and _place(jobs[0]) < _place(line[-1]):
            ordered = sorted([*line, *jobs], key=_place)
            line.clear()
            line.extend(ordered)
        else:
            line.extend(jobs)
        if self._to_leave <= 0 and jobs:
            self._timed = self._to_leave = self.waiting
            self._timed_since = time.monotonic()

    def next_call(self) -> Sequence[Job] | None:
        """The jobs of the next call of a handler. Its slot is taken. None: no job waits, or no slot is free."""
        line = self._first or self._line
        if not line or self.busy >= (self.reach if line[0].status == "running" else self.slots):
            return None
        self.busy += 1
        self._to_leave -= 1
        if self._to_leave == 0:
            self._pace = self._timed / max(time.monotonic() - self._timed_since, 1e-6)
        return (line.popleft(),)

    def call_began(self, when: float) -> None:
        """A handler was called."""
        self._last_begin = max(when, self._last_begin)

    def take_waiting(self, which: Callable[[Job], bool] = lambda _: True) -> list[Job]:
        """Take jobs out of the line."""
        self._to_leave = 0
        taken: list[Job] = []
        for line in (self._first, self._line):
            taken += [job for job in line if which(job)]
            left = [job for job in line if not which(job)]
            line.clear()
            line.extend(left)
        return taken


class BatchGroup(SlotGroup):
    """One batch handler: a slot is a call, and a call takes many jobs."""

    def __init__(self, slots: int, handler: AnyHandler) -> None:
        super().__init__(f"batches of {handler.name}", slots, [handler])
        assert handler.batch is not None
        self.batch = handler.batch
        self._since: float | None = None
        self._alarm: asyncio.TimerHandle | None = None

    def demand(self, most: int) -> Demand | None:
        free = 0 if self.busy >= self.slots else min(self.batch.size - self.waiting, most)
        if free <= 0 or not self.undeclared.isdisjoint(self.handlers):
            return None
        # Without a wait the claim itself makes the batch, and starts it in the same write.
        start = free if not self.batch.wait and not self.waiting else 0
        return Demand(list(self.handlers), None, free, start)

    def wait(self, jobs: Sequence[Job], *, first: bool = False) -> None:
        super().wait(jobs, first=first)
        if jobs and self._since is None:
            self._since = time.monotonic()
            self._alarm = asyncio.get_running_loop().call_later(self.batch.wait, self.on_time)

    def next_call(self) -> Sequence[Job] | None:
        if not self.waiting or self.busy >= self.slots or not self._is_time():
            return None
        self.busy += 1
        call = [(self._first or self._line).popleft() for _ in range(min(self.batch.size, self.waiting))]
        if not self.waiting:
            self._reset()
        return call

    def is_stuck(self) -> bool:
        return False

    def take_waiting(self, which: Callable[[Job], bool] = lambda _: True) -> list[Job]:
        taken = super().take_waiting(which)
        if not self.waiting:
            self._reset()
        return taken

    def _is_time(self) -> bool:
        full = self.waiting >= self.batch.size
        return full or (self._since is not None and time.monotonic() - self._since >= self.batch.wait * 0.999)

    def _reset(self) -> None:
        self._since = None
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None


def _place(job: Job) -> tuple[int, datetime, uuid.UUID]:
    """Jobs begin in this order."""
    return -job.priority, job.run_at, job.id


def slot_groups(handlers: Iterable[AnyHandler], options: WorkerOptions) -> list[SlotGroup]:
    """The groups for these handlers."""
    known = list(handlers)
    kinds = {
        "async": ("the loop", options.concurrency),
        "thread": ("threads", options.threads),
        "process": ("child processes", options.children),
    }
    groups: list[SlotGroup] = []
    for kind, (name, slots) in kinds.items():
        members = [handler for handler in known if handler.kind == kind and handler.batch is None]
        if members:
            groups.append(SlotGroup(name, slots, members))
    return groups + [BatchGroup(handler.concurrency or 1, handler) for handler in known if handler.batch is not None]


class Suspects:
    """Jobs that were running when a worker died. Each runs apart from others until it ends.

    A few at a time, each in a child process of its own; if a child would not find the handler, alone in this worker.
    Until its turn a suspect is only claimed, so that it loses nothing by waiting.
    """

    def __init__(self, slots: int, start: Callable[[SlotGroup, Job], bool]) -> None:
        self._slots = slots
        self._start = start
        """Starts a suspect. True: nothing else may run beside it."""
        self._line: deque[tuple[SlotGroup, Job]] = deque()
        self._running: set[uuid.UUID] = set()
        self.alone: uuid.UUID | None = None
        """The job beside which nothing else may run now."""

    @property
    def has_room(self) -> bool:
        return len(self._line) < self._slots

    def add(self, group: SlotGroup, job: Job) -> bool:
        """False: the line is long enough, and other workers may run the job sooner."""
        if not self.has_room:
            return False
        self._line.append((group, job))
        self._start_next()
        return True

    def ended(self, job: Job) -> None:
        self._running.discard(job.id)
        if self.alone == job.id:
            self.alone = None
        self._start_next()

    def clear(self) -> list[tuple[SlotGroup, Job]]:
        """Take all jobs out of the line."""
        waiting, self._line = list(self._line), deque()
        return waiting

    def _start_next(self) -> None:
        while self._line and self.alone is None and len(self._running) < self._slots:
            group, job = self._line.popleft()
            self._running.add(job.id)
            if self._start(group, job):
                self.alone = job.id
