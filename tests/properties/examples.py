"""How many examples a property is tried with: all of them by ``make scale``, and a part where a run must be short."""

from __future__ import annotations

import os


def examples(many: int) -> int:
    return many if os.environ.get("HOWDAH_SCALE") == "full" else many // 3
