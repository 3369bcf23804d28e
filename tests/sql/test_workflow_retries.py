"""Retries of workflows, and of single jobs of theirs, in the middle of something: nothing is left out, and nothing waits for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.clock import TestClock
from tests.conftest import Db
from tests.sql.graphs import advance, counts, expand, map_over, run, states, status


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
