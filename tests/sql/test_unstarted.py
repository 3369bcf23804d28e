"""A workflow is put together by the transaction that adds it, and by no other."""

from __future__ import annotations

import psycopg
import pytest

from tests.conftest import Connect, Db
from tests.sql.graphs import run, status

CALLS = {
    "add_nodes": "SELECT add_nodes(%s, ARRAY[2], ARRAY['b'])",
    "add_node_jobs": "SELECT add_node_jobs(%s, ARRAY[1], ARRAY[1], ARRAY['{}']::jsonb[])",
    "start_workflow": "SELECT start_workflow(%s)",
}


def begun(db: Db) -> str:
    (row,) = db.execute("SELECT id FROM enqueue_workflow('w')").fetchall()
    db.execute("SELECT add_nodes(%s, ARRAY[1], ARRAY['a'], p_kinds => ARRAY['group'])", (row["id"],))
    db.execute("SELECT add_node_jobs(%s, ARRAY[1], ARRAY[0], ARRAY['{}']::jsonb[])", (row["id"],))
    return str(row["id"])


@pytest.mark.parametrize("call", CALLS)
def test_what_was_committed_without_its_start_is_closed(db: Db, connect: Connect, call: str) -> None:
    with db.transaction():
        workflow_id = begun(db)
    db.execute("VACUUM FREEZE workflows")
    for each in (db, connect()):
        with pytest.raises(psycopg.Error, match="was committed before it was started") as refused:
            each.execute(CALLS[call], (workflow_id,))
        assert refused.value.sqlstate == "JQ005"
    # Not even in a transaction that has begun before.
    early = connect(autocommit=False)
    early.execute("SELECT pg_current_xact_id()")
    with db.transaction():
        other_id = begun(db)
    with pytest.raises(psycopg.Error, match="was committed before it was started"):
        early.execute(CALLS[call], (other_id,))


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_savepoints_of_its_own_transaction_add_to_it(connect: Connect, level: str) -> None:
    db = connect(autocommit=False)
    db.commit()
    db.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
    with db.transaction():
        workflow_id = begun(db)
    with db.transaction():
        db.execute(CALLS["add_nodes"], (workflow_id,))
        with db.transaction():
            db.execute(CALLS["add_node_jobs"], (workflow_id,))
    db.execute("SELECT add_node_jobs(%s, ARRAY[2], ARRAY[0], ARRAY['{}']::jsonb[])", (workflow_id,))
    with db.transaction():
        db.execute(CALLS["start_workflow"], (workflow_id,))
    db.commit()
    assert run(db, "a", "b") == 3
    db.commit()
    assert status(db, workflow_id) == "completed"  # type: ignore[arg-type]
