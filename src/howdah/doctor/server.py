"""The server: whether it keeps what it confirms, takes writes, and has connections left."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from howdah.db.plan import Row
from howdah.doctor.catalogue import finding
from howdah.doctor.finding import Finding, Patient
from howdah.doctor.words import count, literal, quoted, span

SWITCHES: Final = {
    "fsync": ("off", "fsync-off"),
    "full_page_writes": ("off", "full-page-writes-off"),
    "zero_damaged_pages": ("on", "damaged-pages-zeroed"),
    "track_activities": ("off", "tracking-off"),
    "track_counts": ("off", "tracking-off"),
    "autovacuum": ("off", "autovacuum-off"),
    "synchronous_commit": ("off", "commits-not-durable"),
}
"""The value that each must not have, wherever it is set. The settings below count only where workers have them."""
TIMEOUTS: Final = {
    "statement_timeout": 5.0,
    "transaction_timeout": 5.0,
    "lock_timeout": 0.1,
    "idle_session_timeout": 60.0,
}
"""Seconds below which workers are interrupted again and again."""
ISOLATION: Final = "default_transaction_isolation"
SETTINGS: Final = (*SWITCHES, *TIMEOUTS, ISOLATION)
CLOCK_OFF: Final = 5.0
CONNECTIONS_USED: Final = 0.9
CONNECTIONS_OF_A_WORKER: Final = 6
"""Five of its own, and one of its pools."""

_OF_ROLES: Final = ("global", "database", "user", "database user")
"""The sources of settings of roles and databases. ``role_settings`` reports these, whatever role the doctor connects as."""
_OF_THE_SESSION: Final = ("client", "session")
_SWITCHED: Final = {"off": ("off", "false", "no", "0"), "on": ("on", "true", "yes", "1")}
_UNITS: Final = {"us": 1e-6, "ms": 1e-3, "": 1e-3, "s": 1, "min": 60, "h": 3_600, "d": 86_400}
_CONSEQUENCES: Final = {
    "fsync-off": "a crash of the machine may destroy the whole database, jobs and all",
    "full-page-writes-off": "a crash of the machine may leave torn pages, which no recovery repairs",
    "damaged-pages-zeroed": "damaged pages are read as empty: their jobs are lost without an error",
    "tracking-off": "sessions do not show what they do, or autovacuum does not know what to do",
    "autovacuum-off": "dead rows are never removed, and claims get slower and slower",
    "commits-not-durable": "a commit that was confirmed may be lost in a crash, and an enqueued job with it",
}


def settings(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        name, source = row["name"], row["source"]
        # A timeout that the doctor's own session has set says nothing about workers.
        if source not in _OF_ROLES and (name in SWITCHES or source not in _OF_THE_SESSION):
            whose = "this session's" if source in _OF_THE_SESSION else "the server's"
            remedy = _set(patient, name, row["boot_val"], source)
            yield from _judged(name, _as_written(name, row["setting"]), f"{whose} settings ({source})", remedy)


def role_settings(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        role, database, name = row["role"], row["database"], row["name"]
        if name in SWITCHES or row["works"]:
            cause = f"what is set for {'all roles' if role is None else f'role {role}'}"
            cause += "" if database is None else f" in database {database}"
            yield from _judged(name, row["value"], cause, f"{_reset(name, role, database)} -- and restart the sessions")


def _judged(name: str, value: str, cause: str, remedy: str) -> Iterator[Finding]:
    bad, code = SWITCHES.get(name, ("", "settings-harmful"))
    if name in SWITCHES and value.lower() in _SWITCHED[bad]:
        why = _CONSEQUENCES[code]
    elif name in TIMEOUTS and 0 < _seconds(value) < TIMEOUTS[name]:
        why = "workers are interrupted again and again"
    elif name == ISOLATION and value in ("repeatable read", "serializable"):
        why = "claims fail and are repeated whenever two workers claim at once"
    else:
        return
    what = f"{name} is {value}: {why}"
    yield finding(code, what=what, cause=cause, remedy=remedy, setting=name, value=value)


def _set(patient: Patient, name: str, value: str, source: str) -> str:
    """The statement or step that sets this value, depending on where the present one comes from."""
    if source == "command line":
        return f"remove {name} from the command line that starts the server (-c {name}=…), and restart it"
    if source in _OF_THE_SESSION:
        return f"remove {name} from the options of the DSN, or from PGOPTIONS"
    if source in _OF_ROLES:
        role = patient.role if "user" in source else None
        return _reset(name, role, patient.database if "database" in source else None)
    written = value if re.fullmatch(r"\w+", value) else literal(value)
    # Not RESET, which leaves the value of postgresql.conf in place.
    return f"ALTER SYSTEM SET {name} = {written}; SELECT pg_reload_conf();"


def _reset(name: str, role: str | None, database: str | None) -> str:
    if role is None and database is not None:
        return f"ALTER DATABASE {quoted(database)} RESET {name};"
    within = "" if database is None else f" IN DATABASE {quoted(database)}"
    return f"ALTER ROLE {'ALL' if role is None else quoted(role)}{within} RESET {name};"


def _as_written(name: str, value: str) -> str:
    return f"{value}ms" if name in TIMEOUTS and value != "0" else value


def _seconds(value: str) -> float:
    """The seconds of a duration in the notation of PostgreSQL's settings."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d|)\s*", value)
    return float(match[1]) * _UNITS[match[2]] if match else 0.0


def read_only(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    (row,) = rows
    if row["in_recovery"]:
        yield finding(
            "server-read-only",
            what="this server is a standby: no job can be added, claimed or completed here",
            cause="the DSN, which leads to a standby",
            remedy="connect to the primary; with several hosts in the DSN, add target_session_attrs=read-write. If this was"
            " meant to be the primary: SELECT pg_promote();",
        )
    elif row["read_only"]:
        name, source = "default_transaction_read_only", row["read_only_source"]
        # A read-only transaction refuses ALTER ROLE and ALTER DATABASE, too.
        first = f"SET {name} = off; " if source in _OF_ROLES else ""
        yield finding(
            "server-read-only",
            what="transactions are read-only here: no job can be added, claimed or completed",
            cause=f"{name}, which is on ({source})",
            remedy=first + _set(patient, name, "off", source),
        )


def clock(before: datetime, there: datetime, after: datetime) -> Iterator[Finding]:
    """Compare the database's clock with ours, which was read before and after it."""
    ahead = (before - there).total_seconds() if there < before else -max((there - after).total_seconds(), 0)
    if abs(ahead) >= CLOCK_OFF:
        yield finding(
            "clock-off",
            what=f"the clock of this machine is {span(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} the database's."
            " The queue uses the database's clock; a run_at that is computed here, and the times of logs, are wrong by that much",
            cause="the clock of this machine, or the database's",
            remedy="synchronise both by NTP: timedatectl set-ntp true; check with: timedatectl timesync-status",
            seconds_ahead=round(ahead, 1),
        )


def connections(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        if row["used"] < CONNECTIONS_USED * row["most"]:
            continue
        holders = row["holders"] or [{"role": None, "application": None, "connections": 0}]
        first = holders[0]
        named = f" ({first['application']})" if first["application"] else ""
        how = (
            "ALTER SYSTEM SET max_connections = …, and restart the server"
            if row["is_server"]
            else f"raise the limit of {row['whose']}"
        )
        yield finding(
            "connections-scarce",
            what=f"{row['used']:,} of the {row['most']:,} connections that {row['whose']} allows are in use;"
            " clients without a connection cannot enqueue, and new workers wait",
            cause=f"most are held by role {first['role']}{named}: {first['connections']:,}",
            remedy=f"use smaller pools (JobQueue(pool_size=…)), fewer workers, or a pooler for other clients; or {how}",
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
            what=f"{count(row['workers'], 'live worker')} need {needed:,} connections, and the server allows {row['most']:,}"
            " in all",
            cause=f"{count(row['workers'], 'worker')} with at least {CONNECTIONS_OF_A_WORKER} connections each",
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
            what="a pooler between this client and the server gives each transaction another session. Notifications do not get"
            " through it: clients and workers that connect this way poll, which costs up to a second for each job",
            cause="the pooler that the DSN leads to",
            remedy="give workers a DSN that leads to the server itself, or to a pool with pool_mode = session. If the latency"
            " is all right: howdah doctor --ignore pooler-in-transaction-mode",
        )
