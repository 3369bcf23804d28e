"""What has changed in the course of a long run."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def thirds(series: Sequence[T]) -> tuple[Sequence[T], Sequence[T]]:
    """The first third and the last, of at least one each."""
    third = max(len(series) // 3, 1)
    return series[:third], series[-third:]


def slope(points: Sequence[tuple[float, float]]) -> float | None:
    """How much y grows with x, by the line that fits best; None where there is none."""
    if len({x for x, _ in points}) < 2:
        return None
    return statistics.linear_regression(*zip(*points, strict=True)).slope
