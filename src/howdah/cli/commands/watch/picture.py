"""The view of a terminal: a bar for each job that has not ended, and events scrolling above them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from howdah.cli.commands.watch.lines import Bar, Board, line_above, whole_text
from howdah.cli.commands.watch.watcher import View, Wanted
from howdah.cli.render.event_text import brief, is_an_end
from howdah.cli.render.output import STATUS_STYLES, cut
from howdah.cli.render.progress import bar as bar_of
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
from howdah.cli.render.terminal_escape import presentable
from howdah.model.job import Job
from howdah.model.results import QueuePosition
from howdah.model.workflow import Workflow
from howdah.watch.watch import Update

_REDRAW_EVERY: Final = 0.5
"""Seconds after which it is drawn again without an update, because the time left changes."""
_ROOM_FOR_COUNTS: Final = 100
_LONGEST: Final = 300


class Picture(View):
    """A live view."""

    shows_places = True

    def __init__(self, console: Console, wanted: Wanted) -> None:
        super().__init__()
        self.board = Board(wanted.ids)
        self._kinds = wanted.kinds
        self._empty = "" if wanted.types is None else "no running job reports its progress"
        self._console = console
        self._lines: list[Text] = []
        self._drawn_at = 0.0
        self._is_new = True
        self._live = Live(
            get_renderable=self._picture,
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        self.enter_context(self._live)
        # Once more at the end, with the last updates.
        self.callback(self._draw)
        return self

    def show(self, update: Update, place: QueuePosition | None) -> None:
        is_news = self.board.take(update, place)
        state = update.workflow or update.job
        ends = is_an_end(update) or (state is not None and state.ended)
        if is_news and (ends or (update.kind != "progress" and update.kind in self._kinds)):
            self._lines.append(line_above(update))
        self._is_new = True

    def show_place(self, job_id: uuid.UUID, place: QueuePosition) -> None:
        if bar := self.board.bars.get(job_id):
            bar.place = place
            self._is_new = True

    def remark(self, said: str) -> None:
        self._lines.append(Text(f"howdah: {brief(presentable(said), _LONGEST)}", "yellow"))
        self._is_new = True

    def refresh(self) -> None:
        """Called ten times a second. Draws once, however many updates came."""
        if self._is_new or time.monotonic() > self._drawn_at + _REDRAW_EVERY:
            self._draw()

    def _draw(self) -> None:
        lines, self._lines = self._lines, []
        # In one write. The new picture first: what is printed then is printed with it, above it.
        with self._console:
            self._live.refresh()
            if lines:
                self._console.print(Group(*lines))
        self._is_new, self._drawn_at = False, time.monotonic()

    def _picture(self) -> RenderableType:
        if "progress" not in self._kinds:
            return ""
        return picture(self.board, self._console.width, self._console.height) or Text(self._empty, "dim")


def picture(board: Board, width: int, height: int) -> RenderableType | None:
    """The bars that there is room for; None if there are none."""
    # One line is for those that are not shown, and one for the cursor.
    bars, hidden = board.visible(height - (2 if board.whole is None else 3))
    if board.whole is not None:
        below = _bars(bars, hidden, width)
        return Group(_whole(board.whole), *([] if below is None else [below]))
    return _bars(bars, hidden, width)


def _whole(workflow: Workflow) -> Table:
    row = Table.grid(padding=(0, 1, 0, 0), expand=True)
    row.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    row.add_column(no_wrap=True)
    row.add_column(ratio=2)
    row.add_column(ratio=3, no_wrap=True, overflow="ellipsis")
    made = ProgressBar(total=100, completed=workflow.progress.percent, complete_style=STATUS_STYLES[workflow.status])
    said = cut(whole_text(workflow), STATUS_STYLES[workflow.status])
    row.add_row(cut(workflow.name, "bold"), Text(short_id(workflow.id), "dim"), made, said)
    return row


def _bars(bars: Sequence[Bar], hidden: int, width: int) -> RenderableType | None:
    if not bars:
        return Text(f"and {hidden:,} more", "dim") if hidden else None
    figures = [_figures(bar.job, with_counts=width >= _ROOM_FOR_COUNTS) for bar in bars]
    widths = [max(map(len, column)) for column in zip(*figures, strict=True)]
    grid = Table.grid(padding=(0, 1, 0, 0), expand=True)
    grid.add_column(no_wrap=True, overflow="ellipsis", max_width=max(width // 5, 8))
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for bar, cells in zip(bars, figures, strict=True):
        job = bar.job
        shown = _waiting(bar) if job.status == "pending" else _running(job, cells, widths)
        grid.add_row(cut(job.job_type, "bold"), Text(short_id(job.id), "dim"), shown)
    return Group(grid, Text(f"and {hidden:,} more", "dim")) if hidden else grid


def _figures(job: Job, *, with_counts: bool) -> tuple[str, ...]:
    """Percent, time left and, where there is room, counts and rate; each bar has as many."""
    if job.status == "pending":
        return ("", "", "", "") if with_counts else ("", "")
    measured = ("", "") if job.record is None else (counted(job.record), "" if job.stalled else speed(job.record))
    # Room that is needed sooner or later, so that bars do not change their lengths all the time.
    done, left = f"{percent(job):3.0f}%", f"{time_left(job):>5}"
    return (done, measured[0], f"{measured[1]:>5}", left) if with_counts else (done, left)


def _running(job: Job, cells: tuple[str, ...], widths: list[int]) -> Table:
    row = Table.grid(padding=(0, 1, 0, 0), expand=True)
    row.add_column(ratio=2)
    for width in widths:
        row.add_column(justify="right", no_wrap=True, width=width)
    row.add_column(ratio=3, no_wrap=True, overflow="ellipsis")
    row.add_row(bar_of(job), *map(Text, cells), cut(describe_running(job) or job.status, style_of(job)))
    return row


def _waiting(bar: Bar) -> Text:
    return cut(describe_waiting(bar.job, bar.place) or "pending", style_of(bar.job))
