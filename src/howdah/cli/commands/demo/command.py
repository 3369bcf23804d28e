"""``howdah demo``: two workers, a few hundred jobs, and a closing summary."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg
from rich.text import Text

from howdah.cli.arguments.connect import open_queue
from howdah.cli.command import Command
from howdah.cli.commands.demo import stage, view
from howdah.cli.commands.demo.handlers import SCHEMA
from howdah.cli.commands.demo.show import ARGUMENTS, LEASE, SLOTS, WORKERS, Board, Show
from howdah.cli.commands.demo.workload import FEWEST, MOST, USUAL, kinds
from howdah.cli.commands.web import imported
from howdah.cli.process.interruption import interrupted_once
from howdah.cli.process.worker_group import WorkerGroup
from howdah.cli.render.output import answers, print_json, remark, say
from howdah.errors import HowdahError, InvalidInput
from howdah.queue import JobQueue

_NOT_FINISHED: Final = 1


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--jobs", metavar="N", type=int, default=USUAL, help=f"how many jobs of the three priorities (default: {USUAL})"
    )
    parser.add_argument("--web", action="store_true", help="show the dashboard, too, until Ctrl-C")


def _run(args: argparse.Namespace) -> int:
    if not FEWEST <= args.jobs <= MOST:
        raise InvalidInput(f"--jobs is {args.jobs}; the demo takes {FEWEST} to {MOST:,}")
    with interrupted_once(), open_queue(args, args.schema or SCHEMA) as queue:
        # By its DSN: the schema of an embedded server would be installed by the first use.
        queue.connect_to(queue._database.dsn())
        stage.set_up(queue)
        with (
            _dashboard(queue, args.web, args.json) as address,
            _cleared_if_interrupted(queue),
            WorkerGroup("howdah.cli.commands.demo.handlers:queue", queue.dsn, queue.schema, *ARGUMENTS) as workers,
        ):
            code = _perform(queue, workers, args)
            if address is not None:
                _keep_dashboard(address)
            return code


def _perform(queue: JobQueue, workers: WorkerGroup, args: argparse.Namespace) -> int:
    board = Board(kinds(args.jobs))
    show = Show(queue, workers, board, args.jobs)
    if not args.json:
        say(f"{WORKERS} workers with {SLOTS} slots each, as howdah work runs them; one of them will be killed.")
    with contextlib.nullcontext() if args.json else view.shown(board, answers()):
        has_finished = show.play()
    made = view.summaries(board.kinds, view.read_back(queue))
    nothing_lost, sentence = view.conclusion(board.kinds, made)
    has_finished = has_finished and nothing_lost
    workers.keeps_logs = not has_finished
    if args.json:
        print_json(
            {
                "seconds": round(board.elapsed, 1),
                "finished": has_finished,
                "summary": sentence,
                "types": made,
                "story": board.story,
            }
        )
    else:
        answers().print()
        answers().print(view.as_table(board.kinds, made))
        answers().print()
        if show.killed:
            say(show.killed)
        say(Text(sentence, "bold green" if has_finished else "bold red"))
        say(f"The demo has {'' if has_finished else 'not '}finished, after {board.elapsed:.1f} seconds.")
        _print_hints(queue.schema)
    if not has_finished:
        remark(f"howdah: the workers' logs are in {workers.logs}")
    return 0 if has_finished else _NOT_FINISHED


def _print_hints(schema: str) -> None:
    # With `make demo`, howdah is not on the PATH.
    called = Path(sys.argv[0])
    program = os.path.relpath(called) if called.name == "howdah" and not shutil.which("howdah") else "howdah"
    say(f"See what went wrong:  {program} list --schema {schema} --status failed")
    say("Write your own:       README.md, under Five minutes")


@contextlib.contextmanager
def _cleared_if_interrupted(queue: JobQueue) -> Iterator[None]:
    """An interrupted demo leaves nothing behind."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(HowdahError, psycopg.Error):
            stage.clear_away(queue)
        raise


# The dashboard, beside the board in the terminal and after it


@contextlib.contextmanager
def _dashboard(queue: JobQueue, is_wanted: bool, is_quiet: bool) -> Iterator[str | None]:
    """Serves it, and yields its address; None if it is not wanted."""
    if not is_wanted:
        yield None
        return
    web, _ = imported()
    with web.serve(web.app(queue, title="Howdah demo")) as address:
        if not is_quiet:
            say(f"The dashboard is at {address}")
        yield address


def _keep_dashboard(address: str) -> None:
    """Until it is interrupted. The workers continue meanwhile, and the jobs stay."""
    say(f"The dashboard stays at {address} until Ctrl-C.")
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()


COMMAND = Command(
    name="demo",
    summary="watch two workers run a few hundred jobs",
    story=f"""
        Starts {WORKERS} real workers on a few hundred jobs, in a schema of its own ({SCHEMA}), and shows what happens to
        them: three priorities, retries with backoff, a delayed job, a periodic one, one that is cancelled while it runs,
        batches, threads and child processes. One worker is killed, and the other takes its jobs over after {LEASE:g} seconds
        without a heartbeat. Takes about 15 seconds, and touches no other jobs. Exits with 0 if every job has ended as
        it should, else with 1.
    """,
    examples=(
        ("howdah demo", "on the configured database, or on the embedded one"),
        ("howdah demo --jobs 1000", "with more jobs"),
        ("howdah demo --web", "with the dashboard in a browser"),
        ("howdah demo --json", "only the summary and the story, for a program"),
    ),
    add_arguments=_add_arguments,
    run=_run,
    schema=f"a schema of its own, cleared each time (default: {SCHEMA})",
)
