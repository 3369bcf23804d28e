"""How a job's status looks."""

from __future__ import annotations

from typing import Final

from howdah.model.job import Status

STYLES: Final[dict[Status, str]] = {
    "pending": "yellow",
    "claimed": "blue",
    "running": "cyan",
    "completed": "green",
    "failed": "red",
    "cancelled": "magenta",
}
