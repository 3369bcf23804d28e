"""``howdah health``: whether workers are alive, for containers and for people."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import re
import socket
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from rich.text import Text

from howdah.cli.arguments.duration import format_duration, parse_duration
from howdah.cli.command import Command
from howdah.cli.render.output import answers, plain, print_json, remark, table, text
from howdah.errors import DatabaseUnavailable
from howdah.model.worker_info import WorkerInfo
from howdah.queue import JobQueue

_CONNECT_TIMEOUT: Final = 5
"""Seconds: a container's health check does not wait longer either."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--worker",
        metavar="NAME",
        action="append",
        help="this worker, with all its processes, must be alive, on any host; repeat it for more",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--host", metavar="HOST", help="workers of this host (default: the current host)")
    where.add_argument("--any", action="store_true", help="workers of any host")
    parser.add_argument("--ready", action="store_true", help="it must also have begun to claim jobs")
    parser.add_argument(
        "--max-age",
        metavar="DURATION",
        type=parse_duration,
        help="how old a heartbeat may be (default: the worker's own lease)",
    )


def _run(args: argparse.Namespace) -> int:
    with JobQueue(args.dsn, args.schema, pool_size=1, timeout=_CONNECT_TIMEOUT) as queue:
        workers = [_aged(worker, args.max_age) for worker in queue.workers() if _is_wanted(worker, args)]
        warnings = list(_warnings(queue))
    problem = _problem(workers, args)
    if args.json:
        shown = [plain(worker) | {"ready": worker.ready} for worker in workers]
        print_json({"healthy": problem is None, "problem": problem, "warnings": warnings, "workers": shown})
    else:
        _print_workers(workers)
        for said in (*warnings, *([] if problem is None else [problem])):
            remark(f"howdah: {said}")
    return 0 if problem is None else 1


def _warnings(queue: JobQueue) -> Iterator[str]:
    """Problems that slow live workers down. They do not make a worker unhealthy: a new container would have them, too."""
    # If there is no connection left, the warning is left out.
    with contextlib.suppress(DatabaseUnavailable):
        for finding in queue.doctor(only=["advisory-lock-held"], patience=1):
            yield f"{finding.what}: {finding.cause}. To end it: {finding.remedy}"


def _host(args: argparse.Namespace) -> str | None:
    """The wanted host; None means any."""
    if args.host is not None:
        return str(args.host)
    return None if args.any or args.worker else socket.gethostname()


def _is_wanted(worker: WorkerInfo, args: argparse.Namespace) -> bool:
    host = _host(args)
    named = not args.worker or any(_has_name(worker, name) for name in args.worker)
    return named and (host is None or worker.host == host)


def _has_name(worker: WorkerInfo, name: str) -> bool:
    """Whether it is the worker of this name, or one of its processes."""
    return re.fullmatch(rf"{re.escape(name)}(\.\d+)?", worker.worker_id) is not None


def _aged(worker: WorkerInfo, most: timedelta | None) -> WorkerInfo:
    """The worker, dead if its heartbeat is older than ``most``."""
    return worker if most is None else dataclasses.replace(worker, alive=worker.age <= most.total_seconds())


def _problem(workers: Sequence[WorkerInfo], args: argparse.Namespace) -> str | None:
    if args.worker:
        return next(_problems_by_name(workers, args), None)
    host = _host(args)
    place = "" if host is None else f" of host {host}"
    if not workers:
        return f"no worker{place} is known{'' if host is None else '; --any looks at all hosts'}"
    if not any(worker.ready if args.ready else worker.alive for worker in workers):
        return f"no worker{place} is {'ready' if args.ready else 'alive'}"
    return None


def _problems_by_name(workers: Sequence[WorkerInfo], args: argparse.Namespace) -> Iterator[str]:
    for name in args.worker:
        found = [worker for worker in workers if _has_name(worker, name)]
        if not found:
            yield f"no worker named {name} is known"
        for worker in found:
            if not worker.alive:
                yield f"{worker.worker_id} is dead: its last heartbeat was {_ago(worker.age)}"
            elif args.ready and not worker.ready:
                yield f"{worker.worker_id} is not ready: it has not asked for jobs yet"


def _print_workers(workers: Sequence[WorkerInfo]) -> None:
    if not workers:
        return
    numbers = ("running", "last claim", "heartbeat", "loop lag")
    made = table("worker", "state", *numbers, right=numbers, flexible=("worker",))
    for worker in workers:
        made.add_row(text(worker.worker_id, "bold"), _state(worker), *map(text, _figures(worker)))
    answers().print(made)


def _state(worker: WorkerInfo) -> Text:
    if not worker.alive:
        return Text("dead", "red")
    return Text("alive, ready", "green") if worker.ready else Text("alive, not ready", "yellow")


def _figures(worker: WorkerInfo) -> tuple[str, str, str, str]:
    return (
        f"{_number(worker.running)}/{_number(worker.capacity)}",
        _since(worker, worker.last_claim_at),
        _ago(worker.age),
        "" if worker.loop_lag is None else format_duration(worker.loop_lag),
    )


def _number(value: int | None) -> str:
    return "?" if value is None else f"{value}"


def _since(worker: WorkerInfo, when: datetime | None) -> str:
    """How long ago, by the database's clock and not by this computer's."""
    return "never" if when is None else _ago(worker.age + (worker.heartbeat_at - when).total_seconds())


def _ago(seconds: float) -> str:
    return f"{format_duration(timedelta(seconds=seconds))} ago"


COMMAND = Command(
    name="health",
    summary="check that workers are alive",
    story="""
        Exits with 0 if a worker of this host is alive, and with 1 and the reason if none is: use it as a container's
        health check. A worker is alive while its last heartbeat is younger than its lease, and ready when it has begun to
        claim jobs. Heartbeats come from a thread of their own: a long loop lag beside a fresh heartbeat means that a
        handler blocks the others. A session that holds an advisory lock of the queue is named, too. Workers then poll, so
        the exit code does not change.
    """,
    examples=(
        ("howdah health", "the workers of this host, and whether one is alive"),
        ("howdah health --ready", "a container's readiness: does one ask for jobs?"),
        ("howdah health --worker mail --worker reports", "each of these must be alive, on any host"),
        ("howdah health --any --json", "all workers, for a monitor"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
