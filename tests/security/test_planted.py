"""Objects planted in public are never called by us: not by the name of a function, an operator, a type or a relation."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from howdah import JobQueue
from howdah.db import pinned_settings
from tests import planted, pooler
from tests.cli.runner import howdah
from tests.client.test_verbs import JOB_VERBS
from tests.drivers.callers import Asyncpg, Psycopg2
from tests.security import canary
from tests.security.verbs import Caller, call_them_all
from tests.security.working import work
from tests.servers import Server
from tests.tenant import Tenant

TARGET = "tests.security.canary:queue"


@pytest.fixture
def database(shared_server: Server) -> Iterator[str]:
    """A database of its own, because what is planted there is planted for all."""
    name = f"planted_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(shared_server.dsn, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield make_conninfo(shared_server.dsn, dbname=name)
        finally:
            conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def field(database: str) -> Iterator[Tenant]:
    """A queue with its roles, in a database in which a producer has planted everything that it can."""
    with Tenant(database, f"tenant_{uuid.uuid4().hex[:8]}") as tenant:
        # As it was for every login until PostgreSQL 15.
        tenant.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
        planted.plant(tenant.dsn("producer"))
        planted.lead_into_it(database)
        yield tenant
        assert planted.caught(database) == []


def test_a_plain_statement_is_caught(field: Tenant) -> None:
    """Without this, the other tests would show nothing."""
    with psycopg.connect(field.dsn("worker"), autocommit=True) as conn:
        conn.execute("SELECT 'a'::varchar = 'b'::varchar, lower('A'), count(*) FROM pg_class")
    names = {name for name, _ in planted.caught(field.admin_dsn)}
    assert {"varchar = varchar", "count(*)", "relation pg_class"} <= names
    field.admin.execute("TRUNCATE public.caught; ALTER SEQUENCE public.catches RESTART")


class PlainAsyncpg(Asyncpg):
    """Without codecs: the driver looks for their types in statements of its own, which call what is planted."""

    async def _set_codecs(self) -> None:
        pass


@pytest.mark.parametrize("awaited", [False, True], ids=["blocking", "awaited"])
@pytest.mark.parametrize("where", ["pool", "pool, nothing pinned", "conn", "conn of another driver"])
def test_no_verb_calls_what_is_planted(
    field: Tenant, where: str, awaited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if where == "pool, nothing pinned":
        # As behind a pooler, which takes no options.
        monkeypatch.setattr(pinned_settings, "startup_options", lambda given: {})
    with JobQueue(field.admin_dsn, field.schema) as queue:
        form = (PlainAsyncpg if awaited else Psycopg2) if where == "conn of another driver" else None
        caller = Caller(queue, awaited=awaited, own_connection=where == "conn", form=form)
        call_them_all(caller)
        missing = sorted(set(JOB_VERBS) - caller.called)
        assert not missing, f"call {', '.join(missing)} in call_them_all of tests/security/verbs.py"
        assert caller.called == set(JOB_VERBS)


def test_no_verb_calls_what_is_planted_behind_a_pooler(field: Tenant) -> None:
    with pooler.pgbouncer(field.admin_dsn) as dsn, JobQueue(dsn, field.schema) as queue:
        call_them_all(Caller(queue, awaited=False, own_connection=False))


def test_no_worker_calls_what_is_planted(field: Tenant) -> None:
    with field.queue("producer") as queue:
        for handler in canary.queue.handlers:
            queue.enqueue(handler, {"secret": "x"})
    with field.queue("operator") as queue:
        queue.schedules.set("again", "in_a_thread", {"secret": "x"}, every=3600)
    outcome = work(TARGET, field.dsn("worker"), "--drain", "--schema", field.schema)
    assert outcome.code == 0, outcome.err
    with field.queue("owner") as queue:
        assert {job.status for job in queue.list(status=["pending", "claimed", "running"])} <= {"pending"}


def test_no_watcher_calls_what_is_planted(field: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinned_settings, "startup_options", lambda given: {})
    with JobQueue(field.admin_dsn, field.schema) as queue:
        job = queue.enqueue("mail")
        position = queue.stream_position()
        watch, every = queue.watch(job), queue.watch_all(after=position)
        next(watch)
        (held,) = queue.claim(["mail"], 1, "me")
        queue.start(held)
        queue.progress(held, 50)
        queue.event(held, "seen")
        next(watch)
        queue.complete(held)
        assert queue.wait_for(job, timeout=30).status == "completed"
        assert next(iter(every)) is not None
        for stream in (watch, every):
            with contextlib.suppress(AttributeError):
                stream.close()


COMMANDS = (
    ("enqueue", "mail", '{"to": 1}'),
    ("list",),
    ("list", "--status", "pending", "--json"),
    ("show", "ID"),
    ("stats",),
    ("logs", "ID"),
    ("health",),
    ("cancel", "ID"),
    ("retry", "ID"),
    ("pause", "mail"),
    ("resume", "mail"),
    ("schedule", "list"),
    ("recover",),
    ("prune",),
    ("top", "--once"),
    ("doctor",),
    ("migrate",),
    ("migrate", "--check"),
    ("migrate", "--roles"),
    ("migrate", "--reinstall"),
)


@pytest.mark.parametrize("role", ["operator", "owner", "superuser"])
def test_no_command_calls_what_is_planted(field: Tenant, role: str) -> None:
    dsn = field.admin_dsn if role == "superuser" else field.dsn(role)
    with field.queue("producer") as queue:
        job = queue.enqueue("mail", {"to": "x"})
    for words in COMMANDS:
        outcome = howdah(*(str(job.id) if word == "ID" else word for word in words), "--schema", field.schema, dsn=dsn)
        # Not every role may do everything; but no refusal is a mistake of ours.
        assert "Traceback" not in outcome.err, f"{words}: {outcome.err}"
        assert "does not exist" not in outcome.err, f"{words}: {outcome.err}"
        if role == "superuser":
            assert outcome.code in (0, 1), f"{words}: {outcome.err}"


def test_an_installation_calls_nothing_that_is_planted(database: str) -> None:
    planted.plant(database)
    planted.lead_into_it(database)
    with JobQueue(database) as queue:
        queue.migrate()
        assert queue.check_schema() == []
        queue.migrate(reinstall=True)
    assert planted.caught(database) == []


def test_a_better_match_in_the_default_path_is_not_called(database: str) -> None:
    """The attack as it was found: an operator for varchar, for which PostgreSQL has none of its own, and a schema that is named like
    the login."""
    with Tenant(database, f"tenant_{uuid.uuid4().hex[:8]}") as tenant:
        tenant.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
        planted.plant(tenant.dsn("producer"))
        with tenant.queue("producer") as queue:
            queue.enqueue("mail", key="k")
        with psycopg.connect(database) as conn, JobQueue(database, tenant.schema) as queue:
            assert len(queue.list(job_type="mail", conn=conn)) == 1
            assert queue.stats(conn=conn)["mail"].pending == 1
        assert howdah("list", "--schema", tenant.schema, dsn=database).code == 0
        assert planted.caught(database) == []
