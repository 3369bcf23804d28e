"""A table on the screen, that can be sorted and keeps its place when it is filled anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.widgets import DataTable

from howdah.cli.commands.top.column import Column, ordered
from howdah.cli.render.terminal_escape import safe


class Row(Protocol):
    """A row: what it is known by, and where a filter looks."""

    @property
    def key(self) -> str: ...

    @property
    def words(self) -> str: ...


class Grid(DataTable[Text]):
    """A table of rows; the cursor stays on its row, wherever that moves."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sort", "sort"),
        Binding("S", "turn", "reverse", key_display="S"),
    ]

    def __init__(self, columns: Sequence[Column[Any]], id: str) -> None:
        super().__init__(
            id=id,
            cursor_type="row",
            fixed_columns=1,
            # The colours mean something under the cursor too.
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
        self._given = [row for row in rows if wanted in safe(row.words).casefold()]
        self.border_title = title
        self._fill()

    def action_sort(self) -> None:
        """By the next column; after the last one, as they came."""
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
        # It stands at the top already, for clear: a cursor that is seen to move would take the window with it.
        self.set_reactive(DataTable.cursor_coordinate, Coordinate(0, 0))
        self.clear(columns=True)
        self._fill_cells()
        self.scroll_to(scrolled.x, scrolled.y, animate=False, immediate=True)
        self._put_cursor(None if chosen is None else chosen.key, row)

    def _fill_cells(self) -> None:
        cells = [[_aligned(column.cell(row), column) for row in self._placed] for column in self._shape]
        for column, below in zip(self._shape, cells, strict=True):
            label = self._label(column)
            # Measured here and now: left to the table, a first frame would be drawn too narrow.
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
