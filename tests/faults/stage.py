"""The stage of a case: a server, a database of its own with the queue and the audit in it, workers, producers, and a count of the faults."""

from __future__ import annotations

import contextlib
import random
import tempfile
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from howdah import JobQueue
from tests.faults import evidence
from tests.faults.case import Case, Skipped
from tests.faults.checker import Verdict
from tests.faults.evidence import Death, Evidence
from tests.faults.producer import Producer
from tests.servers import Server
from tests.worker.processes import Fleet, WorkerProcess

T = TypeVar("T")


class Stage:
    """What a case has at hand. ``quick`` asks for the small form of it."""

    def __init__(self, case: Case, server: Server, dsn: str, folder: Path, *, quick: bool, seed: int) -> None:
        self.case = case
        self.server = server
        self.dsn = dsn
        self.folder = folder
        self.quick = quick
        self.chance = random.Random(seed)
        self.queue = JobQueue(dsn)
        self.fleet = Fleet(dsn, folder, f"tests.faults.{case.handlers}")
        self.acknowledged: list[uuid.UUID] = []
        self.deaths: list[Death] = []
        self.faults = 0
        self.refused = 0
        self.verdict = Verdict(0, 0, 0, None, ())
        """Of a case that is not audited, because it is about too many jobs: what it has found out itself."""
        self._count = 0
        self._kept: Evidence | None = None

    def scaled(self, full: T, quick: T) -> T:
        """How much of something there is, in either form."""
        return quick if self.quick else full

    def needs(self, condition: object, reason: str) -> None:
        """Skips the case where something is not here."""
        if not condition:
            raise Skipped(reason)

    def fault(self, times: int = 1) -> None:
        """Counts what was injected."""
        self.faults += times

    # Load

    def enqueue(self, job_type: str, data: dict[str, Any] | None = None, **options: Any) -> uuid.UUID:
        """Adds a job, which Howdah then has acknowledged."""
        job = self.queue.enqueue(job_type, data, **options)
        self.acknowledged.append(job.id)
        return job.id

    def enqueue_many(self, job_type: str, count: int, data: dict[str, Any] | None = None, **options: Any) -> None:
        added = self.queue.enqueue_many(job_type, (data or {} for _ in range(count)), return_ids=True, **options)
        self.acknowledged += added.ids or ()

    @contextlib.contextmanager
    def producing(
        self, rate: float | None = None, most: int | None = None, dsn: str | None = None
    ) -> Iterator[Producer]:
        """Load L3 for as long as the block lasts: 500 mixed jobs in a second (100 in the quick form)."""
        queue = JobQueue(dsn) if dsn else self.queue
        producer = Producer(queue, rate or self.scaled(500, 100), self.chance, most)
        try:
            with producer:
                yield producer
            assert producer.acknowledged, "the load never came"
        finally:
            self.acknowledged += producer.acknowledged
            self.refused += producer.refused
            if dsn:
                queue.close()

    # Workers

    def start(self, count: int = 1, **options: Any) -> list[WorkerProcess]:
        """Starts workers under new names, and waits until all of them ask for jobs."""
        names = [self.new_name() for _ in range(count)]
        return self.fleet.start_all(*names, **options)

    def new_name(self) -> str:
        self._count += 1
        return f"worker-{self._count}"

    def kill(self, worker: WorkerProcess) -> datetime:
        """SIGKILL: what it holds must be back within the bound."""
        moment = worker.kill()
        self.deaths.append(Death(worker.name, moment))
        self.fault()
        return moment

    # Afterwards

    def execute(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        return self.fleet.rows(statement, *values)

    def now(self) -> datetime:
        """By the database's clock."""
        moment: datetime = self.execute("SELECT clock_timestamp() AS now")[0]["now"]
        return moment

    def evidence(self) -> Evidence:
        return self._kept or evidence.gather(self.dsn, self.acknowledged, self.fleet.ledger.entries(), self.deaths)

    def keep_evidence(self) -> None:
        """For a case whose server does not outlive it."""
        self._kept = self.evidence()

    # Other servers

    def move_to(self, server: Server) -> None:
        """Plays on another server, from the beginning."""
        self.server = server
        self.follow(prepared(self.case, server))
        self.queue.close()
        self.queue = JobQueue(self.dsn)

    def follow(self, dsn: str) -> None:
        """The same database is elsewhere from now on."""
        self.dsn = self.fleet.dsn = dsn
        self.fleet.reconnect()


def prepared(case: Case, server: Server) -> str:
    """A database for the case, with an empty queue and the audit in it."""
    name = f"fault_{case.number}_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(server.dsn, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name}".encode())
    dsn = make_conninfo(server.dsn, dbname=name)
    with JobQueue(dsn) as queue:
        queue.migrate(roles=case.roles)
    if case.audited:
        evidence.install(dsn)
    return dsn


@contextlib.contextmanager
def staged(
    case: Case, server: Server, *, quick: bool, seed: int, broken: Callable[[str], None] | None = None
) -> Iterator[Stage]:
    """A stage that is cleared away afterwards; with something broken in its database, if given (see broken.py)."""
    dsn = prepared(case, server)
    if broken is not None:
        broken(dsn)
    with tempfile.TemporaryDirectory(prefix="howdah-fault-") as folder:
        stage = Stage(case, server, dsn, Path(folder), quick=quick, seed=seed)
        try:
            with stage.fleet:
                yield stage
        finally:
            stage.queue.close()
    if not case.own_server:
        with psycopg.connect(server.dsn, autocommit=True) as conn:
            conn.execute(f"DROP DATABASE {conninfo_to_dict(dsn)['dbname']} WITH (FORCE)".encode())
