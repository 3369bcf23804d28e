"""Workers, as their last heartbeats show them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from howdah.db.plan import Row
from howdah.doctor.catalogue import finding
from howdah.doctor.finding import Finding, Patient
from howdah.doctor.words import count, listed, span

UNSWEPT: Final = 60.0
LOOP_LAG: Final = 5.0
"""Seconds. The worker itself logs it after one, which a busy machine may cause by itself."""


def workers(patient: Patient, rows: Sequence[Row]) -> Iterator[Finding]:
    living = [row for row in rows if row["alive"]]
    for row in rows:
        if row["alive"]:
            yield from _ails(row)
        elif row["age"] > row["lease"] + UNSWEPT and not row["holds"]:
            yield finding(
                "worker-dead",
                what=f"worker {row['worker_id']} has been silent for {span(row['age'])}, and is still listed",
                cause=_whereabouts(row),
                remedy=patient.sweep(len(living)),
                worker=row["worker_id"],
                seconds=row["age"],
            )
    yield from _versions(patient, living)


def _ails(row: Row) -> Iterator[Finding]:
    if (row["loop_lag"] or 0) >= LOOP_LAG:
        yield finding(
            "loop-blocked",
            what=f"the event loop of worker {row['worker_id']} has been blocked for {span(row['loop_lag'])}: none of its other"
            " coroutines runs meanwhile",
            cause=_whereabouts(row),
            remedy="its log names the handler (loop_blocked): make that a plain function (def), or await what blocks",
            worker=row["worker_id"],
            loop_lag=row["loop_lag"],
        )
    if row["leaked"]:
        yield finding(
            "handlers-leaked",
            what=f"{count(row['leaked'], 'handler')} of worker {row['worker_id']} {'has' if row['leaked'] == 1 else 'have'} lost"
            f" {'its job and is' if row['leaked'] == 1 else 'their jobs and are'} still running",
            cause=_whereabouts(row),
            remedy="restart the worker. Then make such handlers check job.cancelled, give their calls timeouts, or run them with"
            " process=True, so that they can be killed",
            worker=row["worker_id"],
            leaked=row["leaked"],
        )


def _versions(patient: Patient, living: Sequence[Row]) -> Iterator[Finding]:
    by_version: dict[str, list[str]] = {}
    for row in living:
        by_version.setdefault(row["version"] or "unknown", []).append(row["worker_id"])
    # During a deployment some workers have just begun, and the others are about to end.
    if len(by_version) > 1 and min(row["up"] for row in living) >= patient.patience:
        newest = max(living, key=lambda row: -float(row["up"]))["version"] or "unknown"
        older = {version: names for version, names in by_version.items() if version != newest}
        yield finding(
            "versions-mixed",
            what=f"live workers run Howdah {listed(sorted(by_version))}, and none has started lately",
            cause="; ".join(f"{listed(names)} ({version})" for version, names in sorted(older.items())),
            remedy=f"restart these with Howdah {newest}, the version of the worker that started last",
            versions=by_version,
        )


def _whereabouts(row: Row) -> str:
    place = f" on {row['host']}" if row["host"] else ""
    process = "" if row["pid"] is None else f", pid {row['pid']}"
    return f"worker {row['worker_id']}{place}{process}"
