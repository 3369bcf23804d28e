"""Cases in which everybody wants the same, in a database that is full, locked, or knows nothing of itself."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row

from howdah import JobQueue
from tests.faults.case import case
from tests.faults.network import let_pass, proxied
from tests.faults.stage import Stage
from tests.servers import server_major
from tests.tcp_proxy import Link, TcpProxy
from tests.worker.ledger import Entry
from tests.worker.processes import LEASE, PATIENCE, until

CLIENTS: Final = 32

Db = psycopg.Connection[dict[str, Any]]


@contextlib.contextmanager
def connected(stage: Stage) -> Iterator[Db]:
    with psycopg.connect(stage.dsn, autocommit=True, row_factory=dict_row) as conn:
        yield conn


# Notifications


@case(27, "notify-stress", checks="I1 I2 I3 I4 I5 I7", own_server=True)
def notify_stress(stage: Stage) -> None:
    """The queue of notifications is full, because one listener stays in its transaction, and 32 clients enqueue at once."""
    stage.needs(
        server_major(stage.dsn) >= 17, "before PostgreSQL 17, the queue of notifications is too large to be filled"
    )
    restart_with_a_small_notify_queue(stage)
    with proxied(stage) as way:
        stage.start(stage.scaled(4, 2), dsn=way.dsn, concurrency=50)
        with connected(stage) as listener:
            listener.execute("LISTEN elsewhere")
            listener.execute("BEGIN")
            listener.execute("SELECT")
            fill_the_notify_queue(stage)
            enqueue_from_all_sides(stage)
            stage.fleet.await_drained()
            assert is_full(stage), "somebody has emptied the queue of notifications"
        assert all_ends_are_good(stage)
        until(lambda: not is_full(stage), "the queue of notifications is empty again")
        heard = wake_ups(way.proxy)
        until(lambda: is_told(stage, way.proxy, heard), "wake-ups arrive again")


def restart_with_a_small_notify_queue(stage: Stage) -> None:
    with connected(stage) as conn:
        conn.execute("ALTER SYSTEM SET max_notify_queue_pages = 64")
    stage.server.halt("fast")
    stage.server.start()
    stage.fleet.reconnect()


def fill_the_notify_queue(stage: Stage) -> None:
    with connected(stage) as conn, contextlib.suppress(psycopg.errors.ProgramLimitExceeded):
        while True:
            conn.execute("SELECT pg_notify('elsewhere', repeat(gen_random_uuid()::text, 200))")
    stage.fault()


def is_full(stage: Stage) -> bool:
    return bool(stage.execute("SELECT pg_notification_queue_usage() > 0.9 AS is_full")[0]["is_full"])


def enqueue_from_all_sides(stage: Stage) -> None:
    """One job at a time, from many at once; and a running one is cancelled, which is told to its worker too."""
    with JobQueue(stage.dsn, pool_size=CLIENTS) as queue, ThreadPoolExecutor(CLIENTS) as clients:
        jobs = clients.map(lambda _: queue.enqueue("nothing"), range(stage.scaled(20_000, 500)))
        stage.acknowledged += [job.id for job in jobs]
        running = queue.enqueue("patient")
        stage.acknowledged.append(running.id)
        until(lambda: stage.fleet.ledger.count("START") == 1, "a handler runs")
        assert queue.cancel(running)
        assert queue.wait_for(running, timeout=PATIENCE).status == "cancelled"


def all_ends_are_good(stage: Stage) -> bool:
    return not stage.fleet.jobs("status <> 'completed' AND job_type <> 'patient'")


def wake_ups(proxy: TcpProxy) -> Counter[Link]:
    return Counter({link: link.answered.count(b"wake ") for link in proxy.links})


def is_told(stage: Stage, proxy: TcpProxy, before: Counter[Link]) -> bool:
    stage.queue.wait_for(stage.enqueue("nothing"), timeout=PATIENCE)
    return bool(wake_ups(proxy) - before)


# Locks


@case(30, "db-stall", checks="I1 I2 I3 I4 I5 I7")
def db_stall(stage: Stage) -> None:
    """Tables are locked for three leases, that of the jobs and that of the workers: nobody is given up because of it."""
    workers = stage.start(stage.scaled(4, 2), concurrency=10)
    jobs, beats = "howdah.live", "howdah.workers"
    with stage.producing():
        for tables in stage.scaled((jobs, beats, f"{jobs}, {beats}"), (f"{jobs}, {beats}",)):
            # Only who judges others, after a lease of steady beats, would give somebody up.
            for worker in workers:
                worker.await_judge()
            stall(stage, tables, stage.scaled(3, 1.5) * LEASE)
    stage.fleet.await_drained()
    assert all(worker.is_running for worker in workers)
    given_up = stage.execute("SELECT * FROM audit.farewells")
    assert not given_up, f"workers were given up that only could not be heard: {given_up}"
    assert not stage.fleet.jobs("crashes > 0"), "jobs were taken from workers that lived"


def stall(stage: Stage, tables: str, seconds: float) -> None:
    """While handlers run that outlast it, and until all that was held up has been done."""
    begun = stage.fleet.ledger.count("START", where=outlasts)
    stage.enqueue_many("work", 4, {"seconds": seconds + 0.5})
    until(lambda: stage.fleet.ledger.count("START", where=outlasts) == begun + 4, "handlers run that outlast it")
    with connected(stage) as conn, conn.transaction():
        conn.execute(f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE".encode())
        stage.fault()
        let_pass(stage, seconds)
    stage.queue.wait_for(stage.enqueue("work"), timeout=PATIENCE)


def outlasts(entry: Entry) -> bool:
    return bool(entry.data.get("seconds", 0) > LEASE)


# Keys


@case(31, "deadlock-unique", checks="I1 I2 I3 I4 I5 I7")
def deadlock_unique(stage: Stage) -> None:
    """32 clients enqueue the same keys in bulk, each in an order of its own, some roll back, and old days are dropped meanwhile."""
    over = threading.Event()
    keys = set[str]()
    with JobQueue(stage.dsn, pool_size=CLIENTS + 1) as queue, ThreadPoolExecutor(CLIENTS + 1) as clients:
        retention = clients.submit(drop_old_days, stage, queue, over)
        try:
            for number in range(stage.scaled(6, 1)):
                # More than one call takes, of which each is sorted by itself.
                new = [f"{number}: {key}" for key in range(3_000)]
                seeds = [stage.chance.randrange(10**9) for _ in range(CLIENTS)]
                added = clients.map(lambda seed: bulks(stage, queue, random.Random(seed), new), seeds)  # noqa: B023
                assert sum(added) == len(new), "more or fewer jobs were said to be added than there are keys"
                keys.update(new)
        finally:
            over.set()
        stage.fault(retention.result())
    found = stage.execute("SELECT id, key FROM howdah.live")
    assert sorted(row["key"] for row in found) == sorted(keys), f"{len(keys)} keys, {len(found)} jobs"
    stage.acknowledged += [row["id"] for row in found]
    stage.start(2)
    stage.fleet.await_drained()


def bulks(stage: Stage, queue: JobQueue, chance: random.Random, keys: list[str]) -> int:
    """What one client does. How many jobs it was told that it has added."""
    stage.fault()
    if chance.random() < 0.5:
        with connected(stage) as conn, conn.transaction(force_rollback=True):
            queue.enqueue_many("nothing", chance.sample(keys, 500), key=str, conn=conn)
    added = int(queue.enqueue("nothing", key=chance.choice(keys)).created)
    added += queue.enqueue_many("nothing", chance.sample(keys, chance.randrange(2, 500)), key=str)
    return added + queue.enqueue_many("nothing", chance.sample(keys, len(keys)), key=str)


def drop_old_days(stage: Stage, queue: JobQueue, over: threading.Event) -> int:
    """Makes days of long ago with ended jobs in them, and drops them, again and again. How many it has dropped."""
    dropped = 0
    with connected(stage) as conn:
        while not over.is_set():
            conn.execute(
                "INSERT INTO howdah.archive (id, token, finished_at, run_at, first_due_at, created_at, priority, attempts, max_attempts,"
                " crashes, interruptions, progress, events_count, job_type, status, data)"
                " SELECT gen_random_uuid(), 1, t, t, t, t, 100, 1, 3, 0, 0, 100, 0, 'nothing', 'completed', '{}'"
                " FROM (SELECT now() - n % 3 * interval '1 day' - interval '100 days' FROM generate_series(1, 30) AS n) AS old (t)"
            )
            conn.execute("SELECT howdah.create_partitions()")
            dropped += sum(day.dropped for day in queue.prune())
    return dropped


# Plans


@case(32, "overclaim", checks="I1 I2 I7 I8")
def overclaim(stage: Stage) -> None:
    """Claims of 1 to 50 jobs by many at once, planned without statistics and without hash and merge joins."""
    jobs = stage.scaled(10_000, 2_000)
    with connected(stage) as conn:
        conn.execute("ALTER TABLE howdah.live SET (autovacuum_enabled = off)")
    for job_type in TYPES:
        stage.enqueue_many(job_type, jobs // len(TYPES))
    seeds = [stage.chance.randrange(10**9) for _ in range(8)]
    with ThreadPoolExecutor(len(seeds)) as clients:
        taken = [*clients.map(lambda seed: take_all(stage, random.Random(seed)), seeds)]
    handed_out = Counter(id for ids in taken for id in ids)
    assert handed_out.total() == len(handed_out), "a job was handed out twice"
    assert set(handed_out) == set(stage.acknowledged)


TYPES: Final = ("one", "two", "three", "four")
CLAIMS: Final[tuple[str, ...]] = (
    "SELECT id, token, priority FROM howdah.claim(%(me)s, %(types)s, %(n)s)",
    "SELECT id, token, priority FROM howdah.claim(%(me)s, %(types)s, %(n)s, p_oldest => true)",
    "SELECT id, token, priority FROM howdah.claim(%(me)s, %(types)s, %(n)s, p_limits => %(limits)s)",
    "SELECT id, NULL::bigint AS token, priority FROM howdah.claim_job_batch(%(me)s, %(types)s, %(n)s)",
)


def take_all(stage: Stage, chance: random.Random) -> list[Any]:
    """Claims, ends, and now and then hands back, until nothing is left."""
    ended: list[Any] = []
    me = f"client {chance.random()}"
    with connected(stage) as conn:
        for setting in ("enable_hashjoin", "enable_mergejoin"):
            conn.execute(f"SET {setting} = off".encode())
        while True:
            asked, limits = chance.randint(1, 50), [chance.randint(1, 50) for _ in TYPES]
            statement = chance.choice(CLAIMS)
            values = {"me": me, "types": list(TYPES), "n": asked, "limits": limits}
            claimed = conn.execute(statement.encode(), values).fetchall()
            stage.fault()
            assert len(claimed) <= asked, f"{asked} jobs were asked for, and {len(claimed)} handed out: {statement}"
            if not claimed:
                return ended
            if chance.random() < 0.1:
                # Somebody moves what others are about to claim.
                conn.execute(
                    "SELECT howdah.reprioritise(ARRAY(SELECT id FROM howdah.live WHERE status = 'pending' LIMIT 20), %s)",
                    (chance.randrange(200),),
                )
            ids = [row["id"] for row in claimed]
            held = conn.execute(
                "SELECT id, token FROM howdah.live WHERE id = ANY (%s) AND worker_id = %s", (ids, me)
            ).fetchall()
            verb = "release" if chance.random() < 0.1 else "complete"
            done = conn.execute(
                f"SELECT id FROM howdah.{verb}(%s, %s)".encode(),
                ([row["id"] for row in held], [row["token"] for row in held]),
            ).fetchall()
            assert {row["id"] for row in done} == set(ids), "a job that was handed out was not the claimer's"
            if verb == "complete":
                ended += ids
