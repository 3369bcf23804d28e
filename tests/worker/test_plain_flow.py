"""Limits and orders hold for plain SQL clients of four kinds beside a worker, while one of them is idle in its transaction."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

from psycopg.types.json import Jsonb

from howdah import Job, JobQueue
from tests.conftest import Connect, Db
from tests.size import FULL
from tests.sql import seed
from tests.sql.plain import change, one, send
from tests.worker import in_process

TYPES = ["of_a_key", "of_the_type", "of_the_group", "in_line"]
KEYS, EACH = (50, 40) if FULL else (5, 8)
OF_A_KEY, OF_THE_TYPE, OF_THE_GROUP = 2, 3, 4
GROUP = ("of_the_type", "of_the_group")
IDLE = "idle"
HELD_UP = ["of_a_key", "in_line"]

CLAIM_IT = "UPDATE jobs SET status = 'claimed', worker_id = $1, claimed_at = NOW(), attempts = attempts + 1"
HELD = "SELECT job_type, flow_key, count(*) AS n FROM live WHERE status IN ('claimed', 'running') GROUP BY 1, 2"
UNFINISHED = """
SELECT FROM jobs WHERE status IN ('pending', 'claimed', 'running') AND NOT (data ->> 'key' = $1 AND job_type = ANY($2)) LIMIT 1"""
FIRST = "SELECT id FROM claimable WHERE job_type = $1 AND data ->> 'key' = $2 ORDER BY id LIMIT 1 FOR UPDATE"


class Entry(NamedTuple):
    word: str
    job_type: str
    key: str
    number: int


class Ledger:
    """What began and ended, in one order. A run is noted after its claim, and until before its end is written."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[Entry] = []

    def note(self, word: str, job_type: str, data: dict[str, Any]) -> None:
        with self._lock:
            self._entries.append(Entry(word, job_type, data["key"], data["number"]))

    def most(self) -> Counter[str]:
        """How many ran at once, at most: of a key, a type, and the group."""
        now: dict[str, int] = defaultdict(int)
        most: Counter[str] = Counter()
        for entry in self._entries:
            for name in names_of(entry.job_type, entry.key):
                now[name] += 1 if entry.word == "START" else -1
                most[name] = max(most[name], now[name])
        return most

    def completed(self, job_type: str) -> dict[str, list[int]]:
        """The numbers of the jobs of each key, in the order in which they were completed."""
        found = defaultdict(list)
        for entry in self._entries:
            if entry.word == "END" and entry.job_type == job_type:
                found[entry.key].append(entry.number)
        return found


def names_of(job_type: str, key: str) -> list[str]:
    """What a limit may be of: the key, the type, and the group."""
    return [f"{job_type}/{key}", job_type, *(["the group"] if job_type in GROUP else [])]


def exceeded(most: Counter[str]) -> dict[str, int]:
    """Those that are beyond their limits."""
    limits = {"of_the_type": OF_THE_TYPE, "the group": OF_THE_GROUP}
    limits |= {name: OF_A_KEY for name in most if name.startswith("of_a_key/")}
    limits |= {name: 1 for name in most if name.startswith("in_line/")}
    return {name: most[name] for name, limit in limits.items() if most[name] > limit}


# Kinds of plain clients: each claims some jobs, and returns their rows.


def by_two_statements(conn: Db, name: str) -> list[dict[str, Any]]:
    with conn.transaction():
        seen = send(
            conn,
            "SELECT id FROM claimable WHERE job_type = ANY($1) ORDER BY priority DESC, created_at LIMIT 4 FOR UPDATE SKIP LOCKED",
            TYPES,
        )
        return send(conn, f"{CLAIM_IT} WHERE id = ANY($2) RETURNING *", name, [row["id"] for row in seen])


def by_one_statement(conn: Db, name: str) -> list[dict[str, Any]]:
    return send(conn, seed.OWN_CLAIM, name, TYPES, random.randint(1, 20))


def by_compare_and_set(conn: Db, name: str) -> list[dict[str, Any]]:
    # As on a plain table, it would wait for a row that the idle client has locked.
    seen = send(
        conn,
        "SELECT id FROM jobs WHERE status = 'pending' AND job_type = ANY($1) AND data ->> 'key' <> $2"
        " ORDER BY random() LIMIT 5",
        TYPES,
        IDLE,
    )
    claim = f"{CLAIM_IT} WHERE id = $2 AND status = $3 RETURNING *"
    return [row for job in seen for row in send(conn, claim, name, job["id"], "pending")]


def by_the_seeds_function(conn: Db, name: str) -> list[dict[str, Any]]:
    return send(conn, seed.CLAIM, name, TYPES, random.randint(1, 4))


Claim = Callable[[Db, str], list[dict[str, Any]]]
KINDS: tuple[Claim, ...] = (by_two_statements, by_one_statement, by_compare_and_set, by_the_seeds_function)


def work(conn: Db, claim: Claim, ledger: Ledger, done: threading.Event) -> int:
    """A loop of its own. Any error ends it, and a wait for a lock without a bound is one."""
    conn.execute("SET statement_timeout = '60s'")
    name = f"{claim.__name__} {conn.info.backend_pid}"
    count = 0
    while not done.is_set():
        jobs = claim(conn, name)
        count += len(jobs)
        for job in jobs:
            ledger.note("START", job["job_type"], job["data"])
        for job in jobs:
            time.sleep(random.uniform(0, 0.003))
            if random.random() < 0.1:
                ledger.note("FAIL", job["job_type"], job["data"])
                assert change(conn, seed.FAIL, job["id"], "by chance") == 1
            else:
                end(conn, ledger, job)
        if not jobs:
            done.wait(0.005)
    return count


def end(conn: Db, ledger: Ledger, job: dict[str, Any]) -> None:
    ledger.note("END", job["job_type"], job["data"])
    assert change(conn, seed.COMPLETE, job["id"]) == 1


def watch(conn: Db, done: threading.Event) -> Counter[str]:
    """The most that were held at once, as the database saw it."""
    most: Counter[str] = Counter()
    while not done.is_set():
        now: Counter[str] = Counter()
        for row in send(conn, HELD):
            for name in names_of(row["job_type"], row["flow_key"]):
                now[name] += row["n"]
        most |= now
        done.wait(0.002)
    return most


@contextmanager
def idle(conn: Db, ledger: Ledger) -> Iterator[list[dict[str, Any]]]:
    """A client that has claimed the first job of a key, of two types, and has not committed that."""
    conn.autocommit = False
    rows = []
    for job_type in HELD_UP:
        job_id = one(conn, FIRST, job_type, IDLE)["id"]
        rows += send(conn, f"{CLAIM_IT} WHERE id = $2 RETURNING *", IDLE, job_id)
        ledger.note("START", rows[-1]["job_type"], rows[-1]["data"])
    try:
        yield rows
    finally:
        conn.rollback()


def declare(queue: JobQueue, ledger: Ledger) -> None:
    async def run(job: Job, key: str, number: int) -> None:
        ledger.note("START", job.job_type, job.data)
        await asyncio.sleep(random.uniform(0, 0.003))
        ledger.note("END", job.job_type, job.data)

    rules: dict[str, dict[str, Any]] = {
        "of_a_key": {"per": "key", "limit": OF_A_KEY},
        "of_the_type": {"limit": OF_THE_TYPE, "groups": ["few"]},
        "of_the_group": {"groups": ["few"]},
        "in_line": {"per": "key", "ordered": True},
    }
    for name, rule in rules.items():
        queue.job(name=name, max_attempts=100, **rule)(run)
    queue.limits.set(OF_THE_GROUP, group="few")
    # A worker declares the types.
    in_process.drain(queue)


def add_jobs(queue: JobQueue, db: Db, *keys: str) -> None:
    """Half of them by the client, half by plain INSERTs."""
    for number in range(EACH):
        for job_type in TYPES:
            jobs = [{"key": key, "number": number} for key in keys]
            if number % 2:
                queue.enqueue_many(job_type, jobs)
            else:
                for job in jobs:
                    send(
                        db, "INSERT INTO jobs (job_type, data, max_attempts) VALUES ($1, $2, 100)", job_type, Jsonb(job)
                    )


def test_limits_and_orders_hold_for_plain_clients_beside_a_worker(db: Db, queue: JobQueue, connect: Connect) -> None:
    ledger, done = Ledger(), threading.Event()
    keys = [*(f"key {number}" for number in range(KEYS)), IDLE]
    declare(queue, ledger)
    add_jobs(queue, db, *keys)
    clients = [(claim, connect()) for claim in KINDS]
    watcher, idler = connect(), connect()

    async def share(pool: ThreadPoolExecutor) -> tuple[list[int], Counter[str]]:
        with idle(idler, ledger) as held:
            watching = pool.submit(watch, watcher, done)
            working = [pool.submit(work, conn, claim, ledger, done) for claim, conn in clients]

            async def until_ended(but: list[str]) -> None:
                await in_process.until(
                    lambda: any(each.done() for each in working) or not send(db, UNFINISHED, IDLE, but)
                )

            async with in_process.working(queue, concurrency=4):
                try:
                    # The idle client stops its key of these types, and no other.
                    await until_ended(but=HELD_UP)
                    assert not any(IDLE in ledger.completed(job_type) for job_type in HELD_UP)
                    idler.commit()
                    idler.autocommit = True
                    for row in held:
                        end(idler, ledger, row)
                    await until_ended(but=[])
                finally:
                    done.set()
        return [each.result() for each in working], watching.result()

    with ThreadPoolExecutor(len(clients) + 1) as pool:
        counts, most_held = in_process.run(share(pool))
    assert all(counts), "each client had some"
    assert exceeded(ledger.most()) == exceeded(most_held) == {}
    for job_type in TYPES:
        assert {key: sorted(done) for key, done in ledger.completed(job_type).items()} == {
            key: list(range(EACH)) for key in keys
        }, "each job was completed once"
    assert ledger.completed("in_line") == {key: list(range(EACH)) for key in keys}
    assert Counter(row["status"] for row in send(db, "SELECT status FROM jobs")) == {
        "completed": len(TYPES) * len(keys) * EACH
    }
