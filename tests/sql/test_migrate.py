"""Installing, updating, comparing and adopting: any number at once, killed or not."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar, cast

import psycopg
import pytest
from psycopg.rows import dict_row

from howdah import JobQueue, SchemaConflict, SchemaMissing, SchemaOutdated, SchemaTooNew, migrate
from howdah.plan import Pause, Plan
from howdah.statements import render, source
from tests import servers
from tests.sql import seed

SCHEMA = "migrate_test"
T = TypeVar("T")
Db = psycopg.Connection[dict[str, Any]]


@pytest.fixture
def db(server_dsn: str) -> Iterator[Db]:
    with psycopg.connect(server_dsn, autocommit=True, row_factory=dict_row) as conn:
        conn.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE".encode())
        yield conn
        conn.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE".encode())


@pytest.fixture
def queue(server_dsn: str, db: Db) -> Iterator[JobQueue]:
    with JobQueue(server_dsn, SCHEMA) as queue:
        yield queue


@pytest.fixture
def plain_jobs(db: Db) -> Db:
    """The seed's own table, with jobs of every status in it."""
    db.execute(f"CREATE SCHEMA {SCHEMA}".encode())
    db.execute(f"SET search_path = {SCHEMA}".encode())
    db.execute(seed.CREATE_TABLE.encode())
    for n, status in enumerate(("pending", "claimed", "running", "completed", "failed", "cancelled") * 3):
        db.execute(
            "INSERT INTO jobs (job_type, status, priority, data, progress, attempts, last_error, completed_at, created_at)"
            " VALUES ('old', %s, %s, jsonb_build_object('n', %s::int), NULL, NULL, 'e', '2020-01-01', now() - interval '1 year')",
            (status, n, n),
        )
    return db


def test_a_fresh_installation_is_what_it_should_be(queue: JobQueue) -> None:
    done = queue.migrate()
    assert (done.before, done.after, done.changed) == (0, migrate.SCHEMA_VERSION, True)
    assert queue.check_schema() == []
    assert not queue.migrate().changed


def test_many_migrations_at_once_and_one_of_them_killed(server_dsn: str, db: Db, queue: JobQueue, major: int) -> None:
    many = 20 if major == servers.MAJORS[0] else 8
    code = f"import howdah; howdah.JobQueue({server_dsn!r}, {SCHEMA!r}).migrate(); print('done')"
    processes = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(many)]
    victim = random.choice(processes)
    # As soon as anybody holds the lock, migrations are under way.
    waiting = "SELECT count(*) AS n FROM pg_locks WHERE locktype = 'advisory'"
    while all(process.poll() is None for process in processes) and db.execute(waiting).fetchone() == {"n": 0}:
        pass
    victim.kill()
    outputs = [(process, process.communicate()[0]) for process in processes]
    assert [output for process, output in outputs if process is not victim] == ["done\n"] * (many - 1)
    assert queue.check_schema() == []
    queue.enqueue("a")
    assert len(queue.claim(["a"])) == 1


def test_a_migration_killed_in_the_middle_has_done_nothing(server_dsn: str, db: Db, queue: JobQueue) -> None:
    with psycopg.connect(server_dsn) as conn:
        for text in list(migrate._files(SCHEMA, 0))[:10]:
            conn.execute(text.encode())
        db.execute("SELECT pg_terminate_backend(%s)", (conn.info.backend_pid,))
        with pytest.raises(psycopg.OperationalError):
            conn.execute("SELECT 1")
    with pytest.raises(SchemaMissing, match="howdah migrate --schema migrate_test"):
        queue.enqueue("a")
    queue.migrate()
    assert queue.check_schema() == []


def test_the_printed_script_installs_the_same(db: Db, queue: JobQueue) -> None:
    db.execute(migrate.script(SCHEMA).encode())
    assert queue.check_schema() == []
    assert not queue.migrate().changed
    queue.enqueue("a")


def test_two_queues_in_one_database_do_not_see_each_other(server_dsn: str, queue: JobQueue) -> None:
    queue.migrate()
    queue.enqueue("only here")
    with JobQueue(server_dsn) as other:
        assert "only here" not in other.stats()
        assert other.claim(["only here"]) == []


def test_nothing_of_ours_names_the_default_schema_when_installed_elsewhere(db: Db, queue: JobQueue) -> None:
    queue.migrate()
    bodies = db.execute(
        "SELECT prosrc FROM pg_proc WHERE pronamespace = %s::regnamespace AND prosrc ~ '\\mhowdah\\M'", (SCHEMA,)
    )
    assert bodies.fetchall() == []


@pytest.mark.parametrize(
    ("statement", "kind", "name"),
    [
        ("DROP INDEX live_held", "index", "live_held"),
        ("ALTER TABLE live ALTER COLUMN run_at DROP NOT NULL", "column", "live.run_at"),
        ("ALTER TABLE live ADD COLUMN mine int", "column", "live.mine"),
        (
            "CREATE OR REPLACE FUNCTION clock() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT now()'",
            "function",
            "clock",
        ),
        ("DROP TRIGGER jobs_update ON jobs", "trigger", "jobs.jobs_update"),
        ("ALTER TABLE live DROP CONSTRAINT live_status", "constraint", "live.live_status"),
        ("ALTER TABLE live ENABLE ROW LEVEL SECURITY", "relation", "live"),
        ("ALTER TABLE live FORCE ROW LEVEL SECURITY", "relation", "live"),
        ("CREATE RULE lost AS ON INSERT TO events DO INSTEAD NOTHING", "rule", "events.lost"),
    ],
)
def test_check_finds_what_somebody_changed(db: Db, queue: JobQueue, statement: str, kind: str, name: str) -> None:
    queue.migrate()
    db.execute(f"SET search_path = {SCHEMA}".encode())
    db.execute(statement.encode())
    assert (kind, name) in [(difference.kind, difference.name) for difference in queue.check_schema()]


def test_an_older_schema_and_a_newer_one_say_what_to_run(server_dsn: str, db: Db, queue: JobQueue) -> None:
    queue.migrate()
    for version, oldest_client, error, command in (
        (0, 0, SchemaOutdated, "howdah migrate --schema migrate_test"),
        (99, 99, SchemaTooNew, "pip install --upgrade howdah"),
    ):
        db.execute(
            f"UPDATE {SCHEMA}.schema_version SET version = %s, oldest_client = %s".encode(), (version, oldest_client)
        )
        with JobQueue(server_dsn, SCHEMA) as client, pytest.raises(error, match=command):
            client.enqueue("a")
    with pytest.raises(SchemaTooNew, match="pip install --upgrade howdah"):
        queue.migrate()


def test_a_newer_schema_that_still_knows_this_client_serves_it(server_dsn: str, db: Db, queue: JobQueue) -> None:
    queue.migrate()
    db.execute(f"UPDATE {SCHEMA}.schema_version SET version = 99".encode())
    with JobQueue(server_dsn, SCHEMA) as client:
        client.enqueue("a")


def test_public_may_do_nothing(db: Db, queue: JobQueue) -> None:
    queue.migrate()
    schema = "%s::regnamespace"
    for grants in (
        f"SELECT proname FROM pg_proc, aclexplode(coalesce(proacl, acldefault('f', proowner))) AS a WHERE pronamespace = {schema} AND a.grantee = 0",
        f"SELECT relname FROM pg_class, aclexplode(relacl) AS a WHERE relnamespace = {schema} AND a.grantee = 0",
        f"SELECT nspname FROM pg_namespace AS n, aclexplode(nspacl) AS a WHERE n.oid = {schema} AND a.grantee = 0",
    ):
        assert db.execute(grants.encode(), (SCHEMA,)).fetchall() == []


def test_a_plain_table_of_jobs_in_the_way_is_refused_and_not_touched(plain_jobs: Db, queue: JobQueue) -> None:
    with pytest.raises(SchemaConflict, match="--adopt"):
        queue.migrate()
    assert plain_jobs.execute("SELECT count(*) AS n FROM jobs").fetchone() == {"n": 18}


def test_a_plain_table_of_jobs_in_sight_is_refused_too_unless_told(plain_jobs: Db, server_dsn: str) -> None:
    elsewhere = f"{SCHEMA}_elsewhere"
    in_sight = f"{server_dsn} options='-c search_path={SCHEMA}'"
    try:
        with JobQueue(in_sight, elsewhere) as queue:
            with pytest.raises(SchemaConflict, match="--no-adopt"):
                queue.migrate()
            assert queue.migrate(adopt=False).adopted is None
            assert len(queue.list()) == 0
    finally:
        plain_jobs.execute(f"DROP SCHEMA IF EXISTS {elsewhere} CASCADE".encode())


def test_adopting_loses_no_job(plain_jobs: Db, queue: JobQueue) -> None:
    before = plain_jobs.execute("SELECT * FROM jobs ORDER BY id").fetchall()
    assert queue.migrate(adopt=True).adopted == 18
    after = plain_jobs.execute("SELECT * FROM jobs ORDER BY id").fetchall()
    for old, new in zip(before, after, strict=True):
        for column in ("id", "job_type", "status", "priority", "data", "last_error", "created_at", "max_attempts"):
            assert new[column] == old[column]
        assert (new["progress"], new["attempts"]) == (0, 0)
    assert plain_jobs.execute("SELECT count(*) AS n FROM adopted_jobs").fetchone() == {"n": 18}
    assert [job.data["n"] for job in queue.claim(["old"], 100)] == [12, 6, 0]
    assert queue.check_schema() == []
    assert queue.prune() == []
    assert (queue.stats()["old"].completed, queue.stats()["old"].failed) == (3, 3)


def test_a_table_of_jobs_of_another_shape_cannot_be_adopted(db: Db, queue: JobQueue) -> None:
    db.execute(f"CREATE SCHEMA {SCHEMA}".encode())
    db.execute(f"CREATE TABLE {SCHEMA}.jobs (id int)".encode())
    for adopt in (None, True, False):
        with pytest.raises(SchemaConflict, match="not Howdah's"):
            queue.migrate(adopt=adopt)
    assert db.execute(f"SELECT count(*) AS n FROM {SCHEMA}.jobs".encode()).fetchone() == {"n": 0}


def test_migrations_and_work_at_the_same_time(server_dsn: str, db: Db, queue: JobQueue) -> None:
    queue.migrate()

    def migrate_again(_: int) -> None:
        with JobQueue(server_dsn, SCHEMA) as other:
            other.migrate()

    def work(_: int) -> None:
        with JobQueue(server_dsn, SCHEMA) as worker:
            for _ in range(20):
                worker.enqueue("a")
                for job in worker.claim(["a"], 5):
                    worker.complete(job)

    with ThreadPoolExecutor(6) as pool:
        db.execute(f"UPDATE {SCHEMA}.schema_version SET digest = 'old'".encode())
        for future in [pool.submit(task, n) for n in range(3) for task in (work, migrate_again)]:
            future.result()
    assert queue.check_schema() == []


def test_operators_that_somebody_put_in_the_way_are_neither_used_nor_depended_on(server_dsn: str, db: Db) -> None:
    """varchar = varchar is nowhere in PostgreSQL itself, so one in the search path would be the best match."""
    db.execute("CREATE SCHEMA hostile")
    try:
        db.execute("CREATE TABLE hostile.loot (who text)")
        db.execute(
            "CREATE FUNCTION hostile.equal(varchar, varchar) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN"
            " INSERT INTO hostile.loot VALUES (current_user); RETURN $1::text = $2::text; END $$"
        )
        db.execute("CREATE OPERATOR hostile.= (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = hostile.equal)")
        with JobQueue(f"{server_dsn} options='-c search_path=hostile,public'", SCHEMA) as queue:
            queue.migrate()
            queue.enqueue("a", key="k")
            queue.pause("b")
            (job,) = queue.claim(["a", "b"])
            queue.fail(job, "boom")
            queue.cancel(job.id)
            queue.recover()
            queue.recover_stale_jobs(0)
        assert db.execute("SELECT * FROM hostile.loot").fetchall() == []
        db.execute("DROP OPERATOR hostile.= (varchar, varchar)")
    finally:
        db.execute("DROP SCHEMA hostile CASCADE")


def install_version_2(db: Db) -> None:
    """Its tables, a day of its archive, its functions that have another signature now, and jobs of every status."""
    db.execute(f"SET search_path = {SCHEMA}".encode())
    for name in ("0001_queue", "0002_worker"):
        db.execute(render(source(f"tables/{name}"), SCHEMA).encode())
    db.execute("SELECT set_config('timezone', 'UTC', false)")
    today = datetime.now(timezone.utc).date()
    db.execute(
        f"CREATE TABLE archive_{today:%Y%m%d} PARTITION OF archive"
        f" FOR VALUES FROM ('{today}') TO ('{today + timedelta(days=1)}')".encode()
    )
    for signature in (
        "progress(uuid[], bigint[], int[], text[])",
        "finish(uuid[], varchar[], text[])",
        "heartbeat(varchar, uuid, int, interval, interval, int)",
        "declare_type(varchar, boolean, boolean, int, int, interval, interval, jsonb, int)",
    ):
        db.execute(f"CREATE FUNCTION {signature} RETURNS int LANGUAGE sql RETURN 1".encode())
    db.execute(
        "INSERT INTO live (id, job_type, priority, run_at, first_due_at, created_at, max_attempts, status, progress, token,"
        "     attempts, lease, lease_until, checkpoint)"
        " SELECT gen_random_uuid(), 'old', n, now(), now(), now(), 3, s.status, 40, 1, 1, '1 h', now() + interval '1 h', '7'"
        " FROM unnest(ARRAY['pending', 'claimed', 'running']) WITH ORDINALITY AS s (status, n)"
    )
    db.execute(
        "INSERT INTO archive (id, token, finished_at, run_at, first_due_at, created_at, priority, attempts, max_attempts,"
        "     crashes, interruptions, progress, events_count, job_type, status, data)"
        " SELECT gen_random_uuid(), 1, moment, now(), now(), now(), n, 1, 3, 0, 0, 100, 0, 'old', s.status, '{}'"
        " FROM unnest(ARRAY['completed', 'failed', 'cancelled']) WITH ORDINALITY AS s (status, n),"
        "     unnest(ARRAY[now(), now() - interval '3 days']) AS moment"
    )
    db.execute("INSERT INTO schema_version VALUES (true, 2, 1, 'of then', '0.0', now())")


def test_version_2_is_brought_up_to_date_and_loses_no_job(db: Db, queue: JobQueue) -> None:
    install_version_2(db)
    before = {
        table: db.execute(f"SELECT * FROM {table} ORDER BY id".encode()).fetchall() for table in ("live", "archive")
    }
    with pytest.raises(SchemaOutdated):
        queue.stats()
    done = queue.migrate()
    assert (done.before, done.after) == (2, migrate.SCHEMA_VERSION)
    assert queue.check_schema() == []
    for table, rows in before.items():
        after = db.execute(f"SELECT * FROM {table} ORDER BY id".encode()).fetchall()
        assert [{name: row[name] for name in rows[0]} for row in after] == rows
        assert {row["report"] for row in after} == {None}
    a_week_ahead = db.execute(
        "SELECT to_regclass(to_char(now() + interval '7 days', '\"events_\"YYYYMMDD')) IS NOT NULL AS made"
    )
    assert a_week_ahead.fetchone() == {"made": True}
    tell_the_rest(db)


def tell_the_rest(db: Db) -> None:
    """What was there before has no past, and can tell of its future."""
    running = db.execute(
        "SELECT id FROM progress(ARRAY(SELECT id FROM live), ARRAY[1, 1, 1], ARRAY[50, 50, 50])"
    ).fetchall()
    told = db.execute(
        "SELECT seq FROM record_events(ARRAY(SELECT id FROM live), ARRAY[1, 1, 1], ARRAY['a', 'b', 'c'])"
    ).fetchall()
    assert (len(running), told) == (2, [{"seq": 1}] * 2)
    revived = db.execute("SELECT id FROM retry(ARRAY(SELECT id FROM archive))").fetchall()
    assert len(revived) == 6
    assert db.execute("SELECT count(*) AS n FROM events WHERE kind = 'status'").fetchone() == {"n": 0}
    assert db.execute("SELECT count(*) AS n FROM job_details WHERE stalls_at IS NOT NULL").fetchone() == {"n": 1}


def test_who_reads_the_views_is_not_waited_for_where_they_stay_as_they_are(
    server_dsn: str, db: Db, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.migrate()
    with psycopg.connect(server_dsn) as reader:
        reader.execute(f"SELECT * FROM {SCHEMA}.jobs".encode())
        db.execute(f"UPDATE {SCHEMA}.schema_version SET digest = 'old'".encode())
        with JobQueue(f"{server_dsn} options='-c lock_timeout=60s'", SCHEMA) as other:
            assert other.migrate().changed
        db.execute(f"UPDATE {SCHEMA}.schema_version SET digest = 'old', views_digest = 'old'".encode())
        monkeypatch.setattr(migrate, "PATIENCE", 0)
        monkeypatch.setattr(migrate, "LONG_WAIT", "100ms")
        pid = reader.info.backend_pid
        told = rf"In the way is pid {pid} \(.*pg_terminate_backend\({pid}\)"
        with pytest.raises(SchemaConflict, match=told):
            queue.migrate()
        with pytest.raises(SchemaConflict, match=told):
            asyncio.run(queue.amigrate())


def at_pauses(plan: Plan[T], meanwhile: Callable[[], None]) -> Plan[T]:
    """A plan that does something else where it would pause."""
    answer, failure = None, None
    while True:
        try:
            step = plan.throw(failure) if failure else plan.send(answer)
        except StopIteration as end:
            return cast(T, end.value)
        answer, failure = None, None
        if isinstance(step, Pause):
            meanwhile()
            continue
        try:
            answer = yield step
        except Exception as error:  # noqa: BLE001
            failure = error


@pytest.mark.parametrize("roles", [False, True])
def test_who_is_in_the_way_holds_up_the_migration_and_nobody_else(
    server_dsn: str, db: Db, queue: JobQueue, roles: bool
) -> None:
    pauses = 0

    def meanwhile() -> None:
        nonlocal pauses
        pauses += 1
        # Nothing is locked now, neither for producers nor for clients that start.
        with JobQueue(f"{server_dsn} options='-c lock_timeout=10s'", SCHEMA) as client:
            client.enqueue("a")
        if pauses >= 2:
            reader.rollback()

    queue.migrate()
    try:
        with psycopg.connect(server_dsn) as reader, psycopg.connect(server_dsn, autocommit=True) as conn:
            reader.execute(f"SELECT FROM {SCHEMA}.archive, {SCHEMA}.jobs".encode())
            db.execute(f"UPDATE {SCHEMA}.schema_version SET digest = 'old', views_digest = 'old'".encode())
            done = queue._database.run(at_pauses(migrate.migrate(SCHEMA, roles=roles), meanwhile), conn)
        assert done.changed
        assert queue.check_schema() == []
        assert queue.stats()["a"].pending == pauses >= 2
    finally:
        if roles:
            drop_roles(db)


def drop_roles(db: Db) -> None:
    for role in migrate.role_names(SCHEMA):
        db.execute(f"DROP OWNED BY {role} CASCADE".encode())
        db.execute(f"DROP ROLE {role}".encode())
