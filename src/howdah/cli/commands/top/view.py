"""Which jobs are listed: those that run, unless one asks for others."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """A choice of jobs; ``filters`` are those of ``queue.list``."""

    name: str
    filters: Mapping[str, Any]


RUNNING: Final = View("running", {"status": "running"})
STALLED: Final = View("stalled", {"status": "running", "stalled": True})
WAITING: Final = View("waiting", {"status": "pending"})
FAILED: Final = View("failed", {"status": "failed"})
