"""Names are parameters: whatever they hold, they are stored and found as they are, or refused with a reason."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from howdah import HowdahError, JobQueue
from howdah.db import statements
from tests.cli.runner import howdah, schema_of_its_own
from tests.conftest import Db

QUOTES = [
    "'; DROP TABLE howdah.live; --",
    '"; DROP SCHEMA howdah CASCADE; --',
    "$$; SELECT pg_reload_conf(), pg_sleep(9); $$",
    "\\'; DELETE FROM howdah.live --",
    "%(job_type)s %s %% %b",
    "{0} :name ?",
    "' OR true --",
    "*",
    "howdah.live",
]
NAMES = st.sampled_from(QUOTES) | st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=50)
ANYTHING = NAMES | st.text(min_size=0, max_size=60)


def objects(dsn: str) -> list[Any]:
    """Everything that the schema is made of but for segments, which come and go, and what is in it but for jobs."""
    with psycopg.connect(dsn) as conn:
        return conn.execute(
            "SELECT 'class', relname::text FROM pg_class WHERE relnamespace = 'howdah'::regnamespace"
            " AND relname !~ '^(archive|events)_[0-9]'"
            " UNION ALL SELECT 'proc', proname::text FROM pg_proc WHERE pronamespace = 'howdah'::regnamespace"
            " UNION ALL SELECT 'schema', nspname::text FROM pg_namespace WHERE nspname !~ '^pg_'"
            " UNION ALL SELECT 'role', rolname::text FROM pg_roles ORDER BY 1, 2"
        ).fetchall()


@pytest.fixture
def unchanged(dsn: str) -> Any:
    before = objects(dsn)
    with JobQueue(dsn) as queue:
        bystander = queue.enqueue("bystander", {"n": 1})
    yield
    assert objects(dsn) == before
    with JobQueue(dsn) as queue:
        job = queue.get(bystander)
        assert (job.status, job.data, job.token) == ("pending", {"n": 1}, 0)


@settings(max_examples=10)
@given(job_type=NAMES, key=NAMES, worker=NAMES, name=NAMES, value=NAMES)
@example(*QUOTES[:5])
def test_every_name_is_stored_and_found_as_it_is(
    unchanged: None, server_dsn: str, job_type: str, key: str, worker: str, name: str, value: str
) -> None:
    with JobQueue(server_dsn) as queue:
        job = queue.enqueue(job_type, {value: value}, key=key, meta={value: value})
        assert queue.enqueue(job_type, key=key).id == job.id
        assert queue.pause(job_type, value)
        # A name with a star is a pattern, unless the type is known: now it is.
        assert queue.list(job_type=job_type, data={value: value})[0].id == job.id
        assert queue.claim([job_type]) == []
        assert queue.resume(job_type)
        (held,) = queue.claim([job_type], worker_id=worker)
        queue.start(held)
        queue.progress(held, 10, name)
        queue.event(held, name, {value: value})
        (told,) = queue.events(job, kinds=["event"])
        assert (told.name, told.data) == (name, {value: value})
        queue.fail(held, value, give_up=True)
        ended = queue.get(job)
        assert (ended.job_type, ended.key, ended.current_stage, ended.last_error) == (job_type, key, name, value)
        made = queue.schedules.set(name, job_type, {value: value}, every=60)
        assert queue.schedules.get(name) == made or queue.schedules.get(name).data == made.data
        queue.cancel(queue.schedules.run(name), value)
        assert queue.schedules.delete(name)
        assert queue.stats()[job_type].failed >= 1


@settings(max_examples=12)
@given(text=ANYTHING)
@example("\0")
def test_an_invalid_name_is_refused_with_a_reason_and_changes_nothing(
    unchanged: None, server_dsn: str, text: str
) -> None:
    with JobQueue(server_dsn) as queue:
        calls: list[Any] = [
            lambda: queue.enqueue(text),
            lambda: queue.enqueue("x", key=text),
            lambda: queue.claim([text], worker_id=text),
            lambda: queue.list(status=text, job_type=text),  # type: ignore[arg-type]
            lambda: queue.list(before=text),
            lambda: queue.get(text),
            lambda: queue.schedules.set(text, "x", cron=text),
            lambda: queue.schedules.set("x", "x", cron="* * * * *", timezone=text),
            lambda: queue.schedules.set("x", "x", every=60, missed=text),  # type: ignore[arg-type]
            lambda: next(iter(queue.watch_all(after=f"x{text}"))),
            lambda: JobQueue(server_dsn, text),
        ]
        for call in calls:
            with contextlib.suppress(HowdahError):
                call()
        queue.schedules.delete("x")


@settings(max_examples=10)
@given(text=NAMES)
def test_plain_sql_takes_them_as_values_too(unchanged: None, server_dsn: str, text: str) -> None:
    with psycopg.connect(server_dsn, autocommit=True) as conn:
        conn.execute("SET search_path = howdah")
        row = conn.execute(
            "INSERT INTO jobs (job_type, worker_id, current_stage, last_error) VALUES (%s, %s, %s, %s) RETURNING id",
            (text, text, text, text),
        ).fetchone()
        assert row is not None
        conn.execute("UPDATE jobs SET current_stage = %s, last_error = %s WHERE id = %s", (text, text, row[0]))
        conn.execute("SELECT * FROM claim_job_batch(%s, ARRAY[%s]::varchar[], 5)", (text, text))
        found = conn.execute("SELECT job_type, last_error FROM jobs WHERE id = %s", row).fetchone()
        assert found == (text, text)
        for statement in (
            "SELECT * FROM recover_stale_jobs('0 s')",
            "SELECT * FROM recover()",
            "SELECT * FROM prune('0 s')",
        ):
            conn.execute(statement.encode())
        conn.execute("DELETE FROM live WHERE id = %s", row)


@settings(max_examples=2)
@given(text=NAMES)
def test_the_command_takes_them_as_values_too(unchanged: None, server_dsn: str, text: str) -> None:
    given_as = f"={text}"
    for argv in (
        ["enqueue", "--key" + given_as, "--data", f"k={text}", "--", text],
        ["list", "--type" + given_as, "--before" + given_as],
        ["list", "--type" + given_as],
        ["pause", "--", text],
        ["resume", "--", text],
        ["schedule", "add", "--cron" + given_as, "--", text, text],
        ["schedule", "show", "--", text],
        ["health", "--worker" + given_as],
        ["cancel", "--reason" + given_as, "--", text],
        ["stats", "--schema" + given_as],
    ):
        assert howdah(*argv, dsn=server_dsn).code in (0, 1, 2, 3), argv
    howdah("resume", "--", text, dsn=server_dsn)


@pytest.mark.parametrize("schema", ["select", "a" * 48])
def test_a_schema_may_have_any_lawful_name_also_that_of_a_keyword(dsn: str, schema: str) -> None:
    with schema_of_its_own(dsn, schema), JobQueue(dsn, schema) as queue:
        queue.migrate()
        queue.enqueue("work", {"n": 1})
        (job,) = queue.claim(["work"])
        queue.complete(job)
        queue.prune()
        assert queue.stats()["work"].completed == 1
        with psycopg.connect(dsn) as conn:
            row = conn.execute(
                "SELECT max(length(relname)) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
                " WHERE n.nspname = %s",
                (schema,),
            ).fetchone()
        assert row is not None
        assert row[0] < 63


def test_no_sql_is_put_together_from_values_inside_of_the_database() -> None:
    """Each EXECUTE, with what goes into it: identifiers by %I, literals by %L, and regclass, which quotes itself."""
    allowed = {
        "adopt": {"p_table"},
        "prune": {"v_tables"},
        "bound_segments": {"v_segment"},
        "make_segment": {"p_number"},
        "rotate": {"segment"},
        "keep_members": {"v_columns"},
    }
    for name in statements.names("functions"):
        text = re.sub(r"--[^\n]*", "", statements.source(f"functions/{name}"))
        dynamic = re.findall(r"(?<!ROW )\bEXECUTE\b(?! FUNCTION)(.*?);", text, flags=re.DOTALL)
        if name not in allowed:
            assert not dynamic, name
        for statement in dynamic:
            template = "".join(re.findall(r"'([^']*)'", statement))
            bare = re.findall(r"%(?:\d\$)?([a-zA-Z])", template)
            assert set(bare) <= {"I", "L"} or name in ("adopt", "prune", "keep_members"), f"{name}: {statement}"
    assert "p_table regclass" in statements.source("functions/adopt")
    assert "format('howdah.%I'" in statements.source("functions/prune")
    assert "string_agg(format('%I', a.attname)" in statements.source("functions/keep_members")


def test_what_is_sent_holds_no_value(dsn: str, queue: JobQueue, db: Db) -> None:
    """Neither in the text of a statement, which pg_stat_activity shows, nor in the name of a connection."""
    canary = "canary-6f1d"
    queue.enqueue(canary, {"secret": canary}, key=canary, meta={"tag": canary})
    queue.list(job_type=canary, data={"secret": canary})
    (job,) = queue.claim([canary], worker_id=canary)
    queue.complete(job, canary)
    rows = db.execute("SELECT query, application_name FROM pg_stat_activity WHERE pid <> pg_backend_pid()").fetchall()
    assert any('"howdah"' in row["query"] for row in rows)
    assert canary not in str(rows)
