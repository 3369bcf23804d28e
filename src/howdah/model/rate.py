"""Rates: how often jobs may start, over all workers."""

from __future__ import annotations

import dataclasses
import re
from datetime import timedelta
from typing import Final, TypeAlias

from howdah.errors import InvalidOption

_TEXT: Final = re.compile(r"\s*(\d{1,7})\s*/\s*(\d{1,9}(?:\.\d+)?)?\s*([a-z]+)\s*", re.ASCII)
_UNITS: Final = {"ms": 0.001, "s": 1, "min": 60, "h": 3_600, "d": 86_400}
_MOST: Final = 1_000_000
_LONGEST: Final = 366 * 86_400


@dataclasses.dataclass(frozen=True, slots=True)
class Rate:
    """How often jobs may start: ``@queue.job(rate=Rate(50, seconds=1, burst=10))``, or ``rate="50/s"``.

    A bucket of tokens: it holds ``burst`` of them at most, and ``jobs`` tokens are added to it every ``seconds``. Each job takes
    as many as it costs (``cost=``, one if not given) when it is claimed. So within any t seconds, at most
    ``burst + jobs * t / seconds`` jobs start.

    burst: as many as ``jobs`` if not given. 1 spreads the jobs evenly.
    """

    jobs: int
    seconds: float | timedelta = 1
    burst: int | None = None

    def __post_init__(self) -> None:
        for name, count in (("jobs", self.jobs), ("burst", self.burst)):
            if name == "burst" and count is None:
                continue
            if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _MOST:
                raise InvalidOption(f"the {name} of a rate are a whole number from 1 to {_MOST:,}, not {count!r}")
        seconds = self.seconds
        if isinstance(seconds, bool) or not isinstance(seconds, int | float | timedelta):
            raise InvalidOption(f"the seconds of a rate are a number or a timedelta, not {seconds!r}")
        if not 0.001 <= self._seconds <= _LONGEST:
            raise InvalidOption(f"a rate is for 0.001 to {_LONGEST:,} seconds, not for {seconds!r}")

    @property
    def _seconds(self) -> float:
        return self.seconds.total_seconds() if isinstance(self.seconds, timedelta) else float(self.seconds)

    @property
    def stored(self) -> dict[str, float]:
        """As the database stores it."""
        return {"jobs": self.jobs, "seconds": self._seconds, "burst": self.burst or self.jobs}

    def __str__(self) -> str:
        unit = next((unit for unit, seconds in _UNITS.items() if seconds == self._seconds), f"{self._seconds:g}s")
        return f"{self.jobs}/{unit}"


RateOption: TypeAlias = Rate | str
"""``rate=``: a Rate, or a text such as "50/s", "100/min", "10/h" or "5/10s"."""


def parsed_rate(value: object, burst: int | None = None) -> Rate:
    """A rate, or the rate that a text means."""
    if isinstance(value, Rate):
        return value
    match = _TEXT.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[3] not in _UNITS:
        raise InvalidOption(
            f'a rate is a Rate(…), or a text such as "50/s", "100/min", "10/h" or "5/10s", not {str(value)[:100]!r}'
        )
    return Rate(int(match[1]), float(match[2] or 1) * _UNITS[match[3]], burst)
