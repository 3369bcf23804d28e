"""Cases of clients that know the table of jobs and nothing else, beside workers."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import psycopg
from django.db import DatabaseError  # type: ignore[import-untyped]
from hypothesis import HealthCheck, Phase, given, note, seed, settings
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from sqlalchemy.orm.exc import StaleDataError

from tests.faults.case import case
from tests.faults.contention import Db
from tests.faults.stage import Stage, prepared
from tests.properties import plain_statements
from tests.properties.plain_comparison import Comparison
from tests.properties.plain_deviations import PAUSED
from tests.properties.plain_statements import Statement as PlainStatement
from tests.properties.test_plain_oracle import Script, scripts, turns
from tests.sql.plain_forms import FORMS, RECOVER, Statement
from tests.sql.plain_orm import FAILS
from tests.sql.test_plain_clients import RECOVERIES
from tests.worker import test_plain_neighbours as neighbours
from tests.worker.plain_clients import Client
from tests.worker.processes import PATIENCE, WorkerProcess, until

# A worker that is starved for a moment, on a machine that has much to do, is no dead one.
PATIENT: Final[dict[str, Any]] = {"lease": 20, "heartbeat": 1, "concurrency": 20}
OF_ITS_CLAIM: Final = "SELECT status, token, worker_id, attempts, last_error FROM howdah.live WHERE id = %s"


@case(47, "foreign-variants", checks="I1 I2 I7", handlers="handlers_foreign")
def foreign_variants(stage: Stage) -> None:
    """The seed's statements as drivers, functions, ORMs and compare-and-set loops send them, beside workers: each ends as on a plain table, and none takes a live worker's job."""
    workers = stage.start(2, **PATIENT)
    never_taken_from_a_live_worker(stage)
    shared_with_workers(stage, workers)
    as_on_a_plain_table(stage)


@contextlib.contextmanager
def plain_client(stage: Stage) -> Iterator[Db]:
    with psycopg.connect(stage.dsn, autocommit=True, row_factory=dict_row, options="-c search_path=howdah") as conn:
        yield conn


def never_taken_from_a_live_worker(stage: Stage) -> None:
    """Recoveries that would take everything, in every form, and the Fail of every ORM."""
    held = stage.enqueue("patient")
    until(lambda: stage.fleet.ledger.count("START"), "a worker has it")
    claim = stage.execute(OF_ITS_CLAIM, held)
    recoveries: list[Statement] = [RECOVER, *RECOVERIES.values()]
    with plain_client(stage) as conn:
        for name, form in FORMS.items():
            for recovery in recoveries:
                assert form(conn, recovery, "-1 hour") == 0, f"{name} has taken a job from a live worker"
                stage.fault()
    for fail in FAILS.values():
        # Where its statement finds no row, an ORM raises, or tries to insert one.
        with contextlib.suppress(StaleDataError, DatabaseError):
            fail(stage.dsn, held, "recovered by cron")
        stage.fault()
    assert stage.execute(OF_ITS_CLAIM, held) == claim
    stage.fleet.ledger.say("finish")
    stage.fleet.await_drained()


def shared_with_workers(stage: Stage, workers: list[WorkerProcess]) -> None:
    """Jobs of one type are run by workers and by plain clients of each kind, while some of them die."""
    killed: list[tuple[str, float]] = []
    done: list[Client] = []
    stage.execute("UPDATE howdah.settings SET max_crashes = 1000 RETURNING 1 AS set")
    with plain_client(stage) as conn:
        for number in range(stage.scaled(10, 2)):
            before = ended(stage)
            with neighbours.neighbours(stage.fleet, number) as clients:
                neighbours.add_jobs(stage.queue, conn)
                until(lambda: ended(stage) >= before + 0.3 * neighbours.JOBS, "they are in the middle of it")  # noqa: B023
                workers.append(neighbours.kill(stage.fleet, workers.pop(0), killed))
                stage.fault()
                until(lambda: not stage.fleet.jobs("status = 'pending'"), "all is claimed")
            assert [surprise for client in clients for surprise in client.surprises] == []
            done += clients
            # What is held now is held by a worker, or was by a client that dropped.
            neighbours.recover(conn, number)
            stage.fault()
    stage.fleet.await_drained()
    entries = stage.fleet.ledger.entries()
    assert neighbours.overlaps(entries, killed) == []
    ends = stage.fleet.jobs("job_type = 'shared'")
    stage.acknowledged += [job["id"] for job in ends]
    assert len(ends) == stage.scaled(10, 2) * neighbours.JOBS
    mine = {worker.name for worker in workers}
    by_clients = {job["id"] for job in ends if job["worker_id"] not in mine}
    assert {id for client in done for id in client.ended} == by_clients, "the reported row counts do not match the rows"
    for worker in workers:
        assert "Traceback" not in worker.log, worker.log


def ended(stage: Stage) -> int:
    return int(stage.execute("SELECT count(*) AS jobs FROM howdah.archive WHERE job_type = 'shared'")[0]["jobs"])


def as_on_a_plain_table(stage: Stage) -> None:
    """Statements of two sessions, drawn by chance, on the seed's own table and on Howdah's: in a database of their own, which they empty."""
    dsn = prepared(stage.case, stage.server)
    try:
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("SELECT howdah.pause_type(%s)", (PAUSED,))
        with Comparison(dsn) as comparison:

            @seed(stage.chance.randrange(2**32))
            @settings(
                max_examples=stage.scaled(200, 8),
                database=None,
                deadline=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(jobs=plain_statements.some_jobs, a=scripts, b=scripts, turns=turns)
            def play(jobs: tuple[PlainStatement, ...], a: Script, b: Script, turns: list[int]) -> None:
                try:
                    comparison.play(jobs, [a, b], turns)
                except BaseException:
                    note("\n".join(comparison.transcript))
                    raise
                stage.fault(len(comparison.transcript))

            play()
    finally:
        with psycopg.connect(stage.server.dsn, autocommit=True) as conn:
            conn.execute(f"DROP DATABASE {conninfo_to_dict(dsn)['dbname']} WITH (FORCE)".encode())


Writer = Callable[[Db, uuid.UUID], int]
"""Writes once to a job, and returns how many rows that were."""


def adds_to(column: str) -> Writer:
    statement = f"UPDATE jobs SET {column} = {column} + 1 WHERE id = %s".encode()
    return lambda conn, id: conn.execute(statement, (id,)).rowcount


def reads_and_writes(conn: Db, id: uuid.UUID) -> int:
    """A program that locks the row, and counts in its own code."""
    with conn.transaction():
        (row,) = conn.execute("SELECT events_count FROM jobs WHERE id = %s FOR UPDATE", (id,)).fetchall()
        return conn.execute("UPDATE jobs SET events_count = %s WHERE id = %s", (row["events_count"] + 1, id)).rowcount


def compares_and_sets(conn: Db, id: uuid.UUID) -> int:
    """A program that locks nothing, and repeats its compare-and-set until the row has not changed meanwhile."""
    while True:
        (row,) = conn.execute("SELECT events_count FROM jobs WHERE id = %s", (id,)).fetchall()
        seen = row["events_count"]
        changed = conn.execute(
            "UPDATE jobs SET events_count = %s WHERE id = %s AND events_count = %s", (seen + 1, id, seen)
        ).rowcount
        if changed:
            return changed


def grows(conn: Db, id: uuid.UUID) -> int:
    return conn.execute(
        "UPDATE jobs SET data = jsonb_set(data, '{n}', to_jsonb((data ->> 'n')::int + 1)) WHERE id = %s", (id,)
    ).rowcount


WRITERS: Final[tuple[Writer, ...]] = (
    adds_to("events_count"),
    adds_to("events_count"),
    reads_and_writes,
    compares_and_sets,
    adds_to("priority"),
    adds_to("max_attempts"),
    grows,
)
COUNTING: Final = 4
"""Of these, the first so many count events."""


@case(48, "lost-update", checks="I1 I2 I3 I4 I5 I7", handlers="handlers_foreign")
def lost_update(stage: Stage) -> None:
    """Plain writers of several kinds and a worker that reports write to the same jobs at once: what each has written is there."""
    rounds = stage.scaled(300, 30)
    stage.start(1, **PATIENT)
    ids = [stage.enqueue("reports_for_long", {"n": 0}, priority=100, max_attempts=3) for _ in range(3)]
    until(lambda: stage.fleet.ledger.count("START") == len(ids), "a worker has them")
    together = threading.Barrier(len(WRITERS))

    def write(writer: Writer) -> None:
        with plain_client(stage) as conn:
            for _ in range(rounds):
                together.wait(PATIENCE)
                assert sum(writer(conn, id) for id in ids) == len(ids), "a write was refused"

    with ThreadPoolExecutor(len(WRITERS)) as pool:
        for future in [pool.submit(write, writer) for writer in WRITERS]:
            future.result()
    stage.fault(rounds * len(WRITERS) * len(ids))
    stage.fleet.ledger.say("finish")
    stage.fleet.await_drained()
    for job in stage.fleet.jobs():
        told = job["result"]["told"]
        assert job["events_count"] == COUNTING * rounds + told, "events that were counted are missing"
        written = job["priority"], job["max_attempts"], job["data"]["n"]
        assert written == (100 + rounds, 3 + rounds, rounds), f"of {rounds} writes each, these are there: {written}"
