"""A screen of ``howdah top`` that a test looks at and presses keys on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

from textual.coordinate import Coordinate
from textual.pilot import Pilot
from textual.widgets import DataTable, Input

from howdah import JobQueue
from howdah.cli.commands.top.app import Top
from howdah.cli.commands.top.dialogs import Remarks, StatusLine
from howdah.cli.commands.top.snapshot import RUNNING, take

PATIENCE = 120.0
SIZE = (160, 50)
EVERY = timedelta(milliseconds=200)


class Seen:
    """What a user sees, and what a user presses."""

    def __init__(self, app: Top, pilot: Pilot[int]) -> None:
        self.app = app
        self._pilot = pilot

    @property
    def text(self) -> str:
        """The whole screen, as it was drawn."""
        return "\n".join(strip.text.rstrip() for strip in self.app.screen._compositor.render_strips())

    @property
    def status(self) -> str:
        return str(self.app.board.query_one(StatusLine).render())

    @property
    def remarks(self) -> str:
        return str(self.app.board.query_one(Remarks).render())

    def table(self, name: str) -> list[dict[str, str]]:
        """The rows of a table, by the titles of its columns."""
        table = self.app.board.query_one(f"#{name}", DataTable)
        titles = [column.label.plain for column in table.ordered_columns]
        rows = [table.get_row_at(index) for index in range(table.row_count)]
        return [dict(zip(titles, (cell.plain for cell in row), strict=True)) for row in rows]

    def column(self, name: str, title: str) -> list[str]:
        return [row[title] for row in self.table(name)]

    def chosen(self, name: str) -> str:
        """What the first column has under the cursor."""
        table = self.app.board.query_one(f"#{name}", DataTable)
        return str(table.get_cell_at(Coordinate(table.cursor_row, 0)).plain)

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)

    async def filter(self, words: str) -> None:
        await self.press("slash")
        self.app.board.query_one(Input).insert_text_at_cursor(words)

    async def until(self, condition: Callable[[], Any], what: str) -> None:
        """Looks whenever the application has come to rest."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not condition():
                    await self._pilot.pause()
        except TimeoutError:
            raise AssertionError(f"in vain waited for: {what}\n{self.text}") from None

    async def until_seen(self, *words: str) -> None:
        await self.until(lambda: all(word in self.text for word in words), f"{words}")


@contextlib.asynccontextmanager
async def opened(
    queue: JobQueue, *, readonly: bool = False, limit: int = 200, size: tuple[int, int] = SIZE
) -> AsyncIterator[Seen]:
    first = take(queue, RUNNING, limit)
    app = Top(queue, first, "ann@db.example.org/jobs", every=EVERY, limit=limit, readonly=readonly)
    async with app.run_test(size=size) as pilot:
        yield Seen(app, pilot)
