"""JobQueue: the one object for producers, operators and workers."""

from __future__ import annotations

import asyncio
import builtins
import functools
import inspect
import os
import secrets
import socket
import uuid
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar, overload

from howdah.checks import options
from howdah.checks.context import Context, KnownType
from howdah.checks.options import JobOrId, Seconds
from howdah.config import configured_schema
from howdah.db import migrate
from howdah.db.database import Database
from howdah.db.migrate import Difference, Migration
from howdah.db.plan import Plan
from howdah.db.statements import check_schema_name
from howdah.errors import InvalidOption
from howdah.handlers.handler import Handler
from howdah.model.codec import PLAIN, Codec
from howdah.model.job import Job
from howdah.verbs import calls
from howdah.verbs import cron as cron_rhythms
from howdah.verbs import events as event_verbs
from howdah.verbs import schedules as schedule_verbs
from howdah.verbs.queue_position import place as place_of
from howdah.verbs.workers import workers as list_workers
from howdah.watch import wait, watch
from howdah.watch.hub import Hub
from howdah.watch.wait import OnProgress, value_of
from howdah.watch.watch import Update, UpdateKind

if TYPE_CHECKING:
    from howdah.doctor import Diagnosis
    from howdah.worker import Worker, WorkerSummary
    from howdah.worker.run.executor import Middleware

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

Verb = Callable[Concatenate["JobQueue", P], R]
Resources: TypeAlias = Mapping[str | type, Any]
Lifespan: TypeAlias = Callable[["JobQueue"], AbstractAsyncContextManager[Resources | None]]


def _both(
    plan: Callable[Concatenate[Context, P], Plan[R]],
) -> tuple[Verb[P, R], Verb[P, Coroutine[Any, Any, R]]]:
    """A plan as two verbs: one that blocks and one that is awaited."""

    @functools.wraps(plan)
    def verb(self: JobQueue, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._database.run(plan(self._context, *args, **kwargs), kwargs.get("conn"))

    @functools.wraps(plan)
    async def averb(self: JobQueue, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._database.arun(plan(self._context, *args, **kwargs), kwargs.get("conn"))

    return verb, averb


class JobQueue:
    """A queue of jobs in PostgreSQL.

    dsn: where the database is; ``HOWDAH_DSN``, else ``DATABASE_URL``, else an embedded PostgreSQL under
        ``./.howdah/`` if not given.
    schema: the schema that holds the queue; ``HOWDAH_SCHEMA``, else ``howdah`` if not given. Each is a queue of its own.
    codec: encrypts or compresses what is stored (see ``howdah.codec``).
    max_payload_bytes: larger data and results are refused.
    pool_size, timeout: how many connections at most, and how many seconds to wait for one.
    worker_id: the name under which ``claim`` holds jobs, if it is not given another.
    lifespan: an async context manager, called with the queue, that each worker enters once. It yields a
        mapping of resources, by name or by type, that handlers ask for.

    Plain verbs block; the same verbs with ``a`` in front (``await_for`` for ``wait_for``) are awaited.
    Nothing is opened before it is needed. Usable from many threads, from any number of event loops, and
    after a fork.
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
    ) -> None:
        self.schema = check_schema_name(configured_schema(schema))
        self.handlers: dict[str, Handler[Any, Any]] = {}
        self._middleware: builtins.list[Middleware] = []
        self._lifespan = lifespan
        self._periodic: builtins.list[dict[str, Any]] = []
        self._context = Context(
            codec=codec or PLAIN,
            max_payload_bytes=options.integer(max_payload_bytes, "max_payload_bytes", least=1),
            worker_id=_own_name() if worker_id is None else options.name(worker_id, "worker_id", 100),
            known={},
            home=_Home(self),
        )
        self._hubs: dict[int, Hub] = {}
        self._database = Database(
            dsn,
            self.schema,
            pool_size=options.integer(pool_size, "pool_size", least=1, most=1_000),
            timeout=options.span(timeout, "timeout", positive=True).total_seconds(),
        )

    # Producers
    enqueue, aenqueue = _both(calls.enqueue)
    enqueue_many, aenqueue_many = _both(calls.enqueue_many)

    # Operators
    get, aget = _both(calls.get)
    list, alist = _both(calls.list_jobs)
    stats, astats = _both(calls.stats)
    workers, aworkers = _both(list_workers)
    events, aevents = _both(event_verbs.events)
    position, aposition = _both(event_verbs.position)
    place, aplace = _both(place_of)
    cancel, acancel = _both(calls.cancel)
    retry, aretry = _both(calls.retry)
    reschedule, areschedule = _both(calls.reschedule)
    reprioritise, areprioritise = _both(calls.reprioritise)
    pause, apause = _both(calls.pause)
    resume, aresume = _both(calls.resume)
    recover, arecover = _both(calls.recover)
    recover_stale_jobs, arecover_stale_jobs = _both(calls.recover_stale_jobs)
    prune, aprune = _both(calls.prune)

    # Workers that drive their own loop
    claim, aclaim = _both(calls.claim)
    start, astart = _both(calls.start)
    progress, aprogress = _both(calls.progress)
    event, aevent = _both(event_verbs.event)
    checkpoint, acheckpoint = _both(calls.checkpoint)
    complete, acomplete = _both(calls.complete)
    fail, afail = _both(calls.fail)
    snooze, asnooze = _both(calls.snooze)
    release, arelease = _both(calls.release)

    # Schedules
    schedule, aschedule = _both(schedule_verbs.schedule)
    schedules, aschedules = _both(schedule_verbs.list_schedules)
    get_schedule, aget_schedule = _both(schedule_verbs.get_schedule)
    pause_schedule, apause_schedule = _both(schedule_verbs.pause_schedule)
    resume_schedule, aresume_schedule = _both(schedule_verbs.resume_schedule)
    run_schedule, arun_schedule = _both(schedule_verbs.run_schedule)
    delete_schedule, adelete_schedule = _both(schedule_verbs.delete_schedule)

    # Watching and waiting

    def watch(
        self, job: JobOrId, *, after: str | None = None, kinds: Sequence[UpdateKind] | None = None
    ) -> Generator[Update, None, None]:
        """What happens to a job, as it happens, until it has ended: ``for update in queue.watch(job):``

        First where it stands, then everything since its first event, then what comes; the last one is always
        where it stands now that it has ended. Outages of the database are waited out. Raises JobNotFound.

        after: an update's position, to go on behind it. kinds: some of "progress", "event", "log" and "status".
        """
        return watch.watch(self._hub(), self._context, job, after, kinds)

    def awatch(
        self, job: JobOrId, *, after: str | None = None, kinds: Sequence[UpdateKind] | None = None
    ) -> AsyncGenerator[Update, None]:
        return watch.awatch(self._hub(), self._context, job, after, kinds)

    def watch_all(
        self,
        *,
        types: Sequence[str] | None = None,
        kinds: Sequence[UpdateKind] | None = None,
        after: str | None = None,
    ) -> Generator[Update, None, None]:
        """What happens to all jobs, or to those of some types, as it happens, without end.

        after: an update's position, to go on behind it; "" from the oldest that is kept; from the first step on if
            not given (``position`` pins an earlier moment). kinds: as of ``watch``; "progress" is told of jobs that
            have reported any. Outages of the database are waited out. Raises PositionLost if it was restored.
        """
        return watch.watch_all(self._hub(), self._context, types, kinds, after)

    def awatch_all(
        self,
        *,
        types: Sequence[str] | None = None,
        kinds: Sequence[UpdateKind] | None = None,
        after: str | None = None,
    ) -> AsyncGenerator[Update, None]:
        return watch.awatch_all(self._hub(), self._context, types, kinds, after)

    @overload
    def wait_for(
        self, jobs: Job[T], timeout: Seconds | None = None, *, on_progress: OnProgress | None = None
    ) -> Job[T]: ...

    @overload
    def wait_for(  # type: ignore[overload-overlap]
        self, jobs: uuid.UUID | str, timeout: Seconds | None = None, *, on_progress: OnProgress | None = None
    ) -> Job: ...

    @overload
    def wait_for(
        self, jobs: Iterable[Job[T]], timeout: Seconds | None = None, *, on_progress: OnProgress | None = None
    ) -> builtins.list[Job[T]]: ...

    @overload
    def wait_for(
        self, jobs: Iterable[JobOrId], timeout: Seconds | None = None, *, on_progress: OnProgress | None = None
    ) -> builtins.list[Job]: ...

    def wait_for(
        self,
        jobs: JobOrId | Iterable[JobOrId],
        timeout: Seconds | None = None,
        *,
        on_progress: OnProgress | None = None,
    ) -> Any:
        """The job, once it has ended; of several, all in the order given, once the last has.

        timeout: raises WaitTimeout after so many seconds; the jobs go on. Raises JobNotFound.
        on_progress: called with a ``Group`` at first, whenever something has changed, and at the end.
        """
        return wait.wait_for(self._hub(), self._context, jobs, timeout, on_progress)

    @overload
    def await_for(
        self, jobs: Job[T], timeout: Seconds | None = None, *, on_progress: OnProgress | None = None
    ) -> Coroutine[Any, Any, Job[T]]: ...

    @overload
    def await_for(  # type: ignore[overload-overlap]
        self, jobs: uuid.UUID | str, timeout: Seconds | None = None, *, on_progress: OnProgress | None = None
    ) -> Coroutine[Any, Any, Job]: ...

    @overload
    def await_for(
        self, jobs: Iterable[Job[T]], timeout: Seconds | None = None, *, on_progress: OnProgress | None = None
    ) -> Coroutine[Any, Any, builtins.list[Job[T]]]: ...

    @overload
    def await_for(
        self, jobs: Iterable[JobOrId], timeout: Seconds | None = None, *, on_progress: OnProgress | None = None
    ) -> Coroutine[Any, Any, builtins.list[Job]]: ...

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
        """The one of this process: a fork has none of its parent's threads."""
        return self._hubs.get(os.getpid()) or self._hubs.setdefault(os.getpid(), Hub(self._database))

    def _close_hub(self) -> None:
        hub = self._hubs.get(os.getpid())
        if hub is not None:
            hub.close()

    # Handlers and workers

    @overload
    def job(self, function: Callable[P, R], /) -> Handler[P, R]: ...

    @overload
    def job(self, /, **chosen: Any) -> Callable[[Callable[P, R]], Handler[P, R]]: ...

    def job(self, function: Callable[..., Any] | None = None, /, **chosen: Any) -> Any:
        """Registers a function as the handler of a job type: ``@queue.job`` or ``@queue.job(priority=…, …)``.

        Async functions run on the loop, plain ones in threads. The options, all of them optional:

        name: the job type; the function's name if not given.
        priority, max_attempts: what its jobs have unless ``enqueue`` says otherwise.
        retry: when to try again: ``Exponential()``, ``Fixed(…)``, ``Linear(…)``, ``Immediately()``, a dict of
            these by exception class, or a function of the job and the exception that returns seconds, or None
            to give up.
        give_up: exception classes after which no attempt is made any more.
        timeout: how long one attempt may run. expires_in: how long a job is worth starting.
        concurrency: how many at once in one worker.
        ordered: one at a time, in order, across all workers. pause_on_failure: an ordered type stops when a
            job of it has failed for good.
        max_crashes: how many workers it may take down.
        process: in a child process, which can be killed.
        batch_size, batch_wait: one call gets a list of up to so many jobs, the first of which waits at most
            so many seconds for the others; it returns None, or an outcome for each.
        log_level: what of its logs is kept with its jobs, "INFO" and above if not given; None for nothing.
        max_events: how many events of an attempt are kept, 10,000 if not given; beyond, they are counted.
        fail_stalled: an attempt that has reported before, and falls silent for too long, fails.
        """
        if function is None:
            return functools.partial(self.job, **chosen)
        if isinstance(function, Handler):
            raise InvalidOption(f"{function.name!r} is a handler already")
        handler = Handler(self, function, **chosen)
        if handler.name in self.handlers:
            raise InvalidOption(f"there are two handlers for {handler.name!r}: give one of them another name=")
        self.handlers[handler.name] = handler
        self._context.known[handler.name] = KnownType(
            handler.arguments.decode, handler.defaults, handler.result.encode, handler.result.decode
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
    ) -> Callable[[Callable[P, R] | Handler[P, R]], Handler[P, R]]:
        """Runs a handler again and again: ``@queue.periodic("*/5 * * * *", timezone="Europe/Berlin")``.

        Above ``@queue.job``, or alone. Workers store the schedule when they start; ``arguments`` are what the
        handler is called with. See ``schedule`` for the rest.
        """

        def decorate(function: Callable[P, R] | Handler[P, R]) -> Handler[P, R]:
            handler = function if isinstance(function, Handler) else self.job(function)
            rhythm = {"cron": cron, "every": every, "timezone": timezone, "missed": missed, "overlap": overlap}
            cron_rhythms.check(cron, every, timezone)
            cron_rhythms.missed_policy(missed)
            schedule = name or handler.name
            if any(declared["name"] == schedule for declared in self._periodic):
                raise InvalidOption(f"there are two schedules {schedule!r} in the code: give one of them another name=")
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

    def middleware(self, function: Middleware) -> Middleware:
        """Registers an async function ``(job, call_next)`` that is called around every handler, the first outermost.

        It awaits ``call_next(job)``, and returns its result or another. A batch handler's ``job`` is a list.
        """
        if not inspect.iscoroutinefunction(function):
            raise InvalidOption("middleware is an async function of the job and of what to call next")
        self._middleware.append(function)
        return function

    def worker(self, *, name: str | None = None, **chosen: Any) -> Worker:
        """A worker for this queue's handlers, to be ``run``. Its options, with their defaults:

        concurrency=50, threads=10, children=(cores): how many async handlers, sync handlers and child processes
            at once. types=None: only these of the handlers.
        drain=False: stop when nothing is due any more. grace=30: how long what runs may finish when stopped.
        lease=15, heartbeat=3, sweep=5, poll=1: the rhythm, in seconds.
        fair_share=0: the share of jobs that are taken by age instead of priority, against starvation.
        max_leaked=10: how many handlers that will not end before the worker stops to be started anew.
        capture_logs=True: what handlers log is kept with their jobs, as far as each handler wants it.
        name=None: the worker's name, which no two may have at once; made of host and process if not given.
        """
        # Here: whoever only enqueues need not wait until all of it is loaded.
        from howdah.worker import Worker, WorkerOptions

        return Worker(
            self._database,
            self._context,
            self.handlers,
            WorkerOptions.checked(_own_name() if name is None else name, **chosen),
            middleware=tuple(self._middleware),
            open_resources=self._open_resources,
            prepare=self._prepare_worker,
            schedules=[declared["name"] for declared in self._periodic],
        )

    async def run_worker(self, *, signals: bool = False, **chosen: Any) -> WorkerSummary:
        """Runs a worker (see ``worker``) until it is cancelled; with ``signals``, until SIGTERM or SIGINT."""
        return await self.worker(**chosen).run(signals=signals)

    async def _open_resources(self, stack: AsyncExitStack) -> Resources:
        """Enters the lifespan, and returns what it yields."""
        if self._lifespan is None:
            return {}
        return await stack.enter_async_context(self._lifespan(self)) or {}

    def _prepare_worker(self) -> None:
        """Looks at the schema, and stores the schedules that were declared in code."""
        self._database.prepare()
        for declared in self._periodic:
            chosen = dict(declared)
            handler: Handler[Any, Any] = chosen.pop("handler")
            self.schedule(**{**chosen, "data": handler.arguments.encode(chosen["data"])})
            self._database.run(schedule_verbs.declare(chosen["name"]))

    def connect_to(self, dsn: str | None = None, schema: str | None = None) -> None:
        """Points the queue at another database or schema. Before it is used: what is open stays where it is."""
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
        """Installs the schema, or brings it up to date.

        adopt: what to do with a plain table ``jobs`` that is in the way or in sight: True takes over its
            jobs, False leaves it alone, None refuses to choose.
        roles: creates the roles ``SCHEMA_owner``, ``…_producer``, ``…_worker``, ``…_viewer`` and ``…_operator``, too, and
            gives everything to the owner. Once they are there, each migration keeps them right. Raises NotPermitted.
        reinstall: functions, views and rights are installed anew even if they are of this version: somebody changed them.
        """
        with self._database.connect(self._database.dsn()) as conn:
            return self._database.run(migrate.migrate(self.schema, adopt=adopt, roles=roles, reinstall=reinstall), conn)

    def check_schema(self) -> Sequence[Difference]:
        """What is not as a fresh installation of this version would have it."""
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
        """What is wrong with this installation, who is to blame, and what to do: a list of ``Finding``, errors first.

        Empty if all is well. Its ``unseen`` lists what could not be looked at, and why; its ``healthy`` is None if there is such,
        and nothing was found.

        only, ignore: codes of findings; what belongs to no wanted code is not looked at.
        patience: how long a transaction may be open, a paused type or a waiting job wait, before it is worth a word.
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

        Starts the embedded server if that is it; it runs for as long as this process does.
        """
        return self._database.dsn()

    # Its end

    def close(self) -> None:
        """Closes the connections. The queue cannot be used afterwards: who watches or waits gets QueueClosed."""
        self._close_hub()
        self._database.close()

    async def aclose(self) -> None:
        """``close``, from inside an event loop: closes that loop's connections too."""
        await asyncio.to_thread(self._close_hub)
        await self._database.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"JobQueue(schema={self.schema!r})"


class _Home:
    """What the jobs of a queue know of it."""

    def __init__(self, queue: JobQueue) -> None:
        self._queue = queue

    def wait_for(self, job: Job[T], timeout: Seconds | None) -> Job[T]:
        return self._queue.wait_for(job, timeout)

    async def await_for(self, job: Job[T], timeout: Seconds | None) -> Job[T]:  # noqa: ASYNC109
        return await self._queue.await_for(job, timeout)

    def value(self, job: Job[T]) -> T:
        value: T = value_of(self._queue._context, job)
        return value

    def __deepcopy__(self, memo: object) -> _Home:
        return self

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        # A job that is sent to another process has no queue there.
        return type(None), ()


def _name_verbs() -> None:
    """A verb's help is that of a method, not that of the plan behind it."""
    for name, verb in vars(JobQueue).items():
        if hasattr(verb, "__wrapped__"):
            plan = inspect.signature(verb.__wrapped__)
            this, *others = plan.parameters.values()
            verb.__signature__ = plan.replace(
                parameters=[this.replace(name="self", annotation=this.empty), *others],
                return_annotation=str(plan.return_annotation).removeprefix("Plan[").removesuffix("]"),
            )
            verb.__name__, verb.__qualname__ = name, f"JobQueue.{name}"


_name_verbs()


def _own_name() -> str:
    return f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(4)}"
