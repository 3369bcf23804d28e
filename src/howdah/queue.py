"""JobQueue: the one object for producers, operators and workers."""

from __future__ import annotations

import asyncio
import builtins
import functools
import importlib
import os
import secrets
import socket
import uuid
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar, Unpack, overload

from howdah.checks import options
from howdah.checks.context import Context, KnownType
from howdah.checks.options import JobOrId, Seconds, unknown
from howdah.config import configured_schema
from howdah.db import migrate
from howdah.db.database import Database
from howdah.db.migrate import Difference, Migration
from howdah.db.plan import LoopWaker, ThreadWaker
from howdah.db.statements import check_schema_name
from howdah.errors import InvalidArguments, InvalidOption
from howdah.handlers import middleware as middlewares
from howdah.handlers.handler import MEANT, AnyHandler, Handler
from howdah.handlers.handler import OPTIONS as HANDLER_OPTIONS
from howdah.handlers.middleware import AnyMiddleware, M
from howdah.model.codec import PLAIN, Codec
from howdah.model.job import Job
from howdah.verbs import claims, flow, flows, operate, produce, signals
from howdah.verbs import cron as cron_rhythms
from howdah.verbs import events as event_verbs
from howdah.verbs import schedules as schedule_verbs
from howdah.verbs import selection as selections
from howdah.verbs.both import both, name_verbs
from howdah.watch import wait
from howdah.watch.home import QueueHome
from howdah.watch.hub import Hub
from howdah.watch.wait import OnProgress
from howdah.watch.watch import JobUpdates, StreamUpdates, Update, UpdateKind

if TYPE_CHECKING:
    from howdah.doctor import Diagnosis
    from howdah.handlers.signatures import HandledJob, HandlerOptions, JobsFirst, JobSomewhere, Registers
    from howdah.worker import Worker, WorkerSummary
    from howdah.worker.options import WorkerSettings

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

Resources: TypeAlias = Mapping[str | type, Any]
Lifespan: TypeAlias = Callable[["JobQueue"], AbstractAsyncContextManager[Resources | None]]
ThreadLifespan: TypeAlias = Callable[["JobQueue"], AbstractContextManager[Any]]


class JobQueue:
    """A queue of jobs in PostgreSQL.

    dsn: where the database is; ``HOWDAH_DSN``, else ``DATABASE_URL``, else an embedded PostgreSQL under
        ``./.howdah/`` if not given.
    schema: the schema that holds the queue; ``HOWDAH_SCHEMA``, else ``howdah`` if not given. Each schema is a queue.
    codec: encrypts or compresses what is stored (see ``howdah.Codec``).
    json_default: a function that converts what JSON does not have, such as datetimes, in data without types; for results,
        checkpoints and events, too. ``howdah.json_default`` is one. Such values are refused if not given.
    max_payload_bytes: larger data and results are refused.
    pool_size, timeout: how many connections at most, and how many seconds to wait for one.
    worker_id: the name under which ``claim`` holds jobs, if it is not given another.
    lifespan: an async context manager, called with the queue, that each worker enters once. It yields a
        mapping of resources, by name or by type, that handlers ask for.
    thread_lifespan: a context manager, called with the queue, that each thread for handlers enters once, before its first
        job, and leaves when the worker stops. What it yields is not used.
    modules: the names of modules with its handlers, such as ``["shop.mail", "shop.reports"]``. A worker imports them when it is
        made, so the module of the queue need not import the modules that import the queue.

    Plain verbs block; the same verbs with ``a`` in front (``await_for`` for ``wait_for``) are awaited.
    A connection is opened when it is first needed. A queue is usable from many threads, from any number of event
    loops, and after a fork.
    """

    def __init__(
        self,
        dsn: str | None = None,
        schema: str | None = None,
        *,
        codec: Codec | None = None,
        max_payload_bytes: int = 64 * 1024,
        pool_size: int = 10,
        timeout: Seconds = 30,
        worker_id: str | None = None,
        lifespan: Lifespan | None = None,
        thread_lifespan: ThreadLifespan | None = None,
        json_default: Callable[[Any], Any] | None = None,
        modules: Sequence[str] = (),
    ) -> None:
        self.schema = check_schema_name(configured_schema(schema))
        self.handlers: dict[str, AnyHandler] = {}
        self._middleware: builtins.list[AnyMiddleware] = []
        self._lifespan = lifespan
        self._thread_lifespan = thread_lifespan
        self.modules = tuple(_module_names(modules))
        self._periodic: builtins.list[dict[str, Any]] = []
        self._context = Context(
            codec=codec or PLAIN,
            max_payload_bytes=options.integer(max_payload_bytes, "max_payload_bytes", least=1),
            worker_id=_own_name() if worker_id is None else options.name(worker_id, "worker_id", 100),
            known={},
            json_default=_function(json_default, "json_default"),
            home=QueueHome(self),
        )
        self._hubs: dict[int, Hub] = {}
        self._database = Database(
            dsn,
            self.schema,
            pool_size=options.integer(pool_size, "pool_size", least=1, most=1_000),
            timeout=options.span(timeout, "timeout", positive=True).total_seconds(),
        )

    # Producers
    enqueue, aenqueue = both(produce.enqueue)
    enqueue_many, aenqueue_many = both(produce.enqueue_many)
    signal, asignal = both(signals.signal)

    # Operators
    get, aget = both(operate.get)
    list, alist = both(operate.list_jobs)
    stats, astats = both(operate.stats)
    workers, aworkers = both(operate.workers)
    events, aevents = both(event_verbs.events)
    steps, asteps = both(signals.steps)
    stream_position, astream_position = both(event_verbs.stream_position)
    queue_position, aqueue_position = both(operate.queue_position)
    cancel, acancel = both(operate.cancel)
    retry, aretry = both(operate.retry)
    reschedule, areschedule = both(operate.reschedule)
    reprioritise, areprioritise = both(operate.reprioritise)
    delete, adelete = both(operate.delete)
    pause, apause = both(operate.pause)
    resume, aresume = both(operate.resume)
    recover, arecover = both(operate.recover)
    recover_stale_jobs, arecover_stale_jobs = both(operate.recover_stale_jobs)
    prune, aprune = both(operate.prune)
    select = selections.select

    limits = functools.cached_property(flow.Limits)

    # Workflows
    workflow = flows.workflow
    workflows = functools.cached_property(flows.Workflows)

    # Workers that drive their own loop
    claim, aclaim = both(claims.claim)
    start, astart = both(claims.start)
    progress, aprogress = both(claims.progress)
    event, aevent = both(event_verbs.event)
    checkpoint, acheckpoint = both(claims.checkpoint)
    complete, acomplete = both(claims.complete)
    fail, afail = both(claims.fail)
    snooze, asnooze = both(claims.snooze)
    release, arelease = both(claims.release)

    # Schedules
    schedules = functools.cached_property(schedule_verbs.Schedules)

    # Watching and waiting

    def watch(
        self, job: JobOrId, *, after: str | None = None, kinds: Sequence[UpdateKind] | None = None
    ) -> Generator[Update, None, None]:
        """The updates of a job as they happen, until it has ended: ``for update in queue.watch(job):``

        First how far it is, then everything since its first event, then what is new. The last update is always
        the job as it ended. Outages of the database are waited out. Raises JobNotFound.

        after: an update's position, to resume behind it. kinds: some of "progress", "event", "log" and "status".
        """
        updates = JobUpdates(self._hub(), self._context, job, after, kinds)
        return self._database.stream(updates.plan(ThreadWaker))

    def awatch(
        self, job: JobOrId, *, after: str | None = None, kinds: Sequence[UpdateKind] | None = None
    ) -> AsyncGenerator[Update, None]:
        updates = JobUpdates(self._hub(), self._context, job, after, kinds)
        return self._database.astream(updates.plan(LoopWaker))

    def watch_all(
        self,
        *,
        types: Sequence[str] | None = None,
        kinds: Sequence[UpdateKind] | None = None,
        after: str | None = None,
    ) -> Generator[Update, None, None]:
        """The updates of all jobs, or of those of some types, as they happen, without end.

        after: an update's position, to resume behind it; "" for the oldest that is kept; if not given, the moment at
            which the iteration begins (``stream_position`` returns an earlier one).
        kinds: as of ``watch``; "progress" is only sent for jobs that have reported any.

        Outages of the database are waited out. Raises PositionLost if the database was restored.
        """
        updates = StreamUpdates(self._hub(), self._context, types, kinds, after)
        return self._database.stream(updates.plan(ThreadWaker))

    def awatch_all(
        self,
        *,
        types: Sequence[str] | None = None,
        kinds: Sequence[UpdateKind] | None = None,
        after: str | None = None,
    ) -> AsyncGenerator[Update, None]:
        updates = StreamUpdates(self._hub(), self._context, types, kinds, after)
        return self._database.astream(updates.plan(LoopWaker))

    @overload
    def wait_for(
        self, jobs: Job[T], timeout: Seconds | None = None, *, on_progress: OnProgress | None = None
    ) -> Job[T]: ...

    @overload
    def wait_for(  # type: ignore[overload-overlap]
        self, jobs: uuid.UUID | str, timeout: Seconds | None = None, *, on_progress: OnProgress | None = None
    ) -> Job[Any]: ...

    @overload
    def wait_for(
        self, jobs: Iterable[Job[T]], timeout: Seconds | None = None, *, on_progress: OnProgress | None = None
    ) -> builtins.list[Job[T]]: ...

    @overload
    def wait_for(
        self, jobs: Iterable[JobOrId], timeout: Seconds | None = None, *, on_progress: OnProgress | None = None
    ) -> builtins.list[Job[Any]]: ...

    def wait_for(
        self,
        jobs: JobOrId | Iterable[JobOrId],
        timeout: Seconds | None = None,
        *,
        on_progress: OnProgress | None = None,
    ) -> Any:
        """The job, once it has ended; of several jobs, all in the order given, once the last has ended.

        timeout: raises WaitTimeout after so many seconds; the jobs continue. Raises JobNotFound.
        on_progress: called with a ``Group`` at the beginning, after each change, and at the end.
        """
        return wait.wait_for(self._hub(), self._context, jobs, timeout, on_progress)

    @overload
    def await_for(
        self, jobs: Job[T], timeout: Seconds | None = None, *, on_progress: OnProgress | None = None
    ) -> Coroutine[Any, Any, Job[T]]: ...

    @overload
    def await_for(  # type: ignore[overload-overlap]
        self, jobs: uuid.UUID | str, timeout: Seconds | None = None, *, on_progress: OnProgress | None = None
    ) -> Coroutine[Any, Any, Job[Any]]: ...

    @overload
    def await_for(
        self, jobs: Iterable[Job[T]], timeout: Seconds | None = None, *, on_progress: OnProgress | None = None
    ) -> Coroutine[Any, Any, builtins.list[Job[T]]]: ...

    @overload
    def await_for(
        self, jobs: Iterable[JobOrId], timeout: Seconds | None = None, *, on_progress: OnProgress | None = None
    ) -> Coroutine[Any, Any, builtins.list[Job[Any]]]: ...

    async def await_for(
        self,
        jobs: JobOrId | Iterable[JobOrId],
        timeout: Seconds | None = None,  # noqa: ASYNC109
        *,
        on_progress: OnProgress | None = None,
    ) -> Any:
        return await wait.await_for(self._hub(), self._context, jobs, timeout, on_progress)

    awatch.__doc__ = watch.__doc__
    awatch_all.__doc__ = watch_all.__doc__
    await_for.__doc__ = wait_for.__doc__

    def _hub(self) -> Hub:
        """The hub of this process: a fork has none of its parent's threads."""
        return self._hubs.get(os.getpid()) or self._hubs.setdefault(os.getpid(), Hub(self._database))

    def _close_hub(self) -> None:
        hub = self._hubs.get(os.getpid())
        if hub is not None:
            hub.close()

    # Handlers and workers

    # Why these overloads, and why in this order: howdah.handlers.signatures
    @overload
    def job(self, function: JobsFirst[R], /) -> Handler[..., R]: ...

    @overload
    def job(self, function: Callable[Concatenate[HandledJob, P], R], /) -> Handler[P, R, Concatenate[Job, P]]: ...  # type: ignore[overload-overlap]

    @overload
    def job(self, function: JobSomewhere[R], /) -> Handler[..., R]: ...

    @overload
    def job(self, function: Callable[P, R], /) -> Handler[P, R, P]: ...

    @overload
    def job(self, /, **options: Unpack[HandlerOptions]) -> Registers: ...

    def job(self, function: Callable[..., Any] | None = None, /, **options: Unpack[HandlerOptions]) -> Any:
        """Registers a function as the handler of a job type: ``@queue.job`` or ``@queue.job(priority=…, …)``.

        Async functions run on the loop, plain ones in threads. The options, all of them optional:

        name: the job type; the function's name if not given.
        priority, max_attempts: the defaults of its jobs; ``enqueue`` can set others.
        retry: when to try again: a list of delays such as ``[1, 10, 60]``, ``Exponential()``, ``Fixed(…)``, ``Linear(…)``,
            ``Immediately()``, a dict of these by exception class, or a function of the job and the exception that returns
            seconds, or None to give up. A list means one attempt more than delays, unless max_attempts is given.
        give_up: exception classes after which the job fails for good.
        timeout: how long one attempt may run. expires_in: how long after it is due a job may still be started.
        concurrency: how many of its jobs run at once in one worker.
        per: the flow key of a job: the name of an argument ("customer"), or a function of the arguments. Keys take turns: one
            with a million jobs does not delay another with ten.
        limit: how many jobs run at once over all workers: of each key with ``per``, otherwise of the type.
        rate: how often jobs start over all workers, such as "50/s" or ``Rate(50, seconds=1, burst=10)``: of each key with
            ``per``, otherwise of the type. cost: how many tokens of rates a job takes, one if not given.
        ordered: one job at a time, in order, across all workers: of each key with ``per``, otherwise of the type.
            order="skip": while a job waits for its retry, the next one runs; otherwise it waits, too.
        groups: names of groups of types, which an operator can limit together (``queue.limits.set(group=…)``,
            ``queue.limits.set_rate(group=…)``).
        max_pending: how many of its jobs may wait. when_full: what ``enqueue`` does when so many wait: "raise" raises
            QueueFull, "wait" waits for room, "drop_oldest" cancels the oldest of the lowest priority; "raise" if not given.
        pause_on_failure: an ordered type is paused when one of its jobs has failed for good.
        unique: True if its jobs are unique by all their arguments, or names of arguments, "key" for the key of the call, or
            a rule: ``Unique(…)``. debounce: each call postpones the pending job by so many seconds, with the data of the last
            one. throttle: no second job within so many seconds. Calls of ``enqueue`` can set others.
        max_crashes: how many workers a job may crash before it fails.
        process: runs in a child process, which can be killed.
        batch_size, batch_wait: one call gets a list of up to so many jobs, the first of which waits at most
            so many seconds for the others; it returns None, or an outcome for each.
        log_level: which of its log lines are kept with its jobs: "INFO" and above if not given; None: none.
        max_events: how many events of an attempt are kept, 10,000 if not given; further ones are only counted.
        fail_stalled: an attempt fails when it stops reporting for much longer than its usual interval.
        on_failure: another handler, or its name. When a job fails for good, a job of it is enqueued in the same transaction,
            also when the sweep fails it. Its argument ``failed`` is a ``FailedJob``: the id, type, error and data.
        """
        if function is None:
            return functools.partial(self.job, **options)
        if isinstance(function, Handler):
            hint = ": write @queue.periodic above @queue.job" if self._has_schedule_of(function) else ""
            raise InvalidOption(f"{function.name!r} is a handler already{hint}")
        if problem := unknown(options, HANDLER_OPTIONS, "@queue.job", MEANT):
            raise InvalidOption(problem)
        handler: AnyHandler = Handler(self, function, **options)
        if handler.name in self.handlers:
            raise InvalidOption(f"there are two handlers for {handler.name!r}: give one of them another name=")
        self.handlers[handler.name] = handler
        self._context.known[handler.name] = KnownType(
            handler.arguments.check,
            handler.defaults,
            handler.result.encode,
            handler.result.decode,
            handler.flow_key if handler.per is not None else None,
            handler.per if isinstance(handler.per, str) else None,
            handler.unique,
        )
        return handler

    def periodic(
        self,
        cron: str | None = None,
        *,
        every: Seconds | None = None,
        name: str | None = None,
        timezone: str = "UTC",
        missed: str = "last",
        overlap: bool = True,
        **arguments: Any,
    ) -> Registers:
        """Runs a handler periodically: ``@queue.periodic("*/5 * * * *", timezone="Europe/Berlin")``.

        Above ``@queue.job``, or alone. Workers store the schedule when they start. ``arguments`` are those of the
        handler. See ``queue.schedules.set`` for the other options.
        """

        def decorate(function: Callable[..., Any]) -> Any:
            handler = function if isinstance(function, Handler) else self.job(function)
            rhythm = {"cron": cron, "every": every, "timezone": timezone, "missed": missed, "overlap": overlap}
            cron_rhythms.check(cron, every, timezone)
            cron_rhythms.missed_policy(missed)
            schedule = name or handler.name
            if any(declared["name"] == schedule for declared in self._periodic):
                raise InvalidOption(f"there are two schedules {schedule!r} in the code: give one of them another name=")
            try:
                handler.arguments.check(handler.arguments.encode(arguments))
            except InvalidArguments as error:
                raise InvalidArguments(f"the schedule {schedule!r}: {error}", field=error.field) from None
            self._periodic.append(
                {
                    "name": schedule,
                    "job_type": handler.name,
                    "handler": handler,
                    "data": arguments,
                    **rhythm,
                }
            )
            return handler

        return decorate

    def _has_schedule_of(self, handler: AnyHandler) -> bool:
        return any(declared["handler"] is handler for declared in self._periodic)

    def middleware(self, function: M) -> M:
        """Registers a function ``(job, call_next)`` that wraps handlers, the first one outermost.

        An ``async def`` wraps every handler, and runs on the worker's loop. It awaits ``call_next(job)``, and returns its result or
        another. A plain ``def`` wraps the handlers that run in threads, in the thread of the handler, and those with
        ``process=True``, in the child process; it calls ``call_next(job)``. It is not called around handlers that run on the
        loop. All async ones are outside of all plain ones. A batch handler's ``job`` is a list.
        """
        self._middleware.append(middlewares.checked(function))
        return function

    def worker(self, *, name: str | None = None, **options: Unpack[WorkerSettings]) -> Worker:
        """A worker for this queue's handlers, to be ``run``. Its options, with their defaults:

        concurrency=50, threads=10, children=(cores): how many async handlers, sync handlers and child processes
            run at once. types=None: only jobs of these types, such as ``["report", "mail.*"]``.
        drain=False: stop when no job is due any more. grace=30: how many seconds running jobs get when it is stopped.
        lease=15, heartbeat=3, sweep=5, poll=1: intervals in seconds.
        fair_share=0: the share of jobs that are claimed by age instead of priority, against starvation.
        lazy_claims=False: claims do not wait for the disk. Jobs start a little sooner; if PostgreSQL crashes within a second,
            they may run twice.
        max_leaked=10: how many handlers may ignore their cancellation before the worker stops, to be restarted.
        capture_logs=True: log lines of handlers are kept with their jobs, as each handler's ``log_level`` says.
        name=None: the worker's name, unique among live workers; host:pid:random if not given.
        """
        # Imported here: a process that only enqueues does not need to load all of it.
        from howdah.worker import Worker, WorkerOptions
        from howdah.worker.options import WorkerSettings

        if problem := unknown(options, WorkerSettings.__annotations__, "a worker"):
            raise InvalidOption(problem)
        for module in self.modules:
            importlib.import_module(module)
        return Worker(
            self._database,
            self._context,
            self.handlers,
            WorkerOptions.checked(_own_name() if name is None else name, **options),
            middleware=tuple(self._middleware),
            open_resources=self._open_resources,
            prepare=self._prepare_worker,
            schedules=[declared["name"] for declared in self._periodic],
            thread_lifespan=self._open_thread_lifespan(),
        )

    async def run_worker(
        self, *, signals: bool = False, name: str | None = None, **options: Unpack[WorkerSettings]
    ) -> WorkerSummary:
        """Runs a worker (see ``worker``) until it is cancelled; with ``signals``, until SIGTERM or SIGINT."""
        return await self.worker(name=name, **options).run(signals=signals)

    async def _open_resources(self, stack: AsyncExitStack) -> Resources:
        """Enters the lifespan, and returns what it yields."""
        if self._lifespan is None:
            return {}
        return await stack.enter_async_context(self._lifespan(self)) or {}

    def _open_thread_lifespan(self) -> Callable[[], AbstractContextManager[Any]] | None:
        return None if self._thread_lifespan is None else functools.partial(self._thread_lifespan, self)

    def _prepare_worker(self) -> None:
        """Checks the schema, and stores the schedules that were declared in code."""
        self._database.prepare()
        for declared in self._periodic:
            schedule = dict(declared)
            handler: AnyHandler = schedule.pop("handler")
            self.schedules.set(**{**schedule, "data": handler.arguments.encode(schedule["data"])})
            self._database.run(schedule_verbs.declare(schedule["name"]))

    def connect_to(self, dsn: str | None = None, schema: str | None = None) -> None:
        """Points the queue at another database or schema. Call it before the queue is used."""
        schema = self.schema if schema is None else check_schema_name(schema)
        dsn = self._database.configured if dsn is None else dsn
        if (dsn, schema) != (self._database.configured, self.schema):
            self._close_hub()
            self._hubs.clear()
            self._database.close()
            self._database = self._database.elsewhere(dsn, schema)
            self.schema = schema

    # The schema

    def migrate(self, *, adopt: bool | None = None, roles: bool = False, reinstall: bool = False) -> Migration:
        """Installs the schema, or upgrades it.

        adopt: what to do with a plain table ``jobs`` in this schema or on the search path: True takes over its
            jobs, False leaves it alone, None raises SchemaConflict.
        roles: also creates the roles ``SCHEMA_owner``, ``…_producer``, ``…_worker``, ``…_viewer`` and ``…_operator``, and
            gives everything to the owner. Later migrations keep their rights up to date. Raises NotPermitted.
        reinstall: installs functions, views and rights again even if they have this version, because they were changed.
        """
        with self._database.connect(self._database.dsn()) as conn:
            return self._database.run(migrate.migrate(self.schema, adopt=adopt, roles=roles, reinstall=reinstall), conn)

    def check_schema(self) -> Sequence[Difference]:
        """The differences between what is installed and a fresh installation of this version."""
        with self._database.connect(self._database.dsn()) as conn:
            return self._database.run(migrate.check(self.schema), conn)

    async def amigrate(self, *, adopt: bool | None = None, roles: bool = False, reinstall: bool = False) -> Migration:
        async with await self._database.aconnect() as conn:
            return await self._database.arun(
                migrate.migrate(self.schema, adopt=adopt, roles=roles, reinstall=reinstall), conn
            )

    async def acheck_schema(self) -> Sequence[Difference]:
        async with await self._database.aconnect() as conn:
            return await self._database.arun(migrate.check(self.schema), conn)

    def doctor(
        self,
        *,
        only: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
        patience: Seconds = 300,
    ) -> Diagnosis:
        """What is wrong with this installation, what causes it, and what to do: a list of ``Finding``, errors first.

        Empty if all is well. Its ``unseen`` lists what could not be examined, and why. If there is such, and nothing was
        found, its ``healthy`` is None.

        only, ignore: codes of findings; nothing else is examined.
        patience: how long a transaction may be open, or a paused type or a job may wait, before it is a finding.
        """
        from howdah.doctor import examine

        seconds = options.span(patience, "patience").total_seconds()
        return examine(self._database, only=only, ignore=ignore, patience=seconds)

    async def adoctor(
        self,
        *,
        only: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
        patience: Seconds = 300,
    ) -> Diagnosis:
        return await asyncio.to_thread(self.doctor, only=only, ignore=ignore, patience=patience)

    amigrate.__doc__ = migrate.__doc__
    adoctor.__doc__ = doctor.__doc__
    acheck_schema.__doc__ = check_schema.__doc__

    @property
    def dsn(self) -> str:
        """Where the database is, for connections of your own (``psycopg.connect(queue.dsn)``).

        Starts the embedded server if that is it, and installs the schema in it; it runs for as long as this process does.
        """
        return self._database.dsn_for_others()

    # Its end

    def close(self) -> None:
        """Closes the connections. Watchers and waiters get QueueClosed, and so does every later use.

        ``with queue:`` or ``async with queue:`` opens the queue again.
        """
        self._close_hub()
        self._database.close()

    async def aclose(self) -> None:
        """``close``, from inside an event loop: closes that loop's connections too."""
        await asyncio.to_thread(self._close_hub)
        await self._database.aclose()

    def _reopen(self) -> Self:
        """Opens the queue again if it was closed: an app may be started twice in one process."""
        hub = self._hubs.get(os.getpid())
        if hub is not None and hub.is_closed:
            del self._hubs[os.getpid()]
        self._database.reopen()
        return self

    def __enter__(self) -> Self:
        return self._reopen()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self._reopen()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"JobQueue(schema={self.schema!r})"


name_verbs(JobQueue)


def _function(value: Callable[[Any], Any] | None, option: str) -> Callable[[Any], Any] | None:
    if value is not None and not callable(value):
        raise InvalidOption(f"{option} is a function of a value, not {options.shown(value)}")
    return value


def _module_names(modules: Sequence[str]) -> Iterator[str]:
    if isinstance(modules, str):
        raise InvalidOption(f"modules is a list of names: modules=[{modules!r}]")
    for module in modules:
        if not all(part.isidentifier() for part in options.text(module, "a module").split(".")):
            raise InvalidOption(f"{module!r} is not the full name of a module: write package.module")
        yield module


def _own_name() -> str:
    return f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(4)}"
