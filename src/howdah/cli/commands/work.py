"""``howdah work``: runs the handlers of a queue."""

from __future__ import annotations

import argparse
import asyncio
import functools
import logging
import os
import secrets
import socket
import sys
from pathlib import Path
from typing import Any, Final

from psycopg.conninfo import conninfo_to_dict

from howdah.cli.arguments.duration import parse_span
from howdah.cli.arguments.target import load_queue
from howdah.cli.command import Command
from howdah.cli.process.log_format import LEVELS, flush_logs, keep_logs, set_up_logs
from howdah.cli.process.source_tree import SourceTree
from howdah.cli.process.supervisor import LAST_WORDS, Supervisor
from howdah.cli.process.supervisor_pipe import Leash
from howdah.cli.process.worker_process import Requests, leave, leave_soon
from howdah.encryption import ENVIRONMENT
from howdah.errors import InvalidInput
from howdah.model.codec import PLAIN
from howdah.queue import JobQueue
from howdah.worker import Worker, WorkerOptions, WorkerSummary
from howdah.worker.event_loop import loop_factory

log = logging.getLogger("howdah.work")

_SETTINGS: Final = (
    "concurrency",
    "threads",
    "children",
    "drain",
    "grace",
    "lease",
    "heartbeat",
    "sweep",
    "poll",
    "fair_share",
    "max_leaked",
    "capture_logs",
    "name",
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        metavar="MODULE[:QUEUE]",
        help="the module, as import names it, and the JobQueue in it (default: queue)",
    )
    _add_capacity(parser.add_argument_group("how much at once"))
    _add_choice(parser.add_argument_group("what, and until when"))
    _add_rhythm(parser.add_argument_group("rhythm"))
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
        help="handlers that were stopped and go on, before the worker starts anew to be rid of them (default: 10)",
    )
    group.add_argument(
        "--processes", metavar="N", type=int, default=1, help="workers side by side, watched over (default: 1)"
    )


def _add_choice(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--types", metavar="TYPE,…", action="append", help="only these types (default: all that have a handler)"
    )
    group.add_argument("--drain", action="store_true", help="end when no job is due any more")
    group.add_argument("--name", metavar="NAME", help="what this worker is called (default: host, process and chance)")
    group.add_argument("--reload", action="store_true", help="restart when a .py file below this folder changes")


def _add_rhythm(group: argparse._ArgumentGroup) -> None:
    spans = {
        "grace": "how long running jobs may take to end after SIGTERM (default: 30s)",
        "lease": "without a heartbeat for so long, others take its jobs (default: 15s)",
        "heartbeat": "how often it says that it lives (default: 3s)",
        "sweep": "how often it looks for jobs of the dead (default: 5s)",
        "poll": "how often it looks for jobs when no notice comes (default: 1s)",
    }
    for name, meaning in spans.items():
        group.add_argument(f"--{name}", metavar="SPAN", type=parse_span, help=meaning)
    group.add_argument(
        "--fair-share",
        metavar="0…1",
        type=float,
        help="share of jobs taken by age instead of priority, so that low ones move too (default: 0)",
    )


def _add_logs(group: argparse._ArgumentGroup) -> None:
    amount = group.add_mutually_exclusive_group()
    amount.add_argument("--log-level", choices=LEVELS, default="info", help="what is logged (default: info)")
    amount.add_argument("--quiet", dest="log_level", action="store_const", const="warning", help="only what is wrong")
    group.add_argument(
        "--no-logs",
        dest="capture_logs",
        action="store_const",
        const=False,
        help="keep nothing of what handlers log with their jobs (howdah logs)",
    )


def _run(args: argparse.Namespace) -> int:
    if args.processes < 1:
        raise InvalidInput(f"--processes is 1 or more, not {args.processes}")
    if args.drain and args.reload:
        raise InvalidInput("--drain ends when the work is done, and --reload waits for changes: choose one")
    leash = Leash.taken_from(os.environ)
    # PID 1 inherits the orphans of a container, which a worker would never wait for.
    is_to_supervise = leash is None and (args.processes > 1 or args.reload or os.getpid() == 1)
    return _supervise(args) if is_to_supervise else _work(args, leash)


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    """What was chosen; the rest is left to the worker's own defaults."""
    chosen = {name: value for name in _SETTINGS if (value := getattr(args, name)) is not None}
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
    """A child keeps its name: what its life before held is taken back when it registers again, and not a lease later."""
    whole: str = args.name or f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(2)}"
    return [whole] if args.processes == 1 else [f"{whole}.{number}" for number in range(1, args.processes + 1)]


# This process


def _work(args: argparse.Namespace, leash: Leash | None) -> int:
    requests = Requests(leash)
    set_up = functools.partial(
        set_up_logs, args.log_level, as_json=args.json, tag="" if leash is None else f"[{leash.number}]"
    )
    set_up()
    settings = _settings(args) | ({} if leash is None else {"name": leash.name})
    if leash is not None:
        leash.watch(WorkerOptions.checked(**settings).grace + LAST_WORDS)
    queue = load_queue(args.target)
    keep_logs()
    if os.environ.get(ENVIRONMENT) and queue._context.codec is PLAIN:
        log.warning("%s is set, but this queue has no codec: it will not understand what is encrypted", ENVIRONMENT)
    if args.dsn is not None or args.schema is not None:
        queue.connect_to(dsn=args.dsn, schema=args.schema)
    worker = queue.worker(**settings)
    worker.begin_child = set_up
    _announce(worker, queue)
    if leash is not None:
        _tell_when_ready(leash)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        report = runner.run(_run_worker(worker, queue, requests))
        # A supervisor starts it anew by itself.
        if requests.restart or (report.shed and leash is None and not requests.is_stopping):
            requests.begin_anew()
        if report.left_threads:
            leave(report.exit_code)
    flush_logs()
    return report.exit_code


async def _run_worker(worker: Worker, queue: JobQueue, requests: Requests) -> WorkerSummary:
    requests.are_heard_by(worker)
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
        "%s works on %s (%s) in %s",
        worker.worker_id,
        ", ".join(sorted(worker.handlers)),
        ", ".join(words for kind, words in kinds.items() if kind in used),
        _place(queue),
        extra={"event": "starting", "worker_id": worker.worker_id},
    )


def _tell_when_ready(leash: Leash) -> None:
    logger = logging.getLogger("howdah.worker")
    logger.addFilter(_ReadyFilter(leash, logger.getEffectiveLevel()))
    logger.setLevel(min(logger.getEffectiveLevel(), logging.INFO))


class _ReadyFilter(logging.Filter):
    """Sees the worker say that it is ready, and shows no more than was to be shown."""

    def __init__(self, leash: Leash, level: int) -> None:
        super().__init__()
        self._leash = leash
        self._level = level

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "event", None) == "ready":
            self._leash.tell_ready()
        return record.levelno >= self._level


def _place(queue: JobQueue) -> str:
    """Where the jobs are, without a secret."""
    parts = conninfo_to_dict(queue.dsn)
    host = parts.get("host") or parts.get("hostaddr") or os.environ.get("PGHOST") or "localhost"
    port = f":{parts['port']}" if parts.get("port") else ""
    database = parts.get("dbname") or os.environ.get("PGDATABASE") or parts.get("user") or ""
    return f"{database} at {host}{port}, schema {queue.schema}"


COMMAND = Command(
    name="work",
    summary="run the handlers of a queue",
    story="""
        Imports the module from the current directory and runs jobs of the types that it has handlers for, until it
        is told to stop. SIGTERM or Ctrl-C: no new jobs, those that were not begun go back at once, running ones
        may end within the grace; a second signal hurries. SIGHUP: the same, and then it starts anew with new code.
        With --processes, dead workers are started again. With --json, logs are JSON on stdout. Exits with 0 when
        nothing was interrupted, 6 if the grace ran out. A worker with too many handlers that will not end starts anew.
    """,
    examples=(
        ("howdah work app:queue", "the handlers registered with @queue.job in app.py"),
        ("howdah work app --processes 4 --concurrency 200", "four processes, with up to 200 jobs in each"),
        ("howdah work app --types send_mail,send_sms --drain", "do what is due of two types, and end"),
        ("howdah work app --reload --log-level debug", "while you write it"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
