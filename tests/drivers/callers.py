"""The caller's own connection, in every form that ``conn=`` takes, behind one blocking interface."""

from __future__ import annotations

import asyncio
import functools
import inspect
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

import asyncpg  # type: ignore[import-untyped]
import psycopg
import psycopg2  # type: ignore[import-untyped]
import psycopg2.extras  # type: ignore[import-untyped]
import sqlalchemy as sa
from django.conf import settings  # type: ignore[import-untyped]
from django.db import connections, transaction  # type: ignore[import-untyped]
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

import django  # type: ignore[import-untyped]
from howdah import Job

if not settings.configured:
    settings.configure(USE_TZ=True, DATABASES={}, INSTALLED_APPS=[])
    django.setup()

URLS = {"psycopg": "postgresql+psycopg://", "psycopg2": "postgresql+psycopg2://", "asyncpg": "postgresql+asyncpg://"}


def arguments(dsn: str) -> dict[str, Any]:
    """A DSN as arguments that every driver takes."""
    options = conninfo_to_dict(dsn)
    return {**{name: options[name] for name in ("host", "user")}, "database": options["dbname"]}


class Form:
    """One form of connection. Whatever it returns that can be awaited, ``Caller`` awaits."""

    awaited: ClassVar = False

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.conn: Any = None

    def open(self) -> Any: ...

    def close(self) -> Any:
        return self.conn.close()

    def begin(self) -> Any: ...

    def commit(self) -> Any:
        return self.conn.commit()

    def rollback(self) -> Any:
        return self.conn.rollback()

    def execute(self, statement: str) -> Any:
        return self.conn.execute(statement)

    def undone(self) -> Any:
        """Begins a savepoint, and returns what rolls it back."""


class Psycopg(Form):
    def open(self) -> Any:
        self.conn = psycopg.connect(self.dsn)

    def undone(self) -> Callable[[], Any]:
        self.execute("SAVEPOINT mine")
        return lambda: self.execute("ROLLBACK TO mine")


class Pipelined(Psycopg):
    def open(self) -> Any:
        super().open()
        self.pipeline = self.conn.pipeline()
        self.pipeline.__enter__()

    def close(self) -> Any:
        with suppress(psycopg.OperationalError):
            self.pipeline.__exit__(None, None, None)
        self.conn.close()


class AsyncPsycopg(Form):
    awaited = True

    async def open(self) -> Any:
        self.conn = await psycopg.AsyncConnection.connect(self.dsn)

    async def undone(self) -> Callable[[], Any]:
        await self.execute("SAVEPOINT mine")
        return lambda: self.execute("ROLLBACK TO mine")


class AsyncPipelined(AsyncPsycopg):
    async def open(self) -> Any:
        await super().open()
        self.pipeline = self.conn.pipeline()
        await self.pipeline.__aenter__()

    async def close(self) -> Any:
        with suppress(psycopg.OperationalError):
            await self.pipeline.__aexit__(None, None, None)
        await self.conn.close()


class Psycopg2(Form):
    def open(self) -> Any:
        # Its rows are dicts for everything but Howdah.
        self.conn = psycopg2.connect(self.dsn, cursor_factory=psycopg2.extras.RealDictCursor)

    def execute(self, statement: str) -> Any:
        with self.conn.cursor() as cursor:
            cursor.execute(statement)

    undone = Psycopg.undone


class Asyncpg(Form):
    awaited = True

    async def open(self) -> Any:
        self.conn = await asyncpg.connect(**arguments(self.dsn))
        await self._set_codecs()

    async def _set_codecs(self) -> None:
        for name in ("json", "jsonb"):
            await self.conn.set_type_codec(name, encoder=repr, decoder=repr, schema="pg_catalog")

    async def begin(self) -> Any:
        self.transaction = self.conn.transaction()
        await self.transaction.start()

    async def commit(self) -> Any:
        await self.transaction.commit()

    async def rollback(self) -> Any:
        await self.transaction.rollback()

    async def undone(self) -> Callable[[], Any]:
        inner = self.conn.transaction()
        await inner.start()
        rolled_back: Callable[[], Any] = inner.rollback
        return rolled_back


class AsyncpgPool(Asyncpg):
    async def open(self) -> Any:
        self.pool = await asyncpg.create_pool(**arguments(self.dsn), min_size=1, max_size=1)
        self.conn = await self.pool.acquire()
        assert type(self.conn).__name__ == "PoolConnectionProxy"
        await self._set_codecs()

    async def close(self) -> Any:
        await self.pool.release(self.conn)
        await self.pool.close()


class Alchemy(Form):
    driver: ClassVar = "psycopg"

    def open(self) -> Any:
        module = {"psycopg": psycopg, "psycopg2": psycopg2}[self.driver]
        self.engine = sa.create_engine(
            URLS[self.driver], creator=lambda: module.connect(self.dsn), poolclass=sa.NullPool
        )
        self.conn = self._made()

    def _made(self) -> Any:
        return self.engine.connect()

    def close(self) -> Any:
        self.conn.close()
        self.engine.dispose()

    def execute(self, statement: str) -> Any:
        return self.conn.execute(sa.text(statement.replace(":", "\\:")))

    def undone(self) -> Callable[[], Any]:
        rolled_back: Callable[[], Any] = self.conn.begin_nested().rollback
        return rolled_back


class AlchemyPsycopg2(Alchemy):
    driver = "psycopg2"


class AlchemySession(Alchemy):
    def _made(self) -> Any:
        return Session(self.engine)


class AlchemySessionPsycopg2(AlchemySession):
    driver = "psycopg2"


class AlchemyScoped(Alchemy):
    def _made(self) -> Any:
        return scoped_session(sessionmaker(self.engine))


class AsyncAlchemy(Form):
    awaited = True
    driver: ClassVar = "asyncpg"

    async def open(self) -> Any:
        async def connected() -> Any:
            if self.driver == "asyncpg":
                return await asyncpg.connect(**arguments(self.dsn))
            return await psycopg.AsyncConnection.connect(self.dsn)

        self.engine = create_async_engine(URLS[self.driver], async_creator=connected, poolclass=sa.NullPool)
        self.conn = await self._made()

    async def _made(self) -> Any:
        return await self.engine.connect()

    async def close(self) -> Any:
        await self.conn.close()
        await self.engine.dispose()

    def execute(self, statement: str) -> Any:
        return self.conn.execute(sa.text(statement.replace(":", "\\:")))

    async def undone(self) -> Callable[[], Any]:
        rolled_back: Callable[[], Any] = (await self.conn.begin_nested()).rollback
        return rolled_back


class AsyncAlchemyPsycopg(AsyncAlchemy):
    driver = "psycopg"


class AsyncAlchemySession(AsyncAlchemy):
    async def _made(self) -> Any:
        return AsyncSession(self.engine)


class AsyncAlchemySessionPsycopg(AsyncAlchemySession):
    driver = "psycopg"


class AsyncAlchemyScoped(AsyncAlchemy):
    async def _made(self) -> Any:
        return async_scoped_session(async_sessionmaker(self.engine), scopefunc=lambda: None)


class Django(Form):
    def open(self) -> Any:
        self.alias = f"drivers-{uuid.uuid4()}"
        options = conninfo_to_dict(self.dsn)
        database = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": options.pop("dbname"),
            "OPTIONS": options,
            "TIME_ZONE": "Asia/Tokyo",
        }
        connections.databases[self.alias] = connections.configure_settings({"default": database})["default"]
        self.conn = self._made()

    def _made(self) -> Any:
        return connections[self.alias]

    def close(self) -> Any:
        connections[self.alias].close()
        del connections[self.alias]
        del connections.databases[self.alias]

    def begin(self) -> Any:
        self.atomic = transaction.atomic(using=self.alias)
        self.atomic.__enter__()

    def commit(self) -> Any:
        self.atomic.__exit__(None, None, None)

    def rollback(self) -> Any:
        self.atomic.__exit__(ValueError, ValueError(), None)

    def execute(self, statement: str) -> Any:
        with connections[self.alias].cursor() as cursor:
            cursor.execute(statement)

    def undone(self) -> Callable[[], Any]:
        inner = transaction.atomic(using=self.alias)
        inner.__enter__()
        return lambda: inner.__exit__(ValueError, ValueError(), None)


class DjangoAlias(Django):
    def _made(self) -> Any:
        return self.alias


class DjangoProxy(Django):
    """``django.db.connection`` is such a proxy, of the alias "default"."""

    def _made(self) -> Any:
        from django.utils.connection import ConnectionProxy  # type: ignore[import-untyped]

        return ConnectionProxy(connections, self.alias)


def work(form: Form, verbs_of: Any, job: Job, *, checkpoints: bool = False) -> Iterator[Callable[[], Any]]:
    """The steps of a handler that completes its job together with its effect."""

    def verb(name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(verbs_of, f"a{name}" if form.awaited else name)
        return method if verbs_of is job else functools.partial(method, job)

    yield form.open
    yield form.begin
    yield lambda: form.execute(f"INSERT INTO public.effects VALUES ('{job.job_type}')")
    if checkpoints:
        yield lambda: verb("checkpoint")({"n": 1}, conn=form.conn)
        yield lambda: verb("step")("count", sum, [1, 2], conn=form.conn)
    yield lambda: verb("complete")("done", conn=form.conn)
    yield form.commit
    yield form.close


FORMS: dict[str, type[Form]] = {
    form.__name__: form
    for form in (
        Psycopg,
        Pipelined,
        AsyncPsycopg,
        AsyncPipelined,
        Psycopg2,
        Asyncpg,
        AsyncpgPool,
        Alchemy,
        AlchemyPsycopg2,
        AlchemySession,
        AlchemySessionPsycopg2,
        AlchemyScoped,
        AsyncAlchemy,
        AsyncAlchemyPsycopg,
        AsyncAlchemySession,
        AsyncAlchemySessionPsycopg,
        AsyncAlchemyScoped,
        Django,
        DjangoAlias,
        DjangoProxy,
    )
}
# For tests that take long, without those that differ from another one only in how the connection is made or found.
DISTINCT = tuple(
    name
    for name in FORMS
    if name
    not in (
        "Pipelined",
        "AsyncpgPool",
        "AlchemySession",
        "AlchemyScoped",
        "AsyncAlchemyScoped",
        "DjangoAlias",
        "DjangoProxy",
    )
)


class Caller:
    """A caller with a connection of one form: calls verbs on it, and everything in its own transaction."""

    def __init__(self, form: Form, runner: asyncio.Runner) -> None:
        self._form = form
        self._runner = runner
        self.conn: Any = None

    def call(self, verbs_of: Any, name: str, /, *args: Any, **options: Any) -> Any:
        verb = getattr(verbs_of, f"a{name}" if self._form.awaited else name)
        return self._settled(lambda: verb(*args, conn=self.conn, **options))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args: self._settled(lambda: getattr(self._form, name)(*args))

    @contextmanager
    def undone(self) -> Iterator[None]:
        roll_back = self._settled(self._form.undone)
        yield
        self._settled(roll_back)

    def _settled(self, operation: Callable[[], Any]) -> Any:
        async def awaited() -> Any:
            answer = operation()
            return await answer if inspect.isawaitable(answer) else answer

        return self._runner.run(awaited()) if self._form.awaited else operation()


@contextmanager
def opened(form: type[Form], dsn: str) -> Iterator[Caller]:
    with asyncio.Runner() as runner:
        made = form(dsn)
        caller = Caller(made, runner)
        caller.open()
        caller.conn = made.conn
        try:
            yield caller
        finally:
            caller.close()
