"""What work costs the server: WAL, buffers, the CPU of its backends; and how several figures become one."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

from benchmarks.server import Place

TICK = 1 / os.sysconf("SC_CLK_TCK")


class Spread(TypedDict):
    median: float
    min: float
    max: float
    values: list[float]


def spread(values: Iterable[float]) -> Spread:
    """The median of several runs, between which two they lie, and all of them in order."""
    known = [float(f"{value:.4g}") for value in values]
    return {"median": statistics.median(known), "min": min(known), "max": max(known), "values": known}


def ratio(above: Sequence[float], below: Sequence[float]) -> Spread:
    """Round by round: a noisy minute hits both."""
    return spread(a / b for a, b in zip(above, below, strict=True))


class Reading(NamedTuple):
    wal_bytes: int
    buffers: int

    def since(self, before: Reading) -> Reading:
        return Reading(self.wal_bytes - before.wal_bytes, self.buffers - before.buffers)


def read(place: Place) -> Reading:
    """Where the server's counters stand. What other sessions did is complete once they have ended; ours is so at once."""
    place.conn.execute("SELECT pg_stat_force_next_flush()")
    wal, buffers = place.conn.execute(
        "SELECT pg_current_wal_insert_lsn() - '0/0', blks_hit + blks_read FROM pg_stat_database"
        " WHERE datname = current_database()"
    ).fetchone() or (0, 0)
    return Reading(int(wal), int(buffers))


def await_end_of(place: Place, name: str) -> None:
    """Waits until no session of that name is left: then what it has counted can be read."""
    while backends(place, name):
        time.sleep(0.02)


def backends(place: Place, name: str) -> list[int]:
    rows = place.conn.execute("SELECT pid FROM pg_stat_activity WHERE application_name = %s", (name,))
    return [pid for (pid,) in rows]


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time of processes of this machine; of one that is not here, nothing."""
    return sum(_cpu_seconds(Path(f"/proc/{pid}")) for pid in pids)


def _cpu_seconds(process: Path) -> float:
    """In nanoseconds where the kernel counts them; else in ticks of a hundredth of a second."""
    try:
        if (nanoseconds := int((process / "schedstat").read_text().split()[0])) > 0:
            return nanoseconds / 1e9
        # The name, in brackets, may hold anything: count from its end.
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) * TICK
