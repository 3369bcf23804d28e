"""Broken protocols: each differs in one rule, and each must be refuted, or the properties prove nothing."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

from tests.model import table
from tests.model.rules import Rules, Scene
from tests.model.scenes import (
    AHEAD,
    DEAD_WORKER,
    FAILOVER,
    IN_ORDER,
    LAST_ATTEMPT,
    LATE_CLAIM,
    ONE_JOB,
    ONE_KEY,
    ONE_NAME,
    ONE_WORKER,
    SMALL_APPETITE,
    TWO_JOBS,
)
from tests.model.table import ENDED, HELD, TABLE, Life, Limits, Rule


class Variant(NamedTuple):
    name: str
    sentence: str
    refutes: str
    """The property that must not hold."""
    scene: Scene
    rules: Rules


def _with(*rules: tuple[str, tuple[str, ...], Rule]) -> Rules:
    """The table with other rules for these verbs and statuses."""
    return Rules(table={**TABLE, **{(verb, status): rule for verb, statuses, rule in rules for status in statuses}})


def _complete_in_two(life: Life, limits: Limits) -> Life:
    return life._replace(status="archiving")


def _retry_from_zero(life: Life, limits: Limits) -> Life:
    return Life()


def _keep_token(life: Life, limits: Limits, *, rule: Rule) -> Life | None:
    moved = rule(life, limits)
    return moved and moved._replace(token=life.token)


def _unless_last(life: Life, limits: Limits) -> Life | None:
    return None if life.attempts >= limits.max_attempts else table.spend(life, limits)


def _fail_for_free(life: Life, limits: Limits) -> Life:
    failed = table.fail(life, limits)
    return failed._replace(attempts=life.attempts - 1, status="pending")


def _die_for_free(life: Life, limits: Limits) -> Life:
    return table.refund(life, limits) if life.ahead else table.crash(life, limits)


VARIANTS = (
    Variant(
        "complete-ended-jobs", "complete names only the id, and takes jobs that have ended.",
        "one-final-transition", LAST_ATTEMPT,
        dataclasses.replace(_with(("complete", ENDED, table.complete)), unfenced=frozenset({"complete"})),
    ),
    Variant(
        "complete-by-id", "complete names only the id (the seed's).",
        "final-token-is-last-claim", ONE_JOB, Rules(unfenced=frozenset({"complete"})),
    ),
    Variant(
        "fail-by-id", "fail names only the id (the seed's).",
        "stale-write-changes-nothing", ONE_JOB, Rules(unfenced=frozenset({"fail"})),
    ),
    Variant(
        "fence-by-attempts", "attempts are the fence, not a token: a refund brings them back (ABA).",
        "stale-write-changes-nothing", ONE_JOB, Rules(fence_of=lambda life: life.attempts, renumbers=False),
    ),
    Variant(
        "start-by-id", "start names only the id.",
        "stale-write-changes-nothing", ONE_JOB, Rules(unfenced=frozenset({"start"})),
    ),
    Variant(
        "progress-by-id", "progress names only the id.",
        "stale-write-changes-nothing", ONE_JOB, Rules(unfenced=frozenset({"report"})),
    ),
    Variant(
        "heartbeat-by-name", "a heartbeat names the worker, and not its boot.",
        "stale-write-changes-nothing", ONE_NAME, Rules(beats_by_boot=False),
    ),
    Variant(
        "sweep-at-will", "the sweep does not look whether a lease has passed (the seed's, by claimed_at).",
        "no-overlap-while-lease-valid", ONE_JOB, Rules(sweeps_only_passed_leases=False),
    ),
    Variant(
        "disown-by-name", "a worker releases unknown jobs of its name, although another process has the name by now.",
        "lease-respected", ONE_NAME, Rules(attends_by_boot=False),
    ),
    Variant(
        "no-self-fence", "a worker that is cut off continues.",
        "cut-off-worker-lets-go", ONE_WORKER, Rules(fences_itself=False),
    ),
    Variant(
        "failure-for-free", "a failure costs no attempt.",
        "starts-bounded", ONE_WORKER, _with(("fail", HELD, _fail_for_free)),
    ),
    Variant(
        "death-for-free", "a job gets its attempt back when its worker dies while it runs.",
        "starts-bounded", dataclasses.replace(ONE_WORKER, kinds=frozenset({"crash"}), surprises=None),
        _with(("worker_died", ("running",), table.refund)),
    ),
    Variant(
        "last-attempt-stays-held", "the sweep recovers only jobs with attempts left (the seed's).",
        "no-orphan", DEAD_WORKER, _with(("worker_died", ("running",), _unless_last)),
    ),
    Variant(
        "no-reconciler", "no worker checks what it holds: a claim whose answer was lost is never found.",
        "no-orphan", ONE_WORKER, Rules(attends=False),
    ),
    Variant(
        "strays-overlooked", "the sweep reads workers' rows only: a claim that came after its worker was declared dead stays.",
        "no-orphan", dataclasses.replace(DEAD_WORKER, kinds=frozenset({"late message", "crash"})),
        Rules(sweeps_strays=False),
    ),
    Variant(
        "end-in-two-transactions", "complete deletes the live row in one transaction, and archives it in the next.",
        "no-acknowledged-job-lost", ONE_WORKER, _with(("complete", HELD, _complete_in_two)),
    ),
    Variant(
        "retry-resets-token", "an operator's retry begins at token 0 again.",
        "tokens-only-grow", ONE_WORKER, dataclasses.replace(_with(("retry", ENDED, _retry_from_zero)), renumbers=False),
    ),
    Variant(
        "sweep-keeps-token", "the sweep recovers a job and leaves its token.",
        "tokens-only-grow", ONE_JOB,
        _with(
            ("worker_died", ("claimed",), functools.partial(_keep_token, rule=table.refund)),
            ("worker_died", ("running",), functools.partial(_keep_token, rule=table.crash)),
        ),
    ),
    Variant(
        "release-keeps-token", "a release gives the attempt back and leaves the token.",
        "tokens-only-grow", ONE_WORKER,
        _with(("interrupt", ("claimed",), functools.partial(_keep_token, rule=table.refund))),
    ),
    Variant(
        "retry-into-the-past", "an operator's retry begins at token 0 again, tokens are counted, and the old holder is still there.",
        "stale-write-changes-nothing", LAST_ATTEMPT,
        dataclasses.replace(_with(("retry", ENDED, _retry_from_zero)), renumbers=False, tokens_by_clock=False),
    ),
    Variant(
        "token-by-count", "a token is one more than the row's: a standby that lacks the last claim gives it out again.",
        "stale-write-changes-nothing", FAILOVER, Rules(tokens_by_clock=False),
    ),
    Variant(
        "prefetched-pay", "a job that had not begun loses an attempt with its worker.",
        "prefetched-lose-no-attempt", ONE_JOB, _with(("worker_died", ("claimed",), table.spend)),
    ),
    Variant(
        "started-ahead-pay", "a job that was started ahead loses an attempt with its worker, as one that had begun.",
        "prefetched-lose-no-attempt", AHEAD, _with(("worker_died", ("running",), table.crash)),
    ),
    Variant(
        "killers-unnoticed", "a job that was started ahead gets its attempt back whenever its worker dies.",
        "starts-bounded", AHEAD, _with(("worker_died", ("running",), _die_for_free)),
    ),
    Variant(
        "cancel-at-once", "cancel ends a running job, and does not wait for its handler.",
        "cancel-or-completion-wins-once", ONE_WORKER, _with(("cancel", ("running",), table.cancel)),
    ),
    Variant(
        "claim-everything", "a claim takes all that is there.",
        "claimed-at-most-asked", SMALL_APPETITE, Rules(claims_at_most_asked=False),
    ),
    Variant(
        "all-or-nothing", "a batch with one stale member is refused as a whole.",
        "batch-members-independent", TWO_JOBS, Rules(all_or_nothing=True),
    ),
    Variant(
        "enqueue-again-anew", "an enqueue that is repeated after a lost answer stores the job anew.",
        "ended-stay-ended", ONE_WORKER, Rules(enqueues_once=False),
    ),
    Variant(
        "keys-unlocked", "a claim does not lock the flow key.",
        "limit-of-key-kept", ONE_KEY, Rules(locks_keys=False),
    ),
    Variant(
        "lock-until-written", "a claim frees the lock of the key before it commits.",
        "limit-of-key-kept", ONE_KEY, Rules(keeps_lock_to_commit=False),
    ),
    Variant(
        "count-before-lock", "a claim counts the held jobs of a key by a snapshot from before the lock.",
        "limit-of-key-kept", ONE_KEY, Rules(counts_under_lock=False),
    ),
    Variant(
        "mark-beyond-held", "held_from moves to the time at which the claim began, whatever is held.",
        "limit-of-key-kept", ONE_KEY, Rules(marks_below_held=False),
    ),
    Variant(
        "token-below-mark", "a claim that began before another one moved held_from gives a token from below it.",
        "limit-of-key-kept", LATE_CLAIM, Rules(lifts_tokens=False),
    ),
    Variant(
        "head-overtaken", "a claim takes the first job of an ordered key that is due, and not only the head.",
        "order-of-key-kept", IN_ORDER, Rules(minds_heads=False),
    ),
)  # fmt: skip
BY_NAME = {variant.name: variant for variant in VARIANTS}
