"""The workers of a soak, who come and go. The first one is left alone, so that what leaks has time to be seen."""

from __future__ import annotations

import dataclasses
import signal
import time
from collections.abc import Collection, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self

from howdah.bench.arena import Arena
from howdah.bench.crew import PATIENCE, Member
from howdah.bench.memory import resident_bytes
from howdah.bench.soak.job_types import JOB_TYPES


@dataclasses.dataclass(frozen=True, slots=True)
class Footprint:
    """The memory of a worker of this age."""

    worker: int
    age: float
    rss: int


class Worker:
    """A worker process, by its number. The number is never given again."""

    def __init__(self, number: int, member: Member) -> None:
        self.number = number
        self.member = member
        self.born = time.monotonic()
        self.asked_at: float | None = None
        self.stopped = False

    @property
    def pid(self) -> int:
        return self.member.pid


class Staff:
    """All of them. They end with it, however it ends."""

    def __init__(
        self, arena: Arena, *, run: str, workers: int, options: Mapping[str, Any], environment: Mapping[str, str]
    ) -> None:
        self.fallen: list[str] = []
        """What those said who ended though nobody had asked them to."""
        self._arena = arena
        self._run = run
        self._count = workers
        self._options = options
        self._environment = environment
        self._present: list[Worker] = []
        self._leaving: list[Worker] = []
        self._next = 0

    def __enter__(self) -> Self:
        for _ in range(self._count):
            self._hire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        everybody = [*self._present, *self._leaving]
        for worker in everybody:
            worker.member.send(signal.SIGCONT)
            if kind is None:
                worker.member.ask_to_end()
        for worker in everybody:
            worker.member.end(_TIME_TO_END if kind is None else 0.0)

    # Who is there

    def pids(self) -> set[int]:
        return {worker.pid for worker in self._present}

    def victims(self, registered: Collection[int]) -> list[Worker]:
        """Those who may be disturbed: at work, and not the first."""
        return [worker for worker in self._present[1:] if worker.pid in registered and not worker.stopped]

    def footprints(self) -> Iterator[Footprint]:
        now = time.monotonic()
        for worker in self._present:
            if (rss := resident_bytes(worker.pid)) is not None:
                yield Footprint(worker.number, now - worker.born, rss)

    def name(self, worker: int) -> str:
        """What the connections of this worker are called at the server."""
        return f"{self._run}-{worker}"

    def pid_of(self, name: str) -> int | None:
        """The worker whose connections have this name."""
        return next((worker.pid for worker in self._present if self.name(worker.number) == name), None)

    # What is done to them

    def kill(self, worker: Worker) -> None:
        self._present.remove(worker)
        worker.member.end(0.0)
        self._hire()

    def replace(self, worker: Worker) -> None:
        self._present.remove(worker)
        self._leaving.append(worker)
        worker.asked_at = time.monotonic()
        worker.member.ask_to_end()
        self._hire()

    def stop(self, worker: Worker) -> None:
        worker.stopped = True
        worker.member.send(signal.SIGSTOP)

    def resume(self, worker: Worker) -> None:
        worker.stopped = False
        worker.member.send(signal.SIGCONT)

    def look(self) -> None:
        """Sees to those who have ended."""
        for worker in [each for each in self._present if each.member.ended]:
            self._present.remove(worker)
            self.fallen.append(worker.member.story())
            worker.member.end(0.0)
            self._hire()
        for worker in [each for each in self._leaving if each.member.ended or self._is_late(each)]:
            if not worker.member.ended:
                self.fallen.append(f"a worker of the bench was asked to end, and had not {PATIENCE:g} s later.")
            self._leaving.remove(worker)
            worker.member.end(0.0)

    @property
    def is_settled(self) -> bool:
        """Whether nobody is on the way out."""
        return not self._leaving

    def _is_late(self, worker: Worker) -> bool:
        return worker.asked_at is not None and time.monotonic() > worker.asked_at + PATIENCE

    def _hire(self) -> None:
        number, self._next = self._next, self._next + 1
        member = Member(self._arena, JOB_TYPES, self._options, name=self.name(number), environment=self._environment)
        self._present.append(Worker(number, member))


_TIME_TO_END: Final = 30.0
