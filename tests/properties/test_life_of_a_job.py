"""Every sequence of calls, valid or stale, leaves the database in the state of the design's table."""

from __future__ import annotations

import os
import uuid
from datetime import timedelta
from typing import Any

import psycopg
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from howdah.db.statements import render, source
from tests import servers
from tests.clock import TestClock
from tests.properties.examples import state_machines
from tests.properties.model import LEASE, ORDERED, UNREGISTERED_LEASE, Claim, Model, ModelJob

PLAIN_TYPES = ("a", "b")
JOB_TYPES = (*PLAIN_TYPES, ORDERED)
WORKERS = ("registered-1", "registered-2", "psql")
OPERATOR_VERBS = (
    "enqueue_again",
    "cancel",
    "retry",
    "reschedule",
    "reprioritise",
    "plain_complete",
    "plain_fail",
)
# The statuses of the jobs that they take, where no status is given.
MANY = {"cancel": ("pending", "claimed", "running"), "reprioritise": ("pending",), "retry": ("failed",)}
WORKER_VERBS = (
    "start",
    "progress",
    "checkpoint",
    "tell",
    "complete",
    "fail",
    "give_up",
    "snooze",
    "release",
    "interrupt",
    "crash",
    "abandon",
)
EXAMPLES = state_machines(100)

seconds = st.sampled_from([0, 0, 0, 3, 21, 33, 703]).map(lambda s: timedelta(seconds=s))
types = st.lists(st.sampled_from(JOB_TYPES), min_size=1, max_size=4)


class LifeOfAJob(RuleBasedStateMachine):
    dsn: str

    jobs = Bundle("jobs")
    claims = Bundle("claims")
    boots = Bundle("boots")

    def __init__(self) -> None:
        super().__init__()
        self.db = psycopg.connect(self.dsn, autocommit=True, row_factory=dict_row)
        for table in ("live", "archive", "archive_counts", "events", "types", "workers", "flow_keys", "flow_types"):
            self.db.execute(f"DELETE FROM howdah.{table}")
        # Without its share of chance, which no model can know.
        self.install("next_token", chance="0")
        # The clock of the example before may have been ahead of this one's.
        self.db.execute("UPDATE howdah.clock_mark SET latest = '-infinity'")
        self.db.execute("UPDATE howdah.settings SET max_crashes = 2, max_interruptions = 1, cancel_grace = '30 s'")
        self.db.execute("SELECT howdah.declare_type(%s, p_ordered => true)", (ORDERED,))
        self.clock = TestClock(self.dsn).__enter__()
        self.model = Model(self.clock.now)

    def teardown(self) -> None:
        self.clock.__exit__(None, None, None)
        for function in ("next_token", "claim"):
            self.install(function)
        self.db.close()

    def install(self, function: str, *, chance: str = "random()") -> None:
        self.db.execute(render(source(f"functions/{function}").replace("random()", chance), "howdah").encode())

    def rows(self, statement: str, *arguments: Any) -> list[dict[str, Any]]:
        cursor = self.db.execute(statement.encode(), arguments)
        return cursor.fetchall() if cursor.description else [{}] * cursor.rowcount

    # Few rules, each with many verbs: Hypothesis picks among rules evenly, and most of life is claims.

    @initialize(
        target=jobs,
        count=st.integers(1, 4),
        job_type=st.sampled_from(JOB_TYPES),
        max_attempts=st.integers(1, 3),
        chance=st.sampled_from(["0", "1"]),
    )
    def some_jobs(self, count: int, job_type: str, max_attempts: int, chance: str) -> Any:
        # A claim begins with keyed jobs or with others by chance; but an example that is repeated must be the same.
        self.install("claim", chance=chance)
        assert self.rows("SELECT * FROM howdah.jobs") == []
        now = timedelta(0)
        return multiple(*(self.enqueue(job_type, 100, now, max_attempts, None, None, None) for _ in range(count)))

    @rule(verb=st.sampled_from(OPERATOR_VERBS), job=jobs)
    def an_operator_does(self, verb: str, job: uuid.UUID) -> None:
        getattr(self, verb)(job)

    @rule(verb=st.sampled_from(WORKER_VERBS), claim=claims)
    def a_worker_does(self, verb: str, claim: Claim) -> None:
        getattr(self, verb)(claim)

    @rule(verb=st.sampled_from(WORKER_VERBS), claim=claims)
    def another_worker_does(self, verb: str, claim: Claim) -> None:
        getattr(self, verb)(claim)

    # Producers and operators

    @rule(
        target=jobs,
        job_type=st.sampled_from(JOB_TYPES),
        priority=st.sampled_from([30, 100, 150]),
        delay=seconds,
        max_attempts=st.integers(1, 3),
        key=st.sampled_from([None, None, "k1", "k2"]),
        timeout=st.sampled_from([None, None, timedelta(seconds=3), timedelta(seconds=33)]),
        expires_in=st.sampled_from([None, None, timedelta(seconds=3), timedelta(seconds=33)]),
    )
    def enqueue(
        self,
        job_type: str,
        priority: int,
        delay: timedelta,
        max_attempts: int,
        key: str | None,
        timeout: timedelta | None,
        expires_in: timedelta | None,
    ) -> Any:
        due = self.model.now + delay
        expires_at = None if expires_in is None else self.model.now + expires_in
        # Made by the database, so that the order of ids is the order of making on every version.
        job_id = self.rows("SELECT howdah.new_id() AS id")[0]["id"]
        expected = self.model.enqueue(
            ModelJob(job_id, job_type, priority, due, due, max_attempts, key, timeout, expires_at)
        )
        row = self.rows(
            "SELECT * FROM howdah.enqueue(p_job_type => %s, p_priority => %s, p_delay => %s, p_max_attempts => %s,"
            " p_key => %s, p_timeout => %s, p_expires_at => %s, p_id => %s, p_retry_policy => %s)",
            job_type,
            priority,
            delay,
            max_attempts,
            key,
            timeout,
            expires_at,
            job_id,
            Jsonb({"kind": "fixed", "delay": 5}),
        )[0]
        assert (row["id"], row["created"]) == expected
        return job_id if expected[1] else multiple()

    def enqueue_again(self, job: uuid.UUID) -> None:
        row = self.rows("SELECT * FROM howdah.enqueue(p_job_type => 'a', p_id => %s)", job)[0]
        assert (row["id"], row["created"]) == (job, False)

    def cancel(self, job: uuid.UUID) -> None:
        changed = self.model.cancel(self.model.jobs[job])
        rows = self.rows("SELECT * FROM howdah.cancel(ARRAY[%s])", job)
        assert [row["status"] for row in rows] == ([self.shown(job)] if changed else [])

    def retry(self, job: uuid.UUID) -> None:
        changed = self.model.retry(self.model.jobs[job])
        assert bool(self.rows("SELECT * FROM howdah.retry(ARRAY[%s])", job)) == changed

    def reschedule(self, job: uuid.UUID) -> None:
        delay = timedelta(seconds=3)
        changed = self.model.reschedule(self.model.jobs[job], self.model.now + delay)
        assert bool(self.rows("SELECT * FROM howdah.reschedule(ARRAY[%s], p_delay => %s)", job, delay)) == changed

    def reprioritise(self, job: uuid.UUID) -> None:
        priority = 120
        changed = self.model.reprioritise(self.model.jobs[job], priority)
        assert bool(self.rows("SELECT * FROM howdah.reprioritise(ARRAY[%s], %s)", job, priority)) == changed

    @rule(verb=st.sampled_from(sorted(MANY)), job_type=st.sampled_from(JOB_TYPES))
    def change_many(self, verb: str, job_type: str) -> None:
        chosen = [job for _, job in sorted(self.model.jobs.items()) if job.job_type == job_type]
        chosen = [job for job in chosen if self.shown(job.id) in MANY[verb]]
        options = [120] if verb == "reprioritise" else []
        changed = sum(getattr(self.model, verb)(job, *options) for job in chosen)
        (row,) = self.rows("SELECT * FROM howdah.change_selected(%s, ARRAY[%s], p_priority => 120)", verb, job_type)
        assert (row["changed"], row["unchanged"], row["skipped"]) == (changed, len(chosen) - changed, 0)

    @rule(job_type=st.sampled_from(JOB_TYPES), pause=st.booleans())
    def pause_or_resume(self, job_type: str, pause: bool) -> None:
        changes = (job_type in self.model.paused) != pause
        (self.model.paused.add if pause else self.model.paused.discard)(job_type)
        function = "pause_type" if pause else "resume_type"
        assert self.rows(f"SELECT howdah.{function}(%s) AS changed", job_type)[0]["changed"] == changes

    # Claims

    @rule(
        target=claims,
        worker=st.sampled_from(WORKERS),
        job_types=types,
        limit=st.integers(0, 4),
        start=st.integers(0, 3),
        ahead=st.booleans(),
    )
    def claim(self, worker: str, job_types: list[str], limit: int, start: int, ahead: bool) -> Any:
        rows = self.rows(
            "SELECT * FROM howdah.claim(%s, %s, %s, %s, p_lease => %s, p_start_ahead => %s)",
            worker,
            job_types,
            limit,
            start,
            UNREGISTERED_LEASE,
            ahead,
        )
        head_came = any(row["job_type"] == ORDERED for row in rows)
        expected = self.model.claim(worker, job_types, limit, start, ahead=ahead, head_goes_first=head_came)
        assert [Claim(row["id"], row["token"]) for row in rows] == expected
        return multiple(*expected)

    @rule(target=claims, worker=st.sampled_from(WORKERS), start=st.integers(0, 3), ahead=st.booleans())
    def everything_changes_hands(self, worker: str, start: int, ahead: bool) -> Any:
        """So that stale claims of jobs that have another holder are common."""
        self.time_passes(timedelta(seconds=3))
        self.recover_stale_jobs(timedelta(0))
        return self.claim(worker, list(JOB_TYPES), 4, start, ahead)

    def start(self, claim: Claim) -> None:
        expected = self.model.start(claim)
        rows = self.rows("SELECT * FROM howdah.start(ARRAY[%s], ARRAY[%s])", claim.id, claim.token)
        assert bool(rows) == expected

    def progress(self, claim: Claim) -> None:
        expected = self.model.progress(claim)
        rows = self.rows(
            "SELECT * FROM howdah.progress(ARRAY[%s], ARRAY[%s], ARRAY[42])",
            claim.id,
            claim.token,
        )
        assert bool(rows) == expected

    def checkpoint(self, claim: Claim) -> None:
        expected = self.model.progress(claim)
        row = self.rows("SELECT howdah.checkpoint(%s, %s, '1') AS kept", claim.id, claim.token)[0]
        assert row["kept"] == expected

    def tell(self, claim: Claim) -> None:
        expected = self.model.tell(claim, events=2, logs=1)
        rows = self.rows(
            "SELECT * FROM howdah.record_events(array_fill(%s, ARRAY[3]), array_fill(%s::bigint, ARRAY[3]),"
            " ARRAY['one', 'INFO', 'two'], p_kinds => ARRAY['event', 'log', 'event'])",
            claim.id,
            claim.token,
        )
        last = self.model.jobs[claim.id].seq
        assert [row["seq"] for row in rows] == ([last - 2, last - 1, last] if expected else [])

    def complete(self, claim: Claim) -> None:
        expected = self.model.complete(claim)
        rows = self.rows("SELECT * FROM howdah.complete(ARRAY[%s], ARRAY[%s])", claim.id, claim.token)
        assert bool(rows) == expected

    def give_up(self, claim: Claim) -> None:
        self.fail(claim, give_up=True)

    def fail(self, claim: Claim, give_up: bool = False) -> None:
        expected = self.model.fail(claim, give_up=give_up)
        rows = self.rows(
            "SELECT * FROM howdah.fail(ARRAY[%s], ARRAY[%s], ARRAY['boom'], p_give_ups => ARRAY[%s])",
            claim.id,
            claim.token,
            give_up,
        )
        assert [row["status"] for row in rows] == ([self.shown(claim.id)] if expected else [])

    def snooze(self, claim: Claim) -> None:
        delay = timedelta(seconds=3)
        expected = self.model.snooze(claim, self.model.now + delay)
        rows = self.rows(
            "SELECT * FROM howdah.snooze(ARRAY[%s], ARRAY[%s], p_delays => ARRAY[%s])", claim.id, claim.token, delay
        )
        assert bool(rows) == expected

    def interrupt(self, claim: Claim) -> None:
        self.release(claim, interrupted=True)

    def release(self, claim: Claim, interrupted: bool = False) -> None:
        expected = self.model.release(claim, interrupted=interrupted)
        rows = self.rows("SELECT * FROM howdah.release(ARRAY[%s], ARRAY[%s], %s)", claim.id, claim.token, interrupted)
        assert bool(rows) == expected

    def crash(self, claim: Claim) -> None:
        expected = self.model.crash(claim)
        rows = self.rows("SELECT * FROM howdah.crash(ARRAY[%s], ARRAY[%s])", claim.id, claim.token)
        assert [row["status"] for row in rows] == ([self.shown(claim.id)] if expected else [])

    def abandon(self, claim: Claim) -> None:
        expected = self.model.abandon(claim)
        rows = self.rows("SELECT * FROM howdah.cancel_held(ARRAY[%s], ARRAY[%s], ARRAY['why'])", claim.id, claim.token)
        assert [row["status"] for row in rows] == (["cancelled"] if expected else [])

    # Workers and time

    @rule(target=boots, worker=st.sampled_from(WORKERS[:2]), boot=st.uuids())
    def register(self, worker: str, boot: uuid.UUID) -> tuple[str, uuid.UUID]:
        self.model.register(worker, boot)
        self.rows("SELECT howdah.register_worker(%s, %s, %s)", worker, boot, LEASE)
        return worker, boot

    @rule(boot=boots)
    def heartbeat(self, boot: tuple[str, uuid.UUID]) -> None:
        expected = self.model.heartbeat(*boot)
        assert self.rows("SELECT howdah.heartbeat(%s, %s) AS alive", *boot)[0]["alive"] == expected

    @rule(boot=consumes(boots))
    def leave(self, boot: tuple[str, uuid.UUID]) -> None:
        expected = self.model.leave(*boot)
        assert self.rows("SELECT howdah.unregister_worker(%s, %s) AS left", *boot)[0]["left"] == expected

    def time_passes(self, step: timedelta) -> None:
        self.model.now = self.clock.advance(step.total_seconds())

    @rule(step=seconds, sweeper=st.sampled_from([None, None, *WORKERS[:2]]))
    def recover(self, step: timedelta, sweeper: str | None) -> None:
        self.time_passes(step)
        self.model.recover(sweeper)
        self.rows("SELECT * FROM howdah.recover(p_worker_id => %s)", sweeper)

    @rule(boot=boots)
    def beat_for_a_lease_and_sweep(self, boot: tuple[str, uuid.UUID]) -> None:
        for _ in range(3):
            self.time_passes(timedelta(seconds=6))
            self.heartbeat(boot)
        self.recover(timedelta(0), boot[0])

    def recover_stale_jobs(self, timeout: timedelta) -> None:
        expected = self.model.recover_stale_jobs(timeout)
        assert self.rows("SELECT howdah.recover_stale_jobs(%s) AS jobs", timeout)[0]["jobs"] == expected

    # Plain SQL clients

    def plain_complete(self, job: uuid.UUID) -> None:
        expected = self.model.plain_complete(self.model.jobs[job])
        rows = self.rows(
            "UPDATE howdah.jobs SET status = 'completed', progress = 100, completed_at = NOW() WHERE id = %s", job
        )
        assert bool(rows) == expected

    def plain_fail(self, job: uuid.UUID) -> None:
        expected = self.model.plain_fail(self.model.jobs[job])
        rows = self.rows(
            "UPDATE howdah.jobs SET status = CASE WHEN attempts >= max_attempts THEN 'failed' ELSE 'pending' END,"
            " last_error = %s, worker_id = NULL, claimed_at = NULL WHERE id = %s",
            str(uuid.uuid4()),
            job,
        )
        assert bool(rows) == expected

    @rule()
    def plain_recover(self) -> None:
        expected = self.model.plain_recover()
        rows = self.rows(
            "UPDATE howdah.jobs SET status = 'pending', worker_id = NULL, claimed_at = NULL"
            " WHERE status IN ('claimed', 'running') AND claimed_at < NOW() + interval '10 years' AND attempts < max_attempts"
        )
        assert len(rows) == expected

    # What must hold after each of them

    def shown(self, job: uuid.UUID) -> str:
        return self.model.jobs[job].status

    @invariant()
    def database_and_model_agree(self) -> None:
        columns = (
            "id, job_type, priority, status, attempts, token, crashes, interruptions, worker_id, claimed_at,"
            " run_at, first_due_at, deadline_at, expires_at, cancel_requested_at, jsonb_array_length(errors) AS errors,"
            " status = 'running' AND started_at IS NULL AS ahead"
        )
        found = {row["id"]: row for row in self.rows(f"SELECT {columns} FROM howdah.job_details")}
        assert found.keys() == self.model.jobs.keys()
        for job in self.model.jobs.values():
            row = found[job.id]
            for field in (
                "job_type",
                "priority",
                "status",
                "attempts",
                "token",
                "crashes",
                "interruptions",
                "deadline_at",
                "ahead",
            ):
                assert row[field] == getattr(job, field), (field, job)
            assert (row["errors"] or 0) == job.errors, job
            assert (row["run_at"], row["first_due_at"]) == (job.run_at, job.first_due_at) or not job.live, job
            assert (row["cancel_requested_at"] is not None) == (job.cancel_requested_at is not None), job
            if job.held:
                assert (row["worker_id"], row["claimed_at"]) == (job.worker, job.claimed_at), job
            elif job.status != "completed":
                assert (row["worker_id"], row["claimed_at"]) == (None, None), job

    @invariant()
    def what_happened_is_told_without_a_gap(self) -> None:
        found = self.rows(
            "SELECT d.id, d.events_count, d.progress_report IS NOT NULL AS has_report, (d.progress_report ->> 'seq')::int AS seq,"
            " array_agg(e.seq ORDER BY e.stream_no) FILTER (WHERE e.seq IS NOT NULL) AS seqs,"
            " count(*) FILTER (WHERE e.kind = 'event') AS events"
            " FROM howdah.job_details AS d LEFT JOIN howdah.events AS e ON e.job_id = d.id"
            " GROUP BY d.id, d.events_count, d.progress_report"
        )
        for row in found:
            job = self.model.jobs[row["id"]]
            assert (row["has_report"], row["seq"] or 0) == (job.has_report, job.seq), job
            assert (row["seqs"] or []) == list(range(1, job.seq + 1)), job
            assert row["events_count"] == row["events"] == job.events, job

    @invariant()
    def counts_agree(self) -> None:
        counted = self.rows("SELECT status, sum(jobs)::int AS jobs FROM howdah.archive_counts GROUP BY status")
        ended = [job.status for job in self.model.jobs.values() if not job.live]
        assert {row["status"]: row["jobs"] for row in counted if row["jobs"]} == {s: ended.count(s) for s in set(ended)}

    @invariant()
    def an_ordered_type_has_one_lease(self) -> None:
        held = self.rows("SELECT id FROM howdah.live WHERE job_type = %s AND status <> 'pending'", ORDERED)
        assert len(held) <= 1


def test_the_life_of_a_job(dsn: str, major: int) -> None:
    machine = type("LifeOfAJobHere", (LifeOfAJob,), {"dsn": dsn})
    # Shrinking a failure takes minutes, more than a test may: HOWDAH_SHRINK=1 asks for it.
    phases = [phase for phase in Phase if phase is not Phase.shrink or os.environ.get("HOWDAH_SHRINK")]
    # What differs between versions of PostgreSQL shows in fewer.
    examples = EXAMPLES if major == servers.MAJORS[0] else EXAMPLES // 3
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=examples, stateful_step_count=40, phases=phases, report_multiple_bugs=False),
    )
