"""What the figures depend on: the machine, the server and its settings, and the way between them."""

from __future__ import annotations

import dataclasses
import os
import platform
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import psycopg

from howdah.cli.commands.bench.schema import statement
from howdah.worker.event_loop import loop_name

_PINGS: Final = 50
_FOR_DURABILITY: Final = {
    "fsync": "a crash of the machine may destroy the database",
    "synchronous_commit": "a crash may lose what was committed last",
    "full_page_writes": "a crash of the machine may tear pages",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """Where the bench itself runs."""

    cores: int
    cpu: str
    system: str
    python: str
    loop: str
    driver: str

    @classmethod
    def this(cls) -> Machine:
        return cls(
            cores=_cores(),
            cpu=_cpu(),
            system=f"{platform.system()} {platform.release()}",
            python=f"{platform.python_implementation()} {platform.python_version()}",
            loop=loop_name(),
            driver=f"psycopg {psycopg.__version__} ({psycopg.pq.__impl__})",
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """The server, as a connection of the bench sees it."""

    version: str
    connection: str
    """"TCP", or "a socket"."""
    round_trip_ms: float
    settings: Mapping[str, str]

    @classmethod
    def behind(cls, conn: psycopg.Connection[dict[str, Any]], schema: str) -> Server:
        settings = {row["name"]: row["setting"] for row in conn.execute(statement("server", schema))}
        return cls(
            version=settings.pop("server_version"),
            connection="a socket" if conn.info.host.startswith("/") else "TCP",
            round_trip_ms=_round_trip(conn),
            settings=settings,
        )

    def warnings(self) -> list[str]:
        """Settings under which the figures are not those of a durable queue."""
        return [
            f"{name} is off: {danger}, and the figures are not those of a durable queue"
            for name, danger in _FOR_DURABILITY.items()
            if self.settings[name] == "off"
        ]


def _round_trip(conn: psycopg.Connection[Any]) -> float:
    """The milliseconds of the shortest statement."""
    taken = []
    for _ in range(_PINGS):
        began = time.perf_counter()
        conn.execute("SELECT")
        taken.append(1_000 * (time.perf_counter() - began))
    return statistics.median(taken)


def _cores() -> int:
    """Those that this process may use, if the system says so."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _cpu() -> str:
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text(encoding="utf-8", errors="replace").splitlines() if facts.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
