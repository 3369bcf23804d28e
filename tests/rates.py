"""What a bucket of tokens allows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime


def check_rate(starts: Iterable[datetime], per_second: float, burst: int) -> None:
    """Between any two starts, no more jobs start than the bucket allows."""
    ordered = sorted(starts)
    for i, first in enumerate(ordered):
        for j in range(i, len(ordered)):
            allowed = burst + (ordered[j] - first).total_seconds() * per_second
            assert j - i + 1 <= allowed + 0.01
