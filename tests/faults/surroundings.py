"""Cases of a database that is not as it was thought of: settings that change what statements and values mean, and names that others
have planted."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping
from typing import Final

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from howdah import HowdahError, JobQueue, SchemaConflict
from tests import planted
from tests.faults.case import case
from tests.faults.contention import counted
from tests.faults.stage import Stage
from tests.odd_settings import ODD, READ_ONLY
from tests.security.verbs import Caller, call_them_all
from tests.worker.processes import until

LEVEL: Final = "default_transaction_isolation"
FORMS: Final = tuple((awaited, own) for awaited in (False, True) for own in (False, True))


@case(44, "odd-settings", checks="I1 I2 I3 I4 I5 I7")
def odd_settings(stage: Stage) -> None:
    """A login whose DateStyle, IntervalStyle, isolation level, array_nulls, search_path and others are odd; encodings that are not UTF-8."""
    each = [{name: value} for name, value in ODD.items()]
    of_callers = {name: value for name, value in ODD.items() if name != LEVEL}
    for settings in stage.scaled([ODD, of_callers, *each], [ODD, of_callers]):
        with odd_login(stage, settings) as dsn:
            stage.fault(len(settings))
            every_verb(stage, dsn, settings)
            workers = stage.start(stage.scaled(2, 1), dsn=dsn)
            with stage.producing(dsn=dsn, most=stage.scaled(200, 60)) as producer:
                until(lambda: len(producer.acknowledged) >= 50, "there was something to do")
            stage.fleet.await_drained()
            assert all(worker.stop() == 0 and "unexpectedly" not in worker.log for worker in workers)
    with odd_login(stage, READ_ONLY) as dsn:
        refused_before_anything_is_written(stage, dsn)
    refused_in_sql_ascii(stage)


def every_verb(stage: Stage, dsn: str, settings: Mapping[str, str]) -> None:
    """In a schema of its own, because the audit does not watch these jobs. A transaction of the caller's that is stricter than
    READ COMMITTED is refused by some verbs, and clearly."""
    schema = f"odd_{uuid.uuid4().hex[:8]}"
    forms = FORMS if LEVEL not in settings else [form for form in FORMS if not form[1]]
    for awaited, own_connection in stage.scaled(forms, forms[-1:]):
        with JobQueue(dsn, schema) as queue:
            queue.migrate(adopt=False)
            call_them_all(Caller(queue, awaited=awaited, own_connection=own_connection))
        with psycopg.connect(stage.dsn, autocommit=True) as conn:
            conn.execute(f"DROP SCHEMA {schema} CASCADE".encode())


def refused_before_anything_is_written(stage: Stage, dsn: str) -> None:
    before = stage.execute("SELECT count(*) AS n FROM howdah.live")
    with JobQueue(dsn) as queue:
        try:
            queue.enqueue("nothing")
        except HowdahError as error:
            assert "read-only" in str(error)
            stage.fault()
        else:
            raise AssertionError("a job was added by a transaction that is read-only")
    assert stage.execute("SELECT count(*) AS n FROM howdah.live") == before


def refused_in_sql_ascii(stage: Stage) -> None:
    name = f"ascii_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(stage.dsn, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0".encode())
        try:
            with JobQueue(make_conninfo(stage.dsn, dbname=name)) as queue:
                queue.migrate()
        except SchemaConflict as error:
            assert "UTF8" in str(error)
            stage.fault()
        else:
            raise AssertionError("the queue was installed in a database without an encoding")
        finally:
            conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@contextlib.contextmanager
def odd_login(stage: Stage, settings: Mapping[str, str]) -> Iterator[str]:
    """The DSN of a login with these settings."""
    name = f"odd_{uuid.uuid4().hex[:8]}"
    login = sql.Identifier(name)
    with psycopg.connect(stage.dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("CREATE ROLE {} LOGIN SUPERUSER").format(login))
        try:
            for setting, value in settings.items():
                conn.execute(
                    sql.SQL("ALTER ROLE {} SET {} = {}").format(login, sql.Identifier(setting), sql.Literal(value))
                )
            yield make_conninfo(stage.dsn, user=name, options="")
        finally:
            conn.execute(sql.SQL("REASSIGN OWNED BY {} TO CURRENT_USER").format(login))
            conn.execute(sql.SQL("DROP OWNED BY {}").format(login))
            conn.execute(sql.SQL("DROP ROLE {}").format(login))


@case(50, "planted-overloads", checks="I1 I2 I7", audited=False)
def planted_overloads(stage: Stage) -> None:
    """Functions, operators, types and relations in public that match our calls better than PostgreSQL's own: none is ever called."""
    # The suite's own questions mean PostgreSQL's own operators.
    stage.follow(make_conninfo(stage.dsn, options="-c search_path=pg_catalog"))
    planted.plant(stage.dsn)
    with odd_login(stage, {"search_path": planted.PATH}) as dsn:
        stage.fault(planted.FEWEST)
        every_verb(stage, dsn, {})
        stage.start(stage.scaled(2, 1), dsn=dsn)
        with JobQueue(dsn) as queue:
            for number in range(stage.scaled(500, 20)):
                for job_type in ("nothing", "work_in_a_thread", "work_in_a_child")[: 3 if number % 5 == 0 else 1]:
                    stage.acknowledged.append(queue.enqueue(job_type).id)
        stage.fleet.await_drained()
        stage.verdict = counted(stage)
    assert planted.caught(stage.dsn) == []
