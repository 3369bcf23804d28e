"""Stages: the parts of a job, and how far each of them is.

They nest. Each is a part of the one around it, given in percent of that one; the outermost is the job itself:

    the job  0 ──────────────── 70 ───────────── 100
              "load" (weight 70)  "store" (the rest)
              0 ──────────── 100  0 ─────────── 100
"""

from __future__ import annotations

import operator
from decimal import Decimal
from numbers import Real
from typing import Any, Final

from howdah.checks import options
from howdah.checks.values import clean_text
from howdah.errors import InvalidOption

MAX_PATH: Final = 100
MOST: Final = 10**18
"""The largest count; greater ones are reduced to it, so that computing with them stays possible."""


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
        """How far it is, in percent; None if that was never reported."""
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
        # A stage without a name is not shown: the previous remark stays.
        part.remark, self.remark = None if name else self.remark, None
        return part

    def _bounds(self, position: float) -> tuple[float, float]:
        """The range that inner stages share: the whole stage, or its current item."""
        if not self.goes_through_items:
            return 0.0, 100.0
        if not self.total or self.done is None:
            return position, position
        return _share(self.done, self.total), _share(self.done + 1, self.total)

    def ends(self, around: Stage, completed: bool) -> None:
        """Move the outer stage to where this one has arrived."""
        around.percent = self.begin + self.width * (100.0 if completed else self.position() or 0.0) / 100
        if not self.name:
            around.remark = self.remark
        elif not completed:
            # The place of the failure is of interest.
            around.remark = f"{self.name} / {self.remark}" if self.remark else self.name
        elif not around.path():
            around.remark = self.name

    def path(self) -> str | None:
        """The names of the stages, and the remark: outer / inner / remark."""
        parts: list[str | None] = [self.remark]
        stage: Stage | None = self
        while stage is not None:
            parts.append(stage.name)
            stage = stage.around
        path = clean_text(" / ".join([part for part in reversed(parts) if part]))
        return (path if len(path) <= MAX_PATH else _shortened(path)) or None

    def is_inside(self, other: Stage) -> bool:
        """Whether it is the other stage, or a part of it."""
        stage: Stage | None = self
        while stage is not None and stage is not other:
            stage = stage.around
        return stage is other


# Numbers, as handlers give them


def percent_of(value: Any, name: str = "percent") -> float:
    """A number, reduced to the range 0 to 100: a wrong percentage must not fail the job."""
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
    """The number, also of NumPy, a Fraction or a Decimal; None if it is no number."""
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


def _shortened(path: str) -> str:
    """The path without its outer parts. The innermost one stays."""
    parts = path.split(" / ")
    while len(path) > MAX_PATH and len(parts) > 1:
        parts = parts[1:]
        path = " / ".join(["…", *parts])
    if len(path) > MAX_PATH:
        path = parts[-1]
    return path if len(path) <= MAX_PATH else f"{path[: MAX_PATH - 1]}…"
