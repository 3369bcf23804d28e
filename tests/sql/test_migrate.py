"""Installing, updating, comparing and adopting: any number at once, killed or not."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, cast

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from howdah import JobQueue, NotPermitted, SchemaConflict, SchemaMissing, SchemaOutdated, SchemaTooNew
from howdah.db import migrate
from howdah.db.plan import Pause, Plan
from tests import history, servers
from tests.sql import seed

SCHEMA = "migrate_test"
DEVELOPMENT = "a0df1ce"
"""A commit from before 0.1.0, when jobs was a view."""
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
    # As soon as a session holds the lock, migrations are running.
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
        ("DROP TRIGGER plain_updated ON jobs", "trigger", "jobs.plain_updated"),
        ("DROP TRIGGER plain_update ON live", "trigger", "live.plain_update"),
        ("ALTER TABLE live DISABLE TRIGGER plain_update", "trigger", "live.plain_update"),
        ("DROP TRIGGER archive_unchanged ON archive_open", "trigger", "archive_open.archive_unchanged"),
        ("ALTER TABLE live DROP CONSTRAINT valid_status", "constraint", "live.valid_status"),
        ("ALTER TABLE live ENABLE ROW LEVEL SECURITY", "relation", "live"),
        ("ALTER TABLE live FORCE ROW LEVEL SECURITY", "relation", "live"),
        ("CREATE RULE lost AS ON INSERT TO events DO INSTEAD NOTHING", "rule", "events.lost"),
    ],
)
def test_check_finds_changes_by_hand(db: Db, queue: JobQueue, statement: str, kind: str, name: str) -> None:
    queue.migrate()
    db.execute(f"SET search_path = {SCHEMA}".encode())
    db.execute(statement.encode())
    assert (kind, name) in [(difference.kind, difference.name) for difference in queue.check_schema()]


def test_the_index_for_plain_clients_with_a_large_backlog_is_no_difference(db: Db, queue: JobQueue) -> None:
    queue.migrate()
    db.execute(
        f"CREATE INDEX live_plain ON {SCHEMA}.live (priority DESC, created_at) WHERE status = 'pending'".encode()
    )
    assert queue.check_schema() == []


def test_closed_segments_are_compared_too(db: Db, queue: JobQueue) -> None:
    queue.migrate()
    db.execute(f"SET search_path = {SCHEMA}".encode())
    for _ in range(2):
        db.execute("INSERT INTO jobs (job_type, status) VALUES ('a', 'failed')")
        db.execute("SELECT rotate('0')")
        db.execute("SELECT bound_segments()")
    assert queue.check_schema() == []
    db.execute("DROP INDEX archive_1_id")
    db.execute("DROP TRIGGER archive_unchanged ON archive_2")
    db.execute("ALTER TABLE events_2 ALTER kind DROP DEFAULT, ALTER data SET NOT NULL")
    found = {(difference.kind, difference.name) for difference in queue.check_schema()}
    assert found == {("index", "archive_1.id"), ("trigger", "archive_2.archive_unchanged"), ("column", "events_2.data")}


def test_an_older_and_a_newer_schema_raise_what_to_run(server_dsn: str, db: Db, queue: JobQueue) -> None:
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


def test_a_newer_schema_that_still_supports_this_client_serves_it(server_dsn: str, db: Db, queue: JobQueue) -> None:
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


def test_a_plain_table_of_jobs_in_sight_is_refused_too_without_no_adopt(plain_jobs: Db, server_dsn: str) -> None:
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


def test_what_is_written_to_an_adopted_table_is_refused(plain_jobs: Db, queue: JobQueue) -> None:
    queue.migrate(adopt=True)
    for statement in (
        "INSERT INTO adopted_jobs (job_type) VALUES ('a')",
        "UPDATE adopted_jobs SET progress = 1",
        "DELETE FROM adopted_jobs",
        "TRUNCATE adopted_jobs",
    ):
        with pytest.raises(psycopg.Error, match="were adopted") as caught:
            plain_jobs.execute(statement.encode())
        assert caught.value.sqlstate == "JQ005"


def test_what_depends_on_an_adopted_table_is_named(plain_jobs: Db, queue: JobQueue) -> None:
    for statement in (
        "CREATE VIEW waiting AS SELECT id FROM jobs WHERE status = 'pending'",
        "CREATE MATERIALIZED VIEW totals AS SELECT count(*) FROM jobs",
        "CREATE TABLE attachments (job_id uuid REFERENCES jobs (id))",
        "CREATE FUNCTION in_quotes() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM jobs'",
        "CREATE FUNCTION bound() RETURNS bigint LANGUAGE sql RETURN (SELECT count(*) FROM jobs)",
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "CREATE TRIGGER note AFTER INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION note()",
        "CREATE RULE silent AS ON DELETE TO jobs DO INSTEAD NOTHING",
    ):
        plain_jobs.execute(statement.encode())
    named = {name.replace(f"{SCHEMA}.", "") for name in queue.migrate(adopt=True).dependents}
    assert named == {
        "view waiting",
        "materialized view totals",
        "foreign key attachments_job_id_fkey of attachments",
        "function in_quotes()",
        "function bound()",
        "trigger note",
        "rule silent",
    }


def test_types_of_other_owners_are_never_converted(db: Db, queue: JobQueue) -> None:
    """The conversion would run with the rights of the login that migrates."""
    db.execute(f"CREATE SCHEMA {SCHEMA}".encode())
    db.execute(f"SET search_path = {SCHEMA}".encode())
    db.execute(seed.CREATE_TABLE.encode())
    db.execute("CREATE TYPE trap AS (n int)")
    db.execute(
        "CREATE FUNCTION spring(trap) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE 'the trap was sprung'; END $$"
    )
    db.execute("CREATE CAST (trap AS int) WITH FUNCTION spring(trap) AS ASSIGNMENT")
    db.execute("ALTER TABLE jobs ALTER progress DROP DEFAULT, ALTER progress TYPE trap USING ROW(progress)::trap")
    db.execute("INSERT INTO jobs (job_type, progress) VALUES ('a', ROW(1))")
    with pytest.raises(SchemaConflict, match="or their types"):
        queue.migrate(adopt=True)


def test_a_table_of_a_role_that_is_not_ones_own_is_not_adopted(plain_jobs: Db, server_dsn: str) -> None:
    elsewhere = f"{SCHEMA}_elsewhere"
    database = plain_jobs.info.dbname
    try:
        for statement in (
            "CREATE ROLE adopt_stranger",
            "CREATE ROLE adopt_owner LOGIN",
            f"GRANT CREATE ON DATABASE {database} TO adopt_owner",
            f"GRANT USAGE ON SCHEMA {SCHEMA} TO adopt_owner",
            "ALTER TABLE jobs OWNER TO adopt_stranger",
        ):
            plain_jobs.execute(statement.encode())
        in_sight = make_conninfo(server_dsn, user="adopt_owner", options=f"-c search_path={SCHEMA}")
        with (
            JobQueue(in_sight, elsewhere) as queue,
            pytest.raises(NotPermitted, match="GRANT adopt_stranger TO adopt_owner"),
        ):
            queue.migrate(adopt=True)
        assert plain_jobs.execute("SELECT count(*) AS n FROM jobs").fetchone() == {"n": 18}
    finally:
        plain_jobs.execute(f"DROP SCHEMA IF EXISTS {elsewhere} CASCADE".encode())
        plain_jobs.execute("DROP OWNED BY adopt_owner, adopt_stranger CASCADE")
        plain_jobs.execute("DROP ROLE adopt_owner, adopt_stranger")


@pytest.mark.parametrize("roles", [False, True])
def test_a_superuser_installs_nothing_in_a_schema_that_another_can_change(db: Db, server_dsn: str, roles: bool) -> None:
    for statement in (
        f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE",
        "CREATE ROLE preparer",
        f"CREATE SCHEMA {SCHEMA} AUTHORIZATION preparer",
    ):
        db.execute(statement.encode())
    try:
        with JobQueue(server_dsn, SCHEMA) as queue:
            with pytest.raises(NotPermitted, match="belongs to role preparer"):
                queue.migrate(roles=roles)
            # Nor where it is only a function that was planted.
            for statement in (
                f"ALTER SCHEMA {SCHEMA} OWNER TO CURRENT_USER",
                f"CREATE FUNCTION {SCHEMA}.clock() RETURNS timestamptz LANGUAGE sql AS 'SELECT now()'",
                f"ALTER FUNCTION {SCHEMA}.clock() OWNER TO preparer",
            ):
                db.execute(statement.encode())
            with pytest.raises(SchemaConflict, match="belongs to preparer"):
                queue.migrate(roles=roles)
        assert db.execute("SELECT FROM pg_class WHERE relnamespace = %s::regnamespace", (SCHEMA,)).fetchall() == []
    finally:
        db.execute(f"DROP SCHEMA {SCHEMA} CASCADE".encode())
        db.execute("DROP ROLE preparer")


def test_a_schema_with_a_foreign_owner_is_refused_and_not_touched(db: Db, server_dsn: str) -> None:
    """Its owner could replace its functions, and these would run with the rights of every login."""
    database = db.info.dbname
    try:
        for statement in (
            "CREATE ROLE schema_stranger",
            "CREATE ROLE schema_login LOGIN",
            f"GRANT CREATE ON DATABASE {database} TO schema_login",
            f"CREATE SCHEMA {SCHEMA} AUTHORIZATION schema_stranger",
            f"GRANT ALL ON SCHEMA {SCHEMA} TO schema_login",
        ):
            db.execute(statement.encode())
        with JobQueue(make_conninfo(server_dsn, user="schema_login"), SCHEMA) as queue:
            with pytest.raises(
                NotPermitted, match=r"belongs to role schema_stranger.*GRANT schema_stranger TO schema_login"
            ):
                queue.migrate()
            assert db.execute("SELECT FROM pg_class WHERE relnamespace = %s::regnamespace", (SCHEMA,)).fetchall() == []
            db.execute("GRANT schema_stranger TO schema_login")
            assert queue.migrate().changed
            assert queue.check_schema() == []
            db.execute("REVOKE schema_stranger FROM schema_login")
            # An installation that is up to date stays so, whichever login checks.
            assert not queue.migrate().changed
            with pytest.raises(NotPermitted, match="belongs to role schema_stranger"):
                queue.migrate(reinstall=True)
    finally:
        db.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE".encode())
        db.execute("DROP OWNED BY schema_login, schema_stranger CASCADE")
        db.execute("DROP ROLE schema_login, schema_stranger")


def test_a_schema_that_an_administrator_has_created_is_accepted(db: Db, server_dsn: str) -> None:
    try:
        db.execute("CREATE ROLE schema_login LOGIN")
        db.execute(f"CREATE SCHEMA {SCHEMA}".encode())
        db.execute(f"GRANT ALL ON SCHEMA {SCHEMA} TO schema_login".encode())
        with JobQueue(make_conninfo(server_dsn, user="schema_login"), SCHEMA) as queue:
            assert queue.migrate().changed
            assert not queue.migrate().changed
    finally:
        db.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE".encode())
        db.execute("DROP OWNED BY schema_login CASCADE")
        db.execute("DROP ROLE schema_login")


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


def test_planted_operators_are_neither_used_nor_depended_on(server_dsn: str, db: Db) -> None:
    """varchar = varchar is nowhere in PostgreSQL itself, so one in the search path would be the best match."""
    db.execute("CREATE SCHEMA hostile")
    try:
        db.execute("CREATE TABLE hostile.loot (login text)")
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


def test_a_schema_of_a_development_version_is_refused_and_not_touched(
    server_dsn: str, db: Db, queue: JobQueue, tmp_path: Path
) -> None:
    try:
        former = history.extract(DEVELOPMENT, tmp_path, "src")
    except history.HistoryMissing as error:
        pytest.skip(str(error))
    subprocess.run(
        [sys.executable, "-m", "howdah", "migrate", "--schema", SCHEMA],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(former / "src"), "HOWDAH_DSN": server_dsn},
    )
    db.execute(f"SELECT {SCHEMA}.enqueue('old')".encode())
    for ask in (queue.migrate, queue.check_schema, lambda: queue.enqueue("a")):
        with pytest.raises(SchemaConflict, match=f'development version.*--schema NAME.*DROP SCHEMA "{SCHEMA}"'):
            ask()
    assert db.execute(f"SELECT job_type FROM {SCHEMA}.jobs".encode()).fetchall() == [{"job_type": "old"}]


def test_readers_of_unchanged_views_are_not_waited_for(
    server_dsn: str, db: Db, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.migrate()
    with psycopg.connect(server_dsn) as reader:
        reader.execute(f"SELECT * FROM {SCHEMA}.job_details".encode())
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


def test_the_session_that_holds_the_lock_of_migrations_is_named(
    server_dsn: str, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any login can hold it, even before there is a schema."""
    monkeypatch.setattr(migrate, "PATIENCE", 0.2)
    with psycopg.connect(server_dsn, autocommit=True, application_name="intruder") as holder:
        holder.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (f'"{SCHEMA}".migrate',))
        pid = holder.info.backend_pid
        told = rf"In the way is pid {pid} \(\w+, intruder.*pg_terminate_backend\({pid}\)"
        with pytest.raises(SchemaConflict, match=told):
            queue.migrate()
        with pytest.raises(SchemaConflict, match=told):
            asyncio.run(queue.amigrate())
    assert queue.migrate().changed


def at_pauses(plan: Plan[T], meanwhile: Callable[[], None]) -> Plan[T]:
    """A plan with an action in place of its pauses."""
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
def test_a_session_in_the_way_delays_the_migration_and_nothing_else(
    server_dsn: str, db: Db, queue: JobQueue, roles: bool
) -> None:
    pauses = 0

    def meanwhile() -> None:
        nonlocal pauses
        pauses += 1
        # Nothing is locked now, neither for producers nor for clients that start.
        with JobQueue(f"{server_dsn} options='-c lock_timeout=60s'", SCHEMA) as client:
            client.enqueue("a")
        if pauses >= 2:
            reader.rollback()

    queue.migrate()
    try:
        with psycopg.connect(server_dsn) as reader, psycopg.connect(server_dsn, autocommit=True) as conn:
            reader.execute(f"SELECT FROM {SCHEMA}.archive, {SCHEMA}.job_details".encode())
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
