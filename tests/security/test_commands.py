"""The command, as a member of each role: what it needs, it may do."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from howdah import JobQueue
from howdah.embedded.server import psql_program
from tests.cli.runner import Outcome, command, howdah
from tests.security.test_redaction import CANARY, sow
from tests.tenant import Tenant

APP = """
import howdah

queue = howdah.JobQueue()

@queue.job
def greet(name: str, job: howdah.Job) -> str:
    job.progress(50, "greeting")
    job.event("greeted", name=name)
    queue.enqueue("thank", {"name": name})
    return name

@queue.job
async def thank(name: str) -> None:
    pass

@queue.job(process=True)
def apart() -> int:
    return 7

@queue.job(max_attempts=1)
def fail() -> None:
    raise ValueError("broken")

@queue.job
def in_one(job: howdah.Job) -> None:
    import psycopg
    with psycopg.connect(queue.dsn) as conn:
        job.complete("in one transaction", conn=conn)

@queue.periodic(every=3600)
@queue.job
async def hourly() -> None:
    pass
"""


@pytest.fixture(scope="module")
def tenant(server_dsn: str) -> Iterator[Tenant]:
    with Tenant(server_dsn, "cli_roles") as tenant:
        yield tenant


def run(tenant: Tenant, role: str, *argv: str) -> Outcome:
    return howdah(argv[0], "--schema", tenant.schema, *argv[1:], dsn=tenant.dsn(role))


def test_a_worker_works_as_a_worker_and_a_producer_feeds_it(tenant: Tenant, tmp_path: Path) -> None:
    (tmp_path / "roles_app.py").write_text(APP)
    ids = [
        run(tenant, "producer", "enqueue", job_type, *data).out.strip()
        for job_type, *data in (("greet", '{"name": "Ann"}'), ("apart",), ("fail", "--max-attempts", "1"), ("in_one",))
    ]
    (tmp_path / "lines").write_text('{"name": "a"}\n{"name": "b"}\n')
    assert run(tenant, "producer", "enqueue", "thank", str(tmp_path / "lines"), "--many").code == 0
    done = subprocess.run(
        [*command("--dsn", tenant.dsn("worker"), "work", "roles_app:queue"), "--schema", tenant.schema, "--drain"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "permission denied" not in done.stderr
    with JobQueue(tenant.admin_dsn, tenant.schema) as queue:
        jobs = [queue.get(each) for each in ids]
        assert [job.status for job in jobs] == ["completed", "completed", "failed", "completed"]
        assert [job.result for job in jobs] == ["Ann", 7, None, "in one transaction"]
        assert [event.name for event in queue.events(jobs[0])] == ["greeted", "completed"]
        assert queue.stats()["thank"].completed == 3
        assert queue.schedules.get("hourly").next_run_at is not None


def test_a_viewer_looks_at_everything_and_sees_no_secret(tenant: Tenant) -> None:
    with JobQueue(tenant.admin_dsn, tenant.schema) as queue:
        sow(queue)
        (failed,) = queue.list(job_type="failed").jobs
    assert CANARY in run(tenant, "owner", "show", str(failed.id)).out
    for argv in (
        ("list",),
        ("list", "--json"),
        ("show", str(failed.id)),
        ("show", "--json", str(failed.id)),
        ("stats",),
        ("logs", str(failed.id)),
        ("watch", str(failed.id)),
        ("watch", "--json", str(failed.id)),
        ("schedule", "list"),
        ("top", "--json"),
    ):
        outcome = run(tenant, "viewer", *argv)
        # Its exit code shows that the job has failed.
        assert outcome.code == (1 if argv[0] == "watch" else 0), (argv, outcome)
        assert outcome.out
        assert CANARY not in outcome.out + outcome.err
    # Its message is that no worker is there, and not that a permission is missing.
    assert "permission" not in run(tenant, "viewer", "health").err


def test_an_operator_interferes(tenant: Tenant) -> None:
    with tenant.queue("producer") as queue:
        job = queue.enqueue("operated")
    for argv in (
        ("pause", "operated"),
        ("resume", "operated"),
        ("cancel", str(job.id)),
        ("retry", str(job.id)),
        ("reprioritise", "7", "--type", "operated"),
        ("reschedule", "--type", "operated", "--delay", "1h"),
        ("cancel", "--type", "operated", "--dry-run"),
        ("cancel", "--type", "operated", "--older-than", "0s"),
        ("retry", "--type", "operated", "--status", "cancelled"),
        ("delete", "--type", "operated"),
        ("recover",),
        ("prune",),
        ("schedule", "add", "minutely", "operated", "--every", "1m"),
        ("schedule", "run", "minutely"),
        ("schedule", "delete", "minutely"),
    ):
        outcome = run(tenant, "operator", *argv)
        assert outcome.code == 0, (argv, outcome)


@pytest.mark.parametrize(
    ("role", "argv"),
    [
        ("producer", ("list",)),
        ("viewer", ("cancel", "0" * 32)),
        ("viewer", ("retry", "--type", "a")),
        ("worker", ("stats",)),
        ("operator", ("enqueue", "a")),
    ],
)
def test_a_missing_permission_is_an_error_with_its_remedy(tenant: Tenant, role: str, argv: tuple[str, ...]) -> None:
    outcome = run(tenant, role, *argv)
    assert outcome.code == 1
    assert "permission denied" in outcome.err
    assert "howdah migrate --schema cli_roles --roles" in outcome.err


def psql(dsn: str, script: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("psql") or str(psql_program())
    return subprocess.run(
        [program, "-X", "--no-password", "--quiet", dsn], input=script, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("is_there", [False, True])
def test_the_printed_roles_run_in_psql_as_they_are(dsn: str, is_there: bool) -> None:
    with Tenant(dsn, "cli_roles_sql", install=False) as tenant:
        if is_there:
            howdah("migrate", "--schema", tenant.schema, dsn=dsn)
        script = howdah("migrate", "--roles", "--sql", "--schema", tenant.schema).out
        # Twice: the second time there is nothing to do.
        for _ in range(2):
            done = psql(dsn, script)
            assert (done.returncode, done.stderr) == (0, "")
        with JobQueue(dsn, tenant.schema) as queue:
            assert queue.check_schema() == []
            assert not queue.migrate(roles=True).changed
        tenant.log_in()
        with tenant.queue("producer") as queue:
            queue.enqueue("a")


def test_the_printed_roles_do_not_fit_another_version(dsn: str) -> None:
    with Tenant(dsn, "cli_roles_sql", install=False) as tenant:
        howdah("migrate", "--schema", tenant.schema, dsn=dsn)
        tenant.admin.execute(
            sql.SQL("UPDATE {} SET version = version + 1").format(sql.Identifier(tenant.schema, "schema_version"))
        )
        done = psql(dsn, howdah("migrate", "--roles", "--sql", "--schema", tenant.schema).out)
        assert "run the command migrate" in done.stderr
        owner = tenant.admin.execute("SELECT to_regrole('cli_roles_sql_owner') AS there").fetchone()
        assert owner == {"there": None}


def test_it_prints_what_it_made(dsn: str) -> None:
    with Tenant(dsn, "cli_roles_said", install=False) as tenant:
        outcome = howdah("migrate", "--roles", "--schema", tenant.schema, dsn=dsn)
        assert "its roles are cli_roles_said_owner, cli_roles_said_producer" in outcome.out
        assert howdah("migrate", "--roles", "--check", dsn=dsn).code == 2


def test_a_segment_in_use_by_a_foreign_session_is_reported_by_pid_and_name(tenant: Tenant) -> None:
    with psycopg.connect(tenant.admin_dsn, application_name="reader") as reader, tenant.queue("operator") as queue:
        tenant.admin.execute(
            sql.SQL("INSERT INTO {} (job_type, status) VALUES ('a', 'completed')").format(
                sql.Identifier(tenant.schema, "jobs")
            )
        )
        reader.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(tenant.schema, "archive_open")))
        assert queue.prune(keep=0, tries=1)[0].reason == f"in use by pid {reader.info.backend_pid} (reader)"
