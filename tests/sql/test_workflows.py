"""Workflows in SQL: nodes open when their parents have ended, whatever ends these, and each job counts once."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql

from howdah import JobQueue
from howdah.verbs.maps import expand_maps
from tests.clock import TestClock
from tests.conftest import Connect, Db
from tests.sql.graphs import (
    Ran,
    advance,
    claim,
    complete,
    counts,
    fail,
    map_over,
    run,
    states,
    status,
    true_counts,
    workflow,
)

DIAMOND = {"b": ["a"], "c": ["a"], "d": ["b", "c"]}


def test_a_node_opens_when_all_its_parents_have_completed(db: Db) -> None:
    flow = workflow(db, {"a": 1, "b": 3, "c": 1, "d": 1}, DIAMOND)
    assert run(db, "b", "c", "d") == 0
    assert run(db, "a") == 1
    assert run(db, "d") == 0
    assert run(db, "b") == 3
    assert states(db, flow) == {"a": "completed", "b": "completed", "c": "running", "d": "waiting"}
    assert counts(db, flow) == (2, 4, 0, 0)
    assert run(db, "c") == 1
    assert status(db, flow) == "running"
    assert run(db, "d") == 1
    assert status(db, flow) == "completed"
    assert counts(db, flow) == true_counts(db, flow) == (0, 6, 0, 0)


def test_a_fan_out_of_many_stripes_releases_its_join_once(db: Db) -> None:
    flow = workflow(db, {"a": 3000, "b": 1}, {"b": ["a"]})
    while (held := claim(db, "a", most=371))["ids"]:
        assert run(db, "b") == 0
        complete(db, held)
    assert db.execute("SELECT count(*) FROM workflow_deltas").fetchone() == {"count": 0}
    assert run(db, "b") == 1
    assert status(db, flow) == "completed"


def test_a_large_release_goes_on_without_the_commit_that_began_it(db: Db) -> None:
    flow = workflow(db, {"a": 1, "b": 2500}, {"b": ["a"]})
    run(db, "a")
    first = len(claim(db, "b", most=5000)["ids"])
    assert 0 < first <= 100
    advance(db)
    assert len(claim(db, "b", most=5000)["ids"]) == 2500 - first
    assert states(db, flow)["b"] == "running"


@pytest.mark.parametrize(
    ("ends", "outcomes"),
    [
        ("completed", {"ok": "running", "any": "running", "bad": "skipped", "after": "waiting", "end": "skipped"}),
        ("failed", {"ok": "skipped", "any": "running", "bad": "running", "after": "skipped", "end": "waiting"}),
        ("cancelled", {"ok": "skipped", "any": "running", "bad": "running", "after": "skipped", "end": "waiting"}),
    ],
)
def test_when_decides_what_runs_and_what_depends_on_the_rest(db: Db, ends: str, outcomes: dict[str, str]) -> None:
    whens = {"any": "always", "bad": "failure"}
    edges = {"ok": ["a"], "any": ["a"], "bad": ["a"], "after": ["ok"], "end": ["bad"]}
    flow = workflow(db, dict.fromkeys(("a", "ok", "any", "bad", "after", "end"), 1), edges, whens=whens)
    if ends == "cancelled":
        db.execute("SELECT cancel(ARRAY(SELECT id FROM live WHERE job_type = 'a'))")
    else:
        (complete if ends == "completed" else fail)(db, claim(db, "a"))
    assert states(db, flow) == {"a": ends, **outcomes}
    while run(db, "ok", "any", "bad", "after", "end"):
        pass
    assert status(db, flow) == ends
    assert counts(db, flow) == true_counts(db, flow)
    reasons = db.execute("SELECT last_error FROM job_details WHERE job_type = 'ok' AND status = 'cancelled'").fetchall()
    assert [row["last_error"] for row in reasons] == (
        [] if ends == "completed" else [f"not needed: a {'failed' if ends == 'failed' else 'was cancelled'}"]
    )


def deleted(db: Db, held: Ran) -> None:
    db.execute("SELECT delete_jobs(ARRAY(SELECT id FROM live WHERE job_type = 'a'))")


def deleted_by_sql(db: Db, held: Ran) -> None:
    db.execute("DELETE FROM jobs WHERE job_type = 'a'")


def expired(db: Db, held: Ran) -> None:
    db.execute("UPDATE live SET expires_at = now() - interval '1 s', own_write = NOT own_write WHERE job_type = 'a'")
    db.execute("SELECT recover()")


def spent(db: Db, held: Ran) -> None:
    db.execute("UPDATE live SET attempts = max_attempts, own_write = NOT own_write WHERE job_type = 'a'")
    db.execute("SELECT recover()")


def completed_by_sql(db: Db, held: Ran) -> None:
    db.execute(
        "UPDATE jobs SET status = 'running', worker_id = 'x', claimed_at = now(), attempts = 1 WHERE job_type = 'a'"
    )
    db.execute("UPDATE jobs SET status = 'completed', completed_at = now() WHERE job_type = 'a'")


def cancelled_by_sql(db: Db, held: Ran) -> None:
    db.execute("UPDATE jobs SET status = 'cancelled' WHERE job_type = 'a'")


@pytest.mark.parametrize(
    "end", [deleted, deleted_by_sql, expired, spent, completed_by_sql, cancelled_by_sql], ids=lambda end: end.__name__
)
def test_however_a_child_ends_the_join_opens_once(db: Db, end: Callable[[Db, Ran], None]) -> None:
    flow = workflow(db, {"a": 5, "b": 1}, {"b": ["a"]}, whens={"b": "always"})
    end(db, {})
    advance(db)
    assert counts(db, flow)[0] == 1
    assert run(db, "b") == 1
    assert status(db, flow) == {"completed_by_sql": "completed", "spent": "failed"}.get(end.__name__, "cancelled")


def test_a_truncate_ends_all_workflows(db: Db) -> None:
    flow = workflow(db, {"a": 2, "b": 1}, {"b": ["a"]})
    run(db, "a")
    db.execute("TRUNCATE jobs")
    assert status(db, flow) == "cancelled"
    assert counts(db, flow) == (0, 2, 0, 1)


def test_a_waiting_job_cannot_be_made_due(db: Db, queue: JobQueue) -> None:
    workflow(db, {"a": 1, "b": 1}, {"b": ["a"]})
    (row,) = db.execute("SELECT id FROM live WHERE job_type = 'b'").fetchall()
    assert not queue.reschedule(row["id"])
    assert queue.reprioritise(row["id"], 7)
    assert queue.select(job_type="b").reschedule() == 0
    db.execute("UPDATE jobs SET status = 'running', worker_id = 'x' WHERE job_type = 'b'")
    assert claim(db, "b")["ids"] == []
    (left,) = db.execute("SELECT status FROM jobs WHERE job_type = 'b'").fetchall()
    assert left["status"] == "pending"


def test_a_waiting_job_that_is_cancelled_ends_its_node(db: Db) -> None:
    flow = workflow(db, {"a": 1, "b": 1, "c": 1}, {"b": ["a"], "c": ["b"]}, whens={"c": "failure"})
    db.execute("SELECT cancel(ARRAY(SELECT id FROM live WHERE job_type = 'b'))")
    assert states(db, flow) == {"a": "running", "b": "cancelled", "c": "waiting"}
    run(db, "a")
    assert run(db, "c") == 1
    assert status(db, flow) == "cancelled"


# Transactions of users


def test_a_rolled_back_completion_does_not_count(db: Db) -> None:
    flow = workflow(db, {"a": 2, "b": 1}, {"b": ["a"]})
    held = claim(db, "a")
    with db.transaction(force_rollback=True):
        complete(db, held)
    assert counts(db, flow) == (3, 0, 0, 0)
    with db.transaction():
        complete(db, held)
    assert run(db, "b") == 1
    assert status(db, flow) == "completed"


def test_stripes_are_locked_at_the_commit_only(db: Db, connect: Connect) -> None:
    flow = workflow(db, {"a": 2, "b": 1}, {"b": ["a"]})
    held = claim(db, "a")
    first, second = ({name: [values[n]] for name, values in held.items()} for n in (0, 1))
    other = connect()
    other.execute("SET lock_timeout = '1s'")
    with db.transaction():
        complete(db, first)
        complete(other, second)
    assert run(db, "b") == 1
    assert status(db, flow) == "completed"


class Ends(threading.Thread):
    """A transaction that completes jobs of several workflows, and commits at the same moment as another one."""

    def __init__(self, connect: Connect, parts: list[Ran], isolation: str, begun: threading.Barrier) -> None:
        super().__init__()
        self._connect = connect
        self._parts = parts
        self._isolation = isolation
        self._begun = begun
        self.failure: Exception | None = None

    def run(self) -> None:
        with self._connect() as own:
            try:
                own.execute(f"BEGIN ISOLATION LEVEL {self._isolation}")
                for part in self._parts:
                    complete(own, part)
                self._begun.wait()
                own.execute("COMMIT")
            except Exception as error:  # noqa: BLE001
                self.failure = error


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
def test_opposite_orders_and_stricter_transactions_commit_and_both_joins_open(
    db: Db, connect: Connect, isolation: str
) -> None:
    for _ in range(3):
        flows = [workflow(db, {f"x{n}": 2, f"y{n}": 1}, {f"y{n}": [f"x{n}"]}) for n in (0, 1)]
        held = [claim(db, f"x{n}") for n in (0, 1)]
        one, two = ([{name: [values[k]] for name, values in each.items()} for each in held] for k in (0, 1))
        begun = threading.Barrier(2)
        threads = [Ends(connect, one, "READ COMMITTED", begun), Ends(connect, two[::-1], isolation, begun)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [thread.failure for thread in threads] == [None, None]
        advance(db)
        assert [run(db, f"y{n}") for n in (0, 1)] == [1, 1]
        assert [status(db, flow) for flow in flows] == ["completed", "completed"]


def test_a_locked_stripe_delays_no_commit_and_is_folded_later(db: Db, connect: Connect) -> None:
    flow = workflow(db, {"a": 1, "b": 1}, {"b": ["a"]})
    held = claim(db, "a")
    blocker = connect()
    blocker.execute("BEGIN")
    blocker.execute("SELECT FROM workflow_counts FOR UPDATE")
    db.execute("SET statement_timeout = '2s'")
    complete(db, held)
    assert run(db, "b") == 0
    blocker.execute("ROLLBACK")
    advance(db)
    assert run(db, "b") == 1
    assert status(db, flow) == "completed"


def test_a_job_that_a_transaction_has_locked_is_left_and_not_counted_as_done(db: Db, connect: Connect) -> None:
    flow = workflow(db, {"a": 1, "b": 2}, {"b": ["a"]})
    held, other = claim(db, "a"), connect()
    other.execute("BEGIN")
    other.execute("SELECT FROM live WHERE job_type = 'b' AND place = 1 FOR UPDATE")
    complete(db, held)
    assert run(db, "b") == 1
    assert db.execute("SELECT * FROM advance_workflows()").fetchall() == [{"done": 0, "more": True, "maps": False}]
    other.execute("ROLLBACK")
    advance(db)
    assert run(db, "b") == 1
    assert status(db, flow) == "completed"


def test_a_commit_that_is_cancelled_leaves_nothing_and_one_that_is_not_counts_once(db: Db, connect: Connect) -> None:
    blocker, canceller = connect(), connect()
    for _ in range(20):
        flow = workflow(db, {"a": 1, "b": 1}, {"b": ["a"]})
        held = claim(db, "a")
        blocker.execute("BEGIN")
        blocker.execute("SELECT FROM workflow_counts FOR UPDATE")
        cancels = "SELECT pg_cancel_backend(%s) FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
        pid, done = db.info.backend_pid, threading.Event()

        def cancel_while_it_waits(pid: int = pid, done: threading.Event = done, cancels: str = cancels) -> None:
            while not done.is_set() and not canceller.execute(cancels, (pid, pid)).fetchall():
                pass

        thread = threading.Thread(target=cancel_while_it_waits)
        thread.start()
        try:
            with db.transaction():
                complete(db, held)
            is_cancelled = False
        except psycopg.errors.QueryCanceled:
            is_cancelled = True
        done.set()
        thread.join()
        blocker.execute("ROLLBACK")
        advance(db)
        assert counts(db, flow) == ((2, 0, 0, 0) if is_cancelled else (1, 1, 0, 0))
        if is_cancelled:
            complete(db, held)
        assert run(db, "b") == 1
        assert status(db, flow) == "completed"


def test_a_transaction_that_never_commits_can_ask_for_the_count(db: Db) -> None:
    with db.transaction(force_rollback=True):
        flow = workflow(db, {"a": 1, "b": 1}, {"b": ["a"]})
        run(db, "a")
        advance(db)
        assert run(db, "b") == 1
        advance(db)
        assert status(db, flow) == "completed"


def test_a_prepared_transaction_counts_when_it_is_committed(db: Db) -> None:
    flow = workflow(db, {"a": 1, "b": 1}, {"b": ["a"]})
    held = claim(db, "a")
    db.execute("BEGIN")
    db.execute("SET LOCAL howdah.notify = off")
    complete(db, held)
    name = uuid.uuid4().hex
    db.execute(f"PREPARE TRANSACTION '{name}'")
    assert run(db, "b") == 0
    db.execute(f"COMMIT PREPARED '{name}'")
    advance(db)
    assert run(db, "b") == 1
    assert status(db, flow) == "completed"


# Enqueueing


def test_a_key_is_enqueued_once(db: Db) -> None:
    first = workflow(db, {"a": 1}, key="k")
    (again,) = db.execute("SELECT id, created FROM enqueue_workflow('w', p_key => 'k')").fetchall()
    assert again == {"id": first, "created": False}
    (other,) = db.execute("SELECT created FROM enqueue_workflow('other', p_key => 'k')").fetchall()
    assert other["created"]


def test_a_loop_is_refused_and_named(db: Db) -> None:
    with pytest.raises(psycopg.Error, match=r"loop: (b -> c -> d -> b|c -> d -> b -> c|d -> b -> c -> d)") as caught:
        workflow(db, dict.fromkeys("abcd", 1), {"b": ["a", "d"], "c": ["b"], "d": ["c"]})
    assert caught.value.sqlstate == "JQ001"
    assert db.execute("SELECT FROM workflows").fetchall() == []


def test_edges_against_the_order_of_numbers_are_no_loop(db: Db) -> None:
    flow = workflow(db, dict.fromkeys("abc", 1), {"a": ["b"], "b": ["c"]})
    assert [run(db, *"abc") for _ in range(3)] == [1, 1, 1]
    assert status(db, flow) == "completed"


def test_options_count_from_the_moment_when_the_node_opens(db: Db, clock: TestClock) -> None:
    options = {"delay": "10 s", "expires_in": "5 s", "priority": 7}
    workflow(db, {"a": 1, "b": 1}, {"b": ["a"]}, options=options)
    clock.advance(10)
    run(db, "a")
    (job,) = db.execute("SELECT * FROM live WHERE job_type = 'b'").fetchall()
    assert (job["run_at"] - clock.now).total_seconds() == 10
    assert (job["expires_at"] - clock.now).total_seconds() == 15
    assert job["priority"] == 7


def test_empty_workflows_and_groups_complete_at_once(db: Db) -> None:
    assert status(db, workflow(db, {})) == "completed"
    flow = workflow(db, {"a": 0, "b": 1, "c": 0}, {"b": ["a"], "c": ["b"]})
    assert run(db, "b") == 1
    assert status(db, flow) == "completed"


# Cancel, retry, deadlines


def test_cancel_ends_all_but_what_always_runs(db: Db) -> None:
    flow = workflow(db, {"a": 2, "b": 1, "c": 1, "e": 1}, {"b": ["a"], "c": ["b"], "e": ["c"]}, whens={"c": "always"})
    held = claim(db, "a", most=1)
    assert db.execute("SELECT cancel_workflow(%s, 'stop')", (flow,)).fetchone() == {"cancel_workflow": True}
    assert db.execute("SELECT cancel_workflow(%s)", (flow,)).fetchone() == {"cancel_workflow": False}
    assert states(db, flow) == {"a": "running", "b": "cancelled", "c": "waiting", "e": "cancelled"}
    complete(db, held)
    assert run(db, "c") == 1
    assert states(db, flow) == {"a": "cancelled", "b": "cancelled", "c": "completed", "e": "cancelled"}
    assert status(db, flow) == "cancelled"
    assert counts(db, flow) == true_counts(db, flow)


def test_retry_goes_on_from_what_broke(db: Db) -> None:
    flow = workflow(db, {"a": 3, "b": 1, "c": 1, "d": 1}, {"b": ["a"], "c": ["b"]}, whens={})
    run(db, "d")
    held = claim(db, "a")
    first = {name: values[:1] for name, values in held.items()}
    complete(db, {name: values[1:] for name, values in held.items()})
    fail(db, first)
    assert status(db, flow) == "failed"
    assert states(db, flow) == {"a": "failed", "b": "skipped", "c": "skipped", "d": "completed"}
    assert db.execute("SELECT retry_workflow(%s)", (flow,)).fetchone() == {"retry_workflow": 3}
    assert states(db, flow) == {"a": "running", "b": "waiting", "c": "waiting", "d": "completed"}
    assert counts(db, flow) == true_counts(db, flow) == (3, 3, 0, 0)
    assert [run(db, *"abcd") for _ in range(4)] == [1, 1, 1, 0]
    assert status(db, flow) == "completed"
    assert counts(db, flow) == true_counts(db, flow) == (0, 6, 0, 0)


def test_one_node_runs_again_with_all_that_depends_on_it(db: Db) -> None:
    flow = workflow(db, {"a": 1, "b": 2, "c": 1, "d": 1}, {"b": ["a"], "c": ["b"], "d": ["a"]})
    while run(db, *"abcd"):
        pass
    assert status(db, flow) == "completed"
    assert db.execute("SELECT retry_workflow(%s, 'b')", (flow,)).fetchone() == {"retry_workflow": 2}
    assert [run(db, *"abcd") for _ in range(3)] == [2, 1, 0]
    assert status(db, flow) == "completed"


def test_a_cancelled_workflow_is_resumed_by_retry(db: Db) -> None:
    flow = workflow(db, {"a": 2, "b": 1}, {"b": ["a"]})
    db.execute("SELECT cancel_workflow(%s)", (flow,))
    assert status(db, flow) == "cancelled"
    db.execute("SELECT retry_workflow(%s)", (flow,))
    assert [run(db, *"ab") for _ in range(3)] == [2, 1, 0]
    assert status(db, flow) == "completed"


def test_a_retried_job_counts_again_until_its_node_has_ended(db: Db) -> None:
    flow = workflow(db, {"a": 2, "b": 1}, {"b": ["a"]}, whens={"b": "always"})
    held = claim(db, "a")
    one, two = ({name: [values[n]] for name, values in held.items()} for n in (0, 1))
    fail(db, one)
    db.execute("SELECT retry(%s)", (one["ids"],))
    complete(db, two)
    assert run(db, "b") == 0
    assert run(db, "a") == 1
    assert states(db, flow)["a"] == "completed"
    db.execute("SELECT retry(%s)", (one["ids"],))
    assert run(db, "a") == 1
    assert run(db, "b") == 1
    assert status(db, flow) == "completed"
    assert counts(db, flow) == (0, 3, 0, 0)


def test_a_deadline_fails_the_workflow_and_its_maximum_age_ends_even_what_always_runs(db: Db, clock: TestClock) -> None:
    edges, whens = {"b": ["a"]}, {"b": "always"}
    late = workflow(db, {"a": 1, "b": 1}, edges, whens=whens, deadline="10 s")
    old = workflow(db, {"a": 1, "b": 1}, edges, whens=whens, max_age="10 s")
    clock.advance(9)
    db.execute("SELECT recover()")
    assert {status(db, late), status(db, old)} == {"running"}
    clock.advance(1)
    db.execute("SELECT recover()")
    assert (status(db, late), status(db, old)) == ("running", "failed")
    assert run(db, "b") == 1
    assert status(db, late) == "failed"
    (why,) = db.execute("SELECT error FROM workflows WHERE id = %s", (late,)).fetchall()
    assert why["error"] == "its deadline has passed"


def test_what_was_never_started_does_not_stay(db: Db, clock: TestClock) -> None:
    add = "SELECT add_nodes(%s, ARRAY[1, 2], ARRAY['a', 'b'], p_whens => ARRAY['success', 'always'], p_parents => ARRAY[1], p_children => ARRAY[2])"
    with db.transaction():
        (row,) = db.execute("SELECT id FROM enqueue_workflow('half', p_max_age => '10 s')").fetchall()
        db.execute(add, (row["id"],))
        db.execute("SELECT add_node_jobs(%s, ARRAY[1, 2], ARRAY[0, 0], ARRAY['{}', '{}']::jsonb[])", (row["id"],))
    clock.advance(10)
    advance(db)
    assert status(db, row["id"]) == "failed"
    assert db.execute("SELECT FROM live").fetchall() == []
    assert counts(db, row["id"]) == (0, 0, 0, 2)


def test_members_are_kept_until_their_workflow_has_ended(db: Db, clock: TestClock) -> None:
    def rotate() -> None:
        db.execute("SELECT rotate('0')")
        db.execute("SELECT bound_segments()")

    workflow(db, {"a": 2, "b": 1}, {"b": ["a"]})
    db.execute("SELECT enqueue('plain')")
    run(db, "a", "plain")
    rotate()
    clock.advance(100)
    db.execute("SELECT prune('10 s')")
    (left,) = db.execute("SELECT array_agg(DISTINCT job_type) AS types FROM archive").fetchall()
    assert left["types"] == ["a"]
    assert db.execute("SELECT sum(jobs)::int AS n FROM archive_counts").fetchone() == {"n": 2}
    assert run(db, "b") == 1
    rotate()
    clock.advance(100)
    db.execute("SELECT prune('10 s')")
    assert db.execute("SELECT FROM archive").fetchall() == []
    for table in ("workflows", "workflow_nodes", "workflow_edges", "workflow_counts"):
        assert db.execute(f"SELECT FROM {table}").fetchall() == [], table


# Maps, results, spawned jobs


def test_a_map_is_expanded_by_any_number_of_workers(db: Db) -> None:
    flow = map_over(db)
    held = claim(db, "a")
    db.execute("SELECT complete(%(ids)s, %(tokens)s, ARRAY['[1, 2, 3]'::jsonb])", held)
    (todo,) = db.execute("SELECT * FROM maps_to_expand()").fetchall()
    assert (todo["node"], todo["parameter"], todo["results"]) == (2, "item", [[1, 2, 3]])
    expand = "SELECT expand_map(%s, 2, %s, %s::jsonb[], %s) AS n"
    assert db.execute(expand, (flow, 0, ['{"item": 1}', '{"item": 2}'], False)).fetchone() == {"n": 2}
    assert db.execute(expand, (flow, 0, ['{"item": 1}', '{"item": 2}'], False)).fetchone() == {"n": 2}
    assert run(db, "b") == 2
    assert states(db, flow)["b"] == "running"
    assert db.execute(expand, (flow, 2, ['{"item": 3}'], True)).fetchone() == {"n": 3}
    assert db.execute(expand, (flow, 2, ['{"item": 3}'], True)).fetchone() == {"n": None}
    held = claim(db, "b")
    db.execute("SELECT complete(%(ids)s, %(tokens)s, ARRAY['30'::jsonb])", held)
    held = claim(db, "c")
    (given,) = db.execute("SELECT * FROM node_inputs(%(ids)s)", held).fetchall()
    assert (given["results"], given["lost"]) == ([None, None, 30], 0)
    rows = db.execute("SELECT place, status, result FROM node_results(%s, 2, 1, 5)", (flow,)).fetchall()
    assert [(row["place"], row["result"]) for row in rows] == [(1, None), (2, 30)]
    complete(db, held)
    assert status(db, flow) == "completed"
    assert counts(db, flow) == true_counts(db, flow) == (0, 5, 0, 0)


@pytest.mark.parametrize("how", ["empty", "failed", "cancelled"])
def test_a_map_without_jobs_ends_at_once(db: Db, how: str) -> None:
    flow = map_over(db)
    run(db, "a")
    if how == "empty":
        db.execute("SELECT expand_map(%s, 2, 0, '{}', true)", (flow,))
        assert run(db, "c") == 1
    elif how == "failed":
        db.execute("SELECT fail_map(%s, 2, 'it is no list')", (flow,))
    else:
        db.execute("SELECT cancel_workflow(%s)", (flow,))
        assert db.execute("SELECT expand_map(%s, 2, 0, ARRAY['{}'::jsonb], true) AS n", (flow,)).fetchone() == {
            "n": None
        }
    advance(db)
    assert status(db, flow) == {"empty": "completed"}.get(how, how)
    assert counts(db, flow) == true_counts(db, flow)


def test_what_a_job_spawns_counts_in_its_node(db: Db) -> None:
    flow = workflow(db, {"a": 2, "b": 1}, {"b": ["a"]})
    held = claim(db, "a")
    one, two = ({name: [values[n]] for name, values in held.items()} for n in (0, 1))
    spawn = "SELECT spawn(%s, %s, 'extra', ARRAY['{}', '{}']::jsonb[]) AS n"
    with db.transaction(force_rollback=True):
        db.execute(spawn, (one["ids"][0], one["tokens"][0]))
    with db.transaction():
        assert db.execute(spawn, (one["ids"][0], one["tokens"][0])).fetchone() == {"n": 2}
        complete(db, one)
    complete(db, two)
    assert run(db, "b") == 0
    assert counts(db, flow) == true_counts(db, flow) == (3, 2, 0, 0)
    held = claim(db, "extra")
    with db.transaction():
        db.execute(spawn, (held["ids"][0], held["tokens"][0]))
        complete(db, held)
    assert run(db, "b") == 0
    db.execute("DELETE FROM jobs WHERE job_type = 'extra' AND status = 'pending'")
    assert states(db, flow) == {"a": "cancelled", "b": "skipped"}
    assert counts(db, flow)[0] == 0


def test_cancel_reaches_spawned_jobs_and_retry_runs_them_again(db: Db) -> None:
    flow = workflow(db, {"a": 1, "b": 1}, {"b": ["a"]})
    held = claim(db, "a")
    with db.transaction():
        db.execute("SELECT spawn(%s, %s, 'extra', ARRAY['{}', '{}']::jsonb[])", (held["ids"][0], held["tokens"][0]))
        complete(db, held)
    db.execute("SELECT cancel_workflow(%s)", (flow,))
    assert status(db, flow) == "cancelled"
    db.execute("SELECT retry_workflow(%s)", (flow,))
    assert counts(db, flow) == true_counts(db, flow) == (3, 1, 0, 0)
    assert [run(db, "a", "b", "extra") for _ in range(3)] == [2, 1, 0]
    assert status(db, flow) == "completed"


def test_a_plain_job_spawns_plain_ones(db: Db) -> None:
    db.execute("SELECT enqueue('a')")
    held = claim(db, "a")
    with db.transaction():
        db.execute("SELECT spawn(%s, %s, 'extra', ARRAY['{}']::jsonb[])", (held["ids"][0], held["tokens"][0]))
        complete(db, held)
    (job,) = db.execute("SELECT parent_id, workflow_id, node FROM live").fetchall()
    assert job == {"parent_id": held["ids"][0], "workflow_id": None, "node": None}


# What is not well made


SOURCE = {"node": 1, "path": []}
ITEMS = {"parameter": "x", **SOURCE}


@pytest.mark.parametrize(
    "given",
    [
        {"options": {"run_at": "294276-12-31", "expires_in": "36500 days"}},
        {"options": {"run_at": "10001-01-01"}},
        {"options": {"run_at": "infinity"}},
        {"options": {"run_at": "-infinity"}},
        {"options": {"run_at": "0044-03-15 BC"}},
        {"options": {"expires_in": "71582788 months -2147483600 days"}},
        {"options": {"flow_key": "x" * 201}},
        {"parents": [0]},
        {"parents": [-1]},
        {"parents": [None]},
        {"kind": "map"},
        {"kind": "end"},
        {"items": ITEMS},
        {"kind": "map", "items": {**ITEMS, "node": "abc"}},
        {"kind": "map", "items": {**ITEMS, "node": "1"}},
        {"kind": "map", "items": {**ITEMS, "node": 1.5}},
        {"kind": "map", "items": {**ITEMS, "node": 3}},
        {"kind": "map", "items": {**ITEMS, "node": 2}},
        {"kind": "map", "items": {**ITEMS, "path": None}},
        {"kind": "map", "items": {**ITEMS, "path": [[1]]}},
        {"kind": "map", "items": {**ITEMS, "parameter": 1}},
        {"kind": "map", "items": SOURCE},
        {"kind": "map", "items": [ITEMS]},
        {"inputs": {}},
        {"inputs": [1]},
        {"inputs": [{"parameter": "x", "list": False}]},
        {"inputs": [{"parameter": "x", "list": False, "sources": []}]},
        {"inputs": [{"parameter": "x", "list": False, "sources": [{**SOURCE, "node": "abc"}]}]},
        {"inputs": [{"parameter": "x", "list": False, "sources": [[SOURCE]]}]},
        {"inputs": [{"parameter": "x", "list": 1, "sources": [SOURCE]}]},
    ],
    ids=str,
)
def test_a_node_that_workers_could_not_read_is_refused(db: Db, given: dict[str, Any]) -> None:
    add = (
        "SELECT add_nodes(%s, ARRAY[1, 2], ARRAY['a', 'b'], p_kinds => ARRAY['job', %s], p_options => ARRAY[NULL, %s]::jsonb[],"
        " p_inputs => ARRAY[NULL, %s]::jsonb[], p_items => ARRAY[NULL, %s]::jsonb[], p_parents => %s::int[], p_children => ARRAY[2])"
    )
    read = [json.dumps(given[name]) if name in given else None for name in ("options", "inputs", "items")]
    db.execute("BEGIN")
    (row,) = db.execute("SELECT id FROM enqueue_workflow('w')").fetchall()
    with pytest.raises(psycopg.Error) as refused:
        db.execute(add, (row["id"], given.get("kind", "job"), *read, given.get("parents", [1])))
    assert refused.value.sqlstate == "JQ001", refused.value


def test_one_workflow_that_cannot_go_on_stops_no_other(db: Db, clock: TestClock) -> None:
    edges, whens = {"b": ["a"], "c": ["a"]}, {"b": "always"}
    nodes = {"a": 1, "b": 1, "c": 2500}
    bad, good = (workflow(db, nodes, edges, whens=whens, deadline=after) for after in ("10 s", "20 s"))
    far = json.dumps({"run_at": "294276-12-31", "expires_in": "36500 days"})
    db.execute("UPDATE workflow_nodes SET options = %s WHERE workflow_id = %s AND name = 'b'", (far, bad))
    warnings: list[str] = []
    db.add_notice_handler(lambda notice: warnings.append(str(notice.message_primary)))
    run(db, "a")
    (row,) = db.execute("SELECT * FROM advance_workflows(100000)").fetchall()
    assert row["more"] is False
    assert states(db, good) == {"a": "completed", "b": "running", "c": "running"}
    # The node has failed, once, and its workflow continues without it.
    advance(db)
    assert states(db, bad) == {"a": "completed", "b": "failed", "c": "running"}
    assert [said.split(":")[0] for said in warnings] == [f"node b of workflow {bad} could not be advanced (release)"]
    (row,) = db.execute("SELECT error FROM node_details WHERE workflow_id = %s AND name = 'b'", (bad,)).fetchall()
    assert row["error"].startswith("its jobs could not be made due: ")
    clock.advance(20)
    advance(db)
    run(db, "b")
    advance(db)
    assert (status(db, bad), status(db, good)) == ("failed", "failed")
    assert len(warnings) == 1


def test_the_arguments_of_a_damaged_node_keep_no_other_job_from_its_own(db: Db) -> None:
    bad, good = (workflow(db, {"a": 1, "b": 1}, {"b": ["a"]}) for _ in range(2))
    for each, node in ((bad, "abc"), (good, 1)):
        inputs = json.dumps([{"parameter": "x", "list": False, "sources": [{"node": node, "path": []}]}])
        db.execute("UPDATE workflow_nodes SET inputs = %s WHERE workflow_id = %s AND name = 'b'", (inputs, each))
    db.execute("UPDATE live SET inputs = true WHERE job_type = 'b'")
    run(db, "a")
    rows = db.execute("SELECT workflow_id FROM node_inputs(%s::uuid[])", (claim(db, "b")["ids"],)).fetchall()
    assert [row["workflow_id"] for row in rows] == [good]


@pytest.mark.parametrize("items", [{**ITEMS, "node": "abc"}, {**ITEMS, "node": 7}, {**ITEMS, "path": None}, [], None])
def test_one_map_that_cannot_be_read_fails_and_stops_no_other(db: Db, items: Any) -> None:
    bad, good = map_over(db), map_over(db)
    given = None if items is None else json.dumps(items)
    db.execute("UPDATE workflow_nodes SET items = %s WHERE workflow_id = %s AND name = 'b'", (given, bad))
    run(db, "a")
    rows = db.execute("SELECT workflow_id FROM maps_to_expand()").fetchall()
    assert [row["workflow_id"] for row in rows] == [good]
    advance(db)
    assert (status(db, bad), status(db, good)) == ("failed", "running")


def test_the_error_of_a_workflow_shows_no_reason_of_a_caller(db: Db, plain_role: Db) -> None:
    (row,) = plain_role.execute("SELECT current_user::text AS role").fetchall()
    db.execute(sql.SQL("GRANT SELECT ON workflow_details TO {}").format(sql.Identifier(row["role"])))
    told, late, failed, again = (workflow(db, {"a": 1}) for _ in range(4))
    db.execute("SELECT cancel_workflow(%s, 'SECRET', true)", (told,))
    db.execute("SELECT cancel_workflow(%s, 'its deadline has passed', true)", (late,))
    db.execute("SELECT cancel_workflow(%s, 'SECRET', true)", (again,))
    db.execute("UPDATE workflows SET cancel_reason = 'another' WHERE id = %s", (again,))
    fail(db, claim(db, "a"))
    shown = {row["id"]: row["error"] for row in plain_role.execute("SELECT id, error FROM workflow_details").fetchall()}
    assert shown == {
        told: "[redacted]",
        late: "its deadline has passed",
        failed: "node a failed",
        again: "[redacted]",
    }
    assert db.execute("SELECT error FROM workflow_details WHERE id = %s", (told,)).fetchone() == {"error": "SECRET"}


@pytest.mark.parametrize(("kind", "places"), [("group", [0, 5]), ("group", [-1, 0]), ("group", [1, 2]), ("job", [1])])
def test_the_places_of_a_node_have_no_gap(db: Db, kind: str, places: list[int]) -> None:
    add = "SELECT add_node_jobs(%s, %s::int[], %s::int[], array_fill('{}'::jsonb, ARRAY[%s]))"
    db.execute("BEGIN")
    (row,) = db.execute("SELECT id FROM enqueue_workflow('w')").fetchall()
    db.execute("SELECT add_nodes(%s, ARRAY[1, 2], ARRAY['a', 'b'], p_kinds => ARRAY['group', %s])", (row["id"], kind))
    db.execute(add, (row["id"], [1, 1], [1, 0], 2))
    both = sql.SQL(
        "DO $$ BEGIN PERFORM add_node_jobs({0}, {1}, {2}, {3}::jsonb[]); PERFORM start_workflow({0}); END $$"
    )
    given = (row["id"], [2] * len(places), places, ["{}"] * len(places))
    with pytest.raises(psycopg.Error, match="place") as refused:
        db.execute(both.format(*map(sql.Literal, given)))
    assert refused.value.sqlstate == "JQ001"


@pytest.mark.parametrize(
    ("which", "node", "ran", "end", "left"),
    [
        ("true", None, 0, "cancelled", (0, 0, 0, 4)),
        ("place = 0", None, 2, "cancelled", (0, 2, 0, 2)),
        ("true", "a", 0, "cancelled", (0, 0, 0, 4)),
        ("false", None, 3, "completed", (0, 4, 0, 0)),
    ],
)
def test_a_retry_does_not_complete_what_is_gone(
    db: Db, which: str, node: str | None, ran: int, end: str, left: tuple[int, ...]
) -> None:
    flow = workflow(db, {"a": 3, "b": 1}, {"b": ["a"]})
    db.execute(f"DELETE FROM jobs WHERE id IN (SELECT id FROM live WHERE {which})")
    db.execute("SELECT cancel_workflow(%s)", (flow,))
    db.execute("SELECT retry_workflow(%s, %s)", (flow, node))
    assert run(db, "a") == ran
    run(db, "b")
    assert (status(db, flow), counts(db, flow)) == (end, left)


def test_a_retry_keeps_what_has_completed_and_is_gone(db: Db) -> None:
    flow = workflow(db, {"a": 3, "b": 1}, {"b": ["a"]})
    complete(db, claim(db, "a", most=2))
    fail(db, claim(db, "a"))
    db.execute("SELECT delete_jobs(ARRAY(SELECT id FROM archive WHERE job_type = 'a' AND status = 'completed'))")
    db.execute("SELECT retry_workflow(%s)", (flow,))
    assert [run(db, "a", "b") for _ in range(3)] == [1, 1, 0]
    assert (status(db, flow), counts(db, flow)) == ("completed", (0, 4, 0, 0))


def test_a_map_whose_template_is_no_object_fails(db: Db, queue: JobQueue) -> None:
    flow = map_over(db)
    db.execute("UPDATE workflow_nodes SET template = '[1]' WHERE name = 'b'")
    held = claim(db, "a")
    db.execute("SELECT complete(%(ids)s, %(tokens)s, ARRAY['[1]'::jsonb])", held)
    queue._database.run(expand_maps(queue._context))
    assert states(db, flow)["b"] == "failed"
