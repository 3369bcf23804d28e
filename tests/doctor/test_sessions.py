"""Sessions that block others, and that values of their statements are not shown."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import sql
from psycopg.rows import dict_row

from howdah import JobQueue
from howdah.doctor.words import statement
from tests.doctor.conftest import Db, codes, only_finding
from tests.sql.plain import until_blocked
from tests.worker.processes import until

SECRET = "hunter2"


def test_an_old_snapshot_is_named_with_its_session_and_without_its_values(healthy_dsn: str, queue: JobQueue) -> None:
    with psycopg.connect(healthy_dsn, application_name="nightly\x1breport") as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute(f"SELECT count(*) FROM howdah.jobs WHERE last_error = '{SECRET}'")
        assert codes(queue) == []
        finding = only_finding(queue, "xmin-held", patience=0)
        pid = reader.info.backend_pid
        assert f"pid {pid} of role postgres (nightly\\x1breport), idle in transaction" in finding.cause
        assert "SELECT count(*) FROM howdah.jobs WHERE last_error = '…'" in finding.cause
        assert SECRET not in repr(finding)
        assert finding.remedy.startswith(f"SELECT pg_terminate_backend({pid});")
        assert "idle_in_transaction_session_timeout" in finding.remedy
        assert finding.details["sessions"][0]["pid"] == pid
        with psycopg.connect(healthy_dsn, autocommit=True) as conn:
            conn.execute(finding.remedy.split(" -- To have")[0].encode())
        until(lambda: not codes(queue, patience=0), "the remedy has helped")
        with contextlib.suppress(psycopg.OperationalError):
            reader.execute("SELECT")


def test_the_oldest_is_named_first_and_the_others_are_counted(healthy_dsn: str, db: Db, queue: JobQueue) -> None:
    with psycopg.connect(healthy_dsn) as first, psycopg.connect(healthy_dsn) as second:
        for conn in (first, second):
            conn.execute("SELECT pg_current_xact_id()")
        finding = only_finding(queue, "xmin-held", patience=0)
        assert f"pid {first.info.backend_pid} " in finding.cause
        assert "and 1 other for less" in finding.what
        assert [each["pid"] for each in finding.details["sessions"]] == [c.info.backend_pid for c in (first, second)]


def test_a_prepared_transaction_that_was_forgotten(healthy_dsn: str, queue: JobQueue) -> None:
    with psycopg.connect(healthy_dsn) as conn:
        conn.execute("CREATE TABLE other AS SELECT 1")
        conn.execute("PREPARE TRANSACTION 'it''s here'")
    assert codes(queue) == []
    finding = only_finding(queue, "xmin-held", patience=0)
    assert "prepared transaction it's here of role postgres" in finding.cause
    assert finding.remedy.startswith("COMMIT PREPARED 'it''s here';")
    with psycopg.connect(healthy_dsn, autocommit=True) as conn:
        conn.execute("ROLLBACK PREPARED 'it''s here'")
    assert codes(queue, patience=0) == []


def test_the_name_of_a_prepared_transaction_cannot_leave_its_quotes(healthy_dsn: str, queue: JobQueue) -> None:
    name = "a\nDROP SCHEMA howdah CASCADE; --'\\"
    with psycopg.connect(healthy_dsn) as conn:
        conn.execute("CREATE TABLE other AS SELECT 1")
        conn.execute(sql.SQL("PREPARE TRANSACTION {}").format(name))
    finding = only_finding(queue, "xmin-held", patience=0)
    with psycopg.connect(healthy_dsn, autocommit=True) as conn:
        # As it stands there, comment and all.
        conn.execute(finding.remedy.encode())
        conn.execute("DROP TABLE other")
    assert codes(queue, patience=0) == []


def test_a_lock_that_is_only_asked_for_is_named_with_what_it_waits_for(healthy_dsn: str, queue: JobQueue) -> None:
    with (
        psycopg.connect(healthy_dsn, application_name="reader", row_factory=dict_row) as reader,
        psycopg.connect(healthy_dsn, application_name="asks", row_factory=dict_row) as asks,
        ThreadPoolExecutor(1) as pool,
    ):
        reader.execute("SELECT count(*) FROM howdah.schedules")
        asking = pool.submit(asks.execute, "LOCK TABLE howdah.schedules IN ACCESS EXCLUSIVE MODE")
        until_blocked(reader, asks)
        (finding,) = queue.doctor(patience=0, ignore=["xmin-held", "schema-drift"])
        assert finding.code == "table-locked"
        assert f"waits for pid {reader.info.backend_pid}" in finding.what
        assert f"pid {asks.info.backend_pid} of role postgres (asks)" in finding.cause
        reader.rollback()
        asking.result()


def test_a_lock_that_workers_wait_for(healthy_dsn: str, queue: JobQueue) -> None:
    with psycopg.connect(healthy_dsn, application_name="by hand") as conn:
        conn.execute("LOCK TABLE howdah.schedules IN ACCESS EXCLUSIVE MODE")
        diagnosis = queue.doctor(patience=0, ignore=["xmin-held", "schema-drift"])
        (finding,) = diagnosis
        assert finding.code == "table-locked"
        assert "howdah.schedules is locked" in finding.what
        assert f"pid {conn.info.backend_pid} of role postgres (by hand)" in finding.cause
        # It did not wait for it, and returns which checks it could not make.
        assert {code for each in diagnosis.unseen for code in each.codes} == {
            "schedule-left-code",
            "schedule-overdue",
            "schedule-unhandled",
        }
    assert codes(queue, patience=0) == []


LIVE = "(SELECT oid::int FROM pg_class WHERE relname = 'live' AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'howdah'))"


@pytest.mark.parametrize(
    ("lock", "purpose"),
    [
        (f"pg_advisory_lock({LIVE}, 31)", "be woken"),
        (f"pg_advisory_lock_shared({LIVE}, 0)", "be woken"),
        (f"pg_advisory_lock_shared({LIVE}, 63)", "watch"),
        (f"pg_advisory_lock({LIVE}, 64)", "wake workers"),
        (f"pg_advisory_lock({LIVE.replace('live', 'types')}, hashtext('mail'))", "add bulks with keys"),
        ("""pg_advisory_lock(hashtextextended('"howdah".migrate', 0))""", "migrate"),
    ],
)
def test_an_outsider_that_holds_an_advisory_lock_of_ours(
    healthy_dsn: str, db: Db, queue: JobQueue, outsider: str, lock: str, purpose: str
) -> None:
    with psycopg.connect(healthy_dsn, user=outsider, autocommit=True, application_name="intruder") as conn:
        conn.execute(f"SELECT {lock}".encode())
        finding = only_finding(queue, "advisory-lock-held")
        assert f"that others need to {purpose}, for " in finding.what
        assert f"pid {conn.info.backend_pid} of role {outsider} (intruder)" in finding.cause
        db.execute(finding.remedy.encode())
        until(lambda: not codes(queue), "the remedy has helped")


def test_the_purposes_of_several_advisory_locks_are_one_sentence(
    healthy_dsn: str, queue: JobQueue, outsider: str
) -> None:
    with psycopg.connect(healthy_dsn, user=outsider, autocommit=True) as conn:
        conn.execute(f"SELECT pg_advisory_lock({LIVE}, n) FROM unnest('{{0,32,64}}'::int[]) AS n".encode())
        what = only_finding(queue, "advisory-lock-held").what
        assert "advisory locks that others need to be woken, wake workers or watch, for " in what


@pytest.fixture
def outsider(db: Db) -> Iterator[str]:
    db.execute("CREATE ROLE outsider LOGIN")
    yield "outsider"
    until(lambda: not db.execute("SELECT FROM pg_stat_activity WHERE usename = 'outsider'").fetchall(), "it is gone")
    db.execute("DROP ROLE outsider")


def test_what_the_queue_itself_does_with_its_advisory_locks_is_no_finding(
    healthy_dsn: str, db: Db, queue: JobQueue
) -> None:
    with psycopg.connect(healthy_dsn, autocommit=True) as sleeper, psycopg.connect(healthy_dsn) as bulk:
        sleeper.execute("SELECT howdah.add_sleeper(ARRAY['mail']), howdah.add_watcher()")
        queue.enqueue_many("mail", range(2_500), key=str, conn=bulk)
        assert codes(queue, patience=0, ignore=["schema-drift", "xmin-held"]) == []
    # A session of ours that idles with a lock which is meant to be held briefly.
    with psycopg.connect(healthy_dsn, autocommit=True) as conn:
        conn.execute("SELECT pg_advisory_lock('howdah.live'::regclass::oid::int, 5)")
        assert codes(queue) == []
        assert only_finding(queue, "advisory-lock-held", patience=0).details["pid"] == conn.info.backend_pid


def test_notifications_that_a_listener_does_not_take(healthy_dsn: str, db: Db, queue: JobQueue) -> None:
    with psycopg.connect(healthy_dsn, autocommit=True, application_name="deaf") as listener:
        listener.execute("LISTEN anything")
        listener.execute("BEGIN")
        listener.execute("SELECT")
        for _ in range(20):
            db.execute("SELECT pg_notify('anything', repeat('x', 7000))")
        finding = only_finding(queue, "notifications-piling-up")
        assert f"pid {listener.info.backend_pid} of role postgres (deaf)" in finding.cause
        assert 0.1 < finding.details["usage"] < 1
    assert codes(queue) == []


def test_a_busy_session_is_not_the_cause_of_a_full_queue_of_notifications(
    healthy_dsn: str, db: Db, queue: JobQueue
) -> None:
    with (
        psycopg.connect(healthy_dsn, autocommit=True, application_name="deaf") as listener,
        psycopg.connect(healthy_dsn, autocommit=True) as busy,
        ThreadPoolExecutor(1) as pool,
    ):
        listener.execute("LISTEN anything")
        listener.execute("BEGIN")
        listener.execute("SELECT")
        for _ in range(20):
            db.execute("SELECT pg_notify('anything', repeat('x', 7000))")
        working = pool.submit(busy.execute, "DO $$ BEGIN LOOP PERFORM 1; END LOOP; END $$")
        try:
            at_work = "SELECT 1 AS so FROM pg_stat_activity WHERE pid = %s AND state = 'active' AND wait_event IS NULL"
            until(lambda: db.execute(at_work, (busy.info.backend_pid,)).fetchone(), "it works")
            finding = only_finding(queue, "notifications-piling-up")
            assert f"pid {listener.info.backend_pid} of role postgres (deaf)" in finding.cause
        finally:
            busy.cancel()
        assert isinstance(working.exception(), psycopg.errors.QueryCanceled)
    assert codes(queue) == []


def test_an_unread_replication_slot(db: Db, queue: JobQueue) -> None:
    db.execute("SELECT pg_create_physical_replication_slot('left_behind', true)")
    try:
        assert codes(queue) == []
        for _ in range(5):
            db.execute("SELECT pg_logical_emit_message(false, 'test', 'x'), pg_switch_wal()")
        finding = only_finding(queue, "slot-retains-wal")
        assert "replication slot left_behind (physical)" in finding.cause
        assert finding.details["retained"] > 32 * 2**20
    finally:
        db.execute("SELECT pg_drop_replication_slot('left_behind')")
    assert codes(queue) == []


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        (
            "SELECT * FROM users WHERE password = 'hunter2' AND id = 17",
            "SELECT * FROM users WHERE password = '…' AND id = ?",
        ),
        ("SELECT E'it\\'s hunter2', \"a 'name'\" FROM t", "SELECT '…', \"a 'name'\" FROM t"),
        ("SELECT $x$ hunter2 $x$, $1, $$hunter2$$", "SELECT '…', $1, '…'"),
        ("/* hunter2 /* it's */ more */ SELECT 1 -- hunter2", "SELECT ?"),
        ("SELECT 'hunter2 that was cut o", "SELECT '…'"),
        ("SELECT U&'hunter2', x'1F', N'hunter2', t1.c2 FROM t1", "SELECT '…', '…', '…', t1.c2 FROM t1"),
        ("SELECT $q$hunter2 cut", "SELECT '…'"),
        ("SELECT E'a' -- b\n \t'it\\'s hunter2', 1", "SELECT '…', ?"),
        ("SELECT E'a'\n'b'\n'it\\' hunter2", "SELECT '…'"),
        ("SELECT E'a' 'it', b", "SELECT '…' '…', b"),
        # Where standard_conforming_strings is off, the string goes on.
        ("SELECT 'it\\'s hunter2', b", "SELECT '…'…"),
        ("SET my.secret TO hunter2; SELECT a", "SET my.secret …; SELECT a"),
        ("set local my.secret=hunter2, hunter2", "set local my.secret…"),
        ('SET SESSION "my".secret /* x */ = hunter2', 'SET SESSION "my".secret …'),
        ("SET ROLE hunter2", "SET ROLE …"),
        ("ALTER ROLE ann SET my.secret TO hunter2", "ALTER ROLE ann SET my.secret …"),
        ("SELECT 1; SET my.secret hunter2", "SELECT ?; SET my.secret …"),
        ("UPDATE t SET a = b.c WHERE d = 7", "UPDATE t SET a = b.c WHERE d = ?"),
        (
            "INSERT INTO t DEFAULT VALUES ON CONFLICT DO UPDATE SET a = b",
            "INSERT INTO t DEFAULT VALUES ON CONFLICT DO UPDATE SET a = b",
        ),
        ("", ""),
        (None, ""),
    ],
)
def test_a_statement_is_shown_without_its_values(query: str | None, shown: str) -> None:
    assert statement(query) == shown


@given(st.text(alphabet="secr'\"$\\eE-/*\n 1x", max_size=40), st.sampled_from(["'{}'", "$a${}$a$", "E'{}'", "/*{}*/"]))
def test_no_statement_is_too_odd_and_none_shows_what_is_quoted(rest: str, quote: str) -> None:
    secret = "QQ7"
    shown = statement(quote.format(secret) + rest)
    assert secret not in shown
    assert len(shown) <= 80
