"""``howdah dsn``: the DSN of the database, for other programs and other logins."""

from __future__ import annotations

import argparse
import sys
import threading

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from howdah.cli.arguments.connect import open_queue
from howdah.cli.command import Command
from howdah.cli.render.output import answer, remark, text
from howdah.config import configured_dsn, is_secret
from howdah.errors import InvalidInput


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", metavar="NAME", help="for this login instead of the current one")
    parser.add_argument("--with-password", action="store_true", help="with the password, if the DSN has one")
    parser.add_argument("--keep", action="store_true", help="keep the embedded PostgreSQL running until Ctrl-C")


def _run(args: argparse.Namespace) -> None:
    if args.keep and configured_dsn(args.dsn) is not None:
        raise InvalidInput("--keep is for the embedded PostgreSQL only: your own server keeps running anyway")
    if args.user is not None and args.with_password:
        raise InvalidInput(
            "--with-password cannot be combined with --user: the password belongs to the login of the DSN"
        )
    with open_queue(args) as queue:
        dsn, without = _shown(queue.dsn, args.user, with_password=args.with_password)
    # As foreign text: a message would have its password masked.
    answer(args, {"dsn": dsn}, text(dsn))
    if without:
        remark("howdah: the password is left out; --with-password prints it, too")
    if args.keep:
        sys.stdout.flush()
        threading.Event().wait()


def _shown(dsn: str, user: str | None, *, with_password: bool) -> tuple[str, bool]:
    """The DSN, and whether something secret is left out of it."""
    parts = conninfo_to_dict(dsn)
    secrets = [name for name in parts if not with_password and is_secret(name)]
    if user is None and not secrets:
        return dsn, False
    kept = {name: value for name, value in parts.items() if name not in secrets}
    return make_conninfo("", **(kept if user is None else kept | {"user": user})), bool(secrets)


COMMAND = Command(
    name="dsn",
    summary="print the DSN of the database, for other programs",
    story="""
        The DSN that the other commands use, also that of the embedded PostgreSQL: for your own tools, or, with --user, for
        HOWDAH_DSN of another login. A password in it is left out, unless --with-password is given. The embedded
        PostgreSQL stops when the last Howdah process has left it. Clients that use only the DSN do not count: --keep keeps
        it running until Ctrl-C.
    """,
    examples=(
        ("howdah dsn", "for psql, or for any other program"),
        ("HOWDAH_DSN=$(howdah dsn --user shop) howdah enqueue ping", "as another login"),
        ("howdah dsn --keep", "keep the embedded PostgreSQL running meanwhile"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
