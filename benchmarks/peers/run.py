"""Other queues and ours, side by side: every round has a run of each, one after the other, and never two at once.

    python -m benchmarks.peers.run [--peers howdah,pgqueuer,…] [--scenarios drain,pickup,…] [--rounds 3] [--jobs N]
                                   [--churn N] [--pickups N] [--out FILE.json] [--go-on] [--python PATH]

What the scenarios measure is said in scenarios.py, and how a peer is added in benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections import deque
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.peers import environments, results
from benchmarks.peers.peer import Peer, PeerFailed, Unsupported
from benchmarks.peers.scenarios import SCENARIOS, SIZES, UNKNOWN, Bench
from benchmarks.peers.server import PostgreSQL, Redis
from benchmarks.result import cpu_model


def main() -> int:
    arguments = _parse()
    peers, failures = _prepare(arguments.peers, arguments.python)
    if not peers:
        return 1
    postgresql = PostgreSQL()
    redis: Redis | None = None
    try:
        redis = Redis() if any(peer.store == "redis" for peer in peers) else None
        bench = Bench(postgresql, redis, arguments.jobs, arguments.churn, arguments.pickups)
        found = _describe(bench, peers, arguments) | {"failures": failures}
        if arguments.go_on and arguments.out and arguments.out.exists():
            found = _joined(json.loads(arguments.out.read_text()), found)
        _summarise(found)
        for run in _runs(bench, peers, arguments, {_key(run) for run in found["runs"]}):
            found["runs"].append(run)
            _summarise(found)
            if arguments.out:
                arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    finally:
        postgresql.stop()
        if redis:
            redis.stop()
    results.show(found)
    return 1 if failures or any("error" in run for run in found["runs"]) else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Other queues and ours, side by side.")
    parser.add_argument("--peers", type=_names(environments.known()), default=environments.known())
    parser.add_argument("--scenarios", type=_names(list(SCENARIOS)), default=list(SCENARIOS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--jobs", type=int, help="the most jobs of a run (for each peer, what it can do in some seconds)"
    )
    parser.add_argument("--churn", type=int, help="how many jobs go through while a transaction is held (8 rounds)")
    parser.add_argument("--pickups", type=int, default=200, help="how many jobs of which the pickup is timed (200)")
    parser.add_argument("--out", type=Path, help="where the results are written, as JSON, after every run")
    parser.add_argument(
        "--go-on", action="store_true", help="only what --out does not hold yet is run, and added to it"
    )
    parser.add_argument("--python", type=Path, default=None, help="for the peers in Python (3.13, if found)")
    return parser.parse_args()


def _names(known: list[str]) -> Any:
    def split(text: str) -> list[str]:
        names = text.split(",")
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
        return names

    return split


def _prepare(names: list[str], python: Path | None) -> tuple[list[Peer], dict[str, str]]:
    """The peers whose environments could be built and that answer, and why the others could not."""
    python = python or environments.preferred_python()
    peers: list[Peer] = []
    failures: dict[str, str] = {}
    for name in names:
        try:
            peer = Peer(name, SIZES.get(name, UNKNOWN).store, environments.build(name, python))
            facts = peer.facts
            if peer.store == "redis" and shutil.which("redis-server") is None:
                raise PeerFailed("there is no redis-server here")
        except (environments.BuildFailed, PeerFailed, subprocess.TimeoutExpired, OSError) as error:
            failures[name] = str(error)
            print(f"{name} is left out: {error}", file=sys.stderr)
        else:
            peers.append(peer)
            print(f"{name} {facts['version']}, {facts['interpreter']}: {facts['settings']}", flush=True)
    return peers, failures


def _describe(bench: Bench, peers: list[Peer], arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "machine": {
            "cores": os.cpu_count(),
            "cpu": cpu_model(),
            "system": platform.platform(),
            "python": platform.python_version(),
            "postgresql": bench.postgresql.version(),
            "redis": bench.redis.version() if bench.redis else None,
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        },
        "options": {"rounds": arguments.rounds, "jobs": arguments.jobs, "churn": arguments.churn},
        "scenarios": arguments.scenarios,
        "peers": [peer.name for peer in peers],
        "facts": {peer.name: peer.facts for peer in peers},
        "runs": [],
    }


def _joined(earlier: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """What was found earlier, to be gone on with. Runs that failed are made anew."""
    same = [(earlier["machine"][name], now["machine"][name]) for name in ("cpu", "cores", "postgresql")]
    same += [(earlier["facts"].get(peer, facts), facts) for peer, facts in now["facts"].items()]
    for before, after in same:
        if before != after:
            raise SystemExit(f"--out holds what was measured elsewhere or otherwise: {before} then, {after} now")
    joined = {name: list(dict.fromkeys([*earlier[name], *now[name]])) for name in ("scenarios", "peers")}
    merged = {name: {**earlier[name], **now[name]} for name in ("facts", "failures")}
    runs = [run for run in earlier["runs"] if "error" not in run]
    return now | joined | merged | {"machine": earlier["machine"], "runs": runs}


def _key(run: dict[str, Any]) -> tuple[str, int, str]:
    return run["scenario"], run["round"], run["peer"]


def _runs(bench: Bench, peers: list[Peer], arguments: argparse.Namespace, done: set[tuple[str, int, str]]) -> Any:
    refused: set[tuple[str, str]] = set()
    for scenario in arguments.scenarios:
        for number in range(1, arguments.rounds + 1):
            # In every round another one is first, so that none always comes after the same neighbour.
            turned = deque(peers)
            turned.rotate(number - 1)
            for peer in turned:
                if (scenario, peer.name) in refused or (scenario, number, peer.name) in done:
                    continue
                run = {"scenario": scenario, "round": number, "peer": peer.name, **_run(bench, peer, scenario)}
                if "unsupported" in run:
                    refused.add((scenario, peer.name))
                print(f"{scenario} {number}/{arguments.rounds} {peer.name}: {_in_words(run)}", flush=True)
                yield run


def _run(bench: Bench, peer: Peer, scenario: str) -> dict[str, Any]:
    began = time.monotonic()
    try:
        return {"result": SCENARIOS[scenario](bench, peer), "took": round(time.monotonic() - began, 2)}
    except Unsupported as reason:
        return {"unsupported": str(reason)}
    except Exception as error:  # noqa: BLE001 — one peer's trouble is reported, and the others go on
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        bench.clear(peer)


def _summarise(found: dict[str, Any]) -> None:
    found["medians"] = results.medians(found["runs"])
    found["ratios"] = results.ratios(found["runs"])


def _in_words(run: dict[str, Any]) -> str:
    if "result" not in run:
        return run.get("error") or f"unsupported: {run['unsupported']}"
    numbers = {key: value for key, value in run["result"].items() if not isinstance(value, list)}
    return ", ".join(f"{key} {value:,.4g}" if value < 10 else f"{key} {value:,.0f}" for key, value in numbers.items())


if __name__ == "__main__":
    sys.exit(main())
