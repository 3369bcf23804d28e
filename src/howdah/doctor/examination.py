"""The examination: one check after the other, each in a transaction that is rolled back, so that none affects the others.

A check that is not permitted, or takes too long, is returned as ``Unseen``. It is not a finding.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from datetime import datetime, timezone
from typing import Any, Final, TypeVar

import psycopg

from howdah.db import migrate, statements
from howdah.db.database import Database, SyncConnection
from howdah.db.plan import Begin, Plan, Row, read
from howdah.doctor import jobs, server, sessions, storage, workers
from howdah.doctor.catalogue import CATALOGUE
from howdah.doctor.finding import Diagnosis, Finding, Judge, Patient, Unseen
from howdah.doctor.words import quoted
from howdah.errors import DatabaseUnavailable, InvalidOption

R = TypeVar("R")

_OUTAGES: Final = ("08", "53300", "57P01", "57P02", "57P03")
_TRIES: Final = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """A statement of ``sql/reads/doctor``, its arguments, and the function that judges its rows."""

    name: str
    codes: tuple[str, ...]
    judge: Judge
    arguments: Callable[[Patient], Mapping[str, Any]] = lambda _: {}
    of_sessions: bool = False
    """Whether it reads sessions of other roles, which only members of pg_read_all_stats see."""


def _patience(patient: Patient) -> dict[str, Any]:
    return {"patience": patient.patience}


def _locked_for(patient: Patient) -> dict[str, Any]:
    return {"seconds": min(patient.patience, sessions.LOCKED_FOR)}


def _settings(_: Patient) -> dict[str, Any]:
    return {"names": list(server.SETTINGS)}


def _ours(_: Patient) -> dict[str, Any]:
    return {"relations": migrate.RELATIONS, "functions": list(statements.names("functions"))}


_OF_SETTINGS: Final = (*dict.fromkeys(code for _, code in server.SWITCHES.values()), "settings-harmful")

OF_THE_SERVER: Final = (
    Check("settings", _OF_SETTINGS, server.settings, _settings),
    Check("connections", ("connections-scarce",), server.connections),
    Check("notifications", ("notifications-piling-up",), sessions.notifications),
    Check("slots", ("slot-retains-wal",), sessions.slots),
    Check("sessions", ("xmin-held",), sessions.old_transactions, _patience, of_sessions=True),
    Check("prepared", ("xmin-held",), sessions.prepared_transactions, _patience),
)

OF_THE_QUEUE: Final = (
    Check("locks", ("table-locked",), sessions.locks, _locked_for, of_sessions=True),
    Check("advisory_locks", ("advisory-lock-held",), sessions.advisory_locks, _locked_for, of_sessions=True),
    Check("role_settings", _OF_SETTINGS, server.role_settings, _settings),
    Check("replication", ("xmin-held",), sessions.replication, of_sessions=True),
    Check("budget", ("connections-overcommitted",), server.budget),
    Check(
        "tables",
        ("table-unlogged", "autovacuum-off", "vacuum-behind", "wraparound-near"),
        storage.tables,
    ),
    Check(
        "indexes",
        ("index-missing", "index-invalid"),
        storage.indexes,
        lambda _: {"expected": storage.expected_indexes()},
    ),
    Check("bloat", ("live-bloated",), storage.bloat, lambda _: {"large": storage.LARGE, "row": storage.ROW}),
    Check("segments", ("segments-late",), storage.segments),
    Check("lanes", ("type-unhandled", "type-paused", "type-stuck"), jobs.due, _patience),
    Check(
        "overdue",
        ("job-orphaned", "lease-passed", "deadline-passed", "cancel-overdue", "job-expired", "job-spent"),
        jobs.overdue,
    ),
    Check("failures", ("type-failing",), jobs.failures),
    Check("workflows", ("workflow-stuck", "workflow-behind"), jobs.workflows),
    Check("schedules", ("schedule-overdue", "schedule-unhandled", "schedule-left-code"), jobs.schedules),
    Check("workers", ("worker-dead", "loop-blocked", "handlers-leaked", "versions-mixed"), workers.workers),
)
_VERSION: Final = Check(
    "version",
    ("schema-outdated", "schema-newer", "schema-drift"),
    storage.version,
    lambda _: migrate.digests(),
)
_OBJECTS: Final = Check("objects", ("schema-drift",), storage.objects, _ours)
_RIGHTS: Final = Check("rights", ("open-to-public",), storage.rights, _ours)


def chosen(only: Sequence[str] | None, ignore: Sequence[str]) -> frozenset[str]:
    """The codes to look for."""
    for code in (*(only or ()), *ignore):
        if code not in CATALOGUE:
            near = difflib.get_close_matches(code, CATALOGUE, 1)
            meant = f"did you mean {near[0]}?" if near else "howdah doctor --list names them all"
            raise InvalidOption(f"there is no finding {code!r}: {meant}")
    return frozenset(CATALOGUE if only is None else only) - frozenset(ignore)


def examine(
    database: Database, *, only: Sequence[str] | None = None, ignore: Sequence[str] = (), patience: float
) -> Diagnosis:
    wanted = chosen(only, ignore)
    database.look_after_embedded()
    with database.connect(database.dsn()) as conn:
        return _Examination(database, conn, wanted, patience).diagnosis()


class _Examination:
    """One run of all the checks that were asked for."""

    def __init__(self, database: Database, conn: SyncConnection, wanted: Set[str], patience: float) -> None:
        self._database = database
        self._conn = conn
        self._wanted = wanted
        self._findings: list[Finding] = []
        self._unseen: dict[tuple[str, str], tuple[str, ...]] = {}
        before = datetime.now(timezone.utc)
        there = database.run(_look("clock"), conn)[0]["now"]
        self._clock = before, there, datetime.now(timezone.utc)
        (self._server,) = database.run(_look("server"), conn)
        self._patient = Patient(
            database.schema,
            patience,
            self._server["role"],
            self._server["database"],
            _changes_sessions(database, conn),
        )

    def diagnosis(self) -> Diagnosis:
        self._findings += server.clock(*self._clock)
        self._findings += server.read_only(self._patient, [self._server])
        self._findings += server.pooler(self._patient)
        for check in OF_THE_SERVER:
            self._run(check)
        if self._server["installed"]:
            self._compare()
            self._run(_RIGHTS)
            for check in OF_THE_QUEUE:
                self._run(check)
        else:
            self._findings.append(storage.missing(self._patient))
        order = {code: place for place, code in enumerate(CATALOGUE)}
        found = [finding for finding in self._findings if finding.code in self._wanted]
        found.sort(key=lambda finding: (finding.severity, order[finding.code]))
        unseen = (Unseen(codes=codes, because=why, remedy=remedy) for (why, remedy), codes in self._unseen.items())
        return Diagnosis(found, unseen)

    def _run(self, check: Check) -> Sequence[Row] | None:
        """Run a check and judge its rows. Return them, or None if the check could not run."""
        if self._wanted.isdisjoint(check.codes):
            return None
        rows = self._try(_look(check.name, **check.arguments(self._patient)), check.codes)
        if rows is None:
            return None
        self._findings += check.judge(self._patient, rows)
        if check.of_sessions and self._server["hides_sessions"]:
            remedy = f"GRANT pg_read_all_stats TO {quoted(self._patient.role)};"
            self._unsee(check.codes, "the sessions of other roles are hidden from this one", remedy)
        return rows

    def _compare(self) -> None:
        """Compare the schema with a fresh installation; where none can be made, compare names alone."""
        rows = self._run(_VERSION)
        patient = self._patient
        if rows is None or not storage.is_as_installed(rows, patient.schema) or "schema-drift" not in self._wanted:
            return
        to_compare = (
            f"GRANT CREATE ON DATABASE {quoted(patient.database)} TO {quoted(patient.role)}; or run this as the owner now and then:"
            f" {patient.command('doctor', '--only', 'schema-drift')}. Until then only names are compared"
        )
        differences = self._try(_fresh(patient.schema), _OBJECTS.codes, to_compare)
        if differences is None:
            self._run(_OBJECTS)
        else:
            self._findings += storage.drift(self._patient, differences)

    def _try(self, plan: Plan[R], codes: Sequence[str], if_denied: str | None = None) -> R | None:
        answer = self._database.run(_attempt(plan), self._conn)
        if isinstance(answer, psycopg.Error):
            because = answer.diag.message_primary or str(answer)
            denied = answer.sqlstate == _DENIED
            self._unsee(codes, because, (if_denied or self._to_see()) if denied else self._mended(answer.sqlstate))
            return None
        return answer

    def _unsee(self, codes: Sequence[str], because: str, remedy: str) -> None:
        missed = tuple(code for code in codes if code in self._wanted)
        known = self._unseen.get((because, remedy), ())
        self._unseen[because, remedy] = tuple(dict.fromkeys((*known, *missed)))

    def _to_see(self) -> str:
        viewer = f"{self._database.schema}_viewer"
        first = "" if self._server["has_roles"] else f"{self._patient.command('migrate', '--roles')}, and then: "
        return f"{first}GRANT {quoted(viewer)} TO {quoted(self._patient.role)}; or run the doctor as the owner of the schema"

    def _mended(self, sqlstate: str | None) -> str:
        if sqlstate in _NOT_THERE:
            # A plain migration skips a schema that has this version already.
            return f"{self._patient.command('migrate', '--reinstall')}; it does not change tables: see schema-drift"
        return _REMEDIES.get(sqlstate or "", "if it happens again, report it with this message")


_DENIED: Final = "42501"
_NOT_THERE: Final = ("42P01", "42703", "42883")
_REMEDIES: Final = {
    "57014": "it took longer than 15 seconds: try again when the server has less to do",
    "55P03": "a session has locked the table: see table-locked, or try again",
    "25006": "run the doctor on a server that takes writes",
}


def _attempt(plan: Plan[R]) -> Plan[R | psycopg.Error]:
    """The result of a plan, or its error. An outage is raised: it concerns every check."""
    try:
        return (yield from plan)
    except psycopg.Error as error:
        if (error.sqlstate or "08").startswith(_OUTAGES):
            raise
        return error


def _look(name: str, /, **arguments: Any) -> Plan[list[Row]]:
    yield Begin(discard=True)
    if name != "settings":
        yield from read("doctor/patience")
    return (yield from read(f"doctor/{name}", **arguments))


def _fresh(schema: str) -> Plan[list[migrate.Difference]]:
    """The comparison, with the timeouts of any other check."""
    return (yield from migrate.check(schema, first=read("doctor/patience")))


def _changes_sessions(database: Database, conn: SyncConnection) -> bool:
    """Whether two connections share a session, or one of them changes sessions, as behind a pooler in transaction mode.

    The probe only reads. LISTEN or a lock would stay behind in the pooler's sessions.
    """
    if database.reaches_its_backend(conn):
        return False
    ours = _sessions(database, conn)
    try:
        with database.connect(database.dsn()) as other:
            theirs = _sessions(database, other)
    except DatabaseUnavailable:
        # There is no second connection, so nothing can be said beyond the first one.
        return len(ours) > 1
    return len(ours | theirs) < 2 or len(ours) > 1 or len(theirs) > 1


def _sessions(database: Database, conn: SyncConnection) -> set[int]:
    return {database.run(read("backend"), conn)[0]["pid"] for _ in range(_TRIES)}


def checks() -> Iterator[Check]:
    """Every check."""
    yield from (*OF_THE_SERVER, _VERSION, _OBJECTS, _RIGHTS, *OF_THE_QUEUE)
