"""Roles that use jobs as a plain table: the grants on it are enough, and allow nothing else."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql

from tests.conftest import Db
from tests.sql import seed
from tests.sql.plain import CLAIM_BY_ID, change, insert, loop_over, one, row_of, running, send


def test_a_role_with_rights_on_jobs_alone_can_do_all_that_the_seeds_statements_do(plain_role: Db) -> None:
    role = plain_role
    assert change(role, seed.INSERT, "x") == 1
    (job,) = send(role, seed.OWN_CLAIM, "w", ["x"], 1)
    start = "UPDATE jobs SET status = 'running', started_at = NOW() WHERE id = $1"
    report = "UPDATE jobs SET progress = 50, current_stage = 'half', events_count = events_count + 1 WHERE id = $1"
    assert change(role, start, job["id"]) == 1
    assert change(role, report, job["id"]) == 1
    assert change(role, seed.FAIL, job["id"], "boom") == 1
    with role.transaction():
        (again,) = send(role, seed.SELECT_FOR_UPDATE, ["x"], 1)
        assert change(role, CLAIM_BY_ID, "w", again["id"]) == 1
    assert change(role, seed.RECOVER_STALE_JOBS, "-1 hour") == 1
    (last,) = send(role, seed.OWN_CLAIM, "w", ["x"], 1)
    assert change(role, seed.COMPLETE, last["id"]) == 1
    row = row_of(role, job["id"])
    assert (row["status"], row["attempts"], row["events_count"], row["last_error"]) == ("completed", 3, 1, "boom")


def test_a_role_with_rights_on_jobs_alone_can_end_a_job_in_each_way(plain_role: Db) -> None:
    for status in ("completed", "failed", "cancelled"):
        job_id = running(plain_role)
        assert change(plain_role, "UPDATE jobs SET status = $1, last_error = 'x' WHERE id = $2", status, job_id) == 1
        assert row_of(plain_role, job_id)["status"] == status


def test_grants_decide_which_role_may_delete(db: Db, plain_role: Db) -> None:
    (live,) = insert(plain_role)
    ended = one(plain_role, "INSERT INTO jobs (job_type, status) VALUES ('x', 'failed') RETURNING id")["id"]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        send(plain_role, "DELETE FROM jobs")
    role = sql.Identifier(one(plain_role, "SELECT current_user::text AS name")["name"])
    db.execute(sql.SQL("GRANT DELETE ON jobs TO {}").format(role))
    assert change(plain_role, "DELETE FROM jobs WHERE id = ANY($1)", [live, ended]) == 2


def test_a_role_with_rights_on_jobs_alone_cannot_reach_the_tables_behind_it(plain_role: Db) -> None:
    insert(plain_role)
    for table in ("live", "archive", "archive_open", "events", "types", "workers", "job_details", "claimable"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            plain_role.execute(sql.SQL("SELECT FROM {}").format(sql.Identifier(table)))


def test_a_role_with_rights_on_some_columns_of_jobs_reads_and_writes_these(db: Db, plain_role: Db) -> None:
    role = sql.Identifier(one(plain_role, "SELECT current_user::text AS name")["name"])
    db.execute(sql.SQL("REVOKE ALL ON jobs FROM {}").format(role))
    db.execute(sql.SQL("GRANT SELECT (id, status, progress), UPDATE (progress) ON jobs TO {}").format(role))
    job_id = running(db)
    assert change(plain_role, "UPDATE jobs SET progress = 60 WHERE id = $1", job_id) == 1
    assert one(plain_role, "SELECT status, progress FROM jobs") == {"status": "running", "progress": 60}
    for statement in ("SELECT data FROM jobs", "SELECT * FROM jobs", "UPDATE jobs SET status = 'completed'"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            plain_role.execute(statement.encode())


def test_a_role_with_rights_on_claimable_loops_over_it(db: Db, plain_role: Db) -> None:
    role = sql.Identifier(one(plain_role, "SELECT current_user::text AS name")["name"])
    db.execute(sql.SQL("GRANT SELECT, UPDATE ON claimable TO {}").format(role))
    expected = insert(plain_role, 3)
    assert sorted(loop_over(plain_role, "claimable")) == sorted(expected)
