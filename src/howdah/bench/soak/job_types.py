"""The types of the jobs of a soak."""

from __future__ import annotations

from typing import Final

QUICK: Final = "soak_quick"
BRIEF: Final = "soak_brief"
THREAD: Final = "soak_thread"
FLAKY: Final = "soak_flaky"
TOLD: Final = "soak_told"
KEYED: Final = "soak_keyed"
DELAYED: Final = "soak_delayed"
BATCH: Final = "soak_batch"
LONG: Final = "soak_long"
CHILD: Final = "soak_child"
JOB_TYPES: Final = (QUICK, BRIEF, THREAD, FLAKY, TOLD, KEYED, DELAYED, BATCH, LONG, CHILD)
