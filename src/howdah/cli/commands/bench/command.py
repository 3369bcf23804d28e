"""``howdah bench``: how fast the queue is, on this machine and this server."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from howdah import __about__
from howdah.cli.arguments.connect import open_queue
from howdah.cli.arguments.datetimes import now
from howdah.cli.command import Command
from howdah.cli.commands.bench.figures import shown
from howdah.cli.commands.bench.handlers import JOB_TYPES
from howdah.cli.commands.bench.machine import Machine, Server
from howdah.cli.commands.bench.scenarios import WHAT, Options, Result, Round, Scenario, chosen, run
from howdah.cli.commands.bench.schema import DEFAULT_SCHEMA, BenchSchema
from howdah.cli.process.interruption import interrupted_once
from howdah.cli.render.output import (
    answers,
    can_be_redrawn,
    plain,
    plural,
    print_json,
    remark,
    remarks,
    say,
    table,
    text,
)
from howdah.errors import InvalidInput

_LIMITS: Final = {
    "jobs": (1, 10_000_000),
    "rounds": (1, 1_000),
    "processes": (1, 100),
    "concurrency": (1, 10_000),
    "payload": (0, 60_000),
}
_SETTINGS: Final = ("synchronous_commit", "fsync", "full_page_writes", "wal_level", "shared_buffers")
"""The settings that the report for people shows; JSON has all."""
_WIDTHS: Final = {"": 26, "median": 9, "min": 9, "max": 9, "unit": 0}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    usual = Options()
    parser.add_argument("what", metavar="WHAT", nargs="*", help=f"{', '.join(WHAT)} (default: all)")
    parser.add_argument(
        "--jobs", metavar="N", type=int, help="jobs in a round (default: as many as take a few seconds here)"
    )
    parser.add_argument(
        "--rounds",
        metavar="N",
        type=int,
        default=usual.rounds,
        help=f"rounds of each, after a warm-up that does not count (default: {usual.rounds})",
    )
    parser.add_argument(
        "--processes", "--workers", metavar="N", type=int, default=usual.processes, help="worker processes (default: 1)"
    )
    parser.add_argument(
        "--concurrency", metavar="N", type=int, help="handlers at once in each of them (default: that of howdah work)"
    )
    parser.add_argument(
        "--payload", metavar="BYTES", type=int, default=usual.payload, help="added to the data of each job (default: 0)"
    )
    parser.add_argument(
        "--keep", action="store_true", help="do not drop the schema, with the jobs of the last scenario"
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Report:
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


def _run(args: argparse.Namespace) -> None:
    options, scenarios = _options(args), _scenarios(args.what)
    with bench_schema(args, DEFAULT_SCHEMA, JOB_TYPES) as schema:
        report = _measured(schema, scenarios, options)
    if args.json:
        print_json(report.as_data())
    else:
        _print_report(report)
    if args.keep:
        remark(f"schema {schema.name} is kept: howdah stats --schema {schema.name}")


def _options(args: argparse.Namespace) -> Options:
    given = {name: getattr(args, name) for name in _LIMITS}
    for name, (least, most) in _LIMITS.items():
        if given[name] is not None and not least <= given[name] <= most:
            raise InvalidInput(f"--{name} is {given[name]:,}; the bench takes {least:,} to {most:,}")
    return Options(**given)


def _scenarios(what: Sequence[str]) -> list[Scenario]:
    for each in what:
        if each not in WHAT:
            raise InvalidInput(f"there is no bench {each!r}: choose from {', '.join(WHAT)}")
    return chosen(what)


@contextlib.contextmanager
def bench_schema(args: argparse.Namespace, default: str, job_types: Sequence[str]) -> Iterator[BenchSchema]:
    """The schema that the arguments name, for as long as the block lasts."""
    with interrupted_once(), open_queue(args, args.schema or default) as queue:
        with BenchSchema(queue, job_types, keep=args.keep) as schema:
            yield schema
        if not schema.could_be_dropped:
            remark(
                f"howdah: schema {schema.name} could not be dropped, because another session uses it in an open"
                " transaction; the next bench replaces it"
            )


def surroundings(schema: BenchSchema) -> tuple[Machine, Server]:
    """What the figures depend on. Warns of settings that make them worthless."""
    machine, server = Machine.this(), Server.behind(schema.conn, schema.name)
    for warning in server.warnings():
        remark(Text(f"howdah: {warning}", "yellow"))
    return machine, server


def _measured(schema: BenchSchema, scenarios: Sequence[Scenario], options: Options) -> _Report:
    began = time.monotonic()
    machine, server = surroundings(schema)
    with _progress(scenarios, options) as on_round:
        results = [run(scenario, schema, options, on_round) for scenario in scenarios]
    return _Report(options, machine, server, results, time.monotonic() - began)


# Progress

_OnRound: TypeAlias = Callable[[Scenario, int, Round], None]


@contextlib.contextmanager
def _progress(scenarios: Sequence[Scenario], options: Options) -> Iterator[_OnRound]:
    """A bar in a terminal, and elsewhere a line for each round."""
    console = remarks()
    if not can_be_redrawn(console):
        yield lambda scenario, number, played: remark(
            f"{_round(scenario, number, options)}: {_value(scenario, played)}"
        )
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[last]}"), TimeElapsedColumn())
    # Drawn between rounds only: a thread that draws would be measured, too.
    with Progress(*columns, console=console, auto_refresh=False, transient=True) as progress:
        task = progress.add_task("starting", total=len(scenarios) * (options.rounds + 1), last="")
        progress.refresh()

        def advance(scenario: Scenario, number: int, played: Round) -> None:
            description, last = _round(scenario, number, options), _value(scenario, played)
            progress.update(task, advance=1, description=description, last=last, refresh=True)

        yield advance


def _round(scenario: Scenario, number: int, options: Options) -> str:
    return f"{scenario.name}: {f'round {number} of {options.rounds}' if number else 'warm-up'}"


def _value(scenario: Scenario, played: Round) -> str:
    name, unit = next(iter(scenario.units.items()))
    return f"{shown(played.values[name])} {unit}"


# The report


def _print_report(report: _Report) -> None:
    console = answers()
    for line in _described(report.machine, report.server):
        say(line)
    console.print()
    console.print(_columns(header=True))
    for result in report.results:
        meaning = f"  {result.scenario.meaning}; {result.rounds[0].jobs:,} jobs"
        console.print(Text.assemble((result.scenario.what, "bold"), (meaning, "dim")), soft_wrap=True)
        rows = _columns(header=False)
        for figure in result.figures:
            cells = (text(shown(figure.median), "bold"), text(shown(figure.low)), text(shown(figure.high)))
            rows.add_row(text(f"  {figure.name or result.scenario.how}"), *cells, text(figure.unit))
        console.print(rows)
    console.print()
    rounds, processes = report.options.rounds, report.options.processes
    say(
        f"{plural(rounds, 'round')} of each after a warm-up,"
        f" {processes} worker process{'' if processes == 1 else 'es'}, in {report.seconds:.0f} seconds."
    )


def _columns(*, header: bool) -> Table:
    """A table whose columns are as wide as those of the others."""
    made = table(*_WIDTHS, right=("median", "min", "max"))
    made.show_header = header
    for column, width in zip(made.columns, _WIDTHS.values(), strict=True):
        column.min_width = width
    return made


def _described(machine: Machine, server: Server) -> Iterator[str]:
    yield (
        f"PostgreSQL {server.version} over {server.connection}, round trip {shown(server.round_trip_ms)} ms;"
        f" {machine.python}, {machine.loop}, {machine.driver}; {machine.cores} cores"
    )
    yield ", ".join(f"{name} {server.settings[name]}" for name in _SETTINGS)
    yield from (f"Mind: {warning}." for warning in server.warnings())


COMMAND = Command(
    name="bench",
    summary="measure how fast the queue is, on your server",
    story=f"""
        Measures the queue on this machine and the configured server, in a schema of its own ({DEFAULT_SCHEMA}) that it
        creates and drops. enqueue: one by one, from 16 threads, awaited, and by enqueue_many. drain: waiting jobs are worked
        off by coroutines, functions and batches that do nothing. pickup: how long a job waits for an idle worker. Workers
        are processes of their own. All of it takes two minutes and keeps the server busy: do not run it on a server that
        has other work to do.
    """,
    examples=(
        ("howdah bench", "everything"),
        ("howdah bench drain pickup --processes 2", "two of them, with two worker processes"),
        ("howdah bench --json > bench.json", "all rounds, for a program"),
    ),
    add_arguments=_add_arguments,
    run=_run,
    schema=f"a schema of its own, created and dropped (default: {DEFAULT_SCHEMA})",
)
