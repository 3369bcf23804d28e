"""Whole versions beside each other, workers and all: as they come, in turns, on one server.

    python -m benchmarks.releases COMMIT … [--rounds 5] [--only enqueue,together,drain,pickup,slow] [--quick] [--out FILE.json]

Each version comes out of the repository's history, has a database of its own, and the programs of its turns import its own source; the last
version is the one that is here. What is measured:

    enqueue    jobs a second of one producer, one by one
    together   the same of 16 tasks in one process
    drain      jobs a second of one worker at default settings, by the database's own record
    pickup     from before the enqueue of a job to its handler, p50 and p99 in ms: an idle worker, a job every 50 ms
    slow       the same of jobs that take 20 ms, while jobs that take no time wait in great number; and the worker's
               memory at its highest, in MB

Ratios are those of the version that is here to each former one, round by round: above 1 is better for the first three, below 1 for
the others.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests import history

from benchmarks import meter, result
from benchmarks.server import Connection, server

HERE = "here"
PATIENCE = 600
WARM_UP = 20

Figures: TypeAlias = Iterator[tuple[str, float]]


class Version:
    """A database with the schema of one version, and how its programs are run."""

    def __init__(self, name: str, source: Path, dsn: str) -> None:
        self.name = name
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        own = make_conninfo(dsn, dbname=name)
        self._environment = {**os.environ, "PYTHONPATH": str(source), "HOWDAH_DSN": own}
        subprocess.run(
            [sys.executable, "-m", "howdah", "migrate"], check=True, stdout=subprocess.DEVNULL, env=self._environment
        )
        self.conn: Connection = psycopg.connect(own, autocommit=True, options="-c search_path=howdah")

    def turn(self, *arguments: str) -> str:
        """Runs one to its end, and returns what it has printed."""
        return subprocess.run(
            self._command(arguments), check=True, env=self._environment, stdout=subprocess.PIPE, text=True
        ).stdout

    def worker(self) -> subprocess.Popen[str]:
        return subprocess.Popen(self._command(("work",)), env=self._environment, stdout=subprocess.PIPE, text=True)

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "benchmarks.releases_turn", *arguments]

    def empty(self) -> None:
        """Neither bloat nor full-page images of one turn weigh upon the next. Counts of the backlog go with the jobs."""
        self.conn.execute("TRUNCATE live, archive, archive_counts, events, workers")
        self.conn.execute("VACUUM (ANALYZE) live, archive")
        self.conn.execute("CHECKPOINT")

    def ended(self) -> int:
        row = self.conn.execute("SELECT coalesce(sum(jobs), 0) FROM archive_counts").fetchone()
        return int(row[0]) if row else 0


def enqueue(version: Version, share: float) -> Figures:
    yield "jobs/s", float(version.turn("enqueue", str(int(3_000 * share))))


def together(version: Version, share: float) -> Figures:
    yield "jobs/s", float(version.turn("together", str(int(12_000 * share))))


def drain(version: Version, share: float) -> Figures:
    jobs = int(150_000 * share)
    version.turn("fill", str(jobs))
    version.conn.execute("VACUUM (ANALYZE) live")
    version.conn.execute("CHECKPOINT")
    with version.worker() as worker:
        await_ended(version, jobs, worker)
        worker.send_signal(signal.SIGTERM)
        worker.communicate()
        rate = version.conn.execute(
            "SELECT count(*) / extract(epoch FROM max(finished_at) - min(started_at)) FROM archive"
        ).fetchone()
    assert rate is not None
    yield "jobs/s", float(rate[0])


def pickup(version: Version, share: float) -> Figures:
    yield from _latencies(version, "single", int(200 * share))


def slow(version: Version, share: float) -> Figures:
    # More than any version gets through meanwhile: the quick ones never run out.
    version.turn("fill", str(int(400_000 * share)))
    yield from _latencies(version, "slow", int(100 * share))


def _latencies(version: Version, job_type: str, jobs: int) -> Figures:
    with version.worker() as worker:
        assert worker.stdout is not None
        version.turn("send", job_type, str(WARM_UP + jobs))
        lines = [next(worker.stdout) for _ in range(WARM_UP + jobs)]
        worker.send_signal(signal.SIGTERM)
        memory = float(worker.stdout.read().split()[-1])
    latencies = sorted(float(line.split()[1]) * 1e3 for line in lines[WARM_UP:])
    yield "p50 ms", latencies[len(latencies) // 2]
    yield "p99 ms", latencies[int(0.99 * (len(latencies) - 1))]
    yield "memory MB", memory


CASES: dict[str, Callable[[Version, float], Figures]] = {
    case.__name__: case for case in (enqueue, together, drain, pickup, slow)
}


def await_ended(version: Version, jobs: int, worker: subprocess.Popen[str]) -> None:
    for _ in range(PATIENCE * 10):
        if version.ended() >= jobs:
            return
        if worker.poll() is not None:
            raise RuntimeError(f"the worker of {version.name} has ended before its jobs have")
        try:
            worker.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
    raise RuntimeError(f"after {PATIENCE} s there are still {jobs - version.ended()} jobs to go")


def main() -> None:
    parser = result.parser(__doc__)
    parser.add_argument("commits", nargs="+", metavar="COMMIT", help="a version before")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(CASES), metavar="CASE,…")
    args = parser.parse_args()
    share, rounds = (0.05, 1) if args.quick else (1.0, args.rounds)
    found: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder, server(args.dsn) as running:
        machine = result.machine(running)
        versions = []
        for commit in args.commits:
            source = history.extract(commit, Path(folder) / commit, "src") / "src"
            versions.append(Version(commit, source, running.dsn))
        versions.append(Version(HERE, history.ROOT / "src", running.dsn))
        for number in range(rounds):
            for name in args.only.split(","):
                for version in versions if number % 2 == 0 else reversed(versions):
                    version.empty()
                    for what, value in CASES[name](version, share):
                        found.setdefault(f"{name}, {what}", {}).setdefault(version.name, []).append(value)
                        result.say(f"round {number + 1}: {version.name}: {name}: {value:,.1f} {what}")
        for version in versions:
            version.conn.close()
    heads = ["", *(version.name for version in versions), *(f"to {commit}" for commit in args.commits)]
    rows = [
        [
            what,
            *(f"{meter.spread(values)['median']:,.1f}" for values in by_version.values()),
            *(_range(meter.ratio(by_version[HERE], by_version[commit])) for commit in args.commits),
        ]
        for what, by_version in ((what, {v.name: values[v.name] for v in versions}) for what, values in found.items())
    ]
    print(result.table(heads, rows))
    result.write(args.out, {"machine": machine, "quick": args.quick, "found": found})


def _range(ratio: meter.Spread) -> str:
    return f"{ratio['median']:.2f} ({ratio['min']:.2f}–{ratio['max']:.2f})"


if __name__ == "__main__":
    main()
