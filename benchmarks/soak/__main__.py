"""Whether the queue loses anything, and whether anything grows, in a long time with faults.

    python -m benchmarks.soak [--minutes 10] [--rate 200] [--workers 3] [--faults KIND,…] [--seed N] [--plot FILE.svg] [--out FILE.json]

Jobs of ten types come at a steady rate while faults strike at random moments. At the end every job is accounted for. How to read
the report: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from benchmarks.soak import faults
from benchmarks.soak.accounts import by_kind
from benchmarks.soak.director import Listener, Soaked, SoakOptions, soak
from benchmarks.soak.load import JOB_TYPES
from benchmarks.soak.picture import picture
from benchmarks.soak.sample import Sample
from benchmarks.soak.verdict import Verdict, verdict
from howdah import __about__
from howdah.cli.arguments.datetimes import now
from howdah.cli.commands.bench.command import bench_schema, surroundings
from howdah.cli.commands.bench.figures import shown
from howdah.cli.commands.bench.machine import Machine, Server
from howdah.cli.commands.bench.schema import BenchSchema
from howdah.cli.render.output import answers, json_line, plain, print_json, remark, remarks, say, table, text
from howdah.errors import HowdahError, InvalidInput

SCHEMA: Final = "howdah_soak"
UNSOUND: Final = 1
WRONG_CALL: Final = 2
INTERRUPTED: Final = 130
_MOST_MINUTES: Final = 7 * 24 * 60
_MOST_JOBS_A_SECOND: Final = 1_000_000
_MOST_WORKERS: Final = 100
_SEEDS: Final = 1_000_000
_A_LINE_EVERY: Final = 10.0
"""Seconds between two lines, without a terminal."""
_UNDISTURBED: Final = 2
"""Workers that there must be, so that one can be disturbed and one is not."""


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", metavar="N", type=float, default=10.0, help="for how long jobs come (default: 10)")
    parser.add_argument("--rate", metavar="N", type=int, default=200, help="jobs a second (default: 200)")
    parser.add_argument("--workers", metavar="N", type=int, default=3, help="worker processes (default: 3)")
    parser.add_argument(
        "--faults", metavar="KIND,…", help=f"{', '.join(faults.KINDS)}; or {faults.NONE} (default: all)"
    )
    parser.add_argument("--seed", metavar="N", type=int, help="makes the same plan of faults again")
    parser.add_argument("--plot", metavar="FILE.svg", type=Path, help="draw what was sampled, along the time")
    parser.add_argument("--out", metavar="FILE.json", type=Path, help="write what --json prints into a file, too")
    parser.add_argument("--dsn", help="the database (default: that of howdah)")
    parser.add_argument("--schema", metavar="NAME", help=f"created and dropped (default: {SCHEMA})")
    parser.add_argument("--keep", action="store_true", help="do not drop the schema")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    return parser.parse_args(argv)


def options_of(args: argparse.Namespace) -> SoakOptions:
    """What was asked for. Raises InvalidInput."""
    chosen = SoakOptions(
        minutes=args.minutes,
        rate=args.rate,
        workers=args.workers,
        seed=secrets.randbelow(_SEEDS) if args.seed is None else args.seed,
        faults=faults.chosen(args.faults),
    )
    if not 0 < chosen.minutes <= _MOST_MINUTES:
        raise InvalidInput(f"--minutes is {chosen.minutes:g}; a soak takes more than 0, and {_MOST_MINUTES:,} at most")
    if not 1 <= chosen.rate <= _MOST_JOBS_A_SECOND:
        raise InvalidInput(f"--rate is {chosen.rate:,}; a soak takes 1 to {_MOST_JOBS_A_SECOND:,}")
    if not 1 <= chosen.workers <= _MOST_WORKERS:
        raise InvalidInput(f"--workers is {chosen.workers:,}; a soak takes 1 to {_MOST_WORKERS:,}")
    for option, file in (("--plot", args.plot), ("--out", args.out)):
        if file is not None and (not file.parent.is_dir() or file.is_dir()):
            raise InvalidInput(f"{option} is a file that can be written, and {file} is not")
    if chosen.workers < _UNDISTURBED and faults.OF_WORKERS & set(chosen.faults):
        raise InvalidInput(
            "one worker of a soak is never disturbed, so that its memory can be watched: take --workers 2 or more, or leave"
            f" out {', '.join(kind for kind in faults.KINDS if kind in faults.OF_WORKERS)} by --faults"
        )
    return chosen


class Report:
    """All results of a soak."""

    def __init__(self, machine: Machine, server: Server, soaked: Soaked, seconds: float) -> None:
        self.machine = machine
        self.server = server
        self.soaked = soaked
        self.seconds = seconds
        self.verdict: Verdict = verdict(soaked.samples, soaked.seconds, soaked.options.rate)

    @property
    def exit_code(self) -> int:
        if not self.soaked.is_sound:
            return UNSOUND
        return INTERRUPTED if self.soaked.interrupted else 0

    def as_data(self) -> dict[str, Any]:
        soaked = self.soaked
        return {
            "howdah": __about__.__version__,
            "at": now(),
            "seconds": self.seconds,
            "machine": plain(self.machine),
            "server": plain(self.server),
            "warnings": self.server.warnings(),
            "options": {**plain(soaked.options), "lease": soaked.options.lease},
            "interrupted": soaked.interrupted,
            "sound": soaked.is_sound,
            "accounts": soaked.accounts.as_data(),
            "verdict": self.verdict.as_data(),
            "recoveries": [plain(each) for each in soaked.recoveries],
            "faults": [
                {name: value for name, value in plain(each).items() if name != "held"} | {"held": len(each.held)}
                for each in soaked.faults
            ],
            "ended_unasked": soaked.ended_unasked,
            "samples": [sample.as_data() for sample in soaked.samples],
        }

    def picture(self) -> str:
        server, options = self.server, self.soaked.options
        return picture(
            f"howdah soak, seed {options.seed}: {_minutes(self.soaked.seconds)}, {options.rate:,} jobs/s,"
            f" {options.workers} workers; PostgreSQL {server.version}",
            self.soaked,
        )

    def print(self) -> None:
        console = answers()
        for line in self._story():
            say(line)
        console.print()
        made = table("", "first third", "last third", "times", "at most", "unit", right=_RIGHT)
        for change in self.verdict.changes:
            made.add_row(
                text(change.name),
                text(shown(change.first)),
                text(shown(change.last), "bold yellow" if change in self.verdict.drifted else "bold"),
                text("" if change.ratio is None else f"{change.ratio:.2f}"),
                text(shown(change.most)),
                text(change.unit),
            )
        console.print(made)
        console.print()
        for judged in self._verdicts():
            say(judged)

    def _story(self) -> Iterator[str]:
        options, soaked, found = self.soaked.options, self.soaked, self.soaked.accounts
        failed = found.failed_as_planned + found.failed_by_faults + found.failed_unexplained
        ended = found.completed + failed + found.cancelled
        yield (
            f"{_minutes(soaked.seconds)} at {options.rate:,} jobs/s, {options.workers} workers with a lease of"
            f" {options.lease:g} s, seed {options.seed}"
        )
        happened = by_kind(soaked.faults)
        said = ", ".join(f"{kind} {happened.get(kind, 0)}" for kind in options.faults)
        yield f"Faults: {said or faults.NONE}."
        yield (
            f"Jobs: {found.acknowledged:,} acknowledged, {ended:,} ended: {found.completed:,} completed,"
            f" {found.failed_as_planned:,} failed as planned, {found.failed_by_faults:,} failed by faults"
            + (f", {found.failed_unexplained:,} failed for no reason" if found.failed_unexplained else "")
            + (f", {found.cancelled:,} cancelled" if found.cancelled else "")
            + "."
        )
        if found.unanswered:
            yield f"{found.unanswered:,} calls got no answer, because the connection was lost: their jobs may be there, or not."
        yield (
            f"Handlers came to their end again for {found.repeated:,} {'job' if found.repeated == 1 else 'jobs'}"
            + (f", {found.stalled:,} because a worker had stalled that no fault struck" if found.stalled else "")
            + (f", {found.unexplained:,} of which nothing explains." if found.unexplained else ".")
        )
        yield from self._recovery()

    def _recovery(self) -> Iterator[str]:
        measured = [each for each in self.soaked.recoveries if each.slowest is not None]
        if measured:
            slowest = max(measured, key=lambda each: each.slowest or 0)
            yield (
                f"Recovery: {sum(each.again for each in measured):,} jobs of killed and stopped workers began again elsewhere,"
                f" the slowest after {slowest.slowest:.1f} s ({slowest.kind} at {slowest.at:.0f} s)."
            )

    def _verdicts(self) -> Iterator[Text]:
        if self.verdict.slope is not None:
            yield Text(f"Worker 0, which no fault hit, grew by {self.verdict.slope / 1e6:+.1f} MB an hour.")
        yield text(self.verdict.words, "yellow" if self.verdict.drifted else "")
        found = self.soaked.accounts
        yield text(
            f"Lost: {found.lost:,}. Doubled: {found.doubled:,}. Unfinished: {found.unfinished:,}."
            f" Unexplained: {found.inexplicable:,}.",
            "green" if self.soaked.is_sound else "bold red",
        )
        if not found.acknowledged:
            yield text("No job was acknowledged, so that nothing was shown.", "red")
        for each in (*found.wrong, *self.soaked.ended_unasked):
            yield text(f"  {each}", "red")


def _minutes(seconds: float) -> str:
    shown_minutes = f"{seconds / 60:.3g}"
    return f"{shown_minutes} {'minute' if shown_minutes == '1' else 'minutes'}"


_RIGHT: Final = ("first third", "last third", "times", "at most")


def main(argv: Sequence[str] | None = None) -> int:
    args = _arguments(argv)
    try:
        return _run(args, options_of(args))
    except HowdahError as error:
        remark(f"soak: {error}")
        return WRONG_CALL if isinstance(error, InvalidInput) else UNSOUND
    except KeyboardInterrupt:
        remark("soak: interrupted")
        return INTERRUPTED


def _run(args: argparse.Namespace, options: SoakOptions) -> int:
    with bench_schema(args, SCHEMA, JOB_TYPES) as schema:
        report = _soaked(schema, options)
    data = report.as_data()
    if args.out is not None:
        args.out.write_text(json_line(data), encoding="utf-8")
    if args.plot is not None:
        args.plot.write_text(report.picture(), encoding="utf-8")
    if args.json:
        print_json(data)
    else:
        report.print()
    if report.soaked.interrupted:
        remark("soak: interrupted: this is what was seen until then")
    return report.exit_code


def _soaked(schema: BenchSchema, options: SoakOptions) -> Report:
    began = time.monotonic()
    machine, server = surroundings(schema)
    with _progress(options) as listener:
        remark(f"soak: seed {options.seed}")
        soaked = soak(schema, options, listener)
    return Report(machine, server, soaked, time.monotonic() - began)


# How far it is


@contextlib.contextmanager
def _progress(options: SoakOptions) -> Iterator[Listener]:
    console = remarks()
    if not console.is_terminal or console.is_dumb_terminal:
        yield _Lines()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[last]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, auto_refresh=False, transient=True) as progress:
        yield _Bar(progress, progress.add_task("soak: begins", total=options.seconds, last=""))


class _Lines:
    """A line every ten seconds, and for each fault."""

    def __init__(self) -> None:
        self._next = 0.0

    def sampled(self, sample: Sample) -> None:
        if sample.seconds < self._next:
            return
        if sample.done:
            # The first lines come at once, until the first job has run.
            self._next = sample.seconds + _A_LINE_EVERY
        remark(f"{sample.seconds:7.1f} s: {_standing(sample)}, {_sizes(sample)}")

    def struck(self, fault: faults.Fault) -> None:
        remark(f"{fault.at:7.1f} s: {fault.kind}: {fault.what}")

    def drains(self, left: int) -> None:
        """The samples show it."""


class _Bar:
    """A bar over the time, with the faults above it."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def sampled(self, sample: Sample) -> None:
        self._progress.update(
            self._task,
            completed=sample.seconds,
            description=f"soak: {_standing(sample)}",
            last=f"{sample.faults} faults",
            refresh=True,
        )

    def struck(self, fault: faults.Fault) -> None:
        self._progress.console.print(text(f"{fault.at:7.1f} s: {fault.kind}: {fault.what}", "dim"))

    def drains(self, left: int) -> None:
        self._progress.update(self._task, description=f"soak: {left:,} jobs are left", refresh=True)


def _standing(sample: Sample) -> str:
    latency = "none of late" if sample.p99 is None else f"p99 {shown(sample.p99)} ms"
    return f"{sample.done:,} runs of handlers done, {sample.waiting:,} wait, {latency}"


def _sizes(sample: Sample) -> str:
    rss = "" if sample.eldest is None else f"worker 0 {sample.eldest.rss / 1e6:.1f} MB, "
    size = (sample.table_bytes + sample.index_bytes + sample.beside_bytes) / 1e6
    return f"{rss}table and indexes {size:.1f} MB, {sample.dead:,} dead, {sample.connections} connections"


if __name__ == "__main__":
    sys.exit(main())
