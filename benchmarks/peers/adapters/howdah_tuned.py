"""Howdah, from this repository, with as many slots as a claim can fill, on uvloop."""

from __future__ import annotations

from benchmarks.peers.adapters._protocol import main
from benchmarks.peers.adapters.howdah import adapter

SLOTS = 2000

if __name__ == "__main__":
    main(adapter("howdah_tuned", f"concurrency {SLOTS}, threads {SLOTS}", concurrency=SLOTS, threads=SLOTS))
