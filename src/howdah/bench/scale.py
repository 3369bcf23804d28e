"""Scales of a chart: which numbers stand at its axis, and where a value lies along it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator
from typing import Final

_MOST_TICKS: Final = 6
_STEPS: Final = (1, 2, 5)
_DECADES_WITH_STEPS: Final = 2
"""Over so many powers of ten there is room for steps between them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Scale:
    """From the first tick to the last, or to ``last`` behind it, drawn from ``start`` to ``end``."""

    ticks: tuple[float, ...]
    start: float
    end: float
    log: bool = False
    last: float | None = None

    @classmethod
    def over(cls, values: Iterable[float], start: float, end: float, *, log: bool = False) -> Scale:
        """One on which all of these values lie. Unless it is logarithmic, it begins at zero, or below."""
        given = list(values)
        if not given or not all(map(math.isfinite, given)):
            raise ValueError("a scale is made for finite numbers, and for one at least")
        if not log:
            return cls(tuple(linear_ticks(min(0.0, *given), max(0.0, *given))), start, end)
        if min(given) <= 0:
            raise ValueError(f"a logarithmic scale has no place for {min(given):g}")
        return cls(tuple(log_ticks(min(given), max(given))), start, end, log=True)

    @classmethod
    def until(cls, last: float, start: float, end: float) -> Scale:
        """From zero to exactly there: along time, nothing comes after the last sample."""
        # If no time has passed yet, it ends at its last tick.
        return cls(tuple(linear_ticks(0.0, last, beyond=False)), start, end, last=last or None)

    def at(self, value: float) -> float:
        last = self.ticks[-1] if self.last is None else self.last
        low, high, value = (math.log10(each) if self.log else each for each in (self.ticks[0], last, value))
        return self.start + (self.end - self.start) * (value - low) / (high - low)


def linear_ticks(low: float, high: float, *, beyond: bool = True) -> list[float]:
    """A few round numbers, the same step apart, the first of which is not above, and the last not below.

    beyond: False leaves out what would be above.
    """
    if low == high:
        low, high = min(low, 0.0), max(high, 0.0 if low else 1.0)
    rough = (high - low) / (_MOST_TICKS - 1)
    power = math.floor(math.log10(rough))
    while True:
        for step in _STEPS:
            size = _times_ten(step, power)
            first, last = math.floor(low / size), (math.ceil if beyond else math.floor)(high / size)
            if last - first < _MOST_TICKS:
                return [_times_ten(number * step, power) for number in range(first, last + 1)]
        power += 1


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, with steps between them where there is room, around both."""
    decades = math.floor(math.log10(high)) - math.floor(math.log10(low))
    steps = _STEPS if decades <= _DECADES_WITH_STEPS else (1,)
    ticks = list(_log_ticks(low, high, steps))
    # Every tenth power where there are very many.
    every = max(1, math.ceil((len(ticks) - 1) / (2 * _MOST_TICKS)))
    return ticks if every == 1 else [*ticks[:-1:every], ticks[-1]]


def _log_ticks(low: float, high: float, steps: Iterable[int]) -> Iterator[float]:
    # One power more at both ends: a logarithm may be rounded over the edge.
    powers = range(math.floor(math.log10(low)) - 1, math.floor(math.log10(high)) + 3)
    candidates = [_times_ten(step, power) for power in powers for step in steps]
    below = max(tick for tick in candidates if tick <= low)
    above = min(tick for tick in candidates if tick >= high and tick > below)
    return (tick for tick in candidates if below <= tick <= above)


def _times_ten(number: int, power: int) -> float:
    """Divided where the power is negative: 3 × 10⁻¹ is 0.3, and 3 × 0.1 is not."""
    return float(number * 10**power) if power >= 0 else number / 10**-power
