"""``conn=`` on every driver: the verbs are part of the caller's transaction, and their answers are those on psycopg 3."""

from __future__ import annotations

import asyncio
import inspect
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import psycopg
import psycopg2  # type: ignore[import-untyped]
import psycopg2.extras  # type: ignore[import-untyped]
import psycopg_pool
import pytest
import sqlalchemy as sa
from django.db import connections  # type: ignore[import-untyped]
from hypothesis import example, given, settings
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from howdah import (
    DatabaseUnavailable,
    DuplicateJob,
    InvalidItem,
    InvalidOption,
    Job,
    JobQueue,
    LeaseLost,
    QueueFull,
    SchemaMissing,
    Unique,
)
from howdah.db.foreign import session as foreign
from howdah.verbs.produce import BULK_SIZE
from tests.clock import TestClock
from tests.conftest import Db
from tests.drivers.callers import (
    DISTINCT,
    FORMS,
    Alchemy,
    AlchemySession,
    AsyncAlchemy,
    Asyncpg,
    AsyncPsycopg,
    Caller,
    Django,
    Form,
    Psycopg,
    Psycopg2,
    arguments,
    opened,
    work,
)
from tests.drivers.transcript import transcript
from tests.pooler import pgbouncer
from tests.worker.in_process import drain

EVERY = pytest.mark.parametrize("name", FORMS)
EACH = pytest.mark.parametrize("name", DISTINCT)
ODD_TEXT = "100% %s %(p1)s %% $1 :x ? ::text Jürgen ☃ 𝄞 '\"\\ \\' {NULL,} NULL"
# What a key may have.
TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=40)


@pytest.fixture
def effects(db: Db) -> Iterator[None]:
    db.execute("CREATE TABLE public.effects (job_type text)")
    yield
    db.execute("DROP TABLE public.effects")


def counted(db: Db) -> dict[str, int]:
    rows = db.execute("SELECT job_type, count(*) AS n FROM public.effects GROUP BY 1")
    return {row["job_type"]: row["n"] for row in rows}


@EVERY
def test_a_verb_is_part_of_the_callers_transaction(dsn: str, queue: JobQueue, name: str) -> None:
    many = range(3)
    with opened(FORMS[name], dsn) as caller:
        caller.begin()
        # The bulk first: its savepoint must not become the transaction.
        assert caller.call(queue, "enqueue_many", "mail", many) == 3
        caller.call(queue, "enqueue", "mail")
        caller.rollback()
        assert len(queue.list()) == 0

        caller.begin()
        with caller.undone():
            caller.call(queue, "enqueue_many", "mail", many)
            caller.call(queue, "enqueue", "mail")
        kept = caller.call(queue, "enqueue", "mail", "kept")
        with pytest.raises(InvalidItem, match="nothing was enqueued"):
            caller.call(queue, "enqueue_many", "mail", [*range(BULK_SIZE), "\x00"])
        assert len(queue.list()) == 0
        caller.commit()
        assert [job.id for job in queue.list()] == [kept.id]

        (job,) = queue.claim(["mail"])
        queue.start(job)
        caller.begin()
        caller.call(queue, "complete", job, "undone")
        caller.rollback()
        assert queue.get(job).status == "running"
        caller.begin()
        caller.call(queue, "complete", job, "done")
        caller.commit()
        assert (queue.get(job).status, queue.get(job).result) == ("completed", "done")


@EACH
def test_every_verb_answers_as_on_psycopg(queue: JobQueue, dsn: str, clock: TestClock, name: str) -> None:
    """Whatever the caller's session has set, and whatever is in the data."""

    @settings(max_examples=2, database=None)
    @example(ODD_TEXT)
    @given(TEXTS)
    def compare(text: str) -> None:
        assert transcript(caller, queue, text) == transcript(usual, queue, text)

    with opened(FORMS["Psycopg"], dsn) as usual, opened(FORMS[name], dsn) as caller:
        compare()


@EVERY
def test_a_handler_completes_its_job_with_its_effect(
    queue: JobQueue, dsn: str, db: Db, effects: None, name: str
) -> None:
    form = FORMS[name]

    def in_thread(job: Job) -> None:
        for step in work(form(dsn), job, job, checkpoints=True):
            step()

    async def on_loop(job: Job) -> None:
        for step in work(form(dsn), job, job, checkpoints=True):
            answer = step()
            if inspect.isawaitable(answer):
                await answer

    job = queue.job(name="pays")(on_loop if form.awaited else in_thread).enqueue()
    report = drain(queue)
    done = queue.get(job)
    assert (done.status, done.result, done.attempts, done.resumed) == ("completed", "done", 1, {"n": 1})
    assert [(step.name, step.result) for step in queue.steps(job)] == [("count", 3)]
    assert (counted(db), report.counts) == ({"pays": 1}, {"completed": 1})


def test_a_kill_between_any_two_statements_leaves_one_effect(queue: JobQueue, dsn: str, db: Db, effects: None) -> None:
    """After the begin, the effect, the completion and the commit."""
    types = [f"{name}-{step}" for name in DISTINCT for step in range(1, 5)]
    jobs = {each: queue.enqueue(each) for each in types}
    subprocess.run([sys.executable, "-m", "tests.drivers.killed", dsn, *types], check=True)
    for each, job in jobs.items():
        while queue.get(job).status != "completed":
            # The server may not have found yet that the client is gone, whose transaction holds the job.
            queue.recover_stale_jobs(0)
            for claimed in queue.claim([each]):
                queue.start(claimed)
                with psycopg.connect(dsn) as conn:
                    conn.execute("INSERT INTO public.effects VALUES (%s)", (each,))
                    queue.complete(claimed, conn=conn)
    assert counted(db) == dict.fromkeys(types, 1)


@EACH
def test_errors_are_ours_with_the_drivers_as_the_cause_and_others_are_the_drivers(
    queue: JobQueue, dsn: str, db: Db, name: str
) -> None:
    first = queue.enqueue("once", {"n": 1}, unique=True)
    queue.limits.set_max_pending("full", 1)
    queue.enqueue("full")
    with opened(FORMS[name], dsn) as caller:

        def raised(kind: type[Exception], verb: str, *args: Any, **options: Any) -> Any:
            caller.begin()
            with pytest.raises(kind) as caught:
                caller.call(queue, verb, *args, **options)
            caller.rollback()
            return caught.value

        duplicate = raised(DuplicateJob, "enqueue", "once", {"n": 1}, unique=Unique(conflict="raise"))
        assert duplicate.job_id == first.id
        refused = raised(QueueFull, "enqueue", "full")
        assert (refused.job_type, refused.max_pending, refused.pending) == ("full", 1, 1)
        bulk = raised(QueueFull, "enqueue_many", "full", [1, 2])
        assert "chunk_size" in str(bulk)
        for each in (duplicate, refused, bulk):
            assert is_drivers(each.__cause__, caller), each.__cause__
        raised(LeaseLost, "release", first)

        # What is not ours is as the driver raises it.
        caller.begin()
        caller.execute("SET LOCAL statement_timeout = 500")
        with db.transaction():
            db.execute("LOCK TABLE live")
            with pytest.raises(Exception, match="statement timeout") as caught:
                caller.call(queue, "enqueue_many", "mail", [1])
        assert is_drivers(caught.value, caller)
        assert "Nothing was enqueued" in caught.value.__notes__[0]
        caller.rollback()

        def failing() -> Iterator[int]:
            yield 1
            raise psycopg.OperationalError("the caller's own")

        assert str(raised(psycopg.OperationalError, "enqueue_many", "mail", failing())) == "the caller's own"
        with JobQueue(dsn, "elsewhere") as other:
            caller.begin()
            with pytest.raises(SchemaMissing, match="howdah migrate"):
                caller.call(other, "enqueue", "mail")
            caller.rollback()


def is_drivers(error: BaseException | None, caller: Caller) -> bool:
    """Whether it is of the library whose connection it is."""
    library = "django" if isinstance(caller.conn, str) else type(caller.conn).__module__.partition(".")[0]
    return type(error).__module__.partition(".")[0] == library


@EACH
def test_a_lost_connection_is_an_outage(queue: JobQueue, dsn: str, db: Db, name: str) -> None:
    with opened(FORMS[name], dsn) as caller:
        caller.begin()
        caller.call(queue, "enqueue", "mail")
        db.execute("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE backend_xid IS NOT NULL")
        with pytest.raises(DatabaseUnavailable) as caught:
            caller.call(queue, "enqueue", "mail", "secret")
        assert "secret" not in str(caught.value)
        with pytest.raises(Exception):  # noqa: B017, PT011
            caller.commit()
    assert len(queue.list()) == 0


class Psycopg2Autocommit(Psycopg2):
    def open(self) -> Any:
        super().open()
        self.conn.autocommit = True


class AsyncpgByHand(Asyncpg):
    """It begins by a statement, of which the driver's own transactions know nothing."""

    def begin(self) -> Any:
        return self.conn.execute("BEGIN")

    def rollback(self) -> Any:
        return self.conn.execute("ROLLBACK")


class AlchemyAutocommit(AlchemySession):
    def _made(self) -> Any:
        return self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")


class AsyncAlchemyAutocommit(AsyncAlchemy):
    async def _made(self) -> Any:
        conn = await self.engine.connect()
        return await conn.execution_options(isolation_level="AUTOCOMMIT")


@pytest.mark.parametrize(
    "form", [Psycopg2Autocommit, AsyncpgByHand, AlchemyAutocommit, AsyncAlchemyAutocommit, Django], ids=str
)
def test_without_a_transaction_of_the_callers_each_verb_is_one(queue: JobQueue, dsn: str, form: type[Form]) -> None:
    with opened(form, dsn) as caller:
        with pytest.raises(InvalidItem, match="nothing was enqueued"):
            caller.call(queue, "enqueue_many", "mail", [*range(BULK_SIZE), "\x00"])
        assert len(queue.list()) == 0
        assert caller.call(queue, "enqueue_many", "mail", [1, 2]) == 2
        caller.call(queue, "enqueue", "mail", 3)
        assert len(queue.list()) == 3
        if form is AsyncpgByHand:
            caller.begin()
            caller.call(queue, "enqueue_many", "mail", [4, 5])
            caller.rollback()
            assert len(queue.list()) == 3


def test_a_bulk_is_part_of_a_transaction_that_psycopg2_has_not_begun_yet(queue: JobQueue, dsn: str) -> None:
    """In autocommit, ``with conn:`` is a transaction, which the driver begins with the first statement."""
    with closing(psycopg2.connect(dsn)) as conn:
        conn.autocommit = True
        with suppress(ValueError), conn:
            queue.enqueue_many("mail", [1, 2], conn=conn)
            raise ValueError
        assert len(queue.list()) == 0
        with conn:
            queue.enqueue_many("mail", [1, 2], conn=conn)
        assert len(queue.list()) == 2


@pytest.mark.parametrize("connect", [psycopg2.connect, psycopg.connect], ids=["psycopg2", "psycopg"])
def test_bulks_of_threads_that_share_a_connection_come_one_after_the_other(
    queue: JobQueue, dsn: str, connect: Any
) -> None:
    """Otherwise the rollback of the second would undo the first, which was acknowledged."""
    first_is_in, second_is_in, first_ended = threading.Event(), threading.Event(), threading.Event()

    def first() -> Iterator[int]:
        yield from range(BULK_SIZE)
        first_is_in.set()
        # It waits for its turn, and so this is in vain.
        assert not second_is_in.wait(0.5)
        yield 0

    def second() -> Iterator[int]:
        yield from range(BULK_SIZE)
        second_is_in.set()
        assert first_ended.wait(60)
        raise ValueError

    def enqueue_first() -> None:
        queue.enqueue_many("first", first(), conn=conn)
        first_ended.set()

    def enqueue_second() -> None:
        assert first_is_in.wait(60)
        with pytest.raises(ValueError, match=r"^$"):
            queue.enqueue_many("second", second(), conn=conn)

    with closing(connect(dsn)) as conn, ThreadPoolExecutor(2) as threads:
        for end in [threads.submit(each) for each in (enqueue_first, enqueue_second)]:
            end.result()
        conn.commit()
    assert {job.job_type for job in queue.list()} == {"first"}
    assert len(queue.list(limit=5000)) == BULK_SIZE + 1


@pytest.mark.parametrize("autocommit", [False, True])
@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
def test_bulks_of_tasks_that_share_a_connection_come_one_after_the_other(
    queue: JobQueue, dsn: str, driver: str, autocommit: bool
) -> None:
    async def main() -> None:
        conn: Any
        if driver == "asyncpg":
            conn = await asyncpg.connect(**arguments(dsn))
            if not autocommit:
                await conn.execute("BEGIN")
        else:
            conn = await psycopg.AsyncConnection.connect(dsn, autocommit=autocommit)

        async def items() -> AsyncIterator[int]:
            yield 1
            # In the same task, it is a part of the outer one.
            await queue.aenqueue_many("inner", [1], conn=conn)
            yield 2

        bulks = [queue.aenqueue_many("mail", items() if n else breaking(), conn=conn) for n in range(4)]
        answers = await asyncio.gather(*bulks, return_exceptions=True)
        assert [repr(each) for each in answers] == ["ValueError()", "2", "2", "2"]
        if not autocommit:
            await conn.execute("COMMIT")
        await conn.close()

    asyncio.run(main())
    assert len(queue.list()) == 9


@pytest.mark.parametrize("is_shared", [False, True], ids=["copy", "shared"])
def test_a_bulk_is_undone_on_the_connection_of_django_that_it_was_given(
    queue: JobQueue, dsn: str, is_shared: bool
) -> None:
    """Also if this thread has another one of the same alias: for a copy, and for one that another thread shares."""

    def bulks(conn: Any) -> None:
        with pytest.raises(ValueError, match=r"^$"):
            queue.enqueue_many("mail", breaking(), conn=conn)
        assert len(queue.list()) == 0
        assert queue.enqueue_many("mail", [1, 2], conn=conn) == 2
        assert len(queue.list()) == 2

        conn.set_autocommit(False)
        with pytest.raises(ValueError, match=r"^$"):
            queue.enqueue_many("mail", breaking(), conn=conn)
        queue.enqueue_many("kept", [1], conn=conn)
        conn.commit()
        conn.set_autocommit(True)
        assert len(queue.list()) == 3

        with conn.cursor() as cursor:
            cursor.execute("BEGIN")
            queue.enqueue_many("undone", [1], conn=conn)
            cursor.execute("ROLLBACK")
        assert len(queue.list()) == 3

    with opened(Django, dsn) as caller:
        registered = caller.conn
        if not is_shared:
            copy = registered.copy()
            with closing(copy):
                bulks(copy)
            return
        registered.inc_thread_sharing()
        with ThreadPoolExecutor(1) as elsewhere:
            elsewhere.submit(bulks, registered).result()
        registered.dec_thread_sharing()


class ScalarRows(Psycopg):
    def open(self) -> Any:
        self.conn = psycopg.connect(self.dsn, row_factory=psycopg.rows.scalar_row)


class AsyncScalarRows(AsyncPsycopg):
    async def open(self) -> Any:
        self.conn = await psycopg.AsyncConnection.connect(self.dsn, row_factory=psycopg.rows.scalar_row)


class OddTexts(Psycopg2):
    def open(self) -> Any:
        super().open()
        extensions = psycopg2.extensions
        shouting = extensions.new_type((25,), "SHOUTING", lambda value, _: value and value.upper())
        extensions.register_type(shouting, self.conn)


class Streaming(Alchemy):
    def _made(self) -> Any:
        return self.engine.connect().execution_options(stream_results=True)


class StreamingPsycopg2(Streaming):
    driver = "psycopg2"


class StreamingAutocommit(Alchemy):
    def _made(self) -> Any:
        return self.engine.connect().execution_options(yield_per=1, isolation_level="AUTOCOMMIT")


class AsyncStreaming(AsyncAlchemy):
    async def _made(self) -> Any:
        conn = await self.engine.connect()
        return await conn.execution_options(stream_results=True)


@pytest.mark.parametrize(
    "form",
    [ScalarRows, AsyncScalarRows, OddTexts, Streaming, StreamingPsycopg2, StreamingAutocommit, AsyncStreaming],
    ids=str,
)
def test_how_the_caller_reads_rows_is_no_matter(queue: JobQueue, dsn: str, form: type[Form]) -> None:
    with opened(form, dsn) as caller:
        job = caller.call(queue, "enqueue", "mail", {"to": "ann"})
        assert caller.call(queue, "enqueue_many", "mail", [1, 2]) == 2
        assert caller.call(queue, "get", job).data == {"to": "ann"}
        with pytest.raises(InvalidItem, match="nothing was enqueued"):
            caller.call(queue, "enqueue_many", "mail", [*range(BULK_SIZE), "\x00"])
        caller.commit()
    assert len(queue.list()) == 3


class PooledAsyncpg(Asyncpg):
    async def open(self) -> Any:
        options = conninfo_to_dict(self.dsn)
        self.conn = await asyncpg.connect(**arguments(self.dsn), port=int(str(options["port"])), statement_cache_size=0)


class PooledPsycopg(Psycopg):
    def open(self) -> Any:
        self.conn = psycopg.connect(self.dsn, client_encoding="utf-8", prepare_threshold=None)


@pytest.mark.parametrize("form", [PooledAsyncpg, PooledPsycopg, Psycopg2], ids=str)
def test_through_a_pooler_a_verb_is_part_of_the_callers_transaction(
    queue: JobQueue, dsn: str, form: type[Form]
) -> None:
    with pgbouncer(dsn) as pooled, opened(form, pooled) as caller:
        for end in (caller.rollback, caller.commit):
            caller.begin()
            caller.call(queue, "enqueue", "mail", {"to": "Jürgen"})
            assert caller.call(queue, "enqueue_many", "mail", [1, 2]) == 2
            end()
    assert len(queue.list()) == 3


def test_a_connection_of_psycopg2_that_must_be_polled_is_refused(queue: JobQueue, dsn: str) -> None:
    with closing(psycopg2.connect(dsn, async_=1)) as conn:
        psycopg2.extras.wait_select(conn)
        with pytest.raises(InvalidOption, match=r"async_.*pass one without it$"):
            queue.enqueue("mail", conn=conn)
    assert len(queue.list()) == 0


def test_a_cancelled_bulk_leaves_no_transaction_open(queue: JobQueue, dsn: str) -> None:
    """On a connection without one of the caller's."""

    async def main() -> None:
        conn = await asyncpg.connect(**arguments(dsn))
        reached = asyncio.Event()

        async def items() -> AsyncIterator[int]:
            for number in range(BULK_SIZE + 1):
                yield number
            reached.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(queue.aenqueue_many("mail", items(), conn=conn))
        await reached.wait()
        assert conn.is_in_transaction()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not conn.is_in_transaction()
        await conn.close()

    asyncio.run(main())
    assert len(queue.list()) == 0


class Interrupted(asyncpg.Connection):  # type: ignore[misc]
    """Cancels a task when a statement is sent, twice; and sends it, or never."""

    statement = ""
    victim: asyncio.Task[Any] | None = None
    sends = True

    async def execute(self, query: str, *args: Any, **options: Any) -> Any:
        if self.victim is None or not query.startswith(self.statement):
            return await super().execute(query, *args, **options)
        victim, self.victim = self.victim, None
        victim.cancel()
        asyncio.get_running_loop().call_soon(victim.cancel)
        return await (super().execute(query, *args, **options) if self.sends else asyncio.Event().wait())

    def call(self, statement: str, verb: Any) -> asyncio.Task[Any]:
        self.statement, self.victim = statement, asyncio.ensure_future(verb)
        return self.victim


async def interrupted(dsn: str) -> Interrupted:
    conn: Interrupted = await asyncpg.connect(**arguments(dsn), connection_class=Interrupted)
    return conn


def breaking() -> Iterator[int]:
    yield from range(BULK_SIZE)
    raise ValueError


@pytest.mark.parametrize(
    ("statement", "items", "left"),
    [("BEGIN", [1, 2], 0), ("COMMIT", [1, 2], 2), ("ROLLBACK", breaking(), 0)],
    ids=["BEGIN", "COMMIT", "ROLLBACK"],
)
def test_a_verb_that_is_cancelled_as_it_begins_or_ends_leaves_no_transaction_open(
    queue: JobQueue, dsn: str, statement: str, items: Any, left: int
) -> None:
    async def main() -> None:
        conn = await interrupted(dsn)
        with pytest.raises(asyncio.CancelledError):
            await conn.call(statement, queue.aenqueue_many("mail", items, conn=conn))
        # Otherwise it would be in the transaction, and be lost when the connection closes.
        await queue.aenqueue("later", conn=conn)
        assert not conn.is_in_transaction()
        await conn.close()

    asyncio.run(main())
    assert (len(queue.list(job_type="mail")), len(queue.list(job_type="later"))) == (left, 1)


@pytest.mark.parametrize(("statement", "items"), [("SAVEPOINT", [1, 2]), ("ROLLBACK TO", breaking())])
def test_a_verb_that_is_cancelled_inside_of_the_callers_transaction_leaves_it_usable(
    queue: JobQueue, dsn: str, statement: str, items: Any
) -> None:
    async def main() -> None:
        conn = await interrupted(dsn)
        async with conn.transaction():
            with pytest.raises(asyncio.CancelledError):
                await conn.call(statement, queue.aenqueue_many("mail", items, conn=conn))
            await queue.aenqueue("kept", conn=conn)
        await conn.close()

    asyncio.run(main())
    assert [job.job_type for job in queue.list()] == ["kept"]


def test_a_transaction_that_cannot_be_rolled_back_ends_with_its_connection(
    queue: JobQueue, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "UNDONE_WITHIN", 0.1)

    async def main() -> None:
        conn = await interrupted(dsn)
        conn.sends = False
        with pytest.raises(asyncio.CancelledError):
            await conn.call("ROLLBACK", queue.aenqueue_many("mail", breaking(), conn=conn))
        assert conn.is_closed()

    asyncio.run(asyncio.wait_for(main(), 30))
    assert len(queue.list()) == 0


def test_a_begin_that_timed_out_is_undone(queue: JobQueue, dsn: str) -> None:
    """The server has begun, and its answer was not awaited."""

    class Impatient(asyncpg.Connection):  # type: ignore[misc]
        async def execute(self, query: str, *args: Any, **options: Any) -> Any:
            answer = await super().execute(query, *args, **options)
            if query == "BEGIN":
                raise TimeoutError
            return answer

    async def main() -> None:
        conn = await asyncpg.connect(**arguments(dsn), connection_class=Impatient)
        with pytest.raises(TimeoutError):
            await queue.aenqueue_many("mail", [1, 2], conn=conn)
        assert not conn.is_in_transaction()
        await conn.close()

    asyncio.run(main())


def test_what_is_no_connection_is_refused_by_name(queue: JobQueue, dsn: str) -> None:
    engine = sa.create_engine("sqlite://")
    pool = psycopg_pool.ConnectionPool(dsn, open=False)
    connections.databases["sqlite"] = connections.configure_settings(
        {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
    )["default"]
    with engine.connect() as sqlite, psycopg.connect(dsn) as conn, closing(sqlite3.connect(":memory:")) as plain:
        refused: dict[Any, str] = {
            5: "conn is an int, which is no connection that Howdah knows: pass a connection of psycopg 3, psycopg2",
            engine: "conn is a sqlalchemy.engine.base.Engine, which is no connection",
            pool: "conn is a psycopg_pool.pool.ConnectionPool, which is no connection",
            plain: "conn is a sqlite3.Connection, which is no connection",
            conn.cursor(): "conn is a psycopg.Cursor, which is no connection",
            sqlite: "conn is of SQLAlchemy on sqlite+pysqlite, and Howdah is in PostgreSQL",
            "sqlite": "conn is a django.db.backends.sqlite3.base.DatabaseWrapper, on sqlite: pass a connection of Django whose",
            "nowhere": "conn is 'nowhere', which is no alias in Django's DATABASES: it has 'default', 'sqlite'",
            "host=there password=secret": "conn is a text, which is no alias in Django's DATABASES",
        }
        for wrong, message in refused.items():
            with pytest.raises(InvalidOption, match=f"^{re.escape(message)}") as caught:
                queue.enqueue("mail", conn=wrong)
            assert "secret" not in str(caught.value)
    # Django keeps a database in memory open when its connection is closed.
    if (opened_by_django := connections["sqlite"].connection) is not None:
        opened_by_django.close()
    del connections.databases["sqlite"]
    engine.dispose()


def test_a_connection_for_the_other_form_of_a_verb_is_refused(queue: JobQueue, dsn: str) -> None:
    for form in FORMS.values():
        with opened(form, dsn) as caller:
            if form.awaited:
                with pytest.raises(InvalidOption, match=r"which is awaited: use the a… verb, such as aenqueue$"):
                    queue.enqueue("mail", conn=caller.conn)
            else:
                with pytest.raises(InvalidOption, match=r"which blocks: use the verb without a…, such as enqueue$"):
                    asyncio.run(queue.aenqueue("mail", conn=caller.conn))


def test_a_session_in_another_encoding_is_refused(queue: JobQueue, dsn: str) -> None:
    # In a pipeline, the driver does not know yet what was set.
    for form in (form for name, form in FORMS.items() if "Pipelined" not in name):
        with opened(form, dsn) as caller:
            caller.begin()
            caller.execute("SET client_encoding = 'LATIN1'")
            with pytest.raises(InvalidOption, match=r"LATIN1.*SET client_encoding"):
                caller.call(queue, "enqueue", "mail", "é")
            caller.rollback()
    assert len(queue.list()) == 0


NOTHING_ELSE = """
import sys
import psycopg
import howdah
from howdah import JobQueue

with JobQueue(sys.argv[1]) as queue, psycopg.connect(sys.argv[1]) as conn:
    queue.enqueue("mail", conn=conn)
    for wrong in (5, "default"):
        try:
            queue.enqueue("mail", conn=wrong)
        except howdah.InvalidOption as error:
            print(error)
print({"psycopg2", "asyncpg", "sqlalchemy", "django"} & sys.modules.keys())
"""


def test_no_driver_is_imported(queue: JobQueue, dsn: str) -> None:
    ran = subprocess.run([sys.executable, "-c", NOTHING_ELSE, dsn], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "set()"
    assert "conn is 'default'. A text is the alias of a database of Django, which is not imported here" in ran.stdout
