"""How many examples a property is tried with: all of them by ``make scale``, and a part where a run must be short."""

from __future__ import annotations

from tests.size import FULL


def examples(many: int) -> int:
    return many if FULL else many // 3
