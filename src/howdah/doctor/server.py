"""The server: what it promises to keep, whether it can be written to, and whether there is room."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from howdah.doctor.catalogue import finding
from howdah.doctor.finding import Finding
from howdah.doctor.patient import Patient
from howdah.doctor.words import count, quoted, span
from howdah.plan import Row

DURABILITY: Final = {
    "fsync": ("off", "fsync-off", "on"),
    "full_page_writes": ("off", "full-page-writes-off", "on"),
    "zero_damaged_pages": ("on", "damaged-pages-zeroed", "off"),
    "track_activities": ("off", "tracking-off", "on"),
    "track_counts": ("off", "tracking-off", "on"),
}
COMMITS: Final = "synchronous_commit"
TIMEOUTS: Final = {
    "statement_timeout": 5.0,
    "transaction_timeout": 5.0,
    "lock_timeout": 0.1,
    "idle_session_timeout": 60.0,
}
"""Seconds below which workers are interrupted again and again."""
ISOLATION: Final = "default_transaction_isolation"
SETTINGS: Final = (*DURABILITY, COMMITS, *TIMEOUTS, ISOLATION)
CLOCK_OFF: Final = 5.0
CONNECTIONS_USED: Final = 0.9
CONNECTIONS_OF_A_WORKER: Final = 6
"""Five of its own, and one of its pools."""

_OF_THE_SERVER: Final = ("default", "environment variable", "configuration file", "command line", "global")
_UNITS: Final = {"us": 1e-6, "ms": 1e-3, "": 1e-3, "s": 1, "min": 60, "h": 3_600, "d": 86_400}
_CONSEQUENCES: Final = {
    "fsync-off": "a crash of the machine may destroy the whole database, jobs and all",
    "full-page-writes-off": "a crash of the machine may leave torn pages, from which no recovery mends",
    "damaged-pages-zeroed": "damaged pages are read as empty: their jobs are gone, and nobody is told",
    "tracking-off": "nobody can see what sessions do, or autovacuum does not know what to do",
}


def settings(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        name, value = row["name"], row["setting"]
        bad, code, good = DURABILITY.get(name, (None, "", ""))
        if value == bad:
            yield finding(
                code,
                what=f"{name} is {value}: {_CONSEQUENCES[code]}",
                culprit=_source(row),
                remedy=f"ALTER SYSTEM SET {name} = {good}; SELECT pg_reload_conf();",
                setting=name,
                value=value,
            )
        elif row["source"] in _OF_THE_SERVER:
            remedy = f"ALTER SYSTEM RESET {name}; SELECT pg_reload_conf();"
            yield from _of_sessions(patient, name, _as_written(name, value), _source(row), remedy)


def role_settings(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        if row["name"] != COMMITS and not row["works"]:
            continue
        role, database, name = row["role"], row["database"], row["name"]
        whose = "ALL" if role is None else quoted(role)
        within = "" if database is None else f" IN DATABASE {quoted(database)}"
        change = f"DATABASE {quoted(database)}" if role is None and database else f"ROLE {whose}{within}"
        culprit = f"what is set for {'all roles' if role is None else f'role {role}'}"
        culprit += "" if database is None else f" in database {database}"
        remedy = f"ALTER {change} RESET {name}; and restart the sessions"
        yield from _of_sessions(patient, name, row["value"], culprit, remedy)


def _of_sessions(patient: Patient, name: str, value: str, culprit: str, remedy: str) -> Iterator[Finding]:  # noqa: ARG001
    if name == COMMITS and value in ("off", "false", "no", "0"):
        code, why = (
            "commits-not-durable",
            "a commit that was confirmed may be lost in a crash, and an enqueued job with it",
        )
    elif name in TIMEOUTS and 0 < _seconds(value) < TIMEOUTS[name]:
        code, why = "settings-harmful", "workers are interrupted again and again"
    elif name == ISOLATION and value in ("repeatable read", "serializable"):
        code, why = "settings-harmful", "claims fail and are tried again whenever two workers meet"
    else:
        return
    what = f"{name} is {value}: {why}"
    yield finding(code, what=what, culprit=culprit, remedy=remedy, setting=name, value=value)


def _as_written(name: str, value: str) -> str:
    return f"{value}ms" if name in TIMEOUTS and value != "0" else value


def _seconds(value: str) -> float:
    """A span as PostgreSQL's settings have it."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d|)\s*", value)
    return float(match[1]) * _UNITS[match[2]] if match else 0.0


def _source(row: Row) -> str:
    return f"the server's settings ({row['source']})"


def read_only(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    (row,) = rows
    if row["in_recovery"]:
        yield finding(
            "server-read-only",
            what="this server is a standby: no job can be added, claimed or completed here",
            culprit="the DSN, which leads to a standby",
            remedy="connect to the primary; with several hosts in the DSN, add target_session_attrs=read-write. If this was"
            " meant to be the primary: SELECT pg_promote();",
        )
    elif row["read_only"]:
        name = "default_transaction_read_only"
        yield finding(
            "server-read-only",
            what="transactions are read-only here: no job can be added, claimed or completed",
            culprit=f"{name}, set for the server, the database or the role",
            remedy=f"ALTER SYSTEM RESET {name}; SELECT pg_reload_conf(); and"
            f" ALTER DATABASE {quoted(patient.database)} RESET {name}; ALTER ROLE {quoted(patient.role)} RESET {name};",
        )


def clock(before: datetime, there: datetime, after: datetime) -> Iterator[Finding]:
    """What the database's clock showed between two looks at ours."""
    ahead = (before - there).total_seconds() if there < before else -max((there - after).total_seconds(), 0)
    if abs(ahead) >= CLOCK_OFF:
        yield finding(
            "clock-off",
            what=f"the clock of this machine is {span(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} the database's."
            " The queue goes by the database's; but a run_at that is reckoned here is wrong by so much, and so are the times of logs",
            culprit="the clock of this machine, or the database's",
            remedy="let both be set by NTP: timedatectl set-ntp true, and see: timedatectl timesync-status",
            seconds_ahead=round(ahead, 1),
        )


def connections(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:  # noqa: ARG001
    for row in rows:
        if row["used"] < CONNECTIONS_USED * row["most"]:
            continue
        holders = row["holders"] or [{"role": None, "application": None, "connections": 0}]
        first = holders[0]
        named = f" ({first['application']})" if first["application"] else ""
        how = (
            "ALTER SYSTEM SET max_connections = …, and restart it"
            if row["is_server"]
            else f"raise the limit of {row['whose']}"
        )
        yield finding(
            "connections-scarce",
            what=f"{row['used']:,} of the {row['most']:,} connections that {row['whose']} allows are in use;"
            " who gets none cannot enqueue, and a worker that starts waits",
            culprit=f"most are held by role {first['role']}{named}: {first['connections']:,}",
            remedy=f"smaller pools (JobQueue(pool_size=…)), fewer workers, a pooler for others; or {how}",
            used=row["used"],
            most=row["most"],
            holders=holders,
        )


def budget(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    (row,) = rows
    needed = row["workers"] * CONNECTIONS_OF_A_WORKER
    if needed > row["most"] and not patient.behind_pooler:
        yield finding(
            "connections-overcommitted",
            what=f"{count(row['workers'], 'living worker')} need {needed:,} connections, and the server has {row['most']:,}"
            " for everybody",
            culprit=f"{count(row['workers'], 'worker')} of {CONNECTIONS_OF_A_WORKER} connections at least",
            remedy="run fewer workers with more slots each (--concurrency, --threads), or raise max_connections and restart"
            " the server",
            workers=row["workers"],
            needed=needed,
            most=row["most"],
        )


def pooler(patient: Patient) -> Iterator[Finding]:
    if patient.behind_pooler:
        yield finding(
            "pooler-in-transaction-mode",
            what="between this client and the server is a pooler that gives each transaction to another session. No notification"
            " comes through it: clients and workers that connect so poll, which costs up to a second for each job",
            culprit="the pooler that the DSN leads to",
            remedy="give workers a DSN that leads to the server itself, or to a pool with pool_mode = session. If the latency"
            " is all right: howdah doctor --ignore pooler-in-transaction-mode",
        )
