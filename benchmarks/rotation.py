"""Segments are closed while jobs end, beside readers that hold snapshots: is a job lost, and how long does a completion wait?

Four connections claim and complete in batches; one rotates as often as it can; a reader opens a transaction, reads all jobs and stays
open for a while, again and again. Every other completion is part of a transaction that does more.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.server import Connection, Place, server

JOBS = 60_000
BATCH = 20


class Run:
    """One server, rotated until the jobs are done and there were enough rotations."""

    def __init__(self, place: Place, rotations: int) -> None:
        self._place = place
        self._wanted = rotations
        self._over = threading.Event()
        self._slowest: list[float] = []
        self.rotations = 0
        self.postponed = 0
        self._completed: list[int] = []
        self._dropped = 0
        self.errors: Counter[str] = Counter()

    def go(self) -> dict[str, Any]:
        self._place.fill(JOBS)
        threads = [threading.Thread(target=self._guarded, args=(self._work, n)) for n in range(4)]
        threads += [threading.Thread(target=self._guarded, args=(self._read,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        with self._place.connect("rotation") as conn:
            while self.rotations < self._wanted and not self.errors:
                self._rotate(conn)
        self._over.set()
        for thread in threads:
            thread.join()
        ended = self._place.one("SELECT count(*) FROM archive")
        return {
            "rotations": self.rotations,
            "postponed": self.postponed,
            "completed": sum(self._completed),
            "in the archive": ended,
            "dropped with their segments": self._dropped,
            "lost": sum(self._completed) - ended - self._dropped,
            "slowest completion (ms)": round(1000 * max(self._slowest), 1),
            "errors": dict(self.errors),
        }

    def _rotate(self, conn: Connection) -> None:
        for closed, _ in conn.execute("SELECT closed, reason FROM rotate('0')").fetchall():
            self.rotations += closed
            self.postponed += not closed
        # A few stay, as they do for two weeks; the others make room for more.
        old = conn.execute("SELECT coalesce(max(number), 0) - 12 FROM segments").fetchone()
        conn.execute("UPDATE segments SET last_end = '2000-01-01' WHERE closed_at IS NOT NULL AND number < %s", old)
        counts = "SELECT segment, sum(jobs) FROM archive_counts GROUP BY segment"
        jobs = {segment: int(count) for segment, count in conn.execute(counts).fetchall()}
        for segment, dropped in conn.execute("SELECT segment, dropped FROM prune('1 year')").fetchall():
            self._dropped += jobs.get(segment, 0) if dropped else 0
        time.sleep(random.uniform(0, 0.1))

    def _work(self, number: int) -> None:
        with self._place.connect(f"worker-{number}") as conn:
            conn.prepare_threshold = 1
            while not self._over.is_set():
                held = conn.execute("SELECT id, token FROM claim('w', ARRAY['noop'], %s)", (BATCH,)).fetchall()
                if not held:
                    conn.execute("SELECT enqueue_many('noop', array_fill('{}'::jsonb, ARRAY[2000]))")
                    continue
                ids, tokens = [id for id, _ in held], [token for _, token in held]
                begun = time.perf_counter()
                if random.random() < 0.5:
                    done = conn.execute("SELECT count(*) FROM complete(%s, %s)", (ids, tokens)).fetchone()
                else:
                    with conn.transaction():
                        conn.execute("SELECT count(*) FROM settings")
                        done = conn.execute("SELECT count(*) FROM complete(%s, %s)", (ids, tokens)).fetchone()
                self._slowest.append(time.perf_counter() - begun)
                self._completed.append(done[0] if done else 0)

    def _read(self) -> None:
        with psycopg.connect(self._place.dsn) as conn:
            while not self._over.is_set():
                conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                conn.execute("SELECT count(*) FROM jobs WHERE status = 'completed'")
                self._over.wait(random.uniform(0.05, 0.3))
                conn.rollback()
                self._over.wait(random.uniform(0.05, 0.3))

    def _guarded(self, loop: Callable[..., None], *arguments: int) -> None:
        try:
            loop(*arguments)
        except psycopg.Error as error:
            self.errors[f"{error.sqlstate} {error}"] += 1


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rotation", description=__doc__)
    parser.add_argument("--rotations", type=int, default=100)
    parser.add_argument("--dsn", help="a server of your own, instead of the embedded one")
    parser.add_argument("--out", type=Path, help="the result as JSON")
    args = parser.parse_args()
    with server(args.dsn) as running:
        result = {"version": running.version, **Run(running.place("rotation"), args.rotations).go()}
    print(json.dumps(result, indent=1))
    if args.out:
        args.out.write_text(json.dumps(result, indent=1))
    if result["errors"] or result["lost"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
