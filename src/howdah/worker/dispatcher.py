"""The floor: what happens to the jobs that a worker holds, from their claim to their end.

    arrived ──→ waiting ──→ starting ──→ running ──→ ended ──→ written
       └─ already started by the claim ──→─┘
       └─ a suspect ──→ in line for a child process of its own

Whatever happens here, the database decides: every write names the claim's token, and one that came too
late changes nothing.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from howdah.checks.context import Context
from howdah.checks.values import clean_text
from howdah.db.database import Database
from howdah.db.outage import Backoff
from howdah.handlers.handler import AnyHandler
from howdah.handlers.outcome import CompletedByHandler, Crashed, Ending, Failed, Interrupted
from howdah.model.codec import PLAIN
from howdah.model.failure import describe, loggable
from howdah.model.job import Job, why_unreadable
from howdah.verbs.claims import UNREADABLE_DELAY
from howdah.worker import calls
from howdah.worker.background.connection import Link
from howdah.worker.background.throughput import PaceMeter
from howdah.worker.calls import Claim, Hold
from howdah.worker.claim.slot_group import BatchCrew, Crew, crews_of
from howdah.worker.claim.suspects import Suspects
from howdah.worker.options import WorkerOptions
from howdah.worker.run import endings
from howdah.worker.run.children import Child, ChildNotBorn, Children
from howdah.worker.run.completer import Completer, Written
from howdah.worker.run.executor import Executor, Middleware
from howdah.worker.run.run import Desk, Run, StopReason, hold_of
from howdah.worker.run.threads import Threads
from howdah.worker.summary import WorkerReport, became

log = logging.getLogger("howdah.worker")

LAUNCHES_IN_A_TURN = 100
"""Of the loop: more would keep everything else on it waiting."""


class Floor:
    """Holds jobs, runs them, and has their ends written."""

    def __init__(
        self,
        database: Database,
        context: Context,
        writes: Link,
        handlers: Mapping[str, AnyHandler],
        options: WorkerOptions,
        resources: Mapping[str | type, Any],
        middleware: Sequence[Middleware],
        report: WorkerReport,
        *,
        leaked: Callable[[int], None],
        changed: Callable[[Crew, AnyHandler], None],
        begin_child: Callable[[], None] | None = None,
    ) -> None:
        self.held: dict[Hold, Job] = {}
        """Every job that the database says is ours, until its end is written."""
        self._run_by_job: dict[int, Run] = {}
        """By the object that stands for the job."""
        self.closed = False
        """Nothing is started any more: the worker stops, or has been cut off."""
        self.crews = crews_of(handlers.values(), options)
        self.pace = PaceMeter()
        self._to_launch: deque[tuple[Crew, Sequence[Job]]] = deque()
        self.completer = Completer(database, writes, context, self._written, lambda: bool(self._to_launch))
        self._database = database
        self._context = context
        self._handlers = handlers
        self._crew_by_type = {name: crew for crew in self.crews for name in crew.handlers}
        self._report = report
        self._changed = changed
        self._desk = Desk(resources, context, database, self.completer, capture_logs=options.capture_logs)
        self._children = Children(database, begin_child)
        threads = sum(crew.slots for crew in self.crews if crew.kind == "thread")
        self._threads = Threads(threads, leaked=leaked)
        self._executor = Executor(self._threads, self._children, middleware, ended=self._ended, leaked=leaked)
        self._suspects = Suspects(max(1, min(4, options.children)), begin=self._begin_suspect, alone=self._begin_alone)
        self._loop = asyncio.get_running_loop()
        self._to_fill: set[Crew] = set()
        self._ended_of: set[AnyHandler] = set()
        """Handlers of which a run has ended in this turn of the loop."""
        self._completed_by_handler: set[Hold] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._no_runs = asyncio.Event()
        self._no_runs.set()
        for crew in self.crews:
            crew.on_time = functools.partial(self._fill_soon, crew)

    @property
    def quarantine(self) -> bool:
        """A suspect that cannot have a process of its own runs, or is about to: nothing may run beside it."""
        return self._suspects.somebody_is_alone

    @property
    def has_room_for_suspects(self) -> bool:
        return self._suspects.has_room

    @property
    def is_empty(self) -> bool:
        return not self.held and not self.completer.backlog

    @property
    def running(self) -> int:
        """How many jobs run."""
        return len(self._run_by_job)

    def run_of(self, job: Job) -> Run | None:
        return self._run_by_job.get(id(job))

    # Jobs come

    def arrived(self, crew: Crew, claim: Claim, *, by_age: bool = False) -> None:
        """Takes in what a claim brought; ``by_age``: what has waited longest, and waits here for nobody."""
        jobs: Sequence[Job] = claim.jobs
        # Alone, a job fails by itself when it is read. In a batch it would take the others with it.
        if self._context.codec is not PLAIN or isinstance(crew, BatchCrew):
            jobs = [job for job in jobs if self._can_be_read(job)]
        self.pace.came(jobs)
        begun: list[Job] = []
        suspects: list[Job] = []
        for job in jobs:
            crew.took(job)
            self.held[hold_of(job)] = job
            if job.crashes:
                suspects.append(job)
            elif job.status == "running":
                begun.append(job)
            else:
                crew.waits(job, first=by_age)
        if not by_age:
            crew.saw(jobs, cut=claim.cut)
        if begun:
            self._launch_soon(crew, [begun] if isinstance(crew, BatchCrew) else [[job] for job in begun])
        for job in suspects:
            if self.closed or not self._suspects.add(crew, job):
                self._hand_back(crew, [job])
        self._fill_soon(crew)

    def _can_be_read(self, job: Job) -> bool:
        reason = why_unreadable(job)
        if reason is not None:
            self.held[hold_of(job)] = job
            self.completer.end(job, Failed(reason, delay=UNREADABLE_DELAY))
        return reason is None

    # Jobs start

    def _fill_soon(self, crew: Crew) -> None:
        """Once for all jobs that end in this turn of the loop."""
        if not self._to_fill:
            self._loop.call_soon(self._fill_all)
        self._to_fill.add(crew)

    def _fill_all(self) -> None:
        crews, self._to_fill = self._to_fill, set()
        handlers, self._ended_of = self._ended_of, set()
        for handler in handlers:
            self._changed(self._crew_by_type[handler.name], handler)
        for crew in crews:
            if self.closed or self.quarantine or not (waiting := list(crew.calls())):
                continue
            if crew.in_children:
                for (job,) in waiting:
                    self._spawn(self._start_in_child(crew, job))
            else:
                self._spawn(self._start(crew, waiting))

    async def _start(self, crew: Crew, waiting: Sequence[Sequence[Job]]) -> None:
        begun = await self.completer.start([job for jobs in waiting for job in jobs])
        for jobs in waiting:
            still_ours = [job for job in jobs if job.id in begun]
            for job in jobs:
                if job.id not in begun:
                    self._gone(crew, job)
            if still_ours:
                self._launch(crew, still_ours)
            else:
                crew.busy -= 1
        crew.room.set()

    def _launch_soon(self, crew: Crew, calls: Sequence[Sequence[Job]]) -> None:
        """Launches calls of started jobs: a few at once, of many a part in each turn of the loop.

        So the next claim and what has ended are under way while the rest still runs.
        """
        crew.busy += len(calls)
        if len(calls) > LAUNCHES_IN_A_TURN:
            self._to_launch.extend((crew, call) for call in calls)
            self._loop.call_soon(self._launch_some)
        else:
            for call in calls:
                self._launch(crew, call)

    def _launch_some(self) -> None:
        for _ in range(min(len(self._to_launch), LAUNCHES_IN_A_TURN)):
            self._launch(*self._to_launch.popleft())
        if self._to_launch:
            self._loop.call_soon(self._launch_some)

    async def _start_in_child(self, crew: Crew, job: Job) -> None:
        """Starts a job once there is a child for it: its time does not run while one is being born."""
        try:
            child = await self._children.reserve(crew.handlers[job.job_type])
        except ChildNotBorn as error:
            if self._children.expecting:
                log.error("%s: %s %s is handed back", error, job.job_type, job.id, extra=_about(job, "no_child"))
                # Not the job's fault, and not gone the next moment.
                await asyncio.sleep(1)
            self._refuse(crew, [job])
            return
        if self.closed:
            self._children.put_back(child)
            self._refuse(crew, [job])
        elif job.id in await self.completer.start([job]):
            self._launch(crew, [job], child)
        else:
            self._children.put_back(child)
            self._leave_slot(crew, job)
            self._gone(crew, job)

    def _launch(self, crew: Crew, jobs: Sequence[Job], child: Child | None = None) -> None:
        if self.closed or (self.quarantine and not self._suspects.is_alone(jobs[0])):
            if child is not None:
                self._children.put_back(child)
            self._refuse(crew, jobs)
            return
        run = Run(crew.handlers[jobs[0].job_type], jobs, self._desk)
        for job in jobs:
            self._run_by_job[id(job)] = run
        self._no_runs.clear()
        self._executor.launch(run, child)

    def _refuse(self, crew: Crew, jobs: Sequence[Job]) -> None:
        """They came, or were started, when the worker was already stopping: handed back before they ran."""
        self._leave_slot(crew, jobs[0])
        self._hand_back(crew, jobs)

    def _leave_slot(self, crew: Crew, job: Job) -> None:
        if job.crashes:
            self._suspects.ended(job)
            self._fill_everywhere()
        else:
            crew.busy -= 1

    def _fill_everywhere(self) -> None:
        for crew in self.crews:
            self._fill_soon(crew)

    def reopen(self) -> None:
        """What came while the worker was cut off may start now."""
        self.closed = False
        self._fill_everywhere()

    def let_go_of_hoarded(self) -> None:
        """Hands back what was claimed ahead of quick jobs that have become slow: others may run it sooner."""
        for crew in self.crews:
            if crew.is_stuck():
                self._hand_back(crew, crew.take_waiting())

    # Suspects run apart

    def _begin_suspect(self, crew: Crew, job: Job) -> None:
        self._spawn(self._start_in_child(crew, job))

    def _begin_alone(self, crew: Crew, job: Job) -> None:
        self._spawn(self._start_alone(crew, job))

    async def _start_alone(self, crew: Crew, job: Job) -> None:
        """The handler cannot be imported by a child process: the job runs here, with nothing beside it."""
        log.warning("%s %s crashed a worker before, and runs alone", job.job_type, job.id)
        self._hand_back_line()
        await self._no_runs.wait()
        if self.closed:
            self._refuse(crew, [job])
        elif job.id in await self.completer.start([job]):
            self._launch(crew, [job])
        else:
            self._leave_slot(crew, job)
            self._gone(crew, job)

    # Jobs end

    def _ended(self, run: Run, made: Sequence[Ending | None]) -> None:
        run.close()
        crew = self._crew_by_type[run.handler.name]
        seconds = time.monotonic() - run.started
        crew.measured(run.handler.name, seconds, len(run.jobs))
        self._leave_slot(crew, run.jobs[0])
        for job, ending in zip(run.jobs, made, strict=True):
            del self._run_by_job[id(job)]
            crew.lets_go(job)
            if ending is None or isinstance(ending, Interrupted):
                self.pace.left(job)
            else:
                self.pace.ended(job, seconds)
            if run.reason == "shutdown" and isinstance(ending, Interrupted):
                self._report.counts["interrupted"] += 1
            self._end(job, ending)
        if not self._run_by_job:
            self._no_runs.set()
        self._ended_of.add(run.handler)
        self._fill_soon(crew)

    def _end(self, job: Job, ending: Ending | None) -> None:
        if ending is None:
            self.held.pop(hold_of(job), None)
            self.completer.forget(job)
            self._report.counts["refused"] += 1
            log.warning(
                "%s %s was taken from this worker: what its handler did is not recorded",
                job.job_type,
                job.id,
                extra=_about(job, "lost"),
            )
        elif isinstance(ending, CompletedByHandler):
            self._spawn(self._confirm(job, ending))
        else:
            self.completer.end(job, endings.storable(self._context, ending))

    async def _confirm(self, job: Job, ending: CompletedByHandler) -> None:
        """The handler completed its job in its own transaction. If that was rolled back, the attempt has failed."""
        backoff = Backoff()
        while True:
            try:
                held = await self._database.arun(calls.is_held(hold_of(job)))
            except Exception as error:  # noqa: BLE001
                log.warning("cannot see yet whether %s %s was completed: %s", job.job_type, job.id, describe(error))
                await asyncio.sleep(backoff.next())
            else:
                break
        if held:
            # Waits for the handler's transaction, if that is still open: then it may have been completed after all.
            self._completed_by_handler.add(hold_of(job))
            self.completer.end(job, ending.otherwise)
        else:
            self._written([Written(job, ending, "completed")])

    def _written(self, batch: Sequence[Written]) -> None:
        """Endings are in the database, or were refused there."""
        for job, ending, status in batch:
            hold = hold_of(job)
            self.held.pop(hold, None)
            if self._completed_by_handler and hold in self._completed_by_handler:
                self._completed_by_handler.discard(hold)
                status = status or "completed"
            self._report.counts[became(ending, status)] += 1
            if status != "completed" or log.isEnabledFor(logging.DEBUG):
                _tell(job, ending, status, is_private=self._context.codec is not PLAIN)
        for job_type in {job.job_type for job, _, _ in batch} & self._handlers.keys():
            self._changed(self._crew_by_type[job_type], self._handlers[job_type])

    def _gone(self, crew: Crew, job: Job) -> None:
        """A job that waited here is no longer ours."""
        self.held.pop(hold_of(job), None)
        crew.lets_go(job)
        self.pace.left(job)

    # What the worker says

    def take_from_line(self, job: Job) -> None:
        """A job that waits here was cancelled, or taken away."""
        crew = self._crew_by_type[job.job_type]
        if crew.take_waiting(lambda other: other.id == job.id):
            self._gone(crew, job)

    def begin_no_more(self) -> None:
        """The worker ends: hands back what has not been started, also what waits for a child to be born."""
        self.closed = True
        self._children.expect_no_more()
        self.hand_back_waiting()

    def hand_back_waiting(self) -> None:
        """Hands back what has not been started."""
        self._hand_back_line()
        for crew, job in self._suspects.clear():
            self._hand_back(crew, [job])

    def _hand_back_line(self) -> None:
        while self._to_launch:
            self._refuse(*self._to_launch.popleft())
        for crew in self.crews:
            self._hand_back(crew, crew.take_waiting())

    def _hand_back(self, crew: Crew, jobs: Sequence[Job]) -> None:
        for job in jobs:
            crew.lets_go(job)
            self.pace.left(job)
            self.completer.end(job, Interrupted())

    def forget(self) -> None:
        """Nothing of what is held here is ours any more."""
        while self._to_launch:
            crew, jobs = self._to_launch.popleft()
            crew.busy -= 1
            for job in jobs:
                self._gone(crew, job)
        for crew in self.crews:
            for job in crew.take_waiting():
                self._gone(crew, job)
        for crew, job in self._suspects.clear():
            self._gone(crew, job)
        for run in set(self._run_by_job.values()):
            for job in run.jobs:
                run.lose(job)

    def stop_runs(self, reason: StopReason) -> int:
        """Tells every handler to stop. How many there are."""
        runs = set(self._run_by_job.values())
        for run in runs:
            run.stop(reason)
        return len(runs)

    async def no_runs(self) -> None:
        await self._no_runs.wait()

    async def settled(self) -> None:
        """Waits until everything that ended here is written."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))
        await self.completer.flush()

    async def close(self) -> None:
        self._threads.close()
        await self._children.close()
        await self.completer.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._spawned_ended)

    def _spawned_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("unexpected, beside the jobs that run", exc_info=loggable(error))


def _tell(job: Job, ending: Ending, status: str | None, *, is_private: bool) -> None:
    """Logs how a job ended. Its arguments are never part of that; nor, where values are encrypted, its error."""
    if status is None and not isinstance(ending, Interrupted):
        log.warning(
            "the end of %s %s came too late and changed nothing: the job was no longer this worker's",
            job.job_type,
            job.id,
            extra=_about(job, "refused"),
        )
    elif isinstance(ending, Failed | Crashed):
        log.warning(
            "%s %s failed (attempt %d of %d, %s): %s",
            job.job_type,
            job.id,
            job.attempts,
            job.max_attempts,
            {"pending": "to be tried again", "failed": "for good"}.get(status or "", f"now {status}"),
            f"howdah show {job.id} has the error" if is_private else _one_line(ending.error),
            extra=_about(job, "failed"),
        )
    elif log.isEnabledFor(logging.DEBUG):
        log.debug("%s %s: %s", job.job_type, job.id, status, extra=_about(job, type(ending).__name__.lower()))


def _about(job: Job, event: str) -> dict[str, str]:
    return {"event": event, "job_id": str(job.id), "job_type": job.job_type}


def _one_line(text: str) -> str:
    """The beginning of an error, fit for any log."""
    line = (clean_text(text).splitlines() or [""])[0][:200]
    return "".join(c if c.isprintable() else "\ufffd" for c in line)
