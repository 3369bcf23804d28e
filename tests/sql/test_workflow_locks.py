"""A transaction that has locked workflows holds up no other workflow, and one map that cannot get its jobs no other map."""

from __future__ import annotations

import json
import uuid

import psycopg
import pytest

from howdah import JobQueue
from howdah.verbs.maps import expand_maps
from tests.clock import TestClock
from tests.conftest import Connect, Db
from tests.sql.graphs import advance, claim, complete, counts, expand, map_over, run, states, status, workflow


def give_items(db: Db, items: list[int]) -> None:
    held = claim(db, "a")
    results = [json.dumps(items)] * len(held["ids"])
    db.execute("SELECT complete(%(ids)s, %(tokens)s, %(results)s::jsonb[])", {**held, "results": results})


@pytest.mark.parametrize("sweep", ["advance_workflows()", "recover()"])
def test_locked_workflows_hold_up_a_sweep_once_and_not_each(db: Db, connect: Connect, sweep: str) -> None:
    flows = [workflow(db, {"a": 1, "b": 1}, {"b": ["a"]}) for _ in range(60)]
    held = claim(db, "a")
    blocker = connect()
    blocker.execute("BEGIN")
    for flow in flows:
        blocker.execute("SELECT retry_workflow(%s)", (flow,))
    complete(db, held)
    # Half a second for each of them would be 30.
    db.execute("SET statement_timeout = '15s'")
    db.execute(f"SELECT * FROM {sweep}".encode())
    good = workflow(db, {"good": 1, "after": 1500}, {"after": ["good"]})
    run(db, "good")
    for _ in range(3):
        db.execute("SELECT * FROM advance_workflows()")
    assert len(claim(db, "after", most=2000)["ids"]) == 1500
    assert states(db, good)["after"] == "running"
    blocker.execute("ROLLBACK")
    advance(db)
    assert run(db, "b") == 60
    advance(db)
    assert {status(db, flow) for flow in flows} == {"completed"}


@pytest.mark.parametrize("sweep", ["advance_workflows()", "recover()"])
def test_a_locked_workflow_that_is_late_stops_no_sweep(db: Db, connect: Connect, clock: TestClock, sweep: str) -> None:
    locked, late = (workflow(db, {"a": 1}, deadline="10 s") for _ in range(2))
    (unstarted,) = db.execute("SELECT id FROM enqueue_workflow('never', p_deadline => '10 s')").fetchall()
    blocker = connect()
    blocker.execute("BEGIN")
    blocker.execute("SELECT FROM workflow_nodes WHERE workflow_id = %s FOR UPDATE", (locked,))
    blocker.execute("SELECT FROM workflows WHERE id = %s FOR UPDATE", (unstarted["id"],))
    clock.advance(20)
    db.execute(f"SELECT * FROM {sweep}".encode())
    assert (status(db, locked), status(db, late)) == ("running", "failed")
    blocker.execute("ROLLBACK")
    advance(db)
    assert (status(db, locked), status(db, unstarted["id"])) == ("failed", "failed")


def test_a_locked_map_is_left_at_once(db: Db, connect: Connect, queue: JobQueue) -> None:
    maps = [map_over(db) for _ in range(3)]
    give_items(db, [1, 2])
    blocker = connect()
    blocker.execute("BEGIN")
    blocker.execute("SELECT FROM workflow_nodes WHERE workflow_id = %s AND node = 2 FOR UPDATE", (maps[0],))
    assert expand(db, maps[0], 0, 2, last=True) == -1
    assert db.execute("SELECT fail_map(%s, 2, 'x') AS done", (maps[0],)).fetchone() == {"done": False}
    assert queue._database.run(expand_maps(queue._context)) == 2
    blocker.execute("ROLLBACK")
    assert expand(db, uuid.uuid4(), 0, 2, last=True) is None
    assert queue._database.run(expand_maps(queue._context)) == 1
    assert run(db, "b") == 6


def test_an_empty_map_ends_though_what_comes_behind_it_is_locked(db: Db, connect: Connect) -> None:
    flow = map_over(db)
    run(db, "a")
    blocker = connect()
    blocker.execute("BEGIN")
    blocker.execute("SELECT FROM workflow_nodes WHERE workflow_id = %s AND node = 3 FOR UPDATE", (flow,))
    assert expand(db, flow, 0, 0, last=True) == 0
    blocker.execute("ROLLBACK")
    advance(db)
    assert run(db, "c") == 1
    assert status(db, flow) == "completed"


def test_a_map_whose_jobs_cannot_be_added_fails_and_stops_no_other(
    db: Db, queue: JobQueue, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = map_over(db), map_over(db)
    give_items(db, [1, 2, 3])
    # A producer chooses its ids itself: this is the id of the third job.
    db.execute(
        "SELECT enqueue('other', p_id => member_id(first_id, 2), p_delay => '1 day') FROM workflow_nodes"
        " WHERE workflow_id = %s AND node = 2",
        (bad,),
    )
    assert queue._database.run(expand_maps(queue._context)) == 2
    assert (states(db, bad)["b"], states(db, good)["b"]) == ("failed", "running")
    reason = 'its jobs cannot be added: duplicate key value violates unique constraint "live_pkey"'
    (row,) = db.execute("SELECT error FROM node_details WHERE workflow_id = %s AND node = 2", (bad,)).fetchall()
    assert row == {"error": reason}
    assert [record.getMessage() for record in caplog.records] == [f"the map b of workflow {bad} fails: {reason}"]
    advance(db)
    assert (status(db, bad), run(db, "b")) == ("failed", 3)
    # Its jobs get other ids.
    db.execute("SELECT retry_workflow(%s)", (bad,))
    queue._database.run(expand_maps(queue._context))
    assert [run(db, "b"), run(db, "c")] == [3, 2]
    assert (status(db, bad), counts(db, bad)) == ("completed", (0, 5, 0, 0))


@pytest.mark.parametrize(("state", "others"), [("40001", False), ("57014", False), ("55P03", True), ("XX000", True)])
def test_an_error_that_is_not_about_the_jobs_of_a_map_does_not_fail_it(
    db: Db, queue: JobQueue, state: str, others: bool
) -> None:
    """Stands for the error: a map whose template makes a trigger raise it."""
    bad, *good = [map_over(db) for _ in range(4)]
    give_items(db, [1, 2])
    db.execute(
        "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" RAISE EXCEPTION 'refused' USING ERRCODE = '{state}'; END $$"
    )
    db.execute(
        "CREATE TRIGGER refuse BEFORE INSERT ON live FOR EACH ROW"
        f" WHEN (NEW.workflow_id = '{bad}') EXECUTE FUNCTION public.refuse()"
    )
    try:
        plan = expand_maps(queue._context)
        if state == "55P03":
            assert queue._database.run(plan) == 3
        else:
            with pytest.raises(psycopg.Error) as raised:
                queue._database.run(plan)
            assert raised.value.sqlstate == state
    finally:
        db.execute("DROP FUNCTION public.refuse CASCADE")
    assert states(db, bad)["b"] == "running"
    if others:
        assert run(db, "b") == 6
    while queue._database.run(expand_maps(queue._context)):
        pass
    run(db, "b")
    assert run(db, "c") == 4
    assert {status(db, flow) for flow in (bad, *good)} == {"completed"}
