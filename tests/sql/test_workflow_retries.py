"""Retries of workflows, and of single jobs of theirs, in the middle of something: nothing is left out, and nothing waits for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.clock import TestClock
from tests.conftest import Db
from tests.sql.graphs import advance, claim, complete, counts, expand, fail, map_over, run, states, status, workflow


def cancelled(db: Db, flow: Any, clock: TestClock) -> None:
    db.execute("SELECT cancel_workflow(%s)", (flow,))


def late(db: Db, flow: Any, clock: TestClock) -> None:
    db.execute("UPDATE workflows SET deadline_at = clock() + interval '1 s' WHERE id = %s", (flow,))
    clock.advance(2)


def too_old(db: Db, flow: Any, clock: TestClock) -> None:
    db.execute("UPDATE workflows SET expires_at = clock() + interval '1 s' WHERE id = %s", (flow,))
    clock.advance(2)


@pytest.mark.parametrize("end", [cancelled, late, too_old], ids=lambda end: end.__name__)
@pytest.mark.parametrize("ran", [0, 2])
def test_a_map_that_was_cut_short_is_expanded_anew_by_a_retry(
    db: Db, clock: TestClock, end: Callable[[Db, Any, TestClock], None], ran: int
) -> None:
    flow = map_over(db)
    run(db, "a")
    assert expand(db, flow, 0, 2, last=False) == 2
    assert run(db, "b") == 2 if ran else True
    end(db, flow, clock)
    advance(db)
    assert status(db, flow) == ("cancelled" if end is cancelled else "failed")
    assert states(db, flow)["b"] == "cancelled"
    assert expand(db, flow, 2, 2, last=True) is None
    db.execute("SELECT retry_workflow(%s)", (flow,))
    run(db, "a")
    (todo,) = db.execute("SELECT node, expanded FROM maps_to_expand()").fetchall()
    assert todo == {"node": 2, "expanded": 0}
    assert expand(db, flow, 0, 4, last=True) == 4
    assert [run(db, "b"), run(db, "c")] == [4, 1]
    assert (status(db, flow), counts(db, flow)) == ("completed", (0, 6, 0, 0))


def test_a_map_that_was_expanded_to_its_end_keeps_its_completed_jobs(db: Db) -> None:
    flow = map_over(db)
    run(db, "a")
    expand(db, flow, 0, 2, last=False)
    assert run(db, "b") == 2
    expand(db, flow, 2, 2, last=True)
    db.execute("SELECT cancel_workflow(%s)", (flow,))
    advance(db)
    db.execute("SELECT retry_workflow(%s)", (flow,))
    assert [run(db, "b"), run(db, "c")] == [2, 1]
    assert (status(db, flow), counts(db, flow)) == ("completed", (0, 6, 0, 0))


# A retry while a map downstream is expanded


def test_a_map_without_jobs_waits_for_the_new_items(db: Db) -> None:
    flow = map_over(db, when="always")
    fail(db, claim(db, "a"))
    assert states(db, flow)["b"] == "running"
    db.execute("SELECT retry_workflow(%s)", (flow,))
    assert states(db, flow) == {"a": "running", "b": "waiting", "c": "waiting"}
    assert db.execute("SELECT FROM maps_to_expand()").fetchall() == []
    assert expand(db, flow, 0, 2, last=True) is None
    held = claim(db, "a")
    db.execute("SELECT complete(%(ids)s, %(tokens)s, ARRAY['[1, 2, 3]'::jsonb])", held)
    (todo,) = db.execute("SELECT results FROM maps_to_expand()").fetchall()
    assert todo == {"results": [[1, 2, 3]]}
    expand(db, flow, 0, 3, last=True)
    assert [run(db, "b"), run(db, "c")] == [3, 1]
    assert (status(db, flow), counts(db, flow)) == ("completed", (0, 5, 0, 0))


def test_a_retry_waits_until_a_map_over_its_results_has_its_jobs(db: Db) -> None:
    flow = map_over(db, when="always")
    fail(db, claim(db, "a"))
    expand(db, flow, 0, 2, last=False)
    with pytest.raises(psycopg.Error, match="the jobs of map b are being added") as refused:
        db.execute("SELECT retry_workflow(%s)", (flow,))
    assert refused.value.sqlstate == "JQ005"
    expand(db, flow, 2, 1, last=True)
    db.execute("SELECT retry_workflow(%s)", (flow,))
    assert run(db, "b") == 3
    assert states(db, flow) == {"a": "running", "b": "completed", "c": "waiting"}
    assert [run(db, "a"), run(db, "c")] == [1, 1]
    assert (status(db, flow), counts(db, flow)) == ("completed", (0, 5, 0, 0))


def test_the_jobs_of_an_open_map_do_not_wait_for_a_parent_that_runs_again(db: Db) -> None:
    flow = map_over(db, when="always", beside=True)
    held = claim(db, "a")
    db.execute("SELECT complete(%(ids)s, %(tokens)s, ARRAY['[1, 2]'::jsonb])", held)
    fail(db, claim(db, "d"))
    expand(db, flow, 0, 1, last=False)
    db.execute("SELECT retry_workflow(%s)", (flow,))
    assert expand(db, flow, 1, 1, last=True) == 2
    assert run(db, "b") == 2
    assert states(db, flow) == {"a": "completed", "b": "completed", "c": "waiting", "d": "running"}
    # What comes behind the map does wait for it.
    assert run(db, "c") == 0
    assert [run(db, "d"), run(db, "c")] == [1, 1]
    assert (status(db, flow), counts(db, flow)) == ("completed", (0, 5, 0, 0))


def test_a_retry_reaches_a_node_that_is_being_skipped(db: Db) -> None:
    flow = workflow(db, {"a": 1, "b": 1500, "c": 1}, {"b": ["a"], "c": ["b"]})
    fail(db, claim(db, "a"))
    assert 0 < counts(db, flow)[0] < 1500
    with pytest.raises(psycopg.Error, match="node b has not ended"):
        db.execute("SELECT retry_workflow(%s, 'a')", (flow,))
    db.execute("SELECT retry_workflow(%s)", (flow,))
    run(db, "a")
    advance(db)
    assert [run(db, "b"), run(db, "b"), run(db, "c")] == [1000, 500, 1]
    assert (status(db, flow), counts(db, flow)) == ("completed", (0, 1502, 0, 0))


def test_a_node_that_has_ended_opens_none_while_one_before_it_runs_again(db: Db) -> None:
    leaves = {f"c{n}": ["b"] for n in range(150)}
    flow = workflow(db, {"a": 1, "b": 1, **dict.fromkeys(leaves, 1)}, {"b": ["a"], **leaves}, whens={"b": "always"})
    fail(db, claim(db, "a"))
    run(db, "b")
    db.execute("SELECT retry_workflow(%s)", (flow,))
    advance(db)
    found = states(db, flow)
    assert (found["a"], found["b"]) == ("running", "completed")
    assert {found[leaf] for leaf in leaves} <= {"running", "waiting"}
    assert "waiting" in {found[leaf] for leaf in leaves}
    run(db, "a")
    advance(db)
    assert run(db, *leaves) == 150
    advance(db)
    assert (status(db, flow), counts(db, flow)) == ("completed", (0, 152, 0, 0))


# Single jobs of an earlier run of their node


def test_a_spawned_job_of_an_earlier_run_counts_in_no_node(db: Db) -> None:
    flow = workflow(db, {"a": 1, "z": 1}, {"z": ["a"]})
    run(db, "a")
    held = claim(db, "z")
    with db.transaction():
        db.execute("SELECT spawn(%s, %s, 'extra', ARRAY['{}'::jsonb])", (held["ids"][0], held["tokens"][0]))
        complete(db, held)
    fail(db, claim(db, "extra"))
    assert status(db, flow) == "failed"
    db.execute("SELECT retry_workflow(%s, 'a')", (flow,))
    db.execute("SELECT retry(ARRAY(SELECT id FROM archive WHERE job_type = 'extra'))")
    # It runs by itself: neither does it wait for the node, nor the node for it.
    assert run(db, "extra") == 1
    assert [run(db, "a"), run(db, "z")] == [1, 1]
    assert (status(db, flow), counts(db, flow)) == ("completed", (0, 2, 0, 0))


def test_a_spawned_job_counts_again_while_its_node_has_it(db: Db) -> None:
    flow = workflow(db, {"a": 1, "b": 1}, {"b": ["a"]})
    held = claim(db, "a")
    with db.transaction():
        for data in ("ARRAY['{}', '{}']", "ARRAY['{}']"):
            db.execute(f"SELECT spawn(%s, %s, 'extra', {data}::jsonb[])", (held["ids"][0], held["tokens"][0]))
        complete(db, held)
    fail(db, claim(db, "extra", most=2))
    db.execute("SELECT retry(ARRAY(SELECT id FROM archive WHERE job_type = 'extra'))")
    assert counts(db, flow) == (4, 1, 0, 0)
    assert [run(db, "extra"), run(db, "b")] == [3, 1]
    assert (status(db, flow), counts(db, flow)) == ("completed", (0, 5, 0, 0))


@pytest.mark.parametrize("delete", ["DELETE FROM jobs WHERE id = ANY (%s)", "SELECT delete_jobs(%s)"])
def test_a_job_of_an_earlier_expansion_counts_in_no_node(db: Db, delete: str) -> None:
    flow = map_over(db)
    run(db, "a")
    expand(db, flow, 0, 2, last=True)
    run(db, "b")
    (old,) = db.execute("SELECT array_agg(id) AS ids FROM archive WHERE job_type = 'b'").fetchall()
    run(db, "c")
    db.execute("SELECT retry_workflow(%s, 'a')", (flow,))
    run(db, "a")
    expand(db, flow, 0, 2, last=True)
    db.execute("SELECT retry(%(ids)s)", old)
    assert counts(db, flow) == (3, 1, 0, 0)
    db.execute(delete.encode(), (old["ids"],))
    assert counts(db, flow) == (3, 1, 0, 0)
    assert [run(db, "b"), run(db, "c")] == [2, 1]
    assert (status(db, flow), counts(db, flow)) == ("completed", (0, 4, 0, 0))
