"""What a viewer sees: where things stand, and nothing of what is in them. And functions with the rights of the owner run no foreign code."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from howdah import JobQueue, NotPermitted
from howdah.db.plan import call
from tests.cli.runner import howdah
from tests.tenant import Tenant

CANARY = "s3cret-canary"
READABLE = (
    "job_details",
    "live_jobs",
    "event_details",
    "schedule_details",
    "types",
    "workers",
    "settings",
    "archive_counts",
    "schema_version",
)


class Sealed:
    """A codec that takes nothing but what it has made."""

    def encode(self, value: Any) -> Any:
        return {"sealed": json.dumps(value)}

    def decode(self, value: Any) -> Any:
        assert set(value) == {"sealed"}
        return json.loads(value["sealed"])


@pytest.fixture(scope="module")
def tenant(server_dsn: str) -> Iterator[Tenant]:
    with Tenant(server_dsn, "redaction_test") as tenant:
        yield tenant


@pytest.fixture
def canaries(tenant: Tenant) -> Tenant:
    """Jobs of every status, with secrets wherever a user's own text can be."""
    for table in ("live", "archive", "archive_counts", "events", "schedules"):
        tenant.admin.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(tenant.schema, table)))
    with JobQueue(tenant.admin_dsn, tenant.schema) as queue:
        sow(queue)
    return tenant


def sow(queue: JobQueue) -> None:
    secret = {"password": CANARY}
    queue.enqueue("waits", secret, key=CANARY, meta={"trace": CANARY})
    for ending in ("completed", "failed", "again", "cancelled", "running"):
        queue.enqueue(ending, secret)
        (job,) = queue.claim([ending])
        queue.start(job)
        queue.progress(job, 40, "loading")
        queue.event(job, "opened", secret)
        log_line = {"names": ["INFO"], "kinds": ["log"], "data": [Jsonb({"message": CANARY})]}
        queue._database.run(call("record_events", ids=[job.id], tokens=[job.token], **log_line))
        queue.checkpoint(job, secret)
        if ending == "completed":
            queue.complete(job, secret)
        elif ending == "cancelled":
            queue.cancel(job.id, reason=CANARY)
        elif ending in ("failed", "again"):
            queue.fail(job, ValueError(CANARY), give_up=ending == "failed")
    queue.schedules.set("nightly", "waits", secret, cron="0 3 * * *")


def everything(conn: psycopg.Connection[dict[str, Any]], schema: str) -> str:
    """All that a login can read, as one text."""
    rows = []
    for name in READABLE:
        rows += conn.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(schema, name))).fetchall()
    rows += conn.execute(sql.SQL("SELECT * FROM {}()").format(sql.Identifier(schema, "read_events"))).fetchall()
    return json.dumps(rows, default=str)


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_no_secret_is_anywhere_that_a_viewer_can_read(canaries: Tenant, role: str) -> None:
    with canaries.connect("owner") as conn:
        assert everything(conn, canaries.schema).count(CANARY) > 20
    with canaries.connect(role) as conn:
        seen = everything(conn, canaries.schema)
        assert CANARY not in seen
        for word in ("[redacted]", "loading", "opened", "nightly", "waits", "failed"):
            assert word in seen
        # Nor can it be guessed: a filter sees what the reader does.
        guess = sql.SQL("SELECT count(*) AS n FROM {} WHERE data @> %s OR key = %s").format(
            sql.Identifier(canaries.schema, "job_details")
        )
        assert conn.execute(guess, (json.dumps({"password": CANARY}), CANARY)).fetchone() == {"n": 0}


def test_a_viewer_reads_by_the_same_verbs(canaries: Tenant) -> None:
    with canaries.queue("viewer") as queue:
        jobs = {job.job_type: job for job in queue.list().jobs}
        assert {job.data for job in jobs.values()} == {"[redacted]"}
        failed = jobs["failed"]
        assert (failed.status, failed.percent, failed.last_error) == ("failed", 40, "[redacted]")
        (error,) = failed.errors
        assert (error.kind, error.error, error.attempt) == ("failed", "[redacted]", 1)
        assert {event.name: event.data for event in queue.events(failed)}["opened"] == "[redacted]"
        assert queue.events(failed)[-1].data["cause"] == "failed"
        assert (jobs["waits"].key, jobs["waits"].meta) == ("[redacted]", {"redacted": True})
        assert queue.schedules.get("nightly").data == "[redacted]"
        assert queue.stats()["failed"].failed == 1
        assert queue.queue_position(jobs["waits"]) is not None
        updates = list(queue.watch(failed))
        assert updates[-1].job is not None
        assert updates[-1].job.status == "failed"
        assert CANARY not in repr(updates)
        ended = queue.wait_for(jobs["completed"], timeout=180)
        with pytest.raises(NotPermitted, match="may not see its result"):
            ended.value()


def test_a_viewer_watches_a_workflow_and_reads_none_of_its_values(canaries: Tenant) -> None:
    secret = {"password": CANARY}
    with JobQueue(canaries.admin_dsn, canaries.schema) as owner:
        with owner.workflow("sealed", data=secret, key=CANARY, meta={"trace": CANARY}) as flow:
            flow.add("of a workflow", password=CANARY)
        (job,) = owner.claim(["of a workflow"])
        owner.start(job)
        owner.event(job, "opened", secret)
        owner.fail(job, CANARY, give_up=True)
    with canaries.queue("viewer") as viewer:
        seen = viewer.workflows.get(flow.id)
        updates = list(seen.watch())
        assert [update.name for update in updates] == ["running", "opened", "failed", "failed", None]
        assert updates[-1].workflow is not None
        assert (updates[-1].workflow.status, updates[-1].workflow.data) == ("failed", "[redacted]")
        assert seen.wait_for(180).status == "failed"
        assert CANARY not in repr([(update, update.data, update.workflow) for update in updates])


def test_what_a_job_waits_for_does_not_reveal_its_key(canaries: Tenant) -> None:
    with canaries.queue("viewer") as viewer, JobQueue(canaries.admin_dsn, canaries.schema) as owner:
        job = owner.enqueue("keyed", per=CANARY)
        owner.pause("keyed", per=CANARY)
        seen, shown = viewer.queue_position(job), owner.queue_position(job)
        assert seen is not None
        assert shown is not None
        assert (seen.because, shown.because) == ("its key is paused", f"its key '{CANARY}' is paused")
        owner.delete(job)


def test_a_search_for_data_by_a_viewer_is_refused(canaries: Tenant) -> None:
    wanted = {"password": CANARY}
    with canaries.queue("viewer") as queue:
        with pytest.raises(NotPermitted, match="may not see the data"):
            queue.list(data=wanted)
        with pytest.raises(NotPermitted, match="may not see the flow keys"):
            queue.list(per="acme")
        with pytest.raises(NotPermitted, match="may not see the data"):
            asyncio.run(queue.alist(data=wanted))
        assert len(queue.list(job_type="waits")) == 1
    argv = ("list", "--schema", canaries.schema, "--data", json.dumps(wanted))
    told = howdah(*argv, dsn=canaries.dsn("viewer"))
    assert (told.code, told.out) == (1, "")
    assert "SELECT on the table live" in told.err
    assert "waits" in howdah(*argv, dsn=canaries.dsn("owner")).out


def test_what_is_redacted_is_no_riddle_for_a_codec(canaries: Tenant) -> None:
    with JobQueue(canaries.admin_dsn, canaries.schema, codec=Sealed()) as queue:
        queue.enqueue("sealed", {"password": CANARY})
        (job,) = queue.claim(["sealed"])
        queue.start(job)
        queue.event(job, "opened", {"password": CANARY})
        queue.fail(job, CANARY, give_up=True)
        assert queue.get(job.id).data == {"password": CANARY}
    with canaries.queue("viewer", codec=Sealed()) as queue:
        seen = queue.get(job.id)
        assert (seen.data, seen.last_error, seen.errors[0].error) == ("[redacted]",) * 3
        assert next((event.name, event.data) for event in queue.events(job.id)) == ("opened", "[redacted]")
        assert {update.data for update in queue.watch(job.id, kinds=["event"])} == {"[redacted]"}
        assert queue.list(job_type="sealed")[0].data == queue.schedules.get("nightly").data == "[redacted]"
        with contextlib.closing(queue.watch_all(types=["sealed"], kinds=["event"], after="")) as updates:
            assert next(updates).data == "[redacted]"


def test_a_result_that_only_looks_redacted_is_one(canaries: Tenant) -> None:
    with JobQueue(canaries.admin_dsn, canaries.schema) as queue, canaries.queue("viewer") as viewer:
        queue.enqueue("says so")
        (job,) = queue.claim(["says so"])
        queue.complete(job, "[redacted]")
        assert queue.wait_for(job).value() == "[redacted]"
        with pytest.raises(NotPermitted, match="may not see its result"):
            viewer.wait_for(job.id).value()


def test_a_role_that_may_read_the_table_sees_everything(canaries: Tenant) -> None:
    login = canaries.login("viewer")
    live = sql.Identifier(canaries.schema, "live")
    canaries.admin.execute(sql.SQL("GRANT SELECT ON {} TO {}").format(live, sql.Identifier(login)))
    try:
        with canaries.queue("viewer") as queue:
            assert {job.data["password"] for job in queue.list().jobs} == {CANARY}
            assert len(queue.list(data={"password": CANARY}).jobs) == len(queue.list().jobs)
            assert queue.schedules.get("nightly").data == {"password": CANARY}
    finally:
        canaries.admin.execute(sql.SQL("REVOKE ALL ON {} FROM {}").format(live, sql.Identifier(login)))


HOSTILE = """
CREATE TABLE {0}.loot (who text, what text);
GRANT ALL ON {0}.loot TO PUBLIC;
CREATE FUNCTION {0}.steal(varchar, varchar) RETURNS boolean LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO {0}.loot VALUES (current_user, 'operator'); RETURN $1::text = $2::text; END $$;
CREATE OPERATOR {0}.= (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = {0}.steal);
CREATE OPERATOR {0}.<> (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = {0}.steal);
CREATE FUNCTION {0}.now() RETURNS timestamptz LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO {0}.loot VALUES (current_user, 'now'); RETURN clock_timestamp(); END $$;
CREATE FUNCTION {0}.length(varchar) RETURNS int LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO {0}.loot VALUES (current_user, 'length'); RETURN 1; END $$;
CREATE FUNCTION {0}.array_agg(varchar) RETURNS varchar[] LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO {0}.loot VALUES (current_user, 'array_agg'); RETURN ARRAY[$1]; END $$;
CREATE FUNCTION {0}.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO {0}.loot VALUES (current_user, 'pg_notify'); END $$;
CREATE TYPE {0}.mine AS (it text);
CREATE FUNCTION {0}.cast_it(jsonb) RETURNS {0}.mine LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO {0}.loot VALUES (current_user, 'cast'); RETURN ROW('x'); END $$;
CREATE CAST (jsonb AS {0}.mine) WITH FUNCTION {0}.cast_it(jsonb) AS IMPLICIT;
CREATE TABLE {0}.live (id uuid, job_type text);
CREATE TABLE {0}.types (job_type text);
"""


def test_planted_objects_are_never_run_as_the_owner(tenant: Tenant) -> None:
    """By a login with no more than a schema of its own, which is first in the search path of all."""
    planter = tenant.login("producer")
    tenant.execute("CREATE SCHEMA redaction_hostile AUTHORIZATION {}", planter)
    try:
        with tenant.connect("producer") as conn:
            conn.execute("GRANT USAGE ON SCHEMA redaction_hostile TO PUBLIC")
            conn.execute(HOSTILE.format("redaction_hostile").encode())
        for role in ("producer", "worker", "operator"):
            with tenant.connect(role) as conn:
                conn.execute("SET search_path = redaction_hostile, pg_temp, pg_catalog")
                conn.execute("CREATE TEMP TABLE live (id uuid)")
                conn.execute("CREATE TEMP TABLE types (job_type text)")
                use_everything(conn, tenant.schema, role)
        who = tenant.admin.execute("SELECT DISTINCT who FROM redaction_hostile.loot").fetchall()
        assert f"{tenant.schema}_owner" not in {row["who"] for row in who}
        # The trap works: a call of it is recorded.
        tenant.admin.execute("SELECT redaction_hostile.now()")
        assert tenant.admin.execute("SELECT count(*) > 0 AS caught FROM redaction_hostile.loot").fetchone() == {
            "caught": True
        }
    finally:
        tenant.admin.execute("DROP SCHEMA redaction_hostile CASCADE")


def use_everything(conn: psycopg.Connection[dict[str, Any]], schema: str, role: str) -> None:
    def ask(function: str, arguments: str = "") -> list[dict[str, Any]]:
        return conn.execute(f'SELECT * FROM "{schema}".{function}({arguments})'.encode()).fetchall()

    if role in ("producer", "worker"):
        ask("enqueue", "'a', p_key => 'k', p_timeout => '1 h'")
        ask("enqueue_many", "'a', ARRAY['1', '2']::jsonb[], ARRAY['x', 'y']")
        conn.execute(f"INSERT INTO \"{schema}\".jobs (job_type) VALUES ('a')".encode())
    if role == "worker":
        boot = "'018f0000-0000-7000-8000-000000000001'"
        ask("declare_type", "'a', p_max_attempts => 5")
        ask("declare_type", "'ordered', p_ordered => true")
        ask("enqueue", "'ordered'")
        ask("register_worker", f"'w', {boot}")
        ask("heartbeat", f"'w', {boot}")
        (first, second, third, *_) = ask("claim", "'w', ARRAY['a', 'ordered'], 10, 10")
        ask("progress", f"ARRAY['{first['id']}']::uuid[], ARRAY[{first['token']}], ARRAY[50.0]")
        ask("record_events", f"ARRAY['{first['id']}']::uuid[], ARRAY[{first['token']}], ARRAY['told']")
        ask("complete", f"ARRAY['{first['id']}']::uuid[], ARRAY[{first['token']}]")
        ask("fail", f"ARRAY['{second['id']}']::uuid[], ARRAY[{second['token']}], ARRAY['boom']")
        ask("snooze", f"ARRAY['{third['id']}']::uuid[], ARRAY[{third['token']}]")
        ask("unregister_worker", f"'w', {boot}")
    if role in ("worker", "operator"):
        ask("schedule", "'s', 'a', p_every => '1 h'")
        ask("recover")
        ask("recover_stale_jobs", "'0'")
        ask("rotate")
        ask("bound_segments")
        ask("compact_counts", "1")
        ask("prune")
    if role == "operator":
        ids = f'ARRAY(SELECT id FROM "{schema}".jobs)'
        ask("pause_type", "'a'")
        ask("resume_type", "'a'")
        ask("reprioritise", f"{ids}, 7")
        ask("reschedule", ids)
        ask("cancel", ids)
        ask("retry", ids)
        ask("run_schedule", "'s'")
        ask("count_selected", "p_before => now()")
        ask("change_selected", "'cancel', '{a}', p_before => now()")
        ask("change_selected", "'retry', '{a}', '{cancelled}', p_before => now()")
        ask("delete_jobs", ids)
        ask("delete_schedule", "'s'")
