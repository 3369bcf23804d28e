"""Charts as SVG, drawn by matplotlib: bars with their spread, lines, and what happened when.

They have no background, and grey text that can be read on light and dark pages.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from howdah.cli.commands.bench.figures import shown

Bar: TypeAlias = tuple[str, float, float, float, str]
"""A label, the median, the lowest, the highest, and the group, which has a colour of its own."""
Point: TypeAlias = tuple[float, float]

_GREY: Final = "#7d8590"
_STYLE: Final[dict[Any, Any]] = {
    "axes.edgecolor": _GREY,
    "axes.grid": True,
    "axes.labelcolor": _GREY,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": _GREY,
    "axes.titlelocation": "left",
    "font.family": "sans-serif",
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "legend.labelcolor": _GREY,
    "savefig.transparent": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "howdah",
    "text.color": _GREY,
    "xtick.color": _GREY,
    "ytick.color": _GREY,
}
_WIDTH: Final = 8.0


class Chart:
    """A figure of panels, one below the other, and in the end its SVG."""

    def __init__(self, heights: Sequence[float]) -> None:
        self._figure = Figure(figsize=(_WIDTH, sum(heights)), layout="constrained")
        rows = self._figure.subplots(len(heights), squeeze=False, gridspec_kw={"height_ratios": list(heights)})
        self.panels: list[Axes] = [row[0] for row in rows]
        self.svg = ""

    def save(self) -> None:
        out = io.StringIO()
        self._figure.savefig(out, format="svg", metadata={"Date": None})
        self.svg = out.getvalue()


@contextmanager
def chart(*heights: float) -> Iterator[Chart]:
    """Its ``svg`` is there when the block has ended. Heights are in inches."""
    with mpl.rc_context(_STYLE):
        made = Chart(heights)
        yield made
        made.save()


def bars(title: str, unit: str, rows: Sequence[Bar]) -> str:
    """A bar for each row, with its spread and its value."""
    groups = list(dict.fromkeys(group for *_, group in rows))
    with chart(1.0 + 0.32 * len(rows)) as made:
        (panel,) = made.panels
        panel.set_title(title)
        for number, (_, median, low, high, group) in enumerate(rows):
            colour = f"C{groups.index(group)}"
            panel.barh(number, median, color=colour, xerr=[[median - low], [high - median]], ecolor=_GREY, capsize=3)
            panel.annotate(shown(median), (max(median, high), number), (6, 0), textcoords="offset points", va="center")
        panel.set_yticks(range(len(rows)), [label for label, *_ in rows])
        panel.invert_yaxis()
        panel.grid(visible=False, axis="y")
        panel.margins(x=0.12)
        panel.set_xlabel(unit, loc="right")
        if len(groups) > 1:
            handles = [mpl.patches.Patch(color=f"C{number}", label=group) for number, group in enumerate(groups)]
            panel.legend(handles=handles, loc="lower right")
    return made.svg


def lines(title: str, x_label: str, y_label: str, series: Mapping[str, Sequence[Point]]) -> str:
    """A line for each series."""
    with chart(3.6) as made:
        draw_lines(made.panels[0], title, y_label, series)
        made.panels[0].set_xlabel(x_label, loc="right")
    return made.svg


def draw_lines(
    panel: Axes, title: str, y_label: str, series: Mapping[str, Sequence[Point]], *, log: bool = False
) -> None:
    panel.set_title(title)
    panel.set_ylabel(y_label)
    for name, points in series.items():
        xs, ys = zip(*sorted(points), strict=True)
        panel.plot(xs, ys, marker="o" if len(points) <= 40 else "", markersize=4, label=name)
    if log:
        panel.set_yscale("log")
    else:
        panel.set_ylim(bottom=0)
    if len(series) > 1:
        panel.legend()
