"""Numbers and spans, as the tables show them."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from rich.text import Text

from howdah.cli.arguments.duration import format_span
from howdah.cli.render.output import text

_BAR: Final = 8
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def count(value: int | None, style: str = "") -> Text:
    """A number of jobs; none of them is no news."""
    return Text() if value is None else Text(f"{value:,}", style if value else "dim")


def per_second(value: float | None) -> Text:
    """A rate; below one, its first digits are what counts."""
    if value is None:
        return Text()
    if value < 0.01:
        return Text("<0.01") if value else Text("0", "dim")
    return Text(f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < 100 else f"{value:,.0f}")


def seconds(value: float | None, style: str = "") -> Text:
    """A span of so many seconds."""
    return Text() if value is None else text(format_span(timedelta(seconds=min(value, 1e12))), style)


def bar(percent: float, style: str) -> Text:
    """How much of the whole is done, as a bar and in percent."""
    share = min(max(percent, 0.0), 100.0) / 100
    eighths = int(share * _BAR * 8)
    blocks = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
    return Text.assemble((f"{blocks:·<{_BAR}}", style), f" {int(share * 100):>3}%")
