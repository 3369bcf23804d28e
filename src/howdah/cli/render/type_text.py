"""A type of jobs in a table: its name with its pauses, and how many of its jobs run within its limit."""

from __future__ import annotations

from rich.text import Text

from howdah.cli.render.output import STATUS_STYLES, plural, text
from howdah.model.results import TypeStats


def name(job_type: str, counts: TypeStats) -> Text:
    shown = text(job_type, "bold")
    if counts.paused:
        shown.append(" (paused)", "yellow")
    elif counts.paused_keys:
        shown.append(f" ({plural(counts.paused_keys, 'key')} paused)", "yellow")
    return shown


def running(counts: TypeStats) -> Text:
    """How many run, and of how many at most if the type has a limit over all workers."""
    most = "" if counts.limit is None else f" of {counts.limit:,}"
    return Text(f"{counts.running:,}{most}", STATUS_STYLES["running"] if counts.running else "dim")
