"""Log capture: stores the log records of handlers with their jobs.

It consists of a handler on the root logger, installed while a worker of this process needs it, and of a context variable
that holds the run that a log record belongs to. The context follows the calls of a handler: into its thread, into its
tasks, into ``asyncio.to_thread``. Records of Howdah's own loggers concern workers, and are not stored.

A logger's level still decides what is logged at all. Only if logging is not configured, so that nothing below a warning
would get through, the root logger's level is lowered meanwhile: then there is no other handler that it could affect.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from howdah.worker.run.run import Run

_followed: ContextVar[Run | None] = ContextVar("howdah_run", default=None)
_root = logging.getLogger()


def follow(run: Run) -> None:
    """From now on, log records in this context belong to this run."""
    _followed.set(run)
    if _installed.levels and _capture not in _root.handlers:
        # The application has configured logging again.
        _root.addHandler(_capture)


def label_of(task: asyncio.Task[Any]) -> str:
    """The run that a task belongs to, or else its name."""
    if sys.version_info >= (3, 12) and (run := task.get_context().get(_followed)) is not None:
        return f"job {run.label}"
    return task.get_name()


@contextlib.contextmanager
def installed(level: int | None) -> Iterator[None]:
    """Capture records of this level and above meanwhile. None: capture nothing."""
    if level is None:
        yield
        return
    _installed.add(level)
    try:
        yield
    finally:
        _installed.remove(level)


class _Capture(logging.Handler):
    """Stores the records of runs. A record that cannot be stored never raises in the code that logged it."""

    def __init__(self) -> None:
        super().__init__()
        self._busy = threading.local()

    def handle(self, record: logging.LogRecord) -> bool:
        # Instead of emit, which would take a lock for every record of the process.
        run = _followed.get()
        if run is not None and _is_wanted(run, record.levelno) and not _is_our_own(record):
            self._keep(run, record)
        if len(_root.handlers) == 1:
            _show_as_before(record)
        return True

    def _keep(self, run: Run, record: logging.LogRecord) -> None:
        if getattr(self._busy, "now", False):
            return  # logged while the message was formatted
        tracker = run.reporter(run.jobs[0])
        self._busy.now = True
        try:
            tracker.log(_level_name(record.levelno), record.name, _text(record))
        except Exception:  # noqa: BLE001
            tracker.leave_out_log()
        finally:
            self._busy.now = False


class _Installed:
    """The capture on the root logger, and the levels of those that need it."""

    def __init__(self) -> None:
        self.levels: list[int] = []
        self._lock = threading.Lock()
        self._level_before: int | None = None
        self._level_set: int | None = None

    def add(self, level: int) -> None:
        with self._lock:
            if not self.levels and not _root.handlers and _root.level == logging.WARNING:
                self._level_before = _root.level
            self.levels.append(level)
            if _capture not in _root.handlers:
                _root.addHandler(_capture)
            self._lower()

    def remove(self, level: int) -> None:
        with self._lock:
            self.levels.remove(level)
            self._lower()
            if not self.levels:
                _root.removeHandler(_capture)
                self._level_before = self._level_set = None

    def _lower(self) -> None:
        if self._level_before is None or _root.level != (self._level_set or self._level_before):
            return  # configured, before or since
        self._level_set = max(min(self._level_before, *self.levels), 1) if self.levels else self._level_before
        _root.setLevel(self._level_set)


_capture = _Capture()
_installed = _Installed()


def _is_wanted(run: Run, level: int) -> bool:
    return run.services.capture_logs and run.handler.log_level is not None and level >= run.handler.log_level


def _is_our_own(record: logging.LogRecord) -> bool:
    return record.name == "howdah" or record.name.startswith("howdah.")


def _level_name(level: int) -> str:
    name = logging.getLevelName(level)
    return name if name.isprintable() and 0 < len(name) <= 100 else f"Level {level}"


def _text(record: logging.LogRecord) -> str:
    """The message with its traceback."""
    try:
        message = record.getMessage()
    except Exception:  # noqa: BLE001
        # A mistake in the logging call.
        message = str(record.msg)
    parts = [message]
    if record.exc_info:
        parts.append(record.exc_text or logging.Formatter().formatException(record.exc_info))
    if record.stack_info:
        parts.append(record.stack_info)
    return "\n".join(parts)


def _show_as_before(record: logging.LogRecord) -> None:
    """Without any handler Python prints warnings to standard error. The capture must not change that."""
    shown = logging.lastResort
    logger: logging.Logger | None = logging.getLogger(record.name)
    while logger is not None:
        if any(handler is not _capture for handler in logger.handlers):
            return
        logger = logger.parent if logger.propagate else None
    if shown is not None and record.levelno >= shown.level:
        shown.handle(record)
