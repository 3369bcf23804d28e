"""JobQueue: the one object for producers, operators and workers."""

from __future__ import annotations

import functools
import inspect
import os
import secrets
import socket
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from howdah import calls, migrate, options
from howdah.calls import Context
from howdah.codec import PLAIN, Codec
from howdah.database import DEFAULT_SCHEMA, Database
from howdah.migrate import Difference, Migration
from howdah.options import Seconds
from howdah.plan import Plan
from howdah.statements import check_schema_name

P = ParamSpec("P")
R = TypeVar("R")

Verb = Callable[Concatenate["JobQueue", P], R]


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
    schema: the schema that holds the queue; each schema is a queue of its own.
    codec: encrypts or compresses what is stored (see ``howdah.codec``).
    max_payload_bytes: larger data and results are refused.
    pool_size, timeout: how many connections at most, and how many seconds to wait for one.
    worker_id: the name under which ``claim`` holds jobs, if it is not given another.

    Plain verbs block; the same verbs with ``a`` in front (``await_for`` for ``wait_for``) are awaited.
    Nothing is opened before it is needed. Usable from many threads, from any number of event loops, and
    after a fork.
    """

    def __init__(
        self,
        dsn: str | None = None,
        schema: str = DEFAULT_SCHEMA,
        *,
        codec: Codec | None = None,
        max_payload_bytes: int = 64 * 1024,
        pool_size: int = 10,
        timeout: Seconds = 30,
        worker_id: str | None = None,
    ) -> None:
        self.schema = check_schema_name(schema)
        self._context = Context(
            codec=codec or PLAIN,
            max_payload_bytes=options.integer(max_payload_bytes, "max_payload_bytes", least=1),
            worker_id=_own_name() if worker_id is None else options.name(worker_id, "worker_id", 100),
        )
        self._database = Database(
            dsn,
            schema,
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
    wait_for, await_for = _both(calls.wait_for)
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
    complete, acomplete = _both(calls.complete)
    fail, afail = _both(calls.fail)
    snooze, asnooze = _both(calls.snooze)
    release, arelease = _both(calls.release)

    # The schema

    def migrate(self, *, adopt: bool | None = None) -> Migration:
        """Installs the schema, or brings it up to date.

        adopt: what to do with a plain table ``jobs`` that is in the way or in sight: True takes over its
            jobs, False leaves it alone, None refuses to choose.
        """
        with self._database.connect(self._database.dsn()) as conn:
            return self._database.run(migrate.migrate(self.schema, adopt=adopt), conn)

    def check_schema(self) -> Sequence[Difference]:
        """What is not as a fresh installation of this version would have it."""
        with self._database.connect(self._database.dsn()) as conn:
            return self._database.run(migrate.check(self.schema), conn)

    async def amigrate(self, *, adopt: bool | None = None) -> Migration:
        async with await self._database.aconnect() as conn:
            return await self._database.arun(migrate.migrate(self.schema, adopt=adopt), conn)

    async def acheck_schema(self) -> Sequence[Difference]:
        async with await self._database.aconnect() as conn:
            return await self._database.arun(migrate.check(self.schema), conn)

    amigrate.__doc__ = migrate.__doc__
    acheck_schema.__doc__ = check_schema.__doc__

    @property
    def dsn(self) -> str:
        """Where the database is, for connections of your own (``psycopg.connect(queue.dsn)``).

        Starts the embedded server if that is it; it runs for as long as this process does.
        """
        return self._database.dsn()

    # Its end

    def close(self) -> None:
        """Closes the connections. The queue cannot be used afterwards."""
        self._database.close()

    async def aclose(self) -> None:
        """``close``, from inside an event loop: closes that loop's connections too."""
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
