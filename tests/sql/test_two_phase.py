"""Two-phase commit: a transaction that has notified cannot be prepared, so a session may turn notifications off."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql

from tests.conftest import Connect, Db
from tests.sql.holding import Held, hold
from tests.sql.listening import listener, received

OFF = ("off", "OFF", "false", "no", "0")


@pytest.fixture
def prepared(db: Db) -> Iterator[str]:
    """A name for a prepared transaction, which is rolled back in the end."""
    if db.execute("SHOW max_prepared_transactions").fetchone() == {"max_prepared_transactions": "0"}:
        pytest.skip("this server prepares no transactions")
    name = f"two-phase-{uuid.uuid4()}"
    yield name
    for row in db.execute("SELECT gid FROM pg_prepared_xacts WHERE gid = %s", (name,)).fetchall():
        db.execute(sql.SQL("ROLLBACK PREPARED {}").format(row["gid"]))


@pytest.fixture
def sleeper(connect: Connect) -> Db:
    """A worker that waits for jobs, and a client that watches them."""
    conn = listener(connect)
    conn.execute("SELECT add_sleeper(ARRAY['x'])")
    conn.execute("SELECT add_watcher(ARRAY['x'])")
    return conn


CHANGES: dict[str, Callable[[Db, Held], object]] = {
    "enqueue": lambda db, _: db.execute("SELECT enqueue('x')"),
    "enqueue_many": lambda db, _: db.execute("SELECT enqueue_many('x', array_fill('{}'::jsonb, ARRAY[3]))"),
    "a plain INSERT": lambda db, _: db.execute("INSERT INTO jobs (job_type) VALUES ('x')"),
    "cancel": lambda db, job: db.execute("SELECT cancel(ARRAY[%s])", (job.id,)),
    "fail": lambda db, job: db.execute("SELECT fail(ARRAY[%s], ARRAY[%s], ARRAY['e'])", job),
    "progress": lambda db, job: db.execute("SELECT progress(ARRAY[%s], ARRAY[%s], ARRAY[50])", job),
}


def prepare(producer: Db, name: str, change: Callable[[Db, Held], object], job: Held) -> None:
    producer.execute("BEGIN")
    change(producer, job)
    producer.execute(sql.SQL("PREPARE TRANSACTION {}").format(name))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_while_a_worker_sleeps_only_a_session_without_notifications_can_prepare(
    db: Db, connect: Connect, sleeper: Db, prepared: str, change: Callable[[Db, Held], object]
) -> None:
    (job,) = hold(db)
    received(sleeper, db)
    producer = connect()
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="NOTIFY"):
        prepare(producer, prepared, change, job)
    producer.execute("SET howdah.notify = off")
    prepare(producer, prepared, change, job)
    db.execute(sql.SQL("COMMIT PREPARED {}").format(prepared))
    assert received(sleeper, db) == []


@pytest.mark.parametrize("value", OFF)
def test_what_off_may_be_called(db: Db, connect: Connect, sleeper: Db, value: str) -> None:
    producer = connect()
    producer.execute("SELECT set_config('howdah.notify', %s, false)", (value,))
    producer.execute("SELECT enqueue('x')")
    assert received(sleeper, db) == []
    producer.execute("RESET howdah.notify")
    producer.execute("SELECT enqueue('x')")
    assert len(received(sleeper, db)) == 1
