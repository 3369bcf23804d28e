"""Progress as a bar, and its history as a sparkline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.progress_bar import ProgressBar
from rich.text import Text

from howdah.cli.render.output import STATUS_STYLES
from howdah.cli.render.progress_text import percent
from howdah.model.job import Job
from howdah.model.progress import Point

_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_WIDEST: Final = 40
_STALLED: Final = "yellow"


def style_of(job: Job) -> str:
    return _STALLED if job.stalled else STATUS_STYLES[job.status]


def bar(job: Job, width: int | None = None) -> ProgressBar:
    """The progress of the job."""
    return ProgressBar(
        total=100,
        completed=percent(job),
        width=width,
        complete_style=style_of(job),
        finished_style=STATUS_STYLES["completed"],
    )


def sparkline(history: Sequence[Point], width: int = _WIDEST) -> Text:
    """The progress over time; a new attempt begins at zero."""
    if not history:
        return Text()
    begin = history[0].at
    step = (history[-1].at - begin) / max(width - 1, 1)
    if not step:
        return Text(_block(history[-1].percent))
    heights: list[str] = []
    seen = iter((*history[1:], None))
    last, following = history[0], next(seen)
    for column in range(width):
        # Half a step of grace: the last point belongs to the last column, however the division was rounded.
        while following is not None and following.at <= begin + step * (column + 0.5):
            last, following = following, next(seen, None)
        heights.append(_block(last.percent))
    return Text("".join(heights))


def _block(done: float) -> str:
    return _BLOCKS[min(int(done / 100 * len(_BLOCKS)), len(_BLOCKS) - 1)]
