"""The screen of one job, which follows it."""

from __future__ import annotations

import collections
import uuid
from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static

from howdah.cli.commands.top.description import Known, describe
from howdah.cli.commands.top.lines import Remarks, StatusLine
from howdah.model.event import Event
from howdah.model.job import Job
from howdah.queue import JobQueue

_LAST: Final = 30


class Details(Screen[None]):
    """Everything about a job that helps now; ``howdah show`` has the rest."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,backspace", "dismiss", "back")]

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job = job
        self._reader = Reader(job.id)
        self._shown = Static(Text("…"), id="description")

    def compose(self) -> ComposeResult:
        yield Remarks()
        with VerticalScroll():
            yield self._shown
        yield StatusLine()
        yield Footer()

    def read(self, queue: JobQueue) -> Known:
        """What is known now. Off the screen's thread."""
        return self._reader.read(queue)

    def show(self, known: Known) -> None:
        self.job = known.job
        self._shown.update(describe(known))


class Reader:
    """Reads what is new of a job, and of its events the last ones, however many there are."""

    def __init__(self, job_id: uuid.UUID) -> None:
        self._id = job_id
        self._events: collections.deque[Event] = collections.deque(maxlen=_LAST)

    def read(self, queue: JobQueue) -> Known:
        job = queue.get(self._id)
        place = queue.queue_position(job) if job.status == "pending" else None
        after = self._events[-1].seq if self._events else 0
        self._events.extend(queue.events(job, after=after, last=_LAST))
        return Known(job, place, tuple(self._events))
