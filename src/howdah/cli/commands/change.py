"""``howdah cancel``, ``retry``, ``delete``, ``reprioritise``, ``reschedule``, ``pause`` and ``resume``: change jobs and types, and
print the outcome."""

from __future__ import annotations

import argparse
import dataclasses
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from howdah.checks import options
from howdah.cli.arguments.connect import open_queue
from howdah.cli.arguments.datetimes import LOCAL, full, parse_datetime
from howdah.cli.arguments.duration import parse_duration
from howdah.cli.arguments.json_input import read_stdin
from howdah.cli.arguments.priority import CHOICES, describe_priority, parse_priority
from howdah.cli.arguments.selection import add_filters, check_choice, selection_of
from howdah.cli.command import Command
from howdah.cli.render.output import answer, answers, plural, print_json, remark, remarks, say, table, text
from howdah.errors import JobNotFound, NotPermitted
from howdah.model.job import Job, Status
from howdah.model.results import ChangedCount
from howdah.queue import JobQueue
from howdah.verbs.selection import OnChanged, Selection, SelectionVerb

# Verbs of jobs, by their ids or by filters


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """The outcome for one job."""

    id: uuid.UUID
    changed: bool
    status: Status | None
    outcome: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A verb of the queue, which a selection of jobs has, too.

    options: what both take. outcome: what it has done, or not done, to one job. done: what has become of the jobs, such as
    "cancelled". why_not: why jobs that match may be unchanged.
    """

    name: SelectionVerb
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    outcome: Callable[[Job, bool], str]
    done: str
    why_not: str = ""

    def change(self, queue: JobQueue, job_id: uuid.UUID) -> bool:
        return bool(getattr(queue, self.name)(job_id, **self.options))

    def change_all(self, selection: Selection, on_progress: OnChanged) -> ChangedCount:
        changed: ChangedCount = getattr(selection, self.name)(**self.options, on_progress=on_progress)
        return changed


_BATCHES: Final = """
    With filters instead of ids, jobs are changed a thousand at a time, each thousand in a transaction of its own; a job that
    another transaction has locked is skipped. Exits with 1 and the reason if a job was not changed.
"""


def _add_ids_and_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="*", help="the job's id; - reads ids from standard input")
    add_filters(parser)


def _run(args: argparse.Namespace, verb: Verb) -> int:
    check_choice(args)
    with open_queue(args) as queue:
        if args.ids:
            return _change_each(args, queue, verb)
        selection = selection_of(queue, args)
        if args.dry_run:
            _count(args, selection, verb)
            return 0
        return _change_selected(args, selection, verb)


# By their ids


def _change_each(args: argparse.Namespace, queue: JobQueue, verb: Verb) -> int:
    # All ids are checked first, so that a typo in one changes none.
    wanted = [options.job_id(each) for each in _ids(args.ids)]
    all_changed = True
    for job_id in wanted:
        result = _change_one(queue, job_id, verb)
        all_changed &= result.changed
        _print_change(args, result)
    return 0 if all_changed else 1


def _change_one(queue: JobQueue, job_id: uuid.UUID, verb: Verb) -> Change:
    try:
        changed = verb.change(queue, job_id)
        if changed and verb.name == "delete":
            return Change(job_id, changed=True, status=None, outcome=verb.done)
        job = queue.get(job_id)
    except JobNotFound:
        return Change(job_id, changed=False, status=None, outcome="not found")
    return Change(job_id, changed, job.status, verb.outcome(job, changed))


def _print_change(args: argparse.Namespace, change: Change) -> None:
    said = text(change.id) + Text("  ") + text(change.outcome, "green" if change.changed else "yellow")
    answer(args, change, said)


def _ids(given: Sequence[str]) -> Iterator[str]:
    for each in given:
        if each == "-":
            yield from read_stdin().split()
        else:
            yield each


# By filters


def _count(args: argparse.Namespace, selection: Selection, verb: Verb) -> None:
    count = selection.count(verb.name)
    groups = sorted(count.groups.items())
    if args.json:
        listed = [{"type": job_type, "status": status, "jobs": jobs} for (job_type, status), jobs in groups]
        print_json({"verb": verb.name, "dry_run": True, "jobs": count, "groups": listed})
        return
    if groups:
        made = table("type", "status", "jobs", right=("jobs",))
        for (job_type, status), jobs in groups:
            made.add_row(text(job_type, "bold"), text(status), text(f"{jobs:,}"))
        answers().print(made)
    say(f"{plural(count, 'job')} would be {verb.done}; nothing was changed")


def _change_selected(args: argparse.Namespace, selection: Selection, verb: Verb) -> int:
    with remarks().status(f"{verb.name} …") as status:
        changed = verb.change_all(selection, lambda so_far: status.update(f"{so_far:,} jobs {verb.done}"))
    if args.json:
        print_json({"verb": verb.name, "dry_run": False, "changed": int(changed), **vars(changed)})
    else:
        _print_changed(changed, verb)
    return 1 if changed.unchanged or changed.skipped else 0


def _print_changed(changed: ChangedCount, verb: Verb) -> None:
    say(f"{plural(changed - changed.asked, 'job')} {verb.done}")
    if changed.asked:
        say(f"{plural(changed.asked, 'running job')} asked to stop")
    if changed.unchanged:
        remark(f"{plural(changed.unchanged, 'job')} not changed: {verb.why_not}")
    if changed.skipped:
        remark(f"{plural(changed.skipped, 'job')} skipped, in use by another transaction: run the command again")


# cancel


def _add_cancel_arguments(parser: argparse.ArgumentParser) -> None:
    _add_ids_and_filters(parser)
    parser.add_argument("--reason", metavar="TEXT", help="why, to be kept with the job")


def _cancel(args: argparse.Namespace) -> int:
    verb = Verb(
        name="cancel",
        options={"reason": args.reason},
        outcome=_cancel_outcome,
        done="cancelled",
        why_not="they were asked to stop before",
    )
    return _run(args, verb)


def _cancel_outcome(job: Job, changed: bool) -> str:
    if changed:
        return "cancelled" if job.status == "cancelled" else "is running, and was asked to stop"
    return f"has ended as {job.status}" if job.ended else "was asked to stop already"


CANCEL = Command(
    name="cancel",
    summary="cancel jobs",
    story=f"""
        A waiting job is cancelled at once. A running job is asked to stop, and is cancelled when its handler has ended; if
        it completes first, it stays completed. {_BATCHES}
    """,
    examples=(
        ("howdah cancel 019a7c1e-5f0b-7c3d-9f43-0c6a4d7f2b11", "one job"),
        ("howdah cancel ID ID ID --reason 'customer left'", "several, with a reason that is kept"),
        ("howdah cancel --type old --status pending --dry-run", "how many there are of a type"),
        ("howdah cancel --type old --status pending", "all of these"),
    ),
    add_arguments=_add_cancel_arguments,
    run=_cancel,
)


# retry


def _add_retry_arguments(parser: argparse.ArgumentParser) -> None:
    _add_ids_and_filters(parser)
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="from the beginning: without the steps and the checkpoint of earlier attempts",
    )


def _retry(args: argparse.Namespace) -> int:
    verb = Verb(
        name="retry",
        options={"fresh": args.fresh},
        outcome=_retry_outcome,
        done="made pending again",
        why_not="live jobs have their keys",
    )
    return _run(args, verb)


def _retry_outcome(job: Job, changed: bool) -> str:
    if changed:
        return "is pending again, with all its attempts"
    if job.ended:
        return f"stays {job.status}: a live job has its key {job.key!r}"
    return f"has not ended: {job.waits_for or f'it is {job.status}'}"


RETRY = Command(
    name="retry",
    summary="retry ended jobs",
    story=f"""
        A failed, cancelled or completed job becomes pending again under the same id, with all its attempts. Its earlier
        errors are kept, and so are its steps and its checkpoint: it continues after them, unless --fresh is given. Filters
        select failed jobs, unless --status names others. {_BATCHES}
    """,
    examples=(
        ("howdah retry 019a7c1e-5f0b-7c3d-9f43-0c6a4d7f2b11", "one job"),
        ("howdah retry --type mail --error timeout --dry-run", "how many have failed with such an error"),
        ("howdah retry --type mail --error timeout", "all of these"),
        ("howdah list --all --ids --status failed --since 1h | howdah retry -", "all that failed in the last hour"),
    ),
    add_arguments=_add_retry_arguments,
    run=_retry,
)


# delete


def _delete(args: argparse.Namespace) -> int:
    return _run(args, Verb(name="delete", outcome=lambda job, _: f"is {job.status}: cancel it first", done="deleted"))


DELETE = Command(
    name="delete",
    summary="delete jobs that wait or have ended",
    story=f"""
        A job is deleted with its events, and cannot be brought back. A running job is not deleted: cancel it first. Ended jobs
        are deleted by themselves after the retention time, at no cost; this is for jobs that must go earlier. {_BATCHES}
    """,
    examples=(
        ("howdah delete 019a7c1e-5f0b-7c3d-9f43-0c6a4d7f2b11", "one job"),
        ("howdah delete --type report --status completed --older-than 1d --dry-run", "how many there are"),
        ("howdah delete --type report --status completed --older-than 1d", "all of these"),
    ),
    add_arguments=_add_ids_and_filters,
    run=_delete,
)


# reprioritise and reschedule


def _pending_outcome(changed_to: Callable[[Job], str]) -> Callable[[Job, bool], str]:
    def outcome(job: Job, changed: bool) -> str:
        if changed:
            return changed_to(job)
        return f"is left as it is: {job.waits_for}" if job.waits_for else f"is not pending: it is {job.status}"

    return outcome


def _add_reprioritise_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("priority", metavar=CHOICES, type=parse_priority, help="the new priority")
    _add_ids_and_filters(parser)


def _reprioritise(args: argparse.Namespace) -> int:
    verb = Verb(
        name="reprioritise",
        options={"priority": args.priority},
        outcome=_pending_outcome(lambda job: f"has priority {describe_priority(job.priority)}"),
        done=f"set to priority {describe_priority(args.priority)}",
    )
    return _run(args, verb)


REPRIORITISE = Command(
    name="reprioritise",
    summary="set the priority of pending jobs",
    story=f"The higher priority is claimed first. {_BATCHES}",
    examples=(
        ("howdah reprioritise 150 019a7c1e-5f0b-7c3d-9f43-0c6a4d7f2b11", "one job"),
        ("howdah reprioritise backfill --type reindex_page", "all pending jobs of a type"),
    ),
    add_arguments=_add_reprioritise_arguments,
    run=_reprioritise,
)


def _add_reschedule_arguments(parser: argparse.ArgumentParser) -> None:
    _add_ids_and_filters(parser)
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--run-at", metavar="WHEN", type=parse_datetime, help=f"due at this time (default: now){LOCAL}")
    when.add_argument("--delay", metavar="DURATION", type=parse_duration, help="due after so long")


def _reschedule(args: argparse.Namespace) -> int:
    verb = Verb(
        name="reschedule",
        options={"run_at": args.run_at, "delay": args.delay},
        outcome=_pending_outcome(lambda job: f"is due {full(job.run_at)}"),
        done="rescheduled",
        why_not="they wait for signals, or sleep",
    )
    return _run(args, verb)


RESCHEDULE = Command(
    name="reschedule",
    summary="set when pending jobs are due",
    story=f"Without --run-at or --delay, jobs are due now. {_BATCHES}",
    examples=(
        ("howdah reschedule 019a7c1e-5f0b-7c3d-9f43-0c6a4d7f2b11", "run one job now"),
        ("howdah reschedule --type report --delay 2h", "postpone all pending jobs of a type"),
    ),
    add_arguments=_add_reschedule_arguments,
    run=_reschedule,
)


# pause and resume


def _add_type(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("type", metavar="TYPE", help="the type of jobs")
    parser.add_argument("--per", metavar="KEY", help="only jobs of this flow key, such as a customer")


def _add_pause_arguments(parser: argparse.ArgumentParser) -> None:
    _add_type(parser)
    parser.add_argument("--because", metavar="TEXT", help="the reason, shown beside the paused type")


def _pause(args: argparse.Namespace) -> None:
    with open_queue(args) as queue:
        if not _is_known(queue, args.type):
            remark(
                f"howdah: there is no job and no handler of the type {args.type} yet; howdah stats lists the types. It is paused for"
                " when there are"
            )
        changed = queue.pause(args.type, args.because, per=args.per)
    _answer(args, changed, paused=True, outcome="is paused" if changed else "was paused already")


def _is_known(queue: JobQueue, job_type: str) -> bool:
    try:
        return job_type in queue.stats()
    except NotPermitted:
        return True  # as far as this login can see


def _resume(args: argparse.Namespace) -> None:
    with open_queue(args) as queue:
        changed = queue.resume(args.type, per=args.per)
    _answer(args, changed, paused=False, outcome="resumed" if changed else "was not paused")


def _answer(args: argparse.Namespace, changed: bool, *, paused: bool, outcome: str) -> None:
    which = args.type if args.per is None else f"{args.type} of {args.per}"
    answer(args, {"type": args.type, "per": args.per, "paused": paused, "changed": changed}, f"{which} {outcome}")


PAUSE = Command(
    name="pause",
    summary="stop picking up jobs of a type",
    story="""
        From now on workers do not claim jobs of this type. Running jobs continue, and new ones can be enqueued. Exits with
        0 also if the type was paused already. A type that is not known yet is paused, too, and a line on stderr says so.
    """,
    examples=(
        ("howdah pause send_invoice", "stop sending invoices"),
        ("howdah pause send_invoice --because 'mail server moves, Ann'", "and say why"),
        ("howdah pause send_invoice --per acme", "only those of one flow key"),
    ),
    add_arguments=_add_pause_arguments,
    run=_pause,
)

RESUME = Command(
    name="resume",
    summary="pick up jobs of a paused type again",
    story="Waiting jobs are claimed by priority, as usual. Exits with 0 also if the type was not paused.",
    examples=(
        ("howdah resume send_invoice", "send invoices again"),
        ("howdah stats", "see which types are paused"),
    ),
    add_arguments=_add_type,
    run=_resume,
)
