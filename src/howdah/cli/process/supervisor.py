"""Keeps workers running: starts them, restarts those that ended, and ends when all have ended.

It never imports the user's code, which therefore cannot crash it. One loop over a selector waits for signals, for the ready pipes
of the children, and for the next time at which something is due.

As PID 1 of a container it inherits orphans, so it reaps every child of the process.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import socket
import time
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeAlias

from howdah.cli.arguments.duration import format_duration
from howdah.cli.process.child_process import ChildProcess
from howdah.cli.process.interruption import Terminal

# The files that --reload watches

_NOT_OURS: Final = frozenset({"node_modules", "__pycache__", "site-packages"})

_Stamp: TypeAlias = tuple[int, int]


class SourceTree:
    """Remembers when each file was written. Hidden folders and virtual environments are left out."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._stamps = self._look()

    def changed(self) -> str | None:
        """A file that was written, added or removed since the last call, by its path below the root."""
        before, self._stamps = self._stamps, self._look()
        different = before.items() ^ self._stamps.items()
        return min((os.path.relpath(path, self._root) for path, _ in different), default=None)

    def _look(self) -> dict[Path, _Stamp]:
        return dict(_stamps_below(self._root))


def _stamps_below(root: Path) -> Iterator[tuple[Path, _Stamp]]:
    for folder, folders, files in os.walk(root):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = [each for each in folders if not each.startswith(".") and each not in _NOT_OURS]
        for path in (Path(folder, file) for file in files if file.endswith(".py")):
            with contextlib.suppress(OSError):
                status = path.stat()
                yield path, (status.st_mtime_ns, status.st_size)


# The supervisor

log = logging.getLogger("howdah.supervisor")

WRONG_CALL: Final = 2
_FATAL: Final = (WRONG_CALL, 3, 4)
"""The command line, the schema or the login is wrong: a restart would end in the same way."""
_SHED_HANDLERS: Final = 7
_ASKED_TO_END: Final = (0, 128 + signal.SIGTERM, 128 + signal.SIGINT)

TIME_TO_KILL: Final = 10.0
"""Seconds after its grace period, after which a child is killed."""
_TIME_TO_GET_READY: Final = 10.0
_LOOK_EVERY: Final = 0.5


class Supervisor:
    """Runs one command in several processes.

    names: one for each process, kept through restarts.
    grace: how long a child may take to end its jobs; ten seconds later it is killed.
    drain: a child that ends with 0 is not restarted.
    sources: restart the children when one of these files changes.
    """

    def __init__(
        self,
        command: Sequence[str],
        names: Sequence[str],
        *,
        grace: float,
        drain: bool = False,
        sources: SourceTree | None = None,
    ) -> None:
        # Only this process holds the writing end, so that the children notice when it ends.
        self._lifeline = os.pipe()
        self._children = [
            ChildProcess(number, name, command, self._lifeline[0]) for number, name in enumerate(names, start=1)
        ]
        self._patience = grace + TIME_TO_KILL
        self._drain = drain
        self._sources = sources
        self._terminal = Terminal()
        self._signals: deque[signal.Signals] = deque()
        self._selector = selectors.DefaultSelector()
        self._to_renew: deque[ChildProcess] = deque()
        self._renewed: ChildProcess | None = None
        self._is_stopping = False
        self._verdict: int | None = None

    def run(self) -> int:
        """Returns the highest exit code, when all children have ended."""
        with self._handling_signals():
            while not self._is_done():
                self._start_due()
                self._kill_overdue()
                self._continue_restart()
                self._look_for_changes()
                self._wait()
                self._handle_signals()
                self._reap()
        return self._worst_code() if self._verdict is None else self._verdict

    def _is_done(self) -> bool:
        waits_for_a_change = self._sources is not None and not self._is_stopping
        return not waits_for_a_change and all(child.is_over for child in self._children)

    def _worst_code(self) -> int:
        return max(child.code or 0 for child in self._children)

    # What is due

    def _start_due(self) -> None:
        for child in self._children:
            if child.start_at is not None and child.start_at <= time.monotonic():
                self._start(child)

    def _start(self, child: ChildProcess) -> None:
        try:
            child.start()
        except OSError as error:
            delay = child.start_again()
            log.error("%s could not be started (%s); trying again in %s", child, error, _seconds(delay))
        else:
            assert child.ready_pipe is not None
            self._selector.register(child.ready_pipe, selectors.EVENT_READ, child)
            log.debug("%s started", child)

    def _kill_overdue(self) -> None:
        for child in self._children:
            if child.kill_at is not None and child.kill_at <= time.monotonic():
                log.warning("%s has not ended in time, and is killed", child)
                child.send(signal.SIGKILL)
                child.kill_at = time.monotonic() + TIME_TO_KILL

    def _look_for_changes(self) -> None:
        if self._sources is None or self._is_stopping or (changed := self._sources.changed()) is None:
            return
        log.info("%s has changed: restarting", changed)
        for child in self._children:
            self._renew(child)

    def _wait(self) -> None:
        due = [when for child in self._children for when in (child.start_at, child.kill_at) if when is not None]
        if self._renewed is not None and not (self._renewed.is_leaving or self._is_stopping):
            due.append(self._renewed.started_at + _TIME_TO_GET_READY)
        if self._sources is not None:
            due.append(time.monotonic() + _LOOK_EVERY)
        timeout = max(min(due) - time.monotonic(), 0) if due else None
        for key, _ in self._selector.select(timeout):
            if key.data is not None and not self._read(key.data):
                self._selector.unregister(key.fileobj)

    def _read(self, child: ChildProcess) -> bool:
        was_ready, goes_on = child.ready, child.read_ready()
        if child.ready and not was_ready:
            log.debug("%s is ready", child)
        return goes_on

    # Signals

    @contextlib.contextmanager
    def _handling_signals(self) -> Iterator[None]:
        """Signals wake the selector; the loop handles them."""
        ours, wakes = socket.socketpair()
        ours.setblocking(False)
        wakes.setblocking(False)
        self._wakeups = ours
        self._selector.register(ours, selectors.EVENT_READ, None)
        previous_fd = signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
        previous = {number: signal.signal(number, self._note) for number in self._handled()}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(previous_fd)
            self._selector.close()
            ours.close()
            wakes.close()
            for end in self._lifeline:
                os.close(end)

    def _handled(self) -> list[signal.Signals]:
        # With nohup, SIGHUP stays ignored.
        hangup = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
        return [signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, *hangup]

    def _note(self, number: int, _frame: object) -> None:
        self._signals.append(signal.Signals(number))

    def _handle_signals(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wakeups.recv(4096)
        while self._signals:
            number = self._signals.popleft()
            if number in (signal.SIGTERM, signal.SIGINT):
                self._stop(f"{number.name} received")
            elif number == signal.SIGHUP:
                self._handle_hangup()

    def _handle_hangup(self) -> None:
        if self._terminal.is_gone():
            self._stop("the terminal is gone")
        elif not self._is_stopping:
            log.info("SIGHUP received: restarting the workers one after the other")
            self._renewed = None
            self._to_renew = deque(self._children)

    def _stop(self, reason: str) -> None:
        log.info(
            "%s: %s", reason, "ending the grace period of the workers" if self._is_stopping else "stopping the workers"
        )
        self._is_stopping = True
        for child in self._children:
            child.start_at = None
            child.ask_to_end(self._patience)

    # Restarts

    def _continue_restart(self) -> None:
        """One after the other: the next when the one before is ready, or has had its time."""
        if self._is_stopping or self._is_being_renewed(self._renewed):
            return
        self._renewed = self._to_renew.popleft() if self._to_renew else None
        if self._renewed is not None:
            self._renew(self._renewed)

    def _is_being_renewed(self, child: ChildProcess | None) -> bool:
        if child is None or child.is_leaving:
            return child is not None
        return not child.ready and time.monotonic() < child.started_at + _TIME_TO_GET_READY

    def _renew(self, child: ChildProcess) -> None:
        if not child.is_alive:
            child.start_again(at_once=True)
        elif not child.is_leaving:
            child.is_leaving, child.ready = True, False
            child.ask_to_end(self._patience)

    # Ends

    def _reap(self) -> None:
        ours = {child.pid: child for child in self._children if child.is_alive}
        for pid, status in _ended_processes():
            child = ours.get(pid)
            if child is not None:
                self._note_end(child, status)

    def _note_end(self, child: ChildProcess, status: int) -> None:
        message = f"{child} {_ending(status)}"
        if child.ready_pipe is not None and child.ready_pipe in self._selector.get_map():
            self._selector.unregister(child.ready_pipe)
        child.note_end(status)
        if self._is_stopping:
            self._note_asked_end(child, message)
        elif child.is_leaving:
            child.start_again(at_once=True)
        elif self._drain and child.code == 0:
            log.debug("%s: nothing is left to do", message)
        elif child.code in _FATAL and not any(other.ready for other in self._children):
            self._give_up(child, message)
        else:
            self._restart(child, message)

    def _note_asked_end(self, child: ChildProcess, message: str) -> None:
        if child.code in _ASKED_TO_END:
            child.code = 0
        log.debug(message)

    def _give_up(self, child: ChildProcess, message: str) -> None:
        if self._sources is not None and child.code == WRONG_CALL:
            log.warning("%s; waiting for a file to change", message)
        else:
            self._verdict = child.code
            self._stop(message)

    def _restart(self, child: ChildProcess, message: str) -> None:
        delay = child.start_again(at_once=child.code == _SHED_HANDLERS)
        log.warning("%s; starting it again %s", message, f"in {_seconds(delay)}" if delay else "at once")
        if child is self._renewed and self._to_renew:
            # The new code may be at fault: the other workers keep running the old one.
            self._to_renew.clear()
            log.error("the restart is cancelled: the other workers keep running as they are")


def _ended_processes() -> Iterator[tuple[int, int]]:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended[0], os.waitstatus_to_exitcode(ended[1])


def _ending(status: int) -> str:
    if status >= 0:
        return f"ended with {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def _seconds(seconds: float) -> str:
    return format_duration(timedelta(seconds=seconds))
