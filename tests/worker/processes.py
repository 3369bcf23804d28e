"""Real worker processes over a real database, and how tests wait for what they do."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import psutil  # type: ignore[import-untyped, unused-ignore]
import psycopg
from psycopg.rows import dict_row

from tests.size import FULL
from tests.worker import ledger
from tests.worker.ledger import Ledger

T = TypeVar("T")

PATIENCE = 1_200.0 if FULL else 120.0
"""Seconds after which a wait fails: never a measure of how quick it should be."""

LEASE, SWEEP, POLL = 2.0, 1.0, 0.5
RHYTHM = {"lease": LEASE, "heartbeat": 0.5, "sweep": SWEEP, "poll": POLL, "grace": 20}
RECOVERY = LEASE + SWEEP + POLL + 1
"""Seconds within which a dead worker's jobs are back, on a machine that has time for it."""

ROOT = Path(__file__).parents[2]
MAIN = "tests.worker.worker_main"


def recovery_bound() -> float:
    """RECOVERY, and more on a machine that has more to do than the tests themselves give it."""
    return RECOVERY * max(1.0, os.getloadavg()[0] / (2 * (os.cpu_count() or 1)))


def until(look: Callable[[], T], what: str, *, within: float = PATIENCE) -> T:
    """Looks again and again until there is something to see, and returns it."""
    deadline = time.monotonic() + within
    while not (seen := look()):
        assert time.monotonic() < deadline, f"waited {within:g} s in vain until {what}; last seen: {seen!r}"
        time.sleep(0.02)
    return seen


def has_ended(process: psutil.Process) -> bool:
    """Whether it runs no more; it may not have been waited for yet."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    return True


class WorkerProcess:
    """One worker: its process, its name, and what it has logged."""

    def __init__(
        self,
        fleet: Fleet,
        name: str,
        options: dict[str, Any],
        *,
        dsn: str | None = None,
        under: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._fleet = fleet
        self._log = fleet.folder / f"{name}.log"
        surroundings = {
            **os.environ,
            "HOWDAH_DSN": dsn or fleet.dsn,
            "PGAPPNAME": name,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            ledger.FILE: str(fleet.ledger.path),
            ledger.WORKER: name,
            **(environment or {}),
        }
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*under, sys.executable, "-m", MAIN, fleet.module, json.dumps({"name": name} | options)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=surroundings,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def await_ready(self) -> Self:
        """Waits until it has claimed for the first time."""
        until(lambda: self._is("last_claim_at IS NOT NULL"), f"{self.name} is ready:\n{self.log}")
        return self

    def await_judge(self) -> Self:
        """Waits until it has run for a lease, from when on it may declare others without a heartbeat dead."""
        until(lambda: self._is("fresh_since <= clock_timestamp() - lease"), f"{self.name} judges others:\n{self.log}")
        return self

    def _is(self, condition: str) -> bool:
        assert self.is_running, f"{self.name} has ended with {self.process.returncode}:\n{self.log}"
        statement = f"SELECT FROM howdah.workers WHERE worker_id = %s AND pid = %s AND {condition}"
        return bool(self._fleet.rows(statement, self.name, self.pid))

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def freeze(self) -> None:
        """SIGSTOP, and waits until the database has ended the last statement of the worker."""
        self.signal(signal.SIGSTOP)
        until(lambda: psutil.Process(self.pid).status() == psutil.STATUS_STOPPED, f"{self.name} is frozen")
        active = "SELECT FROM pg_stat_activity WHERE application_name = %s AND state = 'active'"
        until(lambda: not self._fleet.rows(active, self.name), f"nothing is under way for {self.name}")

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> datetime:
        """SIGKILL. Returns the moment, by the database's clock."""
        moment: datetime = self._fleet.rows("SELECT clock_timestamp() AS now")[0]["now"]
        self.signal(signal.SIGKILL)
        self.process.wait(PATIENCE)
        return moment

    def ended(self) -> int:
        """Waits for its end, and returns the exit code."""
        return self.process.wait(PATIENCE)

    def stop(self) -> int:
        """SIGTERM, and the exit code that comes of it."""
        self.signal(signal.SIGTERM)
        return self.ended()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()


class Fleet:
    """The workers of a test, which all end with it; a connection to look at the database; the ledger."""

    def __init__(self, dsn: str, folder: Path, module: str) -> None:
        self.dsn = dsn
        self.folder = folder
        self.module = module if "." in module else f"tests.worker.{module}"
        self.ledger = Ledger(folder / "ledger")
        self.workers: list[WorkerProcess] = []
        self._conn: psycopg.Connection[dict[str, Any]] | None = None

    def start(
        self,
        name: str,
        *,
        dsn: str | None = None,
        under: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        **options: Any,
    ) -> WorkerProcess:
        """Starts a worker: over another way to the database, under another command, or in other surroundings, if given."""
        worker = WorkerProcess(self, name, {**RHYTHM, **options}, dsn=dsn, under=under, environment=environment)
        self.workers.append(worker)
        return worker

    def start_all(self, *names: str, **options: Any) -> list[WorkerProcess]:
        """Starts workers side by side, and waits until all are ready."""
        return [worker.await_ready() for worker in [self.start(name, **options) for name in names]]

    def rows(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        """Rows of the database."""
        if self._conn is None or self._conn.closed:
            self._conn = psycopg.connect(self.dsn, autocommit=True, row_factory=dict_row)
        return self._conn.execute(statement.encode(), values or None).fetchall()

    def reconnect(self) -> None:
        """The server was another one before."""
        if self._conn is not None:
            self._conn.close()

    def jobs(self, condition: str = "true", *values: Any) -> list[dict[str, Any]]:
        """The jobs of which this is true, with everything that is known of them."""
        return self.rows(f"SELECT * FROM howdah.job_details WHERE {condition} ORDER BY id", *values)

    def held_by(self, *workers: WorkerProcess) -> list[dict[str, Any]]:
        """What these workers hold, or seem to."""
        return self.rows(
            "SELECT * FROM howdah.live WHERE status IN ('claimed', 'running') AND worker_id = ANY (%s)",
            [worker.name for worker in workers],
        )

    def await_drained(self) -> None:
        """Waits until every job has ended, for as long as there are fewer and fewer of them."""
        left = self._left()
        while left:
            until(lambda: self._left() < left, f"every job has ended, of which {left} have not")  # noqa: B023
            left = self._left()

    def drain_as_a_supervisor_would(self, **options: Any) -> int:
        """Runs one worker until nothing is left, starting it again when it dies. Returns how often it did."""
        workers = [self.start("worker", **options)]

        def is_drained() -> bool:
            if not workers[-1].is_running:
                workers.append(self.start("worker", **options))
            return not self.rows("SELECT FROM howdah.live LIMIT 1")

        until(is_drained, "every job has ended")
        return len(workers) - 1

    def _left(self) -> int:
        return int(self.rows("SELECT count(*) AS jobs FROM howdah.live")[0]["jobs"])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers:
            worker.close()
        if self._conn is not None:
            self._conn.close()
        if error is not None:
            for name in dict.fromkeys(worker.name for worker in self.workers):
                print(f"--- {name}:\n{(self.folder / f'{name}.log').read_text()[-5_000:]}")
