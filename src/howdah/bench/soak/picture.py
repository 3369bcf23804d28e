"""A soak as a picture: what befell it, and below that everything that could drift, along the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from howdah.bench import plot
from howdah.bench.scale import Scale
from howdah.bench.soak.director import Soaked
from howdah.bench.soak.sample import Sample

_MINUTE = 60.0
_MEGABYTE = 1e6
_MINUTES = "minutes"


def picture(title: str, soaked: Soaked) -> str:
    x = plot.time_scale([0.0, *(sample.seconds / _MINUTE for sample in soaked.samples)])
    return plot.document(title, [*_faults(soaked, x), *_drift(soaked, x)])


def _faults(soaked: Soaked, x: Scale) -> Iterable[plot.Panel]:
    end = soaked.samples[-1].seconds
    spans = [
        (
            fault.kind,
            fault.at / _MINUTE,
            (end if fault.until is None else fault.until) / _MINUTE,
            f"{fault.at:.1f} s: {fault.what}",
        )
        for kind in soaked.options.faults
        for fault in soaked.faults
        if fault.kind == kind
    ]
    if spans:
        yield plot.span_panel("Faults", _MINUTES, spans, x)


def _drift(soaked: Soaked, x: Scale) -> Iterable[plot.Panel]:
    marks = [fault.at / _MINUTE for fault in soaked.faults]

    def panel(title: str, unit: str, series: Mapping[str, Callable[[Sample], float | None]], *, log: bool) -> None:
        points = {name: drawn for name, value in series.items() if (drawn := _points(soaked.samples, value, log=log))}
        if points:
            panels.append(plot.line_panel(title, _MINUTES, unit, points, log_y=log, x=x, marks=marks))

    panels: list[plot.Panel] = []
    panel(
        "Latency: from the call of enqueue to the handler's start and end",
        "ms",
        {
            "start, p50": lambda s: s.pickup_p50,
            "start, p99": lambda s: s.pickup_p99,
            "end, p50": lambda s: s.p50,
            "end, p99": lambda s: s.p99,
        },
        log=True,
    )
    panel("Jobs done in a second", "jobs/s", {"done": lambda s: s.per_second}, log=False)
    panel(
        "Memory of workers",
        "MB",
        {
            "worker 0, which nothing befalls": lambda s: None if s.eldest is None else s.eldest.rss / _MEGABYTE,
            "the largest of the others": lambda s: None if s.largest is None else s.largest / _MEGABYTE,
        },
        log=False,
    )
    panel(
        "Size of the live table",
        "MB",
        {
            "table": lambda s: s.table_bytes / _MEGABYTE,
            "indexes": lambda s: s.index_bytes / _MEGABYTE,
            "TOAST and maps": lambda s: s.beside_bytes / _MEGABYTE,
        },
        log=False,
    )
    panel("Rows of the live table", "rows", {"dead": lambda s: s.dead, "waiting": lambda s: s.waiting}, log=False)
    panel("Connections", "connections", {"open": lambda s: s.connections}, log=False)
    return panels


def _points(samples: Sequence[Sample], value: Callable[[Sample], float | None], *, log: bool) -> list[plot.Point]:
    seen = [(sample.seconds / _MINUTE, value(sample)) for sample in samples]
    return [(at, number) for at, number in seen if number is not None and (number > 0 or not log)]
