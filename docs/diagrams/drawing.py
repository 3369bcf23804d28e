"""Boxes and arrows as SVG. They follow the reader's light or dark."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape

Place = tuple[float, float]

_LINE: Final = 16
_BOLD_CHARACTER: Final = 8
_STYLE: Final = (
    "text{font:13px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1f2328;text-anchor:middle}"
    ".paper{fill:#fff}.name{font-weight:600;font-size:14px}.faint{fill:#59636e;font-size:12px}"
    ".left{text-anchor:start}.right{text-anchor:end}.box{fill:#f2f5fa;stroke:#2f6fde;stroke-width:1.5}.end{fill:#eef8f2;stroke:#1a8a5a;stroke-width:1.5}"
    ".note{stroke:#8c959f}.group{fill:none;stroke:#8c959f;stroke-dasharray:4 4}.arrow{fill:none;stroke:#59636e;stroke-width:1.4}.tip{fill:#59636e}"
    ".bad{stroke:#c23b3b}.halo{stroke:#fff;stroke-width:5;paint-order:stroke;stroke-linejoin:round}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.paper{fill:#0d1117}.faint{fill:#9da7b3}.box{fill:#161d29;stroke:#6ea8fe}"
    ".end{fill:#12211a;stroke:#5fd39b}.arrow{stroke:#9da7b3}.tip{fill:#9da7b3}.bad{stroke:#ff8f8f}.halo{stroke:#0d1117}}"
)


@dataclasses.dataclass
class Drawing:
    """Things are drawn in the order in which they are added."""

    width: int
    height: int
    title: str
    parts: list[str] = dataclasses.field(default_factory=list)

    def box(self, at: Place, size: Place, *lines: str, kind: str = "box") -> None:
        """A box around a place, with a name and a text about it."""
        (x, y), (width, height) = at, size
        self.parts.append(
            f'<rect class="{kind}" x="{x - width / 2:g}" y="{y - height / 2:g}" width="{width:g}" height="{height:g}" rx="8"/>'
        )
        top = y - (len(lines) - 1) * _LINE / 2 + 5
        for n, line in enumerate(lines):
            self.text((x, top + n * _LINE), line, "name" if n == 0 else "faint")

    def text(self, at: Place, text: str, kind: str = "") -> None:
        self.parts.append(f'<text class="{kind}" x="{at[0]:g}" y="{at[1]:g}">{escape(text)}</text>')

    def lines(self, at: Place, lines: Sequence[str], kind: str = "") -> None:
        """One below the other, the first at this place."""
        for n, line in enumerate(lines):
            self.text((at[0], at[1] + n * _LINE), line, kind)

    def note(self, at: Place, text: str) -> None:
        """Words that stand upon a line, and hide it."""
        (x, y), width = at, len(text) * _BOLD_CHARACTER + 20
        self.parts.append(
            f'<rect class="paper note" x="{x - width / 2:g}" y="{y - 14:g}" width="{width:g}" height="28" rx="14"/>'
        )
        self.text((x, y + 5), text, "name")

    def path(self, d: str, *, tip: Place | None = None, angle: float = 0) -> None:
        """A line of any form, with or without a tip that points there."""
        self.parts.append(f'<path class="arrow" d="{d}"/>')
        if tip is not None:
            self._tip(tip, angle)

    def _tip(self, at: Place, angle: float) -> None:
        self.parts.append(
            f'<path class="tip" transform="translate({at[0]:g} {at[1]:g}) rotate({angle:.1f})" d="M0 0L-9 -4L-9 4Z"/>'
        )

    def arrow(self, start: Place, end: Place, *lines: str, bend: float = 0, kind: str = "", at: float = 0.5) -> None:
        """An arrow, bent to its left by so many points, with words in its middle or at another share of its way."""
        (x0, y0), (x1, y1) = start, end
        length = math.hypot(x1 - x0, y1 - y0) or 1
        # A quadratic curve goes half as far as its point of control.
        cx = (x0 + x1) / 2 + 2 * bend * (y1 - y0) / length
        cy = (y0 + y1) / 2 - 2 * bend * (x1 - x0) / length
        angle = math.degrees(math.atan2(y1 - cy, x1 - cx))
        self.parts.append(f'<path class="arrow {kind}" d="M{x0:g} {y0:g}Q{cx:.1f} {cy:.1f} {x1:g} {y1:g}"/>')
        self._tip(end, angle)
        mx = (1 - at) ** 2 * x0 + 2 * at * (1 - at) * cx + at**2 * x1
        my = (1 - at) ** 2 * y0 + 2 * at * (1 - at) * cy + at**2 * y1
        self.lines((mx, my - 6 - (len(lines) - 1) * _LINE), lines, "faint halo")

    def svg(self) -> str:
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}"'
            f' viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{escape(self.title)}"><style>{_STYLE}</style>'
            f'<rect class="paper" width="100%" height="100%" rx="6"/>' + "".join(self.parts) + "</svg>\n"
        )
