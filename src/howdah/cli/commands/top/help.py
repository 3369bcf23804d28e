"""The keys, and what they do."""

from __future__ import annotations

from typing import ClassVar, Final

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

_KEYS: Final = (
    ("tab", "from table to table; arrows, page up and page down inside of one"),
    ("enter", "on a job: everything that is known of it; on a lane or a worker: only what belongs to it"),
    ("s", "sort by the next column"),
    ("S", "turn the order around"),
    ("/", "filter by type, stage, worker or id"),
    ("escape", "no filter, and the running jobs again; or back from where you are"),
    ("f", "list the failed jobs, and back"),
    ("w", "list the waiting jobs, and back"),
    ("t", "list the stalled jobs, and back"),
    ("c", "cancel the job"),
    ("r", "retry the job, once it has ended"),
    ("p", "pause the type, or resume it"),
    ("+ -", "raise or lower the priority of a waiting job"),
    ("space", "freeze the screen, and go on"),
    ("q", "quit"),
)
_COLUMNS: Final = (
    ("later", "pending, but not due yet"),
    ("stalled", "running, but silent for longer than its habit"),
    ("oldest", "for how long the first of the due jobs has waited"),
    ("jobs/s", "how many have ended in a second, lately"),
    ("pace", "how many its workers end in a second while there are any"),
    ("wait, run", "how long a job is due before it starts, and how long it runs, in the mean"),
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
