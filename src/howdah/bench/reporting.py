"""What it costs to say how far a job is: the same work with and without it, in turns."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Final

from howdah.bench.arena import Arena
from howdah.bench.draining import drained
from howdah.bench.handlers import PIECES, PIECES_OF_A_JOB
from howdah.bench.scenario import Options, Play, Round, Scenario

_REPORTS, _RATIO = "reports", "time, compared to silence"


@contextlib.contextmanager
def _work_in_pieces(arena: Arena, options: Options) -> Iterator[Play]:
    # Who comes second finds everything warm: so each comes first in its turn.
    turns = itertools.cycle([(False, True), (True, False)])
    with options.crew(arena, PIECES) as crew, arena.open_queue() as queue:

        def seconds(jobs: int, *, reports: bool) -> float:
            return drained(crew, queue, PIECES, (options.filled({"reports": reports}) for _ in range(jobs)))

        def play(jobs: int) -> Round:
            took = {reports: seconds(jobs, reports=reports) for reports in next(turns)}
            values = {_REPORTS: jobs * PIECES_OF_A_JOB / took[True], _RATIO: took[True] / took[False]}
            return Round(jobs, took[True] + took[False], values)

        yield play


PROGRESS: Final = Scenario(
    what="progress",
    how="",
    meaning=f"jobs that hash {PIECES_OF_A_JOB:,} times 20 kB and report after each, and the same jobs in silence",
    units={_REPORTS: "reports/s", _RATIO: "times"},
    few=20,
    most=2_000,
    opened=_work_in_pieces,
)
