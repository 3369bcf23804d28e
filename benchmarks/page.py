"""The tables of docs/explanation/benchmarks.md, from the results that are there.

    python -m benchmarks.page [--results benchmarks/results] [--page docs/explanation/benchmarks.md]

Each stands between ``<!-- figures: NAME -->`` and ``<!-- end of figures -->``. One whose result is not there stays as it is.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.peers.results import OURS, metrics
from benchmarks.plots import HERE, Result, case_label, on_redis

PAGE = HERE.parent / "docs" / "explanation" / "benchmarks.md"
PLACE = re.compile(r"(?<=<!-- figures: )(\S+)( -->\n).*?(?=<!-- end of figures -->)", re.DOTALL)
NONE = "–"

RATES = ("drain", "drain2", "drain-sync", "drain-batch", "enqueue", "enqueue16", "enqueue256", "bulk")
QUESTIONS = {
    "drain": "drain, one process",
    "drain2": "drain, two processes",
    "drain-sync": "drain, handlers in threads",
    "drain-batch": "drain, handlers of batches",
    "enqueue": "enqueue one by one",
    "enqueue16": "the same, by 16 at once",
    "enqueue256": "the same, by 256 at once",
    "bulk": "enqueue in bulk",
    "pickup": "pickup",
    "held": "drain beside an old transaction",
}


# Peers


def rates(result: Result) -> Iterator[str]:
    yield from _head(
        "jobs/s", "drain: 1 process", "2", "threads", "batches", "enqueue: 1 producer", "16", "256", "bulk"
    )
    for peer in _in_order(result):
        yield _row(_name(peer), *(_figure(result, scenario, peer, "rate") for scenario in RATES))


def pickup_and_costs(result: Result) -> Iterator[str]:
    yield from _head(
        "", "pickup, ms: p50", "p99", "WAL bytes a job: enqueued in bulk", "drained", "pages a job: in bulk", "drained"
    )
    for peer in _in_order(result):
        figures = [_figure(result, "pickup", peer, metric) for metric in ("p50_ms", "p99_ms")]
        figures += [
            _figure(result, scenario, peer, metric)
            for metric in ("wal_bytes", "buffers")
            for scenario in ("bulk", "drain")
        ]
        if set(figures) != {NONE}:
            yield _row(_name(peer), *figures)


def ratios(result: Result) -> Iterator[str]:
    """Against the best of each kind, which is another one for each question."""
    yield from _head("Howdah to", "the best on PostgreSQL", "the best on Redis", of_words=True)
    for scenario in result["scenarios"]:
        for metric in metrics(scenario):
            name = QUESTIONS[scenario] + ("" if metric in ("rate", "share") else f", {metric[:3]}")
            yield _row(name, *(_best_ratio(result, scenario, metric, is_on_redis=kind) for kind in (False, True)))


def _best_ratio(result: Result, scenario: str, metric: str, *, is_on_redis: bool) -> str:
    less_is_better = scenario == "pickup"
    figures = {
        peer: spreads[metric]["median"]
        for peer, spreads in result["medians"].get(scenario, {}).items()
        if metric in spreads and peer != OURS and on_redis(result, peer) == is_on_redis
    }
    if not figures:
        return NONE
    best = min(figures, key=lambda peer: figures[peer] if less_is_better else -figures[peer])
    spread = result["ratios"][scenario][best][metric]
    return f"{spread['median']:.2f} ({spread['min']:.2f}–{spread['max']:.2f}) × {best}"


def settings(result: Result) -> Iterator[str]:
    yield from _head("", "version", "settings", "keeps ended jobs", "a job is safe", of_words=True)
    for peer in _in_order(result):
        facts = result["facts"][peer]
        yield _row(
            _name(peer),
            f"{facts['version']}, {facts['interpreter']}",
            facts["settings"],
            "yes" if facts["keeps_history"] else "no",
            facts["durable"],
        )


def _in_order(result: Result) -> list[str]:
    """Ours, then those on PostgreSQL, then those on Redis, the quicker ones first."""

    def place(peer: str) -> tuple[bool, bool, float]:
        spread = result["medians"].get("drain", {}).get(peer, {}).get("rate")
        return peer != OURS, on_redis(result, peer), -(spread["median"] if spread else 0)

    return sorted(result["peers"], key=place)


def _figure(result: Result, scenario: str, peer: str, metric: str) -> str:
    spread = result["medians"].get(scenario, {}).get(peer, {}).get(metric)
    return NONE if spread is None else _number(spread["median"])


def _name(peer: str) -> str:
    return "**Howdah**" if peer == OURS else peer


def held(result: Result) -> Iterator[str]:
    yield from _head("", "jobs gone through", "the last round to the first")
    jobs = {
        run["peer"]: run["result"]["jobs"] for run in result["runs"] if "result" in run and run["scenario"] == "held"
    }
    shares = {peer: spreads["share"]["median"] for peer, spreads in result["medians"].get("held", {}).items()}
    for peer in sorted(shares, key=lambda peer: -shares[peer]):
        yield _row(_name(peer), f"{jobs[peer]:,}", f"{shares[peer]:.2f}")


# The others


def machine(result: Result) -> Iterator[str]:
    found = result["machine"]
    yield from _head("", "", of_words=True)
    yield _row("machine", f"{found['cores']} cores, {found['cpu']}")
    yield _row("system", found["system"])
    yield _row("PostgreSQL", f"{found['postgresql']}, at its default settings")
    yield _row("Redis", f"{found['redis']}, at its default settings")
    yield _row("Python", result["facts"][OURS]["interpreter"])
    yield _row("day", found["date"][:10])


def limit(result: Result) -> Iterator[str]:
    yield from _head("", "jobs/s", "the worker to this", "backend, µs a job", "worker, µs a job", "WAL bytes", "pages")
    for name, figures in result["drains"].items():
        is_worker = name == "worker"
        yield _row(
            "the worker" if is_worker else f"bare loop, {name}",
            _spread(figures["rate"]),
            "" if is_worker else f"{result['worker_to_limit'][name]['median']:.2f}",
            f"{figures['backend_cpu']['median'] * 1e6:.1f}",
            f"{figures['worker_cpu']['median'] * 1e6:.1f}" if is_worker else "",
            *(_number(figures[name]["median"]) for name in ("wal_bytes", "buffers")),
        )


def insert(result: Result) -> Iterator[str]:
    yield from _head("one after the other", "jobs/s", "to the INSERT")
    found = result["one_by_one"]
    yield _row("bare `INSERT` of the same row", _spread(found["insert"]), "")
    yield _row("`queue.enqueue`", _spread(found["enqueue"]), f"{found['ratio']['median']:.2f}")


def growth(result: Result) -> Iterator[str]:
    yield from _head("", "jobs/s, small", "grown", "ratio (from – to)", "asked for")
    for name, found in result["cases"].items():
        ratio = found["ratio"]
        small, grown = (found[side]["rate"]["median"] for side in ("small", "grown"))
        if name == "held":
            # Of one database: its first rounds, and its last.
            rounds = found["grown"]["rate"]["values"]
            small, grown = statistics.median(rounds[:2]), statistics.median(rounds[-3:])
        yield _row(
            case_label(name, found),
            _number(small),
            _number(grown),
            f"{ratio['median']:.2f} ({ratio['min']:.2f}–{ratio['max']:.2f})",
            f"{found['goal']:g}{'' if found['met'] else ', not reached'}",
        )


def steady(result: Result) -> Iterator[str]:
    yield from _head("", "", "asked for", of_words=True)
    for name, judged in result["verdict"].items():
        yield _row(name, f"{judged['value']:g} {judged['meaning']}", "reached" if judged["met"] else "not reached")


# Writing them


TABLES: dict[str, tuple[str, Callable[[Result], Iterator[str]]]] = {
    "rates": ("peers", rates),
    "pickup-and-costs": ("peers", pickup_and_costs),
    "ratios": ("peers", ratios),
    "settings": ("peers", settings),
    "held": ("peers", held),
    "machine": ("peers", machine),
    "limit": ("limit", limit),
    "insert": ("insert", insert),
    "growth": ("growth", growth),
    "steady": ("steady", steady),
}


def filled(page: str, results: Path) -> str:
    """The page, with its tables as the results have them."""

    def table(found: re.Match[str]) -> str:
        source, rows = TABLES[found[1]]
        path = results / f"{source}.json"
        result = json.loads(path.read_text()) if path.exists() else None
        # A smoke run is no result.
        return found[0] if result is None or result.get("quick") else "".join([found[1], found[2], *rows(result)])

    return PLACE.sub(table, page)


def _head(*names: str, of_words: bool = False) -> Iterable[str]:
    """Figures stand at the right of their columns, and words at the left."""
    return _row(*names), _row("---", *["---" if of_words else "---:"] * (len(names) - 1))


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |\n"


def _spread(spread: Mapping[str, float]) -> str:
    return f"{_number(spread['median'])} ({_number(spread['min'])}–{_number(spread['max'])})"


def _number(value: float) -> str:
    """Three significant digits."""
    if value < 100:
        return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    unit = 10 ** max(len(f"{value:.0f}") - 3, 0)
    return f"{round(value / unit) * unit:,}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--page", type=Path, default=PAGE)
    args = parser.parse_args(arguments)
    args.page.write_text(filled(args.page.read_text(), args.results))


if __name__ == "__main__":
    main()
