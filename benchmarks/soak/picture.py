"""A soak as a chart: the faults, and below them everything that could drift, along the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from matplotlib.axes import Axes

from benchmarks.charts import Point, chart, draw_lines
from benchmarks.soak.director import Soaked
from benchmarks.soak.sample import Sample

_MINUTE = 60.0
_MEGABYTE = 1e6

Value: TypeAlias = Callable[[Sample], float | None]


class Panel(NamedTuple):
    title: str
    unit: str
    series: Mapping[str, Value]
    log: bool = False


PANELS = (
    Panel(
        "Latency: from the call of enqueue to the start and the end of the handler",
        "ms",
        {
            "start, p50": lambda s: s.pickup_p50,
            "start, p99": lambda s: s.pickup_p99,
            "end, p50": lambda s: s.p50,
            "end, p99": lambda s: s.p99,
        },
        log=True,
    ),
    Panel("Jobs completed in a second", "jobs/s", {"completed": lambda s: s.per_second}),
    Panel(
        "Memory of workers",
        "MB",
        {
            "worker 0, which no fault hits": lambda s: None if s.eldest is None else s.eldest.rss / _MEGABYTE,
            "the largest of the others": lambda s: None if s.largest is None else s.largest / _MEGABYTE,
        },
    ),
    Panel(
        "Size of the live table",
        "MB",
        {
            "table": lambda s: s.table_bytes / _MEGABYTE,
            "indexes": lambda s: s.index_bytes / _MEGABYTE,
            "TOAST and maps": lambda s: s.beside_bytes / _MEGABYTE,
        },
    ),
    Panel("Rows of the live table", "rows", {"dead": lambda s: s.dead, "waiting": lambda s: s.waiting}),
    Panel("Connections", "connections", {"open": lambda s: s.connections}),
)


def picture(title: str, soaked: Soaked) -> str:
    drawn = [(panel, series) for panel in PANELS if (series := dict(_series(panel, soaked.samples)))]
    kinds = [kind for kind in soaked.options.faults if any(fault.kind == kind for fault in soaked.faults)]
    with chart(0.9 + 0.3 * len(kinds), *[2.6] * len(drawn)) as made:
        _draw_faults(made.panels[0], f"{title}\nFaults", kinds, soaked)
        for axes, (panel, series) in zip(made.panels[1:], drawn, strict=True):
            draw_lines(axes, panel.title, panel.unit, series, log=panel.log)
            for fault in soaked.faults:
                axes.axvline(fault.at / _MINUTE, color="#7d8590", linestyle=":", linewidth=0.8)
        for axes in made.panels:
            axes.set_xlim(0, (soaked.samples[-1].seconds if soaked.samples else 1.0) / _MINUTE)
        made.panels[-1].set_xlabel("minutes", loc="right")
    return made.svg


def _draw_faults(axes: Axes, title: str, kinds: Sequence[str], soaked: Soaked) -> None:
    axes.set_title(title)
    end = soaked.samples[-1].seconds if soaked.samples else 1.0
    for row, kind in enumerate(kinds):
        spans = [
            (fault.at / _MINUTE, max((end if fault.until is None else fault.until) - fault.at, end / 300) / _MINUTE)
            for fault in soaked.faults
            if fault.kind == kind
        ]
        axes.broken_barh(spans, (row - 0.3, 0.6), color=f"C{row}")
    axes.set_yticks(range(len(kinds)), kinds)
    axes.invert_yaxis()


def _series(panel: Panel, samples: Sequence[Sample]) -> Iterator[tuple[str, list[Point]]]:
    for name, value in panel.series.items():
        seen = [(sample.seconds / _MINUTE, value(sample)) for sample in samples]
        points = [(at, number) for at, number in seen if number is not None and (number > 0 or not panel.log)]
        if points:
            yield name, points
