"""The watched jobs, and updates as lines: for a pipe, for a program, and above the bars."""

from __future__ import annotations

import collections
import dataclasses
import sys
import uuid
from collections.abc import Iterable
from typing import Any, Final

from rich.text import Text

from howdah.cli.arguments.datetimes import stamp
from howdah.cli.arguments.duration import format_duration
from howdah.cli.commands.watch.watcher import View, Wanted
from howdah.cli.render import event_text
from howdah.cli.render.event_text import brief, in_words, is_an_end
from howdah.cli.render.output import STATUS_STYLES, answers, job_as_json, plain, plural, print_json, text
from howdah.cli.render.progress import (
    counted,
    describe_running,
    describe_waiting,
    percent,
    short_id,
    speed,
    style_of,
    time_left,
)
from howdah.cli.render.terminal_escape import first_line
from howdah.model.job import Job
from howdah.model.results import QueuePosition
from howdah.model.workflow import Workflow
from howdah.watch.watch import Update

# Jobs

_REMEMBERED: Final = 10_000
"""The number of ended jobs that are remembered, because updates about them may still come."""


@dataclasses.dataclass(slots=True)
class Bar:
    """A job, and its place in the queue while it waits."""

    job: Job
    place: QueuePosition | None = None


class Board:
    """Takes updates, and decides which of them are new.

    named: the jobs that were given by id; other jobs leave the board as soon as they are not running.
    whole: the workflow, if one is watched that has not ended.
    """

    def __init__(self, named: Iterable[uuid.UUID] = ()) -> None:
        self.bars: dict[uuid.UUID, Bar] = {}
        self.whole: Workflow | None = None
        self._named = {id: n for n, id in enumerate(named)}
        self._ended: collections.OrderedDict[uuid.UUID, int | None] = collections.OrderedDict()

    def take(self, update: Update, place: QueuePosition | None = None) -> bool:
        """Whether the update has anything new."""
        if update.workflow is not None:
            return self._update_whole(update.workflow)
        if update.kind == "progress":
            return update.job is not None and self._update(update.job, place)
        if is_an_end(update):
            return self._ends(update.job_id, None)
        if update.kind == "status":
            # Pending again: the job had ended, and was retried.
            self._ended.pop(update.job_id, None)
            self._waits(update.job_id)
        return True

    def visible(self, most: int) -> tuple[list[Bar], int]:
        """The bars to show, preferring running and newer jobs, and the number of other bars.

        In the order in which they were given, or have come.
        """
        bars = sorted(self.bars.values(), key=lambda bar: self._named.get(bar.job.id, len(self._named)))
        ranked = sorted(range(len(bars)), key=lambda n: (bars[n].job.status != "pending", n), reverse=True)
        shown = sorted(ranked[: max(most, 0)])
        return [bars[n] for n in shown], len(bars) - len(shown)

    def _update_whole(self, workflow: Workflow) -> bool:
        before, self.whole = self.whole, None if workflow.ended else workflow
        return self._ends(workflow.id, None) if workflow.ended else workflow != before

    def _update(self, job: Job, place: QueuePosition | None) -> bool:
        if job.ended:
            return self._ends(job.id, job.token)
        if self._has_ended(job.id, job.token):
            # A state from before its end, which came late.
            return False
        self._ended.pop(job.id, None)
        if job.status == "pending" and job.id not in self._named:
            return self.bars.pop(job.id, None) is not None
        before = self.bars.get(job.id)
        self.bars[job.id] = Bar(job, place)
        return before is None or _shown_state(before.job) != _shown_state(job)

    def _waits(self, job_id: uuid.UUID) -> None:
        bar = self.bars.get(job_id)
        if bar is not None and job_id in self._named:
            bar.job = dataclasses.replace(bar.job, status="pending", stalled=False)
        else:
            self.bars.pop(job_id, None)

    def _has_ended(self, job_id: uuid.UUID, token: int | None) -> bool:
        """Whether the end of this claim is known: a later claim has a higher token."""
        if job_id not in self._ended:
            return False
        last = self._ended[job_id]
        return last is None or token is None or token <= last

    def _ends(self, job_id: uuid.UUID, token: int | None) -> bool:
        """token: None if the end came as an event, which has none."""
        is_known = self._has_ended(job_id, token)
        self.bars.pop(job_id, None)
        if token is not None or not is_known:
            self._ended[job_id] = token
        if len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)
        return not is_known


def _shown_state(job: Job) -> tuple[object, ...]:
    """The state that a line shows, without what changes with time alone."""
    counts = None if job.record is None else (job.record.done, job.record.total)
    stops = job.cancel_requested_at is not None
    return job.status, job.attempts, percent(job), job.current_stage, counts, job.stalled, stops, job.run_at


# Lines

_LONGEST: Final = 300


class JsonLines(View):
    """Every update as an object on a line of its own."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__()
        self._kinds = wanted.kinds

    def show(self, update: Update, place: QueuePosition | None) -> None:
        if update.kind in self._kinds:
            print_json(as_json(update, place))
            # At once: a program reads each line as it comes.
            sys.stdout.flush()


class PlainLines(View):
    """A line for each update that says something new."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__()
        self._board = Board(wanted.ids)
        self._kinds = wanted.kinds
        self._console = answers()

    def show(self, update: Update, place: QueuePosition | None) -> None:
        if self._board.take(update, place) and update.kind in self._kinds:
            self._console.print(plain_line(update, place), soft_wrap=True)


def as_json(update: Update, place: QueuePosition | None) -> dict[str, Any]:
    fields = plain(update)
    fields["job"] = None if update.job is None else job_as_json(update.job)
    if update.workflow is None:
        del fields["workflow"]
    return fields if place is None else {**fields, "place": place}


def plain_line(update: Update, place: QueuePosition | None = None) -> Text:
    """For grep: the time, the job, the kind and the text."""
    start = f"{stamp(update.at)} UTC {update.job_id} {update.job_type} {update.kind} "
    return text(start) + text(_said(update, place), _style(update))


def line_above(update: Update) -> Text:
    """A shorter line for people, above the bars."""
    local = update.at.astimezone()
    return Text.assemble(
        (f"{local:%H:%M:%S} {short_id(update.job_id)} ", "dim"),
        text(update.job_type, "bold"),
        " ",
        text(brief(_said(update), _LONGEST), _style(update)),
    )


def progress_text(job: Job, place: QueuePosition | None = None) -> str:
    """The state of a job on one line."""
    if job.ended:
        return _end(job)
    if job.status == "pending":
        return ", ".join(said for said in ("pending", describe_waiting(job, place)) if said)
    left = f"done in {left}" if (left := time_left(job)) else ""
    measured = ("", "") if job.record is None else (counted(job.record), speed(job.record))
    said = (f"{job.status} {percent(job):.0f}%", *measured, left, describe_running(job))
    return ", ".join(each for each in said if each)


def whole_text(workflow: Workflow) -> str:
    """The state of a workflow on one line."""
    progress = workflow.progress
    counted = ((progress.failed, "failed"), (progress.cancelled, "cancelled"))
    parts = [
        f"{workflow.status} after {format_duration(workflow.finished_at - workflow.created_at)}"
        if workflow.finished_at
        else f"{workflow.status} {progress.percent:.0f}%",
        f"{progress.ended:,} of {plural(progress.total, 'job')} {'has' if progress.ended == 1 else 'have'} ended",
        *(f"{count:,} {status}" for count, status in counted if count),
        *([first_line(workflow.error)] if workflow.error else []),
    ]
    return ", ".join(parts)


def _said(update: Update, place: QueuePosition | None = None) -> str:
    if update.workflow is not None:
        return whole_text(update.workflow)
    if update.job is not None:
        return progress_text(update.job, place)
    names_attempt = update.kind == "status" and (update.attempt > 1 or (update.name == "pending" and update.attempt))
    return f"attempt {update.attempt} {in_words(update)}" if names_attempt else in_words(update)


def _end(job: Job) -> str:
    took = f" after {format_duration(job.finished_at - job.started_at)}" if job.finished_at and job.started_at else ""
    why = f": {first_line(job.last_error)}" if job.status != "completed" and job.last_error else ""
    return f"{job.status}{took}{why}"


def _style(update: Update) -> str:
    if update.workflow is not None:
        return STATUS_STYLES[update.workflow.status]
    return event_text.style_of(update) if update.job is None else style_of(update.job)
