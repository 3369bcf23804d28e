"""``howdah demo``: the show from its beginning to its end."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import psycopg
from rich.table import Column, Table
from rich.text import Text

from howdah.cli.arguments.connect import open_queue
from howdah.cli.command import HELP_WIDTH, Command
from howdah.cli.commands.demo import promises, stage, summary
from howdah.cli.commands.demo.board import Board
from howdah.cli.commands.demo.handlers import SCHEMA
from howdah.cli.commands.demo.promises import Evidence, Promise
from howdah.cli.commands.demo.show import Show
from howdah.cli.commands.demo.summary import TypeSummary
from howdah.cli.commands.demo.team import LEASE, SLOTS, WORKERS, Team
from howdah.cli.commands.demo.view import shown
from howdah.cli.commands.demo.workload import FEWEST, MOST, USUAL, kinds
from howdah.cli.process.interruption import interrupted_once
from howdah.cli.render.output import answers, plain, print_json, remark, say, text
from howdah.errors import HowdahError, InvalidInput
from howdah.queue import JobQueue

_NOT_SEEN: Final = 1


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = _Help
    parser.add_argument(
        "--jobs", metavar="N", type=int, default=USUAL, help=f"how many jobs of the three priorities (default: {USUAL})"
    )


class _Help(argparse.RawDescriptionHelpFormatter):
    """The help of the options that all commands share, except where the demo is different."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=HELP_WIDTH)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.dest == "schema":
            return f"where it plays: a schema of its own, cleared each time (default: {SCHEMA})"
        return action.help


def _run(args: argparse.Namespace) -> int:
    if not FEWEST <= args.jobs <= MOST:
        raise InvalidInput(f"--jobs is {args.jobs}; the demo takes {FEWEST} to {MOST:,}")
    with interrupted_once(), open_queue(args, args.schema or SCHEMA) as queue:
        stage.set_up(queue)
        with _cleared_if_interrupted(queue), Team(queue.dsn, queue.schema) as team:
            return _perform(queue, team, args)


def _perform(queue: JobQueue, team: Team, args: argparse.Namespace) -> int:
    board = Board(kinds(args.jobs))
    console = answers()
    if not args.json:
        say(f"{WORKERS} workers with {SLOTS} slots each, as howdah work runs them; one of them will be killed.")
    with contextlib.nullcontext() if args.json else shown(board, console):
        facts = Show(queue, team, board, args.jobs).play()
    jobs = summary.read_back(queue)
    made = summary.summaries(board.kinds, jobs)
    verdict = promises.judged(Evidence(board.kinds, jobs, facts))
    is_good = all(promise.kept for promise in verdict)
    team.keeps_logs = not is_good
    if args.json:
        print_json(_as_json(board, made, verdict))
    else:
        console.print()
        console.print(summary.as_table(board.kinds, made))
        _print_verdict(verdict, board.elapsed)
        _print_hints(queue.schema)
    if not is_good:
        remark(f"howdah: the workers' logs are in {team.logs}")
    return 0 if is_good else _NOT_SEEN


def _as_json(board: Board, made: Sequence[TypeSummary], verdict: Sequence[Promise]) -> dict[str, Any]:
    return {
        "seconds": round(board.elapsed, 1),
        "seen": all(promise.kept for promise in verdict),
        "promises": [plain(promise) for promise in verdict],
        "types": [plain(each) for each in made],
        "story": [plain(event) for event in board.story],
    }


def _print_verdict(verdict: Sequence[Promise], seconds: float) -> None:
    console = answers()
    console.print()
    for promise in verdict:
        mark = ("seen     ", "green") if promise.kept else ("MISSING  ", "bold red")
        line = Table.grid(Column(width=31), Column())
        line.add_row(Text.assemble(mark, (promise.name, "bold")), text(promise.story))
        console.print(line)
    console.print()
    kept = sum(promise.kept for promise in verdict)
    say(Text(f"{kept} of {len(verdict)} things that were to be seen were seen, in {seconds:.1f} seconds.", "bold"))


def _print_hints(schema: str) -> None:
    # Whoever came by `make demo` has no howdah on the PATH.
    called = Path(sys.argv[0])
    program = os.path.relpath(called) if called.name == "howdah" and not shutil.which("howdah") else "howdah"
    say(f"See what went wrong:  {program} list --schema {schema} --status failed")
    say("Write your own:       README.md, under Five minutes")


@contextlib.contextmanager
def _cleared_if_interrupted(queue: JobQueue) -> Iterator[None]:
    """A show that was broken off leaves nothing behind."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(HowdahError, psycopg.Error):
            stage.clear_away(queue)
        raise


COMMAND = Command(
    name="demo",
    summary="watch two workers, and what becomes of a few hundred jobs",
    story=f"""
        Starts {WORKERS} real workers on a few hundred jobs, in a schema of its own ({SCHEMA}), and shows what becomes of
        them: three priorities, retries with backoff, a job for later, a periodic one, one that is cancelled as it runs,
        batches, threads and child processes. In the middle one worker is killed, and its jobs come back on the other when
        it has been silent for {LEASE:g} seconds. Takes about 15 seconds, and touches nobody else's jobs. Exits with 0
        only if everything was seen.
    """,
    examples=(
        ("howdah demo", "on the configured database, or on the embedded one"),
        ("howdah demo --jobs 1000", "with a longer line"),
        ("howdah demo --json", "no show: only what was seen, for a program"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
