"""Plays cases, and returns the outcome of each."""

from __future__ import annotations

import dataclasses
import random
import time
import traceback
from collections.abc import Iterator
from typing import Any, Literal

from tests.faults.case import Case, Skipped
from tests.faults.checker import Verdict, judge
from tests.faults.stage import Stage, staged
from tests.servers import Server
from tests.worker.processes import recovery_bound


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """One case on one server."""

    number: int
    case: str
    major: int
    outcome: Literal["passed", "failed", "skipped"]
    seconds: float
    seed: int
    faults: int = 0
    jobs: int = 0
    lost: int = 0
    doubled: int = 0
    slowest: float | None = None
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def play(case: Case, server: Server, major: int, *, quick: bool, seed: int | None = None) -> Outcome:
    """Plays a case, and judges it."""
    seed = random.randrange(10**6) if seed is None else seed
    began = time.monotonic()

    def outcome(word: Literal["passed", "failed", "skipped"], **others: Any) -> Outcome:
        return Outcome(case.number, case.name, major, word, round(time.monotonic() - began, 1), seed, **others)

    try:
        with staged(case, server, quick=quick, seed=seed) as stage:
            case.play(stage)
            figures = dataclasses.asdict(judged(case, stage))
    except Skipped as reason:
        return outcome("skipped", reason=str(reason))
    except Exception:  # noqa: BLE001 - whatever it is, it is this case's, and the others go on
        return outcome("failed", reason=traceback.format_exc())
    violations = figures.pop("violations")
    return outcome("failed" if violations else "passed", reason="\n".join(violations), faults=stage.faults, **figures)


def judged(case: Case, stage: Stage) -> Verdict:
    """By the common checks, or as a case that is not audited has judged itself; and by whether there was anything to judge."""
    verdict = (
        judge(stage.evidence(), case.checks, recovery_bound(), fails=case.fails) if case.audited else stage.verdict
    )
    return dataclasses.replace(verdict, violations=(*verdict.violations, *_of_the_load(case, stage, verdict)))


def _of_the_load(case: Case, stage: Stage, verdict: Verdict) -> Iterator[str]:
    """A case without risk proves nothing."""
    if not verdict.jobs:
        yield "there were no jobs"
    if not stage.faults:
        yield "no fault was injected"
    if "I6" in case.checks and verdict.slowest is None:
        yield "I6: no dead worker held a job, so that no recovery was measured"
    if stage.refused and not case.refuses:
        yield f"{stage.refused} enqueues were refused, and the database was there"
