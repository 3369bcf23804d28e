"""The demo as it happens: live bars in a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from howdah.cli.demo.crew import BATCH_SIZE
from howdah.cli.demo.tally import Station, Tally
from howdah.cli.demo.workload import KINDS, Kind
from howdah.priority import Priority

STYLES: Final = {Priority.EXPLICIT: "red", Priority.DISCOVERED: "yellow", Priority.BACKFILL: "blue"}
_FRAMES_A_SECOND: Final = 12
_LINE_EVERY_SECONDS: Final = 1.0


@contextlib.contextmanager
def shown(tally: Tally, console: Console) -> Iterator[None]:
    """Shows the tally for as long as the block lasts."""
    can_be_redrawn = console.is_terminal and not console.is_dumb_terminal
    with _live(tally, console) if can_be_redrawn else _lines(tally, console):
        yield


def _live(tally: Tally, console: Console) -> Live:
    return Live(
        get_renderable=lambda: _picture(tally),
        console=console,
        refresh_per_second=_FRAMES_A_SECOND,
        redirect_stdout=False,
        redirect_stderr=False,
    )


@contextlib.contextmanager
def _lines(tally: Tally, console: Console) -> Iterator[None]:
    ended = threading.Event()

    def write_now_and_then() -> None:
        # A reader that has left is noticed by the main thread, with the last line.
        with contextlib.suppress(BrokenPipeError):
            while not ended.wait(_LINE_EVERY_SECONDS):
                console.print(_line(tally), soft_wrap=True)

    writer = threading.Thread(target=write_now_and_then, name="demo-view", daemon=True)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()
        console.print(_line(tally), soft_wrap=True)


def _line(tally: Tally) -> str:
    counts = "   ".join(f"{kind.priority.name} {tally.ended[kind]}/{tally.totals[kind]}" for kind in KINDS)
    return f"{tally.elapsed:5.1f}s   {counts}   {_counters(tally)}"


def _picture(tally: Tally) -> RenderableType:
    workers = () if tally.over.is_set() else (_workers(tally), Text())
    return Group(Text(), _priorities(tally), Text(), *workers, Text(_counters(tally), "bold"))


def _priorities(tally: Tally) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0), expand=True)
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1)
    grid.add_column(justify="right", no_wrap=True, min_width=7)
    grid.add_column(justify="right", no_wrap=True, min_width=6)
    for kind in KINDS:
        style = STYLES[kind.priority]
        seconds = tally.ended_after.get(kind)
        grid.add_row(
            Text(f"{kind.priority.name} {kind.priority.value}", f"bold {style}"),
            Text(kind.name),
            _bar(tally.ended[kind], tally.totals[kind], style),
            Text(f"{tally.ended[kind]}/{tally.totals[kind]}"),
            Text("" if seconds is None else f"{seconds:.1f}s", "green"),
        )
    return grid


def _workers(tally: Tally) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    for width in (8, 14, 20, 4, 8, 12):
        grid.add_column(width=width, no_wrap=True)
    grid.columns[3].justify = "right"
    for number, station in enumerate(tally.stations, start=1):
        # Taken once, because its worker goes on while this is drawn.
        kind = station.kind
        if kind is None:
            grid.add_row(Text(f"worker {number}", "dim"), Text("looks for work", "dim"))
        else:
            grid.add_row(Text(f"worker {number}", "dim"), *_work(kind, station))
    return grid


def _work(kind: Kind, station: Station) -> tuple[RenderableType, ...]:
    style = STYLES[kind.priority]
    return (
        Text(station.subject, style),
        _bar(station.percent, 100, style),
        Text(f"{station.percent}%"),
        Text(station.stage),
        Text(f"+{station.waiting} claimed" if station.waiting else "", "dim"),
    )


def _bar(done: int, total: int, style: str) -> ProgressBar:
    return ProgressBar(total=total, completed=done, complete_style=style, finished_style="green")


def _counters(tally: Tally) -> str:
    parts = [
        f"{tally.ended.total()} of {tally.total} ended",
        f"{tally.batches} batches of up to {BATCH_SIZE}",
        f"{tally.retried} retried",
        f"{tally.failed} failed",
        f"{tally.cancelled} cancelled",
    ]
    return " · ".join(parts)
