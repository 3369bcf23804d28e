"""``howdah work``: runs the handlers of a queue."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import functools
import logging
import os
import secrets
import socket
import sys
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from howdah.cli.arguments.connect import load_queue
from howdah.cli.arguments.duration import parse_duration
from howdah.cli.command import Command
from howdah.cli.process.log_format import LEVELS, flush_logs, keep_logs, set_up_logs
from howdah.cli.process.supervisor import TIME_TO_KILL, SourceTree, Supervisor
from howdah.cli.process.supervisor_pipe import SupervisorPipe
from howdah.cli.process.worker_process import Requests, leave, leave_soon
from howdah.embedded.server import keep_quiet
from howdah.encryption import ENVIRONMENT
from howdah.errors import InvalidInput
from howdah.model.codec import PLAIN
from howdah.queue import JobQueue
from howdah.worker import Worker, WorkerOptions, WorkerSummary
from howdah.worker.event_loop import loop_factory

log = logging.getLogger("howdah.work")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        metavar="MODULE[:QUEUE]",
        help="the module, as import names it, and the JobQueue in it (default: queue)",
    )
    parser.add_argument(
        "modules",
        metavar="MODULE",
        nargs="*",
        default=[],
        help="more modules to import, which register handlers with this queue",
    )
    _add_capacity(parser.add_argument_group("capacity"))
    _add_choice(parser.add_argument_group("what to run"))
    _add_rhythm(parser.add_argument_group("timing"))
    _add_logs(parser.add_argument_group("logs"))


def _add_capacity(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--concurrency", metavar="N", type=int, help="async handlers at once (default: 50)")
    group.add_argument("--threads", metavar="N", type=int, help="plain functions at once, in threads (default: 10)")
    group.add_argument(
        "--children",
        metavar="N",
        type=int,
        help="handlers with process=True at once, each in a child (default: one per core)",
    )
    group.add_argument(
        "--max-leaked",
        metavar="N",
        type=int,
        help="stopped handlers that keep running, before the worker restarts to end them (default: 10)",
    )
    group.add_argument(
        "--processes", metavar="N", type=int, default=1, help="worker processes, restarted when they end (default: 1)"
    )


def _add_choice(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--types",
        metavar="TYPE,…",
        action="append",
        help="only these types, 'mail.*' for all that begin so (default: all that have a handler)",
    )
    group.add_argument("--drain", action="store_true", help="end when no job is due")
    group.add_argument("--name", metavar="NAME", help="the name of this worker (default: host:pid:random)")
    group.add_argument("--reload", action="store_true", help="restart when a .py file below this folder changes")


def _add_rhythm(group: argparse._ArgumentGroup) -> None:
    durations = {
        "grace": "how long running jobs may take to end after SIGTERM (default: 30s)",
        "lease": "after this long without a heartbeat, other workers take its jobs (default: 15s)",
        "heartbeat": "how often it sends a heartbeat (default: 3s)",
        "sweep": "how often it looks for jobs of dead workers (default: 5s)",
        "poll": "how often it looks for jobs without a notification (default: 1s)",
    }
    for name, meaning in durations.items():
        group.add_argument(f"--{name}", metavar="DURATION", type=parse_duration, help=meaning)
    group.add_argument(
        "--fair-share",
        metavar="0…1",
        type=float,
        help="share of jobs taken by age instead of priority, so that low priorities run too (default: 0)",
    )
    group.add_argument(
        "--lazy-claims",
        action="store_const",
        const=True,
        help="claims do not wait for the disk: jobs start sooner, and may run twice if PostgreSQL crashes",
    )


def _add_logs(group: argparse._ArgumentGroup) -> None:
    amount = group.add_mutually_exclusive_group()
    amount.add_argument("--log-level", choices=LEVELS, default="info", help="the least level to log (default: info)")
    amount.add_argument(
        "--quiet", dest="log_level", action="store_const", const="warning", help="log warnings and errors only"
    )
    group.add_argument(
        "--no-logs",
        dest="capture_logs",
        action="store_const",
        const=False,
        help="do not keep the log lines of handlers with their jobs (see howdah logs)",
    )


def _run(args: argparse.Namespace) -> int:
    if args.processes < 1:
        raise InvalidInput(f"--processes is 1 or more, not {args.processes}")
    if args.drain and args.reload:
        raise InvalidInput("--drain ends when no job is due, and --reload waits for changes: choose one")
    pipe = SupervisorPipe.taken_from(os.environ)
    # PID 1 inherits the orphans of a container, which a worker would not reap.
    is_to_supervise = pipe is None and (args.processes > 1 or args.reload or os.getpid() == 1)
    return _supervise(args) if is_to_supervise else _work(args, pipe)


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    """The given options; the worker has defaults for the others."""
    names = (field.name for field in dataclasses.fields(WorkerOptions))
    chosen = {name: value for name in names if (value := getattr(args, name)) is not None}
    if args.types:
        chosen["types"] = [name for part in args.types for each in part.split(",") if (name := each.strip())]
    return chosen


# Several processes


def _supervise(args: argparse.Namespace) -> int:
    names = _names(args)
    settings = WorkerOptions.checked(**_settings(args) | {"name": names[-1]})
    set_up_logs(args.log_level, as_json=args.json)
    supervisor = Supervisor(
        [sys.executable, "-m", "howdah", *sys.argv[1:]],
        names,
        grace=settings.grace,
        drain=settings.drain,
        sources=SourceTree(Path.cwd()) if args.reload else None,
    )
    return supervisor.run()


def _names(args: argparse.Namespace) -> list[str]:
    """A child keeps its name through restarts: when it registers again, its old jobs are released at once, and not a lease later."""
    whole: str = args.name or f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(2)}"
    return [whole] if args.processes == 1 else [f"{whole}.{number}" for number in range(1, args.processes + 1)]


# This process


def _work(args: argparse.Namespace, pipe: SupervisorPipe | None) -> int:
    requests = Requests(pipe)
    set_up = functools.partial(
        set_up_logs, args.log_level, as_json=args.json, tag="" if pipe is None else f"[{pipe.number}]"
    )
    set_up()
    settings = _settings(args) | ({} if pipe is None else {"name": pipe.name})
    if pipe is not None:
        if not pipe.announces:
            keep_quiet()
        pipe.watch(WorkerOptions.checked(**settings).grace + TIME_TO_KILL)
    queue = load_queue(args.target, args.modules)
    keep_logs()
    if os.environ.get(ENVIRONMENT) and queue._context.codec is PLAIN:
        log.warning("%s is set, but this queue has no codec: it cannot read encrypted data", ENVIRONMENT)
    if args.dsn is not None or args.schema is not None:
        queue.connect_to(dsn=args.dsn, schema=args.schema)
    worker = queue.worker(**settings)
    worker.begin_child = set_up
    _announce(worker, queue)
    if pipe is not None:
        _report_when_ready(pipe)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        report = runner.run(_run_worker(worker, queue, requests))
        # A supervisor restarts it by itself.
        if requests.restart or (report.shed and pipe is None and not requests.is_stopping):
            requests.restart_process()
        if report.left_threads:
            leave(report.exit_code)
    flush_logs()
    return report.exit_code


async def _run_worker(worker: Worker, queue: JobQueue, requests: Requests) -> WorkerSummary:
    requests.set_worker(worker)
    report = await worker.run()
    leave_soon(report.exit_code)
    await queue.aclose()
    return report


def _announce(worker: Worker, queue: JobQueue) -> None:
    kinds = {
        "async": f"{worker.options.concurrency} at once",
        "thread": f"{worker.options.threads} in threads",
        "process": f"{worker.options.children} in child processes",
    }
    used = {handler.kind for handler in worker.handlers.values()}
    log.info(
        "%s runs %s (%s) in %s",
        worker.worker_id,
        ", ".join(sorted(worker.handlers)),
        ", ".join(words for kind, words in kinds.items() if kind in used),
        _place(queue),
        extra={"event": "starting", "worker_id": worker.worker_id},
    )


def _report_when_ready(pipe: SupervisorPipe) -> None:
    logger = logging.getLogger("howdah.worker")
    logger.addFilter(_ReadyFilter(pipe, logger.getEffectiveLevel()))
    logger.setLevel(min(logger.getEffectiveLevel(), logging.INFO))


class _ReadyFilter(logging.Filter):
    """Reports to the supervisor when the worker logs that it is ready, and filters by the chosen level."""

    def __init__(self, pipe: SupervisorPipe, level: int) -> None:
        super().__init__()
        self._pipe = pipe
        self._level = level

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "event", None) == "ready":
            self._pipe.report_ready()
        return record.levelno >= self._level


def _place(queue: JobQueue) -> str:
    """The database and the schema, without a password."""
    parts = conninfo_to_dict(queue.dsn)
    host = parts.get("host") or parts.get("hostaddr") or os.environ.get("PGHOST") or "localhost"
    port = f":{parts['port']}" if parts.get("port") else ""
    database = parts.get("dbname") or os.environ.get("PGDATABASE") or parts.get("user") or ""
    return f"{database} at {host}{port}, schema {queue.schema}"


COMMAND = Command(
    name="work",
    summary="run the handlers of a queue",
    story="""
        Imports the modules from the current directory and runs jobs of the types that they have handlers for, until it
        is stopped. SIGTERM or Ctrl-C: it claims no more jobs, releases those that have not started, and lets running ones
        end within the grace period; a second signal ends that period at once. SIGHUP: the same, and then it restarts with new code. With
        --processes, workers that end are restarted. With --json, logs are JSON on stdout. Exits with 0 if no job was
        interrupted, with 6 if the grace period ran out. A worker with too many stuck handlers restarts.
    """,
    examples=(
        ("howdah work app:queue mail", "the handlers that app.py and mail.py register with the queue in app.py"),
        ("howdah work app --processes 4 --concurrency 200", "four processes, with up to 200 jobs in each"),
        ("howdah work app --types send_mail,'report.*' --drain", "run the due jobs of some types, and end"),
        ("howdah work app --reload --log-level debug", "while you develop"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
