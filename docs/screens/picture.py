"""A terminal's screen as an SVG: every cell has its place, whatever font the reader has."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar
from xml.sax.saxutils import escape

from pyte.screens import Char

T = TypeVar("T")

CELL_WIDTH: Final = 8.4
CELL_HEIGHT: Final = 19
_MARGIN: Final = 16
_TITLE_HEIGHT: Final = 36
_FONT_SIZE: Final = 14
_BASELINE: Final = 14

_INK: Final = "#d3d7de"
_PAPER: Final = "#14171c"
_FRAME: Final = "#22262e"
_EDGE: Final = "#3a404b"
_TITLE: Final = "#9aa3b2"
_BUTTONS: Final = ("#ec6a5e", "#f4bf4f", "#61c554")
_COLOURS: Final = {
    "black": "#3a404b",
    "red": "#ef7a7a",
    "green": "#86c98a",
    "brown": "#e5c07b",
    "blue": "#7aa7f0",
    "magenta": "#c792ea",
    "cyan": "#5fc9d8",
    "white": _INK,
    "brightblack": "#7d8694",
    "brightred": "#ff9494",
    "brightgreen": "#a5e0a8",
    "brightbrown": "#f3d79b",
    "brightblue": "#9cc0ff",
    "brightmagenta": "#dcb3f5",
    "brightcyan": "#8be3ee",
    "brightwhite": "#ffffff",
}
"""By the names that pyte has for them; what a program chose itself is in hexadecimal digits."""
_FAINTNESS: Final = 0.45

_EIGHTHS: Final = [n / 8 for n in range(1, 9)]
_BLOCKS: Final[dict[str, tuple[float, float, float, float]]] = {
    "─": (0, 0.5, 1, 0.06),
    "━": (0, 0.45, 1, 0.16),
    "╸": (0, 0.45, 0.5, 0.16),
    "╺": (0.5, 0.45, 0.5, 0.16),
    **{block: (0, 0.9 - 0.8 * part, 1, 0.8 * part) for block, part in zip("▁▂▃▄▅▆▇", _EIGHTHS, strict=False)},
    **{block: (0, 0.1, part, 0.8) for block, part in zip("▏▎▍▌▋▊▉█", _EIGHTHS, strict=True)},
}
"""What is drawn and not written, because fonts leave gaps: left, top, width and height in parts of a cell."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Look:
    """How some text looks."""

    ink: str
    bold: bool
    italic: bool
    underlined: bool

    def declaration(self) -> str:
        marks = {"font-weight:bold": self.bold, "font-style:italic": self.italic}
        marks["text-decoration:underline"] = self.underlined
        return ";".join([f"fill:{self.ink}", *(mark for mark, is_so in marks.items() if is_so)])


def svg(lines: Sequence[Sequence[Char]], title: str) -> str:
    """The picture of a screen, in a window with a title."""
    columns = max(map(len, lines), default=0)
    width, height = columns * CELL_WIDTH + 2 * _MARGIN, len(lines) * CELL_HEIGHT + _TITLE_HEIGHT + 2 * _MARGIN
    looks: dict[_Look, str] = {}
    drawn = [*_each(_backgrounds, lines), *_each(lambda number, line: _foregrounds(number, line, looks), lines)]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_number(width)}" height="{_number(height)}" role="img">',
        f"<title>{_escaped(title)}</title>",
        _style_sheet(looks),
        *_window(width, height, title),
        f'<g transform="translate({_MARGIN} {_TITLE_HEIGHT + _MARGIN})" shape-rendering="crispEdges">',
        *drawn,
        "</g>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _each(draw: Callable[[int, Sequence[Char]], Iterator[str]], lines: Sequence[Sequence[Char]]) -> Iterator[str]:
    return itertools.chain.from_iterable(draw(number, line) for number, line in enumerate(lines))


def _backgrounds(number: int, line: Sequence[Char]) -> Iterator[str]:
    for column, paper, cells in _runs(line, lambda cell: _colours(cell)[1]):
        if paper != _PAPER:
            yield _rectangle(column, number, len(cells), 1, paper)


def _foregrounds(number: int, line: Sequence[Char], looks: dict[_Look, str]) -> Iterator[str]:
    for column, (look, block), cells in _runs(line, lambda cell: (_look(cell), _BLOCKS.get(cell.data))):
        if block is None:
            name = looks.setdefault(look, f"s{len(looks)}")
            yield from _texts(number, column, cells, name)
        else:
            left, top, width, height = block
            yield _rectangle(column + left, number + top, len(cells) - 1 + width, height, look.ink)


def _runs(line: Sequence[Char], key: Callable[[Char], T]) -> Iterator[tuple[int, T, list[Char]]]:
    """Neighbours that are alike, and where they begin."""
    column = 0
    for value, group in itertools.groupby(line, key):
        cells = list(group)
        yield column, value, cells
        column += len(cells)


def _texts(number: int, column: int, cells: Sequence[Char], name: str) -> Iterator[str]:
    """Cut where there is more than one space, so that each part begins exactly where it belongs."""
    filled = "".join(" " if cell.data == " " else "x" for cell in cells)
    for part in re.finditer("x+(?: x+)*", filled):
        first, last = part.span()
        place = f'x="{_number((column + first) * CELL_WIDTH)}" y="{number * CELL_HEIGHT + _BASELINE}"'
        fit = f' textLength="{_number((last - first) * CELL_WIDTH)}"' if last - first > 1 else ""
        # The second half of a wide character has no text of its own.
        text = "".join(cell.data for cell in cells[first:last])
        yield f'<text class="{name}" {place}{fit}>{_escaped(text)}</text>'


def _look(cell: Char) -> _Look:
    # What cannot be seen makes no difference.
    if cell.data == " ":
        return _Look(_INK, False, False, False)
    return _Look(_colours(cell)[0], bool(cell.bold), bool(cell.italics), bool(cell.underscore))


def _colours(cell: Char) -> tuple[str, str]:
    """Of the ink, and of the paper."""
    ink, paper = _colour(cell.fg, _INK), _colour(cell.bg, _PAPER)
    if cell.reverse:
        ink, paper = paper, ink
    # Nothing blinks here: the terminal keeps by it what is faint.
    return _mixed(ink, paper) if cell.blink else ink, paper


def _colour(name: str, default: str) -> str:
    return default if name == "default" else _COLOURS.get(name, f"#{name}")


def _mixed(first: str, second: str) -> str:
    """The first colour, and a little of the second."""
    pairs = zip(bytes.fromhex(first[1:]), bytes.fromhex(second[1:]), strict=True)
    return "#" + bytes(round(a + (b - a) * _FAINTNESS) for a, b in pairs).hex()


def _rectangle(column: float, line: float, columns: float, lines: float, colour: str) -> str:
    x, y, width, height = column * CELL_WIDTH, line * CELL_HEIGHT, columns * CELL_WIDTH, lines * CELL_HEIGHT
    place = f'x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"'
    return f'<rect {place} fill="{colour}"/>'


def _style_sheet(looks: Mapping[_Look, str]) -> str:
    rules = [f".{name}{{{look.declaration()}}}" for look, name in looks.items()]
    font = "font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"
    return f"<style>text{{{font};font-size:{_FONT_SIZE}px}}{''.join(rules)}</style>"


def _window(width: float, height: float, title: str) -> Iterator[str]:
    inner = f'width="{_number(width - 1)}" height="{_number(height - 1)}" rx="9"'
    yield f'<rect x="0.5" y="0.5" {inner} fill="{_PAPER}" stroke="{_EDGE}"/>'
    top = f"M1 {_TITLE_HEIGHT}V9.5A8.5 8.5 0 0 1 9.5 1H{_number(width - 9.5)}A8.5 8.5 0 0 1 {_number(width - 1)} 9.5"
    yield f'<path d="{top}V{_TITLE_HEIGHT}Z" fill="{_FRAME}"/>'
    for number, colour in enumerate(_BUTTONS):
        yield f'<circle cx="{20 + 20 * number}" cy="{_TITLE_HEIGHT // 2}" r="6" fill="{colour}"/>'
    middle = f'x="{_number(width / 2)}" y="{_TITLE_HEIGHT // 2 + 5}" text-anchor="middle"'
    yield f'<text {middle} fill="{_TITLE}">{_escaped(title)}</text>'


def _escaped(text: str) -> str:
    """Fit for XML, which has no way to write a control character."""
    return escape(re.sub(r"[^\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text))


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
