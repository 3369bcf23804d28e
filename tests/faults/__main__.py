"""``python -m tests.faults``: plays the cases one after another, and prints the table of what came of them."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests import servers
from tests.faults.broken import MUTANTS, Exposed, expose
from tests.faults.case import CASES, Case
from tests.faults.catalogue import CATALOGUE
from tests.faults.suite import Outcome, play
from tests.worker.durable_server import DurableServer

STYLES = {"passed": "green", "failed": "red", "skipped": "yellow"}


def main() -> int:
    args = arguments()
    # As Ctrl-C does: the servers and workers that were started end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if args.list:
        for case in CATALOGUE:
            print(f"{case.number:>2} {case.name:<24} {case.story.splitlines()[0]}")
        return 0
    if args.broken:
        found = [each for major in args.major for each in exposed(major)]
        return int(not all(each.is_caught for each in found))
    cases = [CASES[name] for name in args.case] if args.case else CATALOGUE
    outcomes = [outcome for major in args.major for outcome in on_one_version(major, cases, args)]
    console = Console(width=max(Console().width, 100))
    console.print(table(outcomes))
    for outcome in outcomes:
        if outcome.reason:
            console.print(
                f"\n{outcome.case} on {outcome.major} {outcome.outcome} (seed {outcome.seed}):",
                style=STYLES[outcome.outcome],
            )
            console.print(outcome.reason, markup=False, highlight=False)
    if args.out:
        args.out.write_text(json.dumps([outcome.as_json() for outcome in outcomes], indent=1) + "\n", encoding="utf-8")
    return int(any(outcome.outcome == "failed" for outcome in outcomes))


def exposed(major: int) -> Iterator[Exposed]:
    """Each mutant, and what has found it."""
    binaries = servers.find(major)
    if binaries is None:
        print(f"PostgreSQL {major} is not installed", file=sys.stderr)
        return
    with DurableServer(binaries) as server:
        for mutant in MUTANTS:
            found = expose(mutant, server)
            print(f"{major} {mutant}: {'caught' if found.is_caught else 'NOT CAUGHT'} by {found.by}")
            yield found


def on_one_version(major: int, cases: Sequence[Case], args: argparse.Namespace) -> Iterator[Outcome]:
    binaries = servers.find(major)
    if binaries is None:
        for case in cases:
            yield Outcome(case.number, case.name, major, "skipped", 0, 0, reason=f"PostgreSQL {major} is not installed")
        return
    with DurableServer(binaries) as shared:
        for case in cases:
            print(f"{major} {case.number:>2} {case.name:<24} ", end="", file=sys.stderr, flush=True)
            own = DurableServer(binaries, case.settings) if case.own_server else contextlib.nullcontext(shared)
            with own as server:
                outcome = play(case, server, major, quick=args.quick, seed=args.seed)
            print(f"{outcome.outcome} after {outcome.seconds:g} s", file=sys.stderr, flush=True)
            yield outcome


def table(outcomes: Sequence[Outcome]) -> Table:
    numbers = ("jobs", "faults", "lost", "doubled", "slowest recovery", "seconds")
    made = Table(box=None, pad_edge=False)
    for name in ("PG", "case", *numbers, ""):
        made.add_column(name, justify="right" if name in ("PG", *numbers) else "left")
    for each in outcomes:
        figures = (
            ("",) * 5
            if each.outcome == "skipped"
            else (
                f"{each.jobs:,}",
                f"{each.faults:,}",
                f"{each.lost:,}",
                f"{each.doubled:,}",
                "" if each.slowest is None else f"{each.slowest:.1f} s",
            )
        )
        made.add_row(
            str(each.major),
            f"{each.number:>2} {each.case}",
            *figures,
            f"{each.seconds:.0f}",
            f"[{STYLES[each.outcome]}]{each.outcome}",
        )
    return made


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Play the fault cases, and judge them.")
    parser.add_argument("case", nargs="*", metavar="CASE", help="the names of cases (default: all of them)")
    parser.add_argument("--major", type=lambda text: [int(each) for each in text.split(",")], default=[18, 15])
    parser.add_argument("--quick", action="store_true", help="the small form of each, as make test plays it")
    parser.add_argument("--seed", type=int, help="the seed of the random moments, as a failure has printed it")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the outcomes as JSON too")
    parser.add_argument("--list", action="store_true", help="list the cases")
    parser.add_argument("--broken", action="store_true", help="play cases on SQL that is broken, which must be found")
    args = parser.parse_args()
    if unknown := [name for name in args.case if name not in CASES]:
        parser.error(f"there is no case {unknown[0]}. There are: {', '.join(CASES)}")
    return args


if __name__ == "__main__":
    sys.exit(main())
