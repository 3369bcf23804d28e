"""Unique jobs: every sequence of calls has the answers of a small model."""

from __future__ import annotations

import dataclasses
import itertools
import uuid
from datetime import datetime, timedelta, timezone
from typing import Any, get_args

import psycopg
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from howdah import Unique
from howdah.handlers.unique import OnConflict
from tests.clock import TestClock
from tests.properties.examples import examples

LIVE = ("pending", "claimed", "running")
ENDED = ("completed", "failed", "cancelled")
WINDOW = timedelta(seconds=60)
SLACK = timedelta(seconds=60)
AGAIN = timedelta(minutes=10)
DELAY = timedelta(seconds=5)
FOR_EVER = datetime.max.replace(tzinfo=timezone.utc)


@dataclasses.dataclass
class ModelJob:
    id: uuid.UUID
    key: int
    version: int
    status: str
    created_at: datetime
    run_at: datetime
    token: int = 0
    waits: bool = False


@dataclasses.dataclass
class ModelKey:
    last: uuid.UUID
    states: tuple[str, ...]
    until: datetime


def rules() -> st.SearchStrategy[tuple[Unique, timedelta | None]]:
    live = st.sets(st.sampled_from(LIVE), min_size=1)
    ended = st.sets(st.sampled_from(ENDED))

    def made(live: Any, ended: Any, conflict: Any, windowed: bool, delayed: bool) -> tuple[Unique, timedelta | None]:
        states = tuple(sorted(live | ended))
        within = WINDOW if windowed or ended else None
        return Unique(by=("key",), states=states, conflict=conflict, within=within), DELAY if delayed else None

    return st.builds(made, live, ended, st.sampled_from(get_args(OnConflict)), st.booleans(), st.booleans())


class UniqueJobs(RuleBasedStateMachine):
    dsn: str

    def __init__(self) -> None:
        super().__init__()
        self.db = psycopg.connect(self.dsn, autocommit=True, row_factory=dict_row)
        for table in (
            "live",
            "archive",
            "archive_counts",
            "events",
            "types",
            "workers",
            "uniques",
            "steps",
            "signals",
            "signal_channels",
        ):
            self.db.execute(f"DELETE FROM howdah.{table}".encode())
        self.db.execute("UPDATE howdah.clock_mark SET latest = '-infinity'")
        self.clock = TestClock(self.dsn).__enter__()
        self.jobs: dict[uuid.UUID, ModelJob] = {}
        self.keys: dict[int, ModelKey] = {}
        self.versions = itertools.count()

    def teardown(self) -> None:
        self.clock.__exit__(None, None, None)
        self.db.close()

    # What is called

    @rule(keys=st.lists(st.integers(0, 2), min_size=1, max_size=4), rule_and_delay=rules())
    def enqueue(self, keys: list[int], rule_and_delay: tuple[Unique, timedelta | None]) -> None:
        unique, delay = rule_and_delay
        items = [(key, next(self.versions)) for key in keys]
        expected = self.expected(unique, keys)
        arguments = ([Jsonb({"key": key, "v": v}) for key, v in items], Jsonb(unique.rule), delay)
        try:
            rows = self.db.execute(
                "SELECT id, created, conflict FROM howdah.enqueue_unique('mail', %s, %s, p_delay => %s)", arguments
            ).fetchall()
        except psycopg.Error as error:
            assert error.sqlstate == "JQ020"
            assert expected is None
            return
        assert expected is not None
        self.lock(unique, keys)
        due = self.clock.now + (delay or timedelta(0))
        mine: dict[int, ModelJob] = {}
        for (key, version), (other, what), row in zip(items, expected, rows, strict=True):
            assert (row["created"], row["conflict"]) == (what is None, what)
            job = other or mine.get(key)
            if what is None or job is None:
                assert row["id"] not in self.jobs
                mine[key] = ModelJob(row["id"], key, version, "pending", self.clock.now, due)
                self.jobs[row["id"]] = mine[key]
                self.keys[key].last = row["id"]
                continue
            assert row["id"] == job.id
            if what == "replaced":
                job.version, job.waits = version, False
                job.run_at = due if delay else min(job.run_at, due)
            elif what == "rescheduled":
                job.run_at = due

    @rule(to=st.sampled_from(["claimed", "running", "completed", "failed", "pending"]))
    def claim(self, to: str) -> None:
        for row in self.db.execute("SELECT * FROM howdah.claim('w', ARRAY['mail'], 1)").fetchall():
            job = self.jobs[row["id"]]
            due = (each for each in self.jobs.values() if each.status == "pending" and each.run_at <= self.clock.now)
            assert job is min(due, key=lambda each: (each.run_at, each.id))
            assert row["data"]["v"] == job.version
            held = ([job.id], [row["token"]])
            job.status, job.token = to, row["token"]
            if to != "claimed":
                self.db.execute("SELECT howdah.start(%s, %s)", held)
            if to == "completed":
                self.db.execute("SELECT howdah.complete(%s, %s)", held)
            elif to == "failed":
                self.db.execute("SELECT howdah.fail(%s, %s, ARRAY['broken'], p_give_ups => ARRAY[true])", held)
            elif to == "pending":
                self.db.execute("SELECT howdah.snooze(%s, %s, p_delays => ARRAY[interval '0'])", held)
                job.run_at = self.clock.now

    @rule()
    def wait_for_a_signal(self) -> None:
        for row in self.db.execute("SELECT * FROM howdah.claim('w', ARRAY['mail'], 1, 1)").fetchall():
            job = self.jobs[row["id"]]
            self.db.execute("SELECT howdah.record_step(%s, %s, 'step', %s)", (job.id, row["token"], str(job.version)))
            (answer,) = self.db.execute(
                "SELECT state FROM howdah.wait_signal(%s, %s, 'signal:go#1', 'go')", (job.id, row["token"])
            ).fetchall()
            job.token = row["token"]
            if answer["state"] == "waiting":
                job.status, job.run_at, job.waits = "pending", FOR_EVER, True
            else:
                # It was woken in an attempt before.
                assert answer["state"] == "done"
                job.status = "running"

    @rule()
    def signal(self) -> None:
        (sent,) = self.db.execute("SELECT * FROM howdah.signal('go')").fetchall()
        waiting = [job for job in self.jobs.values() if job.waits and job.status == "pending"]
        assert sent["woken"] == len(waiting)
        for job in waiting:
            job.run_at, job.waits = self.clock.now, False
        # The first wait would take it.
        self.db.execute("DELETE FROM howdah.signals")

    @rule(place=st.integers(0, 20), to=st.sampled_from(["completed", "cancelled"]))
    def end(self, place: int, to: str) -> None:
        job = self.chosen(place, LIVE if to == "completed" else ("pending", "claimed"))
        if job is not None and to == "cancelled":
            self.db.execute("SELECT howdah.cancel(%s)", ([job.id],))
            job.status, job.waits = to, False
        elif job is not None and job.status != "pending":
            self.db.execute("SELECT howdah.complete(%s, %s)", ([job.id], [job.token]))
            job.status = to

    @rule(place=st.integers(0, 20))
    def retry(self, place: int) -> None:
        job = self.chosen(place, ENDED)
        if job is None:
            return
        key = self.keys.get(job.key)
        states = key.states if key else LIVE
        allowed = not any(each.status in states for each in self.live(job.key))
        rows = self.db.execute("SELECT id FROM howdah.retry(%s)", ([job.id],)).fetchall()
        assert rows == ([{"id": job.id}] if allowed else [])
        now = self.clock.now
        if key is None:
            key = self.keys[job.key] = ModelKey(job.id, LIVE, now + SLACK)
        elif key.until < now:
            key.until = now + SLACK
        if allowed:
            job.status, job.run_at, key.last = "pending", now, job.id

    @rule(seconds=st.sampled_from([1, 29, 31, 61, 121, 601]))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule()
    def sweep(self) -> None:
        self.db.execute("SELECT howdah.prune_uniques()")
        for number, key in list(self.keys.items()):
            if key.until <= self.clock.now:
                if any(self.live(number)):
                    key.until = self.clock.now + AGAIN
                else:
                    del self.keys[number]

    @invariant()
    def the_jobs_are_those_of_the_model(self) -> None:
        rows = self.db.execute(
            "SELECT id, status, (data -> 'v')::int AS v, nullif(run_at, 'infinity') AS run_at FROM howdah.job_details"
        ).fetchall()
        found = {row["id"]: (row["status"], row["v"], row["run_at"] or FOR_EVER) for row in rows}
        assert found == {job.id: (job.status, job.version, job.run_at) for job in self.jobs.values()}
        steps = self.db.execute("SELECT job_id, result FROM howdah.steps WHERE kind = 'step'").fetchall()
        assert all(row["result"] == self.jobs[row["job_id"]].version for row in steps)
        keys = self.db.execute("SELECT job_id FROM howdah.uniques").fetchall()
        assert {row["job_id"] for row in keys} == {key.last for key in self.keys.values()}

    # The model

    def expected(self, unique: Unique, keys: list[int]) -> list[tuple[ModelJob | None, str | None]] | None:
        """For each item the job that is in the way, and what happens to it; None: an error."""
        verb = {"replace": "replaced", "reschedule": "rescheduled"}.get(unique.conflict, "kept")
        states, found, added = unique.states or (), list[tuple[ModelJob | None, str | None]](), set[int]()
        for key in keys:
            other = self.in_the_way(unique, key)
            if other is not None:
                found.append((other, verb if self.may_change(unique, other) else "kept"))
            elif key in added and "pending" in states:
                found.append((None, verb))
            else:
                found.append((None, None))
                added.add(key)
        return None if unique.conflict == "raise" and any(what for _, what in found) else found

    def in_the_way(self, unique: Unique, key: int) -> ModelJob | None:
        states = unique.states or ()
        known = self.keys.get(key)
        earlier = self.live(key)
        if known is not None and self.jobs[known.last].status in ENDED:
            earlier.append(self.jobs[known.last])
        within = timedelta.max if unique.within is None else WINDOW
        counts = [each for each in earlier if each.status in states and self.clock.now - each.created_at < within]
        changes = unique.conflict in ("replace", "reschedule") or not {"claimed", "running"} <= set(states)
        return max(
            counts,
            key=lambda each: (changes and self.may_change(unique, each), each.created_at, each.id),
            default=None,
        )

    def may_change(self, unique: Unique, job: ModelJob) -> bool:
        return job.status == "pending" and not (unique.conflict == "reschedule" and job.waits)

    def lock(self, unique: Unique, keys: list[int]) -> None:
        states = tuple(unique.states or ())
        until = self.clock.now + (timedelta(0) if unique.within is None else WINDOW)
        for key in keys:
            known = self.keys.get(key)
            if known is None:
                self.keys[key] = ModelKey(uuid.UUID(int=0), states, until + SLACK)
            elif known.until < until or known.states != states:
                known.states, known.until = states, max(known.until, until + SLACK)

    def live(self, key: int) -> list[ModelJob]:
        return [job for job in self.jobs.values() if job.key == key and job.status in LIVE]

    def chosen(self, place: int, statuses: tuple[str, ...]) -> ModelJob | None:
        some = sorted((job for job in self.jobs.values() if job.status in statuses), key=lambda job: job.id)
        return some[place % len(some)] if some else None


def test_every_sequence_of_calls_has_the_answers_of_the_model(dsn: str) -> None:
    machine = type("UniqueJobsHere", (UniqueJobs,), {"dsn": dsn})
    run_state_machine_as_test(machine, settings=settings(max_examples=examples(150), stateful_step_count=30))
