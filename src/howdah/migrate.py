"""Installing the schema, bringing it up to date, and telling whether it is what it should be.

Everything happens in one transaction under one lock: twenty at once are one after the other, and one
that is killed half-way has done nothing. Tables change by numbered files, each run once; functions are
simply installed anew. Changes to tables only ever add, and clients pass over columns that they do not know, so that
those from ``OLDEST_CLIENT`` on go on working until none is left.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterator

from psycopg import sql

from howdah import __about__, statements
from howdah.errors import SchemaConflict, SchemaMissing, SchemaOutdated, SchemaTooNew
from howdah.plan import Begin, Plan, Row, Script, call, read
from howdah.statements import render, source

SCHEMA_VERSION = int(statements.names("tables")[-1][:4])
OLDEST_CLIENT = 3

RELATIONS = [
    "archive",
    "archive_counts",
    "archive_default",
    "event_counter",
    "events",
    "events_default",
    "id_counter",
    "job_details",
    "jobs",
    "lane_head",
    "live",
    "schedules",
    "schema_version",
    "settings",
    "types",
    "workers",
]


@dataclasses.dataclass(frozen=True, slots=True)
class Migration:
    """What a migration did."""

    schema: str
    before: int
    after: int
    changed: bool
    adopted: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as a fresh installation would have it."""

    kind: str
    name: str
    problem: str


def script(schema: str) -> str:
    """The whole installation, for psql and for review. Refused by a database that has it already."""
    record = render(source("reads/record_version"), schema)
    for name, value in _version().items():
        record = record.replace(f"%({name})s", sql.Literal(value).as_string())
    return "\n".join(
        [
            f"-- Howdah {__about__.__version__}, schema version {SCHEMA_VERSION}, for a database without it.",
            "-- Run: psql --set ON_ERROR_STOP=1 --file THIS_FILE",
            "BEGIN;",
            render(source("lock_migration"), schema),
            source("fix_search_path"),
            *_files(schema, 0),
            f"{statements.call_statement(schema, 'create_partitions', ()).decode()};",
            f"{record.rstrip()};",
            "COMMIT;",
        ]
    )


def migrate(schema: str, *, adopt: bool | None = None) -> Plan[Migration]:
    """Installs or updates the schema. adopt: True takes over a plain table of jobs, False ignores one."""
    yield Begin()
    yield Script(render(source("lock_migration"), schema))
    standing = yield from _standing()
    installed = (yield from _installed()) if standing["installed"] else None
    before = installed["version"] if installed else 0
    if installed and installed["version"] > SCHEMA_VERSION:
        raise _too_new(schema, installed["version"])
    if installed and installed["version"] == SCHEMA_VERSION and installed["is_current"]:
        return Migration(schema, before, before, changed=False)

    yield Script(source("fix_search_path"))
    source_schema = None if installed else _to_adopt(standing, schema, adopt)
    if source_schema:
        yield Script(render(source("set_aside"), source_schema))
    for text in _files(schema, before):
        yield Script(text)
    yield from call("create_partitions")
    yield from read("record_version", **_version())
    adopted = None
    if source_schema:
        rows = yield from call("adopt", table=f"{_quoted(source_schema)}.adopted_jobs")
        adopted = rows[0]["adopt"]
    return Migration(schema, before, SCHEMA_VERSION, changed=True, adopted=adopted)


def check_version(schema: str) -> Plan[None]:
    """Raises what tells the user which command to run, unless the schema fits this client."""
    standing = yield from _standing()
    if not standing["installed"]:
        raise SchemaMissing(f"Howdah is not installed in schema {schema} of this database. Run: {command(schema)}")
    installed = yield from _installed()
    if installed["version"] < SCHEMA_VERSION:
        raise SchemaOutdated(
            f"schema {schema} has version {installed['version']}; this Howdah needs version {SCHEMA_VERSION}."
            f" Run: {command(schema)}"
        )
    if installed["oldest_client"] > SCHEMA_VERSION:
        raise _too_new(schema, installed["version"])


def check(schema: str, *, first: Plan[object] | None = None) -> Plan[list[Difference]]:
    """Compares what is installed with a fresh installation, made for that and undone. first: in the same transaction."""
    yield Begin(discard=True)
    yield from first or ()
    yield from check_version(schema)
    yield Script(source("fix_search_path"))
    fresh_schema = f"howdah_check_{secrets.token_hex(6)}"
    yield Script(render(source("lock_migration"), fresh_schema))
    for text in _files(fresh_schema, 0):
        yield Script(text)
    fresh = yield from _fingerprint(fresh_schema)
    found = yield from _fingerprint(schema)
    return list(_differences(fresh, found))


def _version() -> dict[str, int | str]:
    return {
        "version": SCHEMA_VERSION,
        "oldest_client": OLDEST_CLIENT,
        "digest": statements.digest(),
        "howdah_version": __about__.__version__,
    }


def _standing() -> Plan[Row]:
    return (yield from read("standing"))[0]


def _installed() -> Plan[Row]:
    return (yield from read("schema_version", digest=statements.digest()))[0]


def _files(schema: str, after: int) -> Iterator[str]:
    for name in statements.names("tables"):
        if int(name[:4]) > after:
            yield render(source(f"tables/{name}"), schema)
    for name in statements.names("functions"):
        yield render(source(f"functions/{name}"), schema)


def _to_adopt(standing: Row, schema: str, adopt: bool | None) -> str | None:
    found: str | None = standing["plain_jobs_in"]
    in_the_way = found == schema
    if found is None or (not standing["adoptable"] and not in_the_way) or (adopt is False and not in_the_way):
        return None
    if not standing["adoptable"]:
        raise SchemaConflict(
            f"schema {schema} has a table jobs that is not Howdah's, and its columns are not those that could be"
            " adopted. Install elsewhere: howdah migrate --schema NAME"
        )
    if adopt:
        return found
    beside = "--schema NAME (to install elsewhere)" if in_the_way else "--no-adopt (to leave it alone)"
    raise SchemaConflict(
        f"schema {found} has a plain table jobs with jobs in it. Nothing was changed. Run howdah migrate again"
        f" with --adopt (to take its jobs over; the table is kept as {found}.adopted_jobs) or with {beside}."
    )


def _fingerprint(schema: str) -> Plan[dict[tuple[str, str], str]]:
    yield Script(render(source("search_here"), schema))
    rows = yield from read(
        "fingerprint", schema=schema, relations=RELATIONS, functions=list(statements.names("functions"))
    )
    return {(row["kind"], row["name"]): row["definition"] for row in rows}


def _differences(fresh: dict[tuple[str, str], str], found: dict[tuple[str, str], str]) -> Iterator[Difference]:
    for (kind, name), definition in fresh.items():
        if (kind, name) not in found:
            yield Difference(kind, name, "is missing")
        elif found[kind, name] != definition:
            yield Difference(kind, name, "is not what this Howdah installs")
    for kind, name in found.keys() - fresh.keys():
        yield Difference(kind, name, "is not Howdah's")


def _too_new(schema: str, version: int) -> SchemaTooNew:
    return SchemaTooNew(
        f"schema {schema} has version {version}; this Howdah ({__about__.__version__}) knows version"
        f" {SCHEMA_VERSION}. Run: pip install --upgrade howdah"
    )


def command(schema: str) -> str:
    return "howdah migrate" if schema == "howdah" else f"howdah migrate --schema {schema}"


def _quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'
