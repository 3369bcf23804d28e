"""How many examples a property is tried with: all of them by ``make scale``, and a part where a run must be short."""

from __future__ import annotations

import os

from tests.size import FULL


def examples(many: int) -> int:
    return many if FULL else many // 3 if os.environ.get("CI") else max(many // 8, 10)


def state_machines(many: int) -> int:
    """The same for sequences of steps, of which each takes longer."""
    return int(os.environ.get("HOWDAH_STATE_MACHINE_EXAMPLES") or (many if os.environ.get("CI") else many // 3))
