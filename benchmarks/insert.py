"""The client's ``enqueue`` beside a bare INSERT of the same row, in turns, in one run; many tasks that enqueue at once; and the
memory of a large bulk.

    python -m benchmarks.insert [--jobs 3000] [--rounds 5] [--bulk 1000000] [--quick] [--dsn …] [--out FILE.json]

Both go over one connection, one job after the other, each in a transaction of its own; the INSERT is psycopg's, which prepares it
by itself. Then 1, 16 and 256 tasks of one process ``await queue.aenqueue`` in a loop, in turns. Then ``enqueue_many`` takes items from a generator: a tenth of them, and all, each in a process of its own, whose
memory at its highest is compared. Takes a minute or two.
"""

from __future__ import annotations

import argparse
import asyncio
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
TASKS = (1, 16, 256)


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


def tasks(place: Place, args: argparse.Namespace) -> dict[str, Any]:
    """Jobs a second, of tasks in one process that enqueue one by one. Each call returns after its commit."""
    found: dict[int, list[float]] = {count: [] for count in TASKS}
    for number in range(args.rounds):
        for count in TASKS if number % 2 == 0 else reversed(TASKS):
            place.empty()
            found[count].append(asyncio.run(_rate_of_tasks(place.dsn, count, args.jobs)))
            result.say(f"round {number + 1}: {count} tasks: {found[count][-1]:,.0f} jobs/s")
    return {
        str(count): {**meter.spread(rates), "ratio": meter.ratio(rates, found[1])} for count, rates in found.items()
    }


async def _rate_of_tasks(dsn: str, count: int, jobs: int) -> float:
    async def produce(each: int) -> None:
        for _ in range(each):
            await queue.aenqueue(TYPE, DATA)

    async with JobQueue(dsn) as queue:
        await asyncio.gather(*(produce(-(-WARM_UP // count)) for _ in range(count)))
        # More tasks are quicker: all cases take about as long.
        each = -(-jobs // count) * min(count, 4)
        began = time.monotonic()
        await asyncio.gather(*(produce(each) for _ in range(count)))
        return count * each / (time.monotonic() - began)


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
        found = {
            "one_by_one": one_by_one(place, args),
            "tasks": tasks(place, args),
            "memory": bulk_memory(place, args.bulk),
        }
    ratio = found["one_by_one"]["ratio"]
    print(f"enqueue to INSERT: {ratio['median']:.2f} ({ratio['min']:.2f}–{ratio['max']:.2f})")
    for count, rates in found["tasks"].items():
        print(f"{count} tasks: {rates['median']:,.0f} jobs/s, {rates['ratio']['median']:.1f} times one")
    result.write(args.out, {"machine": machine, "quick": args.quick, **found})


if __name__ == "__main__":
    main()
