"""Producers that race over the same unique keys: each key that was committed is there once, and no caller gets a deadlock.

Scaled down unless HOWDAH_SCALE=full (`make scale`).
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from howdah import JobQueue, Unique
from tests.conftest import Db
from tests.size import FULL

CLIENTS = 32 if FULL else 8
JOBS = 10_000 if FULL else 300
KEYS = 1_000 if FULL else 60
BULK = 200 if FULL else 25
CALLS = 2_000 if FULL else 60
"""Of each producer whose jobs are claimed meanwhile."""


@pytest.mark.parametrize("unique", [("n",), Unique(by=("n",), conflict="replace"), Unique(by=("n",), within=3600)])
def test_bulks_in_any_order_with_rollbacks_add_each_committed_key_once(
    dsn: str, queue: JobQueue, db: Db, unique: Any
) -> None:
    def client(number: int) -> set[int]:
        chance = random.Random(number)
        committed = set[int]()
        with psycopg.connect(dsn) as conn:
            for bulk in range(JOBS // BULK):
                keys = [chance.randrange(KEYS) for _ in range(BULK)]
                items = [{"n": key, "v": [number, bulk, place]} for place, key in enumerate(keys)]
                added = queue.enqueue_many("mail", items, unique=unique, conn=conn)
                assert added + sum(added.conflicts.values()) == BULK
                if chance.random() < 0.3:
                    conn.rollback()
                else:
                    conn.commit()
                    committed.update(keys)
        return committed

    with ThreadPoolExecutor(CLIENTS) as pool:
        committed = set[int]().union(*pool.map(client, range(CLIENTS)))
    found = Counter(row["n"] for row in db.execute("SELECT (data ->> 'n')::int AS n FROM live").fetchall())
    assert found == Counter(committed)
    assert len(committed) == KEYS
    assert db.execute("SELECT count(*) AS n FROM uniques").fetchall() == [{"n": KEYS}]


def test_a_payload_that_replaces_another_is_never_lost_to_a_claim_at_the_same_moment(dsn: str, queue: JobQueue) -> None:
    """Each producer numbers the payloads of its own key. Whatever a claim meets, they run in order, and the last one runs."""
    rule = Unique(by=("key",), conflict="replace")
    producers, claimers = CLIENTS // 2, 3
    ended = threading.Event()
    ran: list[tuple[int, int]] = []

    def produce(key: int) -> Counter[str | None]:
        with JobQueue(dsn) as own:
            return Counter(own.enqueue("mail", {"key": key, "v": v}, unique=rule).conflict for v in range(CALLS))

    def claim(number: int) -> None:
        with JobQueue(dsn, worker_id=f"claimer {number}") as own:
            while True:
                is_last = ended.is_set()
                jobs = own.claim(["mail"], 2)
                for job in jobs:
                    own.start(job)
                    ran.append((job.data["key"], job.data["v"]))
                    own.complete(job)
                if is_last and not jobs:
                    return

    with ThreadPoolExecutor(producers + claimers) as pool:
        claiming = [pool.submit(claim, number) for number in range(claimers)]
        try:
            happened = sum(pool.map(produce, range(producers)), Counter[str | None]())
        finally:
            ended.set()
        for each in claiming:
            each.result()
    print(happened)
    assert set(happened) <= {None, "replaced"}
    assert queue.stats()["mail"].pending == 0
    for key in range(producers):
        versions = [v for each, v in ran if each == key]
        assert max(versions) == CALLS - 1
        assert len(set(versions)) == len(versions)
