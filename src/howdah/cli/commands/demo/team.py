"""The workers of the demo: processes that run ``howdah work``, and can be killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from howdah.cli.process.supervisor_pipe import Leash

WORKERS: Final = 2
SLOTS: Final = 8
LEASE: Final = 2.0
_RHYTHM: Final = ("--lease", f"{LEASE:g}s", "--heartbeat", "0.5s", "--sweep", "1s", "--poll", "0.5s", "--grace", "1s")
_CAPACITY: Final = ("--concurrency", str(SLOTS), "--threads", "4", "--children", "2")
_COMMAND: Final = ("-P", "-m", "howdah", "work", "howdah.cli.commands.demo.handlers:queue", *_CAPACITY, *_RHYTHM)
_TIME_TO_END: Final = 20.0


class Member:
    """One worker, under a name."""

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
        """How it has ended, if it has."""
        return self._process.poll()

    def kill(self) -> None:
        """SIGKILL: it has no chance to say good-bye."""
        self.was_killed = True
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """SIGTERM: it ends what it does, and says good-bye. Returns its exit code."""
        self._process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(_TIME_TO_END)
        self.kill()
        return self._process.returncode


class Team:
    """All workers. They end with it, however it ends: a pipe that only this process holds tells them."""

    def __init__(self, dsn: str, schema: str) -> None:
        self.members: list[Member] = []
        self.logs = Path(tempfile.mkdtemp(prefix="howdah-demo-"))
        self.keeps_logs = False
        self._dsn = dsn
        self._schema = schema
        self._lifeline = os.pipe()
        self._ready = os.pipe()

    def start(self) -> None:
        for number in range(1, WORKERS + 1):
            name = f"demo-{number}"
            log = self.logs / f"{name}.log"
            self.members.append(
                Member(name, self._spawn(Leash(number, name, self._ready[1], self._lifeline[0]), log), log)
            )

    def _spawn(self, leash: Leash, log: Path) -> subprocess.Popen[bytes]:
        with log.open("wb") as file:
            return subprocess.Popen(
                [sys.executable, *_COMMAND, "--schema", self._schema],
                # By the environment, where no list of processes shows a password.
                env=os.environ | {"HOWDAH_DSN": self._dsn} | leash.as_environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                pass_fds=(leash.ready_pipe, leash.lifeline),
                # Ctrl-C in the terminal is for the demo, which then looks after them.
                process_group=0,
            )

    def named(self, name: str | None) -> Member | None:
        return next((member for member in self.members if member.name == name), None)

    def fallen(self) -> list[Member]:
        """Those that have ended and should not have."""
        return [member for member in self.members if member.code is not None and not member.was_killed]

    def stop(self) -> dict[str, int]:
        """Stops those that are left. Returns their exit codes."""
        return {member.name: member.stop() for member in self.members if not member.was_killed}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members:
            if member.code is None:
                member.kill()
        for pipe in (*self._lifeline, *self._ready):
            os.close(pipe)
        if not self.keeps_logs:
            shutil.rmtree(self.logs, ignore_errors=True)
