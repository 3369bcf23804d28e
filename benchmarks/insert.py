"""The client's ``enqueue`` beside a bare INSERT of the same row, in turns, in one run; and the memory of a large bulk.

    python -m benchmarks.insert [--jobs 3000] [--rounds 5] [--bulk 1000000] [--quick] [--dsn …] [--out FILE.json]

Both go over one connection, one job after the other, each in a transaction of its own; the INSERT is psycopg's, which prepares it
by itself. Then ``enqueue_many`` takes items from a generator: a tenth of them, and all, each in a process of its own, whose
memory at its highest is compared. Takes a minute or two.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Callable
from typing import Any

from psycopg.types.json import Jsonb

from benchmarks import meter, result
from benchmarks.server import PAYLOAD, TYPE, Place, server
from howdah import JobQueue
from howdah.model.ids import new_id

INSERT = """
    INSERT INTO live (id, job_type, data, priority, run_at, first_due_at, created_at, max_attempts)
    VALUES (%s, %s, %s, 100, now(), now(), now(), 3) RETURNING id
"""
DATA = json.loads(PAYLOAD)
WARM_UP = 100


def one_by_one(place: Place, args: argparse.Namespace) -> dict[str, Any]:
    def insert() -> None:
        place.conn.execute(INSERT, (new_id(), TYPE, Jsonb(DATA))).fetchone()

    def enqueue() -> None:
        queue.enqueue(TYPE, DATA)

    found: dict[str, list[float]] = {"insert": [], "enqueue": []}
    with JobQueue(place.dsn) as queue:
        for number in range(args.rounds):
            for name, call in (("insert", insert), ("enqueue", enqueue)):
                place.empty()
                found[name].append(_rate(call, args.jobs))
                result.say(f"round {number + 1}: {name}: {found[name][-1]:,.0f} jobs/s")
    return {
        **{name: meter.spread(rates) for name, rates in found.items()},
        "ratio": meter.ratio(found["enqueue"], found["insert"]),
    }


def _rate(call: Callable[[], None], count: int) -> float:
    for _ in range(WARM_UP):
        call()
    began = time.monotonic()
    for _ in range(count):
        call()
    return count / (time.monotonic() - began)


def bulk_memory(place: Place, count: int) -> dict[str, float]:
    """Megabytes that a process has needed at most: of so many items from a generator, and of a tenth of them."""
    peaks = {}
    for name, items in (("a_tenth", count // 10), ("all", count)):
        place.empty()
        with multiprocessing.get_context("spawn").Pool(1) as process:
            peaks[name] = process.apply(_peak, (place.dsn, items))
        result.say(f"enqueue_many of {items:,}: {peaks[name]:.1f} MB at most")
    return {"items": count, **peaks}


def _peak(dsn: str, count: int) -> float:
    with JobQueue(dsn) as queue:
        queue.enqueue_many(TYPE, (DATA for _ in range(count)))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main() -> None:
    parser = result.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=3_000, help="in each turn")
    parser.add_argument("--bulk", type=int, default=1_000_000, help="items of the bulk")
    args = parser.parse_args()
    if args.quick:
        args.jobs, args.rounds, args.bulk = args.jobs // 5, min(args.rounds, 3), args.bulk // 10
    with server(args.dsn) as running:
        machine = result.machine(running)
        place = running.place("insert")
        found = {"one_by_one": one_by_one(place, args), "memory": bulk_memory(place, args.bulk)}
    ratio = found["one_by_one"]["ratio"]
    print(f"enqueue to INSERT: {ratio['median']:.2f} ({ratio['min']:.2f}–{ratio['max']:.2f})")
    result.write(args.out, {"machine": machine, "quick": args.quick, **found})


if __name__ == "__main__":
    main()
