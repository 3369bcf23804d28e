"""Sessions and slots that block others: old transactions, locks, listeners that do not read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from howdah.db.plan import Row
from howdah.doctor.catalogue import finding
from howdah.doctor.finding import Finding, Patient
from howdah.doctor.words import count, listed, literal, quoted, size, span, statement

OLD_TRANSACTIONS: Final = 10_000_000
"""A held transaction is old after so many later ones, where its age in seconds is unknown."""
QUEUE_IN_USE: Final = 0.1
LOCKED_FOR: Final = 5.0
"""Seconds. Migrations take less."""


def old_transactions(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    if not rows:
        return
    oldest, others = rows[0], rows[1:]
    besides = f", and {count(len(others), 'other')} for less" if others else ""
    limit = (
        " -- To have the server end such sessions: ALTER SYSTEM SET idle_in_transaction_session_timeout = '10min';"
        " SELECT pg_reload_conf();"
        if str(oldest["state"]).startswith("idle in transaction") and oldest["idle_limit"] == "0"
        else ""
    )
    yield finding(
        "xmin-held",
        what=f"a transaction has been open for {span(oldest['seconds'])}{besides}:"
        " rows that have died since then cannot be removed from any table of this database",
        cause=_session(oldest),
        remedy=f"SELECT pg_terminate_backend({oldest['pid']});{limit}",
        transactions=oldest["transactions"],
        sessions=[_facts(row) for row in rows],
    )


def prepared_transactions(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        yield finding(
            "xmin-held",
            what=f"a prepared transaction has been open for {span(row['seconds'])}: rows that have died since then"
            " cannot be removed, and its locks stay",
            cause=f"prepared transaction {row['gid']} of role {row['role']}",
            remedy=f"COMMIT PREPARED {literal(row['gid'])}; -- or ROLLBACK PREPARED, in this database",
            transactions=row["transactions"],
            seconds=row["seconds"],
        )


def replication(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        seconds = row["seconds"]
        if (seconds is None or seconds < patient.patience) and row["transactions"] < OLD_TRANSACTIONS:
            continue
        since = "" if seconds is None else f" for {span(seconds)} at least"
        is_slot = row["kind"] == "slot"
        yield finding(
            "xmin-held",
            what=f"replication prevents the removal of dead rows{since}",
            cause=f"{'replication slot' if is_slot else 'standby'} {row['name']}"
            f"{'' if row['active'] else ', which is not in use'}",
            remedy=f"SELECT pg_drop_replication_slot({literal(row['name'])}); -- if its reader is gone for good"
            if is_slot and not row["active"]
            else "on that standby, end its longest transaction, or turn hot_standby_feedback off",
            transactions=row["transactions"],
            seconds=seconds,
        )


def slots(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        retained = "" if row["retained"] is None else f" of {size(row['retained'])}"
        yield finding(
            "slot-retains-wal",
            what=f"the server retains WAL{retained} for a replication slot without a reader, and retains more until the disk is full",
            cause=f"replication slot {row['name']} ({row['kind']})",
            remedy=f"start its reader, or: SELECT pg_drop_replication_slot({literal(row['name'])});",
            retained=row["retained"],
            wal_status=row["wal_status"],
        )


def locks(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        tables = listed([quoted(patient.schema, name) for name in row["relations"]])
        waiting = f", and {count(row['waiting'], 'session')} {'waits' if row['waiting'] == 1 else 'wait'} for it"
        asked = f", which itself waits for pid {listed([str(pid) for pid in row['behind']])}" if row["behind"] else ""
        yield finding(
            "table-locked",
            what=f"{tables} {'is' if len(row['relations']) == 1 else 'are'} locked by a transaction that has been open"
            f" for {span(row['seconds'])}{asked}{waiting if row['waiting'] else ''}",
            cause=_session(row),
            remedy=f"SELECT pg_terminate_backend({row['pid']});",
            modes=row["modes"],
            granted=row["granted"],
            behind=row["behind"],
            waiting=row["waiting"],
            **_facts(row),
        )


def advisory_locks(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        since = "" if row["seconds"] is None else f", for {span(row['seconds'])} at least"
        yield finding(
            "advisory-lock-held",
            what=f"a foreign session holds advisory locks that others need to {_alternatives(row['purposes'])}{since}",
            cause=_session(row),
            remedy=f"SELECT pg_terminate_backend({row['pid']});",
            purposes=row["purposes"],
            **_facts(row),
        )


def _alternatives(purposes: Sequence[str]) -> str:
    *others, last = purposes
    return f"{', '.join(others)} or {last}" if others else last


def notifications(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        if row["usage"] < QUEUE_IN_USE:
            continue
        known = row["pid"] is not None
        yield finding(
            "notifications-piling-up",
            what=f"the server's queue of notifications is {row['usage']:.0%} full; once it is full, every NOTIFY fails",
            cause=f"probably {_session(row)}" if known else "a session that listens and stays in a transaction",
            remedy=f"SELECT pg_terminate_backend({row['pid']}); -- and keep listeners out of long transactions"
            if known
            else "the server's log names the pid: SELECT pg_terminate_backend(PID);",
            usage=row["usage"],
            **(_facts(row) if known else {}),
        )


def _session(row: Row) -> str:
    named = f" ({row['application']})" if row["application"] else ""
    place = f" from {row['client']}" if row["client"] else ""
    said = statement(row["query"])
    did = f": {said}" if said else ""
    return f"pid {row['pid']} of role {row['role']}{named}{place}, {row['state']}{did}"


def _facts(row: Row) -> dict[str, Any]:
    known = ("pid", "role", "application", "client", "state", "seconds")
    return {name: row[name] for name in known} | {"query": statement(row["query"])}
