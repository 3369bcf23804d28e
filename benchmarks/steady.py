"""Steady state: producers and a worker run together for a while, and nothing may grow.

    python -m benchmarks.steady [--rate 6000] [--minutes 5] [--window 5] [--quick] [--dsn …] [--out FILE.json]

An hour's worth of jobs at 5,000 a second is 18 million; 1.8 million at a higher rate show the same sooner (``--rate 5000
--minutes 60`` is the whole hour). Watched over time: the size of the live table and of its indexes, its dead rows,
autovacuum's visits, how many jobs wait, the worker's memory, and the latency from the producer's call to the handler,
p50 and p99 of each window. Asked for, once the first 200,000 jobs are through: the memory stays within 10 MB; and in the
last third of the time as in the first: table, indexes and dead rows at most half as large again, p99 at most a
quarter longer. Autovacuum comes once a minute at the default settings, so that less than three minutes say little.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks import result
from benchmarks.drain import NAME
from benchmarks.drift import thirds
from benchmarks.memory import resident_bytes
from benchmarks.program import output, program
from benchmarks.server import Place, server

WARM_UP = 200_000
MOST_MEMORY = 10e6
MOST_GROWTH = 1.5
MOST_LATENCY = 1.25


class Sample(NamedTuple):
    """How things stand at one moment. Latencies, in milliseconds, are of the window before it."""

    seconds: float
    handled: int
    p50: float | None
    p99: float | None
    rss: int
    table_bytes: int
    index_bytes: dict[str, int]
    dead: int
    vacuums: int
    waiting: int


def observed(place: Place, worker: subprocess.Popen[str], producer: subprocess.Popen[str]) -> Iterator[Sample]:
    """A sample at each line of the worker, for as long as the producer runs."""
    assert worker.stdout is not None
    began: float | None = None
    for line in worker.stdout:
        told = json.loads(line)
        began = told["at"] if began is None else began
        dead, vacuums = place.conn.execute(
            "SELECT n_dead_tup, autovacuum_count FROM pg_stat_user_tables WHERE relid = 'live'::regclass"
        ).fetchone() or (0, 0)
        yield Sample(
            round(told["at"] - began, 1),
            told["handled"],
            told["p50"],
            told["p99"],
            resident_bytes(worker.pid) or 0,
            place.one("SELECT pg_relation_size('live')"),
            _index_bytes(place),
            dead,
            vacuums,
            place.one("SELECT count(*) FROM live"),
        )
        if producer.poll() is not None:
            return


def _index_bytes(place: Place) -> dict[str, int]:
    rows = place.conn.execute(
        "SELECT indexrelid::regclass::text, pg_relation_size(indexrelid) FROM pg_index WHERE indrelid = 'live'::regclass"
    )
    return dict(rows.fetchall())


def measure(place: Place, args: argparse.Namespace) -> dict[str, Any]:
    series: list[Sample] = []
    pace = ("--rate", str(args.rate), "--seconds", str(args.minutes * 60))
    with (
        program("benchmarks.work", place, NAME, "--tell", str(args.window)) as worker,
        program("benchmarks.produce", place, "bench-producer", *pace) as producer,
    ):
        for sample in observed(place, worker, producer):
            series.append(sample)
            result.say(
                f"{sample.handled:>9,} handled, {sample.waiting:,} wait, p50 {sample.p50} ms, p99 {sample.p99} ms,"
                f" worker {sample.rss / 1e6:.1f} MB, table {sample.table_bytes / 1e6:.1f} MB,"
                f" indexes {sum(sample.index_bytes.values()) / 1e6:.1f} MB, {sample.dead:,} dead, {sample.vacuums} vacuums"
            )
        produced = json.loads(output(producer))
    return {
        "rate": args.rate,
        "minutes": args.minutes,
        "produced": produced,
        "verdict": verdict(series, produced["jobs"]),
        "series": [sample._asdict() for sample in series],
    }


def verdict(series: Sequence[Sample], jobs: int) -> dict[str, dict[str, Any]]:
    """What was asked for, what came out, and whether that is it."""
    warm = [sample for sample in series if sample.handled >= min(WARM_UP, jobs // 5)]
    first, last = thirds(warm)
    memory = max(abs(sample.rss - warm[0].rss) for sample in warm)
    grown = {
        "table": max(s.table_bytes for s in last) / max(s.table_bytes for s in first),
        "indexes": max(sum(s.index_bytes.values()) for s in last) / max(sum(s.index_bytes.values()) for s in first),
        "dead": max(s.dead for s in last) / max(*(s.dead for s in first), 1),
    }
    latency = _median_p99(last) / _median_p99(first)
    return {
        "rate": _judged(warm[-1].handled / jobs, warm[-1].handled >= 0.98 * jobs, "of what was produced was handled"),
        "memory": _judged(memory / 1e6, memory <= MOST_MEMORY, "MB from where it was when warm"),
        **{name: _judged(value, value <= MOST_GROWTH, "times the first third's") for name, value in grown.items()},
        "p99": _judged(latency, latency <= MOST_LATENCY, "times the first third's"),
    }


def _median_p99(samples: Sequence[Sample]) -> float:
    return statistics.median(sample.p99 for sample in samples if sample.p99 is not None)


def _judged(value: float, met: bool, meaning: str) -> dict[str, Any]:
    return {"value": round(value, 3), "met": met, "meaning": meaning}


def main() -> None:
    parser = result.parser(__doc__)
    parser.add_argument("--rate", type=float, default=6_000, help="jobs a second")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--window", type=float, default=5, help="seconds between two looks")
    args = parser.parse_args()
    if args.quick:
        args.rate, args.minutes, args.window = args.rate / 2, args.minutes / 10, args.window / 5
    with server(args.dsn) as running:
        machine = result.machine(running)
        found = measure(running.place("steady"), args)
    for name, judged in found["verdict"].items():
        print(f"{name}: {judged['value']} {judged['meaning']}: {'flat' if judged['met'] else 'NOT FLAT'}")
    result.write(args.out, {"machine": machine, "quick": args.quick, **found})


if __name__ == "__main__":
    main()
