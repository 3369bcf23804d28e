"""Cases in which the schema changes while clients use it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import psycopg

from howdah.db.statements import render, source
from tests import history
from tests.faults import evidence
from tests.faults.case import Skipped, case
from tests.faults.stage import Stage
from tests.history import HistoryMissing
from tests.worker.processes import PATIENCE, ROOT, WorkerProcess, until

ADD_JOBS = """
import sys
from howdah import JobQueue
with JobQueue() as queue:
    queue.migrate()
    for _ in range(int(sys.argv[1])):
        print(queue.enqueue("work", {"seconds": 0.01}).id)
"""


@case(38, "migrate-race", checks="I1 I2 I3 I4 I5 I7")
def migrate_race(stage: Stage) -> None:
    """Ten processes migrate at once, and two are killed, while workers of the version before run: all find the same schema."""
    former = former_source(stage)
    begin_with(stage, former, jobs=stage.scaled(500, 100))
    old = [start_with(stage, former) for _ in range(stage.scaled(2, 1))]
    for worker in old:
        worker.await_ready()
    migrate_at_once(stage)
    newer = [start_with(stage, former) for _ in range(stage.scaled(2, 1))]
    with stage.producing(stage.scaled(500, 30)):
        for worker in newer:
            worker.await_ready()
        for _ in range(stage.scaled(5, 1)):
            stage.queue.migrate()
            stage.execute("UPDATE howdah.schema_version SET digest = 'of another version' RETURNING version")
            migrate_at_once(stage)
        done = stage.fleet.ledger.count("END")
        until(lambda: stage.fleet.ledger.count("END") > done, "they continue")
    stage.fleet.await_drained()
    for worker in (*old, *newer):
        assert worker.is_running, worker.log
        assert worker.stop() == 0
        assert stage.fleet.ledger.count("END", where=lambda entry, name=worker.name: entry.worker == name)  # type: ignore[misc]


def former_source(stage: Stage) -> Path:
    """The former version's package, taken from the history."""
    try:
        return history.extract(history.former(), stage.folder / "former", "src") / "src"
    except HistoryMissing as reason:
        raise Skipped(str(reason)) from reason


def begin_with(stage: Stage, source: Path, jobs: int) -> None:
    """The schema, and the first jobs, are those of that version."""
    with psycopg.connect(stage.dsn) as conn:
        conn.execute("DROP SCHEMA howdah, audit CASCADE")
    added = subprocess.run(
        [sys.executable, "-c", ADD_JOBS, str(jobs)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        cwd=stage.folder,
        env=os.environ | {"HOWDAH_DSN": stage.dsn, "PYTHONPATH": str(source)},
        check=True,
    )
    evidence.install(stage.dsn)
    stage.acknowledged += map(uuid.UUID, added.stdout.decode().split())


def start_with(stage: Stage, source: Path) -> WorkerProcess:
    path = os.pathsep.join([str(source), str(ROOT)])
    return stage.fleet.start(stage.new_name(), environment={"PYTHONPATH": path}, concurrency=10)


def migrate_at_once(stage: Stage) -> None:
    """All of them wait for one lock. One is killed while it waits, and the first that gets the lock is killed while it migrates."""
    with contextlib.ExitStack() as ends:
        with psycopg.connect(stage.dsn) as holder:
            holder.execute(render(source("lock_migration"), "howdah").encode())
            names = [f"migration-{number}" for number in range(stage.scaled(10, 3))]
            migrations = {name: begin_migration(stage, name, ends) for name in names}
            until(lambda: len(at_the_lock(stage, granted=False)) == len(migrations), "all of them wait")
            killed = [stage.chance.choice(names)]
            migrations[killed[0]].kill()
        time.sleep(stage.chance.uniform(0, 0.2))
        if (first := at_the_lock(stage, granted=True)) and first[0] not in killed:
            killed.append(first[0])
            migrations[first[0]].kill()
        stage.fault(len(killed))
        codes = {name: process.wait(PATIENCE) for name, process in migrations.items() if name not in killed}
    assert set(codes.values()) == {0}, codes
    assert stage.queue.migrate().changed is False, "the last of them has left something to do"
    foreign = [each for each in stage.queue.check_schema() if "audit" not in each.name]
    assert foreign == [], "the schema is not what this version installs"


def begin_migration(stage: Stage, name: str, ends: contextlib.ExitStack) -> subprocess.Popen[bytes]:
    """The command, in a process that does not outlive the case."""
    process = ends.enter_context(
        subprocess.Popen(
            [sys.executable, "-m", "howdah", "migrate"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd=stage.folder,
            env=os.environ | {"HOWDAH_DSN": stage.dsn, "PGAPPNAME": name},
        )
    )
    ends.callback(process.kill)
    return process


def at_the_lock(stage: Stage, *, granted: bool) -> Sequence[str]:
    return [
        row["application_name"]
        for row in stage.execute(
            "SELECT a.application_name FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)"
            " WHERE l.locktype = 'advisory' AND l.granted = %s AND a.application_name LIKE 'migration-%%'"
            " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            granted,
        )
    ]
