"""The main screen: tables of types, jobs and workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Protocol

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.message import Message
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static

from howdah.cli.commands.top import job_types, jobs, plain, workers, workflows
from howdah.cli.commands.top.cells import Column, ordered
from howdah.cli.commands.top.dialogs import Remarks, StatusLine
from howdah.cli.commands.top.snapshot import FAILED, RUNNING, STALLED, WAITING, Rates, Snapshot, View
from howdah.cli.render.output import text
from howdah.cli.render.terminal_escape import terminal_escape
from howdah.model.job import Job

# Tables


class Row(Protocol):
    """A row: its key, and the text that a filter searches."""

    @property
    def key(self) -> str: ...

    @property
    def words(self) -> str: ...


class Grid(DataTable[Text]):
    """A table that can be sorted; the cursor stays on its row when that moves."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sort", "sort"),
        Binding("S", "turn", "reverse", key_display="S"),
    ]

    def __init__(self, columns: Sequence[Column[Any]], id: str) -> None:
        super().__init__(
            id=id,
            cursor_type="row",
            fixed_columns=1,
            # The colours have a meaning under the cursor, too.
            cursor_foreground_priority="renderable",
        )
        self._shape: Sequence[Column[Any]] = columns
        self._given: Sequence[Row] = ()
        self._placed: Sequence[Row] = ()
        self._sorted_by: str | None = None
        self._backwards = False

    @property
    def chosen(self) -> Any:
        """The row under the cursor; None in an empty table."""
        return self._placed[self.cursor_row] if 0 <= self.cursor_row < len(self._placed) else None

    def show(self, columns: Sequence[Column[Any]], rows: Sequence[Row], filter_text: str, title: Text) -> None:
        wanted = filter_text.casefold()
        self._shape = columns
        self._given = [row for row in rows if wanted in terminal_escape(row.words).casefold()]
        self.border_title = title
        self._fill()

    def action_sort(self) -> None:
        """By the next column; after the last one, unsorted."""
        titles = [None, *(column.title for column in self._shape)]
        place = titles.index(self._sorted_by) if self._sorted_by in titles else 0
        self._sorted_by, self._backwards = titles[(place + 1) % len(titles)], False
        self._fill()

    def action_turn(self) -> None:
        self._backwards = not self._backwards
        self._fill()

    def _fill(self) -> None:
        chosen, row, scrolled = self.chosen, self.cursor_row, self.scroll_offset
        self._placed = self._in_order()
        # Moved to the top without an event, before clear: a moving cursor would scroll the table.
        self.set_reactive(DataTable.cursor_coordinate, Coordinate(0, 0))
        self.clear(columns=True)
        self._fill_cells()
        self.scroll_to(scrolled.x, scrolled.y, animate=False, immediate=True)
        self._put_cursor(None if chosen is None else chosen.key, row)

    def _fill_cells(self) -> None:
        cells = [[_aligned(column.cell(row), column) for row in self._placed] for column in self._shape]
        for column, below in zip(self._shape, cells, strict=True):
            label = self._label(column)
            # Measured here: otherwise the table would draw its first frame too narrow.
            self.add_column(label, key=column.title, width=max(each.cell_len for each in (label, *below)))
        for row, across in zip(self._placed, zip(*cells, strict=True), strict=True):
            self.add_row(*across, key=row.key)

    def _in_order(self) -> Sequence[Row]:
        column = next((each for each in self._shape if each.title == self._sorted_by), None)
        if column is not None:
            return ordered(self._given, column, backwards=self._backwards)
        return self._given[::-1] if self._backwards else self._given

    def _put_cursor(self, key: str | None, before: int) -> None:
        keys = [row.key for row in self._placed]
        row = keys.index(key) if key in keys else max(min(before, len(keys) - 1), 0)
        if row == before:
            self.set_reactive(DataTable.cursor_coordinate, Coordinate(row, 0))
        else:
            self.move_cursor(row=row)

    def _label(self, column: Column[Any]) -> Text:
        if column.title != self._sorted_by:
            return _aligned(Text(column.title), column)
        return _aligned(Text(f"{column.title} {'▼' if column.number is not self._backwards else '▲'}"), column)


def _aligned(cell: Text, column: Column[Any]) -> Text:
    cell.justify = "right" if column.number else "left"
    cell.no_wrap = True
    return cell


# The screen

_HARMLESS: Final = r"[^\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]*"
"""The characters that the filter accepts: it is shown unescaped."""
_VIEWS: Final = {view.name: view for view in (RUNNING, STALLED, WAITING, FAILED)}


class Board(Screen[None]):
    """Shows the latest snapshot."""

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
        self._types = Grid(job_types.COLUMNS, "types")
        self._jobs = Grid(jobs.COLUMNS[RUNNING.name], "jobs")
        self._workflows = Grid(workflows.COLUMNS, "workflows")
        self._workers = Grid(workers.COLUMNS, "workers")
        self._filter = Input(
            placeholder="type, stage, worker or id", id="filter", select_on_focus=False, restrict=_HARMLESS
        )

    def compose(self) -> ComposeResult:
        yield self._banner
        yield Remarks()
        yield self._types
        yield self._jobs
        yield self._workflows
        yield self._workers
        yield self._filter
        yield StatusLine()
        yield Footer()

    def on_mount(self) -> None:
        self._filter.display = self._workflows.display = False
        self._types.focus()

    # Content

    def show(self, snapshot: Snapshot, rates: Rates) -> None:
        self._last = snapshot, rates
        view, wanted = snapshot.view.name, self._filter.value
        more = ", the newest of them" if snapshot.more else ""
        where = plain.place(self._where, self._schema, snapshot)
        self._banner.update(Text("\n").join((where, plain.totals(snapshot, rates))), layout=False)
        self._types.show(job_types.COLUMNS, job_types.rows_of(snapshot, rates), wanted, self._title("types"))
        self._jobs.show(jobs.COLUMNS[view], jobs.rows_of(snapshot), wanted, self._title(f"{view} jobs{more}"))
        self._show_workflows(workflows.rows_of(snapshot), wanted)
        self._workers.show(workers.COLUMNS, workers.rows_of(snapshot), wanted, self._title("workers"))

    def _show_workflows(self, rows: Sequence[workflows.Row], wanted: str) -> None:
        """Where no workflow runs, others have the room."""
        if not rows and self._workflows.has_focus:
            self._jobs.focus()
        self._workflows.display = bool(rows)
        self._workflows.show(workflows.COLUMNS, rows, wanted, self._title("running workflows"))

    def _title(self, name: str) -> Text:
        return Text(name) + (Text("  /", "bold") + text(self._filter.value, "bold") if self._filter.value else Text())

    def _show_again(self) -> None:
        if self._last is not None:
            self.show(*self._last)

    # Selection

    @property
    def job(self) -> Job | None:
        """The job under the cursor, if the cursor is in the table of jobs."""
        row: jobs.Row | None = self._jobs.chosen if self.focused is self._jobs else None
        return None if row is None else row.job

    @property
    def job_type(self) -> str | None:
        """The type under the cursor, or that of the job there."""
        if self.focused is self._types:
            row: job_types.Row | None = self._types.chosen
            return None if row is None else row.job_type
        return None if self.job is None else self.job.job_type

    def is_paused(self, job_type: str) -> bool:
        """According to the last snapshot."""
        counts = None if self._last is None else self._last[0].stats.get(job_type)
        return counts is not None and counts.paused

    @on(Grid.RowSelected)
    def _open(self, event: Grid.RowSelected) -> None:
        chosen: Any = event.data_table.chosen if isinstance(event.data_table, Grid) else None
        if isinstance(chosen, jobs.Row):
            self.post_message(self.JobChosen(chosen.job))
        elif chosen is not None and not isinstance(chosen, workflows.Row):
            self._filter.value = terminal_escape(chosen.key)

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
