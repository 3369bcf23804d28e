"""Two versions of the SQL functions beside each other: the CPU of the backend and the WAL that each call costs a job.

The version before comes out of the repository's history; each has a database of its own on one server, and they take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests import history

from benchmarks import meter
from benchmarks.server import PAYLOAD, TYPE, Connection, server
from howdah.model.ids import new_id

# Many short turns: what disturbs a machine for a second then hits both versions, or is one of many turns.
JOBS = 4_000
ROUNDS = 60
BATCH = 500
# Calls of one job each take as long as batches of many more.
ONE_BY_ONE = 500


class Cost(NamedTuple):
    """Of one job: microseconds of the backend's CPU, and bytes of WAL."""

    cpu: float
    wal: float


class Version:
    """A database with the functions of one version, and one connection to it."""

    def __init__(self, name: str, dsn: str) -> None:
        self.name = name
        options = "-c search_path=howdah"
        self.conn: Connection = psycopg.connect(make_conninfo(dsn, options=options), autocommit=True)
        self._pid = self.conn.info.backend_pid
        self._boot = str(uuid.uuid4())
        self.conn.execute("SELECT register_worker('bench', %s, '1 day')", (self._boot,))

    def rounds(self, jobs: int) -> Iterator[tuple[str, Cost]]:
        """Every measured call, once, on as many jobs."""
        yield "enqueue", self._cost(ONE_BY_ONE, lambda: self._enqueue(ONE_BY_ONE))
        yield "enqueue (id given)", self._cost(ONE_BY_ONE, lambda: self._enqueue_given(ONE_BY_ONE))
        yield "enqueue_many", self._cost(jobs, lambda: self._enqueue_many(jobs))
        yield "claim (started) + complete", self._cost(jobs + 2 * ONE_BY_ONE, self._drain)
        self._enqueue_many(jobs)
        held: list[tuple[uuid.UUID, int]] = []
        yield "claim", self._cost(jobs, lambda: held.extend(self._claim_all()))
        yield "start", self._cost(jobs, lambda: self._each("start(%s, %s)", held))
        yield (
            "progress",
            self._cost(jobs, lambda: self._each("progress(%s, %s, array_fill(5.0::float8, ARRAY[500]))", held)),
        )
        yield "fail", self._cost(jobs, lambda: self._each("fail(%s, %s, array_fill('boom'::text, ARRAY[500]))", held))
        self.conn.execute("SELECT count(*) FROM cancel(ARRAY(SELECT id FROM live))")
        self.conn.execute("VACUUM live")

    def _cost(self, jobs: int, work: Callable[[], None]) -> Cost:
        before, cpu = self._wal(), meter.cpu_seconds([self._pid])
        work()
        return Cost((meter.cpu_seconds([self._pid]) - cpu) / jobs * 1e6, (self._wal() - before) / jobs)

    def _wal(self) -> int:
        row = self.conn.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()
        return int(row[0]) if row else 0

    def _enqueue(self, jobs: int) -> None:
        for _ in range(jobs):
            self.conn.execute(
                "SELECT id FROM enqueue(p_job_type => %s, p_data => %s::jsonb)", (TYPE, PAYLOAD), prepare=True
            )

    def _enqueue_given(self, jobs: int) -> None:
        """As the client does, which makes the id."""
        for _ in range(jobs):
            self.conn.execute(
                "SELECT id FROM enqueue(p_job_type => %s, p_data => %s::jsonb, p_id => %s)",
                (TYPE, PAYLOAD, new_id()),
                prepare=True,
            )

    def _enqueue_many(self, jobs: int) -> None:
        for _ in range(0, jobs, BATCH):
            self.conn.execute("SELECT enqueue_many(%s, array_fill(%s::jsonb, ARRAY[%s]))", (TYPE, PAYLOAD, BATCH))

    def _claim(self, start: int) -> list[tuple[uuid.UUID, int]]:
        claim = "SELECT id, token FROM claim('bench', %s, %s, %s, p_incarnation => %s)"
        return self.conn.execute(claim, ([TYPE], BATCH, start, self._boot), prepare=True).fetchall()

    def _claim_all(self) -> Iterator[tuple[uuid.UUID, int]]:
        while batch := self._claim(0):
            yield from batch

    def _drain(self) -> None:
        while batch := self._claim(BATCH):
            self._each("complete(%s, %s)", batch)

    def _each(self, call: str, held: list[tuple[uuid.UUID, int]]) -> None:
        for first in range(0, len(held), BATCH):
            batch = held[first : first + BATCH]
            self.conn.execute(
                f"SELECT count(*) FROM {call}".encode(),
                ([id for id, _ in batch], [token for _, token in batch]),
                prepare=True,
            )


def installed(dsn: str, name: str, source: Path) -> Version:
    """A database with the schema of the version whose source this is."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    own = make_conninfo(dsn, dbname=name)
    subprocess.run(
        [sys.executable, "-m", "howdah", "migrate"],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(source), "HOWDAH_DSN": own},
    )
    return Version(name, own)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.versions", description=__doc__)
    parser.add_argument("commit", help="the version before")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--out", type=Path, help="the results as JSON")
    args = parser.parse_args()
    costs: dict[str, dict[str, list[Cost]]] = {}
    with tempfile.TemporaryDirectory() as folder, server() as running:
        former = history.extract(args.commit, Path(folder), "src") / "src"
        versions = [installed(running.dsn, "before", former), installed(running.dsn, "after", history.ROOT / "src")]
        for turn in range(args.rounds):
            for version in versions if turn % 2 == 0 else reversed(versions):
                for call, cost in version.rounds(args.jobs):
                    costs.setdefault(call, {}).setdefault(version.name, []).append(cost)
            print(f"\rround {turn + 1} of {args.rounds}", end="", file=sys.stderr)
        print(file=sys.stderr)
    results = {}
    print(f"{'a job':28} {'CPU before':>10} {'after':>8} {'ratio':>7}   {'WAL before':>10} {'after':>8} {'ratio':>7}")
    for call, by_name in costs.items():
        row = results[call] = {
            what: {
                "before": meter.spread(getattr(cost, what) for cost in by_name["before"]),
                "after": meter.spread(getattr(cost, what) for cost in by_name["after"]),
                "ratio": meter.ratio(
                    *([getattr(cost, what) for cost in by_name[name]] for name in ("after", "before"))
                ),
            }
            for what in ("cpu", "wal")
        }
        cpu, wal = ([row[what][key]["median"] for key in ("before", "after", "ratio")] for what in ("cpu", "wal"))
        print(f"{call:28} {cpu[0]:8.1f}µs {cpu[1]:6.1f}µs {cpu[2]:7.3f}   {wal[0]:9.0f}B {wal[1]:7.0f}B {wal[2]:7.3f}")
    if args.out:
        args.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
