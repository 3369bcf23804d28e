"""``howdah bench``: how fast the queue is, on this machine and this server."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from howdah import __about__
from howdah.bench import catalogue, plot
from howdah.bench.arena import DEFAULT_SCHEMA, Arena
from howdah.bench.machine import Machine, Server
from howdah.bench.measured import Figure, shown
from howdah.bench.run import Listener, Result, run
from howdah.bench.scenario import Options, Round, Scenario
from howdah.cli.arguments.connect import open_queue
from howdah.cli.arguments.datetimes import now
from howdah.cli.command import HELP_WIDTH, Command
from howdah.cli.commands import soak
from howdah.cli.process.interruption import interrupted_once
from howdah.cli.render.output import answers, json_line, plain, print_json, remark, remarks, say, table, text
from howdah.errors import InvalidInput

_LIMITS: Final = {
    "jobs": (1, 10_000_000),
    "rounds": (1, 1_000),
    "processes": (1, 100),
    "concurrency": (1, 10_000),
    "payload": (0, 60_000),
    "rate": (1, 1_000_000),
}
_SETTINGS: Final = ("synchronous_commit", "fsync", "full_page_writes", "wal_level", "shared_buffers")
"""Those that are shown to people."""
_TITLES: Final = {
    "jobs/s": "Jobs a second: more is better",
    "ms": "Milliseconds until a job starts: less is better",
    "reports/s": "Reports a second: more is better",
    "times": "Time of jobs that report, compared with silent ones: 1 is as fast",
}
_WIDTHS: Final = {"": 26, "median": 9, "min": 9, "max": 9, "unit": 0}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = _Help
    usual = Options()
    parser.add_argument(
        "what", metavar="WHAT", nargs="*", help=f"{', '.join(catalogue.WHAT)} (default: all); or {soak.NAME}, alone"
    )
    parser.add_argument(
        "--jobs", metavar="N", type=int, help="jobs in a round (default: as many as take a few seconds here)"
    )
    parser.add_argument(
        "--rounds",
        metavar="N",
        type=int,
        default=usual.rounds,
        help=f"how often each is repeated, after one round that does not count (default: {usual.rounds})",
    )
    parser.add_argument(
        "--processes", "--workers", metavar="N", type=int, help="worker processes (default: 1; in soak, 3)"
    )
    parser.add_argument(
        "--concurrency", metavar="N", type=int, help="handlers at once in each of them (default: as howdah work has it)"
    )
    parser.add_argument(
        "--payload", metavar="BYTES", type=int, default=usual.payload, help="added to the data of each job (default: 0)"
    )
    parser.add_argument(
        "--rate",
        metavar="N",
        type=int,
        help=f"how many jobs come in a second, in mixed (default: {usual.rate}) and in soak (default: 200)",
    )
    parser.add_argument("--keep", action="store_true", help="leave the schema there, with the jobs of the last of them")
    parser.add_argument("--plot", metavar="FILE.svg", type=Path, help="draw the figures, too")
    soak.add_arguments(parser)


class _Help(argparse.RawDescriptionHelpFormatter):
    """The help of the options that all commands share, except where the bench is different."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=HELP_WIDTH)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.dest == "schema":
            return f"a schema of its own, made for it and dropped (default: {DEFAULT_SCHEMA})"
        return action.help


@dataclasses.dataclass(frozen=True, slots=True)
class _Report:
    """All that a bench has to say."""

    options: Options
    machine: Machine
    server: Server
    results: Sequence[Result]
    seconds: float

    def as_data(self) -> dict[str, Any]:
        return {
            "howdah": __about__.__version__,
            "at": now(),
            "seconds": self.seconds,
            "machine": plain(self.machine),
            "server": plain(self.server),
            "warnings": self.server.warnings(),
            "options": plain(self.options),
            "results": [result.as_data() for result in self.results],
        }


def _run(args: argparse.Namespace) -> int:
    return _soak(args) if soak.NAME in args.what else _bench(args)


def _bench(args: argparse.Namespace) -> int:
    options = _options(args)
    scenarios = _scenarios(args.what)
    _refuse_what_is_for_soak(args)
    _check_file("--plot", args.plot)
    with _arena(args) as arena:
        report = _measured(arena, scenarios, options)
    if args.plot is not None:
        args.plot.write_text(_picture(report), encoding="utf-8")
    if args.json:
        print_json(report.as_data())
    else:
        _print_report(report)
    _say_what_is_kept(args, arena)
    return 0


def _soak(args: argparse.Namespace) -> int:
    if set(args.what) != {soak.NAME}:
        raise InvalidInput(f"{soak.NAME} runs alone: it is no measure of speed")
    for name in ("jobs", "concurrency", "payload"):
        if getattr(args, name):
            raise InvalidInput(f"--{name} is not for {soak.NAME}, whose jobs and workers are what they are")
    _options(args)
    options = soak.options_of(args)
    _check_file("--plot", args.plot)
    _check_file("--out", args.out)
    with _arena(args) as arena:
        report = soak.run(arena, options)
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
        remark("howdah: interrupted: this is what was seen until then")
    _say_what_is_kept(args, arena)
    return report.exit_code


@contextlib.contextmanager
def _arena(args: argparse.Namespace) -> Iterator[Arena]:
    with interrupted_once(), open_queue(args, args.schema or DEFAULT_SCHEMA) as queue:
        with Arena(queue, keep=args.keep) as arena:
            yield arena
        if not arena.could_be_dropped:
            remark(
                f"howdah: schema {arena.schema} could not be dropped, because somebody looks at it in an open transaction;"
                " the next bench replaces it"
            )


def _say_what_is_kept(args: argparse.Namespace, arena: Arena) -> None:
    if args.keep:
        remark(f"schema {arena.schema} is kept: howdah stats --schema {arena.schema}")


def _measured(arena: Arena, scenarios: Sequence[Scenario], options: Options) -> _Report:
    began = time.monotonic()
    machine, server = Machine.this(), Server.behind(arena.connection(), arena.schema)
    for warning in server.warnings():
        remark(Text(f"howdah: {warning}", "yellow"))
    with _progress(scenarios, options) as listener:
        results = run(scenarios, arena, options, listener)
    return _Report(options, machine, server, results, time.monotonic() - began)


# What was asked for


def _options(args: argparse.Namespace) -> Options:
    chosen = {name: getattr(args, name) for name in _LIMITS}
    for name, (least, most) in _LIMITS.items():
        if chosen[name] is not None and not least <= chosen[name] <= most:
            raise InvalidInput(f"--{name} is {chosen[name]:,}; the bench takes {least:,} to {most:,}")
    return Options(**{name: value for name, value in chosen.items() if value is not None})


def _scenarios(what: Sequence[str]) -> list[Scenario]:
    for each in what:
        if each not in catalogue.WHAT:
            raise InvalidInput(f"there is no bench {each!r}: choose from {', '.join(catalogue.WHAT)}, {soak.NAME}")
    return catalogue.chosen(what)


def _refuse_what_is_for_soak(args: argparse.Namespace) -> None:
    for name in ("minutes", "faults", "seed", "out"):
        if getattr(args, name) is not None:
            raise InvalidInput(f"--{name} is for {soak.NAME} alone: howdah bench {soak.NAME} --{name} …")


def _check_file(option: str, file: Path | None) -> None:
    """Before minutes are spent."""
    if file is not None and (not file.parent.is_dir() or file.is_dir()):
        raise InvalidInput(f"{option} is a file that can be written, and {file} is not")


# How far it is


@contextlib.contextmanager
def _progress(scenarios: Sequence[Scenario], options: Options) -> Iterator[Listener]:
    console = remarks()
    if not console.is_terminal or console.is_dumb_terminal:
        yield _Lines(options)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[last]}"), TimeElapsedColumn())
    # Drawn by nobody but the rounds' end: a thread that draws would be measured, too.
    with Progress(*columns, console=console, auto_refresh=False, transient=True) as progress:
        task = progress.add_task("", total=len(scenarios) * (options.rounds + 1), last="")
        yield _Bar(progress, task, options)


class _Lines:
    """A line for each round."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def begins(self, scenario: Scenario) -> None:
        """Its first round will tell."""

    def played(self, scenario: Scenario, number: int, played: Round) -> None:
        remark(f"{scenario.name}: {_which(number, self._options)}: {_said(scenario, played)}")


class _Bar:
    """A bar over all rounds."""

    def __init__(self, progress: Progress, task: TaskID, options: Options) -> None:
        self._progress = progress
        self._task = task
        self._options = options

    def begins(self, scenario: Scenario) -> None:
        self._progress.update(self._task, description=f"{scenario.name}: begins", refresh=True)

    def played(self, scenario: Scenario, number: int, played: Round) -> None:
        self._progress.update(
            self._task,
            advance=1,
            description=f"{scenario.name}: {_which(number, self._options)}",
            last=_said(scenario, played),
            refresh=True,
        )


def _which(number: int, options: Options) -> str:
    return f"round {number} of {options.rounds}" if number else "warm-up"


def _said(scenario: Scenario, played: Round) -> str:
    name, unit = next(iter(scenario.units.items()))
    return f"{shown(played.values[name])} {unit}"


# The answer


def _print_report(report: _Report) -> None:
    console = answers()
    for line in _surroundings(report):
        say(line)
    console.print()
    console.print(_columns(header=True))
    for result in report.results:
        console.print(_heading(result), soft_wrap=True)
        rows = _columns(header=False)
        for figure in result.figures:
            cells = (text(shown(figure.median), "bold"), text(shown(figure.low)), text(shown(figure.high)))
            rows.add_row(text(f"  {_named(result, figure)}"), *cells, text(figure.unit))
        console.print(rows)
    console.print()
    say(_conclusion(report))


def _columns(*, header: bool) -> Table:
    """What is above the figures, or room for those of one scenario: the columns stand below each other."""
    made = table(*_WIDTHS, right=("median", "min", "max"))
    made.show_header = header
    for column, width in zip(made.columns, _WIDTHS.values(), strict=True):
        column.min_width = width
    return made


def _surroundings(report: _Report) -> Iterator[str]:
    machine, server = report.machine, report.server
    yield (
        f"PostgreSQL {server.version} over {server.connection}, round trip {shown(server.round_trip_ms)} ms;"
        f" {machine.python}, {machine.loop}, {machine.driver}; {machine.cores} cores"
    )
    yield ", ".join(f"{name} {server.settings[name]}" for name in _SETTINGS)
    yield from (f"Mind: {warning}." for warning in server.warnings())


def _heading(result: Result) -> Text:
    story = f"  {result.scenario.meaning}; {result.rounds[0].jobs:,} jobs"
    return Text.assemble((result.scenario.what, "bold"), (story, "dim"))


def _named(result: Result, figure: Figure) -> str:
    return figure.name or result.scenario.how


def _conclusion(report: _Report) -> str:
    rounds, processes = report.options.rounds, report.options.processes
    return (
        f"{rounds} round{'' if rounds == 1 else 's'} of each after one that does not count,"
        f" {processes} worker process{'' if processes == 1 else 'es'}, in {report.seconds:.0f} seconds."
    )


# The picture


def _picture(report: _Report) -> str:
    """A chart for each unit: jobs a second and milliseconds have no scale in common."""
    rows: dict[str, list[plot.Bar]] = {}
    for result in report.results:
        for figure in result.figures:
            row = (_label(result, figure), figure.median, figure.low, figure.high, "")
            rows.setdefault(figure.unit, []).append(row)
    server, machine = report.server, report.machine
    title = (
        f"howdah bench, PostgreSQL {server.version} over {server.connection}, {machine.python}, {machine.cores} cores"
    )
    return plot.document(title, [plot.bar_panel(_TITLES[unit], unit, each) for unit, each in rows.items()])


def _label(result: Result, figure: Figure) -> str:
    return f"{result.scenario.what}, {_named(result, figure)}"


COMMAND = Command(
    name="bench",
    summary="measure how fast the queue is, on your server",
    story=f"""
        Measures the queue on this machine and the configured server, in a schema of its own ({DEFAULT_SCHEMA}) that it
        makes and drops. enqueue: one by one, from 16 threads, and awaited. bulk: enqueue_many. drain, drain-threads,
        drain-batch: working off jobs that wait, by coroutines, functions and batches that do nothing. pickup: how long a
        job waits for an idle worker. progress: what it costs to report. mixed: all at once, at a steady rate. Workers are
        processes of their own. All of it takes some minutes and keeps the server busy: not for one that others
        need just now. soak, which runs alone, is no measure of speed: minutes or hours of mixed work with random faults,
        after which every job is accounted for, and what has grown is told.
    """,
    examples=(
        ("howdah bench", "everything"),
        ("howdah bench drain pickup --processes 2", "two of them, with two worker processes"),
        (
            "howdah bench soak --minutes 60 --plot soak.svg",
            "an hour with faults: is anything lost, does anything grow?",
        ),
        ("howdah bench --json --plot bench.svg > bench.json", "all rounds for a program, and a chart"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
