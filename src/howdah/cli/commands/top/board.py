"""The main screen: lanes, jobs and workers."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer, Input, Static

from howdah.cli.commands.top import banner, jobs, lanes, workers
from howdah.cli.commands.top.grid import Grid
from howdah.cli.commands.top.lines import Remarks, StatusLine
from howdah.cli.commands.top.rates import Rates
from howdah.cli.commands.top.snapshot import Snapshot
from howdah.cli.commands.top.view import FAILED, RUNNING, STALLED, WAITING, View
from howdah.cli.render.output import text
from howdah.cli.render.terminal_escape import safe
from howdah.model.job import Job

_HARMLESS: Final = r"[^\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]*"
"""What may be pasted into the filter: it is shown as it is."""
_VIEWS: Final = {view.name: view for view in (RUNNING, STALLED, WAITING, FAILED)}


class Board(Screen[None]):
    """Shows one snapshot after the other."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("f", "view('failed')", "failed"),
        Binding("w", "view('waiting')", "waiting"),
        Binding("t", "view('stalled')", "stalled"),
        Binding("escape", "back", "all", show=False),
    ]

    class ViewChosen(Message):
        """Other jobs are to be listed."""

    class JobChosen(Message):
        """The details of a job are wanted."""

        def __init__(self, job: Job) -> None:
            super().__init__()
            self.job = job

    def __init__(self, where: str, schema: str) -> None:
        super().__init__()
        self.view: View = RUNNING
        self._where = where
        self._schema = schema
        self._last: tuple[Snapshot, Rates] | None = None
        self._banner = Static(id="banner")
        self._lanes = Grid(lanes.COLUMNS, "lanes")
        self._jobs = Grid(jobs.COLUMNS[RUNNING.name], "jobs")
        self._workers = Grid(workers.COLUMNS, "workers")
        self._filter = Input(
            placeholder="type, stage, worker or id", id="filter", select_on_focus=False, restrict=_HARMLESS
        )

    def compose(self) -> ComposeResult:
        yield self._banner
        yield Remarks()
        yield self._lanes
        yield self._jobs
        yield self._workers
        yield self._filter
        yield StatusLine()
        yield Footer()

    def on_mount(self) -> None:
        self._filter.display = False
        self._lanes.focus()

    # What is shown

    def show(self, snapshot: Snapshot, rates: Rates) -> None:
        self._last = snapshot, rates
        view, wanted = snapshot.view.name, self._filter.value
        more = ", the newest of them" if snapshot.more else ""
        where = banner.place(self._where, self._schema, snapshot)
        self._banner.update(Text("\n").join((where, banner.totals(snapshot, rates))), layout=False)
        self._lanes.show(lanes.COLUMNS, lanes.lanes_of(snapshot, rates), wanted, self._title("lanes"))
        self._jobs.show(jobs.COLUMNS[view], jobs.rows_of(snapshot), wanted, self._title(f"{view} jobs{more}"))
        self._workers.show(workers.COLUMNS, workers.rows_of(snapshot), wanted, self._title("workers"))

    def _title(self, name: str) -> Text:
        return Text(name) + (Text("  /", "bold") + text(self._filter.value, "bold") if self._filter.value else Text())

    def _show_again(self) -> None:
        if self._last is not None:
            self.show(*self._last)

    # What is chosen

    @property
    def job(self) -> Job | None:
        """The job under the cursor, where the cursor is among the jobs."""
        row: jobs.Row | None = self._jobs.chosen if self.focused is self._jobs else None
        return None if row is None else row.job

    @property
    def job_type(self) -> str | None:
        """The type under the cursor: a lane, or that of a job."""
        if self.focused is self._lanes:
            lane: lanes.Lane | None = self._lanes.chosen
            return None if lane is None else lane.job_type
        return None if self.job is None else self.job.job_type

    def is_paused(self, job_type: str) -> bool:
        """Whether it is, as far as is known here."""
        counts = None if self._last is None else self._last[0].stats.get(job_type)
        return counts is not None and counts.paused

    @on(Grid.RowSelected)
    def _open(self, event: Grid.RowSelected) -> None:
        chosen: Any = event.data_table.chosen if isinstance(event.data_table, Grid) else None
        if isinstance(chosen, jobs.Row):
            self.post_message(self.JobChosen(chosen.job))
        elif chosen is not None:
            self._filter.value = safe(chosen.key)

    # Keys

    def action_view(self, name: str) -> None:
        self.view = RUNNING if self.view.name == name else _VIEWS[name]
        self._jobs.focus()
        self.post_message(self.ViewChosen())

    def action_filter(self) -> None:
        self._filter.display = True
        self._filter.focus()

    def action_back(self) -> None:
        """Undoes one thing: the filter, else the view."""
        if self._filter.value or self._filter.display:
            self._filter.value = ""
            self._close_filter()
        elif self.view is not RUNNING:
            self.action_view(self.view.name)

    @on(Input.Changed, "#filter")
    def _narrow(self) -> None:
        self._show_again()

    @on(Input.Submitted, "#filter")
    def _close_filter(self) -> None:
        self._filter.display = False
        if self.focused in (None, self._filter):
            self._jobs.focus()
