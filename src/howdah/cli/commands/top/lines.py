"""The lines around the tables: what is the matter, and what came of the last action."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import Static

from howdah.cli.render.output import text
from howdah.cli.render.terminal_escape import without_password


class Remarks(Static):
    """What one must know of the screen itself; where that is nothing, it takes no room."""

    def show(self, remarks: Text) -> None:
        # Said once: a layout that is made anew is dear.
        if remarks != self.content:
            self.display = bool(remarks)
            self.update(remarks)


class StatusLine(Static):
    """Says one thing, until it says another."""

    def say(self, message: str, style: str = "") -> None:
        self.update(text(without_password(message), style), layout=False)
