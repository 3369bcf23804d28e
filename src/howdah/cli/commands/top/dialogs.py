"""The small parts of the screen: the lines around the tables, a question, and the help."""

from __future__ import annotations

from typing import ClassVar, Final

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from howdah.cli.render.output import text
from howdah.cli.render.terminal_escape import without_password

# Lines


class Remarks(Static):
    """Remarks about the screen itself; hidden if there are none."""

    def show(self, remarks: Text) -> None:
        # Only if it changed: a new layout is expensive.
        if remarks != self.content:
            self.display = bool(remarks)
            self.update(remarks)


class StatusLine(Static):
    """Shows the last message."""

    def say(self, message: str, style: str = "") -> None:
        self.update(text(without_password(message), style), layout=False)


# Questions


class Confirm(ModalScreen[bool]):
    """A question; every answer except y means no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes"),
        Binding("n,escape,q", "answer(False)", "no"),
    ]

    def __init__(self, question: Text) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        yield Static(self._question + Text("  y/n", "bold"), id="question")

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


# Help

_KEYS: Final = (
    ("tab", "next table; arrows, page up and page down move inside a table"),
    ("enter", "on a job: all its details; on a type or a worker: only its jobs"),
    ("s", "sort by the next column"),
    ("S", "reverse the order"),
    ("/", "filter by type, stage, worker or id"),
    ("escape", "clear the filter, then back to the running jobs; or close a screen"),
    ("f", "list the failed jobs, and back"),
    ("w", "list the waiting jobs, and back"),
    ("t", "list the stalled jobs, and back"),
    ("c", "cancel the job"),
    ("r", "retry the job, once it has ended"),
    ("p", "pause the type, or resume it"),
    ("+ -", "raise or lower the priority of a waiting job"),
    ("space", "freeze the screen, and continue"),
    ("q", "quit"),
)
_COLUMNS: Final = (
    ("later", "pending, but not due yet"),
    ("stalled", "running, but without a report for longer than usual"),
    ("oldest", "for how long the oldest due job has waited"),
    ("jobs/s", "jobs that ended in a second, over the last 10 seconds"),
    ("pace", "jobs that its workers end in a second while they are busy"),
    ("wait, run", "mean time from due to start, and mean run time"),
)


class Help(ModalScreen[None]):
    """Closed by any of the usual keys."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q,enter,space", "dismiss", "close")]

    def compose(self) -> ComposeResult:
        grid = Table.grid(padding=(0, 2, 0, 0))
        for key, meaning in _KEYS:
            grid.add_row(Text(key, "bold"), Text(meaning))
        grid.add_row()
        for column, meaning in _COLUMNS:
            grid.add_row(Text(column, "bold"), Text(meaning))
        with VerticalScroll(id="help"):
            yield Static(grid)
