"""Charts as SVG: the server computes the points, the template draws them, and a table beside each has the same figures."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from howdah.model.job import Job
from howdah.web import metrics, words
from howdah.web.metrics import Slot, Span, quantile

WIDTH: Final = 560
HEIGHT: Final = 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 6, 8, 20
_MOST_ROWS: Final = 15


@dataclasses.dataclass(frozen=True, slots=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A line; ``path`` is its SVG path. Gaps have no figures."""

    name: str
    kind: str
    path: str


@dataclasses.dataclass(frozen=True, slots=True)
class Mark:
    """A label at an axis."""

    at: float
    text: str
    is_end: bool = False
    """Whether the text ends there."""


@dataclasses.dataclass(frozen=True, slots=True)
class Chart:
    """A chart, ready to be drawn. ``summary`` says in words what it shows."""

    id: str
    title: str
    summary: str
    bars: Sequence[Bar] = ()
    lines: Sequence[Line] = ()
    rows: Sequence[Mark] = ()
    columns: Sequence[Mark] = ()
    legend: Sequence[tuple[str, str]] = ()
    heads: Sequence[str] = ()
    table: Sequence[Sequence[str]] = ()
    is_empty: bool = False
    left: int = _LEFT
    width: int = WIDTH
    height: int = HEIGHT


def charts_of(slots: Sequence[Slot], span: Span) -> list[Chart]:
    """The charts of the overview."""
    return [
        throughput(slots, span),
        backlog(slots, span),
        latency(slots, span, "waits", "wait", "Wait until started"),
        latency(slots, span, "runs", "run", "Run time"),
    ]


def throughput(slots: Sequence[Slot], span: Span) -> Chart:
    top = _nice(max((slot.ended for slot in slots), default=0))
    step = (WIDTH - _LEFT - _RIGHT) / max(len(slots), 1)
    bars: list[Bar] = []
    for place, slot in enumerate(slots):
        floor = float(HEIGHT - _BOTTOM)
        for kind, jobs in (("failed", slot.failed), ("cancelled", slot.cancelled), ("completed", slot.completed)):
            height = jobs / top * (HEIGHT - _TOP - _BOTTOM)
            if jobs:
                title = f"{_clock(slot.at, span)}: {jobs:,} {kind}"
                height = max(height, 1.0)
                bars.append(
                    Bar(
                        _round(_LEFT + place * step),
                        _round(floor - height),
                        _round(max(step - 1, 0.8)),
                        _round(height),
                        kind,
                        title,
                    )
                )
                floor -= height
    ended, failed = sum(slot.ended for slot in slots), sum(slot.failed for slot in slots)
    share = f", {words.percent(failed, ended)} of them failed" if failed else ""
    return Chart(
        "throughput",
        "Jobs ended",
        f"{ended:,} in the {span.title.lower()}{share}" if ended else "none",
        bars=bars,
        rows=_rows(top, words.short),
        columns=_columns(slots, span),
        legend=[(kind, kind) for kind in ("completed", "failed", "cancelled")],
        heads=("time", "completed", "failed", "cancelled"),
        table=[
            (_clock(slot.at, span), f"{slot.completed:,}", f"{slot.failed:,}", f"{slot.cancelled:,}")
            for slot in _busy(slots)
        ],
        is_empty=not ended,
    )


def backlog(slots: Sequence[Slot], span: Span) -> Chart:
    known = [slot for slot in slots if slot.backlog is not None]
    top = _nice(max((slot.backlog or 0 for slot in known), default=0))
    line = _path(slots, lambda slot: slot.backlog, lambda value: value / top)
    last = known[-1].backlog if known else None
    return Chart(
        "backlog",
        "Jobs waiting",
        f"{last:,} at {_clock(known[-1].at, span)}" if last is not None else "not measured yet",
        lines=[Line("waiting", "p50", line)],
        rows=_rows(top, words.short),
        columns=_columns(slots, span),
        heads=("time", "waiting"),
        table=[(_clock(slot.at, span), f"{slot.backlog:,}") for slot in known[-_MOST_ROWS:][::-1]],
        is_empty=not known,
    )


def latency(slots: Sequence[Slot], span: Span, field: str, name: str, title: str) -> Chart:
    """Percentiles on a logarithmic axis."""
    shares = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    points = {label: [quantile(getattr(slot, field), share) for slot in slots] for label, share in shares}
    values = [value for each in points.values() for value in each if value is not None]
    low, high = _decades(values)

    def height(value: float) -> float:
        return (math.log10(max(value, 1e-6)) - low) / (high - low)

    lines = [
        Line(label, label, _path(list(zip(slots, each, strict=True)), lambda pair: pair[1], height))
        for label, each in points.items()
    ]
    everything: dict[int, float] = {}
    for slot in slots:
        for bucket, jobs in getattr(slot, field).items():
            everything[bucket] = everything.get(bucket, 0) + jobs
    said = [
        f"{label} {words.duration(value)}"
        for label, share in shares
        if (value := quantile(everything, share)) is not None
    ]
    return Chart(
        name,
        title,
        ", ".join(said) or "none",
        lines=lines,
        rows=[Mark(_y((power - low) / (high - low)), _tick(10.0**power)) for power in range(low, high + 1)],
        columns=_columns(slots, span),
        legend=[(label, label) for label, _ in shares],
        heads=("time", "p50", "p95", "p99"),
        table=[
            (_clock(slot.at, span), *(words.duration(quantile(getattr(slot, field), share)) for _, share in shares))
            for slot in [slot for slot in slots if getattr(slot, field)][-_MOST_ROWS:][::-1]
        ],
        is_empty=not values,
    )


def progress_plot(job: Job[Any]) -> Chart | None:
    """How far a job was, over time; None if there are too few points."""
    points = () if job.record is None else job.record.history
    if len(points) < 2:
        return None
    begin, end = points[0].at, points[-1].at
    length = max((end - begin).total_seconds(), 1e-3)
    path, attempt = [], None
    for point in points:
        x = _LEFT + (point.at - begin).total_seconds() / length * (WIDTH - _LEFT - _RIGHT)
        path.append(f"{'L' if attempt == point.attempt else 'M'}{_round(x)} {_y(min(point.percent, 100) / 100)}")
        attempt = point.attempt
    attempts = len({point.attempt for point in points})
    return Chart(
        "history",
        "Progress over time",
        f"{points[-1].percent:.0f}% after {words.duration(length)}"
        + (f", in {attempts} attempts" if attempts > 1 else ""),
        lines=[Line("percent", "p50", " ".join(path))],
        rows=[Mark(_y(share / 100), f"{share}%") for share in (0, 50, 100)],
        columns=[Mark(_LEFT, "0s"), Mark(WIDTH - _RIGHT, words.duration(length), is_end=True)],
        heads=("time", "percent", "attempt"),
        table=[(words.full(point.at), f"{point.percent:.1f}", str(point.attempt)) for point in points],
    )


def sparkline(values: Sequence[int], width: int = 120, height: int = 22) -> str:
    """The path of small bars, as one SVG path."""
    top, step = max(values, default=0), width / max(len(values), 1)
    parts = []
    for place, value in enumerate(values):
        if value:
            tall = max(value / top * height, 1.5)
            x = place * step
            parts.append(f"M{_round(x)} {height}v{_round(-tall)}h{_round(max(step - 0.6, 0.5))}v{_round(tall)}z")
    return "".join(parts)


def _path(points: Sequence[Any], value_of: Callable[[Any], float | None], share: Callable[[float], float]) -> str:
    step = (WIDTH - _LEFT - _RIGHT) / max(len(points), 1)
    parts, is_gap = [], True
    for place, point in enumerate(points):
        value = value_of(point)
        if value is None:
            is_gap = True
            continue
        x, y = _round(_LEFT + (place + 0.5) * step), _y(share(value))
        # A lone point is a short line, or it would not be seen.
        parts.append(f"M{x} {y}h0.1" if is_gap else f"L{x} {y}")
        is_gap = False
    return " ".join(parts)


def _y(share: float) -> float:
    return _round(HEIGHT - _BOTTOM - max(0.0, min(share, 1.0)) * (HEIGHT - _TOP - _BOTTOM))


def _rows(top: float, written: Callable[[float], str]) -> list[Mark]:
    return [Mark(_y(share), written(top * share)) for share in (0, 0.5, 1)]


def _columns(slots: Sequence[Slot], span: Span) -> list[Mark]:
    if not slots:
        return []
    step = (WIDTH - _LEFT - _RIGHT) / len(slots)
    every = len(slots) // 4
    return [
        Mark(_round(_LEFT + place * step), _clock(slots[place].at, span))
        for place in range(0, len(slots) - every // 2, every)
    ]


def _clock(at: datetime, span: Span) -> str:
    return f"{at:%H:%M}" if span.length <= metrics.DAY.length else f"{at:%b %d %H:%M}"


def _busy(slots: Sequence[Slot]) -> list[Slot]:
    return [slot for slot in slots if slot.ended][-_MOST_ROWS:][::-1]


def _nice(value: float) -> float:
    """A round number that is not less."""
    if value <= 2:
        return 2
    power = 10 ** math.floor(math.log10(value))
    return float(next(power * step for step in (1, 2, 4, 5, 10) if power * step >= value))


def _decades(values: Sequence[float]) -> tuple[int, int]:
    if not values:
        return -3, 0
    low = math.floor(math.log10(max(min(values), 1e-4)))
    high = math.ceil(math.log10(max(*values, 1e-4, 10.0**low * 1.001)))
    return max(low, -4), max(high, low + 1)


def _tick(seconds: float) -> str:
    """A power of ten at an axis, in few characters."""
    if seconds < 60:
        return words.duration(seconds)
    return (
        f"{seconds:.0f}s"
        if seconds < 1000
        else f"{seconds / 60:.0f}min"
        if seconds < 3600
        else f"{seconds / 3600:.2g}h"
    )


def _round(value: float) -> float:
    return round(value, 1)
