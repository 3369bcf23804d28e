"""The worker: claims jobs, runs their handlers, and writes how they ended.

    claimers → dispatcher (slot groups, and the jobs that wait for a slot) → invocations → completer → the database
    heartbeat (a thread) · notifier (LISTEN) · reconciler (cancelled? lost?) · maintenance (sweep, schedules)

This module connects these parts, starts and ends them, and has the fence: a worker whose heartbeats have not reached the
database for nearly a lease lets go of its jobs before other workers may take them.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import psycopg

from howdah.checks.context import Context
from howdah.checks.type_names import matching
from howdah.db import forks
from howdah.db.database import Database
from howdah.db.outage import Backoff, Locked, Outage, first_line
from howdah.errors import DatabaseUnavailable, InvalidOption
from howdah.handlers import middleware as middlewares
from howdah.handlers import resource
from howdah.handlers.handler import AnyHandler
from howdah.handlers.middleware import AnyMiddleware
from howdah.standard_streams import open_closed_ones
from howdah.worker import calls
from howdah.worker.background.declarations import Declarations
from howdah.worker.background.heartbeat import Heartbeat
from howdah.worker.background.maintenance import Maintenance
from howdah.worker.background.reconciler import Reconciler
from howdah.worker.background.workflows import Workflows
from howdah.worker.claim.claimer import Claimer, SleepLocks
from howdah.worker.claim.notifier import Notifier
from howdah.worker.connection import WorkerConnection
from howdah.worker.first_contact import FirstContact
from howdah.worker.lifespan import BoundedLifespan, Resources
from howdah.worker.options import WorkerOptions
from howdah.worker.run import log_capture
from howdah.worker.run.dispatcher import Dispatcher
from howdah.worker.run.thread_lifespan import OpenThreadLifespan, ThreadLifespan
from howdah.worker.service import Service, happens
from howdah.worker.shutdown import StopRequests, handled_signals
from howdah.worker.summary import WorkerSummary

log = logging.getLogger("howdah.worker")

YOUNG_OBJECTS = 10_000
"""New objects, after which the garbage collector runs. Python's own 700 to 2,000 cost a worker a twentieth of its time."""
NAMED = 5
"""How many jobs a log line names."""


class Worker:
    """One process's worker. ``run`` it once."""

    def __init__(
        self,
        database: Database,
        context: Context,
        handlers: Mapping[str, AnyHandler],
        options: WorkerOptions,
        *,
        middleware: Sequence[AnyMiddleware],
        open_resources: Callable[[contextlib.AsyncExitStack], Awaitable[Resources]],
        prepare: Callable[[], None],
        schedules: Sequence[str] = (),
        thread_lifespan: OpenThreadLifespan | None = None,
    ) -> None:
        _warn_of_idle(middleware, handlers.values())
        _check_on_failure(handlers)
        self.options = options
        self.handlers = _chosen(handlers, options.types)
        self.context = dataclasses.replace(context, worker_id=options.name)
        self.worker_id = options.name
        self.summary = WorkerSummary(self.worker_id)
        self.begin_child: Callable[[], None] | None = None
        """Called first in each child process, before it imports the handlers. It sets up the program's logs there."""
        self._database = database
        self._middleware = middleware
        self._thread_lifespan = thread_lifespan
        self._prepare = prepare
        self._schedules = schedules
        self._stops = StopRequests()
        self._lifespan = BoundedLifespan(open_resources, self._stops, options.grace)
        self._may_be_registered = False

    # From outside

    async def run(self, *, signals: bool = False) -> WorkerSummary:
        """Work until it is stopped (or, with ``drain``, until nothing is due). Returns a summary.

        Cancelling it stops it in the same way as ``stop``.
        """
        open_closed_ones()
        forks.keep_loop(asyncio.get_running_loop())
        if signals:
            # The process belongs to the worker: its imports stay, and the garbage collector need not scan them.
            gc.freeze()
            _collect_seldom()
        with handled_signals(self.stop) if signals else contextlib.nullcontext():
            async with contextlib.AsyncExitStack() as stack:
                if await self._begin(stack):
                    try:
                        await self._stops.first.wait()
                    finally:
                        if not self._stops.count:
                            self._stops.add()
                        await _whatever_happens(self._end())
        self.summary.cut_lifespan = self._lifespan.was_cut
        return self.summary

    def stop(self) -> None:
        """Stop: gently at first, the second time at once. To be called in the worker's loop, or in a signal handler of it."""
        self._stops.add()

    @property
    def leaked(self) -> int:
        """Handlers that were asked to stop, were abandoned, and still run."""
        return self._dispatcher.leaked

    # The beginning

    async def _begin(self, stack: contextlib.AsyncExitStack) -> bool:
        """False if it was stopped before it had parts that must be ended."""
        if not await self._connect_parts(stack):
            return False
        if await self._joined():
            self._heartbeat.start()
            for service in (*self._services, *self._claimers):
                service.start()
            log.info("worker %s is ready", self.worker_id, extra={"event": "ready", "worker_id": self.worker_id})
        return True

    async def _connect_parts(self, stack: contextlib.AsyncExitStack) -> bool:
        database, context, options = self._database, self.context, self.options
        self._outage = Outage(log)
        # Chores are apart from the writes: a batch that waits for a lock must not delay the sweep.
        claims, writes, chores = self._connections = tuple(WorkerConnection(database, self._outage) for _ in range(3))
        for each in self._connections:
            each.others = [other for other in self._connections if other is not each]
            stack.push_async_callback(each.close)
        stack.push_async_exit(self._lifespan.close)
        resources = await self._lifespan.open()
        if resources is None:
            return False
        _check_resources(self.handlers.values(), resources)
        if options.capture_logs:
            stack.enter_context(log_capture.installed(self._least_log_level()))
        self._dispatcher = Dispatcher(
            database,
            context,
            writes,
            self.handlers,
            options,
            resources,
            self._middleware,
            self.summary,
            self._stops,
            thread_lifespan=None if self._thread_lifespan is None else ThreadLifespan(self._thread_lifespan),
            begin_child=self.begin_child,
        )
        stack.push_async_callback(self._dispatcher.close)
        self._heartbeat = Heartbeat(database, context, options, self._dispatcher, self._schedules)
        stack.callback(self._heartbeat.close)
        self._start_services(claims, chores)
        return True

    def _start_services(self, claims: WorkerConnection, chores: WorkerConnection) -> None:
        database, context, options = self._database, self.context, self.options
        dispatcher, heartbeat = self._dispatcher, self._heartbeat
        self._claims = claims
        self._declarations = Declarations(chores, context, dispatcher)
        reconciler = Reconciler(chores, context, dispatcher, heartbeat, interval=options.heartbeat)
        pause = max(options.heartbeat * 3, 1)
        notifier = Notifier(database, context, chores, dispatcher, reconciler, interval=pause)
        maintenance = Maintenance(database, context, chores, sweep=options.sweep, poll=options.poll)
        self._fence = Service("fence", self._guard)
        workflows = Workflows(context, chores, dispatcher, interval=options.sweep, drain=options.drain)
        self._services = [reconciler, self._fence, self._declarations, workflows, *maintenance.services]
        if not options.drain:
            self._services.append(notifier)
        sleep_locks = SleepLocks(options.poll)
        self._claimers = [
            Claimer(group, dispatcher, claims, context, options, heartbeat, notifier, sleep_locks)
            for group in dispatcher.groups
        ]

    def _least_log_level(self) -> int | None:
        levels = [handler.log_level for handler in self.handlers.values() if handler.log_level is not None]
        return min(levels, default=None)

    async def _joined(self) -> bool:
        """Declare the types and register; wait for the database if necessary. False if stopped meanwhile."""
        backoff, first_contact = Backoff(), FirstContact(self._outage, drain=self.options.drain)
        while not self._stops.first.is_set():
            joining = asyncio.ensure_future(self._join())
            stopping = asyncio.ensure_future(self._stops.first.wait())
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
            except (DatabaseUnavailable, psycopg.errors.QueryCanceled) as error:
                first_contact.failed(error)
                await self._disconnect()
                await happens(self._stops.first, backoff.next())
            else:
                return True
        return False

    async def _join(self) -> None:
        try:
            await asyncio.to_thread(self._prepare)
        except psycopg.errors.LockNotAvailable as error:
            raise Locked(error) from error
        # All connections or none: if the server has too few, many workers with one each could do nothing.
        for each in self._connections:
            await each.open()
        await asyncio.to_thread(self._heartbeat.open)
        await self._declarations.begin()
        registration = self._heartbeat.registration()
        self._may_be_registered = True
        await self._claims.run(calls.register(self.context, self._heartbeat.incarnation, **registration))

    async def _disconnect(self) -> None:
        for each in self._connections:
            await each.close()
        await asyncio.to_thread(self._heartbeat.close)

    # The fence

    async def _guard(self) -> None:
        """Fence the worker when its heartbeats have not reached the database for nearly a lease."""
        await self._fence.pause(min(self.options.lease / 20, 0.5))
        dispatcher, heartbeat = self._dispatcher, self._heartbeat
        dispatcher.hand_back_hoarded()
        dispatcher.note_begun()
        if dispatcher.leaked:
            dispatcher.shed_if_needed()
        if self._outage.refused is not None and not self.summary.refused:
            log.error("%s. This worker stops", self._outage.refused, extra={"event": "login_refused"})
            self.summary.refused = True
            self.stop()
        silence = time.monotonic() - heartbeat.last_success
        if dispatcher.is_cut_off and not dispatcher.fenced:
            log.error(
                "no heartbeat has got through for %.1f s (%s): other workers may take this one's jobs, so it lets go of %d",
                silence,
                heartbeat.last_error or "none has failed, they are late",
                len(dispatcher.held),
                extra={"event": "fenced"},
            )
            dispatcher.fence()
        elif dispatcher.fenced and not dispatcher.is_cut_off:
            dispatcher.reopen()
            log.warning("heartbeats get through again: the worker continues", extra={"event": "unfenced"})

    # The end

    async def _end(self) -> None:
        running = len(self._dispatcher.runs)
        patience = f"; {self.options.grace:g} s to finish, a second signal hands them back at once" if running else ""
        log.info("stopping: %d running%s", running, patience, extra={"event": "stopping"})
        self._dispatcher.start_no_more()
        await self._within(self.options.lease, *(claimer.stop() for claimer in self._claimers))
        # Jobs of a claim that was still in progress.
        self._dispatcher.hand_back_waiting()
        await self._let_finish()
        await self._within(self.options.lease, self._dispatcher.settled())
        await self._within(self.options.lease, *(service.stop() for service in self._services))
        # In this order: a heartbeat after leaving would find no worker, and register it again.
        await self._heartbeat.stopped()
        if self._may_be_registered:
            await self._within(5, self._claims.run(calls.leave(self.context, self._heartbeat.incarnation)))
        self.summary.left_threads = self._dispatcher.leaked > 0
        self._count_unwritten([job.id for job in self._dispatcher.held.values()])
        log.info("%s", self.summary, extra={"event": "stopped", "worker_id": self.worker_id})

    def _count_unwritten(self, ids: Sequence[uuid.UUID]) -> None:
        """Jobs whose ends, or whose return, could not be written in time."""
        if not ids:
            return
        self.summary.counts["unwritten"] = len(ids)
        named = ", ".join(map(str, ids[:NAMED])) + (f" and {len(ids) - NAMED} more" if len(ids) > NAMED else "")
        log.error(
            "%s could not be written, and will run again when the lease has passed: %s",
            "the end of 1 job" if len(ids) == 1 else f"the ends of {len(ids)} jobs",
            named,
            extra={"event": "unwritten"},
        )

    async def _let_finish(self) -> None:
        """Let running handlers finish within the grace, and stop the rest."""
        finished = asyncio.ensure_future(self._dispatcher.no_runs())
        hurried = asyncio.ensure_future(self._stops.second.wait())
        await asyncio.wait({finished, hurried}, timeout=self.options.grace, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if left := self._dispatcher.stop_runs("shutdown"):
            are = "1 handler is stopped, and its job" if left == 1 else f"{left} handlers are stopped, and their jobs"
            log.warning("%s handed back", are, extra={"event": "grace_over"})
        await finished

    async def _within(self, seconds: float, *awaited: Awaitable[Any]) -> None:
        """Wait for several things, but not forever: an outage must not keep a process from ending."""
        tasks = [asyncio.ensure_future(each) for each in awaited]
        if not tasks:
            return
        done, late = await asyncio.wait(tasks, timeout=max(seconds, 1))
        for task in late:
            task.cancel()
        if late:
            log.error("not everything could be written in time")
        for task in done:
            if not task.cancelled() and (error := task.exception()):
                log.error("while stopping: %s: %s", type(error).__name__, first_line(error))


async def _whatever_happens(ending: Awaitable[None]) -> None:
    """Wait for the end, also if the waiting task is cancelled again."""
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


def _warn_of_idle(around: Sequence[AnyMiddleware], handlers: Iterable[AnyHandler]) -> None:
    """Log that plain middleware is never called, because all handlers run on the loop."""
    _, plain = middlewares.split(around)
    if plain and all(handler.kind == "async" for handler in handlers):
        log.warning(
            "the middleware %s is never called: a plain function runs around handlers in threads and child processes, and"
            " this queue has none. Make it an async def",
            ", ".join(getattr(each, "__name__", repr(each)) for each in plain),
            extra={"event": "idle_middleware"},
        )


def _check_on_failure(handlers: Mapping[str, AnyHandler]) -> None:
    """Refuse to start if a handler names one by its type that cannot be its ``on_failure``. A type may have its handler elsewhere."""
    for handler in handlers.values():
        other = handlers.get(handler.declaration["on_failure"])
        if other is not None:
            other.check_failed_parameter()


def _check_resources(handlers: Iterable[AnyHandler], resources: Resources) -> None:
    """Refuse to start if no lifespan opens a resource that a handler asks for: all its jobs would fail."""
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
    chosen = matching(types, handlers)
    unknown = [name for name in chosen if name not in handlers]
    if unknown:
        raise InvalidOption(f"no handler for {', '.join(unknown)}: there are {', '.join(sorted(handlers))}")
    return {name: handlers[name] for name in chosen}


def _collect_seldom() -> None:
    """The jobs in hand are thousands of young objects, which the garbage collector would look through again and again."""
    young, *others = gc.get_threshold()
    if young:  # 0: it is turned off
        gc.set_threshold(max(young, YOUNG_OBJECTS), *others)
