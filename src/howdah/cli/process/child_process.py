"""One process that a supervisor keeps running, and starts again when it has ended."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import Final

from howdah.cli.process.supervisor_pipe import READY, SupervisorPipe

_FIRST_DELAY: Final = 0.2
_LONGEST_DELAY: Final = 30.0
_LONG_RUN: Final = 60.0
"""Seconds. After a run of this length, the delay before a restart begins at its minimum again."""


class ChildProcess:
    """A slot for a process: empty until ``start_at``, and again when it has ended."""

    def __init__(self, number: int, name: str, command: Sequence[str], lifeline: int) -> None:
        self.number = number
        self.name = name
        self._command = command
        self._lifeline = lifeline
        self._process: subprocess.Popen[bytes] | None = None
        self._early_ends = 0
        self.ready_pipe: int | None = None
        self.ready = False
        self.started_at = 0.0
        self.start_at: float | None = time.monotonic()
        self.kill_at: float | None = None
        self.is_leaving = False
        """Whether it was asked to end in order to be restarted."""
        self.code: int | None = None
        """The exit code of its last run; 128 plus its number for a signal."""

    def __str__(self) -> str:
        return f"worker {self.number}" if self.pid is None else f"worker {self.number} (pid {self.pid})"

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None

    @property
    def is_over(self) -> bool:
        return self._process is None and self.start_at is None

    def start(self) -> None:
        mine, theirs = os.pipe()
        try:
            self._process = self._spawn(theirs)
        except OSError:
            os.close(mine)
            raise
        finally:
            os.close(theirs)
        os.set_blocking(mine, False)
        self.ready_pipe, self.ready = mine, False
        self.started_at, self.start_at, self.is_leaving = time.monotonic(), None, False

    def _spawn(self, ready_pipe: int) -> subprocess.Popen[bytes]:
        is_first = self.number == 1 and not self.started_at
        pipe = SupervisorPipe(self.number, self.name, ready_pipe, self._lifeline, announces=is_first)
        return subprocess.Popen(
            self._command,
            env=os.environ | pipe.as_environment(),
            stdin=subprocess.DEVNULL,
            pass_fds=(ready_pipe, self._lifeline),
            # Otherwise Ctrl-C in a terminal would reach it twice, and a second signal ends its grace period.
            process_group=0,
        )

    def read_ready(self) -> bool:
        """Reads from its pipe. False at the end of the pipe."""
        if self.ready_pipe is None:
            return False
        with contextlib.suppress(BlockingIOError):
            data = os.read(self.ready_pipe, 1024)
            self.ready = self.ready or data.startswith(READY)
            return bool(data)
        return True

    def ask_to_end(self, patience: float) -> None:
        """SIGTERM now, and SIGKILL after ``patience`` seconds. A second call ends its grace period, and does not extend the time."""
        if self.is_alive and self.kill_at is None:
            self.kill_at = time.monotonic() + patience
        self.send(signal.SIGTERM)

    def send(self, number: signal.Signals) -> None:
        if self._process is not None:
            # Not Popen.send_signal, which would reap the process: the supervisor does that.
            os.kill(self._process.pid, number)

    def note_end(self, status: int) -> None:
        """Called when it has ended. A signal is a negative status, as in subprocess."""
        assert self._process is not None
        if status < 0:
            self._kill_group()
        self._process.returncode = status
        self._process = None
        self.code = 128 - status if status < 0 else status
        if self.ready_pipe is not None:
            os.close(self.ready_pipe)
        self.ready_pipe, self.ready, self.kill_at = None, False, None

    def _kill_group(self) -> None:
        """It was killed, and could not end what it had started: a handler in a child process would run on beside its next run."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):  # none is left, or none of ours
            os.killpg(self._process.pid, signal.SIGKILL)

    def start_again(self, *, at_once: bool = False) -> float:
        """Plans a restart, after a delay that grows with each early end. Returns the delay."""
        now = time.monotonic()
        if now - self.started_at >= _LONG_RUN:
            self._early_ends = 0
        delay = 0.0 if at_once else random.uniform(0.5, 1) * min(_LONGEST_DELAY, 2 * _FIRST_DELAY * 2**self._early_ends)
        self._early_ends = 0 if at_once else min(self._early_ends + 1, 10)
        self.start_at = now + delay
        return delay
