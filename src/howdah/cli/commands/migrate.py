"""``howdah migrate``: installs the schema, brings it up to date, prints it or compares it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from howdah.cli.arguments.connect import open_queue
from howdah.cli.command import Command
from howdah.cli.render.output import answers, plural, print_json, say, table, text
from howdah.config import configured_schema
from howdah.db import migrate
from howdah.db.migrate import Difference, Migration
from howdah.db.statements import check_schema_name
from howdah.errors import InvalidInput, SchemaMissing, SchemaOutdated


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--sql", action="store_true", help="print the whole installation as SQL instead; needs no database"
    )
    instead.add_argument(
        "--check", action="store_true", help="change nothing; list what differs, and exit with 1 if anything does"
    )
    parser.add_argument(
        "--roles",
        action="store_true",
        help="create roles for the schema, too: owner, producer, worker, viewer, operator",
    )
    parser.add_argument(
        "--reinstall",
        action="store_true",
        help="install functions, views and rights again, if they were changed by hand",
    )
    parser.add_argument(
        "--adopt",
        action=argparse.BooleanOptionalAction,
        help="if there is a plain table jobs already: take its jobs over, or leave it alone",
    )


def _run(args: argparse.Namespace) -> int:
    if args.roles and args.check:
        raise InvalidInput("--check finds the roles by itself: leave --roles out")
    if args.reinstall and (args.check or args.sql):
        raise InvalidInput("--reinstall changes the database: leave --check and --sql out")
    if args.sql:
        sys.stdout.write(migrate.script(check_schema_name(configured_schema(args.schema)), roles=args.roles))
    elif args.check:
        return _check(args)
    else:
        _migrate(args)
    return 0


def _migrate(args: argparse.Namespace) -> None:
    with open_queue(args) as queue:
        migration = queue.migrate(adopt=args.adopt, roles=args.roles, reinstall=args.reinstall)
    if args.json:
        print_json(migration)
    else:
        say(_description_of(migration))
        if migration.dependents:
            say("these still use the old table, which is now adopted_jobs; change them to use the new one:")
            for dependent in migration.dependents:
                say(f"  {dependent}")
        if args.roles:
            say(f"its roles are {', '.join(migration.roles)}")
            say(f"to give one to a login: GRANT {migration.roles[1]} TO NAME")


def _description_of(migration: Migration) -> str:
    where = f"schema {migration.schema}"
    if not migration.changed:
        return f"{where} is already up to date (version {migration.after})"
    if migration.before == 0:
        done = f"installed version {migration.after} in {where}"
    elif migration.before < migration.after:
        done = f"brought {where} from version {migration.before} to {migration.after}"
    else:
        what = "functions, views and roles" if migration.roles else "functions and views"
        done = f"renewed the {what} of {where} (version {migration.after})"
    return done if migration.adopted is None else f"{done}, and adopted {plural(migration.adopted, 'job')}"


def _check(args: argparse.Namespace) -> int:
    schema = configured_schema(args.schema)
    differences: Sequence[Difference] = ()
    problem = None
    try:
        with open_queue(args) as queue:
            differences = queue.check_schema()
    except (SchemaMissing, SchemaOutdated) as error:
        problem = str(error)
    good = not differences and problem is None
    if args.json:
        print_json({"schema": schema, "good": good, "problem": problem, "differences": list(differences)})
    elif problem is not None:
        say(problem)
    elif differences:
        _show_differences(schema, differences)
    else:
        say(f"schema {schema} is as this Howdah installs it (version {migrate.SCHEMA_VERSION})")
    return 0 if good else 1


def _show_differences(schema: str, differences: Sequence[Difference]) -> None:
    listed = table("kind", "name", "problem")
    for difference in differences:
        listed.add_row(text(difference.kind), text(difference.name), text(difference.problem, "red"))
    answers().print(listed)
    say(f"\n{plural(len(differences), 'difference')} from what this Howdah installs in schema {schema}")
    if any(each.ends_by_reinstalling for each in differences):
        say(f"to repair functions, views, triggers, rows and rights: {migrate.command(schema)} --reinstall")
    if any(each.problem == migrate.STRANGERS for each in differences):
        say(
            f"objects of a foreign owner: ALTER … OWNER TO the owner of schema {schema}, or DROP it, and then reinstall"
        )


COMMAND = Command(
    name="migrate",
    summary="install the schema, or bring it up to date",
    story="""
        Safe to run at every deployment, by any number of processes at once: it is one transaction under one lock, and does
        nothing if there is nothing to do. Workers of the previous version keep running. If there is a plain table named
        jobs already, it needs --adopt or --no-adopt. With --roles, it also creates five roles without a login, named after
        the schema, and makes one of them the owner of everything; later migrations keep them up to date. If you cannot
        create roles, have an administrator run the output of --roles --sql.
    """,
    examples=(
        ("howdah migrate", "install or update the schema howdah"),
        ("howdah migrate --check", "in a pipeline: is the database up to date?"),
        ("howdah migrate --sql > howdah.sql", "read it first, or let your own tool run it"),
        ("howdah migrate --roles", "with roles, which you grant to logins"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
