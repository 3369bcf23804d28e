"""``howdah cancel``, ``retry``, ``pause`` and ``resume``: change jobs and types, and print the outcome."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence

from rich.text import Text

from howdah.checks import options
from howdah.cli.arguments.connect import open_queue
from howdah.cli.command import Command
from howdah.cli.render.output import plain, print_json, say, text
from howdah.errors import InvalidInput, JobNotFound
from howdah.model.job import Job, Status
from howdah.queue import JobQueue

# cancel and retry


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """The outcome for one job."""

    id: uuid.UUID
    changed: bool
    status: Status | None
    outcome: str


def _add_ids(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+", help="the job's id; - reads ids from standard input")


def _add_cancel_arguments(parser: argparse.ArgumentParser) -> None:
    _add_ids(parser)
    parser.add_argument("--reason", metavar="TEXT", help="why, to be kept with the job")


def _cancel(args: argparse.Namespace) -> int:
    with open_queue(args) as queue:
        return _change_all(args, queue, lambda job_id: queue.cancel(job_id, args.reason), _cancel_outcome)


def _retry(args: argparse.Namespace) -> int:
    with open_queue(args) as queue:
        return _change_all(args, queue, queue.retry, _retry_outcome)


def _cancel_outcome(job: Job, changed: bool) -> str:
    if changed:
        return "cancelled" if job.status == "cancelled" else "is running, and was asked to stop"
    return f"has ended as {job.status}" if job.ended else "was asked to stop already"


def _retry_outcome(job: Job, changed: bool) -> str:
    if changed:
        return "is pending again, with all its attempts"
    if job.ended:
        return f"stays {job.status}: a live job has its key {job.key!r}"
    return f"has not ended: it is {job.status}"


def _change_all(
    args: argparse.Namespace,
    queue: JobQueue,
    change: Callable[[uuid.UUID], bool],
    describe: Callable[[Job, bool], str],
) -> int:
    # All ids are checked first, so that a typo in one changes none.
    wanted = [options.job_id(each) for each in _ids(args.ids)]
    all_changed = True
    for job_id in wanted:
        result = _change_one(queue, job_id, change, describe)
        all_changed &= result.changed
        _print_change(result, as_json=args.json)
    return 0 if all_changed else 1


def _change_one(
    queue: JobQueue, job_id: uuid.UUID, change: Callable[[uuid.UUID], bool], describe: Callable[[Job, bool], str]
) -> Change:
    try:
        changed = change(job_id)
        job = queue.get(job_id)
    except JobNotFound:
        return Change(job_id, changed=False, status=None, outcome="not found")
    return Change(job_id, changed, job.status, describe(job, changed))


def _print_change(change: Change, *, as_json: bool) -> None:
    if as_json:
        print_json(plain(change))
    else:
        say(text(change.id) + Text("  ") + text(change.outcome, "green" if change.changed else "yellow"))


def _ids(given: Sequence[str]) -> Iterator[str]:
    for each in given:
        if each == "-":
            yield from _ids_from_stdin()
        else:
            yield each


def _ids_from_stdin() -> list[str]:
    try:
        return sys.stdin.read().split()
    except UnicodeDecodeError as error:
        raise InvalidInput("standard input is not text in UTF-8") from error


CANCEL = Command(
    name="cancel",
    summary="cancel jobs",
    story="""
        A waiting job is cancelled at once. A running job is asked to stop, and is cancelled when its handler has ended; if
        it completes first, it stays completed. Exits with 1 and the reason if a job was not changed.
    """,
    examples=(
        ("howdah cancel 019a7c1e-5f0b-7c3d-9f43-0c6a4d7f2b11", "one job"),
        ("howdah cancel ID ID ID --reason 'customer left'", "several, with a reason that is kept"),
        ("howdah list --all --ids --type old --status pending | howdah cancel -", "all that match"),
    ),
    add_arguments=_add_cancel_arguments,
    run=_cancel,
)

RETRY = Command(
    name="retry",
    summary="retry ended jobs",
    story="""
        A failed, cancelled or completed job becomes pending again under the same id, with all its attempts. Its earlier
        errors are kept. Exits with 1 and the reason if a job was not changed.
    """,
    examples=(
        ("howdah retry 019a7c1e-5f0b-7c3d-9f43-0c6a4d7f2b11", "one job"),
        ("howdah list --all --ids --status failed --since 1h | howdah retry -", "all that failed in the last hour"),
    ),
    add_arguments=_add_ids,
    run=_retry,
)


# pause and resume


def _add_type(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("type", metavar="TYPE", help="the type of jobs")


def _add_pause_arguments(parser: argparse.ArgumentParser) -> None:
    _add_type(parser)
    parser.add_argument("--because", metavar="TEXT", help="the reason, shown beside the paused type")


def _pause(args: argparse.Namespace) -> int:
    with open_queue(args) as queue:
        changed = queue.pause(args.type, args.because)
    return _answer(args, changed, paused=True, outcome="is paused" if changed else "was paused already")


def _resume(args: argparse.Namespace) -> int:
    with open_queue(args) as queue:
        changed = queue.resume(args.type)
    return _answer(args, changed, paused=False, outcome="resumed" if changed else "was not paused")


def _answer(args: argparse.Namespace, changed: bool, *, paused: bool, outcome: str) -> int:
    if args.json:
        print_json({"type": args.type, "paused": paused, "changed": changed})
    else:
        say(f"{args.type} {outcome}")
    return 0


PAUSE = Command(
    name="pause",
    summary="stop picking up jobs of a type",
    story="""
        From now on workers do not claim jobs of this type. Running jobs continue, and new ones can be enqueued. Exits with
        0 also if the type was paused already.
    """,
    examples=(
        ("howdah pause send_invoice", "stop sending invoices"),
        ("howdah pause send_invoice --because 'mail server moves, Ann'", "and say why"),
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
