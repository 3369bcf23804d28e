"""Howdah with a fence taken out, or broken otherwise: each mutant is one function, changed in one place, and the case that must notice.

A checker that cannot fail proves nothing. ``python -m tests.faults --broken`` plays all of these.
"""

from __future__ import annotations

import dataclasses
import random
import re
from typing import Final

import psycopg

from howdah.db import statements
from tests.faults import catalogue
from tests.faults.case import CASES, Case
from tests.faults.checker import judge
from tests.faults.stage import staged
from tests.faults.suite import judged
from tests.servers import Server


@dataclasses.dataclass(frozen=True, slots=True)
class Mutant:
    """A function in which a piece of text is replaced. The text must be there exactly once, comment lines left out."""

    case: str
    function: str
    text: str
    becomes: str = ""

    def __str__(self) -> str:
        return f"{self.case} with a broken {self.function}.sql"

    def source(self) -> str:
        whole = re.sub(r"^ *--[^\n]*\n", "", statements.source(f"functions/{self.function}"), flags=re.MULTILINE)
        times = whole.count(self.text)
        if times != 1:
            raise LookupError(
                f"{self.function}.sql has {self.text!r} {times} times: adapt tests/faults/broken.py to it"
            )
        return whole.replace(self.text, self.becomes)

    def install(self, dsn: str) -> None:
        with psycopg.connect(dsn) as conn:
            conn.execute(statements.render(self.source(), "howdah").encode())


@dataclasses.dataclass(frozen=True, slots=True)
class Exposed:
    """How a mutant was found: by the checker, by what the case itself asserts, or not at all."""

    mutant: Mutant
    violations: tuple[str, ...]
    asserted: str

    @property
    def is_caught(self) -> bool:
        return bool(self.violations or self.asserted)

    @property
    def by(self) -> str:
        found = [*self.violations[:1], *self.asserted.splitlines()[:1]]
        return "; ".join(found) or "NOTHING"


CHECKED: Final = "    IF p_job_type IS NULL OR p_job_type = ''"
REFUSED: Final = "    RAISE EXCEPTION 'refused' USING ERRCODE = 'JQ001';\n"

LANES_BY_INDEX: Final = """\
SET enable_seqscan = off
SET enable_sort = off
SET enable_incremental_sort = off
"""

MUTANTS: Final = (
    Mutant("zombie-complete", "complete", " AND j.token = ended.token"),
    Mutant("zombie-fail", "end_attempt", " AND j.token = claim.token"),
    Mutant("zombie-heartbeat", "heartbeat", " AND w.incarnation = p_incarnation"),
    Mutant("zombie-heartbeat", "progress", " AND j.token = report.token"),
    Mutant("zombie-heartbeat", "record_events", " AND held.token = e.token"),
    Mutant("zombie-heartbeat", "checkpoint", " AND j.token = p_token"),
    Mutant("zombie-heartbeat", "start", " AND j.token = begun.token"),
    Mutant("zombie-heartbeat", "end_attempt", " AND j.token = claim.token"),
    # A fence that is keyed by the number of the attempt.
    Mutant(
        "aba-token",
        "claim",
        "token = CASE WHEN j.token < v_token THEN v_token ELSE howdah.next_token(j.token) END,",
        "token = j.attempts + 1,",
    ),
    # One that is counted: another timeline counts the same.
    Mutant(
        "lossy-failover",
        "claim",
        "token = CASE WHEN j.token < v_token THEN v_token ELSE howdah.next_token(j.token) END,",
        "token = j.token + 1,",
    ),
    # Which life of a worker a claim is of, by the order of two stamps.
    Mutant(
        "clock-back",
        "overdue",
        "w.generation = coalesce(p_job.generation, w.generation)",
        "w.registered_at <= p_job.claimed_at",
    ),
    # A completion that comes again is too late.
    Mutant("lost-reply", "complete", "AND a.status = 'completed'", "AND false"),
    Mutant("rescue-vs-complete", "complete", " AND j.token = ended.token AND j.status <> 'pending'"),
    # One row takes its batch with it.
    Mutant("bad-row", "enqueue_many", "ON CONFLICT DO NOTHING"),
    Mutant(
        "bad-row",
        "complete",
        "    END IF;\nEND\n",
        "    END IF;\nEXCEPTION WHEN OTHERS THEN RETURN;\nEND\n",
    ),
    # A plan that was made while there was nothing reads everything.
    Mutant("plan-flip", "claim", LANES_BY_INDEX),
    # A value that a worker reports is taken as a number without a check.
    Mutant(
        "liar",
        "queue_position",
        "howdah.number_in(w.throughput -> v_job.job_type -> 'per_second')",
        "(w.throughput -> v_job.job_type -> 'per_second')::numeric",
    ),
    # A recovery takes whatever it names.
    Mutant("foreign-variants", "plain_update", " OR (NEW.status = 'pending' AND v_is_alive)"),
    # A statement writes the column as another one found it.
    Mutant(
        "lost-update",
        "plain_update",
        "    NEW.events_count := coalesce(NEW.events_count, 0);",
        "    NEW.events_count := CASE WHEN NEW.priority <> OLD.priority THEN OLD.events_count - 1 ELSE NEW.events_count END;",
    ),
    # Nothing is enqueued, and so nothing is lost.
    Mutant("kill9-random", "enqueue", CHECKED, REFUSED + CHECKED),
    Mutant("backend-kills", "enqueue", CHECKED, REFUSED + CHECKED),
    # A job fails because its worker died, and has ended.
    Mutant(
        "kill9-random",
        "attempt_outcome",
        " AND counted.crashes >= coalesce(t.max_crashes, s.max_crashes) THEN 'failed'",
        " THEN 'failed'",
    ),
)


def expose(mutant: Mutant, server: Server, *, seed: int | None = None) -> Exposed:
    """Plays the quick form of a mutant's case, and returns what was found. Only a fault that is named counts."""
    case: Case = CASES[mutant.case]
    assert case in catalogue.CATALOGUE
    asserted = ""
    seed = random.randrange(10**6) if seed is None else seed
    with staged(case, server, quick=True, seed=seed, broken=mutant.install) as stage:
        try:
            case.play(stage)
        except AssertionError as error:
            asserted = str(error) or "an assertion without words"
            # Then it is expected that not everything has ended.
            checks = [check for check in case.checks if check not in ("I1", "I7")]
            violations = judge(stage.evidence(), checks).violations if case.audited else ()
        else:
            violations = judged(case, stage).violations
    return Exposed(mutant, violations, asserted)
