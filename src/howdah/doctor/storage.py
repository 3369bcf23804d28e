"""The schema and its tables: whether they are complete, and vacuumed."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import Final

from howdah import __about__
from howdah.db import statements
from howdah.db.migrate import INVALID, MISSING, SCHEMA_VERSION, Difference
from howdah.db.plan import Row
from howdah.doctor.catalogue import finding
from howdah.doctor.finding import Finding, Patient
from howdah.doctor.words import count, listed, quoted, size, span

MANY_DEAD: Final = 10_000
DEAD_PER_LIVE: Final = 2
VACUUMED_WITHIN: Final = 600.0
"""Seconds, or more where the caller has more patience. By default, autovacuum checks every minute."""
LARGE: Final = 100 * 2**20
ROW: Final = 2 * 2**10
"""Bytes of a row with its share of the indexes. Few rows are larger: large values are stored out of line."""
BLOATED: Final = 4
"""Times the size of the present jobs, or of those in the largest segment of the archive."""
NEVER_FROZEN: Final = 2
"""Times the age at which the server freezes a table by itself."""


def missing(patient: Patient) -> Finding:
    return finding(
        "schema-missing",
        what=f"Howdah is not installed in schema {patient.schema} of database {patient.database}",
        cause=f"database {patient.database}",
        remedy=f"{patient.command('migrate')}  # or name another schema: --schema NAME",
    )


def version(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    if not rows:
        yield _without_rows(patient)
        return
    (row,) = rows
    if row["functions_name"] not in (None, patient.schema):
        yield _renamed(patient, row["functions_name"])
    there, by = row["version"], row["installed_by"]
    facts = {"version": there, "known": SCHEMA_VERSION, "installed_by": by, "oldest_client": row["oldest_client"]}
    if there > SCHEMA_VERSION or (there == SCHEMA_VERSION and not row["is_current"] and _is_later(by)):
        works = "it works, but this client" if row["oldest_client"] <= SCHEMA_VERSION else "this client"
        yield finding(
            "schema-newer",
            what=f"schema {patient.schema} was installed by Howdah {by} (version {there}); {works} is"
            f" {__about__.__version__} and knows version {SCHEMA_VERSION}",
            cause=f"the Howdah {__about__.__version__} that runs the doctor",
            remedy="pip install --upgrade howdah  # here, and wherever it is older",
            **facts,
        )
    elif there < SCHEMA_VERSION or not row["is_current"]:
        older = f"has version {there}; this Howdah needs {SCHEMA_VERSION}"
        same = "has the functions of another Howdah, or was made for another PostgreSQL"
        yield finding(
            "schema-outdated",
            what=f"schema {patient.schema} {older if there < SCHEMA_VERSION else same}",
            cause=f"schema {patient.schema}, installed by Howdah {by}",
            remedy=f"{patient.command('migrate')}  # old workers continue meanwhile",
            **facts,
        )


def is_as_installed(rows: Sequence[Row], schema: str) -> bool:
    """Whether the schema can be compared with a fresh installation."""
    return bool(
        rows
        and rows[0]["version"] == SCHEMA_VERSION
        and rows[0]["is_current"]
        and rows[0]["functions_name"] in (None, schema)
    )


def _without_rows(patient: Patient) -> Finding:
    return finding(
        "schema-outdated",
        what=f"schema {patient.schema} has its tables, but not the rows that Howdah needs in them",
        cause="a restore without data",
        remedy=patient.command("migrate"),
    )


def _renamed(patient: Patient, before: str) -> Finding:
    return finding(
        "schema-drift",
        what=f"schema {patient.schema} was renamed, and its functions still work on schema {before}",
        cause=f"ALTER SCHEMA {quoted(before)} RENAME TO {quoted(patient.schema)}",
        remedy=patient.command("migrate"),
    )


def rights(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    if rows:
        names = [f"{row['kind']} {row['name']}" for row in rows]
        yield finding(
            "open-to-public",
            what=f"every login of this database may use {count(len(rows), 'object')} of schema {patient.schema}",
            cause=listed(names),
            remedy=f"{patient.command('migrate')}  # repairs what a restore has lost. Revoke by hand what was granted by hand",
            granted=names,
        )


def drift(patient: Patient, differences: Sequence[Difference]) -> Iterator[Finding]:
    """A missing or invalid index is a finding of its own, unless it belongs to a segment."""
    others = [
        each
        for each in differences
        if each.kind != "index" or each.problem not in (MISSING, INVALID) or each.name not in _index_statements()
    ]
    if others:
        first = others[0]
        more = f", and {count(len(others) - 1, 'other difference')}" if len(others) > 1 else ""
        said = [f"{each.kind} {each.name} {each.problem}" for each in others]
        yield finding(
            "schema-drift",
            what=f"in schema {patient.schema}, {first.kind} {first.name} {first.problem}{more}",
            cause=listed([f"{each.kind} {each.name}" for each in others]),
            remedy=_mended(patient, others),
            differences=said,
        )


def _mended(patient: Patient, differences: Sequence[Difference]) -> str:
    if all(each.ends_by_reinstalling for each in differences):
        return f"{patient.command('migrate', '--reinstall')}  # old workers continue meanwhile"
    made = {name: statement for name, statement in _index_statements().items() if "CONCURRENTLY" in statement}
    if all(each.kind == "index" and each.name in made for each in differences):
        return " ".join(_exchanged(patient, each.name, made[each.name]) for each in differences)
    return (
        f"compare with {patient.command('migrate', '--sql')}, and undo what was changed by hand;"
        f" {patient.command('migrate', '--check')} lists everything"
    )


def _exchanged(patient: Patient, name: str, statement: str) -> str:
    """Statements that replace an index. The old one serves until the new one is ready."""
    other = f"{name}_other"
    return (
        f"ALTER INDEX {quoted(patient.schema, name)} RENAME TO {other}; {statements.render(statement, patient.schema)}"
        f" DROP INDEX CONCURRENTLY {quoted(patient.schema, other)};"
    )


def objects(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    yield from drift(patient, [Difference(row["kind"], row["name"], MISSING) for row in rows])


def indexes(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    made = _index_statements()
    for row in rows:
        name = quoted(patient.schema, row["name"])
        if row["problem"] == "missing":
            yield finding(
                "index-missing",
                what=f"index {name} is missing: queries that need it read the whole table, and a unique index no longer prevents duplicates",
                cause=f"index {name}",
                remedy=statements.render(made[row["name"]], patient.schema),
                index=row["name"],
            )
        else:
            ours = row["name"] in made or row["name"].endswith("_pkey")
            yield finding(
                "index-invalid",
                what=f"index {name} of {quoted(patient.schema, row['relation'])} is not valid: no query uses it",
                cause=f"index {name}, whose creation failed",
                remedy=f"REINDEX INDEX CONCURRENTLY {name};" if ours else f"DROP INDEX CONCURRENTLY {name};",
                index=row["name"],
            )


@functools.cache
def _index_statements() -> dict[str, str]:
    """The statement that creates each index of ours, by name, CONCURRENTLY where possible."""
    made = {}
    for file in statements.names("tables"):
        for match in re.finditer(
            r"^CREATE (UNIQUE )?INDEX (?:IF NOT EXISTS )?(\w+) ON (\S+) [^;]+;",
            statements.source(f"tables/{file}"),
            re.M,
        ):
            head = f"CREATE {match[1] or ''}INDEX"
            made[match[2]] = " ".join(match[0].split()).replace(head, f"{head} CONCURRENTLY", 1)
        for match in re.finditer(r"^DROP INDEX \w+\.(\w+);", statements.source(f"tables/{file}"), re.M):
            del made[match[1]]
    return made


def expected_indexes() -> list[str]:
    return sorted(_index_statements())


def tables(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    oldest = max(rows, key=lambda row: int(row["transactions"]), default=None)
    for row in rows:
        name = quoted(patient.schema, row["name"])
        if row["is_unlogged"]:
            yield finding(
                "table-unlogged",
                what=f"{name} is unlogged: a crash of the server empties it",
                cause=f"table {name}",
                remedy=f"ALTER TABLE {name} SET LOGGED; -- at a quiet time: it rewrites the table",
            )
        if row["is_left_out"]:
            yield finding(
                "autovacuum-off",
                what=f"autovacuum is off for {name}: its dead rows are never removed",
                cause=f"table {name}",
                remedy=f"ALTER TABLE {name} RESET (autovacuum_enabled);",
            )
        if _is_behind(patient, row):
            last = "never vacuumed" if row["last_vacuum"] is None else f"last vacuumed {span(row['seconds'])} ago"
            yield finding(
                "vacuum-behind",
                what=f"{name} has {row['dead_rows']:,} dead rows beside {row['live_rows']:,} live ones, and was {last}",
                cause=f"table {name}, or an autovacuum that is busy elsewhere",
                remedy=f"VACUUM {name}; -- and if it happens again: more autovacuum_max_workers, or a lower"
                " autovacuum_vacuum_cost_delay",
                dead_rows=row["dead_rows"],
                live_rows=row["live_rows"],
                last_vacuum=row["last_vacuum"],
            )
    if oldest is not None and oldest["transactions"] > NEVER_FROZEN * oldest["freeze_at"]:
        name = quoted(patient.schema, oldest["name"])
        yield finding(
            "wraparound-near",
            what=f"{name} was not frozen for {oldest['transactions']:,} transactions; from 2,000 million on, the server refuses"
            " writes",
            cause=f"table {name}, or a transaction that prevents freezing (see xmin-held)",
            remedy=f"VACUUM (FREEZE) {name}; -- as its owner",
            transactions=oldest["transactions"],
        )


def _is_behind(patient: Patient, row: Row) -> bool:
    many = row["dead_rows"] >= MANY_DEAD and row["dead_rows"] >= DEAD_PER_LIVE * row["live_rows"]
    return bool(many and row["seconds"] >= min(VACUUMED_WITHIN, 2 * patient.patience))


def bloat(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    (row,) = rows
    octets = row["heap"] + row["indexes"]
    if octets <= LARGE or octets <= BLOATED * (row["jobs"] * ROW + row["largest_segment"]):
        return
    name = quoted(patient.schema, "live")
    online = (
        f"REINDEX TABLE CONCURRENTLY {name}; -- while the queue runs, for {size(row['indexes'])} of indexes. Then: "
    )
    yield finding(
        "live-bloated",
        what=f"{name} takes {size(octets)} for {count(row['jobs'], 'job')}, and more than the largest segment of the archive would"
        " need: statistics and backups, which read all of it, read mostly empty pages",
        cause="a transaction that kept dead rows for long (see xmin-held), or a backlog that was deleted",
        remedy=(online if row["indexes"] >= row["heap"] else "")
        + f"VACUUM FULL {name}; -- at a quiet time: it locks all jobs for as long as reading {size(row['heap'])} takes."
        " If as many jobs will come again, leave it: they will use the room",
        heap=row["heap"],
        indexes=row["indexes"],
        jobs=row["jobs"],
    )


def segments(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    (row,) = rows
    due, overdue = row["rotation_due"], row["overdue"]
    if due is None and not overdue:
        return
    late = []
    if due is not None:
        late.append(f"the open segment of the archive should have been closed {span(due)} ago")
    if overdue:
        late.append(f"{count(overdue, 'segment')} should have been dropped")
    yield finding(
        "segments-late",
        what=f"in schema {patient.schema}, {' and '.join(late)}: ended jobs are kept longer than they should be",
        cause=listed(row["holders"]) if row["holders"] else "no worker has run lately, so nothing was pruned",
        remedy=f"{patient.command('prune')}  # workers do it every five minutes, unless a transaction blocks it",
        rotation_due=due,
        overdue=overdue,
    )


def _is_later(version: str) -> bool:
    return _numbers(version) > _numbers(__about__.__version__)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]
