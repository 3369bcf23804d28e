"""What it costs to report: the same jobs with and without it, in turns, in one run.

    python -m benchmarks.reporting [--jobs 200] [--seconds 10] [--rounds 3] [--quick] [--dsn …] [--out FILE.json]

Two questions. *tight*: every job does nothing but loop for so many seconds, and reports in each turn of the loop: how
much longer does the whole run take, and how many writes does the database see? *work*: every job does the same
fixed amount of work, and reports after each small piece of it: how much longer does that take?
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import statistics
import time
from typing import Any

from benchmarks import result
from benchmarks.server import Place, server
from howdah import Job, JobQueue

PIECE = b"x" * 20_000


async def tight(job: Job, seconds: float, report: bool) -> int:
    end, turns = time.monotonic() + seconds, 0
    while (now := time.monotonic()) < end:
        for _ in range(50):
            turns += 1
            if report:
                job.progress(100 - 100 * (end - now) / seconds, "looping")
        await asyncio.sleep(0)
    if report:
        job.progress(77, f"turn {turns}")
    return turns


async def work(job: Job, pieces: int, report: bool) -> str:
    digest = hashlib.sha256()
    if report:
        job.progress(0, total=pieces)
    for piece in range(pieces):
        digest.update(PIECE)
        if report:
            job.advance()
        if piece % 10 == 0:
            await asyncio.sleep(0)
    return digest.hexdigest()


def calls(place: Place) -> dict[str, int]:
    """How often each SQL function has been called, by the server's own count."""
    place.conn.execute("SELECT pg_stat_force_next_flush()")
    return dict(place.conn.execute("SELECT funcname, calls FROM pg_stat_user_functions").fetchall())


async def measure(place: Place, queue: JobQueue, kind: str, jobs: int, **arguments: Any) -> dict[str, float]:
    await queue.aenqueue_many(kind, [arguments] * jobs)
    before, started = calls(place), time.monotonic()
    await queue.run_worker(drain=True, concurrency=jobs)
    seconds = time.monotonic() - started
    made = {name: count - before.get(name, 0) for name, count in calls(place).items()}
    result.say(f"{kind}, {'telling' if arguments['report'] else 'silent'}: {seconds:.1f} s")
    return {"seconds": seconds, "writes": made.get("progress", 0) + made.get("record_events", 0)}


def exact(queue: JobQueue, kind: str, jobs: int) -> int:
    """How many of the last jobs have their very last report in their record."""
    page = queue.list(job_type=kind, limit=jobs)
    if kind == "tight":
        return sum(job.current_stage == f"turn {job.result}" for job in page)
    return sum(job.record is not None and job.record.done == job.record.total for job in page)


async def run(place: Place, queue: JobQueue, args: argparse.Namespace) -> dict[str, Any]:
    shapes = {"tight": {"seconds": args.seconds}, "work": {"pieces": args.pieces}}
    results: dict[str, Any] = {"jobs": args.jobs}
    for kind, arguments in shapes.items():
        silent, telling = [], []
        for _ in range(args.rounds):
            silent.append(await measure(place, queue, kind, args.jobs, **arguments, report=False))
            telling.append(await measure(place, queue, kind, args.jobs, **arguments, report=True))
        ratios = [b["seconds"] / a["seconds"] for a, b in zip(silent, telling, strict=True)]
        results[kind] = {
            "silent_seconds": [round(each["seconds"], 2) for each in silent],
            "telling_seconds": [round(each["seconds"], 2) for each in telling],
            "ratio": round(statistics.median(ratios), 3),
            "ratios": [round(each, 3) for each in ratios],
            "writes_per_second": round(statistics.median(each["writes"] / each["seconds"] for each in telling), 1),
            "final_values_exact": f"{exact(queue, kind, args.jobs)} of {args.jobs}",
        }
    return results


def main() -> None:
    parser = result.parser(__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--pieces", type=int, default=4_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    if args.quick:
        args.jobs, args.seconds, args.pieces = args.jobs // 10, args.seconds / 5, args.pieces // 10
    with server(args.dsn) as running:
        machine = result.machine(running)
        place = running.place("reporting")
        place.conn.execute(f"ALTER DATABASE {place.conn.info.dbname} SET track_functions = 'pl'")
        with JobQueue(place.dsn) as queue:
            for handler in (tight, work):
                queue.job(max_attempts=1)(handler)
            results = asyncio.run(run(place, queue, args))
    for kind in ("tight", "work"):
        found = results[kind]
        print(
            f"{kind}: {args.jobs} jobs, {found['ratio']} times as long as in silence ({found['ratios']}),"
            f" {found['writes_per_second']} writes a second, {found['final_values_exact']} final values exact"
        )
    result.write(args.out, {"machine": machine, "quick": args.quick, **results})


if __name__ == "__main__":
    main()
