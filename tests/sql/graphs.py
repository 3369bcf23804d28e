"""Workflows made with SQL, and workers that are a few calls."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from psycopg.types.json import Jsonb

from tests.conftest import Db

Ran = dict[str, Any]


def workflow(
    db: Db,
    nodes: Mapping[str, int],
    edges: Mapping[str, Sequence[str]] = MappingProxyType({}),
    *,
    whens: Mapping[str, str] = MappingProxyType({}),
    name: str = "w",
    options: Mapping[str, Any] | None = None,
    **given: Any,
) -> uuid.UUID:
    """A workflow with nodes of so many jobs, each a type of its own; ``edges`` has the parents of each child."""
    numbers = {node: place for place, node in enumerate(nodes, 1)}
    pairs = [(numbers[parent], numbers[child]) for child, parents in edges.items() for parent in parents]
    with db.transaction():
        arguments = "".join(f", p_{key} => %({key})s" for key in given)
        (row,) = db.execute(f"SELECT id FROM enqueue_workflow(%(name)s{arguments})", {"name": name, **given}).fetchall()
        db.execute(
            "SELECT add_nodes(%s, %s, %s, %s, %s::text[], %s, p_options => %s, p_parents => %s, p_children => %s)",
            (
                row["id"],
                list(numbers.values()),
                list(nodes),
                list(nodes),
                ["job" if jobs == 1 else "group" for jobs in nodes.values()],
                [whens.get(node, "success") for node in nodes],
                None if options is None else [Jsonb(options)] * len(nodes),
                [parent for parent, _ in pairs],
                [child for _, child in pairs],
            ),
        )
        for node, jobs in nodes.items():
            db.execute(
                "SELECT add_node_jobs(%s, %s, %s, %s::jsonb[])",
                (row["id"], [numbers[node]] * jobs, list(range(jobs)), [json.dumps({"place": n}) for n in range(jobs)]),
            )
        db.execute("SELECT start_workflow(%s)", (row["id"],))
    return uuid.UUID(str(row["id"]))


def map_over(db: Db, *, when: str = "success", beside: bool = False) -> uuid.UUID:
    """Job a, a map b over its result, and job c, which takes the results of the map. Each has a type of its own.

    beside: the map waits for a job d, too.
    """
    items = Jsonb({"parameter": "item", "node": 1, "path": []})
    inputs = Jsonb([{"parameter": "all", "list": False, "sources": [{"node": 2, "path": []}]}])
    names = ["a", "b", "c", "d"][: 4 if beside else 3]
    edges = [(1, 2), (2, 3), (4, 2)][: 3 if beside else 2]
    with db.transaction():
        (row,) = db.execute("SELECT id FROM enqueue_workflow('w')").fetchall()
        db.execute(
            "SELECT add_nodes(%s, %s, %s, %s, %s, %s, p_items => %s, p_inputs => %s, p_parents => %s, p_children => %s)",
            (
                row["id"],
                [place for place, _ in enumerate(names, 1)],
                names,
                names,
                ["map" if name == "b" else "job" for name in names],
                [when if name == "b" else "success" for name in names],
                [items if name == "b" else None for name in names],
                [inputs if name == "c" else None for name in names],
                [parent for parent, _ in edges],
                [child for _, child in edges],
            ),
        )
        jobs = [place for place, name in enumerate(names, 1) if name != "b"]
        db.execute(
            "SELECT add_node_jobs(%s, %s, array_fill(0, ARRAY[%s]), array_fill('{}'::jsonb, ARRAY[%s]))",
            (row["id"], jobs, len(jobs), len(jobs)),
        )
        db.execute("SELECT start_workflow(%s)", (row["id"],))
    return uuid.UUID(str(row["id"]))


def expand(db: Db, workflow_id: uuid.UUID, start: int, items: int, *, last: bool) -> int | None:
    """Add jobs to the map of ``map_over``. Returns how many it has."""
    data = [json.dumps({"item": start + n}) for n in range(items)]
    (row,) = db.execute(
        "SELECT expand_map(%s, 2, %s, %s::jsonb[], %s) AS n", (workflow_id, start, data, last)
    ).fetchall()
    return None if row["n"] is None else int(row["n"])


def claim(db: Db, *types: str, most: int = 1000) -> Ran:
    """Claim and start what is due, as one batch."""
    rows = db.execute("SELECT id, token, place FROM claim('w', %s, %s, %s)", (list(types), most, most)).fetchall()
    return {"ids": [row["id"] for row in rows], "tokens": [row["token"] for row in rows]}


def complete(db: Db, held: Ran) -> int:
    return len(db.execute("SELECT complete(%(ids)s, %(tokens)s)", held).fetchall())


def fail(db: Db, held: Ran) -> None:
    ends = {**held, "errors": ["boom"] * len(held["ids"]), "last": [True] * len(held["ids"])}
    db.execute("SELECT fail(%(ids)s, %(tokens)s, %(errors)s, p_give_ups => %(last)s)", ends)


def run(db: Db, *types: str) -> int:
    return complete(db, claim(db, *types))


def states(db: Db, workflow_id: uuid.UUID) -> dict[str, str]:
    rows = db.execute("SELECT name, status FROM node_details WHERE workflow_id = %s", (workflow_id,)).fetchall()
    return {row["name"]: row["status"] for row in rows}


def status(db: Db, workflow_id: uuid.UUID) -> str:
    (row,) = db.execute("SELECT status FROM workflow_details WHERE id = %s", (workflow_id,)).fetchall()
    return str(row["status"])


def counts(db: Db, workflow_id: uuid.UUID) -> tuple[int, ...]:
    """Of the whole: how many jobs have not ended, have completed, have failed and were cancelled."""
    (row,) = db.execute(
        "SELECT remaining, completed, failed, cancelled FROM workflow_details WHERE id = %s", (workflow_id,)
    ).fetchall()
    return tuple(int(count) for count in row.values())


def true_counts(db: Db, workflow_id: uuid.UUID) -> tuple[int, ...]:
    """The same, counted from the jobs."""
    (row,) = db.execute(
        "SELECT count(*) FILTER (WHERE status IN ('pending', 'claimed', 'running')) AS remaining,"
        " count(*) FILTER (WHERE status = 'completed') AS completed, count(*) FILTER (WHERE status = 'failed') AS failed,"
        " count(*) FILTER (WHERE status = 'cancelled') AS cancelled FROM job_details WHERE workflow_id = %s AND node IS NOT NULL",
        (workflow_id,),
    ).fetchall()
    return tuple(int(count) for count in row.values())


def advance(db: Db) -> None:
    """Do all that was left to workers."""
    for _ in range(1000):
        (row,) = db.execute("SELECT * FROM advance_workflows()").fetchall()
        if not row["more"] and not row["done"]:
            return
    raise AssertionError("it does not come to an end")
