"""Cases in which connections are shared by mistake, or too few."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import uuid
from collections import defaultdict
from collections.abc import Iterator

import psycopg
from psycopg.conninfo import make_conninfo

from tests.faults.case import case
from tests.faults.stage import Stage
from tests.worker.processes import PATIENCE, ROOT, until

ATTEMPTS_A_SECOND, ATTEMPTS_AT_ONCE = 1, 10
"""How often a worker may try to connect while that is refused. Six times in all, as its pauses grow; without them, fifty in a second."""


@case(40, "fork-and-storm", checks="I1 I2 I3 I4 I5 I7")
def fork_and_storm(stage: Stage) -> None:
    """A process forks after it has used a queue; and far more workers than there are connections all want some at once."""
    no_socket_is_shared(stage)
    no_room_for_what_it_lost(stage)
    storm(stage)


def no_socket_is_shared(stage: Stage) -> None:
    # A connection that two processes used would have made changes for both.
    with psycopg.connect(stage.dsn) as conn:
        conn.execute("ALTER TABLE audit.transitions ADD COLUMN backend int DEFAULT pg_backend_pid()")
    children = stage.scaled(8, 3)
    forked = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore:This process",
            "-m",
            "tests.faults.forks",
            str(children),
            str(stage.scaled(50, 10)),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=ROOT,
        env=os.environ | {"HOWDAH_DSN": stage.dsn},
        timeout=PATIENCE,
    )
    assert (forked.returncode, forked.stderr) == (0, b""), forked.stderr.decode()
    stage.fault(children)
    stage.acknowledged += map(uuid.UUID, forked.stdout.decode().split())
    users = defaultdict(set)
    for row in stage.execute(
        "SELECT DISTINCT t.backend, l.meta ->> 'process' AS process FROM audit.transitions AS t JOIN howdah.live AS l USING (id)"
    ):
        users[row["backend"]].add(row["process"])
    shared = [processes for processes in users.values() if len(processes) > 1]
    assert not shared, f"these have used one connection: {shared}"
    assert len(set().union(*users.values())) == children + 1


def no_room_for_what_it_lost(stage: Stage) -> None:
    """A worker loses the connection by which it writes, and there is no room for another: it has others."""
    with few_connections(stage, 20) as (dsn, role):
        stage.fleet.start(stage.new_name(), dsn=dsn).await_ready()
        stage.queue.wait_for(stage.enqueue("probe"), timeout=PATIENCE)
        stage.fleet.await_drained()
        # Those that it has may stay.
        with psycopg.connect(stage.dsn) as conn:
            conn.execute(f"ALTER ROLE {role} CONNECTION LIMIT 1".encode())
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s AND query ~ 'complete.p_ids'"
        assert len(stage.execute(cut, role)) == 1
        stage.fault()
        for _ in range(3):
            assert stage.queue.wait_for(stage.enqueue("probe"), timeout=PATIENCE).status == "completed"


def storm(stage: Stage) -> None:
    workers, connections = stage.scaled((50, 30), (6, 6))
    stage.enqueue_many("work", 200, {"seconds": 0.01})
    with few_connections(stage, connections) as (dsn, role):
        fleet = [stage.fleet.start(stage.new_name(), dsn=dsn, concurrency=5) for _ in range(workers)]
        stage.fault(workers)
        began = stage.now()
        await_drained(stage)
        # All of them at once, as after a restart; and in the middle of their work.
        stage.enqueue_many("work", 400, {"seconds": 0.05})
        until(lambda: stage.execute("SELECT FROM howdah.live WHERE status = 'running' LIMIT 1"), "they work")
        cut = "SELECT count(pg_terminate_backend(pid)) AS cut FROM pg_stat_activity WHERE usename = %s"
        stage.fault(stage.execute(cut, role)[0]["cut"])
        await_drained(stage)
        seconds = (stage.now() - began).total_seconds()
        knocks = refusals(stage, role)
        assert knocks, "there were enough connections for all"
        most = workers * (ATTEMPTS_A_SECOND * seconds + ATTEMPTS_AT_ONCE)
        assert knocks <= most, f"{knocks} connection attempts of {workers} workers in {seconds:.0f} s"
        assert all(worker.is_running for worker in fleet), "a worker has ended"


def await_drained(stage: Stage) -> None:
    """As many processes as these need minutes to get up, where the machine is small."""
    until(lambda: not stage.execute("SELECT FROM howdah.live LIMIT 1"), "every job has ended", within=600)


@contextlib.contextmanager
def few_connections(stage: Stage, connections: int) -> Iterator[tuple[str, str]]:
    """A DSN for so many connections at once, and its login, which becomes the owner of everything once it is connected."""
    role = f"storm_{secrets.token_hex(4)}"
    with psycopg.connect(stage.dsn, autocommit=True) as conn:
        for statement in (
            f"CREATE ROLE {role} LOGIN CONNECTION LIMIT {connections}",
            f"GRANT postgres TO {role}",
            f"ALTER ROLE {role} SET role = postgres",
        ):
            conn.execute(statement.encode())
        try:
            yield make_conninfo(stage.dsn, user=role), role
        finally:
            for worker in stage.fleet.workers:
                worker.close()
            conn.execute(f"DROP ROLE {role}".encode())


def refusals(stage: Stage, role: str) -> int:
    log = (stage.server.home / "log").read_text(errors="replace")
    return log.count(f'too many connections for role "{role}"')
