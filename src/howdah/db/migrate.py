"""Installs the schema, upgrades it, and compares it with a fresh installation.

A migration is one transaction under one lock: twenty at once run one after the other, and one that is killed half-way has
changed nothing. It waits only briefly for the locks of others, because sessions that need the tables it has locked would
wait behind it: if it cannot get a lock, it rolls back and tries again. Tables change by numbered files, each run once.
Functions are always installed again, and views if they have changed. Changes to tables only add, and clients ignore
columns that they do not know: so clients from ``OLDEST_CLIENT`` on keep working.

Roles are created once, on request. Then the schema belongs to its owner's role: by that, each later migration knows that
there are roles, and keeps ownership and grants up to date.
"""

from __future__ import annotations

import dataclasses
import logging
import random
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import psycopg
from psycopg import sql

from howdah import __about__
from howdah.db import statements
from howdah.db.plan import Begin, Pause, Plan, Rollback, Row, Script, call, read, write
from howdah.db.statements import ROLES, quoted, render, source
from howdah.errors import NotPermitted, SchemaConflict, SchemaMissing, SchemaOutdated, SchemaTooNew

log = logging.getLogger("howdah")

SCHEMA_VERSION = int(statements.names("tables")[-1][:4])
OLDEST_CLIENT = 1
MISSING = "is missing"
INVALID = "is invalid"
CHANGED = "is not what this Howdah installs"
NOT_OURS = "is not Howdah's"
STRANGERS = "belongs to a foreign role, which can replace it"
FOREIGN = "came from another cluster, and would be sent again as new"

Fingerprint: TypeAlias = dict[tuple[str, str], str]

_CLOSED_SEGMENT: Final = re.compile(r"(archive|events)_[0-9]+")
_STRANGE: Final = {("owner", "stranger"): STRANGERS}
_ROUND_TRIPS: Final = 2
"""After so many dumps and restores, the text of definitions stays the same."""

PATIENCE: Final = 60.0
"""Seconds for which a migration tries to get its locks."""
SHORT_WAIT: Final = "100ms"
LONG_WAIT: Final = "2s"
"""For the last try: autovacuum gives way to a session that has waited for a second."""

RELATIONS = [
    "archive",
    "archive_counts",
    "archive_next",
    "archive_open",
    "audit",
    "audit_counter",
    "audit_details",
    "backlog_counter",
    "backlog_counts",
    "backlogs",
    "claimable",
    "clock_mark",
    "event_counter",
    "event_details",
    "events",
    "events_next",
    "events_open",
    "flow_groups",
    "flow_keys",
    "flow_turn",
    "flow_types",
    "id_counter",
    "job_details",
    "jobs",
    "lane_head",
    "limits",
    "live",
    "live_jobs",
    "node_details",
    "node_options",
    "minutes",
    "rate",
    "schedule_details",
    "schedules",
    "schema_version",
    "segments",
    "settings",
    "signal_channels",
    "signal_counter",
    "signals",
    "step_details",
    "steps",
    "types",
    "uniques",
    "worker_generations",
    "workers",
    "workflow_counts",
    "workflow_delta_counter",
    "workflow_deltas",
    "workflow_details",
    "workflow_edges",
    "workflow_nodes",
    "workflow_spawned",
    "workflows",
]


@dataclasses.dataclass(frozen=True, slots=True)
class Migration:
    """What a migration did."""

    schema: str
    before: int
    after: int
    changed: bool
    adopted: int | None = None
    dependents: tuple[str, ...] = ()
    """Views, functions, foreign keys, … that still use the adopted table, and have to be changed to use the new one."""
    roles: tuple[str, ...] = ()
    """The roles of the schema; none unless they were requested once."""


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """One difference to a fresh installation."""

    kind: str
    name: str
    problem: str

    @property
    def ends_by_reinstalling(self) -> bool:
        """Whether ``migrate(reinstall=True)`` mends it. It does not touch tables, and objects that are not Howdah's."""
        if self.kind in ("grant", "rows", "events"):
            return True
        if self.kind == "owner":
            return self.problem != STRANGERS
        return self.kind in ("function", "view", "trigger") and self.problem != NOT_OURS


def script(schema: str, *, roles: bool = False) -> str:
    """The whole installation, for psql and for review. Refused by a database that has it already.

    roles: with the roles, for a login that may create them. A database that has the schema already then gets only these.
    """
    version = f"Howdah {__about__.__version__}, schema version {SCHEMA_VERSION}"
    return "\n".join(
        [
            f"-- {version}{', with its roles.' if roles else ', for a database without it.'}",
            "-- Run: psql --set ON_ERROR_STOP=1 --file THIS_FILE",
            "BEGIN;",
            "-- If this is too short, another session has a transaction open. Then nothing was done: run it again.",
            f"{_filled_in(source('reads/wait_at_most'))};",
            render(source("lock_migration"), schema),
            source("fix_search_path"),
            source("check_encoding"),
            *(_with_roles(schema) if roles else _installation(schema)),
            f"{_filled_in(render(source('writes/record_rights'), schema)).rstrip()};",
            "COMMIT;",
        ]
    )


def migrate(schema: str, *, adopt: bool | None = None, roles: bool = False, reinstall: bool = False) -> Plan[Migration]:
    """Installs or updates the schema. adopt: True takes over a plain table of jobs, False ignores one."""
    until = time.monotonic() + PATIENCE
    while True:
        yield Begin()
        is_last = True
        try:
            # As long as there is time: nothing else is locked yet, so that no session waits for this one.
            yield from read("wait_at_most", wait=f"{max(round((until - time.monotonic()) * 1000), 100)}ms")
            yield Script(render(source("lock_migration"), schema))
            is_last = time.monotonic() >= until
            yield from read("wait_at_most", wait=LONG_WAIT if is_last else SHORT_WAIT)
            return (yield from _migrate(schema, adopt, roles=roles, reinstall=reinstall))
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
            yield Rollback()
            if is_last:
                raise (yield from _in_the_way(schema)) from error
        yield Pause(random.uniform(0.5, 1.5))


def _migrate(schema: str, adopt: bool | None, *, roles: bool, reinstall: bool) -> Plan[Migration]:
    standing = yield from _standing(schema)
    installed = (yield from _installed()) if standing["installed"] else None
    before: int = installed["version"] if installed else standing["marked_version"] or 0
    names = role_names(schema) if roles or standing["has_roles"] else ()
    if before > SCHEMA_VERSION:
        raise _too_new(schema, before)
    is_current = not reinstall and (yield from _is_current(schema, standing, installed))
    if is_current and not roles:
        return Migration(schema, before, before, changed=False, roles=names)

    # A superuser can hand an existing queue over to roles, which then own it.
    stranger = standing["strange_owner"] or (None if before and roles else standing["lesser_owner"])
    if stranger and not standing["has_roles"]:
        raise _not_the_owner(schema, stranger, standing["login"])
    for row in (yield from read("strangers", **_ours())):
        raise SchemaConflict(
            f"{row['what']} belongs to {row['owner']}, which does not own this queue. Nothing was changed."
            f" Drop it; or if it is Howdah's, run ALTER {row['what']} OWNER TO CURRENT_USER first"
        )
    yield Script(source("fix_search_path"))
    yield Script(source("check_encoding"))
    if names:
        yield from _check_roles(schema)
        yield Script(render(source("roles/1_create"), schema))
    source_schema = None if before else _to_adopt(standing, schema, adopt)
    dependents: list[str] = []
    if not is_current:
        if source_schema:
            dependents = [
                f"{row['kind']} {row['name']}" for row in (yield from read("dependents", schema=source_schema))
            ]
            yield Script(render(source("set_aside"), source_schema))
        for text in _files(schema, before, views=reinstall or not (installed and installed["has_current_views"])):
            yield Script(text)
        yield from write("record_version", **_version())
        yield Script(_filled_in(render(source("mark_version"), schema)))
        if (before and not installed) or (yield from read("amiss"))[0]["has_foreign_events"]:
            yield from call("restamp_events")
    if names:
        yield Script(_filled_in(render(source("roles/2_own"), schema)))
        yield Script(render(source("roles/3_grant"), schema))
    yield from write("record_rights", **_ours())
    adopted = None
    if source_schema:
        rows = yield from call("adopt", table=f"{quoted(source_schema)}.adopted_jobs")
        adopted = rows[0]["adopt"]
    changed = not (is_current and standing["has_roles"])
    return Migration(
        schema, before, SCHEMA_VERSION, changed=changed, adopted=adopted, dependents=tuple(dependents), roles=names
    )


def _is_current(schema: str, standing: Row, installed: Row | None) -> Plan[bool]:
    """Whether nothing has to be done. A restore brings the digest back, too: so the digest alone does not show what it lost."""
    if not (installed and installed["version"] == SCHEMA_VERSION and installed["is_current"]):
        return False
    if standing["functions_name"] not in (None, schema):
        return False
    if not standing["may_mend"]:
        return True
    (amiss,) = yield from read("amiss")
    (rights,) = yield from call("rights", **_ours())
    return not amiss["missing_rows"] and not amiss["has_foreign_events"] and rights["rights"] == installed["rights"]


def _ours() -> dict[str, list[str]]:
    return {"relations": RELATIONS, "functions": list(statements.names("functions"))}


def role_names(schema: str) -> tuple[str, ...]:
    """The names of the roles of a schema."""
    return tuple(f"{schema}_{role}" for role in ROLES)


def check_version(schema: str) -> Plan[None]:
    """Raises an error that says which command to run, unless the schema fits this client."""
    standing = yield from _standing(schema)
    if not standing["installed"]:
        raise SchemaMissing(f"Howdah is not installed in schema {schema} of this database. Run: {command(schema)}")
    installed = yield from _installed()
    if installed is None:
        raise SchemaOutdated(
            f"schema {schema} has its tables, and not the rows that Howdah needs: it was restored without data. Run: {command(schema)}"
        )
    if standing["functions_name"] not in (None, schema):
        raise SchemaConflict(
            f"schema {schema} was renamed, and its functions still work on schema {standing['functions_name']}. Run: {command(schema)}"
        )
    if standing["is_public"]:
        log.warning(
            "every login of this database may call the functions of schema %s: a restore may have lost its grants. Run: %s",
            schema,
            command(schema),
        )
    if installed["version"] < SCHEMA_VERSION:
        raise SchemaOutdated(
            f"schema {schema} has version {installed['version']}; this Howdah needs version {SCHEMA_VERSION}."
            f" Run: {command(schema)}"
        )
    if installed["oldest_client"] > SCHEMA_VERSION:
        raise _too_new(schema, installed["version"])


def check(schema: str, *, first: Plan[object] | None = None) -> Plan[list[Difference]]:
    """Compares what is installed with a fresh installation, which is rolled back. first: runs before, in the same transaction."""
    yield Begin(discard=True)
    yield from first or _may_compare()
    yield from check_version(schema)
    yield Script(source("fix_search_path"))
    fresh_schema = f"howdah_check_{secrets.token_hex(6)}"
    yield Script(render(source("lock_migration"), fresh_schema))
    for text in _files(fresh_schema, 0):
        yield Script(text)
    has_roles = (yield from _standing(schema))["has_roles"]
    if has_roles:
        yield Script(render(source("roles/3_grant"), fresh_schema, roles_of=schema))
    fresh = [(yield from _fingerprint(fresh_schema, schema, has_roles=has_roles))]
    for _ in range(_ROUND_TRIPS):
        yield Script(render(source("round_trip"), fresh_schema))
        fresh.append((yield from _fingerprint(fresh_schema, schema, has_roles=has_roles)))
    found = yield from _fingerprint(schema, schema, has_roles=has_roles)
    differences = list(_differences([_with_closed_segments(each, found) for each in fresh], found))
    if not any(each.kind == "relation" and each.problem == MISSING for each in differences):
        yield Script(source("fix_search_path"))
        differences += _amiss((yield from read("amiss"))[0])
    return differences


def _may_compare() -> Plan[None]:
    (row,) = yield from read("may_create_schema")
    if not row["may"]:
        database, login = quoted(row["database"]), quoted(row["login"])
        raise NotPermitted(
            f"login {row['login']} may not create a schema in database {row['database']}. The check installs one to compare"
            f" with, and rolls that back. Let an administrator run: GRANT CREATE ON DATABASE {database} TO {login}"
        )


def _installation(schema: str) -> Iterator[str]:
    yield from _files(schema, 0)
    yield f"{_filled_in(render(source('writes/record_version'), schema)).rstrip()};"
    yield _filled_in(render(source("mark_version"), schema))


def _with_roles(schema: str) -> Iterator[str]:
    if schema == "public":
        raise _not_public()
    yield render(source("roles/1_create"), schema)
    yield render(source("roles/is_missing"), schema)
    yield "\\if :is_missing"
    yield from _installation(schema)
    yield "\\endif"
    yield _filled_in(render(source("roles/same_version"), schema))
    yield _filled_in(render(source("roles/2_own"), schema))
    yield render(source("roles/3_grant"), schema)


def _in_the_way(schema: str) -> Plan[SchemaConflict]:
    sessions = yield from read("in_the_way", wait=LONG_WAIT)
    blockers = ", ".join(f"pid {row['pid']} ({row['what']})" for row in sessions) or "no session any more"
    end = f" Wait until it ends, or end it: SELECT pg_terminate_backend({sessions[0]['pid']})." if sessions else ""
    return SchemaConflict(
        f"schema {schema} is in use, and could not be locked for {PATIENCE:.0f} s. Nothing was changed. In the way is {blockers}.{end}"
        f" Then run again: {command(schema)}"
    )


def _filled_in(statement: str) -> str:
    """A statement with its values written out, because psql runs it, or because it is inside a DO."""
    functions = list(statements.names("functions"))
    values = {**_version(), "wait": LONG_WAIT, "relations": RELATIONS, "functions": functions}
    for name, value in values.items():
        statement = statement.replace(f"%({name})s", sql.Literal(value).as_string())
    return statement


def _check_roles(schema: str) -> Plan[None]:
    """Raises an error that says what an administrator has to do, if this login cannot create the roles."""
    if schema == "public":
        raise _not_public()
    (row,) = yield from read("may_create_roles")
    by_hand = f"Have an administrator run the output of: {command(schema)} --roles --sql"
    if row["missing"] and not row["may_create"]:
        raise NotPermitted(f"login {row['login']} may not create roles. Nothing was changed. {by_hand}")
    if not row["may_own"]:
        owner = role_names(schema)[0]
        raise NotPermitted(
            f"login {row['login']} is not a member of role {owner}. Nothing was changed. Let an administrator run:"
            f" GRANT {owner} TO {row['login']}"
        )


def _version() -> dict[str, int | str]:
    return {
        "version": SCHEMA_VERSION,
        "oldest_client": OLDEST_CLIENT,
        "howdah_version": __about__.__version__,
        **digests(),
    }


def digests() -> dict[str, str]:
    return {
        "digest": statements.digest("tables", "views", "functions", "setup", "roles"),
        "views_digest": statements.digest("views"),
    }


def _standing(schema: str) -> Plan[Row]:
    (standing,) = yield from read("standing")
    if standing["is_development"]:
        raise SchemaConflict(
            f"schema {schema} was installed by a development version of Howdah, from before 0.1.0, and cannot be brought up to date."
            f" Nothing was changed. Install beside it: howdah migrate --schema NAME. Or, if its jobs are not needed any more:"
            f" DROP SCHEMA {quoted(schema)} CASCADE, and then: {command(schema)}"
        )
    return standing


def _installed() -> Plan[Row | None]:
    """None after a restore without data."""
    rows = yield from read("schema_version", **digests())
    return rows[0] if rows else None


def _files(schema: str, after: int, *, views: bool = True) -> Iterator[str]:
    for name in statements.names("tables"):
        if int(name[:4]) > after:
            yield render(source(f"tables/{name}"), schema)
    for name in statements.names("views") if views else ():
        yield render(source(f"views/{name}"), schema)
    yield render(source("former_functions"), schema)
    for name in statements.names("functions"):
        yield render(source(f"functions/{name}"), schema)
    for name in statements.names("setup"):
        yield render(source(f"setup/{name}"), schema)


def _to_adopt(standing: Row, schema: str, adopt: bool | None) -> str | None:
    found: str | None = standing["plain_jobs_in"]
    in_the_way = found == schema
    if found is None or (not standing["adoptable"] and not in_the_way) or (adopt is False and not in_the_way):
        return None
    if not standing["adoptable"]:
        raise SchemaConflict(
            f"schema {schema} has a table jobs that is not Howdah's, and its columns, or their types, are not those that"
            " could be adopted. Install elsewhere: howdah migrate --schema NAME"
        )
    owner = standing["plain_jobs_of"]
    if adopt and not standing["may_adopt"]:
        raise NotPermitted(
            f"table {found}.jobs belongs to {owner}, and this login is not a member of that role. Nothing was changed."
            f" If its jobs are to be trusted, have an administrator run: GRANT {owner} TO {standing['login']}"
        )
    if adopt:
        return found
    beside = "--schema NAME (to install elsewhere)" if in_the_way else "--no-adopt (to leave it alone)"
    raise SchemaConflict(
        f"schema {found} has a plain table jobs, of {owner}. Nothing was changed. Run howdah migrate again"
        f" with --adopt (to take its jobs over; the table is kept as {found}.adopted_jobs) or with {beside}."
    )


def _fingerprint(schema: str, roles_of: str, *, has_roles: bool) -> Plan[Fingerprint]:
    yield Script(render(source("search_here"), schema))
    rows = yield from read("fingerprint", schema=schema, **_ours())
    roles = list(role_names(roles_of)) if has_roles else []
    rows += yield from read("grants", schema=schema, roles=roles, strict=has_roles, **_ours())
    return {(row["kind"], row["name"]): row["definition"] for row in rows}


def _with_closed_segments(fresh: Fingerprint, found: Fingerprint) -> Fingerprint:
    """A fresh installation has no closed segments. Each one must be like the open one."""
    expected = dict(fresh)
    for kind, segment in found:
        if kind == "relation" and (match := _CLOSED_SEGMENT.fullmatch(segment)):
            opened = f"{match[1]}_open"
            for (part, name), definition in fresh.items():
                if name == opened or name.startswith(f"{opened}."):
                    expected[part, segment + name.removeprefix(opened)] = definition
    return expected


def _differences(fresh: Sequence[Fingerprint], found: Fingerprint) -> Iterator[Difference]:
    """fresh: as installed, and after having been dumped and restored. Either is right."""
    for kind, name in fresh[0]:
        expected = {each.get((kind, name)) for each in fresh}
        definition = found.get((kind, name))
        if definition is None:
            yield Difference(kind, name, MISSING)
        elif definition not in expected:
            invalid = definition.removesuffix(" INVALID") in expected
            yield Difference(kind, name, _STRANGE.get((kind, definition), INVALID if invalid else CHANGED))
    for kind, name in found.keys() - fresh[0].keys():
        yield Difference(kind, name, _STRANGE.get((kind, found[kind, name]), NOT_OURS))


def _amiss(row: Row) -> Iterator[Difference]:
    for name in row["missing_rows"]:
        yield Difference("rows", name, MISSING)
    if row["has_foreign_events"]:
        yield Difference("events", "events", FOREIGN)


def _not_the_owner(schema: str, owner: str, login: str) -> NotPermitted:
    return NotPermitted(
        f"schema {schema} belongs to role {owner}, and login {login} is another, or a superuser. Nothing was changed. The owner of a"
        f" schema can replace what is in it, and would get the rights of every login that calls it. Migrate as {owner}. Or have an"
        f" administrator run: ALTER SCHEMA {quoted(schema)} OWNER TO {login}, or, unless that is a superuser: GRANT {owner} TO {login}."
        " Or install elsewhere: howdah migrate --schema NAME"
    )


def _not_public() -> SchemaConflict:
    return SchemaConflict(
        "roles need a schema of their own, which will belong to one of them: howdah migrate --roles --schema NAME"
    )


def _too_new(schema: str, version: int) -> SchemaTooNew:
    return SchemaTooNew(
        f"schema {schema} has version {version}; this Howdah ({__about__.__version__}) knows version"
        f" {SCHEMA_VERSION}. Run: pip install --upgrade howdah"
    )


def command(schema: str) -> str:
    return "howdah migrate" if schema == "howdah" else f"howdah migrate --schema {schema}"
