"""The invariants, checked on evidence: what was lost, what was done twice, and how long a recovery took.

I1 every acknowledged enqueue reaches a final status. I2 one final transition for each job (and life). I3 the final
token is the last claim's token, and so are the result's, the error's and the progress's. I4 runs overlap only after a
lease or a deadline has passed. I5 starts are bounded by the attempts. I6 recovery within the bound. I7 the queue is
drained, and nothing is left without an owner. I8, that a claim gives no more than was asked for, is for the case that asks.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, Final, NamedTuple

from tests.faults.evidence import FINAL, Ended, Evidence, Transition
from tests.worker.ledger import Entry
from tests.worker.processes import RECOVERY

SHOWN: Final = 5
"""So many violations of one kind are listed."""


FOR_EVER: Final = datetime.max.replace(tzinfo=timezone.utc)


class Hold(NamedTuple):
    """One claim of a job, until the job ended or was recovered."""

    id: uuid.UUID
    worker: str | None
    since: datetime
    until: datetime


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a case."""

    jobs: int
    lost: int
    doubled: int
    slowest: float | None
    violations: tuple[str, ...]


def judge(
    evidence: Evidence, invariants: Sequence[str], bound: float = RECOVERY, *, fails: Collection[str] | None = None
) -> Verdict:
    """Checks these invariants; what was lost and doubled is counted in any case.

    Only jobs of the types in fails may end otherwise than completed, if given: I1 is content with any end.
    """
    recovered = list(recoveries(evidence))
    violations = [
        f"{name}: {violation}" for name in invariants if name in CHECKS for violation in _some(CHECKS[name](evidence))
    ]
    if "I6" in invariants:
        late = ((id, took) for id, took in recovered if took > bound)
        told = (f"{id} was back after {took:.1f} s, and not within {bound:g} s" for id, took in late)
        violations += [f"I6: {each}" for each in _some(told)]
    if fails is not None:
        violations += _some(_ended_otherwise(evidence, fails))
    return Verdict(
        jobs=len(evidence.acknowledged | {job.id for job in evidence.jobs}),
        lost=len(list(lost(evidence))),
        doubled=sum(doubled(evidence).values()),
        slowest=max((took for _, took in recovered), default=None),
        violations=tuple(violations),
    )


def lost(evidence: Evidence) -> Iterator[uuid.UUID]:
    """Acknowledged, and not ended."""
    ended = {job.id for job in evidence.jobs if job.status in FINAL}
    yield from sorted(evidence.acknowledged - ended)


def doubled(evidence: Evidence) -> Counter[uuid.UUID]:
    """How often each job ended more often than it had lives."""
    finals = Counter(each.id for each in evidence.transitions if each.is_final)
    revivals = Counter(each.id for each in evidence.transitions if each.is_revival)
    twice = Counter(job.id for job in evidence.jobs)
    return Counter(
        {id: more for id in finals.keys() | twice.keys() if (more := max(finals[id] - revivals[id], twice[id]) - 1) > 0}
    )


def _every_acknowledged_job_ends(evidence: Evidence) -> Iterator[str]:
    for id in lost(evidence):
        yield f"{id} was acknowledged, and has not ended"


def _ended_otherwise(evidence: Evidence, fails: Collection[str]) -> Iterator[str]:
    for job in evidence.jobs:
        if job.status in FINAL and job.status != "completed" and job.job_type not in fails:
            reason = (job.errors or [{}])[-1].get("error")
            yield f"{job.id} ended as {job.status}, and {job.job_type} is not to: {reason}"


def _one_final_transition(evidence: Evidence) -> Iterator[str]:
    for id, more in doubled(evidence).items():
        yield f"{id} ended {more + 1} times"


def _the_last_claim_decides(evidence: Evidence) -> Iterator[str]:
    history = evidence.by_job()
    for job in evidence.jobs:
        claims = [each.token for each in history[job.id] if each.is_claim and each.token is not None]
        if not claims or job.status not in FINAL:
            continue
        last = claims[-1]
        if claims != sorted(set(claims)):
            yield f"{job.id}: the tokens of its claims do not grow: {claims}"
        if job.status == "completed" and job.token != last:
            yield f"{job.id} was completed with token {job.token}, and its last claim had {last}"
        yield from _words_by_token(job, last)


def _words_by_token(job: Ended, last: int) -> Iterator[str]:
    """Handlers of the suite put their token into everything that they write."""
    said = job.result.get("token") if job.status == "completed" and isinstance(job.result, dict) else None
    if said is not None and said != last:
        yield f"{job.id} has the result of token {said}, and its last claim had {last}"
    # A claim begins without progress.
    if (said := token_in(job.current_stage)) is not None and said != last:
        yield f"{job.id} has the progress of token {said}, and its last claim had {last}"
    for error in job.errors if isinstance(job.errors, list) else ():
        said = token_in(error.get("error")) if isinstance(error, dict) else None
        if said is not None and said != error.get("token"):
            yield f"{job.id}: token {said} failed, and the recorded error has token {error.get('token')}"


def token_in(text: Any) -> int | None:
    found = re.search(r"\btoken (\d+)\b", text) if isinstance(text, str) else None
    return int(found[1]) if found else None


def _runs_overlap_only_with_a_reason(evidence: Evidence) -> Iterator[str]:
    history = evidence.by_job()
    for id, entries in _of_each_job(evidence.entries).items():
        starts = [entry for entry in entries if entry.word == "START"]
        for token, times in Counter(entry.token for entry in starts).items():
            if times > 1:
                yield f"{id}: the claim with token {token} was started {times} times"
        for first, second in itertools.pairwise(starts):
            # A worker that was stopped may begin what it had started ahead after another has begun the job: the older claim is the
            # one that must have been recovered.
            older, newer = sorted((first, second), key=lambda entry: entry.token)
            if _still_ran(first, second, entries) and (reason := _no_reason(older, newer, history[id], evidence)):
                yield f"{id}: token {second.token} began while token {first.token} ran: {reason}"


def _still_ran(first: Entry, second: Entry, entries: Sequence[Entry]) -> bool:
    """Whether it wrote anything after the other had begun: one that was killed did not."""
    return any(entry.token == first.token and entry.at > second.at for entry in entries)


def _no_reason(older: Entry, newer: Entry, history: Sequence[Transition], evidence: Evidence) -> str | None:
    """Why it should have kept the job; None if there was a reason to recover the job."""
    claim = next((each for each in history if each.is_claim and each.token == newer.token), None)
    if claim is None:
        return "no claim has that token"
    before = (each for each in history if each.n < claim.n and each.ends_a_hold)
    taken = next((each for each in before if each.token_before == older.token), None)
    if taken is None:
        return "it was never recovered"
    if taken.deadline_at is not None and taken.deadline_at <= taken.at:
        return None
    if taken.lease_until is not None and taken.lease_until <= taken.at:
        return None
    if taken.cancel_requested_at is not None:
        return None
    if taken.holder is None or taken.after is None:
        return None
    of_its_worker = [each for each in evidence.farewells if each.worker == taken.holder]
    farewells = [each for each in of_its_worker if each.xact == taken.xact or each.at <= taken.at]
    if any(each.replaced or each.silent_for >= each.lease for each in farewells):
        return None
    silent = max((each.silent_for for each in farewells), default=timedelta())
    # A handler that ends its job itself may do so before its last line is in the ledger.
    ended_itself = taken.token == taken.token_before
    return None if ended_itself else f"its worker {taken.holder} had been silent for {silent} only"


def _starts_are_bounded(evidence: Evidence) -> Iterator[str]:
    starts = Counter(entry.id for entry in evidence.entries if entry.word == "START")
    lives = Counter(each.id for each in evidence.transitions if each.is_revival)
    for job in evidence.jobs:
        most = job.max_attempts * (1 + lives[job.id]) + job.interruptions
        if starts[job.id] > max(most, 0):
            yield f"{job.id} was started {starts[job.id]} times, with {job.max_attempts} attempts"


def _nothing_is_left(evidence: Evidence) -> Iterator[str]:
    for job in evidence.jobs:
        if job.status not in FINAL:
            yield f"{job.id} is still {job.status}, held by {job.worker_id or 'no worker'}"


def recoveries(evidence: Evidence) -> Iterator[tuple[uuid.UUID, float]]:
    """For each job that a worker held at its death: seconds until the job was recovered."""
    holds = list(_holds(evidence))
    for death in evidence.deaths:
        for hold in holds:
            if hold.worker == death.worker and hold.since <= death.at < hold.until:
                yield hold.id, (hold.until - death.at).total_seconds()


def _holds(evidence: Evidence) -> Iterator[Hold]:
    for id, transitions in evidence.by_job().items():
        worker, since = None, FOR_EVER
        for each in transitions:
            if each.is_claim:
                worker, since = each.worker, each.at
            elif each.ends_a_hold:
                yield Hold(id, worker, since, each.at)
                worker = None
        if worker is not None:
            yield Hold(id, worker, since, FOR_EVER)


def _of_each_job(entries: Sequence[Entry]) -> dict[uuid.UUID, list[Entry]]:
    found = defaultdict(list)
    for entry in entries:
        found[entry.id].append(entry)
    return found


def _some(violations: Iterator[str]) -> list[str]:
    found = list(violations)
    return found if len(found) <= SHOWN else [*found[:SHOWN], f"and {len(found) - SHOWN} more like these"]


CHECKS: Final[dict[str, Callable[[Evidence], Iterator[str]]]] = {
    "I1": _every_acknowledged_job_ends,
    "I2": _one_final_transition,
    "I3": _the_last_claim_decides,
    "I4": _runs_overlap_only_with_a_reason,
    "I5": _starts_are_bounded,
    "I7": _nothing_is_left,
}
