"""All cases, in the order of their numbers."""

from __future__ import annotations

import importlib
from typing import Final

from tests.faults.case import CASES, Case

MODULES: Final = (
    "deaths",
    "zombies",
    "blocked",
    "signals",
    "outages",
    "network",
    "contention",
    "clocks",
    "payloads",
    "hostile",
    "liars",
    "upgrades",
    "connections",
    "locks",
    "restores",
    "quantities",
    "surroundings",
    "copies",
    "foreign",
)

for _module in MODULES:
    importlib.import_module(f"tests.faults.{_module}")

CATALOGUE: Final[tuple[Case, ...]] = tuple(sorted(CASES.values(), key=lambda case: case.number))
