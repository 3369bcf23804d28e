"""What is measured. Every run begins with a fresh copy of the peer's empty database, or an empty Redis.

drain       so many jobs were enqueued before; one worker. Rate: jobs / (end − start). It starts with the first handled job,
            so that starting up does not count. It ends when the database says that no job is unfinished, so that
            completions which are not written yet do; on Redis, with the last handled job.
drain2      the same with two workers, which start together
drain-sync  the same with handlers that are plain functions, in threads
drain-batch the same with handlers that are given many jobs at once
enqueue     one job after the other, each committed; by one producer
enqueue16   the same by 16 producers in one process
enqueue256  the same by 256
bulk        by the best bulk call that there is
pickup      an idle worker, and a job now and then: from before the call that enqueues it until its handler starts
held        rounds of bulk and drain, while a transaction is held open: the last round's rate as a share of the first's
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg

from benchmarks.peers.peer import TIMEOUT, Peer, PeerFailed, Store, Unsupported, WorkerProcess, workers
from benchmarks.peers.server import PostgreSQL, Redis

Result = dict[str, Any]


@dataclass(frozen=True)
class Size:
    """How many jobs a peer can do in some seconds, so that no run takes long."""

    drain: int
    enqueue: int
    sync: int = 5_000
    store: Store = "postgresql"


SIZES = {
    "howdah": Size(drain=100_000, enqueue=5_000, sync=50_000),
    "howdah_tuned": Size(drain=100_000, enqueue=5_000, sync=50_000),
    "graphile-worker": Size(drain=100_000, enqueue=3_000),
    "pg-boss": Size(drain=100_000, enqueue=3_000),
    "pgqueuer": Size(drain=100_000, enqueue=5_000, sync=20_000),
    "awa": Size(drain=30_000, enqueue=2_000),
    "oban": Size(drain=20_000, enqueue=3_000),
    "chancy": Size(drain=20_000, enqueue=3_000),
    "absurd": Size(drain=5_000, enqueue=3_000),
    "procrastinate": Size(drain=5_000, enqueue=3_000),
    "dbos": Size(drain=3_000, enqueue=2_000, sync=2_000),
    "celery": Size(drain=5_000, enqueue=5_000, store="redis"),
    "arq": Size(drain=10_000, enqueue=5_000, store="redis"),
    "rq": Size(drain=1_000, enqueue=5_000, sync=1_000, store="redis"),
    "streaq": Size(drain=5_000, enqueue=5_000, store="redis"),
    "dramatiq": Size(drain=20_000, enqueue=10_000, sync=20_000, store="redis"),
    "taskiq": Size(drain=10_000, enqueue=5_000, store="redis"),
    "wakaq": Size(drain=20_000, enqueue=10_000, store="redis"),
}
UNKNOWN = Size(drain=5_000, enqueue=2_000)

HELD_ROUNDS = 8
POLL = 0.005  # seconds
ALMOST = 0.98
"""From this share on the database is asked whether all is done: before, asking would only be a load."""


@dataclass
class Bench:
    """Where it is measured, and how much."""

    postgresql: PostgreSQL
    redis: Redis | None
    most_jobs: int | None = None
    churn: int | None = None
    pickups: int = 200
    pause: float = 0.05
    _templates: set[str] = field(default_factory=set)

    def fresh(self, peer: Peer) -> str:
        """The address of an empty queue."""
        if peer.store == "redis":
            assert self.redis
            self.redis.empty()
            if peer.name not in self._templates:
                peer.ask(self.redis.url, "setup")
                self._templates.add(peer.name)
            return self.redis.url
        template, database = f"{peer.name}_template", self.database(peer)
        if template not in self._templates:
            self.postgresql.create(template)
            peer.ask(self.postgresql.url(template), "setup")
            self._templates.add(template)
        self.postgresql.create(database, template)
        self.postgresql.settle()
        return self.postgresql.url(database)

    def clear(self, peer: Peer) -> None:
        """Delete the jobs of a run, so that its autovacuum disturbs no other run."""
        if peer.store == "redis":
            assert self.redis
            self.redis.empty()
        else:
            self.postgresql.drop(self.database(peer))

    def database(self, peer: Peer) -> str:
        return f"{peer.name}_run"

    def jobs(self, wanted: int) -> int:
        return min(wanted, self.most_jobs or wanted)


@dataclass
class Cost:
    """What a part of a run has cost the server, for each job; nothing where the store is Redis."""

    bench: Bench
    peer: Peer
    _wal: int = 0
    _buffers: int = 0
    _wal_end: int = 0

    def __post_init__(self) -> None:
        if self.peer.store == "postgresql":
            self._buffers = self.bench.postgresql.buffers(self.bench.database(self.peer))
            self._wal = self.bench.postgresql.wal_position()

    def stop_wal(self) -> None:
        if self.peer.store == "postgresql":
            self._wal_end = self.bench.postgresql.wal_position()

    def leave_out(self, buffers: int) -> None:
        self._buffers += buffers

    def of(self, jobs: int) -> Result:
        """To be asked when the processes have ended: sessions count their pages at their end."""
        if self.peer.store != "postgresql":
            return {}
        pages = self.bench.postgresql.buffers(self.bench.database(self.peer)) - self._buffers
        return {"wal_bytes": (self._wal_end - self._wal) / jobs, "buffers": pages / jobs}


class Watch:
    """Whether any job is unfinished, asked on a connection of our own."""

    def __init__(self, stack: contextlib.ExitStack, query: bytes, url: str) -> None:
        self._conn = stack.enter_context(psycopg.connect(url, autocommit=True))
        self._query = query

    def sees_some(self) -> bool:
        return bool((self._conn.execute(self._query).fetchone() or (False,))[0])

    def buffers(self) -> int:
        """The pages that asking has looked at: not the peer's."""
        self._conn.execute("SELECT pg_stat_force_next_flush()")
        row = self._conn.execute("SELECT sum(hits + reads) FROM pg_stat_get_backend_io(pg_backend_pid())").fetchone()
        return int(row[0] or 0) if row else 0


def size(peer: Peer) -> Size:
    return SIZES.get(peer.name, UNKNOWN)


def drain(bench: Bench, peer: Peer, *, count: int = 1) -> Result:
    return _drain(bench, peer, bench.fresh(peer), "async", bench.jobs(size(peer).drain), count)


def drain_two(bench: Bench, peer: Peer) -> Result:
    return drain(bench, peer, count=2)


def drain_sync(bench: Bench, peer: Peer) -> Result:
    return _drain(bench, peer, bench.fresh(peer), "sync", bench.jobs(size(peer).sync))


def drain_batch(bench: Bench, peer: Peer) -> Result:
    return _drain(bench, peer, bench.fresh(peer), "batch", bench.jobs(size(peer).drain))


def enqueue(bench: Bench, peer: Peer, *, producers: int = 1) -> Result:
    jobs = bench.jobs(size(peer).enqueue)
    return _enqueue(bench, peer, bench.fresh(peer), jobs, "enqueue", "--producers", str(producers))


def enqueue_sixteen(bench: Bench, peer: Peer) -> Result:
    return enqueue(bench, peer, producers=16)


def enqueue_256(bench: Bench, peer: Peer) -> Result:
    return enqueue(bench, peer, producers=256)


def bulk(bench: Bench, peer: Peer) -> Result:
    return _enqueue(bench, peer, bench.fresh(peer), bench.jobs(size(peer).drain), "bulk")


def pickup(bench: Bench, peer: Peer) -> Result:
    url = bench.fresh(peer)
    with workers(peer, url, "async", latencies=True) as started:
        time.sleep(1)  # what a worker does at its start is over, and it is idle
        peer.ask(url, "pickup-sender", "--count", str(bench.pickups), "--pause", str(bench.pause))
        _await_handled(started, bench.pickups)
        summaries = started[0].stop()
    milliseconds = sorted(1000 * latency for summary in summaries for latency in summary["latencies"])
    percentiles = statistics.quantiles(milliseconds, n=100, method="inclusive")
    return {"jobs": len(milliseconds), "p50_ms": percentiles[49], "p99_ms": percentiles[98], "max_ms": milliseconds[-1]}


def held(bench: Bench, peer: Peer) -> Result:
    if peer.store != "postgresql":
        raise Unsupported("Redis has no such transactions")
    url, jobs = bench.fresh(peer), bench.jobs(size(peer).drain)
    churn = bench.churn or HELD_ROUNDS * jobs
    rates: list[float] = []
    with _held_transaction(url):
        while len(rates) * jobs < churn:
            rates.append(_drain(bench, peer, url, "async", jobs)["rate"])
    return {"jobs": len(rates) * jobs, "share": rates[-1] / rates[0], "rates": rates}


SCENARIOS: dict[str, Callable[[Bench, Peer], Result]] = {
    "drain": drain,
    "drain2": drain_two,
    "drain-sync": drain_sync,
    "drain-batch": drain_batch,
    "enqueue": enqueue,
    "enqueue16": enqueue_sixteen,
    "enqueue256": enqueue_256,
    "bulk": bulk,
    "pickup": pickup,
    "held": held,
}


def _enqueue(bench: Bench, peer: Peer, url: str, jobs: int, command: str, *options: str) -> Result:
    cost = Cost(bench, peer)
    answer = peer.ask(url, command, "--count", str(jobs), *options)
    cost.stop_wal()
    return {"jobs": jobs, "seconds": answer["seconds"], "rate": jobs / answer["seconds"], **cost.of(jobs)}


def _drain(bench: Bench, peer: Peer, url: str, handler: str, jobs: int, count: int = 1) -> Result:
    _fill(peer, url, jobs)
    with contextlib.ExitStack() as stack:
        cost = Cost(bench, peer)
        watch = Watch(stack, peer.remaining, url) if peer.remaining else None
        started = stack.enter_context(workers(peer, url, handler, count))
        _await_handled(started, int(jobs * ALMOST))
        end = _await_finished(watch, started, jobs)
        cost.stop_wal()
        if watch:
            cost.leave_out(watch.buffers())
        summaries = [summary for worker in started for summary in worker.stop()]
        stack.close()
    first = min(summary["first"] for summary in summaries if summary["handled"])
    last = max(summary["last"] for summary in summaries if summary["handled"])
    seconds = (end if peer.remaining else last) - first
    handled = sum(summary["handled"] for summary in summaries)
    if handled < jobs:
        raise PeerFailed(f"only {handled:,} of {jobs:,} jobs were handled")
    return {"jobs": jobs, "handled": handled, "seconds": seconds, "rate": jobs / seconds, **cost.of(jobs)}


def _fill(peer: Peer, url: str, jobs: int) -> None:
    try:
        peer.ask(url, "bulk", "--count", str(jobs))
    except Unsupported:
        peer.ask(url, "enqueue", "--count", str(jobs), "--producers", "16")
    if peer.store == "postgresql":
        with psycopg.connect(url, autocommit=True) as conn:
            # What autovacuum would do within a minute: no peer is measured with plans for an empty table.
            conn.execute("ANALYZE")
            conn.execute("CHECKPOINT")


def _await_handled(started: list[WorkerProcess], jobs: int) -> None:
    deadline = time.monotonic() + TIMEOUT
    while (handled := sum(worker.handled for worker in started)) < jobs:
        _check(started, deadline, f"only {handled:,} of {jobs:,} jobs were handled")
        time.sleep(POLL)


def _await_finished(watch: Watch | None, started: list[WorkerProcess], jobs: int) -> float:
    if watch is None:
        _await_handled(started, jobs)
        return time.monotonic()
    deadline = time.monotonic() + TIMEOUT
    while watch.sees_some():
        _check(started, deadline, "some jobs were not finished")
        time.sleep(POLL)
    return time.monotonic()


def _check(started: list[WorkerProcess], deadline: float, otherwise: str) -> None:
    for worker in started:
        worker.check_alive()
    if time.monotonic() > deadline:
        raise PeerFailed(f"{otherwise} within {TIMEOUT:.0f} s")


@contextlib.contextmanager
def _held_transaction(url: str) -> Iterator[None]:
    """A transaction that has an id and a snapshot, and stays open: a report, a dump, a forgotten console."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        conn.execute("SELECT txid_current()")
        yield
        conn.execute("ROLLBACK")
