"""All that can be measured, by the word for it on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from howdah.bench import draining, enqueueing, mixed, pickup, reporting
from howdah.bench.scenario import Scenario

SCENARIOS: Final = (
    enqueueing.ONE_BY_ONE,
    enqueueing.FROM_THREADS,
    enqueueing.AWAITING,
    enqueueing.IN_BULK,
    draining.ASYNC,
    draining.IN_THREADS,
    draining.IN_BATCHES,
    pickup.IDLE,
    reporting.PROGRESS,
    mixed.MIXED,
)
WHAT: Final = tuple(dict.fromkeys(scenario.what for scenario in SCENARIOS))


def chosen(what: Sequence[str]) -> list[Scenario]:
    """The scenarios of these words, in their own order; all if there are none."""
    return [scenario for scenario in SCENARIOS if not what or scenario.what in what]
