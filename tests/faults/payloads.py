"""The case in which one row of many is bad."""

from __future__ import annotations

import itertools
import uuid
from collections import Counter

import psycopg

from tests.faults.case import case
from tests.faults.handlers import SOON
from tests.faults.stage import Stage
from tests.worker.ledger import times
from tests.worker.processes import until

BATCH = 100


@case(17, "bad-row", checks="I1 I2 I3 I4 I5 I7", handlers="handlers_payloads", fails="returns_with_others")
def bad_row(stage: Stage) -> None:
    """One error with a NUL byte, two results that cannot be stored and one key that is taken, each among a hundred that are sound."""
    one_key_is_taken(stage, stage.scaled(20_000, BATCH))
    failing = [stage.enqueue("fails_with_others", {"bad": n == 41}, retry_policy=SOON) for n in range(BATCH)]
    returning = [stage.enqueue("returns_with_others", {"bad": n == 41}, max_attempts=1) for n in range(BATCH)]
    refuse(stage, returning[57])
    stage.fault(3)
    stage.start(stage.scaled(4, 2), concurrency=250)
    until(lambda: stage.fleet.ledger.count("START") == 2 * BATCH, "all of them run")
    stage.fleet.ledger.say("together")
    stage.fleet.await_drained()

    for n, job in enumerate(map(stage.queue.get, failing)):
        assert (job.status, job.attempts, [error.kind for error in job.errors]) == ("completed", 2, ["failed"]), (
            f"{job}"
        )
        assert ("\\x00" in job.errors[0].error) == (n == 41), (
            f"the error as it was, with what can be stored: {job.errors}"
        )
    ended = {job.id: job for job in map(stage.queue.get, returning)}
    unstorable, refused = returning[41], returning[57]
    sound = set(returning) - {unstorable, refused}
    outcomes = Counter((ended[id].status, ended[id].attempts) for id in sound)
    assert outcomes == {("completed", 1): len(sound)}, f"those beside a bad one: {outcomes}"
    starts = times(stage.fleet.ledger.entries("START"))
    assert {starts[id] for id in sound} == {1}, "what was sound was done at once, and only once"
    for bad, reason in ((unstorable, "contains a NUL"), (refused, "could not be stored: ")):
        assert reason in str(ended[bad].last_error), f"why a bad one failed: {ended[bad].last_error}"


def one_key_is_taken(stage: Stage, jobs: int) -> None:
    stage.enqueue("nothing", key="17")
    keys = map(str, itertools.count())
    try:
        added = stage.queue.enqueue_many(
            "nothing", ({} for _ in range(jobs)), key=lambda _: next(keys), return_ids=True
        )
    except psycopg.errors.UniqueViolation as error:
        raise AssertionError(f"one key that was taken took the whole bulk with it: {error}") from error
    assert added == jobs - 1, f"all but the one whose key was taken: {added:,} of {jobs:,}"
    stage.acknowledged += added.ids or ()
    stage.fault()


def refuse(stage: Stage, job: uuid.UUID) -> None:
    """The database refuses the job's completion, whatever is completed together with it."""
    with psycopg.connect(stage.dsn) as conn:
        conn.execute(
            b"CREATE FUNCTION audit.refuse() RETURNS trigger LANGUAGE plpgsql AS"
            b" $$ BEGIN RAISE EXCEPTION 'refused by the case' USING ERRCODE = '22000'; END $$"
        )
        conn.execute(
            f"CREATE TRIGGER refuse BEFORE INSERT ON howdah.archive_open FOR EACH ROW"
            f" WHEN (NEW.id = '{job}' AND NEW.status = 'completed') EXECUTE FUNCTION audit.refuse()".encode()
        )
