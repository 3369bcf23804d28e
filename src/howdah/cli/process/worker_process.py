"""How the process of a worker begins, begins anew and ends, whatever the user's code does to it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

from howdah.cli.process.log_format import flush_logs
from howdah.cli.process.supervisor_pipe import SupervisorPipe
from howdah.cli.process.terminal import Terminal
from howdah.worker import Worker
from howdah.worker.shutdown import without_echo

_TIME_TO_LEAVE: Final = 5.0


class Requests:
    """What signals ask of this process.

    SIGTERM, SIGINT: to end; a second one hurries. SIGHUP: to end in the same way, and to begin anew with
    the code that is there then. As long as there is no worker, a signal to end just ends the process.
    """

    def __init__(self, pipe: SupervisorPipe | None) -> None:
        self.restart = False
        self.is_stopping = False
        self._stop: Callable[[], None] = lambda: None
        self._pipe = pipe
        self._terminal = Terminal()
        # As they were before the user's code could change them.
        self._folder = Path.cwd()
        self._environ = os.environ | ({} if pipe is None else pipe.as_environment())
        # For PID 1 the kernel leaves out what a signal does by default.
        signal.signal(signal.SIGTERM, _end_by_signal if os.getpid() == 1 else signal.SIG_DFL)
        # Who started it with nohup does not want it to hear that the terminal is gone.
        self._hears_hangup = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
        if self._hears_hangup:
            signal.signal(signal.SIGHUP, self._note_early)

    def are_heard_by(self, worker: Worker) -> None:
        """From now on, and for as long as the running loop lives."""
        loop = asyncio.get_running_loop()
        self._stop = without_echo(worker.stop)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end)
        if self._hears_hangup:
            loop.add_signal_handler(signal.SIGHUP, self._hang_up, worker)
        if self.restart:
            self.is_stopping = True
            worker.stop()

    def begin_anew(self) -> NoReturn:
        """The same command line in the same process."""
        flush_logs()
        if self._pipe is not None:
            self._pipe.let_inherit(True)
        os.chdir(self._folder)
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], self._environ)

    def _end(self) -> None:
        was_to_restart, self.restart = self.restart, False
        self.is_stopping = True
        # It is on its way already, and was not asked twice to end.
        if not was_to_restart:
            self._stop()

    def _hang_up(self, worker: Worker) -> None:
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
    """Ends the process in spite of threads that will not end."""
    flush_logs()
    os._exit(code)


def leave_soon(code: int) -> None:
    """Everything is written: what still runs in some thread has a moment to end, and no more."""
    timer = threading.Timer(_TIME_TO_LEAVE, leave, (code,))
    timer.daemon = True
    timer.start()


def _end_by_signal(number: int, _frame: object) -> None:
    os._exit(128 + number)
