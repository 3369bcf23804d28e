"""The worker: claims jobs, runs their handlers, and writes how they ended.

    claimer → floor (crews: slots, and who waits for one) → executor → completer → the database
    heartbeat (a thread) · notifier (LISTEN) · orders (cancelled? lost?) · maintenance (sweep, schedules)

This is the composition of these parts, their beginning and their end, and the fence: a worker that the
database has not heard of for nearly a lease lets go of everything before others may take it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import psycopg

from howdah.checks.context import Context
from howdah.db import forks
from howdah.db.database import Database
from howdah.db.outage import Backoff, Locked, Outage
from howdah.errors import DatabaseUnavailable, InvalidOption, LoginRefused
from howdah.handlers import resource
from howdah.handlers.handler import AnyHandler
from howdah.model.failure import describe
from howdah.standard_streams import open_closed_ones
from howdah.worker import calls
from howdah.worker.background.connection import Link
from howdah.worker.background.declarations import Declarations
from howdah.worker.background.heartbeat import Heartbeat
from howdah.worker.background.maintenance import Maintenance
from howdah.worker.background.reconciler import Orders
from howdah.worker.background.service import Service, happens
from howdah.worker.claim.claimer import Claimer
from howdah.worker.claim.notifier import Notifier
from howdah.worker.claim.sleep_locks import SleepLocks
from howdah.worker.claim.slot_group import Crew
from howdah.worker.dispatcher import Floor
from howdah.worker.options import WorkerOptions
from howdah.worker.run import log_capture
from howdah.worker.run.executor import Middleware
from howdah.worker.shutdown import handled_signals
from howdah.worker.summary import WorkerReport

log = logging.getLogger("howdah.worker")

MOST_UNWRITTEN = 5_000
"""Endings that may wait to be written before nothing more is claimed."""
FENCE_AT = 0.9
"""Of the lease: a worker that was silent for so long stops before others may take its jobs."""

Resources = Mapping[str | type, Any]


class Worker:
    """One process's worker. ``run`` it once."""

    def __init__(
        self,
        database: Database,
        context: Context,
        handlers: Mapping[str, AnyHandler],
        options: WorkerOptions,
        *,
        middleware: Sequence[Middleware],
        open_resources: Callable[[contextlib.AsyncExitStack], Awaitable[Resources]],
        prepare: Callable[[], None],
        schedules: Sequence[str] = (),
    ) -> None:
        self.options = options
        self.handlers = _chosen(handlers, options.types)
        self.context = dataclasses.replace(context, worker_id=options.name)
        self.worker_id = options.name
        self.report = WorkerReport(self.worker_id)
        self.leaked = 0
        """Handlers that were told to stop, were given up, and go on nevertheless."""
        self.begin_child: Callable[[], None] | None = None
        """What a child process does first, before it imports the handlers: the program that works sets up its logs so."""
        self._database = database
        self._middleware = middleware
        self._open_resources = open_resources
        self._prepare = prepare
        self._schedules = schedules
        self._fenced = False
        self._let_go_at = float("-inf")
        self._stops = 0
        self._stop_event: asyncio.Event | None = None
        self._hurry_event: asyncio.Event | None = None

    # From outside

    async def run(self, *, signals: bool = False) -> WorkerReport:
        """Works until it is stopped (or, with ``drain``, until nothing is due), and tells how it went.

        Cancelling it stops it in the same way as ``stop``.
        """
        open_closed_ones()
        forks.keep_loop(asyncio.get_running_loop())
        self._stop_event, self._hurry_event = asyncio.Event(), asyncio.Event()
        self._note_stops()
        if signals:
            # The process is a worker's own: what was imported stays, and need not be looked at by each collection.
            gc.freeze()
        with handled_signals(self.stop) if signals else contextlib.nullcontext():
            async with contextlib.AsyncExitStack() as stack:
                await self._begin(stack)
                try:
                    await self._stop_event.wait()
                finally:
                    self._stops = max(self._stops, 1)
                    await _whatever_happens(self._end())
        return self.report

    def stop(self) -> None:
        """Stops: at first gently, the second time at once. From this loop, or from a signal handler of it."""
        self._stops += 1
        self._note_stops()

    def _note_stops(self) -> None:
        if self._stops and self._stop_event is not None:
            self._stop_event.set()
        if self._stops > 1 and self._hurry_event is not None:
            self._hurry_event.set()

    # The beginning

    async def _begin(self, stack: contextlib.AsyncExitStack) -> None:
        self._outage = Outage(log)
        self._claims = Link(self._database, self._outage)
        self._writes = Link(self._database, self._outage)
        # Apart from the writes: a batch that waits for somebody's lock must not keep the sweep from its work.
        self._chores = Link(self._database, self._outage)
        self._links = (self._claims, self._writes, self._chores)
        for link in self._links:
            link.others = [each for each in self._links if each is not link]
            stack.push_async_callback(link.close)
        resources = await self._open_resources(stack)
        _check_resources(self.handlers.values(), resources)
        if self.options.capture_logs:
            stack.enter_context(log_capture.installed(self._least_log_level()))
        self._floor = Floor(
            self._database,
            self.context,
            self._writes,
            self.handlers,
            self.options,
            resources,
            self._middleware,
            self.report,
            leaked=self._leak,
            changed=self._changed,
            begin_child=self.begin_child,
        )
        stack.push_async_callback(self._floor.close)
        self._heartbeat = Heartbeat(
            self._database,
            self.context,
            interval=self.options.heartbeat,
            lease=self.options.lease,
            facts={
                "job_types": sorted(self.handlers),
                "capacity": sum(crew.slots for crew in self._floor.crews),
                "schedules": list(self._schedules),
            },
            pulse=self._pulse,
            rejoined=self._rejoined,
            replaced=self._replaced,
        )
        stack.callback(self._heartbeat.close)
        self._declarations = Declarations(self._chores, self.context, self.handlers, declared=self._declared)
        for crew in self._floor.crews:
            crew.undeclared = self._declarations.missing
        self._sleep_locks = SleepLocks(self.options.poll)
        self._claimers = [self._claimer(crew) for crew in self._floor.crews]
        self._orders = Orders(
            self._chores,
            self.context,
            interval=self.options.heartbeat,
            boot=lambda: self._heartbeat.boot,
            held=self._floor.held,
            run_of=self._floor.run_of,
            claims_under_way=lambda: any(claimer.in_flight for claimer in self._claimers),
            taken_from_line=self._floor.take_from_line,
        )
        self._notifier = Notifier(
            self._database,
            self.context,
            self._chores,
            interval=max(self.options.heartbeat * 3, 1),
            wake=self._wake,
            cancel=self._orders.heard_of,
        )
        self._fence = Service("fence", self._guard)
        maintenance = Maintenance(
            self._database, self.context, self._chores, sweep=self.options.sweep, poll=self.options.poll
        )
        self._services = [self._orders, self._fence, self._declarations, *maintenance.services]
        if not self.options.drain:
            self._services.append(self._notifier)
        if await self._joined():
            self._heartbeat.start()
            for service in (*self._services, *self._claimers):
                service.start()
            log.info("worker %s is ready", self.worker_id, extra={"event": "ready", "worker_id": self.worker_id})

    def _least_log_level(self) -> int | None:
        levels = [handler.log_level for handler in self.handlers.values() if handler.log_level is not None]
        return min(levels, default=None)

    def _claimer(self, crew: Crew) -> Claimer:
        return Claimer(
            crew,
            self._claims,
            self.context,
            poll=self.options.poll,
            fair_share=self.options.fair_share,
            boot=lambda: self._heartbeat.boot,
            may_claim=self._may_claim,
            wants_suspects=lambda: self._floor.has_room_for_suspects,
            hears=lambda: self._notifier.listening,
            sleep_locks=self._sleep_locks,
            arrived=self._floor.arrived,
            found_nothing=self._drained_perhaps,
        )

    async def _joined(self) -> bool:
        """Declares the types and registers; waits for the database, if need be. False if stopped meanwhile."""
        assert self._stop_event is not None
        backoff = Backoff()
        while not self._stop_event.is_set():
            joining = asyncio.ensure_future(self._join())
            stopping = asyncio.ensure_future(self._stop_event.wait())
            try:
                await asyncio.wait({joining, stopping}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                stopping.cancel()
                stopped_first = not joining.done()
                joining.cancel()
                await asyncio.wait({joining})
            if stopped_first:
                return False
            try:
                joining.result()
            except LoginRefused:
                raise
            except (DatabaseUnavailable, psycopg.errors.QueryCanceled) as error:
                self._outage.began(error)
                await self._disconnect()
                await happens(self._stop_event, backoff.next())
            else:
                return True
        return False

    async def _join(self) -> None:
        try:
            await asyncio.to_thread(self._prepare)
        except psycopg.errors.LockNotAvailable as error:
            raise Locked(error) from error
        # All connections or none: where there are too few for all workers, many that have one each would do nothing.
        for link in self._links:
            await link.open()
        await asyncio.to_thread(self._heartbeat.open)
        await self._declarations.begin()
        registration = self._heartbeat.registration()
        await self._claims.run(calls.register(self.context, self._heartbeat.boot, **registration))

    async def _disconnect(self) -> None:
        for link in self._links:
            await link.close()
        await asyncio.to_thread(self._heartbeat.close)

    # While it works

    def _may_claim(self) -> bool:
        return not (
            self._fenced or self._floor.quarantine or self._stops or self._floor.completer.backlog > MOST_UNWRITTEN
        )

    def _wake(self, bucket: int | None) -> None:
        for claimer in self._claimers:
            claimer.wake(bucket)

    def _declared(self) -> None:
        for claimer in self._claimers:
            claimer.crew.room.set()
            claimer.wake()

    def _changed(self, crew: Crew, handler: AnyHandler) -> None:
        """A job of a crew ended, or its end was written."""
        for claimer in self._claimers:
            # A handler may have enqueued jobs for any other.
            if claimer.crew is crew or self.options.drain:
                claimer.activity += 1
                if handler.ordered or self.options.drain:
                    claimer.wake()
        self._drained_perhaps()

    def _drained_perhaps(self) -> None:
        idle = self.options.drain and not self._stops and self._floor.is_empty
        if idle and all(claimer.empty_at == claimer.activity for claimer in self._claimers):
            self.stop()

    # Liveness

    def _pulse(self) -> dict[str, Any]:
        claims = [each.last_claim for each in self._claimers if each.last_claim is not None]
        since = None if not claims else timedelta(seconds=time.monotonic() - max(claims))
        return {
            "running": self._floor.running,
            "since_claim": since,
            "leaked": self.leaked,
            "pace": self._floor.pace.told(),
        }

    async def _guard(self) -> None:
        """Fences the worker when its heartbeat has not got through for nearly a lease."""
        await self._fence.pause(min(self.options.lease / 20, 0.5))
        self._floor.let_go_of_hoarded()
        self._shed_perhaps()
        self._leave_if_refused()
        cut_off = self._heartbeat.silence > self.options.lease * FENCE_AT
        if cut_off and not self._fenced:
            self._fenced = self._floor.closed = True
            self._let_go_at = time.monotonic()
            log.error(
                "no heartbeat has got through for %.1f s (%s): others may take this worker's jobs, so it lets go of %d",
                self._heartbeat.silence,
                self._heartbeat.last_error or "none has failed, they are late",
                len(self._floor.held),
                extra={"event": "fenced"},
            )
            self._floor.hand_back_waiting()
            self._floor.stop_runs("fenced")
        elif self._fenced and not cut_off:
            self._fenced = False
            if not self._stops:
                self._floor.reopen()
            log.warning("heartbeats get through again: the worker goes on", extra={"event": "unfenced"})

    def _rejoined(self) -> None:
        log.error(
            "this worker was given up for dead, and what it held was taken from it: it starts anew",
            extra={"event": "rejoined"},
        )
        self._let_go_at = time.monotonic()
        self._floor.forget()

    def _replaced(self) -> None:
        self._floor.forget()
        if not self._stops:
            log.error(
                "another worker has taken the name %s: this one stops. Two workers at once need two names",
                self.worker_id,
                extra={"event": "replaced"},
            )
            self.report.replaced = True
            self.stop()

    def _leak(self, change: int) -> None:
        self.leaked += change
        self._shed_perhaps()

    def _shed_perhaps(self) -> None:
        # What had to be let go of in an outage mostly ends by itself, soon.
        recently = time.monotonic() - self._let_go_at < max(self.options.lease, 60)
        if self.leaked > self.options.max_leaked and not self._stops and not recently:
            log.error(
                "%d handlers will not end: this worker stops, to be started anew", self.leaked, extra={"event": "shed"}
            )
            self.report.shed = True
            self.stop()

    def _leave_if_refused(self) -> None:
        if self._outage.refused is not None and not self.report.refused:
            log.error("%s. This worker stops", self._outage.refused, extra={"event": "login_refused"})
            self.report.refused = True
            self.stop()

    # The end

    async def _end(self) -> None:
        running = self._floor.running
        patience = f"; {self.options.grace:g} s to finish, a second signal hands them back at once" if running else ""
        log.info("stopping: %d running%s", running, patience, extra={"event": "stopping"})
        self._floor.begin_no_more()
        await self._within(self.options.lease, *(claimer.stop() for claimer in self._claimers))
        # What a claim brought while it was being stopped.
        self._floor.hand_back_waiting()
        await self._let_finish()
        await self._within(self.options.lease, self._floor.settled())
        await self._within(self.options.lease, *(service.stop() for service in self._services))
        # In this order: a heartbeat after the farewell would find no worker, and register it anew.
        await self._heartbeat.stopped()
        await self._within(5, self._claims.run(calls.leave(self.context, self._heartbeat.boot)))
        self.report.left_threads = self.leaked > 0
        log.info("%s", self.report, extra={"event": "stopped", "worker_id": self.worker_id})

    async def _let_finish(self) -> None:
        """Lets what runs finish within the grace, and stops the rest."""
        assert self._hurry_event is not None
        finished = asyncio.ensure_future(self._floor.no_runs())
        hurried = asyncio.ensure_future(self._hurry_event.wait())
        await asyncio.wait({finished, hurried}, timeout=self.options.grace, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if left := self._floor.stop_runs("shutdown"):
            log.warning("%d handlers are stopped, and their jobs handed back", left, extra={"event": "grace_over"})
        await finished

    async def _within(self, seconds: float, *awaited: Awaitable[Any]) -> None:
        """Waits for several things, but not for ever: an outage must not keep a process that is to end."""
        tasks = [asyncio.ensure_future(each) for each in awaited]
        if not tasks:
            return
        done, late = await asyncio.wait(tasks, timeout=max(seconds, 1))
        for task in late:
            task.cancel()
        if late:
            log.error("not everything could be written in time: the rest comes back when the lease has passed")
        for task in done:
            if not task.cancelled() and (error := task.exception()):
                log.error("while stopping: %s", describe(error))


async def _whatever_happens(ending: Awaitable[None]) -> None:
    """Sees the end through, also when whoever waits for it is cancelled again."""
    task = asyncio.ensure_future(ending)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError


def _check_resources(handlers: Iterable[AnyHandler], resources: Resources) -> None:
    """A resource that no lifespan opens would fail every job that asks for it: better not to begin."""
    for handler in handlers:
        for name, marker in handler.arguments.resources.items():
            try:
                resource.find(resources, handler.arguments.resource_types[name], marker)
            except InvalidOption as error:
                raise InvalidOption(f"the handler {handler.name!r} asks for {name!r}: {error}") from error


def _chosen(handlers: Mapping[str, AnyHandler], types: Sequence[str] | None) -> dict[str, AnyHandler]:
    if not handlers:
        raise InvalidOption("this queue has no handlers: decorate a function with @queue.job")
    if types is None:
        return dict(handlers)
    if not types:
        raise InvalidOption("types names no type: leave it out for all that have a handler")
    unknown = [name for name in types if name not in handlers]
    if unknown:
        raise InvalidOption(f"no handler for {', '.join(unknown)}: there are {', '.join(sorted(handlers))}")
    return {name: handlers[name] for name in types}
