"""Runs the command, inside this process or as one of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

import psycopg
from psycopg import sql

from howdah import Job, JobQueue
from howdah.cli.main import main
from tests.conftest import Db

ENTRY = "import sys; from howdah.cli.main import main; sys.exit(main())"


def default_signals() -> None:
    """For a new process: in a test run in the background, these signals may be ignored."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a call came to."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


def howdah(*argv: str, dsn: str | None = None, stdin: str = "", **environment: str) -> Outcome:
    """One call, in this process and without a terminal."""
    out, err = io.StringIO(), io.StringIO()
    options = () if dsn is None else ("--dsn", dsn)
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch("sys.stdin", io.StringIO(stdin)),
        mock.patch.dict(os.environ, _surroundings(environment), clear=True),
    ):
        code = main([*options, *argv])
    return Outcome(code, out.getvalue(), err.getvalue())


def _surroundings(environment: dict[str, str]) -> dict[str, str]:
    """Those of the tests, but for the size of whatever they are shown in."""
    return {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")} | environment


def command(*argv: str) -> list[str]:
    """The command line of a process of its own."""
    return [sys.executable, "-c", ENTRY, *argv]


def howdah_process(*argv: str, **environment: str) -> Outcome:
    done = subprocess.run(
        command(*argv), capture_output=True, text=True, env=_surroundings(environment), timeout=180, check=False
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


@contextlib.contextmanager
def schema_of_its_own(dsn: str, name: str) -> Iterator[str]:
    """The name of a schema that does not exist yet, and does not exist afterwards."""
    drop = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name))
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(drop)
        try:
            yield name
        finally:
            conn.execute(drop)


def failed_job(queue: JobQueue, job_type: str, error: BaseException | str, **options: Any) -> Job:
    """A job that has failed for good."""
    job = queue.enqueue(job_type, **options)
    (claimed,) = queue.claim([job_type])
    queue.fail(claimed, error, give_up=True)
    return job


def tell_many(db: Db, job: Job, count: int) -> None:
    """Events e1, e2, e3 … of a job."""
    db.execute(
        "SELECT count(*) FROM record_events(array_fill(%s::uuid, ARRAY[%s]), array_fill(%s::bigint, ARRAY[%s]),"
        " ARRAY(SELECT 'e' || n FROM generate_series(1, %s) AS n))",
        (job.id, count, job.token, count, count),
    )
