"""What was measured, in few numbers: the median of the rounds, and their spread."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One thing that was measured in every round."""

    name: str
    unit: str
    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def low(self) -> float:
        return min(self.rounds)

    @property
    def high(self) -> float:
        return max(self.rounds)

    def as_data(self) -> dict[str, Any]:
        spread = {"median": self.median, "min": self.low, "max": self.high}
        return {"name": self.name, "unit": self.unit, **spread, "rounds": list(self.rounds)}


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of them, from 0 to 1, does not exceed; interpolated between two."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    # Bounded, because rounding could put it above both.
    return min(below + (above - below) * (place - math.floor(place)), above)


def shown(value: float) -> str:
    """The value for people, with three significant digits."""
    if not value:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    rounded = round(value, 2 - magnitude)
    # 999.7 has become 1,000, which has one digit more.
    magnitude = math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(2 - magnitude, 0)}f}"
