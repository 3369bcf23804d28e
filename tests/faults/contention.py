"""Cases in which many clients want the same rows, in a database that is full, locked, or without statistics."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import psycopg
from psycopg.rows import dict_row

from howdah import JobQueue
from tests.faults.case import case
from tests.faults.checker import Verdict
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


@case(27, "notify-stress", checks="I1 I2 I3 I4 I5 I7", own_server=True, fails="patient")
def notify_stress(stage: Stage) -> None:
    """The queue of notifications is full, because one listener stays in its transaction, and 32 clients enqueue at once."""
    stage.needs(
        server_major(stage.dsn) >= 17, "before PostgreSQL 17, the queue of notifications is too large to be filled"
    )
    restart_with_a_small_notify_queue(stage)
    with proxied(stage) as way:
        stage.start(stage.scaled(4, 2), dsn=way.dsn, concurrency=50)
        rate = enqueued_by_many(stage, stage.scaled(5_000, 50))
        with connected(stage) as listener:
            listener.execute("LISTEN elsewhere")
            listener.execute("BEGIN")
            listener.execute("SELECT")
            fill_the_notify_queue(stage)
            slowed, pages = enqueued_by_many(stage, stage.scaled(20_000, 500)), pages_of_an_enqueue(stage)
            print(f"enqueues in a second: {rate:.0f}, and {slowed:.0f} while it is full; pages of one: {pages}")
            assert pages <= MOST_OF_AN_ENQUEUE, f"an enqueue has touched {pages} pages"
            # Generous, because others may use the machine.
            assert stage.quick or slowed >= 0.5 * rate, f"{rate:.0f} enqueues in a second have become {slowed:.0f}"
            cancelled_all_the_same(stage)
            stage.fleet.await_drained()
            assert is_full(stage), "the queue of notifications is not full any more"
        assert all_ends_are_good(stage)
        until(lambda: not is_full(stage), "the queue of notifications is empty again")
        heard = wake_ups(way.proxy)
        until(lambda: is_notified(stage, way.proxy, heard), "wake-ups arrive again")


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


def enqueued_by_many(stage: Stage, count: int) -> float:
    """One job at a time, from many at once. How many in a second."""
    with JobQueue(stage.dsn, pool_size=CLIENTS) as queue, ThreadPoolExecutor(CLIENTS) as clients:
        begun = stage.now()
        jobs = clients.map(lambda _: queue.enqueue("nothing"), range(count))
        stage.acknowledged += [job.id for job in jobs]
        return count / (stage.now() - begun).total_seconds()


MOST_OF_AN_ENQUEUE: Final = 30
"""Pages: the job's own, and those of its indexes. The check for sleeping workers reads none."""


def pages_of_an_enqueue(stage: Stage) -> int:
    """Where workers sleep, which a new job notifies."""
    until(lambda: not stage.execute("SELECT FROM howdah.live LIMIT 1"), "there is nothing to do")
    with connected(stage) as conn:
        return settled_buffers(conn, "SELECT * FROM howdah.enqueue('nothing', p_alone => true)")


def cancelled_all_the_same(stage: Stage) -> None:
    """A running job is cancelled, of which its worker would be notified, too."""
    running = stage.enqueue("patient")
    until(lambda: stage.fleet.ledger.count("START") == 1, "a handler runs")
    assert stage.queue.cancel(running)
    assert stage.queue.wait_for(running, timeout=PATIENCE).status == "cancelled"


def all_ends_are_good(stage: Stage) -> bool:
    return not stage.fleet.jobs("status <> 'completed' AND job_type <> 'patient'")


def wake_ups(proxy: TcpProxy) -> Counter[Link]:
    return Counter({link: link.answered.count(b"wake ") for link in proxy.links})


def is_notified(stage: Stage, proxy: TcpProxy, before: Counter[Link]) -> bool:
    stage.queue.wait_for(stage.enqueue("nothing"), timeout=PATIENCE)
    return bool(wake_ups(proxy) - before)


# Locks


@case(30, "db-stall", checks="I1 I2 I3 I4 I5 I7")
def db_stall(stage: Stage) -> None:
    """Tables are locked for three leases, that of the jobs and that of the workers: no worker is declared dead because of it."""
    workers = stage.start(stage.scaled(4, 2), concurrency=10)
    with stage.producing(rate=stage.scaled(500, 30)):
        for table in stage.scaled(("live", "workers"), ("workers",)):
            # Only a worker with a lease of steady heartbeats may declare others dead.
            for worker in workers:
                worker.await_judge()
            stall(stage, table, stage.scaled(3, 1.25) * LEASE)
    stage.fleet.await_drained()
    assert all(worker.is_running for worker in workers)
    given_up = stage.execute("SELECT * FROM audit.farewells")
    assert not given_up, f"workers without access to their table were declared dead: {given_up}"
    assert not stage.fleet.jobs("crashes > 0"), "jobs were taken from workers that lived"


def stall(stage: Stage, table: str, seconds: float) -> None:
    """While handlers run that outlast it, and until all that was held up has been done."""
    begun = stage.fleet.ledger.count("START", where=outlasts)
    stage.enqueue_many("work", 4, {"seconds": seconds + 0.5})
    until(lambda: stage.fleet.ledger.count("START", where=outlasts) == begun + 4, "handlers run that outlast it")
    with connected(stage) as conn, conn.transaction():
        conn.execute(f"LOCK TABLE howdah.{table} IN ACCESS EXCLUSIVE MODE".encode())
        stage.fault()
        let_pass(stage, seconds)
    stage.queue.wait_for(stage.enqueue("work"), timeout=PATIENCE)


def outlasts(entry: Entry) -> bool:
    return bool(entry.data.get("seconds", 0) > LEASE)


# Keys


@case(31, "deadlock-unique", checks="I1 I2 I3 I4 I5 I7")
def deadlock_unique(stage: Stage) -> None:
    """32 clients enqueue the same keys in bulk, each in an order of its own, some roll back, and segments are dropped meanwhile."""
    over = threading.Event()
    keys = set[str]()
    with JobQueue(stage.dsn, pool_size=CLIENTS + 1) as queue, ThreadPoolExecutor(CLIENTS + 1) as clients:
        retention = clients.submit(drop_segments, stage, queue, over)
        try:
            for number in range(stage.scaled(6, 1)):
                # More than one call takes, of which each is sorted by itself.
                new = [f"{number}: {key}" for key in range(3_000)]
                chances = [random.Random(stage.chance.random()) for _ in range(CLIENTS)]
                added = clients.map(lambda client: bulks(stage, queue, client, chances[client], new), range(CLIENTS))  # noqa: B023
                assert sum(added) == len(new), "the number of jobs reported as added is not that of the keys"
                keys.update(new)
        finally:
            over.set()
        stage.fault(retention.result())
    found = stage.execute("SELECT id, key FROM howdah.live")
    assert sorted(row["key"] for row in found) == sorted(keys), f"{len(keys)} keys, {len(found)} jobs"
    stage.acknowledged += [row["id"] for row in found]
    stage.start(2)
    stage.fleet.await_drained()


def bulks(stage: Stage, queue: JobQueue, client: int, chance: random.Random, keys: list[str]) -> int:
    """The work of one client. Returns how many jobs the calls reported as added."""
    stage.fault()
    if chance.random() < 0.5:
        with connected(stage) as conn, conn.transaction(force_rollback=True):
            add_keys(queue, chance.sample(keys, 500), conn=conn)
    added = int(queue.enqueue("nothing", key=chance.choice(keys)).created)
    added += add_keys(queue, chance.sample(keys, chance.randrange(2, 500)))
    if client % stage.scaled(1, 4) == 0:
        added += add_keys(queue, chance.sample(keys, len(keys)))
    return added


def add_keys(queue: JobQueue, keys: Sequence[str], **options: Any) -> int:
    """A job for each key, with nothing in it that its handler would not take."""
    rest = iter(keys)
    return queue.enqueue_many("nothing", ({} for _ in keys), key=lambda _: next(rest), **options)


def drop_segments(stage: Stage, queue: JobQueue, over: threading.Event) -> int:
    """Adds ended jobs, closes the segment that they are in, and drops it, again and again. How many it has dropped."""
    dropped = 0
    while not over.is_set():
        add_ended(stage, 30, age="100 days")
        dropped += sum(segment.dropped for segment in queue.prune(keep=0))
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
    assert handed_out.total() == len(handed_out), "a job was claimed twice"
    assert set(handed_out) == set(stage.acknowledged)


TYPES: Final = ("one", "two", "three", "four")
CLAIMS: Final[tuple[str, ...]] = (
    "SELECT id, token, priority FROM howdah.claim(%(me)s, %(types)s, %(n)s)",
    "SELECT id, token, priority FROM howdah.claim(%(me)s, %(types)s, %(n)s, p_oldest => true)",
    "SELECT id, token, priority FROM howdah.claim(%(me)s, %(types)s, %(n)s, p_limits => %(limits)s)",
    "SELECT id, NULL::bigint AS token, priority FROM howdah.claim_job_batch(%(me)s, %(types)s, %(n)s)",
)


def take_all(stage: Stage, chance: random.Random) -> list[Any]:
    """Claims and ends jobs, and now and then releases some, until none is left."""
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
            assert len(claimed) <= asked, f"a claim of {asked} jobs returned {len(claimed)}: {statement}"
            if not claimed:
                return ended
            if chance.random() < 0.1:
                # It moves jobs that other loops are about to claim.
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
            assert {row["id"] for row in done} == set(ids), "a claimed job was not the claimer's"
            if verb == "complete":
                ended += ids


@case(33, "plan-flip", checks="I1 I2 I7", audited=False)
def plan_flip(stage: Stage) -> None:
    """A million ended jobs and a hundred thousand that wait, with statistics from before there were any."""
    ended, ready = stage.scaled((1_000_000, 100_000), (20_000, 5_000))
    last_analysed_while_empty(stage)
    with connected(stage) as veteran, connected(stage) as newcomer:
        # Its plans were made while there was nothing.
        for _ in range(7):
            for statement in ASKED_BY_WORKERS:
                veteran.execute(statement.encode(), CLAIM)
        add_ended(stage, ended)
        # Fewer jobs, but still so many pages that a statement that reads all of them exceeds the bound.
        stage.enqueue_many("nothing", ready, meta={"padding": "x" * stage.scaled(0, 1_000)})
        stage.fault()
        needed = [settled_buffers(db, statement) for db in (veteran, newcomer) for statement in ASKED_BY_WORKERS]
        give_back(stage)
        most = MOST_BUFFERS if newcomer.info.server_version >= 16_00_00 else MOST_BUFFERS_ON_15
    print(f"buffers of claims of {CLAIM['n']} among {ready:,} and {ended:,}: {needed}")
    assert max(needed) <= most, f"a claim of {CLAIM['n']} has touched {max(needed):,} pages"
    stage.start(stage.scaled(4, 2), concurrency=50)
    stage.fleet.await_drained()
    stage.verdict = counted(stage)


CLAIM: Final[dict[str, Any]] = {"me": "prober", "types": ["nothing", "work", "reports"], "n": 100}
ASKED_BY_WORKERS: Final = (
    "SELECT * FROM howdah.claim(%(me)s, %(types)s, %(n)s, %(n)s)",
    "SELECT * FROM howdah.claim(%(me)s, %(types)s, %(n)s, %(n)s, p_limits => ARRAY[60, 5, 30])",
    "SELECT * FROM howdah.claim(%(me)s, %(types)s, %(n)s, %(n)s, p_oldest => true)",
    "SELECT howdah.next_due(%(types)s)",
)
MOST_BUFFERS: Final = 1_600
"""Of a claim of 100: each is found, locked, written to another page, and entered in three indexes. One look through the whole
table, of either form, would be more than the rest of this."""
MOST_BUFFERS_ON_15: Final = 2_400
"""The same claims, by the same plans, need half as much again there. A look through the whole table would be 14,000."""


def last_analysed_while_empty(stage: Stage) -> None:
    """As a queue is found at night: from then on, to look through all of it seems the cheapest way."""
    with connected(stage) as conn:
        conn.execute("ALTER TABLE howdah.live SET (autovacuum_enabled = off)")
        conn.execute("VACUUM ANALYZE howdah.live")
        days = conn.execute(
            "SELECT inhrelid::regclass AS day FROM pg_inherits WHERE inhparent = 'howdah.archive'::regclass"
        )
        for row in days.fetchall():
            conn.execute(f"ALTER TABLE {row['day']} SET (autovacuum_enabled = off)".encode())


def add_ended(stage: Stage, count: int, age: str = "0") -> None:
    with connected(stage) as conn:
        conn.execute(
            "INSERT INTO howdah.archive_open (id, token, finished_at, run_at, first_due_at, created_at, priority, attempts, max_attempts,"
            " crashes, interruptions, progress, events_count, job_type, status, data)"
            " SELECT howdah.new_id(), 1, t, t, t, t, 100, 1, 3, 0, 0, 100, 0, 'nothing', 'completed', '{}'"
            " FROM (SELECT now() - n %% 3 * interval '1 day' - %s::interval FROM generate_series(1, %s) AS n) AS old (t)",
            (age, count),
        )


def buffers(db: Db, statement: str, values: dict[str, Any] | None = None) -> int:
    """How many pages it touches. It is done, too."""
    row = db.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}".encode(), values or CLAIM).fetchone()
    assert row is not None
    (plan,) = row["QUERY PLAN"]
    return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])


def settled_buffers(db: Db, statement: str) -> int:
    """The least of three calls by the same plan: the first one of a connection reads catalogues, too, and so does any at which
    the server has changed them."""
    return min(buffers(db, statement) for _ in range(3))


def held(db: Db) -> tuple[list[Any], list[Any]]:
    """What was claimed by looking."""
    rows = db.execute("SELECT id, token FROM howdah.live WHERE worker_id = %(me)s AND status <> 'pending'", CLAIM)
    claimed = rows.fetchall()
    return [row["id"] for row in claimed], [row["token"] for row in claimed]


def give_back(stage: Stage) -> None:
    with connected(stage) as conn:
        conn.execute("SELECT howdah.release(%s, %s, true)", held(conn))


def counted(stage: Stage) -> Verdict:
    """The end of every job, where there are too many for an audit."""
    lost = stage.execute(
        "SELECT count(*) AS n FROM unnest(%s::uuid[]) AS added (id)"
        " WHERE NOT EXISTS (SELECT FROM howdah.archive AS a WHERE a.id = added.id)",
        stage.acknowledged,
    )
    doubled = stage.execute("SELECT count(*) - count(DISTINCT id) AS n FROM howdah.archive")
    left = stage.execute("SELECT count(*) AS n FROM howdah.live")
    otherwise = stage.execute("SELECT count(*) AS n FROM howdah.archive WHERE status <> 'completed'")
    kinds = {"I1 lost": lost, "I2 ended twice": doubled, "I7 left": left, "ended otherwise than completed": otherwise}
    violations = [f"{kind}: {rows[0]['n']}" for kind, rows in kinds.items() if rows[0]["n"]]
    return Verdict(len(stage.acknowledged), lost[0]["n"], doubled[0]["n"], None, tuple(violations))


@case(34, "xmin-hold", checks="I1 I2 I7", audited=False)
def xmin_hold(stage: Stage) -> None:
    """A transaction is left open, dead rows cannot be removed, and the queue is filled and emptied meanwhile."""
    with connected(stage) as forgotten:
        forgotten.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        forgotten.execute("SELECT count(*) FROM howdah.live")
        stage.fault()
        if stage.quick:
            claims_touch_as_little_as_before(stage)
        else:
            workers_are_as_fast_as_before(stage)
    stage.verdict = counted(stage)


def claims_touch_as_little_as_before(stage: Stage) -> None:
    """Claims as workers make them, from where the last one ended. The same from the start show what that saves."""
    with connected(stage) as conn:
        needed = [churned(stage, conn, 1_000) for _ in range(10)]
        without = churned(stage, conn, 1_000, cursor=False)
    print(f"buffers of claims of {FEW}, round by round: {needed}; without a cursor: {without}")
    assert without > 2 * needed[-1], "nothing was in the way of any claim"
    assert needed[-1] < 1.5 * needed[1], f"claims touch ever more pages: {needed}"


FEW: Final = 5


def churned(stage: Stage, conn: Db, jobs: int, *, cursor: bool = True) -> int:
    """Adds jobs, and claims and ends them all. How many pages the first claim, of a few, has touched."""
    last = "SELECT run_at, id FROM howdah.archive ORDER BY run_at DESC, id DESC LIMIT 1"
    seen = conn.execute(last.encode()).fetchall() if cursor else []
    stage.enqueue_many("nothing", jobs)
    values = {
        **CLAIM,
        "types": ["nothing"],
        "n": FEW,
        "all": jobs - FEW,
        "cursor_types": ["nothing" for _ in seen],
        "cursor_priorities": [100 for _ in seen],
        "cursor_run_ats": [row["run_at"] for row in seen],
        "cursor_ids": [row["id"] for row in seen],
    }
    needed = buffers(conn, FROM_THERE, values)
    conn.execute(FROM_THERE.replace("%(n)s", "%(all)s").encode(), values)
    conn.execute("SELECT howdah.complete(%s, %s)", held(conn))
    return needed


FROM_THERE: Final = (
    "SELECT * FROM howdah.claim(%(me)s, %(types)s, %(n)s, 0,"
    " %(cursor_types)s, %(cursor_priorities)s, %(cursor_run_ats)s::timestamptz[], %(cursor_ids)s::uuid[])"
)


def workers_are_as_fast_as_before(stage: Stage) -> None:
    """Eight rounds of 25,000 jobs, each measured against the first."""
    stage.start(2, concurrency=100)
    emptied(stage, 5_000)
    rates = [emptied(stage, 25_000) for _ in range(8)]
    shares = [f"{rate / rates[0]:.0%}" for rate in rates]
    print(f"throughput, of the first round's: {', '.join(shares)}")
    # The best of four, because others may use the machine.
    assert max(rates[-4:]) >= 0.8 * rates[0], f"the last rounds were slower than 80% of the first: {shares}"


def emptied(stage: Stage, jobs: int) -> float:
    """Jobs in a second, while no client adds any."""
    stage.queue.pause("nothing")
    stage.enqueue_many("nothing", jobs)
    begun = stage.now()
    stage.queue.resume("nothing")
    # Not by looking for jobs that are left: that would read all dead rows, and disturb what is measured.
    ended = "SELECT sum(jobs) AS n FROM howdah.archive_counts"
    until(lambda: stage.execute(ended)[0]["n"] == len(stage.acknowledged), "every job has ended")
    return jobs / (stage.now() - begun).total_seconds()
