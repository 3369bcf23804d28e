"""Stages: the parts of a job, and how far each of them is.

They nest. Each is a part of the one around it, given in percent of that one; the outermost is the job itself:

    the job  0 ──────────────── 70 ───────────── 100
              "load" (weight 70)  "store" (the rest)
              0 ──────────── 100  0 ─────────── 100
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from decimal import Decimal
from numbers import Real
from typing import Any, Final

from howdah.checks import options
from howdah.checks.values import clean_text
from howdah.errors import InvalidOption

MAX_PATH: Final = 100
MOST: Final = 10**18
"""A count beyond this is taken as this: nobody will miss the difference, and everybody can go on computing."""


class Stage:
    """A part of the job, and how far it is. The outermost one is the job itself."""

    __slots__ = ("around", "begin", "done", "goes_through_items", "name", "percent", "remark", "total", "width")

    def __init__(self, name: str, around: Stage | None, begin: float, width: float) -> None:
        self.name = name
        self.around = around
        self.begin = begin
        self.width = width
        self.percent: float | None = None
        self.done: float | None = None
        self.total: float | None = None
        self.remark: str | None = None
        self.goes_through_items = False

    def count(self, n: float) -> None:
        self.done = n if self.done is None else self.done + n
        if self.total is not None:
            self.percent = None

    def position(self) -> float | None:
        """How far it is, in percent; None if that was never said."""
        if self.percent is not None:
            return float(min(max(self.percent, 0), 100))
        if self.done is None or self.total is None:
            return None
        return _share(self.done, self.total)

    def overall(self) -> float | None:
        """How far the whole job is, in percent."""
        percent, stage = self.position(), self
        while stage.around is not None:
            percent = stage.begin + stage.width * (percent or 0.0) / 100
            stage = stage.around
        return percent if percent is None else min(percent, 100.0)

    def part(self, name: str, weight: float | None) -> Stage:
        """A new stage inside of this one, which begins where this one is."""
        begin = self.position() or 0.0
        lower, upper = self._bounds(begin)
        left = max(upper - begin, 0.0)
        width = left if weight is None else min((upper - lower) * weight / 100, left)
        part = Stage(name, self, begin, width)
        # One without a name is not seen: what was said before goes on to be true.
        part.remark, self.remark = None if name else self.remark, None
        return part

    def _bounds(self, position: float) -> tuple[float, float]:
        """What the stages inside of it share: all of it, or the item that it is at."""
        if not self.goes_through_items:
            return 0.0, 100.0
        if not self.total or self.done is None:
            return position, position
        return _share(self.done, self.total), _share(self.done + 1, self.total)

    def ends(self, around: Stage, completed: bool) -> None:
        """Puts the stage around it where this one has come to."""
        around.percent = self.begin + self.width * (100.0 if completed else self.position() or 0.0) / 100
        if not self.name:
            around.remark = self.remark
        elif not completed:
            # Where it broke off is what somebody will want to know.
            around.remark = f"{self.name} / {self.remark}" if self.remark else self.name
        elif not around.path():
            around.remark = self.name

    def path(self) -> str | None:
        """Where it is, in words: outer / inner."""
        names = [stage.name for stage in self.and_around()][::-1]
        return _short_path(clean_text(" / ".join(part for part in (*names, self.remark) if part)))

    def and_around(self) -> Iterator[Stage]:
        stage: Stage | None = self
        while stage is not None:
            yield stage
            stage = stage.around


# Numbers, as handlers give them


def percent_of(value: Any, name: str = "percent") -> float:
    """Within 0 to 100: a remark about a job must not be what fails it."""
    number = _real(value)
    if number is None or number != number:
        raise InvalidOption(f"{name} is a number from 0 to 100, not {options.shown(value)}")
    return min(max(number, 0.0), 100.0)


def total_of(value: Any) -> float:
    total = count_of(value, "total")
    if total < 0:
        raise InvalidOption(f"total is {options.shown(value)}; it must not be negative")
    return total


def count_of(value: Any, name: str) -> float:
    number = value if type(value) is int else _real(value)
    if number is None or number != number or abs(number) == float("inf"):
        raise InvalidOption(f"{name} is a number, not {options.shown(value)}")
    return min(max(number, -MOST), MOST)


def _real(value: Any) -> float | None:
    """The number, also one of NumPy's, a Fraction or a Decimal; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return None
    try:
        return float(value)
    except OverflowError:
        return -1e300 if operator.lt(value, 0) else 1e300
    except ValueError:
        return None


def storable(count: float | None) -> float | None:
    return None if count is None else float(min(max(count, 0), MOST))


def _share(done: float, total: float) -> float:
    return 100.0 * (min(max(done, 0), total) / total) if total > 0 else 100.0


def _short_path(path: str) -> str | None:
    """The path without its outer parts where it is too long. The innermost one stays."""
    parts = path.split(" / ")
    while len(path) > MAX_PATH and len(parts) > 1:
        parts = parts[1:]
        path = " / ".join(["…", *parts])
    if len(path) > MAX_PATH:
        path = parts[-1]
    return (path if len(path) <= MAX_PATH else f"{path[: MAX_PATH - 1]}…") or None
