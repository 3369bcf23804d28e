"""The dispatcher: holds the jobs of a worker from their claim until their end is written.

    arrived ──→ waiting ──→ starting ──→ running ──→ ended ──→ written
       │           └─ started ahead ────→─┤
       ├─ started, because a slot is free ─┘
       └─ a suspect ──→ in line for a child process of its own

A job that its claim started ahead waits for a slot as others do, and begins without a write. The database does not know
when. So a call that takes longer than expected is noted there while it runs.

In all of this the database decides: every write contains the token of the claim, and one that is too late changes nothing.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from howdah.checks.context import Context
from howdah.db.database import Database
from howdah.db.outage import Backoff
from howdah.handlers.handler import AnyHandler
from howdah.handlers.middleware import AnyMiddleware
from howdah.handlers.outcome import Completed, CompletedByHandler, Ending, Failed, Interrupted, NotBegun, Suspended
from howdah.model.codec import PLAIN
from howdah.model.failure import describe, loggable
from howdah.model.job import Job, why_unreadable
from howdah.verbs.claims import UNREADABLE_DELAY
from howdah.worker import calls
from howdah.worker.calls import Claim, ClaimRef, claim_ref
from howdah.worker.connection import WorkerConnection
from howdah.worker.options import WorkerOptions
from howdah.worker.run import endings
from howdah.worker.run.child import will_be_found
from howdah.worker.run.children import Child, Children, ChildStartError
from howdah.worker.run.completer import Completer, Ended
from howdah.worker.run.executor import Executor, Invocation
from howdah.worker.run.run import Run, RunServices, StopReason
from howdah.worker.run.slot_group import BatchGroup, SlotGroup, Suspects, slot_groups
from howdah.worker.run.thread_lifespan import ThreadLifespan
from howdah.worker.run.throughput import ThroughputMeter
from howdah.worker.shutdown import StopRequests
from howdah.worker.summary import WorkerSummary

log = logging.getLogger("howdah.worker")

LAUNCHES_IN_A_TURN = 100
"""Runs that are launched in one turn of the loop. More would keep everything else on it waiting."""
MOST_IN_THREADS = 1_000
"""Calls that may wait for a thread, if their handlers are quick: a thread that is done takes the next one by itself."""
NOTED_AFTER = 0.5
"""Seconds of a call, after which the database is told that a job which its claim started ahead has begun."""
HANDED_BACK: Final = (Interrupted, NotBegun)
MOST_UNWRITTEN = 5_000
"""Endings that may wait to be written before nothing more is claimed."""


class Dispatcher:
    """Holds jobs, runs them, and has their ends written."""

    def __init__(
        self,
        database: Database,
        context: Context,
        connection: WorkerConnection,
        handlers: Mapping[str, AnyHandler],
        options: WorkerOptions,
        resources: Mapping[str | type, Any],
        middleware: Sequence[AnyMiddleware],
        summary: WorkerSummary,
        stops: StopRequests,
        *,
        thread_lifespan: ThreadLifespan | None = None,
        begin_child: Callable[[], None] | None = None,
    ) -> None:
        self.held: dict[int, Job] = {}
        """Every job that this worker holds according to the database, until its end is written. By the id() of the job object."""
        self.runs: dict[int, Run] = {}
        """By the id() of the job object."""
        self.closed = False
        """Nothing is started any more: the worker stops, or is fenced."""
        self.fenced = False
        self.leaked = 0
        """Handlers that were asked to stop, were abandoned, and still run."""
        self.handlers = handlers
        self.summary = summary
        self.stops = stops
        self.groups = slot_groups(handlers.values(), options)
        self.throughput = ThroughputMeter()
        self.suspects = Suspects(max(1, min(4, options.children)), self._start_suspect)
        self._launching: set[SlotGroup] = set()
        """Groups of which more calls can be made, in the next turn of the loop."""
        self._to_launch: deque[tuple[SlotGroup, Sequence[Job]]] = deque()
        """Calls of jobs that were started because slots are free."""
        more_comes = lambda: bool(self._launching or self._to_launch)  # noqa: E731
        self._completer = Completer(database, connection, context, self._on_written, more_comes)
        self.database = self._database = database
        self.on_advance: Callable[[], None] = lambda: None
        """There may be something to do for workflows."""
        self.advanced_at = -1
        """The activity up to which nothing was left to do for workflows."""
        self._context = context
        self._options = options
        self._group_by_type = {name: group for group in self.groups for name in group.handlers}
        self._services = RunServices(resources, context, database, self._completer, capture_logs=options.capture_logs)
        self._children = Children(database, begin_child)
        threads = sum(group.slots for group in self.groups if group.kind == "thread")
        self._executor = Executor(
            threads,
            self._children,
            middleware,
            thread_lifespan=thread_lifespan,
            on_result=self._on_result,
            on_leak=self._on_leak,
        )
        self._loop = asyncio.get_running_loop()
        self._to_fill: set[SlotGroup] = set()
        self._ended_of: set[AnyHandler] = set()
        """Handlers of which a run has ended in this turn of the loop."""
        self._completed_by_handler: set[ClaimRef] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._let_go_at = float("-inf")
        self._no_runs = asyncio.Event()
        self._no_runs.set()
        for group in self.groups:
            group.on_time = functools.partial(self._fill_soon, group)
            if group.kind == "thread" and not self._executor.middleware and not isinstance(group, BatchGroup):
                group.reach = max(group.slots, MOST_IN_THREADS)

    # For the claimers

    def may_claim(self) -> bool:
        # A suspect that is alone in this worker runs, or is about to: nothing may run beside it.
        return not (self.fenced or self.suspects.alone or self.stops.count or self._completer.backlog > MOST_UNWRITTEN)

    def wake(self, bucket: int | None = None) -> None:
        """There may be jobs to claim, of types in this bucket."""
        for group in self.groups:
            group.wake(bucket)

    def check_drained(self) -> None:
        """Stop the worker if it only drains the queue, and nothing is left."""
        idle = self._options.drain and not (self.stops.count or self.held or self._completer.backlog)
        if (
            idle
            and all(group.empty_at == group.activity for group in self.groups)
            and self.advanced_at == self.activity
        ):
            self.stops.add()

    @property
    def activity(self) -> int:
        """Grows whenever there may be more to do."""
        return sum(group.activity for group in self.groups)

    def advanced(self) -> None:
        """Jobs of workflows may have become due."""
        for group in self.groups:
            group.activity += 1
            group.look.set()

    def _job_ended(self, handler: AnyHandler) -> None:
        """A job of a handler ended, or its end was written: there may be more to claim."""
        drain = self._options.drain
        # A handler may have enqueued jobs of any other type. That matters only if the worker drains the queue.
        for group in self.groups if drain else (self._group_by_type[handler.name],):
            group.activity += 1
            if drain or handler.has_flow:
                group.look.set()
        if drain:
            self.check_drained()

    def arrived(self, group: SlotGroup, claim: Claim, *, by_age: bool = False) -> None:
        """Take in the jobs of a claim; ``by_age``: those that have waited longest, which start first."""
        group.activity += 1
        jobs: Sequence[Job] = claim.jobs
        # A single unreadable job fails by itself when it is read. In a batch it would fail the others too.
        if claim.has_inputs or self._context.codec is not PLAIN or isinstance(group, BatchGroup):
            jobs = [job for job in jobs if self._can_be_read(job)]
        self.throughput.claimed(jobs)
        group.take(jobs, claim, by_age=by_age)
        begun: list[Job] = []
        suspects: list[Job] = []
        waiting: list[Job] = []
        started = {id(job) for job in claim.jobs[: claim.started] if job.status == "running"}
        for job in jobs:
            self.held[id(job)] = job
            if job.crashes:
                suspects.append(job)
            elif id(job) in started:
                begun.append(job)
            else:
                waiting.append(job)
        group.wait(waiting, first=by_age)
        if begun:
            self._launch_soon(group, [begun] if isinstance(group, BatchGroup) else [[job] for job in begun])
        for job in suspects:
            if self.closed or not self.suspects.add(group, job):
                self._hand_back(group, [job], NotBegun())
        self._fill_soon(group)

    def held_refs(self) -> dict[ClaimRef, Job]:
        """The jobs that are held, by their claims."""
        return {claim_ref(job): job for job in self.held.values()}

    def _can_be_read(self, job: Job) -> bool:
        reason = why_unreadable(job)
        if reason is not None:
            self.held[id(job)] = job
            # A codec may lack a key that another worker has. What Python itself cannot read, no worker can.
            for_good = self._context.codec is PLAIN or type(job) is Job
            self._completer.end(job, Failed(reason, delay=None if for_good else UNREADABLE_DELAY, give_up=for_good))
        return reason is None

    # Jobs start

    def _fill_soon(self, group: SlotGroup) -> None:
        """Fill the slots, once for all jobs that end in this turn of the loop."""
        if not self._to_fill:
            self._loop.call_soon(self._fill_all)
        self._to_fill.add(group)

    def _fill_all(self) -> None:
        groups, self._to_fill = self._to_fill, set()
        handlers, self._ended_of = self._ended_of, set()
        for handler in handlers:
            self._job_ended(handler)
        for group in groups:
            self._launching.discard(group)
            if group.waiting and not (self.closed or self.suspects.alone):
                self._fill(group)

    def _fill(self, group: SlotGroup) -> None:
        """Call handlers with jobs that were started ahead, and start others, as far as there are slots."""
        starting: list[Sequence[Job]] = []
        launched = 0
        while launched < LAUNCHES_IN_A_TURN and (call := group.next_call()):
            if group.in_children:
                self._spawn(self._start_in_child(group, call[0]))
            elif call[0].status == "running":
                launched += 1
                self._launch(group, call, noted=False)
            else:
                starting.append(call)
        if starting:
            self._spawn(self._start(group, starting))
        if launched == LAUNCHES_IN_A_TURN:
            self._launching.add(group)
            self._fill_soon(group)
        if launched:
            group.room.set()

    async def _start(self, group: SlotGroup, starting: Sequence[Sequence[Job]]) -> None:
        begun = await self._completer.start([job for jobs in starting for job in jobs])
        for jobs in starting:
            still_ours = [job for job in jobs if job.id in begun]
            for job in jobs:
                if job.id not in begun:
                    self._gone(group, job)
            if still_ours:
                self._launch(group, still_ours)
            else:
                group.busy -= 1
        group.room.set()

    def _launch_soon(self, group: SlotGroup, calls: Sequence[Sequence[Job]]) -> None:
        """Launch calls of started jobs: a few at once, many in several turns of the loop.

        So the next claim, and the ends of the first jobs, are under way before all of them run.
        """
        group.busy += len(calls)
        if len(calls) > LAUNCHES_IN_A_TURN:
            self._to_launch.extend((group, call) for call in calls)
            self._loop.call_soon(self._launch_some)
        else:
            for call in calls:
                self._launch(group, call)

    def _launch_some(self) -> None:
        for _ in range(min(len(self._to_launch), LAUNCHES_IN_A_TURN)):
            self._launch(*self._to_launch.popleft())
        if self._to_launch:
            self._loop.call_soon(self._launch_some)

    async def _start_in_child(self, group: SlotGroup, job: Job) -> None:
        """Start a job once there is a child for it: the start of the child does not count for its timeout."""
        try:
            child = await self._children.reserve(group.handlers[job.job_type])
        except ChildStartError as error:
            if self._children.accepting:
                about = endings.log_fields(job, "no_child")
                log.error("%s: %s %s is handed back", error, job.job_type, job.id, extra=about)
                # The job is not the cause, and the cause will not be gone at once.
                await asyncio.sleep(1)
            self._refuse(group, [job])
            return
        if self.closed:
            self._children.put_back(child)
            self._refuse(group, [job])
        elif job.id in await self._completer.start([job]):
            self._launch(group, [job], child)
        else:
            self._children.put_back(child)
            self._leave_slot(group, job)
            self._gone(group, job)

    def _launch(self, group: SlotGroup, jobs: Sequence[Job], child: Child | None = None, *, noted: bool = True) -> None:
        # A process that stood still may go on before it learns that its jobs have new owners.
        now = time.monotonic()
        is_late = not noted and now > self._services.held_until
        if self.closed or is_late or (self.suspects.alone and self.suspects.alone != jobs[0].id):
            if child is not None:
                self._children.put_back(child)
            self._refuse(group, jobs)
            return
        run = Run(group.handlers[jobs[0].job_type], jobs, self._services, noted=noted)
        if not self.runs:
            self._no_runs.clear()
        for job in jobs:
            self.runs[id(job)] = run
        if Invocation(self._executor, run, child).start(now):
            group.call_began(now)

    def _refuse(self, group: SlotGroup, jobs: Sequence[Job]) -> None:
        """Hand back jobs that arrived, or were started, when the worker was already stopping."""
        self._leave_slot(group, jobs[0])
        self._hand_back(group, jobs, Interrupted())

    def _leave_slot(self, group: SlotGroup, job: Job) -> None:
        if job.crashes:
            self.suspects.ended(job)
            self._fill_everywhere()
        else:
            group.busy -= 1

    def _fill_everywhere(self) -> None:
        for group in self.groups:
            self._fill_soon(group)

    # Suspects run apart

    def _start_suspect(self, group: SlotGroup, job: Job) -> bool:
        in_child = will_be_found(group.handlers[job.job_type])
        self._spawn(self._start_in_child(group, job) if in_child else self._start_alone(group, job))
        return not in_child

    async def _start_alone(self, group: SlotGroup, job: Job) -> None:
        """A child process cannot import the handler: the job runs here, with nothing beside it."""
        log.warning("%s %s crashed a worker before, and runs alone", job.job_type, job.id)
        self._hand_back_line()
        await self._no_runs.wait()
        if self.closed:
            self._refuse(group, [job])
        elif job.id in await self._completer.start([job]):
            self._launch(group, [job])
        else:
            self._leave_slot(group, job)
            self._gone(group, job)

    # Jobs end

    def _on_result(self, run: Run, made: Sequence[Ending | None]) -> None:
        """Called when the handler of a run returned, raised or was abandoned."""
        run.close()
        group, now = self._group_by_type[run.handler.name], time.monotonic()
        seconds = run.seconds_until(now)
        if run.took is not None and run.began is not None:
            group.call_began(run.began)  # in a thread
        self._leave_slot(group, run.jobs[0])
        group.release(run.jobs, None if run.began is None else seconds)
        for job, ending in zip(run.jobs, made, strict=True):
            del self.runs[id(job)]
            if ending is None or isinstance(ending, HANDED_BACK):
                self.throughput.released(job)
                if ending is not None and run.reason == "shutdown":
                    self.summary.counts["interrupted"] += 1
            else:
                self.throughput.ended(job, seconds, now)
            self._end(job, endings.with_spawned(ending, run.spawned.get(job.id, ())) if run.spawned else ending)
        if not self.runs:
            self._no_runs.set()
        self._ended_of.add(run.handler)
        self._fill_soon(group)

    def _end(self, job: Job, ending: Ending | None) -> None:
        if isinstance(ending, Completed):
            self._completer.end(job, ending if ending.result is None else endings.storable(self._context, ending))
        elif ending is None:
            self.held.pop(id(job), None)
            self._completer.forget(job)
            self.summary.counts["refused"] += 1
            log.warning(
                "%s %s was taken from this worker: the result of its handler is not recorded",
                job.job_type,
                job.id,
                extra=endings.log_fields(job, "lost"),
            )
        elif isinstance(ending, Suspended):
            self._completer.forget(job)
            self._on_written([(job, ending)], ["pending"])
        elif isinstance(ending, CompletedByHandler):
            self._spawn(self._confirm(job, ending))
        else:
            self._completer.end(job, ending)

    async def _confirm(self, job: Job, ending: CompletedByHandler) -> None:
        """The handler completed its job in its own transaction. If that was rolled back, the attempt has failed."""
        backoff = Backoff()
        while True:
            try:
                held = await self._database.arun(calls.is_held(claim_ref(job)))
            except Exception as error:  # noqa: BLE001
                log.warning("cannot see yet whether %s %s was completed: %s", job.job_type, job.id, describe(error))
                await asyncio.sleep(backoff.next())
            else:
                break
        if held:
            # This write waits for the handler's transaction if it is still open: the job may still become completed.
            self._completed_by_handler.add(claim_ref(job))
            self._completer.end(job, ending.otherwise)
        else:
            self._on_written([(job, ending)], ["completed"])

    def _on_written(self, batch: Sequence[Ended], statuses: Sequence[str | None]) -> None:
        """Endings are in the database, or were refused there."""
        held, by_handler, logs_all = self.held, self._completed_by_handler, log.isEnabledFor(logging.DEBUG)
        completed = 0
        for (job, ending), status in zip(batch, statuses, strict=True):
            held.pop(id(job), None)
            if by_handler and (ref := claim_ref(job)) in by_handler:
                by_handler.discard(ref)
                status = status or "completed"
            if status == "completed":
                completed += 1
            else:
                self.summary.counts[endings.counted_as(ending, status)] += 1
            if status != "completed" or logs_all:
                endings.log_ending(job, ending, status, is_private=self._context.codec is not PLAIN)
        if completed:
            self.summary.counts["completed"] += completed
        for job_type in {job.job_type: None for job, _ in batch}:
            if job_type in self.handlers:
                self._job_ended(self.handlers[job_type])

    def _gone(self, group: SlotGroup, job: Job) -> None:
        """A job that waited here is no longer held."""
        self.held.pop(id(job), None)
        group.release([job])
        self.throughput.released(job)

    # For the other parts of the worker

    def pulse(self) -> dict[str, Any]:
        """What a heartbeat reports of the jobs. Called from the heartbeat's thread."""
        claims = [group.last_claim for group in self.groups if group.last_claim is not None]
        since = None if not claims else timedelta(seconds=time.monotonic() - max(claims))
        measured = self.throughput.snapshot()
        waiting = sum(max(group.busy - group.slots, 0) for group in self.groups)
        running = max(len(self.runs) - waiting, 0)
        return {"running": running, "since_claim": since, "leaked": self.leaked, "throughput": measured}

    def take_from_line(self, job: Job, *, still_held: bool) -> None:
        """A waiting job was cancelled, or taken from this worker. One that was started ahead is still held."""
        group = self._group_by_type[job.job_type]
        if not group.take_waiting(lambda other: other.id == job.id):
            return
        if still_held:
            self._hand_back(group, [job], NotBegun())
        else:
            self._gone(group, job)

    def start_no_more(self) -> None:
        """The worker ends: hand back what has not been started, also what waits for a child to start."""
        self.closed = True
        self._children.accept_no_more()
        self.hand_back_waiting()

    def hand_back_waiting(self) -> None:
        """Hand back what has not been started."""
        self._hand_back_line()
        for group, job in self.suspects.clear():
            self._hand_back(group, [job], NotBegun())

    def hand_back_hoarded(self) -> None:
        """Hand back jobs that were claimed ahead of others that turned out to be slow: other workers may run them sooner."""
        for group in self.groups:
            if (group.waiting or group.busy > group.slots) and group.is_stuck():
                self._hand_back_line_of(group)

    def note_begun(self) -> None:
        """Tell the database of jobs that were started ahead, and have run for longer than expected."""
        late = [run for run in self.runs.values() if not run.noted and run.seconds >= NOTED_AFTER]
        if late:
            self._spawn(self._note_begun(late))

    async def _note_begun(self, runs: Sequence[Run]) -> None:
        begun = await self._completer.start([job for run in runs for job in run.jobs])
        for run in runs:
            run.noted = run.jobs[0].id in begun

    def _hand_back_line(self) -> None:
        while self._to_launch:
            self._refuse(*self._to_launch.popleft())
        for group in self.groups:
            self._hand_back_line_of(group)

    def _hand_back_line_of(self, group: SlotGroup) -> None:
        self._hand_back(group, group.take_waiting(), NotBegun())
        if group.busy > group.slots:  # calls wait for a thread, too
            for run in [run for run in self.runs.values() if run.began is None]:
                if run.handler.name in group.handlers:
                    run.withdraw()

    def _hand_back(self, group: SlotGroup, jobs: Sequence[Job], ending: Interrupted | NotBegun) -> None:
        group.release(jobs)
        for job in jobs:
            self.throughput.released(job)
            self._completer.end(job, ending)

    @property
    def is_cut_off(self) -> bool:
        """Whether no heartbeat has got through for nearly a lease."""
        return time.monotonic() > self._services.held_until

    def renew(self, until: float) -> None:
        """A heartbeat got through: the jobs are held until then, by the monotonic clock."""
        self._services.held_until = until

    def fence(self) -> None:
        """Let go of everything, before other workers may take it."""
        self.fenced = self.closed = True
        self._let_go_at = time.monotonic()
        self.hand_back_waiting()
        self.stop_runs("fenced")

    def reopen(self) -> None:
        """End the fence. Jobs that arrived meanwhile may start now."""
        self.fenced = False
        if not self.stops.count:
            self.closed = False
            self._fill_everywhere()

    def forget(self) -> None:
        """The worker holds none of its jobs any more."""
        self._let_go_at = time.monotonic()
        while self._to_launch:
            group, jobs = self._to_launch.popleft()
            group.busy -= 1
            for job in jobs:
                self._gone(group, job)
        for group in self.groups:
            for job in group.take_waiting():
                self._gone(group, job)
        for group, job in self.suspects.clear():
            self._gone(group, job)
        for run in set(self.runs.values()):
            for job in run.jobs:
                run.lose(job)

    def _on_leak(self, change: int) -> None:
        self.leaked += change
        self.shed_if_needed()

    def shed_if_needed(self) -> None:
        """Stop the worker if too many handlers do not end."""
        if self.leaked <= self._options.max_leaked or self.stops.count:
            return
        # Handlers that were stopped because of an outage usually end by themselves soon.
        if time.monotonic() - self._let_go_at >= max(self._options.lease, 60):
            log.error(
                "%d handlers do not end: this worker stops, to be started again", self.leaked, extra={"event": "shed"}
            )
            self.summary.shed = True
            self.stops.add()

    def stop_runs(self, reason: StopReason) -> int:
        """Ask every handler to stop. Returns how many there are."""
        runs = set(self.runs.values())
        for run in runs:
            run.stop(reason)
        return len(runs)

    async def no_runs(self) -> None:
        await self._no_runs.wait()

    async def settled(self) -> None:
        """Wait until the ends of all jobs are written."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))
        await self._completer.flush_all()

    async def close(self) -> None:
        await self._executor.close()
        await self._completer.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("unexpected error while a job was started or ended", exc_info=loggable(error))
