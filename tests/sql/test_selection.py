"""count_selected, change_selected and delete_jobs, as a client in any language calls them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from howdah import JobQueue, NotPermitted, Unique
from tests.cli.runner import failed_job
from tests.conftest import Connect, Db
from tests.sql.holding import hold, record
from tests.tenant import NOBODY, Tenant

SECRET = "s3cret"


def changed(db: Db, *arguments: Any, **options: Any) -> dict[str, Any]:
    """One call of change_selected."""
    named = [sql.SQL("{} => {}").format(sql.Identifier(f"p_{name}"), value) for name, value in options.items()]
    given = sql.SQL(", ").join([*map(sql.Literal, arguments), *named])
    row = db.execute(sql.SQL("SELECT * FROM change_selected({})").format(given)).fetchone()
    assert row is not None
    return row


def test_a_loop_goes_through_the_jobs_and_ends(db: Db) -> None:
    db.execute("SELECT enqueue_many('x', array_fill('{}'::jsonb, ARRAY[7]))")
    position, counts = None, []
    while True:
        row = changed(db, "cancel", "{x}", position=position, limit=3)
        counts.append(row["changed"])
        position = row["next_position"]
        if position is None:
            break
    assert counts == [3, 3, 1]
    assert db.execute("SELECT DISTINCT status FROM jobs").fetchall() == [{"status": "cancelled"}]


def test_a_count_reads_so_many_jobs_in_a_call(db: Db) -> None:
    db.execute("SELECT enqueue_many(t, array_fill('{}'::jsonb, ARRAY[3])) FROM unnest(ARRAY['x', 'y']) AS t")
    first = db.execute("SELECT * FROM count_selected(p_job_types => '{y}', p_limit => 2)").fetchall()
    assert [(row["job_type"], row["jobs"]) for row in first] == [(None, 0)]
    rest = db.execute("SELECT * FROM count_selected(p_position => %s)", (first[0]["next_position"],)).fetchall()
    assert {(row["job_type"], row["status"], row["jobs"], row["next_position"]) for row in rest} == {
        ("x", "pending", 1, None),
        ("y", "pending", 3, None),
    }


def test_ended_jobs_of_all_segments_are_found(db: Db, queue: JobQueue) -> None:
    jobs = []
    for _ in range(3):
        jobs.append(failed_job(queue, "x", "no"))
        db.execute("SELECT rotate('0')")
    assert changed(db, "retry", statuses="{failed}")["changed"] == 3
    assert {queue.get(job).status for job in jobs} == {"pending"}
    assert queue.stats()["x"].failed == 0


def test_a_key_selects_the_jobs_that_are_unique_by_it(db: Db, queue: JobQueue) -> None:
    waiting = queue.enqueue("x", key="a", unique="key")
    ended = queue.enqueue("x", key="a", unique=Unique(by="key", states=["running"]))
    queue.cancel(ended)
    for key in ("b", "key:a"):
        queue.enqueue("x", key=key, unique="key")
    queue.enqueue("x", {"key": "a"}, unique=True)
    assert queue.select(key="a").count() == 2
    assert changed(db, "cancel", key="a")["changed"] == 1
    assert queue.get(waiting).status == "cancelled"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("change_selected('cancel')", "no filter"),
        ("change_selected('delete', p_everything => NULL)", "no filter"),
        ("change_selected('burn', '{x}')", "'burn' is not a verb"),
        ("change_selected(NULL, '{x}')", "NULL is not a verb"),
        ("change_selected('retry', p_statuses => '{running}')", "retry cannot change jobs that are running"),
        ("change_selected('retry', '{x}', p_limit => 0)", "p_limit is 0"),
        ("change_selected('retry', '{x}', p_limit => 10001)", "p_limit is 10001"),
        ("change_selected('reprioritise', '{x}')", "priority must not be NULL"),
        ("count_selected('burn')", "'burn' is not a verb"),
        ("count_selected(p_limit => -1)", "p_limit is -1"),
    ],
)
def test_what_is_wrong_is_refused_and_nothing_is_changed(db: Db, call: str, said: str) -> None:
    db.execute("SELECT enqueue('x')")
    with pytest.raises(psycopg.Error, match=said) as caught:
        db.execute(f"SELECT * FROM {call}".encode())
    assert caught.value.sqlstate == "JQ001"
    assert db.execute("SELECT status FROM jobs").fetchall() == [{"status": "pending"}]


def test_everything_is_everything(db: Db) -> None:
    db.execute("SELECT enqueue('x'), enqueue('y')")
    assert changed(db, "delete", everything=True)["changed"] == 2


def test_jobs_are_deleted_with_their_events_and_running_ones_stay(db: Db) -> None:
    (running,) = hold(db, job_type="r")
    (claimed,) = hold(db, job_type="c", start=0)
    (ended,) = hold(db, job_type="e")
    for job in (running, ended):
        record(db, job)
    db.execute("SELECT complete(ARRAY[%s], ARRAY[%s])", ended)
    ids = [running.id, claimed.id, ended.id, uuid.uuid4()]
    deleted = db.execute("SELECT id FROM delete_jobs(%s)", (ids,)).fetchall()
    assert {row["id"] for row in deleted} == {claimed.id, ended.id}
    assert db.execute("SELECT id FROM jobs").fetchall() == [{"id": running.id}]
    assert db.execute("SELECT job_id FROM events").fetchall() == [{"job_id": running.id}]
    assert db.execute("SELECT delete_jobs(NULL)").fetchall() == []


def test_a_transaction_with_a_snapshot_of_its_own_gets_an_error_and_no_wrong_change(db: Db, connect: Connect) -> None:
    db.execute("SELECT enqueue('x')")
    with connect(autocommit=False) as old:
        old.commit()
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        old.execute("SELECT count(*) FROM jobs")
        db.execute("SELECT claim('w', ARRAY['x'], 1)")
        with pytest.raises(psycopg.errors.SerializationFailure):
            old.execute("SELECT change_selected('reprioritise', '{x}', p_priority => 7)")
    assert db.execute("SELECT status, priority FROM jobs").fetchall() == [{"status": "claimed", "priority": 100}]


# Roles


@pytest.fixture(scope="module")
def tenant(server_dsn: str) -> Iterator[Tenant]:
    with Tenant(server_dsn, "selection_roles") as tenant:
        yield tenant


@pytest.fixture
def owner(tenant: Tenant) -> Iterator[JobQueue]:
    for table in ("live", "archive", "archive_counts"):
        tenant.admin.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(tenant.schema, table)))
    with JobQueue(tenant.admin_dsn, tenant.schema) as owner:
        failed_job(owner, "mail", SECRET, key=SECRET, per=SECRET)
        yield owner


@pytest.mark.parametrize("role", ["producer", "worker", "viewer", NOBODY])
def test_only_an_operator_changes_jobs(tenant: Tenant, owner: JobQueue, role: str) -> None:
    with tenant.queue(role) as queue:
        for verb in ("retry", "delete"):
            with pytest.raises(NotPermitted):
                getattr(queue.select(job_type="mail"), verb)()
        with pytest.raises(NotPermitted):
            queue.delete(owner.list()[0].id)
    assert [job.status for job in owner.list()] == ["failed"]


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_roles_that_may_read_may_count(tenant: Tenant, owner: JobQueue, role: str) -> None:
    with tenant.queue(role) as queue:
        assert queue.select(job_type="mail", status="failed").count("retry").groups == {("mail", "failed"): 1}


def test_an_operator_changes_jobs_by_what_it_sees(tenant: Tenant, owner: JobQueue) -> None:
    with tenant.queue("operator") as queue:
        assert queue.select(job_type="mail", older_than=0).retry() == 1
        assert queue.select(status="pending").cancel() == 1
        assert queue.select(everything=True).delete() == 1
    assert owner.list().jobs == ()


@pytest.mark.parametrize("filters", [{"error": SECRET[:2]}, {"key": SECRET}, {"per": SECRET}])
def test_redacted_contents_cannot_be_found_out_by_trying(
    tenant: Tenant, owner: JobQueue, filters: dict[str, str]
) -> None:
    ((name, value),) = filters.items()
    argument = sql.SQL("{} => {}").format(sql.Identifier("p_flow_key" if name == "per" else f"p_{name}"), value)
    calls = [
        sql.SQL("SELECT * FROM {}({}{})").format(sql.Identifier(tenant.schema, function), sql.SQL(verb), argument)
        for function, verb in (("count_selected", ""), ("change_selected", "'retry', "))
    ]
    with tenant.queue("operator") as queue, tenant.connect("operator") as conn:
        selection = queue.select(**filters)  # type: ignore[arg-type]
        for verb in (selection.count, selection.retry):
            with pytest.raises(NotPermitted, match=rf"cannot select by {name}: that needs SELECT on the table live"):
                verb()
        for call in calls:
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="cannot select by them"):
                conn.execute(call)
            # An administrator that has taken its role on is no more than that role.
            with tenant.admin.transaction(force_rollback=True):
                tenant.execute("SET LOCAL ROLE {}", tenant.login("operator"))
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    tenant.admin.execute(call)
        tenant.execute("GRANT SELECT ON {}.live TO {}", tenant.schema, tenant.login("operator"))
        try:
            assert selection.count() == 1
            for call in calls:
                assert conn.execute(call).fetchall()
        finally:
            tenant.execute("REVOKE SELECT ON {}.live FROM {}", tenant.schema, tenant.login("operator"))
    assert [job.status for job in owner.list()] == ["pending"]
