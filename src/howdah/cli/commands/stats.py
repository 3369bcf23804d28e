"""``howdah stats``: how many jobs of each type are in each status."""

from __future__ import annotations

import argparse
from typing import Final

from rich.text import Text

from howdah.cli.arguments.connect import open_queue
from howdah.cli.arguments.datetimes import now
from howdah.cli.arguments.duration import format_duration
from howdah.cli.command import Command
from howdah.cli.render.output import STATUS_STYLES, answers, print_json, remark, running_count, table, text, type_name
from howdah.model.job import STATUSES
from howdah.model.results import Stats, TypeStats

_WIDE: Final = 100
"""The least width that has room for one more column."""


def _run(args: argparse.Namespace) -> None:
    with open_queue(args) as queue:
        stats = queue.stats()
    if args.json:
        print_json({"types": dict(stats), "total": stats.total})
    elif stats:
        _print_table(stats)
    else:
        remark("there are no jobs yet")


def _print_table(stats: Stats) -> None:
    console = answers()
    with_stalled = stats.total.stalled > 0 and console.width >= _WIDE
    columns = (*STATUSES, "later", "oldest", *(["stalled"] if with_stalled else []))
    made = table("type", *columns, right=columns, flexible=("type",))
    made.padding = (0, 1, 0, 0)
    for job_type, counts in stats.items():
        made.add_row(type_name(job_type, counts), *_cells(counts)[: len(columns)])
    made.add_section()
    made.add_row(Text("total", "bold"), *_cells(stats.total)[: len(columns)], style="bold")
    console.print(made)
    if stats.total.stalled and not with_stalled:
        jobs = "job has" if stats.total.stalled == 1 else "jobs have"
        remark(f"{stats.total.stalled:,} running {jobs} stalled: howdah list --stalled")


def _cells(counts: TypeStats) -> list[Text]:
    by_status = [
        running_count(counts) if status == "running" else _count(getattr(counts, status), STATUS_STYLES[status])
        for status in STATUSES
    ]
    oldest = "" if counts.oldest_due is None else format_duration(now() - counts.oldest_due)
    return [*by_status, _count(counts.scheduled), text(oldest), _count(counts.stalled, "yellow")]


def _count(count: int, style: str = "") -> Text:
    return text(f"{count:,}", style if count else "dim")


COMMAND = Command(
    name="stats",
    summary="count the jobs of each type in each status",
    story="""
        Where a type has a limit over all workers, the column running shows it: 3 of 3. The column later counts the pending
        jobs that are not due yet. The column oldest shows for how long the oldest due job has waited: if that grows, there are
        too few workers. Running jobs that have stopped reporting are counted as stalled, if there are any. Ended jobs are
        counted for as long as they are kept (see howdah prune).
    """,
    examples=(
        ("howdah stats", "a table"),
        ("howdah stats --json | jq .total.pending", "one number, for a monitor"),
    ),
    run=_run,
)
