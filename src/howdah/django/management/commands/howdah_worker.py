"""``manage.py howdah_worker``: runs the tasks of a backend."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import threading
from typing import Any, Final, NoReturn

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import autoreload

from howdah.cli.arguments.duration import parse_duration
from howdah.django.backend import HowdahBackend
from howdah.django.framework import DEFAULT_TASK_BACKEND_ALIAS, task_backends
from howdah.errors import HowdahError
from howdah.worker import Worker, WorkerSummary

CONCURRENCY: Final = 10
"""Tasks at once. Each may need a connection of Django's to the database, beside the four of the worker."""
_TO_HURRY: Final = 5.0


class Command(BaseCommand):
    help = (
        "Runs tasks until it is stopped. SIGTERM or Ctrl-C: it starts no more tasks, and lets running ones end within the grace"
        " period; a second signal hurries. With DEBUG, it restarts when code changes."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--backend", default=DEFAULT_TASK_BACKEND_ALIAS, help="the alias of the backend in TASKS (default: default)"
        )
        parser.add_argument(
            "--queue",
            dest="queues",
            metavar="NAME",
            action="append",
            help="only tasks of this Django queue; repeat it for more",
        )
        parser.add_argument(
            "--concurrency",
            metavar="N",
            type=int,
            default=CONCURRENCY,
            help=f"tasks at once: plain ones in threads, async ones on a loop (default: {CONCURRENCY})",
        )
        parser.add_argument(
            "--grace",
            metavar="DURATION",
            type=parse_duration,
            default=30,
            help="time for running tasks to end (default: 30s)",
        )
        parser.add_argument("--name", help="the name of this worker (default: host:pid:random)")
        parser.add_argument("--drain", action="store_true", help="end when no task is due")
        reloads = parser.add_mutually_exclusive_group()
        reloads.add_argument(
            "--reload", action="store_true", default=None, help="restart when code changes, also without DEBUG"
        )
        reloads.add_argument("--noreload", dest="reload", action="store_false", help="do not restart, also with DEBUG")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002
        _set_up_logs(options["verbosity"])
        reloads = settings.DEBUG and not options["drain"] if options["reload"] is None else options["reload"]
        running = Running(options)
        if not reloads:
            summary = running.run(signals=True)
            _leave(summary.exit_code, summary)
        try:
            autoreload.run_with_reloader(running.run)
        except SystemExit as ending:
            # Code has changed, or SIGTERM came.
            _leave(int(ending.code or 0), running.stop())
        finally:
            running.stop()


class Running:
    """The worker of this process. With the reloader, it is in a thread, and the main thread ends the process."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._loop: asyncio.AbstractEventLoop | None = None
        self._worker: Worker | None = None
        self._summary: WorkerSummary | None = None
        self._ended = threading.Event()

    def run(self, *, signals: bool = False) -> WorkerSummary:
        try:
            worker = self._worker = make_worker(self._options)
            asyncio.run(self._run(worker, signals))
            assert self._summary is not None
            return self._summary
        except HowdahError as error:
            raise CommandError(str(error)) from error
        finally:
            self._worker = None
            self._ended.set()

    def stop(self) -> WorkerSummary | None:
        """Stops the worker from another thread, and waits until its jobs have ended or are handed back."""
        if self._worker is None or self._loop is None:
            return self._summary
        self._loop.call_soon_threadsafe(self._worker.stop)
        if not self._ended.wait(self._options["grace"]):
            self._loop.call_soon_threadsafe(self._worker.stop)
            self._ended.wait(_TO_HURRY)
        return self._summary

    async def _run(self, worker: Worker, signals: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._summary = await worker.run(signals=signals)


def make_worker(options: dict[str, Any]) -> Worker:
    """The worker for a backend. Raises CommandError."""
    alias = options["backend"]
    if alias not in task_backends:
        raise CommandError(f"TASKS has no backend {alias!r}; it has {', '.join(task_backends)}")
    backend = task_backends[alias]
    if not isinstance(backend, HowdahBackend):
        raise CommandError(
            f"TASKS[{alias!r}] is {type(backend).__name__}, and this command runs tasks of HowdahBackend"
        )
    return backend.worker(
        queues=options["queues"],
        concurrency=options["concurrency"],
        grace=options["grace"],
        name=options["name"],
        drain=options["drain"],
    )


def _leave(code: int, summary: WorkerSummary | None) -> NoReturn:
    """Ends the process even if tasks ignore their end: the interpreter would wait for their threads."""
    if summary is not None and summary.left_threads:
        logging.shutdown()
        os._exit(code)
    sys.exit(code)


def _set_up_logs(verbosity: int) -> None:
    """Shows the worker's log on stderr, unless LOGGING says where it goes."""
    logger = logging.getLogger("howdah")
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbosity > 1 else logging.INFO if verbosity else logging.WARNING)
