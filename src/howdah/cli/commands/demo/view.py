"""What the demo shows: bars in a terminal with the story above them, plain lines elsewhere, and a table at the end."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import threading
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from howdah.cli.arguments.datetimes import now
from howdah.cli.arguments.duration import format_duration
from howdah.cli.commands.demo.show import Board, Event
from howdah.cli.commands.demo.workload import STYLES, Kind
from howdah.cli.commands.listing import pages
from howdah.cli.render.output import STATUS_STYLES, can_be_redrawn, table, text
from howdah.model.job import Job
from howdah.queue import JobQueue

# While it runs

_FRAMES_A_SECOND: Final = 10
_LINE_EVERY_SECONDS: Final = 1.0


@contextlib.contextmanager
def shown(board: Board, console: Console) -> Iterator[None]:
    """Shows the board while the block runs."""
    board.on_event = lambda event: console.print(_line(event), soft_wrap=True)
    with _live(board, console) if can_be_redrawn(console) else _lines(board, console):
        yield


def _line(event: Event) -> Text:
    return Text.assemble((f"{event.after:5.1f}s  ", "dim"), text(event.text, "bold red" if event.bad else ""))


# Plain lines


@contextlib.contextmanager
def _lines(board: Board, console: Console) -> Iterator[None]:
    ended = threading.Event()

    def write_counters() -> None:
        # The main thread notices a closed pipe when it prints the next event.
        with contextlib.suppress(BrokenPipeError):
            while not ended.wait(_LINE_EVERY_SECONDS):
                console.print(f"{board.elapsed:5.1f}s  … {_counters(board)}", soft_wrap=True)

    writer = threading.Thread(target=write_counters, name="demo-view", daemon=True)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()


def _counters(board: Board) -> str:
    ended = sum(board.ended(kind.job_type) for kind in board.kinds)
    running = sum(board.running(kind.job_type) for kind in board.kinds)
    waiting = sum(board.live(kind.job_type) for kind in board.kinds) - running
    return f"{ended:,} jobs have ended, {running:,} running, {waiting:,} waiting"


# Bars


def _live(board: Board, console: Console) -> Live:
    return Live(
        get_renderable=lambda: _picture(board),
        console=console,
        refresh_per_second=_FRAMES_A_SECOND,
        redirect_stdout=False,
        redirect_stderr=False,
        transient=True,
    )


def _picture(board: Board) -> RenderableType:
    return Group(Text(), _workers(board), Text(), _types(board), Text(), Text(_counters(board), "bold"))


def _workers(board: Board) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    for name, state in board.workers:
        grid.add_row(text(name, "bold"), text(state, "bold red" if "killed" in state else ""))
    return grid


def _types(board: Board) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
    grid.add_column(no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(ratio=1)
    grid.add_column(justify="right", no_wrap=True, min_width=7)
    grid.add_column(width=31, no_wrap=True, overflow="ellipsis")
    for kind in board.kinds:
        done, total, style = board.ended(kind.job_type), board.total(kind), STYLES[kind.priority]
        grid.add_row(
            Text(kind.job_type, f"bold {style}"),
            Text(str(kind.priority.value), style),
            ProgressBar(total=max(total, 1), completed=done, complete_style=style, finished_style="green"),
            Text(f"{done}/{total}"),
            _note(board, kind),
        )
    return grid


def _note(board: Board, kind: Kind) -> Text:
    job = board.special.get(kind.job_type)
    if job is not None:
        return text(_state(job), STATUS_STYLES[job.status])
    running = board.running(kind.job_type)
    if kind.count is None:
        return Text("every second", "dim")
    return Text(f"{running} in {kind.runs}" if running else f"in {kind.runs}", "dim")


def _state(job: Job) -> str:
    if job.status == "pending" and (seconds := (job.run_at - now()).total_seconds()) > 0:
        return f"attempt {job.attempts + 1} in {seconds:.1f}s" if job.attempts else f"in {seconds:.1f}s"
    if job.status == "running":
        where = f"on {job.worker_id}"
        return f"{job.current_stage} {where}" if job.current_stage else where
    return f"{job.status}, attempt {job.attempts}" if job.attempts > 1 else job.status


# At the end


@dataclasses.dataclass(frozen=True, slots=True)
class TypeSummary:
    """The jobs of one type. A wait counts from when a job was due, or from the first start of any job."""

    job_type: str
    priority: int
    runs: str
    jobs: int
    completed: int
    failed: int
    cancelled: int
    attempts: int
    least_wait: timedelta | None
    most_wait: timedelta | None

    @property
    def left(self) -> int:
        return self.jobs - self.completed - self.failed - self.cancelled


def read_back(queue: JobQueue) -> list[Job]:
    """All jobs of the schema."""
    return [job for page in pages(queue, limit=1_000) for job in page]


def summaries(kinds: Sequence[Kind], jobs: Sequence[Job]) -> list[TypeSummary]:
    began = min((job.started_at for job in jobs if job.started_at), default=None)
    return [_summary(kind, [job for job in jobs if job.job_type == kind.job_type], began) for kind in kinds]


def as_table(kinds: Sequence[Kind], made: Sequence[TypeSummary]) -> Table:
    numbers = ("prio", "done", "tries", "waited")
    shown = table("type", "prio", "runs in", "done", "otherwise", "tries", "waited", right=numbers)
    for kind, summary in zip(kinds, made, strict=True):
        counts = {"failed": summary.failed, "cancelled": summary.cancelled, "not ended": summary.left}
        shown.add_row(
            text(summary.job_type, f"bold {STYLES[kind.priority]}"),
            text(summary.priority),
            text(summary.runs),
            text(f"{summary.completed}/{summary.jobs}", "green"),
            text(", ".join(f"{n} {how}" for how, n in counts.items() if n), "red" if summary.failed else "magenta"),
            text(summary.attempts, "yellow" if summary.attempts > summary.jobs else ""),
            text(_waited(summary)),
        )
    return shown


def conclusion(kinds: Sequence[Kind], made: Sequence[TypeSummary]) -> tuple[bool, str]:
    """Whether every job is there and has ended, and a sentence about it."""
    total, completed, failed, cancelled, left = (
        sum(getattr(each, name) for each in made) for name in ("jobs", "completed", "failed", "cancelled", "left")
    )
    missing = sum((kind.count or 0) - each.jobs for kind, each in zip(kinds, made, strict=True) if kind.count)
    ended = f"{completed:,} completed, {failed} failed for good, {cancelled} cancelled"
    if missing or left:
        return False, f"{missing} of the enqueued jobs are missing, and {left} have not ended: {ended}."
    scheduled = sum(each.jobs for kind, each in zip(kinds, made, strict=True) if not kind.count)
    from_schedule = f" ({total - scheduled:,} enqueued, {scheduled} by the schedule)" if scheduled else ""
    return True, f"Nothing was lost: all {total:,} jobs{from_schedule} have ended, {ended}."


def _summary(kind: Kind, jobs: Sequence[Job], began: datetime | None) -> TypeSummary:
    statuses = collections.Counter(job.status for job in jobs)
    waits = list(_waits(jobs, began))
    return TypeSummary(
        job_type=kind.job_type,
        priority=kind.priority.value,
        runs=kind.runs,
        jobs=len(jobs),
        completed=statuses["completed"],
        failed=statuses["failed"],
        cancelled=statuses["cancelled"],
        attempts=sum(job.attempts for job in jobs),
        least_wait=min(waits, default=None),
        most_wait=max(waits, default=None),
    )


def _waits(jobs: Sequence[Job], began: datetime | None) -> Iterator[timedelta]:
    for job in jobs:
        if job.started_at is not None and began is not None:
            yield max(job.started_at - max(job.run_at, began), timedelta())


def _waited(summary: TypeSummary) -> str:
    if summary.least_wait is None or summary.most_wait is None:
        return ""
    least, most = format_duration(summary.least_wait), format_duration(summary.most_wait)
    return least if least == most else f"{least} to {most}"
