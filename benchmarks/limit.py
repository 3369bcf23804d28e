"""The limit: our SQL functions driven by a bare loop, and the real worker beside it, in turns, in one run.

    python -m benchmarks.limit [--jobs 100000] [--rounds 5] [--quick] [--dsn …] [--out FILE.json]

How fast could any worker be that claims, starts and completes with these functions (the fence, the history and the
counts as users get them), and how much of that does ours reach, with a handler that does nothing, in one process? The
loop claims with a cursor, has everything started by the claim, and completes what it has claimed; once also with the
start written apart. What it costs the server is split into enqueuing, claiming and completing. Takes some 5 minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks import bare, meter, result
from benchmarks.bare import Batch, Loop, Shape
from benchmarks.drain import Drain, drain, rate
from benchmarks.meter import Spread, spread
from benchmarks.server import Place, server

SHAPES = [
    *(Shape(connections, batch) for connections in (1, 2, 4) for batch in (500, 1_000)),
    Shape(1, 1_000, start_apart=True),
]
ONE = Shape(1, 1_000)


class Cost(NamedTuple):
    """Of each job."""

    wal_bytes: float
    buffers: float
    backend_cpu: float


def loop(place: Place, jobs: int, shape: Shape) -> Drain:
    began, before = place.now(), meter.read(place)
    backend_cpu = bare.run(place, shape)
    used = meter.read(place).since(before)
    if place.ended() != jobs:
        raise RuntimeError(f"{place.ended()} of {jobs} jobs have ended")
    return Drain(
        rate(place, began, place.now()), used.wal_bytes / jobs, used.buffers / jobs, backend_cpu / jobs, worker_cpu=0
    )


def parts(place: Place, jobs: int) -> dict[str, Cost]:
    """What each part costs: all jobs are enqueued, then all are claimed, then all are completed."""
    claimed: list[Batch] = []

    def claim(loop: Loop) -> None:
        last = bare.FRONT
        while batch := loop.claim(last):
            claimed.append(batch)
            last = batch

    def complete(loop: Loop) -> None:
        for batch in claimed:
            loop.complete(batch)

    place.empty()
    return {
        "enqueue": _cost(place, jobs, lambda: _fill(place, jobs)),
        "claim": _cost(place, jobs, lambda: bare.run(place, ONE, claim)),
        # By another session than that of the claim: the fence is the token alone.
        "complete": _cost(place, jobs, lambda: bare.run(place, ONE, complete)),
    }


def _fill(place: Place, jobs: int) -> float:
    pid = place.conn.info.backend_pid
    before = meter.cpu_seconds([pid])
    place.fill(jobs)
    return meter.cpu_seconds([pid]) - before


def _cost(place: Place, jobs: int, part: Callable[[], float]) -> Cost:
    before = meter.read(place)
    backend_cpu = part()
    used = meter.read(place).since(before)
    return Cost(used.wal_bytes / jobs, used.buffers / jobs, backend_cpu / jobs)


def measure(place: Place, args: argparse.Namespace) -> dict[str, Any]:
    drains: dict[str, list[Drain]] = {"worker": [], **{str(shape): [] for shape in SHAPES}}
    split: dict[str, list[Cost]] = {"enqueue": [], "claim": [], "complete": []}
    for number in range(args.rounds):
        for shape in [None, *SHAPES]:
            place.empty()
            place.fill(args.jobs)
            found = loop(place, args.jobs, shape) if shape else drain(place, args.jobs)
            drains[str(shape or "worker")].append(found)
            result.say(f"round {number + 1}: {shape or 'worker'}: {found.rate:,.0f} jobs/s")
        for part, cost in parts(place, args.jobs).items():
            split[part].append(cost)
    return {
        "jobs": args.jobs,
        "drains": {name: _spreads(found) for name, found in drains.items()},
        "worker_to_limit": {str(shape): _ratio(drains, "worker", str(shape)) for shape in SHAPES},
        "parts": {name: _spreads(costs) for name, costs in split.items()},
    }


def _ratio(drains: dict[str, list[Drain]], above: str, below: str) -> Spread:
    return meter.ratio([found.rate for found in drains[above]], [found.rate for found in drains[below]])


def _spreads(found: list[Drain] | list[Cost]) -> dict[str, Spread]:
    return {name: spread(getattr(each, name) for each in found) for name in found[0]._fields}


def show(found: dict[str, Any]) -> None:
    rows = [
        [
            name,
            f"{figures['rate']['median']:,.0f}",
            f"{figures['rate']['min']:,.0f}–{figures['rate']['max']:,.0f}",
            f"{found['worker_to_limit'][name]['median']:.2f}" if name != "worker" else "",
            f"{figures['backend_cpu']['median'] * 1e6:.1f}",
            f"{figures['worker_cpu']['median'] * 1e6:.1f}" if name == "worker" else "",
            f"{figures['wal_bytes']['median']:,.0f}",
            f"{figures['buffers']['median']:.1f}",
        ]
        for name, figures in found["drains"].items()
    ]
    heads = ["", "jobs/s", "from – to", "worker / this", "backend µs", "worker µs", "WAL bytes", "buffers"]
    print(result.table(heads, rows))
    parts = [
        [
            name,
            f"{costs['backend_cpu']['median'] * 1e6:.1f}",
            f"{costs['wal_bytes']['median']:,.0f}",
            f"{costs['buffers']['median']:.1f}",
        ]
        for name, costs in found["parts"].items()
    ]
    print("\n" + result.table(["of each job", "backend µs", "WAL bytes", "buffers"], parts))


def main() -> None:
    parser = result.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=100_000)
    args = parser.parse_args()
    if args.quick:
        args.jobs, args.rounds = args.jobs // 5, min(args.rounds, 3)
    with server(args.dsn) as running:
        machine = result.machine(running)
        found = measure(running.place("limit"), args)
    show(found)
    result.write(args.out, {"machine": machine, "quick": args.quick, **found})


if __name__ == "__main__":
    main()
