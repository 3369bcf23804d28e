"""``howdah dsn``: where the jobs are, for other programs and other logins."""

from __future__ import annotations

import argparse
import sys
import threading

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from howdah.cli.arguments.connect import open_queue
from howdah.cli.command import Command
from howdah.cli.render.output import print_json, remark, say, text
from howdah.config import configured_dsn, is_secret
from howdah.errors import InvalidInput


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", metavar="NAME", help="for this login instead")
    parser.add_argument("--with-password", action="store_true", help="with the password, if the DSN has one")
    parser.add_argument(
        "--keep", action="store_true", help="stay until Ctrl-C, and keep the embedded PostgreSQL up for so long"
    )


def _run(args: argparse.Namespace) -> int:
    if args.keep and configured_dsn(args.dsn) is not None:
        raise InvalidInput("--keep is for the embedded PostgreSQL: a server of yours stays up without it")
    if args.user is not None and args.with_password:
        raise InvalidInput("the password belongs to the login of the DSN, and not to the one that --user names")
    with open_queue(args) as queue:
        dsn, without = _shown(queue.dsn, args.user, with_password=args.with_password)
    if args.json:
        print_json({"dsn": dsn})
    else:
        # As a text of others: a message would have its password masked.
        say(text(dsn))
    if without:
        remark("howdah: the password is left out; --with-password prints it, too")
    if args.keep:
        sys.stdout.flush()
        threading.Event().wait()
    return 0


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
    summary="print where the jobs are, for other programs and logins",
    story="""
        The DSN that the other commands use, the embedded PostgreSQL's too: for a tool of yours, or, with --user, for
        HOWDAH_DSN of another login. A password in it is left out, unless --with-password is said. The embedded
        PostgreSQL stops when nobody uses it any more, and who comes by the DSN does not count: --keep stays, and
        keeps it up until Ctrl-C.
    """,
    examples=(
        ("howdah dsn", "for psql, or for any other program"),
        ("HOWDAH_DSN=$(howdah dsn --user shop) howdah enqueue ping", "as another login"),
        ("howdah dsn --keep", "the embedded PostgreSQL stays up meanwhile"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
