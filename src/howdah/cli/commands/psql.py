"""``howdah psql``: psql on the queue's database, with the queue's schema in the search path."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo

from howdah.cli.arguments.connect import open_queue
from howdah.cli.command import Command
from howdah.config import configured_dsn
from howdah.embedded.server import psql_program
from howdah.errors import InvalidOption

_SECRETS: Final = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
_SERVICE: Final = "howdah_psql"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="for psql; after -- if it begins with a dash")


def _run(args: argparse.Namespace) -> int:
    with open_queue(args) as queue:
        program = _program(is_embedded=configured_dsn(args.dsn) is None)
        # Ctrl-C is for psql, where it cancels a query.
        previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            queue._database.look_after_embedded()
            with _without_secrets(queue._database.dsn()) as (dsn, secrets):
                environment = os.environ | {"PGOPTIONS": f"-c search_path={queue.schema}"} | secrets
                return subprocess.call(
                    [program, dsn, *args.arguments], env=environment, preexec_fn=_interruptible, close_fds=True
                )
        finally:
            signal.signal(signal.SIGINT, previous)


def _program(*, is_embedded: bool) -> str:
    """A psql of the machine may be older than the embedded server."""
    installed = None if is_embedded else shutil.which("psql")
    return installed or str(psql_program())


@contextlib.contextmanager
def _without_secrets(dsn: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The DSN without its secrets, and an environment that passes them: every user of the machine can read a command line.

    By a variable, if libpq has one; else by a service file that only this user can read.
    """
    parts = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    secrets: dict[str, str] = {name: parts.pop(name) for name in _SECRETS if name in parts}
    variables = {option.keyword.decode(): option.envvar for option in Conninfo.get_defaults()}
    environment = {variable.decode(): secrets.pop(name) for name in [*secrets] if (variable := variables.get(name))}
    if not secrets:
        yield make_conninfo("", **parts), environment
        return
    if "service" in parts:
        raise InvalidOption(
            f"{', '.join(secrets)} cannot stand beside service= in the DSN: move it to the service's section"
        )
    with tempfile.TemporaryDirectory(prefix="howdah-psql-") as folder:
        file = Path(folder, "service")
        _write_service(file, secrets)
        yield make_conninfo("", **parts, service=_SERVICE), environment | {"PGSERVICEFILE": str(file)}


def _write_service(file: Path, secrets: Mapping[str, str]) -> None:
    for name, value in secrets.items():
        if value != value.strip() or "\n" in value:
            raise InvalidOption(
                f"psql cannot be given a {name} that begins or ends with a space, or has more than one line"
            )
    file.touch(mode=0o600)
    file.write_text(f"[{_SERVICE}]\n" + "".join(f"{name}={value}\n" for name, value in secrets.items()))


def _interruptible() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


COMMAND = Command(
    name="psql",
    summary="open psql on the queue's database",
    story="""
        The view jobs and all functions can be used without a prefix. On the embedded database it uses the psql that
        came with it, and keeps the server running meanwhile. The exit code is psql\'s.
    """,
    examples=(
        ("howdah psql", "look around: \\dv, \\df, SELECT * FROM jobs"),
        ("howdah psql -- -c 'SELECT status, count(*) FROM jobs GROUP BY 1'", "one statement"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
