"""Workflows with maps and spawned jobs: whatever operators do to them, and in the middle of whatever, they come to their end.

``test_workflows`` compares each state with that of a model. Here nothing is predicted but the end: no step of the database is waited for before
the next operation, so operations meet nodes that are being expanded, skipped, released or cancelled.
"""

from __future__ import annotations

import json
import uuid
from typing import Any, Final

import psycopg
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from tests.conftest import EMPTY, Db
from tests.properties.examples import examples
from tests.sql.graphs import claim, fail

WHENS: Final = ("success", "success", "always", "failure")
KINDS: Final = ("job", "group", "map", "map")
ITEMS: Final = [1, 2, 3]
"""The result of each job. A map over several jobs has an item for each of these."""

# Of the jobs of a workflow: those that its nodes have now, and those that they had before they ran again.
JOBS: Final = (
    "SELECT j.id, j.status, r.id IS NOT NULL AS is_member FROM job_details AS j LEFT JOIN LATERAL ("
    " SELECT j.id FROM workflow_nodes AS n, node_ranges(n) AS r WHERE n.workflow_id = j.workflow_id AND j.id >= r.first_id AND j.id < r.end_id"
    ") AS r ON true WHERE j.workflow_id = %s ORDER BY j.id"
)

Shape = tuple[str, str, int, list[int]]


class World:
    def __init__(self, db: Db, shapes: list[Shape]) -> None:
        db.execute(EMPTY)
        self.db = db
        self.names = [f"n{number}" for number, _ in enumerate(shapes, 1)]
        parents = [sorted({1 + parent % place for parent in shape[3] if place}) for place, shape in enumerate(shapes)]
        kinds = ["map" if kind == "map" and own else "group" for (kind, *_), own in zip(shapes, parents, strict=True)]
        self.source = {n: own[0] for n, (kind, own) in enumerate(zip(kinds, parents, strict=True), 1) if kind == "map"}
        with db.transaction():
            (row,) = db.execute("SELECT id FROM enqueue_workflow('w')").fetchall()
            self.id = uuid.UUID(str(row["id"]))
            db.execute(
                "SELECT add_nodes(%s, %s, %s, %s, %s, %s, p_items => %s, p_parents => %s::int[], p_children => %s::int[])",
                (
                    self.id,
                    [place for place, _ in enumerate(shapes, 1)],
                    self.names,
                    self.names,
                    kinds,
                    [when if own else "success" for (_, when, *_), own in zip(shapes, parents, strict=True)],
                    [
                        Jsonb({"node": self.source[n], "path": [], "parameter": "x"}) if n in self.source else None
                        for n, _ in enumerate(shapes, 1)
                    ],
                    [parent for own in parents for parent in own],
                    [child for child, own in enumerate(parents, 1) for _ in own],
                ),
            )
            for node, (kind, shape) in enumerate(zip(kinds, shapes, strict=True), 1):
                if kind == "group":
                    db.execute(
                        "SELECT add_node_jobs(%s, array_fill(%s, ARRAY[%s]), %s::int[], array_fill('{}'::jsonb, ARRAY[%s]))",
                        (self.id, node, shape[2], list(range(shape[2])), shape[2]),
                    )
            db.execute("SELECT start_workflow(%s)", (self.id,))

    def do(self, word: str, number: int, few: bool) -> None:
        match word:
            case "complete" | "spawn" | "fail":
                self._end(word, 1 + number % 2 if few else 100)
            case "expand":
                self._expand(few)
            case "advance":
                self.db.execute("SELECT advance_workflows(%s)", (1 if few else 1000,))
            case "cancel":
                self.db.execute("SELECT cancel_workflow(%s)", (self.id,))
            case "retry":
                self._retry(None if few else self.names[number % len(self.names)])
            case _:
                self._change(word, number)

    def _end(self, word: str, most: int) -> None:
        held = claim(self.db, *self.names, "extra", most=most)
        if word == "fail":
            fail(self.db, held)
            return
        with self.db.transaction():
            if word == "spawn" and held["ids"]:
                self.db.execute(
                    "SELECT spawn(%s, %s, 'extra', ARRAY['{}', '{}']::jsonb[])", (held["ids"][0], held["tokens"][0])
                )
            results = [json.dumps(ITEMS)] * len(held["ids"])
            self.db.execute("SELECT complete(%(ids)s, %(tokens)s, %(results)s::jsonb[])", {**held, "results": results})

    def _expand(self, few: bool) -> None:
        """As a worker does, one batch of a map. few: of one item."""
        for row in self.db.execute("SELECT * FROM maps_to_expand()").fetchall():
            results = row["results"]
            items = results[0] if row["source_kind"] == "job" else results
            named = (row["workflow_id"], row["node"])
            if row["lost"]:
                self.db.execute("SELECT fail_map(%s, %s, 'lost')", named)
                continue
            start, count = row["expanded"], min(1 if few else 100, len(items) - row["expanded"])
            data = ["{}"] * max(count, 0)
            last = start + count >= len(items)
            self.db.execute("SELECT expand_map(%s, %s, %s, %s::jsonb[], %s)", (*named, start, data, last))

    def _retry(self, node: str | None) -> None:
        try:
            self.db.execute("SELECT retry_workflow(%s, %s)", (self.id, node))
        except psycopg.Error as refused:
            assert refused.sqlstate == "JQ005", refused

    def _change(self, word: str, number: int) -> None:
        """One job, of this run of its node or of an earlier one."""
        jobs = self.db.execute(JOBS, (self.id,)).fetchall()
        if not jobs:
            return
        job = jobs[number % len(jobs)]
        ended = job["status"] in ("completed", "failed", "cancelled")
        if word == "retry job" and ended:
            self.db.execute("SELECT retry(ARRAY[%(id)s])", job)
        elif word == "cancel job" and not ended:
            self.db.execute("SELECT cancel(ARRAY[%(id)s])", job)
        elif word == "delete" and not ended:
            self.db.execute("DELETE FROM jobs WHERE id = %(id)s", job)

    def finish(self) -> None:
        for _ in range(6 * len(self.names) + 10):
            self.do("advance", 0, False)
            self.do("expand", 0, False)
            self.do("complete", 0, False)
        (found,) = self.db.execute("SELECT * FROM workflow_details WHERE id = %s", (self.id,)).fetchall()
        assert found["status"] != "running", self._state()
        assert self.db.execute("SELECT FROM workflow_deltas").fetchall() == []
        assert self.db.execute("SELECT FROM workflow_nodes WHERE step IS NOT NULL OR state <> 'ended'").fetchall() == []
        assert self.db.execute("SELECT FROM live").fetchall() == [], self._state()
        self._check_counts()
        self._check_maps()

    def _check_counts(self) -> None:
        """Each job that the nodes have counts once."""
        rows = self.db.execute(
            "SELECT n.*, (SELECT coalesce(sum(('x' || right(r.end_id::text, 12))::bit(48)::bigint - ('x' || right(r.first_id::text, 12))::bit(48)::bigint), 0)"
            "  FROM node_ranges(w) AS r) AS members"
            " FROM node_details AS n JOIN workflow_nodes AS w USING (workflow_id, node)"
        ).fetchall()
        ends = ("completed", "failed", "cancelled")
        for row in rows:
            assert (row["remaining"], sum(row[end] for end in ends)) == (0, row["members"]), row
        (whole,) = self.db.execute("SELECT * FROM workflow_details WHERE id = %s", (self.id,)).fetchall()
        for count in ("remaining", *ends):
            assert whole[count] == sum(row[count] for row in rows), (count, self._state())

    def _check_maps(self) -> None:
        """One that has completed has a job for each item. (One that runs always has those of the time when it ran.)"""
        nodes = {
            row["node"]: row for row in self.db.execute("SELECT * FROM node_details WHERE workflow_id = %s", (self.id,))
        }
        for node, source in self.source.items():
            if nodes[node]["when_"] == "success" and nodes[node]["status"] == "completed":
                assert nodes[node]["jobs"] == nodes[source]["jobs"], self._state()

    def _state(self) -> Any:
        return (
            self.db.execute("SELECT * FROM workflow_nodes WHERE workflow_id = %s ORDER BY node", (self.id,)).fetchall(),
            self.db.execute("SELECT node, place, job_type, status, run_at::text FROM live ORDER BY id").fetchall(),
        )


shapes: Any = st.lists(
    st.tuples(
        st.sampled_from(KINDS), st.sampled_from(WHENS), st.integers(1, 3), st.lists(st.integers(0, 20), max_size=2)
    ),
    min_size=1,
    max_size=5,
)
words = st.sampled_from(
    [
        *("complete", "complete", "complete", "spawn", "fail", "expand", "expand", "advance"),
        *("cancel job", "delete", "retry job", "retry job", "retry", "retry", "cancel"),
    ]
)
operations: Any = st.lists(st.tuples(words, st.integers(0, 20), st.booleans()), max_size=20)


@given(shapes, operations)
@settings(max_examples=examples(400))
def test_a_workflow_comes_to_its_end(db: Db, shapes: Any, operations: Any) -> None:
    world = World(db, shapes)
    for operation in operations:
        world.do(*operation)
    world.finish()
