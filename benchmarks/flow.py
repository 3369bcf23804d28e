"""What flow keys cost, beside jobs without one: claims and ends in batches, alone and beside an old open transaction.

The figures are jobs per second of the backend's CPU: they depend little on what else the machine does.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks import meter
from benchmarks.server import Place, server

BATCH = 500
ROUND = 20_000


class Rule(NamedTuple):
    """The options of a type, as declare_type takes them, or None for a type without flow keys."""

    name: str
    options: str | None


RULES = (
    Rule("plain", None),
    Rule("turns", ""),
    Rule("limited", ", p_limit => 3"),
    Rule("ordered", ", p_ordered => true"),
    Rule("rated", ", p_rate => ROW(1000000, 1, 1000000)"),
)


def rounds(place: Place, rule: Rule, keys: int, count: int, *, held: bool, backlog: int) -> Iterator[float]:
    """The jobs per second of each round, each of so many jobs; they are enqueued just before, unless there is a backlog."""
    place.conn.execute("SELECT register_worker('bench', %s, '1 day')", (boot := str(uuid.uuid4()),))
    if rule.options is not None:
        place.conn.execute(f"SELECT declare_type(%s, p_per => 'key'{rule.options})".encode(), (rule.name,))
        place.conn.execute("SELECT recover()")
    with contextlib.ExitStack() as stack:
        if held:
            old = stack.enter_context(place.connect("old transaction"))
            old.autocommit = False
            old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            old.execute("SELECT txid_current()")
        if backlog:
            _fill(place, rule.name, keys, backlog)
        for _ in range(count):
            if not backlog:
                _fill(place, rule.name, keys, ROUND)
            pid = place.conn.info.backend_pid
            before = meter.cpu_seconds([pid])
            done = _drain(place, rule.name, boot, ROUND)
            yield done / (meter.cpu_seconds([pid]) - before)


def _fill(place: Place, job_type: str, keys: int, count: int) -> None:
    place.conn.execute(
        "SELECT enqueue_many(%s, array_agg(jsonb_build_object('key', (n %% %s)::text)))"
        " FROM generate_series(1, %s) AS n GROUP BY n / 2000",
        (job_type, keys, count),
    )


def _drain(place: Place, job_type: str, boot: str, most: int) -> int:
    claim = "SELECT id, token FROM claim('bench', %s, %s, %s, p_incarnation => %s)"
    done = 0
    while done < most and (
        batch := place.conn.execute(claim, ([job_type], BATCH, BATCH, boot), prepare=True).fetchall()
    ):
        ids, tokens = zip(*batch, strict=True)
        place.conn.execute("SELECT count(*) FROM complete(%s, %s)", (list(ids), list(tokens)), prepare=True)
        done += len(batch)
    return done


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flow", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help=f"of {ROUND:,} jobs each")
    parser.add_argument("--keys", type=int, nargs="*", default=[10, 1_000, 20_000])
    parser.add_argument("--rules", nargs="*", default=[rule.name for rule in RULES])
    parser.add_argument("--held", action="store_true", help="beside a transaction that stays open")
    parser.add_argument(
        "--backlog", type=int, default=0, help="enqueue so many jobs first, and none between the rounds"
    )
    parser.add_argument("--out", type=Path, help="the results as JSON")
    args = parser.parse_args()
    results = {}
    print(f"{'':10} {'keys':>7} {'first':>8} {'last':>8} {'ratio':>6}   jobs per second of the backend's CPU")
    with server() as running:
        for rule in RULES:
            for keys in args.keys if rule.options is not None else args.keys[:1]:
                if rule.name not in args.rules:
                    continue
                found = []
                place = running.place(f"{rule.name}_{keys}")
                for speed in rounds(place, rule, keys, args.rounds, held=args.held, backlog=args.backlog):
                    found.append(speed)
                    print(f"\r{rule.name}: round {len(found)} of {args.rounds}", end="", file=sys.stderr)
                running.drop()
                print("\r", end="", file=sys.stderr)
                first, last = found[0], found[-1]
                print(f"{rule.name:10} {keys:7,} {first:8,.0f} {last:8,.0f} {last / first:6.2f}")
                results[f"{rule.name}, {keys} keys"] = found
    if args.out:
        args.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
