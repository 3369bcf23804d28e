"""The model that the database is compared with makes of every job what the explored table makes of it."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest

from tests.model.table import ENDED, HELD, LIVE, TABLE, Life, Limits, after
from tests.properties.model import MAX_CRASHES, MAX_INTERRUPTIONS, Claim, Model, ModelJob

NOW = datetime(2026, 11, 15, tzinfo=timezone.utc)
PAST = NOW - timedelta(days=1)
TOKEN = 5

Verb = Callable[[Model, ModelJob, Claim], object]


def _claim(model: Model, job: ModelJob, claim: Claim, *, start: int = 0, ahead: bool = False) -> None:
    model.claim("worker", ["a"], 1, start, ahead=ahead)


def _sweep_after(**passed: datetime) -> Verb:
    def sweep(model: Model, job: ModelJob, claim: Claim) -> None:
        for field, moment in passed.items():
            setattr(job, field, moment)
        model.recover(None)

    return sweep


VERBS: dict[str, Verb] = {
    "claim": _claim,
    "claim_and_start": lambda model, job, claim: _claim(model, job, claim, start=1),
    "claim_ahead": lambda model, job, claim: _claim(model, job, claim, ahead=True),
    "start": lambda model, job, claim: model.start(claim),
    "report": lambda model, job, claim: model.progress(claim),
    "complete": lambda model, job, claim: model.complete(claim),
    "fail": lambda model, job, claim: model.fail(claim, give_up=False),
    "give_up": lambda model, job, claim: model.fail(claim, give_up=True),
    "abandon": lambda model, job, claim: model.abandon(claim),
    "snooze": lambda model, job, claim: model.snooze(claim, NOW),
    "release": lambda model, job, claim: model.release(claim, interrupted=False),
    "interrupt": lambda model, job, claim: model.release(claim, interrupted=True),
    "crash": lambda model, job, claim: model.crash(claim),
    "worker_died": lambda model, job, claim: model.leave("worker", uuid.UUID(int=7)),
    "lease_passed": _sweep_after(lease_until=PAST),
    "timed_out": _sweep_after(deadline_at=PAST),
    "cancel_overdue": _sweep_after(),
    "expire": _sweep_after(expires_at=PAST),
    "use_up": _sweep_after(),
    "cancel": lambda model, job, claim: model.cancel(job),
    "retry": lambda model, job, claim: model.retry(job),
    "plain_complete": lambda model, job, claim: model.plain_complete(job),
    "plain_fail": lambda model, job, claim: model.plain_fail(job),
    "plain_recover": lambda model, job, claim: model.plain_recover(),
}


def test_every_verb_of_the_table_is_one_of_the_models() -> None:
    assert {verb for verb, _ in TABLE} == set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_does_what_the_table_states(verb: str) -> None:
    for status, attempts, crashes, interruptions, asked, ahead in itertools.product(
        (*LIVE, *ENDED), (1, 2), (0, 1), (0, 1), (False, True), (False, True)
    ):
        life = Life(status, attempts, TOKEN, crashes, interruptions, asked, ahead)
        if _happens(verb, life):
            model, job = _model_with(verb, life)
            VERBS[verb](model, job, Claim(job.id, TOKEN))
            expected = after(verb, life, Limits(2, MAX_CRASHES, MAX_INTERRUPTIONS)) or life
            # How far a token grows is not the table's matter.
            found = job.life._replace(token=min(job.life.token, TOKEN + 1))
            assert found == expected, (verb, life)


def _happens(verb: str, life: Life) -> bool:
    """Whether a job can be so, and the sweep, which does many things, does this one only."""
    if life.cancel_asked and life.status in ("pending", "claimed"):
        return False
    if life.ahead and life.status != "running":
        return False
    if verb in ("lease_passed", "timed_out"):
        return life.status in HELD and not life.cancel_asked
    if verb in ("expire", "use_up"):
        used_up = verb == "expire" and life.attempts == 2
        return life.status == "pending" and not used_up
    if verb == "cancel_overdue":
        return life.status != "pending"
    if verb == "plain_recover":
        return life.attempts < 2
    return True


def _model_with(verb: str, life: Life) -> tuple[Model, ModelJob]:
    model = Model(NOW)
    job = ModelJob(uuid.UUID(int=1), "a", 100, NOW, NOW, 2)
    job.status, job.attempts, job.token, job.crashes, job.interruptions, _, job.ahead = life
    job.cancel_requested_at = PAST if life.cancel_asked else None
    job.worker = "worker" if job.held else None
    model.enqueue(job)
    if verb == "worker_died":
        held, job.worker = job.worker, None
        model.register("worker", uuid.UUID(int=7))
        job.worker = held
    return model, job
