"""Cases in which the database is replaced: dumped and restored, or its segments rotated while clients use them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from howdah import Job, JobQueue, SchemaError
from tests import servers
from tests.faults.case import case
from tests.faults.checker import Verdict
from tests.faults.contention import counted
from tests.faults.stage import Stage
from tests.restoring import database, dump, public, restore_by_entries, spend_transactions
from tests.worker.processes import until


@case(43, "restore", checks="I1 I2 I7", audited=False)
def restored(stage: Stage) -> None:
    """A dump is restored into a younger cluster, where its roles are missing; without data; under another name: the advice given mends it."""
    stage.needs(servers.find(servers.server_major(stage.dsn)), "the server's own pg_dump is not here")
    stage.queue.migrate(roles=True)
    spend_transactions(stage.dsn, 5_000)
    stage.start(stage.scaled(2, 1), concurrency=10)
    stage.enqueue_many("reports", stage.scaled(2_000, 50))
    until(lambda: stage.fleet.ledger.count("END") >= stage.scaled(1_000, 20), "some of it is done")
    for worker in stage.fleet.workers:
        assert worker.stop() == 0
    stage.enqueue_many("reports", 20)
    position = stage.queue.stream_position()
    told = len(events(stage.dsn, None))
    assert told, "no event came"
    data, empty = dump(stage.dsn, "--format=custom"), dump(stage.dsn, "--format=custom", "--schema-only")
    younger = servers.Server(stage.server.binaries)
    try:
        for play in (without_data, renamed):
            with database(younger.dsn) as dsn:
                play(stage, dsn, empty if play is without_data else data)
        with database(younger.dsn) as dsn:
            into_a_younger_cluster(stage, dsn, data, position, told)
    finally:
        stage.fleet.reconnect()
        younger.stop()


def without_data(stage: Stage, dsn: str, dumped: bytes) -> None:
    restore_by_entries(dsn, dumped, program_of=stage.dsn)
    stage.fault()
    mended_by_its_advice(dsn, "howdah")
    with JobQueue(dsn) as queue:
        queue.enqueue("a")
        (job,) = queue.claim(["a"])
        queue.complete(job)
        assert queue.stats()["a"].completed == 1


def renamed(stage: Stage, dsn: str, dumped: bytes) -> None:
    restore_by_entries(dsn, dumped, program_of=stage.dsn)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("ALTER SCHEMA howdah RENAME TO elsewhere")
    stage.fault()
    mended_by_its_advice(dsn, "elsewhere")


def into_a_younger_cluster(stage: Stage, dsn: str, dumped: bytes, position: str, told: int) -> None:
    assert restore_by_entries(dsn, dumped, program_of=stage.dsn), "the roles were not missing"
    assert public(dsn), "no privilege was granted to PUBLIC"
    stage.fault()
    with JobQueue(dsn) as queue:
        queue.migrate()
        assert queue.check_schema() == []
        assert public(dsn) == []
        now = queue.stream_position()
    # The cluster comes to the numbers that the old events had.
    spend_transactions(dsn, 20_000)
    assert events(dsn, now) == [], "old events came as new"
    assert len(events(dsn, None)) == told
    try:
        events(dsn, position)
    except psycopg.Error as error:
        assert error.sqlstate == "JQ008", error
    else:
        raise AssertionError("a position of another cluster was taken for one of this")
    stage.follow(dsn)
    stage.start(1, concurrency=10)
    stage.fleet.await_drained()
    stage.verdict = counted(stage)
    ended = {event["job_id"] for event in events(dsn, now) if event["name"] == "completed"}
    assert ended <= {job["id"] for job in stage.fleet.jobs()}
    for worker in stage.fleet.workers[-1:]:
        assert worker.stop() == 0


def mended_by_its_advice(dsn: str, schema: str) -> None:
    """What every verb raises names the command; that one, and a check that it is clean."""
    with JobQueue(dsn, schema) as queue:
        try:
            queue.stats()
        except SchemaError as error:
            assert str(error).endswith("howdah migrate" if schema == "howdah" else f"howdah migrate --schema {schema}")
        else:
            raise AssertionError("nothing was amiss")
        assert queue.migrate().changed
        assert queue.check_schema() == []
        assert public(dsn, schema) == []


def events(dsn: str, after: str | None) -> list[dict[str, Any]]:
    with psycopg.connect(dsn, row_factory=dict_row) as conn:
        rows = conn.execute("SELECT * FROM howdah.read_events(%s, p_limit => 1000000)", (after,)).fetchall()
        return [row for row in rows if row["job_id"] is not None]


LONGEST_WAIT: Final = 150
"""Milliseconds for which a completion may wait for a lock. The quick form runs beside whatever else a machine does, and only reports it."""


@case(46, "rotation-race", checks="I1 I2 I7", audited=False)
def rotation_race(stage: Stage) -> None:
    """Segments are closed and dropped as fast as it goes, while jobs end in users' own transactions, beside readers with open snapshots."""
    race = Race(stage)
    race.run()
    stage.verdict = race.verdict()
    print(
        f"rotations: {race.rotations}, postponed: {race.postponed}, late: {race.late}; slowest: {1000 * race.slowest:.0f} ms"
    )
    # Generous, because others may use the machine: a rotation that waits for a core keeps its lock meanwhile.
    assert race.late <= race.rotations // 5, (
        f"{race.late} waits for a lock above {race.wait}, in {race.rotations} rotations"
    )


class Race:
    """Completers, readers, and one that rotates until all is done."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._over = threading.Event()
        self.wait = stage.scaled(f"{LONGEST_WAIT}ms", "30s")
        self._wanted = stage.scaled(50, 3)
        self.completed: Counter[Any] = Counter()
        self.rotations = self.postponed = self.dropped = self.late = 0
        self.slowest = 0.0

    def run(self) -> None:
        stage = self._stage
        stage.enqueue_many("nothing", stage.scaled(10_000, 600))
        loops: list[Callable[[], None]] = [self._complete] * 3 + [self._read] * 2 + [self._rotate]
        with ThreadPoolExecutor(len(loops)) as pool:
            ends = [pool.submit(self._guarded, loop) for loop in loops]
            for end in ends[:3]:
                end.result()
            self._over.set()
            for end in ends[3:]:
                end.result()

    def _guarded(self, loop: Callable[[], None]) -> None:
        try:
            loop()
        except BaseException:
            self._over.set()
            raise

    @contextlib.contextmanager
    def _connected(self, **options: Any) -> Iterator[psycopg.Connection[dict[str, Any]]]:
        with psycopg.connect(self._stage.dsn, row_factory=dict_row, **{"autocommit": True, **options}) as conn:
            yield conn

    def _complete(self) -> None:
        """Every other batch ends in a transaction that does more, before and after."""
        bounded = make_conninfo(self._stage.dsn, options=f"-c lock_timeout={self.wait}")
        with psycopg.connect(bounded, autocommit=True) as conn, JobQueue(bounded) as queue:
            own = False
            while not self._over.is_set():
                jobs = queue.claim(["nothing"], 20)
                if not jobs and self.rotations >= self._wanted:
                    return
                if not jobs:
                    self._stage.enqueue_many("nothing", 100)
                own = not own
                if own:
                    self._timed(lambda jobs=jobs: self._complete_together(queue, conn, jobs))  # type: ignore[misc]
                else:
                    for job in jobs:
                        self._timed(lambda job=job: queue.complete(job))  # type: ignore[misc]
                self.completed.update(job.id for job in jobs)

    def _complete_together(self, queue: JobQueue, conn: psycopg.Connection[Any], jobs: Sequence[Job]) -> None:
        with conn.transaction():
            conn.execute("SELECT count(*) FROM howdah.settings")
            for job in jobs:
                queue.complete(job, conn=conn)

    def _timed(self, complete: Callable[[], None]) -> None:
        """What waited too long for a lock has not been done, and is done again."""
        begun = time.perf_counter()
        while True:
            try:
                complete()
                break
            except psycopg.errors.LockNotAvailable:
                self.late += 1
        self.slowest = max(self.slowest, time.perf_counter() - begun)

    def _read(self) -> None:
        """A snapshot that stays open for a moment, again and again."""
        with self._connected(autocommit=False) as conn:
            conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            while not self._over.is_set():
                first = conn.execute("SELECT count(*) AS n FROM howdah.jobs WHERE status = 'completed'").fetchone()
                self._over.wait(self._stage.chance.uniform(0.01, 0.1))
                assert (
                    conn.execute("SELECT count(*) AS n FROM howdah.jobs WHERE status = 'completed'").fetchone() == first
                )
                conn.rollback()
                self._over.wait(self._stage.chance.uniform(0.01, 0.1))

    def _rotate(self) -> None:
        with self._connected() as conn:
            while not self._over.is_set():
                for row in conn.execute("SELECT closed FROM howdah.rotate('0')").fetchall():
                    self.rotations += row["closed"]
                    self.postponed += not row["closed"]
                    self._stage.fault()
                conn.execute("SELECT howdah.compact_counts(10)")
                conn.execute("SELECT howdah.bound_segments()")
                self._make_room(conn)

    def _make_room(self, conn: psycopg.Connection[dict[str, Any]]) -> None:
        """No more than 16 are closed. The oldest are dropped, once their jobs are counted."""
        old = "closed_at IS NOT NULL AND number <= (SELECT max(number) - 12 FROM howdah.segments)"
        conn.execute(f"UPDATE howdah.segments SET last_end = '2000-01-01' WHERE {old}".encode())
        counts = "SELECT segment, sum(jobs)::bigint AS jobs FROM howdah.archive_counts GROUP BY segment"
        jobs = {row["segment"]: row["jobs"] for row in conn.execute(counts).fetchall()}
        for row in conn.execute("SELECT segment, dropped FROM howdah.prune('1 year')").fetchall():
            self.dropped += jobs.get(row["segment"], 0) if row["dropped"] else 0

    def verdict(self) -> Verdict:
        rows = self._stage.execute
        there = rows("SELECT count(*) AS n, count(DISTINCT id) AS ids FROM howdah.archive")[0]
        left = rows("SELECT count(*) AS n FROM howdah.live")[0]["n"]
        spent = rows("SELECT count(*) AS n FROM howdah.archive WHERE attempts <> 1 OR status <> 'completed'")[0]["n"]
        counts = rows("SELECT coalesce(sum(jobs), 0)::bigint AS n FROM howdah.archive_counts")[0]["n"]
        negative = rows("SELECT count(*) AS n FROM howdah.archive_counts WHERE jobs < 0")[0]["n"]
        lost = len(self._stage.acknowledged) - there["n"] - self.dropped
        kinds = {
            "I1 lost": lost,
            "I2 ended twice": there["n"] - there["ids"],
            "I7 left": left,
            "attempts lost": spent,
            "not as counted": counts - there["n"],
            "counted below nothing": negative,
            "completed twice": sum(self.completed.values()) - len(self.completed),
        }
        violations = tuple(f"{kind}: {count}" for kind, count in kinds.items() if count)
        return Verdict(len(self._stage.acknowledged), max(lost, 0), there["n"] - there["ids"], None, violations)
