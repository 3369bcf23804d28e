"""What the runs show together: medians with their spread, and our ratio to each peer, round by round."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

OURS = "howdah"
METRICS = {"pickup": ("p50_ms", "p99_ms"), "held": ("share",)}
USUAL = ("rate",)
COSTS = ("wal_bytes", "buffers")

Run = dict[str, Any]
Spread = dict[str, float]


def metrics(scenario: str) -> tuple[str, ...]:
    return METRICS.get(scenario, USUAL)


def medians(runs: Iterable[Run]) -> dict[str, dict[str, dict[str, Spread]]]:
    """By scenario, peer and metric."""
    values: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for run in runs:
        for metric in (*metrics(run["scenario"]), *COSTS):
            if metric in run.get("result", {}):
                values[run["scenario"], run["peer"], metric].append(run["result"][metric])
    return _nested(values)


def ratios(runs: Iterable[Run]) -> dict[str, dict[str, dict[str, Spread]]]:
    """Ours to the peer's, of the same round, so that a noisy minute hits both."""
    by_round: dict[tuple[str, int], dict[str, Run]] = defaultdict(dict)
    for run in runs:
        if "result" in run:
            by_round[run["scenario"], run["round"]][run["peer"]] = run["result"]
    values: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for (scenario, _), results in by_round.items():
        if (ours := results.pop(OURS, None)) is None:
            continue
        for peer, theirs in results.items():
            for metric in metrics(scenario):
                values[scenario, peer, metric].append(ours[metric] / theirs[metric])
    return _nested(values)


def show(results: dict[str, Any]) -> None:
    console = Console()
    columns = [(scenario, metric) for scenario in results["scenarios"] for metric in metrics(scenario)]
    console.print(_table("median (spread)", results["peers"], columns, results["medians"]))
    others = [peer for peer in results["peers"] if peer != OURS]
    if OURS in results["peers"] and others:
        console.print(_table(f"{OURS} / peer, round by round", others, columns, results["ratios"], digits=2))
    costs = [
        (scenario, metric) for scenario in results["scenarios"] for metric in COSTS if _has(results, scenario, metric)
    ]
    if costs:
        console.print(_table("for each job, on the server", results["peers"], costs, results["medians"]))
    for run in results["runs"]:
        if "error" in run:
            console.print(
                f"{run['peer']}, {run['scenario']}, round {run['round']}: {run['error']}", style="red", markup=False
            )


def _has(results: dict[str, Any], scenario: str, metric: str) -> bool:
    return any(metric in spreads for spreads in results["medians"].get(scenario, {}).values())


def _table(
    title: str,
    peers: list[str],
    columns: list[tuple[str, str]],
    values: dict[str, dict[str, dict[str, Spread]]],
    digits: int | None = None,
) -> Table:
    """Scenarios go down and peers across: there may be many of both, and this is the narrower way."""
    table = Table("", *peers, title=title, title_justify="left")
    for scenario, metric in columns:
        name = scenario if metric == "rate" else f"{scenario} {metric}"
        spreads = [values.get(scenario, {}).get(peer, {}).get(metric) for peer in peers]
        table.add_row(name, *(_cell(spread, digits) for spread in spreads))
    return table


def _cell(spread: Spread | None, digits: int | None) -> str:
    if spread is None:
        return "–"
    median, least, most = (_number(spread[key], digits) for key in ("median", "min", "max"))
    return median if least == most else f"{median} ({least}–{most})"


def _number(value: float, digits: int | None) -> str:
    if digits is None:
        digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}"


def _nested(values: dict[tuple[str, str, str], list[float]]) -> dict[str, dict[str, dict[str, Spread]]]:
    nested: dict[str, dict[str, dict[str, Spread]]] = {}
    for (scenario, peer, metric), measured in values.items():
        spread = {"median": statistics.median(measured), "min": min(measured), "max": max(measured)}
        nested.setdefault(scenario, {}).setdefault(peer, {})[metric] = spread
    return nested
