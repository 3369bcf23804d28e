"""Cases in which a lock is held by a session that does not give it back."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import psycopg
from psycopg.conninfo import make_conninfo

from howdah import JobQueue, SchemaConflict
from howdah.db import migrate
from tests.faults.case import case
from tests.faults.stage import Stage
from tests.worker.processes import PATIENCE, ROOT, WorkerProcess, until

COMPUTED: Final = (
    # Without the right to use the schema: the catalog can be read by any login.
    (
        "SELECT pg_try_advisory_lock{form}(c.oid::int, n) FROM pg_class AS c CROSS JOIN generate_series(0, 200) AS n"
        " WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'howdah') AND c.relname = 'live'"
    ),
    (
        "SELECT pg_try_advisory_lock{form}(c.oid::int, hashtext(t.name)) FROM pg_class AS c"
        " CROSS JOIN unnest(ARRAY['work', 'nothing', 'in_line']) AS t (name)"
        " WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'howdah') AND c.relname = 'types'"
    ),
    (
        "SELECT pg_try_advisory_lock{form}(hashtextextended(k.key, 0))"
        """ FROM unnest(ARRAY['"howdah".migrate', '"howdah_test_1".testing', '"howdah_bench".bench']) AS k (key)"""
    ),
)
LONG_BULK: Final = 2_500


@case(49, "outsider-locks", checks="I1 I2 I3 I4 I5 I7", handlers="handlers_locks")
def outsider_locks(stage: Stage) -> None:
    """A login that may connect and nothing else holds every advisory lock of the queue: everything continues, and the doctor names the session."""
    with outsider(stage) as intruder:
        for form in ("", "_shared"):
            held = hold_all(intruder, form)
            stage.fault(held)
            (worker,) = stage.start()
            if not form:
                await_word(worker, f"pid {intruder.info.backend_pid} of role")
            everything_goes_on(stage)
            it_is_named(stage, intruder)
            intruder.execute("SELECT pg_advisory_unlock_all()")
    assert stage.queue.migrate().changed is False
    assert not stage.queue.doctor(only=["advisory-lock-held"])


def await_word(worker: WorkerProcess, word: str) -> None:
    until(lambda: word in worker.log, f"{worker.name} logs {word}")


@contextlib.contextmanager
def outsider(stage: Stage) -> Iterator[psycopg.Connection[Any]]:
    """A connection of a login without any rights of its own."""
    role = f"outsider_{secrets.token_hex(4)}"
    with psycopg.connect(stage.dsn, autocommit=True) as conn:
        conn.execute(f"CREATE ROLE {role} LOGIN".encode())
        try:
            dsn = make_conninfo(stage.dsn, user=role, application_name="intruder")
            with psycopg.connect(dsn, autocommit=True) as intruder:
                yield intruder
        finally:
            conn.execute(f"DROP ROLE {role}".encode())


def hold_all(intruder: psycopg.Connection[Any], form: str) -> int:
    taken = [row[0] for text in COMPUTED for row in intruder.execute(text.format(form=form).encode())]
    assert all(taken) or form, "another session was faster"
    return sum(taken)


def everything_goes_on(stage: Stage) -> None:
    for job_type in ("work", "in_line"):
        assert stage.queue.wait_for(stage.enqueue(job_type), timeout=PATIENCE).status == "completed"
    # A bulk of one call, and one of several, which would have its type for itself. The keys of ended jobs are free.
    for count in (2, LONG_BULK):
        add_keys(stage, "nothing", count)
        stage.fleet.await_drained()
    watched = stage.enqueue("work")
    # Until it has ended.
    for _ in stage.queue.watch(watched):
        pass
    assert stage.queue.get(watched).status == "completed"
    stage.queue.prune(keep=timedelta(days=1))


def add_keys(stage: Stage, job_type: str, count: int) -> None:
    number = iter(range(count))
    nothing: Iterator[dict[str, Any]] = ({} for _ in range(count))
    added = stage.queue.enqueue_many(job_type, nothing, key=lambda _: f"{next(number)}", return_ids=True)
    assert added == count
    stage.acknowledged += added.ids or ()


def it_is_named(stage: Stage, intruder: psycopg.Connection[Any]) -> None:
    pid = intruder.info.backend_pid
    with patience_of_migrations(1):
        try:
            stage.queue.migrate()
        except SchemaConflict as conflict:
            assert f"pid {pid} (outsider_" in str(conflict), conflict
        else:
            raise AssertionError("the lock of migrations was not held")
    (finding,) = stage.queue.doctor(only=["advisory-lock-held"])
    assert f"pid {pid} of role outsider_" in finding.cause
    health = subprocess.run(
        [sys.executable, "-m", "howdah", "health", "--any"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"HOWDAH_DSN": stage.dsn},
    )
    assert health.returncode == 0, health.stderr
    assert f"pg_terminate_backend({pid})" in health.stderr


@contextlib.contextmanager
def patience_of_migrations(seconds: float) -> Iterator[None]:
    before, migrate.PATIENCE = migrate.PATIENCE, seconds  # type: ignore[misc]
    try:
        yield
    finally:
        migrate.PATIENCE = before  # type: ignore[misc]


@case(51, "idle-producer", checks="I1 I2 I3 I4 I5 I7", handlers="handlers_locks")
def idle_producer(stage: Stage) -> None:
    """A transaction is left open behind an enqueue, and a worker declares its type as ordered: nothing waits for it, and its job comes last."""
    count = stage.scaled(200, 20)
    with psycopg.connect(stage.dsn) as idle:
        late = stage.queue.enqueue("in_line", conn=idle)
        stage.fault()
        stage.start(stage.scaled(3, 2))
        with JobQueue(f"{stage.dsn} options='-c lock_timeout=1s'") as others:
            for _ in range(count):
                stage.acknowledged += [others.enqueue(job_type).id for job_type in ("work", "in_line")]
        stage.fleet.await_drained()
        idle.commit()
    stage.acknowledged.append(late.id)
    assert stage.queue.wait_for(late, timeout=PATIENCE).status == "completed"
    ends = [entry for entry in stage.fleet.ledger.entries() if entry.job_type == "in_line"]
    assert [entry.word for entry in ends] == ["START", "END"] * (count + 1), "two of an ordered type have run at once"
    until(lambda: not stage.execute("SELECT FROM howdah.types WHERE settling IS NOT NULL"), "all has settled")
