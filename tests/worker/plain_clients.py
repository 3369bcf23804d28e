"""Plain SQL clients of four kinds, each a loop of its own in a thread: they know the seed's statements, and the ledger."""

from __future__ import annotations

import itertools
import json
import os
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from psycopg import RawCursor
from psycopg.rows import dict_row

from tests.sql import seed

Row = dict[str, Any]

TYPE = "shared"
CLAIM_IT = "UPDATE jobs SET status = 'claimed', worker_id = $1, claimed_at = NOW(), attempts = attempts + 1"
START = "UPDATE jobs SET status = 'running', started_at = NOW() WHERE id = $1"
PROGRESS = "UPDATE jobs SET progress = 50, current_stage = 'half', events_count = events_count + 1 WHERE id = $1"
RECOVER_OWN = """
UPDATE jobs SET status = 'pending', worker_id = NULL, claimed_at = NULL
WHERE worker_id = $1 AND status IN ('claimed', 'running')"""

_runs = itertools.count(1)


class Dropped(Exception):
    """The client's connection is gone, and with it all that the client knew."""


class Client(threading.Thread):
    """Claim, run and end jobs until it is asked to stop. Now and then its connection drops, and it starts again."""

    def __init__(self, dsn: str, ledger: Path, name: str) -> None:
        super().__init__(name=name)
        self._dsn = dsn
        self._ledger = ledger
        self._chance = random.Random(name)
        self._lives = itertools.count(1)
        self._leaves = threading.Event()
        self.ended: Counter[uuid.UUID] = Counter()
        """The jobs that it has completed, as the database has acknowledged."""
        self.surprises: list[str] = []
        """What a plain table would not have done: errors, notices, and statements that hit nothing."""

    def stop(self) -> None:
        """It ends what it holds, and then itself."""
        self._leaves.set()
        self.join()

    def run(self) -> None:
        former = None
        while not self._leaves.is_set():
            self.worker_id = f"{self.name}.{next(self._lives)}"
            try:
                with self._connected() as conn:
                    self._cursor = RawCursor(conn, row_factory=dict_row)
                    if former is not None and self._chance.random() < 0.5:
                        # A process that begins with what it left behind. Otherwise its jobs wait for a recovery.
                        self.send(RECOVER_OWN, former)
                    self._live()
            except Dropped:
                former = self.worker_id
            except psycopg.Error as error:
                self.surprises.append(f"{self.worker_id}: {error.sqlstate} {error}")
                return

    def _connected(self) -> psycopg.Connection[Row]:
        conn = psycopg.connect(
            self._dsn,
            autocommit=True,
            row_factory=dict_row,
            options="-c search_path=howdah",
            application_name=self.name,
        )
        conn.add_notice_handler(lambda notice: self.surprises.append(f"{self.worker_id}: {notice.message_primary}"))
        return conn

    def _live(self) -> None:
        while not self._leaves.is_set():
            jobs = self.claim(self._chance.randint(1, 4))
            for job in jobs:
                self._work(job)
            if not jobs:
                self._leaves.wait(0.005)

    def _work(self, job: Row) -> None:
        number = -next(_runs)
        self._note("START", number, job)
        self._hit(START, job["id"])
        time.sleep(0.01)
        self._hit(PROGRESS, job["id"])
        if self._chance.random() < 0.03:
            self._note("DROPPED", number, job)
            self._drop()
        self._note("END", number, job)
        self.end(job)

    def claim(self, count: int) -> list[Row]:
        raise NotImplementedError

    def end(self, job: Row) -> None:
        """The seed's Complete, unless the client's kind also knows how to fail."""
        self._hit(seed.COMPLETE, job["id"])
        self.ended[job["id"]] += 1

    def send(self, statement: str, *values: Any) -> list[Row]:
        self._cursor.execute(statement.encode(), values)
        return self._cursor.fetchall() if self._cursor.description else []

    def _hit(self, statement: str, *values: Any) -> None:
        """A statement about a job that this client holds: it finds the job."""
        self.send(statement, *values)
        if self._cursor.rowcount != 1:
            self.surprises.append(f"{self.worker_id}: {self._cursor.rowcount} rows: {statement} {values}")

    def perhaps_drop(self) -> None:
        """In the middle of a transaction, or of what should be one."""
        if self._chance.random() < 0.02:
            self._drop()

    def _drop(self) -> None:
        self._cursor.connection.pgconn.finish()
        raise Dropped

    def _note(self, word: str, number: int, job: Row) -> None:
        """A line of the ledger, with the number of the run for want of a token."""
        run = [number, job["attempts"], self.worker_id, os.getpid(), time.monotonic(), None]
        line = [word, TYPE, str(job["id"]), *run]
        file = os.open(self._ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, json.dumps(line).encode() + b"\n")
        finally:
            os.close(file)


class TwoStatements(Client):
    """It locks what may be claimed, and takes what it has locked. It believes its SELECT."""

    def claim(self, count: int) -> list[Row]:
        with self._cursor.connection.transaction():
            jobs = self.send(
                "SELECT * FROM claimable WHERE job_type = $1 ORDER BY priority DESC, created_at LIMIT $2 FOR UPDATE SKIP LOCKED",
                TYPE, count,
            )  # fmt: skip
            self.perhaps_drop()
            self.send(f"{CLAIM_IT} WHERE id = ANY($2)", self.worker_id, [job["id"] for job in jobs])
            if self._cursor.rowcount != len(jobs):
                self.surprises.append(f"{self.worker_id}: locked {len(jobs)}, and took {self._cursor.rowcount}")
            self.perhaps_drop()
        return jobs


class OneStatement(Client):
    """The body of the seed's own claim function."""

    def claim(self, count: int) -> list[Row]:
        jobs = self.send(seed.OWN_CLAIM, self.worker_id, [TYPE], count)
        self.perhaps_drop()
        return jobs


class CompareAndSet(Client):
    """It looks without a lock, and takes what is still pending."""

    def claim(self, count: int) -> list[Row]:
        seen = self.send("SELECT id FROM jobs WHERE status = $1 AND job_type = $2 LIMIT $3", "pending", TYPE, 5 * count)
        self._chance.shuffle(seen)
        got: list[Row] = []
        for job in seen[:count]:
            got += self.send(
                f"{CLAIM_IT} WHERE id = $2 AND status = $3 RETURNING *", self.worker_id, job["id"], "pending"
            )
            self.perhaps_drop()
        return got


class SeedsFunction(Client):
    """The seed's claim_job_batch, and its Fail beside its Complete."""

    def claim(self, count: int) -> list[Row]:
        return self.send(seed.CLAIM, self.worker_id, [TYPE], count)

    def end(self, job: Row) -> None:
        if self._chance.random() < 0.1:
            self._hit(seed.FAIL, job["id"], "it did not work")
        else:
            super().end(job)


KINDS: tuple[Callable[..., Client], ...] = (TwoStatements, OneStatement, CompareAndSet, SeedsFunction)
