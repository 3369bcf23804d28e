"""``howdah demo``: the show from its beginning to its end."""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import secrets
import shutil
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich.console import Console

from howdah.cli.command import Command
from howdah.cli.connect import open_queue
from howdah.cli.demo import summary
from howdah.cli.demo.crew import BATCH_SIZE, WORKERS, Crew
from howdah.cli.demo.tally import Tally
from howdah.cli.demo.view import shown
from howdah.cli.demo.workload import KINDS, Kind, data_for, share_out
from howdah.cli.output import answers, print_json, say
from howdah.errors import HowdahError, InvalidInput
from howdah.queue import JobQueue

SCHEMA: Final = "howdah_demo"
_FEWEST, _MOST = 5, 5_000


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", metavar="N", type=int, default=300, help="how many jobs (default: 300)")
    parser.add_argument(
        "--seed", metavar="N", type=int, help="which jobs stumble, and how long each takes: the same again"
    )


def _run(args: argparse.Namespace) -> int:
    if not _FEWEST <= args.jobs <= _MOST:
        raise InvalidInput(f"--jobs is {args.jobs}; the demo takes {_FEWEST} to {_MOST:,}")
    with open_queue(args, args.schema or SCHEMA) as queue:
        queue.migrate(adopt=False)
        _perform(queue, args)
    return 0


def _perform(queue: JobQueue, args: argparse.Namespace) -> None:
    chance = random.Random(args.seed)
    run = secrets.token_hex(2)
    kinds = {kind.job_type(run): kind for kind in KINDS}
    tally = Tally(share_out(args.jobs), WORKERS)
    console = answers()
    if not args.json:
        say(f"{args.jobs:,} jobs of three priorities; {WORKERS} workers claim them in batches of {BATCH_SIZE}.")
    ids = _enqueue_all(queue, kinds, tally, chance)
    with contextlib.nullcontext() if args.json else shown(tally, console), _cleaned_up(queue, ids):
        _cancel_one(queue, ids, tally)
        Crew(queue, kinds, tally, chance).work()
    summaries = summary.read_back(queue, kinds)
    if args.json:
        print_json(summary.as_json(summaries))
    else:
        _print_end(console, summaries, queue.schema)


def _enqueue_all(queue: JobQueue, kinds: dict[str, Kind], tally: Tally, chance: random.Random) -> list[uuid.UUID]:
    """Enqueues what may wait first and what is urgent last; returns all ids, in that order."""
    ids: list[uuid.UUID] = []
    for job_type, kind in reversed(kinds.items()):
        items = data_for(kind, tally.totals[kind], chance)
        ids += queue.enqueue_many(job_type, items, priority=kind.priority, return_ids=True).ids or []
    return ids


def _cancel_one(queue: JobQueue, ids: list[uuid.UUID], tally: Tally) -> None:
    backfill = KINDS[-1]
    # The last of them that would be worked on: no worker has it yet.
    last = ids[tally.totals[backfill] - 1]
    if queue.cancel(last, "nobody reads this page any more"):
        tally.count_cancelled(backfill)


@contextlib.contextmanager
def _cleaned_up(queue: JobQueue, ids: list[uuid.UUID]) -> Iterator[None]:
    """A show that was broken off leaves no jobs behind that nobody would ever claim."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(HowdahError):
            for job_id in ids:
                queue.cancel(job_id, "the demo was interrupted")
        raise


def _print_end(console: Console, summaries: list[summary.KindSummary], schema: str) -> None:
    console.print()
    summary.print_summary(console, summaries, KINDS)
    console.print()
    # Whoever came by `make demo` has no howdah on the PATH.
    called = Path(sys.argv[0])
    program = os.path.relpath(called) if called.name == "howdah" and not shutil.which("howdah") else "howdah"
    say(f"See what went wrong:  {program} list --schema {schema} --status failed")
    say(f"Add a job of yours:   {program} enqueue send_invoice --data invoice=17")


COMMAND = Command(
    name="demo",
    summary="watch a few hundred jobs move",
    story=f"""
        Enqueues jobs of the three priorities into a schema of its own ({SCHEMA}), lets {WORKERS} simulated
        workers claim them in batches, shows them move, and sums up what the database says in the end. Some
        jobs fail once and are tried again, one fails for good, one is cancelled. Takes about ten seconds,
        and touches nobody's jobs.
    """,
    examples=(
        ("howdah demo", "on the configured database, or on the embedded one"),
        ("howdah demo --jobs 1000 --seed 7", "more of them, and the same show each time"),
        ("howdah demo --json", "no show: only the summary, for a program"),
    ),
    add_arguments=_add_arguments,
    run=_run,
)
