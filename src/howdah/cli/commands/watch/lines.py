"""Updates as lines: for a pipe, for a program, and above the bars."""

from __future__ import annotations

import sys
import uuid
from types import TracebackType
from typing import Any, Final, Self

from rich.text import Text

from howdah.cli.arguments.datetimes import stamp
from howdah.cli.arguments.duration import format_span
from howdah.cli.commands.watch.board import Board
from howdah.cli.commands.watch.wanted import Wanted
from howdah.cli.render import event_text
from howdah.cli.render.encrypted import first_line
from howdah.cli.render.event_text import brief, in_words
from howdah.cli.render.job_json import job_as_json
from howdah.cli.render.output import answers, plain, print_json, remark, text
from howdah.cli.render.progress_bar import style_of
from howdah.cli.render.progress_text import (
    counted,
    describe_running,
    describe_waiting,
    percent,
    short_id,
    speed,
    time_left,
)
from howdah.model.job import Job
from howdah.model.results import QueuePosition
from howdah.watch.watch import Update

_LONGEST: Final = 300


class _View:
    """What the ways to show updates have in common. Used as a context manager, for as long as it shows them."""

    shows_places = False
    """Whether it is to be told again and again where waiting jobs stand."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def show_place(self, job_id: uuid.UUID, place: QueuePosition) -> None:
        """Where a waiting job stands now."""

    def refresh(self) -> None:
        """Called ten times a second."""

    def remark(self, said: str) -> None:
        remark(f"howdah: {said}")


class JsonLines(_View):
    """Every update as an object on a line of its own."""

    def __init__(self, wanted: Wanted) -> None:
        self._kinds = wanted.kinds

    def show(self, update: Update, place: QueuePosition | None) -> None:
        if update.kind in self._kinds:
            print_json(as_json(update, place))
            # Whoever reads them wants each now.
            sys.stdout.flush()


class PlainLines(_View):
    """A line for each update that says something new."""

    def __init__(self, wanted: Wanted) -> None:
        self._board = Board(wanted.ids)
        self._kinds = wanted.kinds
        self._console = answers()

    def show(self, update: Update, place: QueuePosition | None) -> None:
        if self._board.take(update, place) and update.kind in self._kinds:
            self._console.print(plain_line(update, place), soft_wrap=True)


def as_json(update: Update, place: QueuePosition | None) -> dict[str, Any]:
    fields = plain(update)
    fields["job"] = None if update.job is None else job_as_json(update.job)
    return fields if place is None else {**fields, "place": place}


def plain_line(update: Update, place: QueuePosition | None = None) -> Text:
    """All that is needed to find it with grep: when, which, what kind, and what."""
    start = f"{stamp(update.at)} UTC {update.job_id} {update.job_type} {update.kind} "
    return text(start) + text(_said(update, place), _style(update))


def line_above(update: Update) -> Text:
    """The same for people, who see the bars below it."""
    local = update.at.astimezone()
    return Text.assemble(
        (f"{local:%H:%M:%S} {short_id(update.job_id)} ", "dim"),
        text(update.job_type, "bold"),
        " ",
        text(brief(_said(update), _LONGEST), _style(update)),
    )


def standing(job: Job, place: QueuePosition | None = None) -> str:
    """Where a job stands, on one line."""
    if job.ended:
        return _end(job)
    if job.status == "pending":
        return ", ".join(said for said in ("pending", describe_waiting(job, place)) if said)
    left = f"done in {left}" if (left := time_left(job)) else ""
    measured = ("", "") if job.record is None else (counted(job.record), speed(job.record))
    said = (f"{job.status} {percent(job):.0f}%", *measured, left, describe_running(job))
    return ", ".join(each for each in said if each)


def _said(update: Update, place: QueuePosition | None = None) -> str:
    if update.job is not None:
        return standing(update.job, place)
    names_attempt = update.kind == "status" and (update.attempt > 1 or (update.name == "pending" and update.attempt))
    return f"attempt {update.attempt} {in_words(update)}" if names_attempt else in_words(update)


def _end(job: Job) -> str:
    took = f" after {format_span(job.finished_at - job.started_at)}" if job.finished_at and job.started_at else ""
    why = f": {first_line(job.last_error)}" if job.status != "completed" and job.last_error else ""
    return f"{job.status}{took}{why}"


def _style(update: Update) -> str:
    return event_text.style_of(update) if update.job is None else style_of(update.job)
