"""``howdah limit``: how many jobs run at once, how often they start, and how many of a type may wait."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, get_args

from howdah.cli.arguments.connect import open_queue
from howdah.cli.command import Command
from howdah.cli.render.output import answers, print_json, remark, say, table, text
from howdah.errors import InvalidInput
from howdah.model.rate import Rate, parsed_rate
from howdah.model.results import Limit, WhenFull


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("type", metavar="TYPE", nargs="?", help="the type of jobs; without it, all limits are shown")
    parser.add_argument(
        "running", metavar="N", nargs="?", help="how many may run at once; none: reset to the handler's limit"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--per", metavar="KEY", help="of one flow key, such as a customer")
    which.add_argument("--each-key", action="store_true", help="of each flow key")
    which.add_argument("--group", metavar="NAME", help="of a group of types: howdah limit --group smtp 10")
    parser.add_argument(
        "--rate",
        metavar="RATE",
        help="how often they may start, such as 50/s or 100/min; none: reset to the handler's rate",
    )
    parser.add_argument("--burst", metavar="N", type=int, help="with --rate: how many may start at once")
    parser.add_argument(
        "--weight",
        metavar="N",
        type=int,
        help="with --per: how many jobs of this key start for each one of another key",
    )
    parser.add_argument(
        "--max-pending", metavar="N", help="how many jobs of the type may wait; none: reset to the handler's bound"
    )
    parser.add_argument(
        "--when-full",
        choices=get_args(WhenFull),
        help="with --max-pending: what enqueueing does when so many wait; the handler's choice if not given",
    )


def _run(args: argparse.Namespace) -> None:
    job_type, running = (None, args.type) if args.group is not None else (args.type, args.running)
    if args.group is not None and args.running is not None:
        raise InvalidInput("a limit is for a type or for a group: howdah limit --group NAME N")
    if args.weight is not None and (job_type is None or args.per is None):
        raise InvalidInput("a weight is for one flow key of a type: howdah limit TYPE --per KEY --weight N")
    if args.burst is not None and args.rate in (None, "none"):
        raise InvalidInput("a burst is for a rate: howdah limit TYPE --rate 50/s --burst 10")
    if args.max_pending is not None and (job_type is None or args.per is not None or args.each_key):
        raise InvalidInput("a bound on the jobs that wait is for a type: howdah limit TYPE --max-pending N")
    if args.when_full is not None and args.max_pending is None:
        raise InvalidInput("--when-full needs --max-pending N")
    with open_queue(args) as queue:
        if args.max_pending is not None:
            queue.limits.set_max_pending(str(job_type), _number(args.max_pending), when_full=args.when_full)
        of: dict[str, Any] = {"job_type": job_type, "per": args.per, "each_key": args.each_key, "group": args.group}
        if running is not None:
            queue.limits.set(_number(running), **of)
        if args.rate is not None:
            queue.limits.set_rate(None if args.rate == "none" else parsed_rate(args.rate, args.burst), **of)
        if args.weight is not None:
            queue.limits.set_weight(str(job_type), args.per, args.weight)
        limits = [each for each in queue.limits.list() if _matches(each, job_type, args)]
    if args.json:
        print_json(limits)
    elif limits:
        _print_table(limits)
    elif any(given is not None for given in (running, args.rate, args.max_pending)):
        say("there is no limit any more")
    else:
        remark("there are no limits: howdah limit TYPE N sets one")


def _number(value: str) -> int | None:
    if value == "none":
        return None
    try:
        return int(value)
    except ValueError:
        raise InvalidInput(f"{value!r} is neither a number of jobs nor none") from None


def _rate(rate: Rate) -> str:
    return str(rate) if rate.burst == rate.jobs else f"{rate}, burst {rate.burst:,}"


def _matches(limit: Limit, job_type: str | None, args: argparse.Namespace) -> bool:
    if args.group is not None:
        return bool(limit.group == args.group)
    return job_type is None or limit.job_type == job_type


def _print_table(limits: Sequence[Limit]) -> None:
    console = answers()
    waiting = ["waiting"] if any(each.max_pending is not None for each in limits) else []
    made = table(
        "of",
        "key",
        "limit",
        "running",
        "rate",
        "weight",
        *waiting,
        "set by",
        right=("limit", "running", "rate", "weight"),
        flexible=("of", "key"),
    )
    for each in limits:
        made.add_row(
            text(each.job_type if each.group is None else f"group {each.group}", "bold"),
            text("each" if each.each_key else each.flow_key or ""),
            text("" if each.max_running is None else f"{each.max_running:,}"),
            text("" if each.running is None else f"{each.running:,}"),
            text("" if each.rate is None else _rate(each.rate)),
            text("" if each.weight is None else f"{each.weight:,}"),
            *(text(_backlog(each)) for _ in waiting),
            text("paused" if each.paused_at else "operator" if each.by_operator else "handler"),
        )
    console.print(made)


def _backlog(limit: Limit) -> str:
    if limit.max_pending is None:
        return ""
    return f"{limit.pending:,} of {limit.max_pending:,}, then {limit.when_full}"


COMMAND = Command(
    name="limit",
    summary="show or set how many jobs run at once, how often they start, or how many may wait",
    story="""
        A limit holds over all workers. It applies instead of the one that the handler declares, until it is reset, and to
        jobs that wait already. Running jobs continue. With no number, the limits are shown.

        howdah limit TYPE --max-pending 10000 lets so many jobs of a type wait. Then enqueueing raises an error, waits for room, or drops
        the oldest job, as the handler or --when-full says.
    """,
    examples=(
        ("howdah limit", "all limits, and how many jobs run within each"),
        ("howdah limit send_invoice 3 --each-key", "of each customer, if the handler has per='customer'"),
        ("howdah limit --group smtp 50", "of all types in a group"),
        ("howdah limit send_invoice --rate 100/min", "how often they may start"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
