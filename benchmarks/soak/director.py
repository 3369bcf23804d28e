"""Lets a soak happen: jobs come, faults strike, samples are taken, and at the end the queue is drained and looked at."""

from __future__ import annotations

import contextlib
import dataclasses
import heapq
import itertools
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Protocol

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from benchmarks.soak.accounts import Accounts, Ended, Recovery, Runs, accounts, recoveries
from benchmarks.soak.faults import BURST, DISCONNECT, HOLD, KILL, KINDS, RESTART, STOP, Fault, Planned, schedule
from benchmarks.soak.ledger import Ledger
from benchmarks.soak.producers import Producers
from benchmarks.soak.sample import Sample, Window
from benchmarks.soak.workers import SoakWorkers, Worker
from howdah.cli.commands.bench.schema import BenchSchema
from howdah.db.statements import render
from howdah.errors import HowdahError
from howdah.queue import JobQueue

_LOOK_EVERY: Final = 0.05
_PATIENCE: Final = 120.0
"""Seconds that the queue may take to drain, with nothing in its way."""
_LITTLE_PATIENCE: Final = 10.0
"""The same after Ctrl-C, beside the time in which dead workers are found."""
_TRY_AGAIN: Final = 0.5
_BURST_SECONDS: Final = 10
_PRODUCER: Final = "producer"


_USUAL_LEASE, _SHORTEST_LEASE = 15.0, 2.0
_LEASES: Final = 8
"""How many of them a short soak has: there must be time to find a dead worker."""
_SAMPLES: Final = 120
_OFTEN, _RARELY = 0.5, 60.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SoakOptions:
    """What the user has chosen."""

    minutes: float = 10.0
    rate: int = 200
    workers: int = 3
    seed: int
    faults: tuple[str, ...] = KINDS

    @property
    def seconds(self) -> float:
        return 60 * self.minutes

    @property
    def lease(self) -> float:
        """As a worker has it, except in a soak of less than two minutes."""
        return min(max(self.seconds / _LEASES, _SHORTEST_LEASE), _USUAL_LEASE)

    @property
    def sample_every(self) -> float:
        return min(max(self.seconds / _SAMPLES, _OFTEN), _RARELY)

    def for_workers(self) -> list[str]:
        """In the proportions of a worker's own settings."""
        rhythm = {"lease": self.lease, "heartbeat": self.lease / 5, "sweep": self.lease / 3}
        return ["--children", "1", *(word for name, each in rhythm.items() for word in (f"--{name}", f"{each:g}s"))]


def _statement(name: str, schema: str) -> sql.SQL:
    return sql.SQL(render((Path(__file__).parent / f"{name}.sql").read_text(encoding="utf-8"), schema))


class Listener(Protocol):
    """Receives the progress."""

    def sampled(self, sample: Sample) -> None: ...

    def struck(self, fault: Fault) -> None: ...

    def drains(self, left: int) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Soaked:
    """All that was seen. Moments are seconds since the beginning."""

    options: SoakOptions
    seconds: float
    """For which jobs came."""
    interrupted: bool
    samples: list[Sample]
    faults: list[Fault]
    accounts: Accounts
    recoveries: list[Recovery]
    ended_unasked: list[str]
    """Workers that ended though they were not asked to."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing was lost or doubled, no worker ended by itself, and everything else is explained. After an interruption,
        unfinished jobs do not count."""
        found = self.accounts
        if found.lost or found.doubled or found.inexplicable or self.ended_unasked:
            return False
        return self.interrupted or (found.acknowledged > 0 and not found.unfinished)


def soak(schema: BenchSchema, options: SoakOptions, listener: Listener) -> Soaked:
    schema.renew()
    run = f"howdah-soak-{secrets.token_hex(4)}"
    named = make_conninfo(schema.dsn, application_name=f"{run}-{_PRODUCER}")
    with (
        tempfile.TemporaryDirectory(prefix="howdah-soak-") as folder,
        JobQueue(named, schema.name) as queue,
        contextlib.ExitStack() as stack,
    ):
        ledger = Ledger(Path(folder) / "ledger")
        workers = SoakWorkers(
            schema,
            run=run,
            workers=options.workers,
            options=options.for_workers(),
            environment=ledger.environment(),
        )
        director = _Director(schema, options, listener, run, ledger, stack.enter_context(workers), queue)
        with contextlib.closing(director):
            director.direct()
            director.drain()
        return director.result()


class _Director:
    """One thread does it all, one thing after the other. What comes later is in ``_agenda``."""

    def __init__(
        self,
        schema: BenchSchema,
        options: SoakOptions,
        listener: Listener,
        run: str,
        ledger: Ledger,
        workers: SoakWorkers,
        queue: JobQueue,
    ) -> None:
        self._schema = schema
        self._options = options
        self._listener = listener
        self._run = run
        self._ledger = ledger
        self._workers = workers
        self._producers = Producers(queue, options.rate)
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._turns = itertools.count()
        self._open = contextlib.ExitStack()
        self._interrupted = False
        self._to_come = 0
        self._samples: list[Sample] = []
        self._faults: list[Fault] = []
        self._done = 0
        self._sampled_at = self._began = self._ended = time.monotonic()

    def close(self) -> None:
        self._producers.stop()
        self._open.close()

    # The time for which jobs come

    def direct(self) -> None:
        self._wait_for_registration()
        self._began = self._sampled_at = time.monotonic()
        for planned in schedule(self._options.seed, self._options.seconds, self._options.faults):
            self._to_come += 1
            self._later(planned.at, lambda planned=planned: self._strike(planned))  # type: ignore[misc]
        self._later(self._options.sample_every, self._sample)
        self._producers.begin()
        self._go_on(lambda: self._now() < self._options.seconds)
        self._ended = time.monotonic()
        self._producers.stop()

    def drain(self) -> None:
        """What has been set going comes to its end, and so do all jobs."""
        if self._interrupted:
            self._make_peace()
        patience = self._options.lease * 2 + (_LITTLE_PATIENCE if self._interrupted else _PATIENCE)
        deadline = time.monotonic() + patience
        self._go_on(lambda: bool(self._faults_go_on() or self._left()) and time.monotonic() < deadline)
        self._take_sample()

    def result(self) -> Soaked:
        runs = Runs(self._ledger.all())
        unended = {row["id"].bytes for row in self._rows("unended")}
        found = accounts(
            self._producers.acknowledged,
            self._producers.unanswered,
            self._ended_jobs(),
            unended,
            runs,
            self._faults,
            self._options.lease,
        )
        recovered = [dataclasses.replace(each, at=each.at - self._began) for each in recoveries(self._faults, runs)]
        return Soaked(
            self._options,
            self._ended - self._began,
            self._interrupted,
            self._samples,
            [self._since_the_beginning(fault) for fault in self._faults],
            found,
            recovered,
            self._workers.ended_unasked,
        )

    def _rows(self, name: str, /, **parameters: Any) -> list[dict[str, Any]]:
        return self._schema.conn.execute(_statement(name, self._schema.name), parameters).fetchall()

    def _ended_jobs(self) -> Iterator[Ended]:
        with self._schema.conn.transaction(), self._schema.conn.cursor("howdah_soak") as rows:
            rows.execute(_statement("ended", self._schema.name))
            for row in rows:
                yield Ended(row["id"].bytes, row["n"], row["fails"], row["token"], row["status"])

    def _since_the_beginning(self, fault: Fault) -> Fault:
        until = None if fault.until is None else fault.until - self._began
        return dataclasses.replace(fault, at=fault.at - self._began, until=until)

    # The course of things

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _later(self, at: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (at, next(self._turns), what))

    def _go_on(self, wanted: Callable[[], bool]) -> None:
        """While ``wanted`` holds, or until an interruption."""
        try:
            while wanted():
                while self._agenda and self._agenda[0][0] <= self._now():
                    heapq.heappop(self._agenda)[2]()
                self._workers.look()
                self._producers.check()
                time.sleep(_LOOK_EVERY)
        except KeyboardInterrupt:
            self._interrupted = True
            self._schema.reconnect()

    def _faults_go_on(self) -> bool:
        return self._to_come > 0 or not self._workers.is_settled or any(fault.until is None for fault in self._faults)

    def _left(self) -> int:
        left = len(self._rows("unended"))
        self._listener.drains(left)
        return left

    def _make_peace(self) -> None:
        """Whatever lasts ends now, and nothing new begins."""
        endings = [what for _, _, what in sorted(self._agenda, key=lambda each: each[0]) if isinstance(what, _Ending)]
        self._agenda.clear()
        self._to_come = 0
        for ending in endings:
            ending()

    def _wait_for_registration(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not self._workers.pids() <= self._registered():
            if time.monotonic() > deadline:
                raise HowdahError(f"the workers of the bench have not begun within {_PATIENCE:g} s")
            self._workers.look()
            if self._workers.ended_unasked:
                raise HowdahError(self._workers.ended_unasked[0])
            time.sleep(_LOOK_EVERY)

    def _registered(self) -> set[int]:
        return {row["pid"] for row in self._rows("workers")}

    # Samples

    def _sample(self) -> None:
        self._take_sample()
        self._later(self._now() + self._options.sample_every, self._sample)

    def _take_sample(self) -> None:
        now, window = time.monotonic(), Window(self._ledger.new())
        self._done += window.done
        (state,) = self._rows("state", run=self._run)
        sample = Sample(
            seconds=now - self._began,
            done=self._done,
            per_second=window.done / max(now - self._sampled_at, _LOOK_EVERY),
            **window.latencies(),
            **state,
            faults=len(self._faults),
            workers=tuple(self._workers.footprints()),
        )
        self._sampled_at = now
        self._samples.append(sample)
        self._listener.sampled(sample)

    # Faults

    def _strike(self, planned: Planned) -> None:
        fault = _STRIKES[planned.kind](self, planned)
        if fault is None:
            # No worker is there that it could hit.
            self._later(self._now() + _TRY_AGAIN, lambda: self._strike(planned))
            return
        self._to_come -= 1
        self._faults.append(fault)
        self._listener.struck(self._since_the_beginning(fault))

    def _kill(self, planned: Planned) -> Fault | None:
        if (worker := self._victim(planned)) is None:
            return None
        at = time.monotonic()
        self._workers.kill(worker)
        return Fault(KILL, at, at, worker.pid, f"worker {worker.number} is killed", self._held_by(worker))

    def _stop(self, planned: Planned) -> Fault | None:
        if (worker := self._victim(planned)) is None:
            return None
        seconds = self._options.lease * (1.2 + 0.6 * planned.how_long)
        self._workers.stop(worker)
        what = f"worker {worker.number} is stopped for {seconds:.1f} s"
        fault = Fault(STOP, time.monotonic(), None, worker.pid, what, self._held_by(worker))
        self._ends(fault, seconds, lambda: self._workers.resume(worker))
        return fault

    def _restart(self, planned: Planned) -> Fault | None:
        if (worker := self._victim(planned)) is None:
            return None
        at = time.monotonic()
        self._workers.replace(worker)
        return Fault(RESTART, at, at, worker.pid, f"worker {worker.number} is asked to end")

    def _disconnect(self, planned: Planned) -> Fault | None:
        found = self._rows("connections", run=self._run)
        if not found:
            return None
        chosen = found[int(planned.target * len(found))]
        at = time.monotonic()
        if not self._rows("disconnect", **chosen):
            return None
        name = chosen["name"].removeprefix(f"{self._run}-")
        holder = "the producers" if name == _PRODUCER else f"worker {name}"
        return Fault(DISCONNECT, at, at, self._workers.pid_of(chosen["name"]), f"a connection of {holder} is ended")

    def _hold(self, planned: Planned) -> Fault | None:
        seconds = min(self._options.lease * (1 + 2 * planned.how_long), self._options.seconds / 4)
        conn = self._open.enter_context(psycopg.connect(self._schema.dsn, application_name=f"{self._run} hold"))
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        conn.execute(_statement("hold", self._schema.name))
        fault = Fault(HOLD, time.monotonic(), None, None, f"a transaction stays open for {seconds:.1f} s")
        self._ends(fault, seconds, conn.close)
        return fault

    def _burst(self, planned: Planned) -> Fault | None:  # noqa: ARG002
        jobs = self._options.rate * _BURST_SECONDS
        at = time.monotonic()
        self._producers.burst(jobs)
        return Fault(BURST, at, at, None, f"{jobs:,} jobs come at once")

    def _ends(self, fault: Fault, seconds: float, what: Callable[[], None]) -> None:
        self._later(self._now() + seconds, _Ending(fault, what))

    def _victim(self, planned: Planned) -> Worker | None:
        victims = self._workers.victims(self._registered())
        return victims[int(planned.target * len(victims))] if victims else None

    def _held_by(self, worker: Worker) -> frozenset[bytes]:
        return frozenset(row["id"].bytes for row in self._rows("held", pid=worker.pid))


@dataclasses.dataclass(slots=True)
class _Ending:
    """The end of something that lasts."""

    fault: Fault
    what: Callable[[], None]

    def __call__(self) -> None:
        self.what()
        self.fault.until = time.monotonic()


_STRIKES: Final[dict[str, Callable[[_Director, Planned], Fault | None]]] = {
    KILL: _Director._kill,
    STOP: _Director._stop,
    RESTART: _Director._restart,
    DISCONNECT: _Director._disconnect,
    HOLD: _Director._hold,
    BURST: _Director._burst,
}
