"""The rights of each role, by trying every function, table, view and sequence as a member of it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import psycopg
import pytest
from psycopg import sql

from howdah import JobQueue, NotPermitted, SchemaConflict
from howdah.db import migrate
from howdah.db.statements import ROLES
from tests.conftest import Db
from tests.tenant import NOBODY, Tenant

T = TypeVar("T")

DENIED = "42501"
# A view cannot be truncated, and not every view can be written.
IMPOSSIBLE = ("42809", "55000")
CALLERS = ("producer", "worker", "viewer", "operator", NOBODY)

PRODUCER, WORKER, VIEWER, OPERATOR = ({role} for role in CALLERS[:4])
READERS = VIEWER | OPERATOR

NOBODYS: set[str] = set()


def decided(*decisions: tuple[T, str]) -> dict[str, T]:
    return {name: decision for decision, names in decisions for name in names.split()}


# A new function needs a decision here, and a line in roles/3_grant.sql unless it is internal.
FUNCTIONS = decided(
    (
        PRODUCER | WORKER,
        "enqueue enqueue_each enqueue_many enqueue_unique has_room lock_type_for_bulk enqueue_workflow add_nodes add_node_jobs start_workflow",
    ),
    (PRODUCER | WORKER | OPERATOR, "signal"),
    (
        WORKER,
        (
            " cancel_held check_held checkpoint claim claim_job_batch complete crash declare_schedule declare_type declare_types release_unknown due_schedules fail add_sleeper"
            " fire_schedule heartbeat is_held unregister_worker next_due next_fire skip_locked progress record_events register_worker release"
            " snooze start remove_sleeper maps_to_expand expand_map fail_map node_inputs node_results spawn record_step sleep_until steps_of wait_signal"
        ),
    ),
    (
        WORKER | OPERATOR,
        "advance_workflows bound_segments compact_counts prune recover recover_stale_jobs rotate schedule",
    ),
    (
        OPERATOR,
        (
            "cancel change_selected delete_jobs delete_schedule pause_key pause_schedule pause_type record_audit reprioritise reschedule resume_key resume_schedule resume_type"
            " retry run_schedule set_limit set_max_pending set_rate set_weight cancel_workflow retry_workflow"
        ),
    ),
    (
        READERS,
        "timestamp_in queue_position read_events add_watcher remove_watcher stream_position count_selected wait_in_words live_counts workflow_of signal_counts",
    ),
    (WORKER | READERS, "channel clock lease_clock"),
    (
        NOBODYS,
        (
            "add_scheduled adopt adopted_unchanged archive_deleted archive_unchanged clamp clamp_interval is_in_reach check_job_type check_meta"
            " backlog_excess make_room drop_oldest check_bound check_keys check_options check_throughput check_schedule check_size check_span check_worker_id claim_level claim_levels"
            " claim_oldest claim_one_by_one claimable_unchanged attempt_outcome far_head with_type_defaults archive_jobs"
            " follow_clock has_ended has_segments segment_users is_retry_policy lane_heads may_be_claimed may_notify new_id"
            " make_segment merged_progress next_token number_in open_segment plain_defaults plain_delete plain_insert"
            " begun_at plain_names_error plain_truncate plain_update plain_updated apply_flow restamp_events retry_delay rights seq_of"
            " end_attempt share_locks has_sleeper has_watcher release_worker recover_cause end_overdue overdue is_passing"
            " notify_watchers notify_workers with_error with_seq check_selection is_selected live_of_key lock_selected may_see_keys selected_statuses selection_end add_keys claim_flow claim_flow_lanes claim_keys end_rests flow_head flow_heads"
            " flow_key_of flow_obstacle key_in_words order_obstacle flow_room is_stray open_keys rescaled sane_full_at pause_failed key_of key_allows limit_of_keys limit_of_type line_of settle_flow sweep_flow use_keys with_flow"
            " affordable apply_limit apply_rate check_cost check_limited check_rate has_tokens_at rate_in_words rate_of_keys rate_of_type"
            " return_tokens spend_tokens tokens without_tokens moving_clock flow_due_from forget_held_from held_from_now note_held_from"
            " unique_rule unique_key unique_keys lock_uniques retryable prune_uniques enqueue_on_failure bucket fold_minutes"
            " check_signal close_channel close_channels is_waiting lock_channel lock_held make_due prune_signals release_held_back"
            " remove_steps suspend wake_steps"
            " advance_workflow cancel_node check_inputs check_loops check_node_options check_unstarted is_source count_node end_all_workflows end_nodes end_workflow"
            " first_member_id fold_at_commit fold_workflow insert_members keep_members member_id node_ranges note_deleted note_members note_workflow"
            " careful_step node_step notify_advance open_nodes pass_node prune_workflows release_node reopen_node results_of retry_ended stripe_of take_counts_back try_advance"
        ),
    ),
)
# Of each relation: the roles that may select, insert, update. No role may delete or truncate any.
RELATIONS = decided(
    ((PRODUCER | WORKER | READERS, NOBODYS, NOBODYS), "schema_version"),
    ((READERS, PRODUCER | WORKER, NOBODYS), "jobs"),
    ((READERS, NOBODYS, OPERATOR), "settings"),
    (
        (READERS, NOBODYS, NOBODYS),
        "job_details live_jobs event_details schedule_details limits backlogs step_details workflow_details node_details types archive_counts segments event_counter minutes audit_details",
    ),
    ((WORKER | READERS, NOBODYS, NOBODYS), "workers"),
    (
        (NOBODYS, NOBODYS, NOBODYS),
        "live archive archive_next archive_open events events_next events_open claimable clock_mark flow_types flow_groups flow_keys schedules id_counter backlog_counter backlog_counts audit audit_counter worker_generations uniques workflows workflow_nodes workflow_edges workflow_counts workflow_deltas workflow_spawned workflow_delta_counter steps signals signal_channels signal_counter",
    ),
)
COLUMNS = {
    "jobs": ("INSERT", {"id", "job_type", "priority", "data", "created_at", "max_attempts"}),
    "settings": (
        "UPDATE",
        {
            "archive_retention",
            "cancel_grace",
            "max_crashes",
            "max_interruptions",
            "max_payload_bytes",
            "workflow_max_age",
        },
    ),
}


REDACTED = {"data", "last_error"}
"""Columns of jobs for roles that may read the underlying table only."""


@pytest.fixture(scope="module")
def tenant(server_dsn: str) -> Iterator[Tenant]:
    with Tenant(server_dsn, "roles_test") as tenant:
        yield tenant


def is_denied(conn: Db, statement: sql.Composed) -> bool:
    """Whether the database refuses it, or no role could do it at all; all effects are rolled back."""
    try:
        with conn.transaction(force_rollback=True):
            conn.execute("SET LOCAL client_min_messages = error")
            conn.execute(statement)
    except psycopg.Error as error:
        return error.sqlstate in (DENIED, *IMPOSSIBLE)
    return False


def calls(tenant: Tenant) -> dict[str, sql.Composed]:
    """A call of every function, with a NULL for every argument that the planner cannot see through."""
    rows = tenant.admin.execute(
        "SELECT p.proname, ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY AS a (t, n) ORDER BY n)"
        " AS types FROM pg_proc AS p WHERE p.pronamespace = %s::regnamespace",
        (tenant.schema,),
    ).fetchall()
    return {
        row["proname"]: sql.SQL("SELECT {}({})").format(
            sql.Identifier(tenant.schema, row["proname"]),
            sql.SQL(", ").join(sql.SQL(f"(SELECT NULL::{each})") for each in row["types"]),
        )
        for row in rows
    }


def relations(tenant: Tenant) -> dict[str, list[str]]:
    """Every relation, with its columns."""
    rows = tenant.admin.execute(
        "SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum) AS columns FROM pg_class AS c"
        " JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
        " WHERE c.relnamespace = %s::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') GROUP BY c.relname",
        (tenant.schema,),
    ).fetchall()
    return {row["relname"]: row["columns"] for row in rows}


def statements_on(tenant: Tenant, name: str, columns: list[str]) -> dict[str, sql.Composed]:
    relation = sql.Identifier(tenant.schema, name)
    granted = COLUMNS.get(name, ("", {columns[0]}))[1]
    column = sql.Identifier(min(granted))
    return {
        "SELECT": sql.SQL("SELECT {} FROM {}").format(
            sql.SQL(", ").join(sql.Identifier(name) for name in columns if name not in REDACTED)
            if name == "jobs"
            else sql.SQL("*"),
            relation,
        ),
        "INSERT": sql.SQL("INSERT INTO {} ({}) VALUES (NULL)").format(relation, column),
        "UPDATE": sql.SQL("UPDATE {} SET {} = NULL").format(relation, column),
        "DELETE": sql.SQL("DELETE FROM {}").format(relation),
        "TRUNCATE": sql.SQL("TRUNCATE {}").format(relation),
        "LOCK": sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE NOWAIT").format(relation),
    }


def test_every_function_and_relation_has_a_decision(tenant: Tenant) -> None:
    assert set(calls(tenant)) == set(FUNCTIONS)
    assert set(relations(tenant)) == set(RELATIONS)


@pytest.mark.parametrize("role", CALLERS)
def test_a_role_may_call_its_functions_and_no_other(tenant: Tenant, role: str) -> None:
    with tenant.connect(role) as conn:
        may = {name for name, call in calls(tenant).items() if not is_denied(conn, call)}
    assert may == {name for name, roles in FUNCTIONS.items() if role in roles}


@pytest.mark.parametrize("role", CALLERS)
def test_a_role_reads_and_writes_what_it_may_and_nothing_else(tenant: Tenant, role: str) -> None:
    for name, columns in relations(tenant).items():
        selects, inserts, updates = RELATIONS[name]
        expected = {"SELECT": selects, "INSERT": inserts, "UPDATE": updates}
        with tenant.connect(role) as conn:
            for verb, statement in statements_on(tenant, name, columns).items():
                is_expected = role in expected.get(verb, NOBODYS)
                assert is_denied(conn, statement) is not is_expected, f"{verb} {name}"


@pytest.mark.parametrize("name", COLUMNS)
def test_what_may_be_written_may_be_so_in_these_columns_only(tenant: Tenant, name: str) -> None:
    verb, expected = COLUMNS[name]
    text = "INSERT INTO {} ({}) VALUES (NULL)" if verb == "INSERT" else "UPDATE {} SET {} = NULL"
    (role,) = {"jobs": PRODUCER, "settings": OPERATOR}[name]
    with tenant.connect(role) as conn:
        may = {
            column
            for column in relations(tenant)[name]
            if not is_denied(conn, sql.SQL(text).format(sql.Identifier(tenant.schema, name), sql.Identifier(column)))
        }
    assert may == expected


@pytest.mark.parametrize("role", sorted(READERS))
def test_what_is_in_a_job_is_not_read_from_jobs(tenant: Tenant, role: str) -> None:
    with tenant.connect(role) as conn:
        denied = {
            column
            for column in relations(tenant)["jobs"]
            if is_denied(
                conn, sql.SQL("SELECT {} FROM {}.jobs").format(sql.Identifier(column), sql.Identifier(tenant.schema))
            )
        }
    assert denied == REDACTED


@pytest.mark.parametrize("role", CALLERS)
def test_a_sequence_cannot_be_moved(tenant: Tenant, role: str) -> None:
    with tenant.connect(role) as conn:
        for name in ("id_counter", "event_counter"):
            for call in ("nextval({})", "setval({}, 1)"):
                counter = sql.Literal(f"{tenant.schema}.{name}")
                assert is_denied(conn, sql.SQL("SELECT " + call).format(counter))


@pytest.mark.parametrize("role", CALLERS)
def test_nothing_can_be_made_in_the_schema_nor_changed(tenant: Tenant, role: str) -> None:
    schema = sql.Identifier(tenant.schema)
    with tenant.connect(role) as conn:
        for statement in (
            "CREATE TABLE {}.mine (n int)",
            "CREATE FUNCTION {}.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "ALTER TABLE {}.live DISABLE TRIGGER ALL",
            "CREATE OR REPLACE FUNCTION {}.clock() RETURNS timestamptz LANGUAGE sql AS 'SELECT now()'",
            "ALTER FUNCTION {}.enqueue SECURITY INVOKER",
            "DROP SCHEMA {} CASCADE",
        ):
            assert is_denied(conn, sql.SQL(statement).format(schema)), statement


def test_a_member_of_the_owner_may_do_everything(tenant: Tenant) -> None:
    with tenant.connect("owner") as conn:
        assert {name for name, call in calls(tenant).items() if is_denied(conn, call)} == set()
        for name, columns in relations(tenant).items():
            assert not is_denied(conn, statements_on(tenant, name, columns)["SELECT"])


def test_everything_belongs_to_the_owner_and_public_has_nothing(tenant: Tenant) -> None:
    found = tenant.admin.execute(
        """
        WITH part AS (
            SELECT nspname::text AS name, nspowner AS owner, nspacl AS acl FROM pg_namespace WHERE nspname = %(schema)s
            UNION ALL
            SELECT relname, relowner, relacl FROM pg_class WHERE relnamespace = %(schema)s::regnamespace
            UNION ALL
            SELECT proname, proowner, coalesce(proacl, acldefault('f', proowner)) FROM pg_proc
            WHERE pronamespace = %(schema)s::regnamespace
        )
        SELECT name FROM part WHERE owner <> %(owner)s::regrole
            OR EXISTS (SELECT FROM aclexplode(acl) AS a WHERE a.grantee = 0)
        """,
        {"schema": tenant.schema, "owner": f"{tenant.schema}_owner"},
    )
    assert found.fetchall() == []
    logins = tenant.admin.execute(
        "SELECT rolname FROM pg_roles WHERE rolname = ANY (%s) AND (rolcanlogin OR rolsuper OR rolcreaterole)",
        (list(migrate.role_names(tenant.schema)),),
    )
    assert logins.fetchall() == []


def test_what_runs_as_the_owner_has_a_search_path_of_its_own_and_what_is_internal_does_not_run_so(
    tenant: Tenant,
) -> None:
    rows = tenant.admin.execute(
        "SELECT proname, proconfig FROM pg_proc WHERE pronamespace = %s::regnamespace AND prosecdef", (tenant.schema,)
    ).fetchall()
    for row in rows:
        assert "search_path=pg_catalog, pg_temp" in row["proconfig"]
    # These cannot be called: they are the triggers of the tables that plain clients write to.
    assert {row["proname"] for row in rows if not FUNCTIONS[row["proname"]]} == {
        "archive_deleted",
        "fold_at_commit",
        "plain_defaults",
        "plain_delete",
        "plain_insert",
        "plain_truncate",
        "plain_update",
        "plain_updated",
    }


def test_a_migration_again_keeps_it_all_and_mends_what_was_changed(tenant: Tenant) -> None:
    schema = sql.Identifier(tenant.schema)
    for statement in (
        "GRANT EXECUTE ON FUNCTION {}.end_attempt TO PUBLIC",
        "GRANT SELECT ON {}.live TO roles_test_producer",
        "GRANT SELECT (data) ON {}.archive TO roles_test_worker",
        "REVOKE EXECUTE ON FUNCTION {}.claim FROM roles_test_worker",
        "GRANT SELECT ON {}.live TO roles_test_nobody_login",
        "ALTER FUNCTION {}.cancel OWNER TO roles_test_owner_login",
    ):
        tenant.admin.execute(sql.SQL(statement).format(schema))
    with JobQueue(tenant.admin_dsn, tenant.schema) as queue:
        found = {(each.kind, each.name, each.problem) for each in queue.check_schema()}
        assert found == {
            ("grant", "EXECUTE on end_attempt to PUBLIC", "is not Howdah's"),
            ("grant", "SELECT on live to roles_test_producer", "is not Howdah's"),
            ("grant", "SELECT on archive.data to roles_test_worker", "is not Howdah's"),
            ("grant", "EXECUTE on claim to roles_test_worker", "is missing"),
            ("owner", "cancel", "is not what this Howdah installs"),
        }
    with tenant.queue("owner") as queue:
        done = queue.migrate(reinstall=True)
        assert (done.changed, done.roles) == (True, migrate.role_names(tenant.schema))
    with JobQueue(tenant.admin_dsn, tenant.schema) as queue:
        assert queue.check_schema() == []
    # Grants to other logins stay until they are revoked by hand.
    with tenant.connect(NOBODY) as conn:
        tenant.execute("GRANT USAGE ON SCHEMA {} TO {}", tenant.schema, tenant.login(NOBODY))
        assert not is_denied(conn, sql.SQL("SELECT * FROM {}.live").format(schema))
    for what in ("SCHEMA {}", "{}.live"):
        tenant.execute(f"REVOKE ALL ON {what} FROM {{}}", tenant.schema, tenant.login(NOBODY))


CANARY = "s3cret-canary"


@pytest.fixture
def secrets(tenant: Tenant) -> Iterator[dict[str, list[Any]]]:
    """A waiting, a running and an ended job, one with no attempts left, and a schedule, with secrets in all of them."""
    secret = {"password": CANARY}
    with JobQueue(tenant.admin_dsn, tenant.schema) as queue:
        for ending in ("pending", "running", "completed"):
            queue.enqueue(ending, secret, key=CANARY, meta=secret)
        queue.enqueue("spent", secret)
        for job in queue.claim(["running", "completed", "spent", "pending"], 4, worker_id="holder"):
            queue.start(job)
            queue.checkpoint(job, secret)
            queue.event(job, "opened", secret)
            if job.job_type == "completed":
                queue.complete(job, secret)
            elif job.job_type != "running":
                queue.fail(job, CANARY, delay=0)
        queue.schedules.set("nightly", "pending", secret, every=3600)
        jobs = queue.list().jobs
    spend = sql.SQL("UPDATE {} SET attempts = max_attempts WHERE job_type = 'spent'")
    tenant.admin.execute(spend.format(sql.Identifier(tenant.schema, "live")))
    yield {"ids": [job.id for job in jobs], "tokens": [job.token for job in jobs]}
    for table in ("live", "archive", "archive_counts", "events", "schedules", "uniques"):
        tenant.admin.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(tenant.schema, table)))


def each_null(tenant: Tenant, secrets: dict[str, list[Any]]) -> Iterator[tuple[str, sql.Composed]]:
    """Calls of every function that any role may call, about jobs that are there, with NULL for one argument at a time."""
    rows = tenant.admin.execute(
        "SELECT p.proname, p.proargnames[:p.pronargs] AS names, p.pronargs - p.pronargdefaults AS required,"
        " ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY AS a (t, n) ORDER BY n) AS types"
        " FROM pg_proc AS p WHERE p.pronamespace = %s::regnamespace",
        (tenant.schema,),
    ).fetchall()
    for row in rows:
        if not FUNCTIONS[row["proname"]]:
            continue
        types = dict(zip(row["names"] or (), row["types"], strict=True))
        # A schedule needs a rhythm.
        needed = [*(row["names"] or ())[: row["required"]], *({"p_every"} & set(types))]
        for job_id, token in zip(secrets["ids"], secrets["tokens"], strict=True):
            usual = {name: usual_value(name, types[name], secrets, job_id, token) for name in needed}
            for name, kind in types.items():
                nulls = ["NULL", *(["ARRAY[NULL]", "ARRAY[NULL, NULL, NULL, NULL]"] if kind.endswith("[]") else [])]
                for null in nulls:
                    arguments = {**usual, name: sql.SQL(null + "::" + kind)}
                    yield row["proname"], called(tenant, row["proname"], arguments)
            yield row["proname"], called(tenant, row["proname"], usual)
            if not {"uuid", "bigint"} & set(types.values()):
                break


def called(tenant: Tenant, name: str, arguments: dict[str, sql.Composable]) -> sql.Composed:
    named = [sql.SQL("{} => {}").format(sql.Identifier(each), value) for each, value in arguments.items()]
    return sql.SQL("SELECT * FROM {}({})").format(sql.Identifier(tenant.schema, name), sql.SQL(", ").join(named))


def usual_value(name: str, kind: str, secrets: dict[str, list[Any]], job_id: Any, token: Any) -> sql.Composable:
    values: dict[str, Any] = {
        "uuid[]": secrets["ids"],
        "bigint[]": secrets["tokens"],
        "uuid": job_id,
        "bigint": token,
        "jsonb": "{}",
        "jsonb[]": ["{}"] * len(secrets["ids"]),
        "integer": 1,
        "integer[]": [1] * len(secrets["ids"]),
        "boolean": True,
        "interval": "1 hour",
        "text": "text",
        "text[]": ["text"] * len(secrets["ids"]),
        "character varying[]": ["pending", "running"],
        "timestamp with time zone": "2030-01-01",
        "timestamp with time zone[]": ["2030-01-01"],
        "double precision[]": [50.0] * len(secrets["ids"]),
    }
    names = {"p_name": "nightly", "p_worker_id": "holder", "p_job_type": "pending", "p_verb": "cancel"}
    return sql.SQL("{}::" + kind).format(sql.Literal(names[name] if name in names else values[kind]))


def test_neither_an_error_over_a_null_nor_an_answer_reveals_a_secret(
    tenant: Tenant, secrets: dict[str, list[Any]]
) -> None:
    told = set[str]()
    tried = set[str]()
    for role in CALLERS[:4]:
        with tenant.connect(role) as conn:
            for name, call in each_null(tenant, secrets):
                if role not in FUNCTIONS[name]:
                    continue
                tried.add(name)
                try:
                    with conn.transaction(force_rollback=True):
                        rows = conn.execute(call).fetchall()
                    # A worker gets the data of the jobs that it claims. No other answer contains them.
                    if role != "worker" and CANARY in str(rows):
                        told.add(f"{name} answers {role}")
                except psycopg.Error as error:
                    assert error.sqlstate != DENIED, name
                    details = [
                        getattr(error.diag, each) for each in dir(error.diag) if each.startswith(("message", "context"))
                    ]
                    if CANARY in str(details):
                        told.add(f"{name} shows {role}: {error.diag.message_primary}")
    assert told == set()
    assert tried == {name for name, roles in FUNCTIONS.items() if roles}


def test_tenants_do_not_see_each_other(tenant: Tenant, server_dsn: str) -> None:
    with Tenant(server_dsn, "roles_other") as other, tenant.queue("worker") as mine:
        mine.enqueue("only here")
        for role in CALLERS[:4]:
            with other.connect(role) as conn:
                for call in calls(tenant).values():
                    assert is_denied(conn, call)
                for name, columns in relations(tenant).items():
                    assert is_denied(conn, statements_on(tenant, name, columns)["SELECT"])
        with other.queue("worker") as theirs:
            assert theirs.claim(["only here"]) == []


@pytest.fixture
def vacant(server_dsn: str) -> Iterator[Tenant]:
    with Tenant(server_dsn, "roles_vacant", install=False) as vacant:
        try:
            yield vacant
        finally:
            vacant.drop()
            for name in ("roles_vacant_deployer", "roles_vacant_app"):
                if vacant.admin.execute("SELECT FROM pg_roles WHERE rolname = %s", (name,)).fetchall():
                    vacant.execute("DROP OWNED BY {}", name)
                    vacant.execute("DROP ROLE {}", name)


def deployer(tenant: Tenant, options: str) -> str:
    """The DSN of a login that may create schemas, and is no superuser."""
    name = "roles_vacant_deployer"
    tenant.execute("CREATE ROLE {} LOGIN PASSWORD 'only for tests' " + options, name)
    database = tenant.admin.info.dbname
    tenant.execute("GRANT CREATE ON DATABASE {} TO {}", database, name)
    return psycopg.conninfo.make_conninfo(tenant.admin_dsn, user=name, password="only for tests")


def test_without_the_right_to_create_roles_the_error_names_what_to_run_and_nothing_is_done(vacant: Tenant) -> None:
    with JobQueue(deployer(vacant, ""), vacant.schema) as queue:
        with pytest.raises(NotPermitted, match="howdah migrate --schema roles_vacant --roles --sql"):
            queue.migrate(roles=True)
        assert vacant.admin.execute("SELECT to_regnamespace('roles_vacant') AS there").fetchone() == {"there": None}


def test_the_right_to_create_roles_is_enough_and_the_login_works_as_before(vacant: Tenant) -> None:
    with JobQueue(deployer(vacant, "CREATEROLE"), vacant.schema) as queue:
        queue.migrate()
        before = queue.enqueue("a", {"n": 1})
        assert queue.migrate(roles=True).changed
        assert not queue.migrate(roles=True).changed
        assert queue.check_schema() == []
        (job,) = queue.claim(["a"])
        assert (job.id, job.data) == (before.id, {"n": 1})
        queue.complete(job)
        assert queue.get(job.id).data == {"n": 1}
    vacant.log_in()
    with vacant.queue("worker") as worker:
        worker.enqueue("a")
        assert len(worker.claim(["a"])) == 1
        assert worker.prune() == []


def test_a_role_that_may_log_in_is_not_taken_for_ours(vacant: Tenant) -> None:
    vacant.execute("CREATE ROLE {} LOGIN", "roles_vacant_worker")
    with JobQueue(vacant.admin_dsn, vacant.schema) as queue, pytest.raises(SchemaConflict, match="may log in"):
        queue.migrate(roles=True)
    assert vacant.admin.execute("SELECT to_regnamespace('roles_vacant') AS there").fetchone() == {"there": None}


def test_a_group_in_use_is_not_adopted_unless_it_is_marked(vacant: Tenant) -> None:
    vacant.execute("CREATE ROLE {} LOGIN", "roles_vacant_app")
    vacant.execute("CREATE ROLE {}", "roles_vacant_owner")
    vacant.execute("CREATE ROLE {}", "roles_vacant_viewer")
    with JobQueue(vacant.admin_dsn, vacant.schema) as queue:
        for use, unuse in (
            ("GRANT roles_vacant_owner TO roles_vacant_app", "REVOKE roles_vacant_owner FROM roles_vacant_app"),
            ("GRANT roles_vacant_app TO roles_vacant_viewer", "REVOKE roles_vacant_app FROM roles_vacant_viewer"),
            ("GRANT CREATE ON SCHEMA howdah TO roles_vacant_viewer", "DROP OWNED BY roles_vacant_viewer"),
            ("CREATE SCHEMA roles_vacant_a AUTHORIZATION roles_vacant_owner", "DROP SCHEMA roles_vacant_a"),
        ):
            vacant.execute(use)
            with pytest.raises(SchemaConflict, match=r"role .* already exists.* COMMENT ON ROLE"):
                queue.migrate(roles=True)
            vacant.execute(unuse)
        assert vacant.admin.execute("SELECT to_regnamespace('roles_vacant') AS there").fetchone() == {"there": None}
        vacant.execute("GRANT roles_vacant_owner TO roles_vacant_app")
        vacant.execute("COMMENT ON ROLE roles_vacant_owner IS 'A role of Howdah''s'")
        assert queue.migrate(roles=True).changed
        # Roles of an earlier migration are recognised: by their mark in other databases, and by the schema if the mark is missing.
        vacant.execute("GRANT roles_vacant_worker TO roles_vacant_app")
        vacant.execute("COMMENT ON ROLE roles_vacant_owner IS 'our own words'")
        assert queue.migrate(roles=True, reinstall=True).changed
        vacant.execute("COMMENT ON ROLE roles_vacant_owner IS 'A role of Howdah''s'")
        vacant.execute("DROP SCHEMA roles_vacant CASCADE")
        assert queue.migrate(roles=True).changed


@pytest.mark.parametrize("by_admin", [False, True])
def test_foreign_objects_in_the_schema_keep_their_owner(vacant: Tenant, by_admin: bool) -> None:
    vacant.execute("CREATE ROLE {} LOGIN PASSWORD {}", "roles_vacant_app", sql.Literal("only for tests"))
    stranger = psycopg.conninfo.make_conninfo(
        vacant.admin_dsn, user="roles_vacant_app", password="only for tests", options="-c search_path=roles_vacant"
    )
    peek = "CREATE FUNCTION {}() RETURNS SETOF text LANGUAGE sql SECURITY DEFINER AS 'SELECT data::text FROM live'"
    deployers = deployer(vacant, "CREATEROLE")
    with JobQueue(deployers, vacant.schema) as queue:
        queue.migrate()
        queue.enqueue("a", {"card": CANARY})
    with JobQueue(vacant.admin_dsn if by_admin else deployers, vacant.schema) as queue:
        vacant.execute("GRANT USAGE, CREATE ON SCHEMA roles_vacant TO roles_vacant_app")
        with psycopg.connect(stranger, autocommit=True) as conn:
            conn.execute("CREATE TABLE scratch (n int)")
            conn.execute("GRANT SELECT ON scratch TO PUBLIC")
            conn.execute(sql.SQL(peek).format(sql.Identifier("peek")))
            conn.execute("GRANT EXECUTE ON FUNCTION peek TO PUBLIC")
            # Its name is one of Howdah.
            conn.execute(sql.SQL(peek).format(sql.Identifier("end_attempt")))
            with pytest.raises(SchemaConflict, match=r"end_attempt\(\) belongs to roles_vacant_app"):
                queue.migrate(roles=True)
            conn.execute("DROP FUNCTION end_attempt()")
            assert queue.migrate(roles=True).changed
            assert queue.check_schema() == []
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute("SELECT * FROM peek()")
        assert vacant.admin.execute(
            "SELECT pg_has_role('roles_vacant_app', 'roles_vacant_owner', 'MEMBER') AS member,"
            " pg_has_role('roles_vacant_deployer', 'roles_vacant_owner', 'USAGE') AS deployer"
        ).fetchone() == {"member": False, "deployer": True}


def test_the_schema_public_is_refused(server_dsn: str) -> None:
    with JobQueue(server_dsn, "public") as queue, pytest.raises(SchemaConflict, match="schema of their own"):
        queue.migrate(roles=True, adopt=False)


def test_many_at_once_are_one_after_the_other(vacant: Tenant) -> None:
    def migrate_once(_: int) -> bool:
        with JobQueue(vacant.admin_dsn, vacant.schema) as queue:
            return queue.migrate(roles=True).changed

    with ThreadPoolExecutor(5) as pool:
        assert sorted(pool.map(migrate_once, range(5))) == [False] * 4 + [True]
    with JobQueue(vacant.admin_dsn, vacant.schema) as queue:
        assert queue.check_schema() == []


def test_all_roles_are_tried() -> None:
    assert set(CALLERS) == {*ROLES, NOBODY} - {"owner"}


def test_a_check_of_the_schema_names_the_right_that_it_needs(tenant: Tenant) -> None:
    with tenant.queue("owner") as queue:
        with pytest.raises(NotPermitted, match=r"GRANT CREATE ON DATABASE .* TO \"roles_test_owner_login\""):
            queue.check_schema()
        tenant.execute("GRANT CREATE ON DATABASE {} TO {}", tenant.admin.info.dbname, tenant.login("owner"))
        try:
            assert queue.check_schema() == []
        finally:
            tenant.execute("REVOKE CREATE ON DATABASE {} FROM {}", tenant.admin.info.dbname, tenant.login("owner"))


def test_a_worker_may_ask_for_its_own_health(tenant: Tenant) -> None:
    with tenant.queue("worker") as queue:
        assert queue.workers() == []
    with tenant.queue("producer") as queue, pytest.raises(NotPermitted, match=r"needs the role .*roles_test_worker"):
        queue.workers()
