"""Worker processes that a command starts for itself: the demo and the bench run ``howdah work`` as their users do."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from howdah.cli.process.supervisor_pipe import SupervisorPipe

_COMMAND: Final = ("-P", "-m", "howdah", "work")
_TIME_TO_END: Final = 20.0
_LAST_OUTPUT: Final = 2_000


class WorkerProcess:
    """One worker, under the name that it registers with."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.log = log
        self.was_killed = False
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL: it cannot write anything any more."""
        self.was_killed = True
        self._process.kill()
        self._process.wait()

    def wait(self) -> int:
        """Waits for its end after a SIGTERM, and kills it if it takes too long. Returns its exit code."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(_TIME_TO_END)
        self.kill()
        return self._process.returncode

    def describe_end(self) -> str:
        """For a worker that ended unasked: its exit code, and the end of its log."""
        output = self.log.read_bytes()[-_LAST_OUTPUT:].decode(errors="replace").strip()
        ended = f"{self.name} has ended by itself, with exit code {self.code}"
        return f"{ended}. Its output:\n{output}" if output else ended


class WorkerGroup:
    """All workers of a command. They end with it, even by SIGKILL: the kernel then closes the pipe that they read from."""

    def __init__(self, target: str, dsn: str, schema: str, *arguments: str) -> None:
        self.workers: list[WorkerProcess] = []
        self.logs = Path(tempfile.mkdtemp(prefix="howdah-workers-"))
        self.keeps_logs = False
        self._arguments = (target, "--schema", schema, *arguments)
        # In the environment, because a list of processes would show the password.
        self._environment = {"HOWDAH_DSN": dsn}
        self._lifeline = os.pipe()
        self._ready = os.pipe()

    def start(self, name: str, environment: Mapping[str, str] | None = None) -> WorkerProcess:
        pipe = SupervisorPipe(len(self.workers) + 1, name, self._ready[1], self._lifeline[0])
        log = self.logs / f"{name}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, *_COMMAND, *self._arguments],
                env={**os.environ, **self._environment, **pipe.as_environment(), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                pass_fds=(pipe.ready_pipe, pipe.lifeline),
                # Ctrl-C in the terminal is for the command, which then ends its workers.
                process_group=0,
            )
        self.workers.append(WorkerProcess(name, process, log))
        return self.workers[-1]

    def named(self, name: str | None) -> WorkerProcess | None:
        return next((worker for worker in self.workers if worker.name == name), None)

    def ended_unasked(self) -> list[WorkerProcess]:
        return [worker for worker in self.workers if worker.code is not None and not worker.was_killed]

    def stop(self) -> dict[str, int]:
        """SIGTERM to those that are left: they end their jobs and unregister. Returns their exit codes."""
        left = [worker for worker in self.workers if not worker.was_killed]
        for worker in left:
            worker.send(signal.SIGTERM)
        return {worker.name: worker.wait() for worker in left}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers:
            if worker.code is None:
                worker.kill()
        for pipe in (*self._lifeline, *self._ready):
            os.close(pipe)
        if not self.keeps_logs:
            shutil.rmtree(self.logs, ignore_errors=True)
