"""The workers of a soak, which come and go. The first one is left alone, so that a leak has time to be seen."""

from __future__ import annotations

import dataclasses
import signal
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from psycopg.conninfo import make_conninfo

from benchmarks.memory import resident_bytes
from howdah.cli.commands.bench.schema import BenchSchema
from howdah.cli.process.worker_group import WorkerGroup, WorkerProcess

PATIENCE: Final = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Footprint:
    """The memory of a worker of this age."""

    worker: int
    age: float
    rss: int


class Worker:
    """A worker process, by its number. The number is never given again."""

    def __init__(self, number: int, process: WorkerProcess) -> None:
        self.number = number
        self.process = process
        self.born = time.monotonic()
        self.asked_at: float | None = None
        self.stopped = False

    @property
    def pid(self) -> int:
        return self.process.pid


class SoakWorkers:
    """All workers. They end with it, however it ends."""

    def __init__(
        self, schema: BenchSchema, *, run: str, workers: int, options: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        self.ended_unasked: list[str] = []
        """Workers that ended though they were not asked to, and what they printed."""
        self._dsn = schema.dsn
        self._group = WorkerGroup("benchmarks.soak.handlers:queue", schema.dsn, schema.name, "--quiet", *options)
        self._run = run
        self._count = workers
        self._environment = environment
        self._present: list[Worker] = []
        self._leaving: list[Worker] = []
        self._next = 0

    def __enter__(self) -> Self:
        for _ in range(self._count):
            self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._group:
            if kind is None:
                for worker in (*self._present, *self._leaving):
                    worker.process.send(signal.SIGCONT)
                self._group.stop()

    # Which are there

    def pids(self) -> set[int]:
        return {worker.pid for worker in self._present}

    def victims(self, registered: Collection[int]) -> list[Worker]:
        """Those that may be disturbed: registered, running, and not the first."""
        return [worker for worker in self._present[1:] if worker.pid in registered and not worker.stopped]

    def footprints(self) -> Iterator[Footprint]:
        now = time.monotonic()
        for worker in self._present:
            if (rss := resident_bytes(worker.pid)) is not None:
                yield Footprint(worker.number, now - worker.born, rss)

    def pid_of(self, name: str) -> int | None:
        """The worker whose connections have this name at the server."""
        return next((worker.pid for worker in self._present if worker.process.name == name), None)

    @property
    def is_settled(self) -> bool:
        """Whether no worker is about to end."""
        return not self._leaving

    # What is done to them

    def kill(self, worker: Worker) -> None:
        self._present.remove(worker)
        worker.process.kill()
        self._start()

    def replace(self, worker: Worker) -> None:
        self._present.remove(worker)
        self._leaving.append(worker)
        worker.asked_at = time.monotonic()
        worker.process.send(signal.SIGTERM)
        self._start()

    def stop(self, worker: Worker) -> None:
        worker.stopped = True
        worker.process.send(signal.SIGSTOP)

    def resume(self, worker: Worker) -> None:
        worker.stopped = False
        worker.process.send(signal.SIGCONT)

    def look(self) -> None:
        """Replaces those that have ended by themselves, and kills those that do not end when asked to."""
        for worker in [each for each in self._present if each.process.code is not None]:
            self._present.remove(worker)
            self.ended_unasked.append(worker.process.describe_end())
            self._start()
        for worker in [each for each in self._leaving if each.process.code is not None or self._is_late(each)]:
            self._leaving.remove(worker)
            if worker.process.code is None:
                self.ended_unasked.append(f"{worker.process.name} was asked to end, and had not {PATIENCE:g} s later")
                worker.process.kill()

    def _is_late(self, worker: Worker) -> bool:
        return worker.asked_at is not None and time.monotonic() > worker.asked_at + PATIENCE

    def _start(self) -> None:
        number, self._next = self._next, self._next + 1
        name = f"{self._run}-{number}"
        dsn = {"HOWDAH_DSN": make_conninfo(self._dsn, application_name=name)}
        self._present.append(Worker(number, self._group.start(name, {**self._environment, **dsn})))
