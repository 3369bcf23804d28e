"""What can be chosen for a soak, and what follows from it."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from howdah.bench.soak.faults import KINDS

_USUAL_LEASE, _SHORTEST_LEASE = 15.0, 2.0
_LEASES: Final = 8
"""How many of them a short soak has: there must be time for somebody to be given up."""
_SAMPLES: Final = 120
_OFTEN, _RARELY = 0.5, 60.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SoakOptions:
    """What the user has chosen."""

    minutes: float = 10.0
    rate: int = 200
    workers: int = 3
    seed: int
    faults: tuple[str, ...] = KINDS

    @property
    def seconds(self) -> float:
        return 60 * self.minutes

    @property
    def lease(self) -> float:
        """As a worker has it, except in a soak of less than two minutes."""
        return min(max(self.seconds / _LEASES, _SHORTEST_LEASE), _USUAL_LEASE)

    @property
    def sample_every(self) -> float:
        return min(max(self.seconds / _SAMPLES, _OFTEN), _RARELY)

    def for_workers(self) -> dict[str, Any]:
        """In the proportions of a worker's own settings."""
        return {"lease": self.lease, "heartbeat": self.lease / 5, "sweep": self.lease / 3, "children": 1}
