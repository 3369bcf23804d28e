"""A queue that was dumped and restored is the same queue: nothing differs, nothing is granted to PUBLIC, and no old event is new."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from howdah import JobQueue, PositionLost, SchemaConflict, SchemaOutdated
from howdah.db.migrate import SCHEMA_VERSION
from tests import restoring, servers
from tests.restoring import database, drop_roles, dump, move, public, restore_by_entries


@pytest.fixture
def source(server_dsn: str) -> Iterator[str]:
    """A queue with jobs of every kind, events, and a closed segment."""
    if servers.find(servers.server_major(server_dsn)) is None:
        pytest.skip("the server's programs are not here")
    with database(server_dsn) as dsn:
        fill(dsn)
        yield dsn


@pytest.fixture
def target(server_dsn: str) -> Iterator[str]:
    with database(server_dsn) as dsn:
        yield dsn


def fill(dsn: str, *, roles: bool = False) -> None:
    with JobQueue(dsn) as queue, psycopg.connect(dsn, autocommit=True) as conn:
        queue.migrate(roles=roles)
        for _ in range(2):
            work(queue)
            conn.execute("SELECT howdah.rotate('0')")
        conn.execute("SELECT howdah.bound_segments()")
        work(queue)
        queue.enqueue("later", delay=3600)


def work(queue: JobQueue) -> None:
    """Run one job that records an event, and one that fails."""
    queue.enqueue_many("a", [{}, {}])
    first, second = queue.claim(["a"], 2)
    queue.progress(first, 50)
    queue.complete(first)
    queue.fail(second, "broken", give_up=True)


def is_sound(dsn: str, schema: str = "howdah") -> None:
    with JobQueue(dsn, schema) as queue:
        assert queue.check_schema() == []
        assert public(dsn, schema) == []
        assert not queue.migrate().changed
        before = queue.stats().get("a")
        work(queue)
        after = queue.stats()["a"]
        assert (after.completed, after.failed) == (
            (before.completed if before else 0) + 1,
            (before.failed if before else 0) + 1,
        )
        with psycopg.connect(dsn, autocommit=True) as conn:
            closed = conn.execute(f"SELECT closed FROM {schema}.rotate('0')".encode()).fetchall()
        assert closed == [(True,)]
        work(queue)
        queue.prune(keep=timedelta(0))


@pytest.mark.parametrize("options", [(), ("--no-owner", "--no-privileges"), ("--no-comments",)], ids=" ".join)
def test_after_a_restore_nothing_differs(source: str, target: str, options: tuple[str, ...]) -> None:
    assert move(source, target, *options) == []
    with JobQueue(source) as before, JobQueue(target) as after:
        after.migrate()
        assert after.check_schema() == []
        assert after.stats() == before.stats()
    is_sound(target)


def test_nor_after_a_restore_of_a_restore(server_dsn: str, source: str, target: str) -> None:
    move(source, target)
    with database(server_dsn) as second, database(server_dsn) as third:
        move(target, second)
        move(second, third)
        with JobQueue(third) as queue:
            queue.migrate()
        is_sound(third)


def test_what_was_changed_by_hand_still_differs_after_a_restore(source: str, target: str) -> None:
    with psycopg.connect(source, autocommit=True) as conn:
        conn.execute("ALTER TABLE howdah.live DROP CONSTRAINT valid_status")
        conn.execute("ALTER TABLE howdah.live ADD CONSTRAINT valid_status CHECK (status IN ('pending', 'claimed'))")
        conn.execute("DROP INDEX howdah.live_held")
        conn.execute("CREATE INDEX live_held ON howdah.live (worker_id) WHERE status IN ('claimed')")
    move(source, target, "--schema-only")
    with JobQueue(target) as queue:
        queue.migrate()
        assert {(each.kind, each.name) for each in queue.check_schema()} == {
            ("constraint", "live.valid_status"),
            ("index", "live_held"),
        }


def test_nothing_differs_in_a_newer_server(major: int, server_dsn: str, target: str) -> None:
    old = servers.find(servers.MAJORS[-1])
    if major != servers.MAJORS[0] or old is None:
        if os.environ.get("CI") and major == servers.MAJORS[0]:
            pytest.fail("the oldest PostgreSQL is not here")
        pytest.skip("from the oldest to the newest, once")
    server = servers.Server(old)
    try:
        fill(server.dsn)
        assert move(server.dsn, target) == []
    finally:
        server.stop()
    with JobQueue(target) as queue:
        assert queue.migrate().changed
    is_sound(target)


def test_a_restore_without_data_raises_what_to_do_and_is_repaired_by_it(source: str, target: str) -> None:
    assert move(source, target, "--schema-only") == []
    with JobQueue(target) as queue:
        for ask in (lambda: queue.enqueue("a"), queue.stats, queue.check_schema, lambda: queue.claim(["a"])):
            with pytest.raises(SchemaOutdated, match=r"restored without data\. Run: howdah migrate$"):
                ask()
        assert [found.code for found in queue.doctor(only=["schema-outdated"])] == ["schema-outdated"]
        done = queue.migrate()
        assert (done.before, done.after, done.changed) == (SCHEMA_VERSION, SCHEMA_VERSION, True)
        assert queue.stats() == {}
    with psycopg.connect(target) as conn:
        segments = conn.execute("SELECT number, closed_at IS NULL FROM howdah.segments ORDER BY number").fetchall()
        assert segments == [(1, False), (2, False), (3, True)]
        assert conn.execute("SELECT count(*) FROM howdah.settings").fetchone() == (1,)
    is_sound(target)


@pytest.mark.parametrize("left_out", ["settings", "segments", "events*", "archive*"])
def test_a_restore_without_some_of_the_data_is_mended(source: str, target: str, left_out: str) -> None:
    move(source, target, f"--exclude-table-data=howdah.{left_out}")
    with JobQueue(target) as queue:
        queue.migrate()
        assert queue.check_schema() == []
        work(queue)
        assert not queue.migrate().changed


def test_where_roles_were_missing_a_migration_closes_what_a_restore_has_opened(
    server_dsn: str, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    with database(server_dsn) as source:
        try:
            fill(source, roles=True)
            dumped = dump(source, "--format=custom")
        finally:
            drop_roles(source)
    assert restore_by_entries(target, dumped, program_of=server_dsn), "the roles were not missing"
    assert len(public(target)) > 40
    with JobQueue(target) as queue, caplog.at_level(logging.WARNING, "howdah"):
        queue.stats()
        assert "every login of this database may call the functions of schema howdah" in caplog.text
        (found,) = queue.doctor(only=["open-to-public"])
        assert found.severity == "error"
        assert ("grant", "EXECUTE on prune to PUBLIC") in {(each.kind, each.name) for each in queue.check_schema()}
        assert queue.migrate().changed
        assert queue.doctor(only=["open-to-public"]) == []
    is_sound(target)
    try:
        with JobQueue(target) as queue:
            queue.migrate(roles=True)
        is_sound(target)
    finally:
        drop_roles(target)


def test_a_grant_to_public_is_detected_by_the_next_migration(source: str) -> None:
    with psycopg.connect(source, autocommit=True) as conn:
        conn.execute("GRANT EXECUTE ON FUNCTION howdah.prune TO PUBLIC")
    with JobQueue(source) as queue:
        assert queue.migrate().changed
    is_sound(source)


def test_a_renamed_schema_raises_what_to_do_and_is_repaired_by_it(source: str, target: str) -> None:
    move(source, target)
    with psycopg.connect(target, autocommit=True) as conn:
        conn.execute("ALTER SCHEMA howdah RENAME TO elsewhere")
    with JobQueue(target, "elsewhere") as queue:
        told = "functions still work on schema howdah. Run: howdah migrate --schema elsewhere$"
        for ask in (lambda: queue.enqueue("a"), queue.stats, queue.check_schema):
            with pytest.raises(SchemaConflict, match=told):
                ask()
        (found,) = queue.doctor(only=["schema-drift"])
        assert "was renamed" in found.what
        assert queue.migrate().changed
    is_sound(target, "elsewhere")


def test_events_of_another_cluster_are_put_in_order_and_none_comes_as_new(source: str, target: str) -> None:
    with psycopg.connect(source, autocommit=True) as conn, JobQueue(source) as queue:
        # As if that cluster had done much more than this one.
        conn.execute("UPDATE howdah.events SET xid = (xid::text::bigint + 1000000000)::text::xid8")
        (count,) = conn.execute("SELECT count(*) FROM howdah.events").fetchone() or (0,)
        (last,) = conn.execute("SELECT max(stream_no) FROM howdah.events").fetchone() or (0,)
        (work_left,) = queue.list(job_type="later")
    theirs = f"1000000900:1000000900:@{last}"
    newer_than_the_dump = f"1000000999:1000000999:@{last + 500}"
    move(source, target)
    with JobQueue(target) as queue, psycopg.connect(target, autocommit=True) as conn:
        read = "SELECT count(stream_no) FROM howdah.read_events(%s)"
        for position in (None, theirs):
            with pytest.raises(psycopg.Error, match="restored from another cluster") as caught:
                conn.execute(read, (position,))
            assert caught.value.sqlstate == "JQ009"
        assert ("events", "events") in {(each.kind, each.name) for each in queue.check_schema()}
        assert queue.migrate().changed
        assert queue.check_schema() == []
        (start,) = conn.execute("SELECT howdah.stream_position()").fetchone() or ("",)
        assert conn.execute(read, (start,)).fetchone() == (0,)
        assert conn.execute(read, (None,)).fetchone() == (count,)
        for position in (theirs, newer_than_the_dump, f"1:1:@0/{theirs}/1"):
            with pytest.raises(psycopg.Error, match=r"another cluster|ahead of the database") as caught:
                conn.execute(read, (position,))
            assert caught.value.sqlstate == "JQ008"
        work(queue)
        for position in (theirs, newer_than_the_dump):
            with pytest.raises(psycopg.Error, match="another cluster"):
                conn.execute(read, (position,))
        new = conn.execute("SELECT name FROM howdah.read_events(%s) WHERE stream_no IS NOT NULL", (start,)).fetchall()
        assert [name for (name,) in new] == ["completed", "failed"]
        assert conn.execute(read, (None,)).fetchone() == (count + 2,)
        with pytest.raises(PositionLost):
            next(queue.watch_all(after=theirs))
        assert queue.get(work_left.id) is not None


def test_objects_of_a_foreign_owner_are_reported(server_dsn: str, source: str) -> None:
    name = restoring.name_of(source)
    with psycopg.connect(source, autocommit=True) as conn, JobQueue(source) as queue:
        conn.execute(f"CREATE ROLE {name}_stranger".encode())
        try:
            conn.execute(f"ALTER TABLE howdah.types OWNER TO {name}_stranger".encode())
            conn.execute("CREATE FUNCTION howdah.end_attempt() RETURNS int LANGUAGE sql AS 'SELECT 1'")
            conn.execute("REVOKE ALL ON FUNCTION howdah.end_attempt() FROM PUBLIC")
            conn.execute(f"ALTER FUNCTION howdah.end_attempt() OWNER TO {name}_stranger".encode())
            conn.execute(f"CREATE ROLE {name}_owner".encode())
            conn.execute(f"ALTER SCHEMA howdah OWNER TO {name}_owner".encode())
            told = {(each.kind, each.name) for each in queue.check_schema() if "foreign role" in each.problem}
            assert told == {("owner", "types"), ("owner", "end_attempt")}
        finally:
            for role in ("stranger", "owner"):
                conn.execute(f"DROP OWNED BY {name}_{role} CASCADE".encode())
                conn.execute(f"DROP ROLE {name}_{role}".encode())
