"""``howdah psql``: psql on the queue's database, with the queue's schema in sight."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from howdah import embedded
from howdah.cli.command import Command
from howdah.cli.connect import open_queue
from howdah.config import configured_dsn


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="for psql; after -- if it begins with a dash")


def _run(args: argparse.Namespace) -> int:
    with open_queue(args) as queue:
        program = _program(is_embedded=configured_dsn(args.dsn) is None)
        dsn, password = _apart(queue.dsn)
        environment = os.environ | {"PGOPTIONS": f"-c search_path={queue.schema}"} | password
        # Ctrl-C is psql's: it cancels a query there.
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            return subprocess.call(
                [program, dsn, *args.arguments], env=environment, preexec_fn=_interruptible, close_fds=True
            )
        finally:
            signal.signal(signal.SIGINT, previous)


def _program(*, is_embedded: bool) -> str:
    """A psql of the machine may be older than the embedded server."""
    installed = None if is_embedded else shutil.which("psql")
    return installed or str(embedded.psql_program())


def _apart(dsn: str) -> tuple[str, dict[str, str]]:
    """The DSN without its password, and that for the environment: a command line can be read by everybody on the machine."""
    parts = conninfo_to_dict(dsn)
    password = parts.pop("password", None)
    return make_conninfo("", **parts), {} if password is None else {"PGPASSWORD": str(password)}


def _interruptible() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


COMMAND = Command(
    name="psql",
    summary="open psql on the queue's database",
    story="""
        The table jobs and all functions are in sight without a prefix. On the embedded database it uses the psql that
        came with it, and keeps the server up for as long as you stay. The exit code is psql\'s.
    """,
    examples=(
        ("howdah psql", "look around: \\dv, \\df, SELECT * FROM jobs"),
        ("howdah psql -- -c 'SELECT status, count(*) FROM jobs GROUP BY 1'", "one statement"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
