"""The workers of a bench: processes of their own, so that to enqueue and to work do not share an interpreter."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import IO, Any, Final, Self

from psycopg.conninfo import make_conninfo

from howdah.bench.arena import Arena
from howdah.bench.tally import Sample, Tally, shared_file
from howdah.bench.worker_process import Errand
from howdah.errors import HowdahError

PATIENCE: Final = 60.0
"""Seconds without any job being handled, after which something must be wrong."""
_LOOK_EVERY: Final = 0.002
_TIME_TO_END: Final = 10.0
_LAST_WORDS: Final = 2_000
_COMMAND: Final = ("-P", "-m", "howdah.bench.worker_process")


class Member:
    """One worker process, and its tally. ``name``: what its connections are called at the server."""

    def __init__(
        self,
        arena: Arena,
        types: Sequence[str],
        options: Mapping[str, Any],
        *,
        name: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        file = shared_file()
        try:
            self.tally = Tally(file)
            self._log: IO[bytes] = tempfile.TemporaryFile(prefix="howdah-bench-")  # noqa: SIM115
            dsn = arena.dsn if name is None else make_conninfo(arena.dsn, application_name=name)
            errand = Errand(dsn=dsn, schema=arena.schema, types=tuple(types), tally=file, options=options)
            self._process = subprocess.Popen(
                [sys.executable, *_COMMAND],
                env={**os.environ, **errand.as_environment(), **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=self._log,
                stderr=self._log,
                pass_fds=(file,),
                # Ctrl-C in the terminal is for the bench, which then looks after them.
                process_group=0,
            )
        finally:
            os.close(file)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def check(self) -> None:
        """Raises if it has ended."""
        if self.ended:
            raise HowdahError(self.story())

    def story(self) -> str:
        """Of one that has ended, though nobody had asked it to."""
        return f"a worker of the bench has ended by itself, with exit code {self._process.returncode}.{self._said()}"

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ask_to_end(self) -> None:
        self.send(signal.SIGTERM)

    def end(self, patience: float) -> None:
        """Waits for its end for so long, and then kills it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._log.close()
        self.tally.close()

    def _said(self) -> str:
        self._log.seek(max(self._log.seek(0, os.SEEK_END) - _LAST_WORDS, 0))
        said = self._log.read().decode(errors="replace").strip()
        return f" It said:\n{said}" if said else ""


class Crew:
    """All worker processes. They end with it, however it ends."""

    def __init__(self, arena: Arena, types: Sequence[str], *, processes: int, options: Mapping[str, Any]) -> None:
        self._arena = arena
        self._types = types
        self._processes = processes
        self._options = options
        self._members: list[Member] = []

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.push(self.__exit__)
            for _ in range(self._processes):
                self._members.append(Member(self._arena, self._types, self._options))
            self._wait_for_registration()
            stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            for member in self._members:
                member.ask_to_end()
        for member in self._members:
            member.end(_TIME_TO_END if kind is None else 0.0)

    # What they have done

    @property
    def handled(self) -> int:
        return sum(member.tally.handled for member in self._members)

    @property
    def sampled(self) -> int:
        return sum(member.tally.sampled for member in self._members)

    @property
    def first(self) -> float:
        """When the first job of all was begun."""
        return min(first for member in self._members if (first := member.tally.first) is not None)

    def samples(self) -> list[Sample]:
        return [sample for member in self._members for sample in member.tally.samples()]

    def forget(self) -> None:
        """The counts begin anew. While nothing is handled."""
        for member in self._members:
            member.tally.forget()

    def wait_until_handled(self, jobs: int) -> None:
        self._wait_until(lambda: self.handled, jobs)

    def wait_until_sampled(self, jobs: int) -> None:
        self._wait_until(lambda: self.sampled, jobs)

    def wait_until_all_ended(self) -> float:
        """Returns the moment at which no job was left."""
        return self._arena.wait_until_all_ended(PATIENCE)

    def _wait_until(self, reached: Callable[[], int], goal: int) -> None:
        before, changed_at = -1, time.monotonic()
        while (now := reached()) < goal:
            if now != before:
                before, changed_at = now, time.monotonic()
            elif time.monotonic() > changed_at + PATIENCE:
                raise HowdahError(f"the workers have stopped after {now:,} of {goal:,} jobs, for {PATIENCE:g} s now")
            self._check()
            time.sleep(_LOOK_EVERY)

    def _wait_for_registration(self) -> None:
        wanted = {member.pid for member in self._members}
        deadline = time.monotonic() + PATIENCE
        with self._arena.open_queue() as queue:
            while not wanted <= {worker.pid for worker in queue.workers()}:
                if time.monotonic() > deadline:
                    raise HowdahError(f"the workers of the bench have not begun within {PATIENCE:g} s")
                self._check()
                time.sleep(0.02)

    def _check(self) -> None:
        for member in self._members:
            member.check()
