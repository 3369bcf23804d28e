"""``howdah schedule``: periodic jobs."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Final

from rich.text import Text

from howdah.cli.arguments.connect import open_queue
from howdah.cli.arguments.datetimes import full, relative
from howdah.cli.arguments.duration import parse_duration
from howdah.cli.arguments.json_input import add_data, data_of
from howdah.cli.arguments.priority import CHOICES, describe_priority, parse_priority
from howdah.cli.command import Command, action_adder
from howdah.cli.render.output import (
    answer,
    answers,
    cut,
    facts,
    indented,
    job_as_json,
    plain,
    print_indented,
    print_json,
    readable_json,
    remark,
    say,
    table,
    text,
)
from howdah.errors import ScheduleNotFound
from howdah.model.schedule import MISSED, Schedule
from howdah.verbs.cron import explain

_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = action_adder(parser)
    add("list", "all schedules, and when they run next", _list)
    _add_name(add("show", "all details of one", _show))
    _add_rhythm(add("add", "create a schedule, or change the one of this name", _add))
    _add_name(add("pause", "stop adding its jobs", _pause))
    _add_name(add("resume", "add its jobs again; missed runs are not made up for", _resume))
    _add_name(add("run", "add one of its jobs now, beside its plan", _run_now))
    _add_name(add("delete", "remove it; its jobs stay", _delete))


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the schedule's name")


def _add_rhythm(parser: argparse.ArgumentParser) -> None:
    _add_name(parser)
    parser.add_argument("type", metavar="TYPE", help="the type of its jobs")
    add_data(parser, "their data; - reads it from standard input")
    rhythm = parser.add_mutually_exclusive_group(required=True)
    rhythm.add_argument(
        "--cron", metavar="EXPRESSION", help="minute hour day month weekday: '30 6 * * MON-FRI'; or @daily"
    )
    rhythm.add_argument("--every", metavar="DURATION", type=parse_duration, help="counted from now: 90s, 5m, 2h, 1d")
    parser.add_argument("--timezone", metavar="ZONE", default="UTC", help="the time zone of --cron (default: UTC)")
    parser.add_argument(
        "--missed",
        choices=MISSED,
        default="last",
        help="which missed runs are made up for, if no worker was running (default: last)",
    )
    parser.add_argument("--no-overlap", action="store_true", help="skip a run while an earlier job has not ended")
    parser.add_argument("--priority", metavar=CHOICES, type=parse_priority, help="higher priorities are claimed first")
    parser.add_argument("--max-attempts", metavar="N", type=int, help="how often a job may be started")
    parser.add_argument("--timeout", metavar="DURATION", type=parse_duration, help="how long one attempt may run")


# Actions


def _list(args: argparse.Namespace) -> None:
    with open_queue(args) as queue:
        schedules = queue.schedules.list()
    if args.json:
        for schedule in schedules:
            print_json(_as_json(schedule))
    elif schedules:
        _print_table(schedules)
        for schedule in schedules:
            if schedule.left_code:
                remark(_left_code(schedule))
    else:
        remark("there are no schedules")


def _show(args: argparse.Namespace) -> None:
    with open_queue(args) as queue:
        schedule = queue.schedules.get(args.name)
    if args.json:
        print_json(_as_json(schedule))
    else:
        _print_schedule(schedule)


def _add(args: argparse.Namespace) -> None:
    with open_queue(args) as queue:
        schedule = queue.schedules.set(
            args.name,
            args.type,
            data_of(args),
            cron=args.cron,
            every=args.every,
            timezone=args.timezone,
            missed=args.missed,
            overlap=not args.no_overlap,
            priority=args.priority,
            max_attempts=args.max_attempts,
            timeout=args.timeout,
        )
    done = "is added" if schedule.created else "is up to date"
    answer(args, schedule, f"{schedule.name} {done}; {_outlook(schedule)}")


def _pause(args: argparse.Namespace) -> None:
    with open_queue(args) as queue:
        changed = queue.schedules.pause(args.name)
    _answer(args, changed, paused=True, outcome="is paused" if changed else "was paused already")


def _resume(args: argparse.Namespace) -> None:
    with open_queue(args) as queue:
        changed = queue.schedules.resume(args.name)
        schedule = queue.schedules.get(args.name)
    outcome = f"resumed; {_outlook(schedule)}" if changed else "was not paused"
    _answer(args, changed, paused=False, outcome=outcome)


def _run_now(args: argparse.Namespace) -> None:
    with open_queue(args) as queue:
        job = queue.schedules.run(args.name)
    answer(args, job_as_json(job) | {"created": job.created}, str(job.id))
    if not (job.created or args.json):
        remark(f"howdah: not added: jobs of {args.name} must not overlap, and this one is {job.status}")


def _delete(args: argparse.Namespace) -> None:
    with open_queue(args) as queue:
        deleted = queue.schedules.delete(args.name)
    if not deleted:
        raise ScheduleNotFound(f"there is no schedule {args.name!r} in this schema")
    answer(args, {"name": args.name, "deleted": True}, f"{args.name} is deleted; its jobs stay")


def _answer(args: argparse.Namespace, changed: bool, *, paused: bool, outcome: str) -> None:
    answer(args, {"name": args.name, "paused": paused, "changed": changed}, f"{args.name} {outcome}")


# Schedules, to read


def _as_json(schedule: Schedule) -> dict[str, Any]:
    """Every field except ``created``, which belongs to an add."""
    fields = plain(schedule)
    del fields["created"]
    return fields


def _print_table(schedules: Sequence[Schedule]) -> None:
    made = table("name", "type", "rhythm", "zone", "next", "last", "state", flexible=("name", "type"))
    for schedule in schedules:
        made.add_row(
            text(schedule.name, "bold"),
            text(schedule.job_type),
            cut(_rhythm(schedule)),
            text(schedule.timezone),
            text("" if schedule.next_run_at is None or schedule.paused else relative(schedule.next_run_at)),
            text("" if schedule.last_run_at is None else relative(schedule.last_run_at)),
            text(_state(schedule), "yellow"),
        )
    answers().print(made)


def _state(schedule: Schedule) -> str:
    return ", ".join(["paused"] * schedule.paused + ["not in code"] * schedule.left_code)


def _left_code(schedule: Schedule) -> str:
    return (
        f"{schedule.name} was created by @queue.periodic, and no live worker has it in its code any more."
        f" It still adds jobs. To remove it: howdah schedule delete {shlex.quote(schedule.name)}"
    )


def _print_schedule(schedule: Schedule) -> None:
    title = text(schedule.name, "bold")
    say(title + Text("  ") + text("paused", "bold yellow") if schedule.paused else title)
    answers().print(indented(facts(_facts(schedule))))
    if schedule.left_code:
        remark(_left_code(schedule))
    say(text("data", "bold"))
    print_indented(answers(), readable_json(schedule.data, indent=2))


def _facts(schedule: Schedule) -> Iterator[tuple[str, object]]:
    yield "type", schedule.job_type
    yield "rhythm", _rhythm(schedule)
    yield "in words", None if schedule.cron is None else explain(schedule.cron)
    yield "zone", schedule.timezone
    yield "next", schedule.next_run_at and full(schedule.next_run_at)
    yield "last", schedule.last_run_at and full(schedule.last_run_at)
    yield "last job", schedule.last_job_id
    yield "missed", schedule.missed
    yield "overlap", "yes" if schedule.overlap else "no"
    for name, value in schedule.options.items():
        yield name.replace("_", " "), _option(name, value)
    yield "created", full(schedule.created_at)
    yield "in code", schedule.declared_at and f"declared last at {full(schedule.declared_at)}"


def _option(name: str, value: Any) -> str:
    match name:
        case "priority":
            return describe_priority(value)
        case "timeout":
            return _exact(value)
        case _:
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _rhythm(schedule: Schedule) -> str:
    return schedule.cron or (f"every {_exact(schedule.every)}" if schedule.every else "")


def _outlook(schedule: Schedule) -> str:
    if schedule.paused:
        return "it is paused"
    return (
        "a worker will plan its next run" if schedule.next_run_at is None else f"next at {full(schedule.next_run_at)}"
    )


def _exact(duration: timedelta) -> str:
    """As it would be typed, not rounded."""
    seconds = duration.total_seconds()
    for unit, length in _UNITS:
        if seconds % length == 0:
            return f"{int(seconds // length)}{unit}"
    return f"{seconds}s"


COMMAND = Command(
    name="schedule",
    summary="show and change periodic jobs",
    story="""
        A schedule adds one job at each planned time, however many workers run. The plan is a cron expression in a time
        zone, or a duration. howdah schedule ACTION --help has more on each action.
    """,
    examples=(
        ("howdah schedule add nightly report --cron '30 2 * * *' --timezone Europe/Berlin", "every night"),
        ("howdah schedule add pulse ping --every 90s --no-overlap", "every 90 seconds, unless the last job still runs"),
        ("howdah schedule list", "all schedules, and when they run next"),
        ("howdah schedule run nightly", "one job now, beside the plan"),
    ),
    add_arguments=_add_arguments,
)
