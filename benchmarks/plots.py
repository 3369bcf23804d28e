"""The plots of the docs: docs/benchmarks/*.svg, from the results that are there.

    python -m benchmarks.plots [--results benchmarks/results] [--to docs/benchmarks]

A result that is not there leaves its plots as they are.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.charts import Bar, Point, bars, lines
from benchmarks.peers.results import OURS

HERE = Path(__file__).parent

Result: TypeAlias = Mapping[str, Any]
Plot: TypeAlias = tuple[str, str]
"""The name of its file, without the ending, and the SVG."""

PEERS = {
    "drain": ("rate", "Jobs drained in a second by one process", "jobs/s"),
    "drain2": ("rate", "Jobs drained in a second by two processes", "jobs/s"),
    "drain-sync": ("rate", "Jobs drained in a second by one process, handlers in threads", "jobs/s"),
    "drain-batch": ("rate", "Jobs drained in a second by one process, handlers of batches", "jobs/s"),
    "enqueue": ("rate", "Jobs enqueued in a second, one by one", "jobs/s"),
    "enqueue16": ("rate", "Jobs enqueued in a second, one by one, by 16 at once", "jobs/s"),
    "enqueue256": ("rate", "Jobs enqueued in a second, one by one, by 256 at once", "jobs/s"),
    "bulk": ("rate", "Jobs enqueued in a second, in bulk", "jobs/s"),
    "held": ("share", "Drain beside an old transaction: the last round to the first", "of the first round"),
}
PICKUP = {"p50_ms": "Half of the jobs start within", "p99_ms": "99 of 100 jobs start within"}
COSTS = {"wal_bytes": "WAL for each job", "buffers": "Pages looked at for each job"}
CASES = {
    "others": "1M of other types wait",
    "scheduled": "1M are for later",
    "types": "500 types, jobs of one",
    "mixed": "500 types, jobs of all",
    "backlog": "5M wait",
    "held": "an old transaction, after 1M jobs",
    "listeners": "64 enqueue beside 4 sleepers",
    "workers": "64 enqueue beside 4 workers",
    "loops": "16 bare loops, to 4",
    "claimers": "16 workers, to 4",
}


def of_peers(result: Result) -> Iterator[Plot]:
    for scenario, (metric, title, unit) in PEERS.items():
        yield from _of_peers(result, f"peers-{scenario}", title, unit, scenario, metric)
    for metric, title in PICKUP.items():
        yield from _of_peers(result, f"peers-pickup-{metric[:3]}", title, "ms", "pickup", metric, best_is_least=True)
    for metric, title in COSTS.items():
        unit = "bytes" if metric == "wal_bytes" else "pages"
        for scenario in ("drain", "bulk"):
            name = f"peers-{metric.replace('_', '-')}-{scenario}"
            yield from _of_peers(result, name, f"{title}, {scenario}", unit, scenario, metric, best_is_least=True)


def _of_peers(
    result: Result, name: str, title: str, unit: str, scenario: str, metric: str, *, best_is_least: bool = False
) -> Iterator[Plot]:
    rows = [
        _bar(peer, metrics[metric], _group(result, peer))
        for peer, metrics in result["medians"].get(scenario, {}).items()
        if metric in metrics
    ]
    if rows:
        yield name, bars(title, unit, sorted(rows, key=lambda row: row[1], reverse=not best_is_least))


def _group(result: Result, peer: str) -> str:
    if peer == OURS:
        return OURS
    return "on Redis" if on_redis(result, peer) else "on PostgreSQL"


def on_redis(result: Result, peer: str) -> bool:
    return "redis" in result["facts"][peer]["durable"].lower()


def _bar(label: str, spread: Mapping[str, float], group: str = "") -> Bar:
    return label, spread["median"], spread["min"], spread["max"], group


def of_limit(result: Result) -> Iterator[Plot]:
    rows = [
        _bar(
            name if name == "worker" else f"bare loop, {name}",
            figures["rate"],
            "worker" if name == "worker" else "bare",
        )
        for name, figures in result["drains"].items()
    ]
    yield "limit", bars("The worker, and a bare loop over the same SQL functions", "jobs/s", rows)
    costs = [_bar(name, figures["wal_bytes"]) for name, figures in result["parts"].items()]
    yield "limit-wal", bars("WAL for each job, by part", "bytes", costs)


def of_growth(result: Result) -> Iterator[Plot]:
    cases = result["cases"]
    rows = [_bar(case_label(name, found), found["ratio"]) for name, found in cases.items()]
    note = " (a smoke run, much smaller)" if result["quick"] else ""
    yield "growth", bars(f"As the work grows: the rate to that of the small case{note}", "of the small case", rows)
    if "held" in cases:
        series = {
            "beside an old transaction": _by_round(cases["held"]["grown"]),
            "without one": _by_round(cases["held"]["small"]),
        }
        yield "growth-held", lines("A transaction that stays open", "round", "jobs/s", series)


def case_label(name: str, found: Result) -> str:
    return f"{found['archived'] / 1e6:g}M have ended" if name == "archived" else CASES.get(name, name)


def _by_round(figures: Result) -> list[Point]:
    return [(number + 1, rate) for number, rate in enumerate(figures["rate"]["values"])]


def of_steady(result: Result) -> Iterator[Plot]:
    latency = {name: _over_time(result, itemgetter(name)) for name in ("p50", "p99")}
    yield "steady-latency", lines("From the call to the handler", "minutes", "ms", latency)
    sizes = {
        "live table": _over_time(result, lambda sample: sample["table_bytes"] / 1e6),
        "its indexes": _over_time(result, lambda sample: sum(sample["index_bytes"].values()) / 1e6),
        "the worker's memory": _over_time(result, lambda sample: sample["rss"] / 1e6),
    }
    yield "steady-size", lines(f"Sizes at {result['rate']:,.0f} jobs a second", "minutes", "MB", sizes)


def _over_time(result: Result, value: Callable[[Result], float | None]) -> list[Point]:
    points = ((sample["seconds"] / 60, value(sample)) for sample in result["series"])
    return [(minutes, found) for minutes, found in points if found is not None]


RESULTS: dict[str, Callable[[Result], Iterator[Plot]]] = {
    "peers": of_peers,
    "limit": of_limit,
    "growth": of_growth,
    "steady": of_steady,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--to", type=Path, default=HERE.parent / "docs" / "benchmarks")
    args = parser.parse_args()
    args.to.mkdir(parents=True, exist_ok=True)
    for name, plots in RESULTS.items():
        source = args.results / f"{name}.json"
        for plot, drawn in plots(json.loads(source.read_text())) if source.exists() else ():
            (args.to / f"{plot}.svg").write_text(drawn)
            print(f"{args.to / plot}.svg")


if __name__ == "__main__":
    main()
