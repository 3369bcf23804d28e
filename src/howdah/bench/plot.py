"""Charts as SVG, for a page or a README: bars with their spread, and lines. They follow the reader's light or dark."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias
from xml.sax.saxutils import escape, quoteattr

from howdah.bench.measured import shown
from howdah.bench.scale import Scale

Bar: TypeAlias = tuple[str, float, float, float, str]
"""A label, the median, the lowest, the highest, and the group, which has a colour of its own; "" where there is one only."""
Point: TypeAlias = tuple[float, float]
Span: TypeAlias = tuple[str, float, float, str]
"""A label, from when, until when, and what it was."""

_WIDTH: Final = 760
_MARGIN: Final = 20
_TITLE_HEIGHT: Final = 34
_LEGEND_HEIGHT: Final = 24
_AXIS_HEIGHT: Final = 44
_ROW_HEIGHT: Final = 28
_BAR_HEIGHT: Final = 16
_CAP: Final = 4
_PLOT_HEIGHT: Final = 280
_CHARACTER: Final = 7.2
"""About the width of one, at the size of labels: what draws the text is not known here."""
_WIDEST_LABEL: Final = 320
_THINNEST: Final = 3.0
_FEW_POINTS: Final = 40
"""More of them would hide the line that they are on."""

_COLOURS: Final = (
    ("#2f6fde", "#6ea8fe"),
    ("#d9720a", "#ffb15c"),
    ("#1a8a5a", "#5fd39b"),
    ("#b83280", "#f08cc0"),
    ("#6b57c9", "#b3a4ff"),
    ("#8a6d00", "#e3c44d"),
    ("#0c7c92", "#5ccfe6"),
    ("#c23b3b", "#ff8f8f"),
)
"""For light and for dark pages. They begin again where there are more groups."""

_STYLE: Final = (
    "text{font:13px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1f2328}"
    ".title{font-size:16px;font-weight:600}.faint{fill:#59636e}.small{font-size:12px}"
    ".paper{fill:#ffffff}.grid{stroke:#d8dee4}.spread{stroke:#1f2328;stroke-width:1.5}.mark{stroke:#8c959f;stroke-dasharray:2 3}"
    + "".join(f".c{n}{{fill:{light}}}.s{n}{{stroke:{light}}}" for n, (light, _) in enumerate(_COLOURS))
    + "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.faint{fill:#9da7b3}.paper{fill:#0d1117}"
    ".grid{stroke:#30363d}.spread{stroke:#e6edf3}"
    + "".join(f".c{n}{{fill:{dark}}}.s{n}{{stroke:{dark}}}" for n, (_, dark) in enumerate(_COLOURS))
    + "}"
)


def bars(title: str, unit: str, rows: Sequence[Bar]) -> str:
    """A bar for each row, with its spread and its value."""
    return document(title, [bar_panel(title, unit, rows)])


def lines(
    title: str,
    x_label: str,
    y_label: str,
    series: Mapping[str, Sequence[Point]],
    *,
    log_x: bool = False,
    log_y: bool = False,
) -> str:
    """A line for each series, in a colour of its own."""
    return document(title, [line_panel(title, x_label, y_label, series, log_x=log_x, log_y=log_y)])


@dataclasses.dataclass(frozen=True, slots=True)
class Panel:
    """One chart of a document: so high, and drawn from its upper edge down."""

    title: str
    height: float
    elements: tuple[str, ...]


def document(title: str, panels: Sequence[Panel]) -> str:
    """The SVG of some charts, one below the other. A title that none of them has stands above them."""
    drawn, top = [], float(_MARGIN)
    if all(panel.title != title for panel in panels):
        drawn.append(_text(_MARGIN, top + 18, title, "faint"))
        top += _TITLE_HEIGHT
    height = top + sum(panel.height for panel in panels) + _MARGIN
    for panel in panels:
        drawn += [f'<g transform="translate(0 {_number(top)})">', *panel.elements, "</g>"]
        top += panel.height
    size = f'width="{_WIDTH}" height="{_number(height)}" viewBox="0 0 {_WIDTH} {_number(height)}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label={quoteattr(_clean(title))}>',
            f"<title>{_text_of(title)}</title>",
            f"<style>{_STYLE}</style>",
            '<rect class="paper" width="100%" height="100%"/>',
            *drawn,
            "</svg>\n",
        ]
    )


# Bars


def bar_panel(title: str, unit: str, rows: Sequence[Bar]) -> Panel:
    if not rows:
        raise ValueError("there is nothing to draw")
    classes = _classes(group for *_, group in rows)
    legend, top = _head(title, classes)
    left = _MARGIN + min(max(len(label) for label, *_ in rows) * _CHARACTER, _WIDEST_LABEL) + 10
    bottom = top + len(rows) * _ROW_HEIGHT
    scale = Scale.over((number for row in rows for number in row[1:4]), left, _WIDTH - _MARGIN - 70)
    axis = _x_axis(scale, top, bottom, unit)
    drawn = [
        element
        for number, row in enumerate(rows)
        for element in _bar(row, unit, classes[row[4]], scale, top + number * _ROW_HEIGHT)
    ]
    return Panel(title, bottom + _AXIS_HEIGHT, (*legend, *axis, *drawn))


def _bar(row: Bar, unit: str, colour: int, scale: Scale, top: float) -> list[str]:
    label, median, low, high, group = row
    middle, end, zero = top + _ROW_HEIGHT / 2, scale.at(median), scale.at(0)
    said = f"{label}: {shown(median)} {unit}, from {shown(low)} to {shown(high)}" + (f" ({group})" if group else "")
    place = f'x="{_number(min(zero, end))}" y="{_number(middle - _BAR_HEIGHT / 2)}" width="{_number(abs(end - zero))}"'
    return [
        _text(scale.start - 10, middle + 4, label, anchor="end"),
        f'<rect class="c{colour}" {place} height="{_BAR_HEIGHT}" rx="2"><title>{_text_of(said)}</title></rect>',
        *_spread(scale.at(low), scale.at(high), middle),
        _text(max(end, scale.at(high), zero) + 8, middle + 4, shown(median)),
    ]


def _spread(low: float, high: float, middle: float) -> list[str]:
    """From the lowest to the highest, with a cap at each end."""
    if low == high:
        return []
    return [
        _line("spread", low, middle, high, middle),
        _line("spread", low, middle - _CAP, low, middle + _CAP),
        _line("spread", high, middle - _CAP, high, middle + _CAP),
    ]


# Lines


def line_panel(
    title: str,
    x_label: str,
    y_label: str,
    series: Mapping[str, Sequence[Point]],
    *,
    log_x: bool = False,
    log_y: bool = False,
    x: Scale | None = None,
    marks: Sequence[float] = (),
) -> Panel:
    """``x``: the scale that it shares with other panels. ``marks``: where something happened, as lines from top to bottom."""
    points = [point for each in series.values() for point in each]
    if not points:
        raise ValueError("there is nothing to draw")
    classes = _classes(series)
    legend, top = _head(title, classes)
    # The label of the vertical axis stands above it.
    top += 28
    bottom = top + _PLOT_HEIGHT
    vertical = Scale.over((y for _, y in points), bottom, top, log=log_y)
    left = _MARGIN + max(len(_tick(tick)) for tick in vertical.ticks) * _CHARACTER + 10
    horizontal = x or Scale.over((x for x, _ in points), left, _WIDTH - _MARGIN - 30, log=log_x)
    drawn = [
        element
        for name, each in series.items()
        for element in _curve(name, sorted(each), classes[name], horizontal, vertical)
    ]
    axes = (*_x_axis(horizontal, top, bottom, x_label), *_y_axis(vertical, horizontal.start, horizontal.end, y_label))
    lines = [_line("mark", horizontal.at(mark), top, horizontal.at(mark), bottom) for mark in marks]
    return Panel(title, bottom + _AXIS_HEIGHT, (*legend, *axes, *lines, *drawn))


def _curve(name: str, points: Sequence[Point], colour: int, horizontal: Scale, vertical: Scale) -> list[str]:
    places = [(_number(horizontal.at(x)), _number(vertical.at(y))) for x, y in points]
    path = " ".join(f"{x},{y}" for x, y in places)
    radius = 3.5 if len(points) <= _FEW_POINTS else 1.5
    dots = [
        f'<circle class="c{colour}" cx="{left}" cy="{top}" r="{radius}">'
        f"<title>{_text_of(f'{name}: {shown(y)} at {_tick(x)}')}</title></circle>"
        for (left, top), (x, y) in zip(places, points, strict=True)
    ]
    return [f'<polyline class="s{colour}" fill="none" stroke-width="2" points="{path}"/>', *dots]


# Spans


def span_panel(title: str, x_label: str, spans: Sequence[Span], x: Scale) -> Panel:
    """A row for each label: what happened, when, and for how long."""
    classes = _classes(label for label, *_ in spans)
    top = float(_TITLE_HEIGHT)
    bottom = top + len(classes) * _ROW_HEIGHT
    drawn = [_text(_MARGIN, 18, title, "title"), *_x_axis(x, top, bottom, x_label)]
    for row, label in enumerate(classes):
        drawn.append(_text(x.start - 10, top + (row + 0.5) * _ROW_HEIGHT + 4, label, anchor="end"))
    for label, begin, end, said in spans:
        middle = top + (classes[label] + 0.5) * _ROW_HEIGHT
        width = max(x.at(end) - x.at(begin), _THINNEST)
        place = f'x="{_number(x.at(begin))}" y="{_number(middle - _BAR_HEIGHT / 2)}" width="{_number(width)}"'
        drawn.append(
            f'<rect class="c{classes[label]}" {place} height="{_BAR_HEIGHT}" rx="1"><title>{_text_of(said)}</title></rect>'
        )
    return Panel(title, bottom + _AXIS_HEIGHT, tuple(drawn))


def time_scale(values: Iterable[float], label: float = 90) -> Scale:
    """For panels one below the other that share it: all of them begin where there is room for labels."""
    return Scale.until(max(values), _MARGIN + label, _WIDTH - _MARGIN - 30)


# What all have


def _head(title: str, classes: Mapping[str, int]) -> tuple[list[str], float]:
    """The title and, where there are several groups, which colour is whose. Returns where the rest begins, too."""
    drawn, top = [_text(_MARGIN, 18, title, "title")], float(_TITLE_HEIGHT)
    if len(classes) < 2:
        return drawn, top
    left = float(_MARGIN)
    for name, colour in classes.items():
        width = 18 + len(name) * _CHARACTER + 18
        if left > _MARGIN and left + width > _WIDTH - _MARGIN:
            left, top = float(_MARGIN), top + _LEGEND_HEIGHT
        drawn.append(f'<rect class="c{colour}" x="{_number(left)}" y="{_number(top)}" width="12" height="12" rx="2"/>')
        drawn.append(_text(left + 18, top + 11, name))
        left += width
    return drawn, top + _LEGEND_HEIGHT


def _x_axis(scale: Scale, top: float, bottom: float, label: str) -> list[str]:
    drawn = []
    for tick in scale.ticks:
        drawn.append(_line("grid", scale.at(tick), top, scale.at(tick), bottom))
        drawn.append(_text(scale.at(tick), bottom + 16, _tick(tick), "faint small", anchor="middle"))
    return [*drawn, _text(scale.end, bottom + 34, label, "faint", anchor="end")]


def _y_axis(scale: Scale, left: float, right: float, label: str) -> list[str]:
    drawn = []
    for tick in scale.ticks:
        drawn.append(_line("grid", left, scale.at(tick), right, scale.at(tick)))
        drawn.append(_text(left - 8, scale.at(tick) + 4, _tick(tick), "faint small", anchor="end"))
    return [*drawn, _text(_MARGIN, scale.end - 14, label, "faint")]


def _classes(groups: Iterable[str]) -> dict[str, int]:
    """The colour of each group, by its number, in the order in which they come."""
    return {group: number % len(_COLOURS) for number, group in enumerate(dict.fromkeys(groups))}


def _text(x: float, y: float, text: str, style: str = "", *, anchor: str = "start") -> str:
    looks = (f' class="{style}"' if style else "") + (f' text-anchor="{anchor}"' if anchor != "start" else "")
    return f'<text{looks} x="{_number(x)}" y="{_number(y)}">{_text_of(text)}</text>'


def _line(style: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{style}" x1="{_number(x1)}" y1="{_number(y1)}" x2="{_number(x2)}" y2="{_number(y2)}"/>'


def _tick(value: float) -> str:
    return f"{value:,.10g}"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _text_of(text: str) -> str:
    return escape(_clean(text))


def _clean(text: str) -> str:
    """Without what no XML may hold."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)
