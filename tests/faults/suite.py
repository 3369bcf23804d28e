"""Plays cases, and says what came of each."""

from __future__ import annotations

import dataclasses
import random
import time
import traceback
from typing import Any, Literal

from tests.faults.case import Case, Skipped
from tests.faults.checker import Verdict, judge
from tests.faults.stage import Stage, staged
from tests.servers import Server


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
            figures = dataclasses.asdict(_judged(case, stage))
    except Skipped as reason:
        return outcome("skipped", reason=str(reason))
    except Exception:  # noqa: BLE001 - whatever it is, it is this case's, and the others go on
        return outcome("failed", reason=traceback.format_exc())
    violations = figures.pop("violations")
    return outcome("failed" if violations else "passed", reason="\n".join(violations), faults=stage.faults, **figures)


def _judged(case: Case, stage: Stage) -> Verdict:
    """By the common checks; or as a case that is not audited has judged itself."""
    return judge(stage.evidence(), case.checks) if case.audited else stage.verdict
