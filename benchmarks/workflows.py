"""A fan-out and its join, beside as many plain jobs: enqueued by the client, ended by sessions in batches, or by sessions that end
single jobs in transactions of their own, some of which they roll back.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import meter
from benchmarks.server import Place, server
from howdah import JobQueue

BATCH = 500
CLAIM = "SELECT id, token FROM claim('bench', ARRAY['member'], %s, %s, p_incarnation => %s)"
COMPLETE = "SELECT count(*) FROM complete(%s, %s)"


class Figures(NamedTuple):
    """Of one run: seconds to enqueue, the growth of this process's memory meanwhile (MiB), jobs per second, WAL bytes per job, the longest
    commit of a session, and the longest wait for a row that was seen (milliseconds), jobs rolled back."""

    enqueue: float
    memory: float
    rate: float
    wal: float
    commit: float
    wait: float
    rolled_back: int


class Waits(threading.Thread):
    """Looks again and again for sessions that wait for a lock."""

    def __init__(self, place: Place) -> None:
        super().__init__(daemon=True)
        self._conn = place.connect("watcher")
        self.longest = 0.0
        self.over = False

    def run(self) -> None:
        query = (
            "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - waitstart)), 0) FROM pg_locks"
            " WHERE NOT granted AND locktype IN ('transactionid', 'tuple')"
        )
        while not self.over:
            row = self._conn.execute(query, prepare=True).fetchone()
            self.longest = max(self.longest, float(row[0]) if row else 0.0)
            time.sleep(0.002)


def enqueue(place: Place, jobs: int, *, flow: bool) -> tuple[float, float]:
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with JobQueue(place.dsn) as queue:

        @queue.job
        def member(n: int) -> None: ...

        @queue.job
        def join() -> None: ...

        if flow:
            with queue.workflow("bench") as made:
                made.add(join, after=made.map(member, range(jobs)))
        else:
            queue.enqueue_many("member", ({"n": n} for n in range(jobs)))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return time.monotonic() - began, grown / 1024


def in_batches(place: Place, boot: str, longest: list[float]) -> int:
    with place.connect("session") as conn:
        while batch := conn.execute(CLAIM, (BATCH, BATCH, boot), prepare=True).fetchall():
            ids, tokens = zip(*batch, strict=True)
            began = time.monotonic()
            conn.execute(COMPLETE, (list(ids), list(tokens)), prepare=True)
            longest.append(time.monotonic() - began)
    return 0


def in_own_transactions(place: Place, boot: str, longest: list[float]) -> int:
    """Each job in a transaction that does something else, too. A tenth of them is rolled back, and tried again."""
    chance, rolled_back = random.Random(longest.__len__()), 0
    with place.connect("session") as conn:
        while batch := conn.execute(CLAIM, (50, 50, boot), prepare=True).fetchall():
            for job_id, token in batch:
                while True:
                    conn.execute("BEGIN")
                    conn.execute(COMPLETE, ([job_id], [token]), prepare=True)
                    conn.execute("SELECT 1")
                    if chance.random() < 0.1:
                        conn.execute("ROLLBACK")
                        rolled_back += 1
                        continue
                    began = time.monotonic()
                    conn.execute("COMMIT")
                    longest.append(time.monotonic() - began)
                    break
    return rolled_back


def measure(
    place: Place, jobs: int, sessions: int, work: Callable[[Place, str, list[float]], int], *, flow: bool
) -> Figures:
    boot = str(uuid.uuid4())
    place.conn.execute("SELECT register_worker('bench', %s, '1 day')", (boot,))
    took, memory = enqueue(place, jobs, flow=flow)
    place.settle()
    longest: list[float] = []
    rolled_back: list[int] = []
    watcher = Waits(place)
    watcher.start()
    before, began = meter.read(place), time.monotonic()
    threads = [threading.Thread(target=lambda: rolled_back.append(work(place, boot, longest))) for _ in range(sessions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - began
    used = meter.read(place).since(before)
    watcher.over = True
    watcher.join()
    if flow:
        check(place, jobs)
    return Figures(
        took,
        memory,
        jobs / seconds,
        used.wal_bytes / jobs,
        1000 * max(longest),
        1000 * watcher.longest,
        sum(rolled_back),
    )


def check(place: Place, jobs: int) -> None:
    """The join is due, once, and everything is counted."""
    left = place.one("SELECT count(*) FROM workflow_deltas")
    place.conn.execute("SELECT advance_workflows()")
    if left:
        print(f"{left} deltas were left to the sweep", file=sys.stderr)
    joins = place.conn.execute(
        "SELECT count(*), min(run_at) < clock_timestamp() FROM live WHERE job_type = 'join'"
    ).fetchone()
    counted = place.conn.execute("SELECT remaining, completed FROM workflow_details").fetchone()
    if joins != (1, True) or counted is None or tuple(map(int, counted)) != (1, jobs):
        raise SystemExit(f"the join is wrong: {joins}, {counted}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.workflows", description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--own", type=int, default=20_000, help="jobs that are ended in transactions of their own")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path, help="the results as JSON")
    args = parser.parse_args()
    results: dict[str, list[Any]] = {}
    print(
        f"{'':18} {'enqueue':>8} {'memory':>8} {'jobs/s':>8} {'WAL/job':>8} {'commit':>8} {'wait':>7} {'rolled back':>11}"
    )
    with server() as running:
        for number in range(args.rounds):
            for name, jobs, sessions, work in (
                ("batches", args.jobs, 2, in_batches),
                ("own transactions", args.own, 8, in_own_transactions),
            ):
                for flow in (False, True):
                    place = running.place(f"{'flow' if flow else 'plain'}_{number}_{sessions}")
                    found = measure(place, jobs, sessions, work, flow=flow)
                    running.drop()
                    label = f"{name}{', flow' if flow else ''}"
                    results.setdefault(label, []).append(found._asdict())
                    print(
                        f"{label:22} {found.enqueue:6.1f} s {found.memory:4.0f} MiB {found.rate:8,.0f} {found.wal:8,.0f}"
                        f" {found.commit:5.0f} ms {found.wait:4.0f} ms {found.rolled_back:11,}",
                        flush=True,
                    )
    if args.out:
        args.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
