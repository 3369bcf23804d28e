"""The process of a worker: how signals stop it, restart it and end it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

from howdah.cli.process.interruption import Terminal
from howdah.cli.process.log_format import flush_logs
from howdah.cli.process.supervisor_pipe import SupervisorPipe
from howdah.worker import Worker
from howdah.worker.shutdown import without_echo

_TIME_TO_LEAVE: Final = 5.0


class Requests:
    """What signals ask of this process.

    SIGTERM, SIGINT: stop; a second one ends the grace period. SIGHUP: stop in the same way, and restart with the code of that time. Before there
    is a worker, SIGTERM and SIGINT end the process at once.
    """

    def __init__(self, pipe: SupervisorPipe | None) -> None:
        self.restart = False
        self.is_stopping = False
        self._stop: Callable[[], None] = lambda: None
        self._pipe = pipe
        self._terminal = Terminal()
        # As they are before the user's code can change them.
        self._folder = Path.cwd()
        self._environ = os.environ | ({} if pipe is None else pipe.as_environment())
        # For PID 1 the kernel ignores signals without a handler.
        signal.signal(signal.SIGTERM, _end_by_signal if os.getpid() == 1 else signal.SIG_DFL)
        # With nohup, SIGHUP stays ignored.
        self._handles_hangup = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
        if self._handles_hangup:
            signal.signal(signal.SIGHUP, self._note_early)

    def set_worker(self, worker: Worker) -> None:
        """From now on signals stop this worker, in the running loop."""
        loop = asyncio.get_running_loop()
        self._stop = without_echo(worker.stop)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end)
        if self._handles_hangup:
            loop.add_signal_handler(signal.SIGHUP, self._handle_hangup, worker)
        if self.restart:
            self.is_stopping = True
            worker.stop()

    def restart_process(self) -> NoReturn:
        """Runs the same command line again, in the same process."""
        flush_logs()
        if self._pipe is not None:
            self._pipe.let_inherit(True)
        os.chdir(self._folder)
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], self._environ)

    def _end(self) -> None:
        was_to_restart, self.restart = self.restart, False
        self.is_stopping = True
        # It is stopping already: this is its first signal to end, and must not end the grace period.
        if not was_to_restart:
            self._stop()

    def _handle_hangup(self, worker: Worker) -> None:
        if self._terminal.is_gone():
            self._end()
        elif not self.is_stopping:
            self.is_stopping = self.restart = True
            worker.stop()

    def _note_early(self, _number: int, _frame: object) -> None:
        self.restart = not self._terminal.is_gone()
        if not self.restart:
            os.kill(os.getpid(), signal.SIGTERM)


def leave(code: int) -> NoReturn:
    """Ends the process even if threads are still running."""
    flush_logs()
    os._exit(code)


def leave_soon(code: int) -> None:
    """Everything is written: threads that still run get a few seconds to end."""
    timer = threading.Timer(_TIME_TO_LEAVE, leave, (code,))
    timer.daemon = True
    timer.start()


def _end_by_signal(number: int, _frame: object) -> None:
    os._exit(128 + number)
