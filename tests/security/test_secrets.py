"""A canary in everything that a user passes: it is in no log, no message, no name of a process."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped, unused-ignore]
import psycopg
import pytest

from howdah import InvalidInput, Job, JobQueue, Schedule
from howdah.cli.process.log_format import JsonFormatter, LineFormatter
from howdah.cli.render.terminal_escape import without_password
from howdah.handlers.outcome import Completed, Failed
from howdah.model.failure import loggable
from tests.cli.runner import command, howdah, howdah_process
from tests.conftest import Db
from tests.security import canary
from tests.security.canary import CANARY
from tests.security.working import without_own_words, work
from tests.worker.in_process import drain

# A worker's log


@pytest.mark.parametrize("how", [["--log-level", "debug"], ["--json", "--log-level", "debug"]])
def test_a_worker_logs_nothing_of_its_jobs(dsn: str, queue: JobQueue, how: list[str]) -> None:
    jobs = [
        queue.enqueue(name, {"secret": CANARY}, key=f"k{CANARY}", meta={"tag": CANARY}, max_attempts=1)
        for name in sorted(canary.queue.handlers)
        if name not in ("gives_up", "tries_again", "returns_what_is_not_json")
    ]
    queue.schedules.set("often", "on_the_loop", {"secret": CANARY}, every=3600)
    done = work("tests.security.canary", dsn, "--drain", *how, HOWDAH_DEBUG="1", PYTHONASYNCIODEBUG="1")
    assert done.code == 0, done.err
    assert {queue.get(job).status for job in jobs} == {"completed", "failed", "cancelled"}
    assert CANARY in "".join(str(queue.get(job).errors[0].traceback) for job in jobs if "fails" in job.job_type)
    said = without_own_words(done)
    assert "fails_on_the_loop" in said
    assert "first line" in said, "the first line of an error is shown on purpose, and nothing behind it"
    assert CANARY not in said


@pytest.mark.parametrize("kind", ["async", "thread"])
def test_an_asyncio_loop_in_debug_mode_shows_no_arguments_or_results(
    queue: JobQueue, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    async def loop_handler(secret: str) -> dict[str, str]:
        await asyncio.sleep(0)
        return {"secret": secret}

    def thread_handler(secret: str) -> dict[str, str]:
        return {"secret": secret}

    queue.job(name="work")(loop_handler if kind == "async" else thread_handler)
    job = queue.enqueue("work", {"secret": CANARY})

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.slow_callback_duration = 0  # so that everything is slow, and shown
        async with asyncio.timeout(60):
            await queue.run_worker(drain=True, poll=0.05)

    with caplog.at_level(logging.DEBUG):
        asyncio.run(main(), debug=True)
    assert queue.get(job).result == {"secret": CANARY}
    assert "Executing" in caplog.text
    assert CANARY not in caplog.text


def test_the_detail_of_the_database_on_a_refused_row_is_not_repeated(
    queue: JobQueue, db: Db, caplog: pytest.LogCaptureFixture
) -> None:
    """PostgreSQL shows the whole row that fails a check, and with it the data."""

    @queue.job(name="work")
    async def work_(secret: str) -> dict[str, str]:
        return {"secret": secret}

    job = queue.enqueue("work", {"secret": CANARY})
    db.execute("ALTER TABLE archive ADD CONSTRAINT no_results_at_all CHECK (result IS NULL)")
    try:
        with caplog.at_level(logging.DEBUG):
            drain(queue)
    finally:
        db.execute("ALTER TABLE archive DROP CONSTRAINT no_results_at_all")
    assert "the database refused" in caplog.text
    assert "violates check constraint" in caplog.text
    assert CANARY not in caplog.text
    assert "no_results" in (queue.get(job).last_error or "")


def test_an_error_of_the_database_is_logged_without_its_details(db: Db) -> None:
    with pytest.raises(psycopg.errors.NotNullViolation) as refused:
        db.execute("INSERT INTO live (id, job_type, data) VALUES (gen_random_uuid(), 'x', %s)", (f'"{CANARY}"',))
    error = refused.value
    assert CANARY in str(error)
    shown = loggable(error)
    assert (type(shown), shown.__traceback__) == (type(error), error.__traceback__)
    assert "null value" in str(shown)
    assert CANARY not in str(shown)


# What things are called


def test_what_is_printed_of_an_object_has_no_values(queue: JobQueue) -> None:
    @queue.job(name="work")
    async def work_(secret: str) -> None: ...

    secret = {"secret": CANARY}
    queue.enqueue("work", secret, meta=secret)
    (job,) = queue.claim(["work"])
    queue.event(job, "told", secret)
    queue.checkpoint(job, secret)
    queue.fail(job, ValueError(CANARY), give_up=True)
    job = queue.get(job)
    schedule = queue.schedules.set("often", "work", secret, every=60)
    assert isinstance(schedule, Schedule)
    assert isinstance(job, Job)
    things: list[Any] = [
        job, [job], schedule, *queue.events(job), *queue.watch(job), *job.errors, queue, work_, queue._context,
        queue.list(), Completed(secret), Failed(CANARY, CANARY),
    ]  # fmt: skip
    assert not [thing for thing in things if CANARY in f"{thing!r}{thing}"]


@pytest.mark.parametrize(
    "call",
    [
        lambda queue: queue.enqueue("work", {"n": {CANARY}}),
        lambda queue: queue.enqueue("work", {CANARY}),
        lambda queue: queue.enqueue("work", CANARY + "\0"),
        lambda queue: queue.enqueue("work", [CANARY, "\ud800"]),
        lambda queue: queue.enqueue("work", CANARY * 10_000),
        lambda queue: queue.enqueue("work", meta=CANARY),
        lambda queue: queue.enqueue_many("work", CANARY),
        lambda queue: queue.enqueue_many("work", [{"a": 1}, {CANARY, 2}]),
        lambda queue: queue.enqueue_many("work", type(CANARY, (), {})()),
        lambda queue: queue.enqueue("typed", {"n": CANARY}),
        lambda queue: queue.enqueue("typed", CANARY),
    ],
)
def test_what_is_refused_is_not_repeated(queue: JobQueue, call: Any) -> None:
    @queue.job(name="typed")
    async def typed(n: int) -> None: ...

    with pytest.raises(InvalidInput) as refused:
        call(queue)
    assert CANARY not in str(refused.value) or "enqueue_many takes" in str(refused.value)


# The command


@pytest.mark.parametrize(
    ("argv", "stdin"),
    [
        (["enqueue", "work", f'{{"secret": "{CANARY}"'], ""),
        (["enqueue", "work", "-"], f'{{"secret": "{CANARY}"'),
        (["enqueue", "work", "-", "--many"], f'{{"n": 1}}\n{{"secret": "{CANARY}"'),
        (["enqueue", "work", "--data", CANARY], ""),
        (["enqueue", "work", f'"{CANARY}\\u0000"'], ""),
        (["list", "--data", CANARY], ""),
        (["schedule", "add", "often", "work", CANARY, "--every", "1h"], ""),
    ],
)
@pytest.mark.parametrize("debug", ["0", "1"])
def test_bad_input_is_not_repeated(dsn: str, argv: list[str], stdin: str, debug: str) -> None:
    refused = howdah(*argv, dsn=dsn, stdin=stdin, HOWDAH_DEBUG=debug)
    assert refused.code == 2
    assert refused.err
    assert CANARY not in refused.out + refused.err


def test_tables_and_counts_show_no_data(dsn: str, queue: JobQueue) -> None:
    """``show``, ``logs`` and --json show the values of a job on request."""
    secret = {"secret": CANARY}
    queue.enqueue("work", secret)
    queue.enqueue("other", secret, meta=secret)
    (job,) = queue.claim(["work"])
    queue.checkpoint(job, secret)
    queue.complete(job, secret)
    for argv in (["list"], ["stats"], ["stats", "--json"], ["health"], ["top", "--once"], ["watch", str(job.id)]):
        shown = howdah(*argv, dsn=dsn)
        assert CANARY not in shown.out + shown.err, argv
    assert CANARY in howdah("show", str(job.id), dsn=dsn).out


# Passwords

DSNS = [
    "postgresql://ann:{}@127.0.0.1:1/jobs?connect_timeout=2",
    "postgresql://127.0.0.1:1/jobs?user=ann&password={}&connect_timeout=2",
    "host=127.0.0.1 port=1 user=ann password={} dbname=jobs connect_timeout=2",
    "host=127.0.0.1 port=1 user=ann password='{}' dbname=jobs connect_timeout=2",
]


@pytest.mark.parametrize("dsn", DSNS)
@pytest.mark.parametrize("how", ["variable", "option"])
def test_a_password_is_in_no_message_about_a_database_that_is_away(dsn: str, how: str) -> None:
    secret = dsn.format(CANARY)
    for argv in (["list"], ["stats", "--json"], ["migrate"]):
        options = [] if how == "variable" else ["--dsn", secret]
        failed = howdah(*options, *argv, HOWDAH_DEBUG="1", **({"HOWDAH_DSN": secret} if how == "variable" else {}))
        assert failed.code == 4, failed.err
        assert CANARY not in failed.out + failed.err


def test_a_wrong_password_is_not_repeated_by_the_pool_or_a_worker(dsn: str, db: Db, tmp_path: Path) -> None:
    (tmp_path / "pgpass").write_text(f"*:*:*:*:{CANARY}-in-a-file\n")
    (tmp_path / "pgpass").chmod(0o600)
    (tmp_path / "app.py").write_text(
        "from howdah import JobQueue\nqueue = JobQueue(timeout=1)\n@queue.job\nasync def work(): ...\n"
    )
    nobody = re.sub(r"user=\S+", f"user=nobody password={CANARY}", dsn)
    environment = {
        "HOWDAH_DSN": nobody,
        "PGPASSWORD": CANARY,
        "PGPASSFILE": str(tmp_path / "pgpass"),
        "HOWDAH_DEBUG": "1",
    }
    said = howdah_process("stats", **environment)
    assert said.code != 0
    assert "nobody" in said.err
    process = subprocess.Popen(
        command("work", "app", "--log-level", "debug"),
        env=os.environ | environment | {"PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    logged: list[str] = []
    while sum("nobody" in line for line in logged) < 1:
        logged.append(process.stdout.readline())
        assert logged[-1], logged
    process.kill()
    logged.append(process.communicate(timeout=180)[0])
    assert CANARY not in said.out + said.err + "".join(logged)


@pytest.mark.parametrize("dsn", [f"postgresql://ann:x@{CANARY}@host/db", f"postgresql://ann:{CANARY}/x@host/db"])
def test_a_password_that_is_not_encoded_is_not_taken_for_a_host(dsn: str) -> None:
    refused = howdah("list", HOWDAH_DSN=dsn, HOWDAH_DEBUG="1")
    assert refused.code == 2
    assert "%40" in refused.err
    assert CANARY not in refused.out + refused.err


@pytest.mark.parametrize("dsn", [*DSNS, "sslpassword={} host=x", "postgresql://h/db?sslpassword={}"])
@pytest.mark.parametrize("formatter", [LineFormatter(), JsonFormatter()])
def test_a_logged_dsn_is_masked(dsn: str, formatter: logging.Formatter) -> None:
    secret = dsn.format(CANARY)
    record = logging.makeLogRecord({"name": "shop", "msg": "connecting to %s", "args": (secret,), "where": secret})
    assert CANARY not in formatter.format(record)
    assert CANARY not in without_password(secret)


def test_no_password_is_in_the_command_line_of_psql(dsn: str) -> None:
    """What every account of the machine can see."""
    process = subprocess.Popen(
        command("psql"),
        env=os.environ | {"HOWDAH_DSN": f"{dsn} password={CANARY}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\\echo :HOST\n")
        process.stdin.write("SELECT 'ready';\n")
        process.stdin.flush()
        while "ready" not in (line := process.stdout.readline()):
            assert line or process.poll() is None
        seen = [" ".join(each.cmdline()) for each in psutil.Process(process.pid).children(recursive=True)]
        assert any("psql" in each for each in seen)
        assert not [each for each in seen if CANARY in each]
    finally:
        process.communicate("\\q\n", timeout=180)


def test_an_uncaught_exception_shows_no_password_of_the_queue(dsn: str) -> None:
    program = "import howdah; queue = howdah.JobQueue(); queue.stats()"
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program],
        env=os.environ | {"HOWDAH_DSN": DSNS[0].format(CANARY)},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert "DatabaseUnavailable" in done.stderr
    assert CANARY not in done.stdout + done.stderr
