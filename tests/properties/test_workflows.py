"""Workflows of random shape: whatever happens to their jobs, they are in the state that a simple model predicts."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import EMPTY, Db
from tests.sql.graphs import advance, claim, complete, counts, fail, states, status, workflow

ENDS = ("completed", "failed", "cancelled", "gone")
WHENS = ("success", "success", "always", "failure")


@dataclasses.dataclass
class Node:
    name: str
    when: str
    parents: list[Node]
    jobs: list[str]
    """waiting, pending, held, or how each has ended; gone: deleted."""
    outcome: str | None = None
    is_open: bool = False
    preset: str | None = None
    is_empty: bool = False
    """It runs again, and no job of it can: it ends when it opens."""

    @property
    def done(self) -> bool:
        """Whether its children know that it has ended: all before it have."""
        return self.outcome is not None and all(parent.done for parent in self.parents)

    @property
    def runs(self) -> bool:
        outcomes = [parent.outcome for parent in self.parents]
        match self.when:
            case "success":
                return all(outcome == "completed" for outcome in outcomes)
            case "failure":
                return any(outcome in ("failed", "cancelled") for outcome in outcomes)
        return True


class Model:
    """What a workflow should be."""

    def __init__(self, shapes: list[tuple[str, int, list[int]]]) -> None:
        self.nodes: list[Node] = []
        for number, (when, jobs, parents) in enumerate(shapes):
            own = [self.nodes[place] for place in sorted({parent % number for parent in parents if number})]
            when = "success" if when == "failure" and not own else when
            self.nodes.append(Node(f"n{number}", when, own, ["waiting"] * jobs))
        self.cancelled = False
        self.status = "running"
        self.settle()

    def settle(self) -> None:
        changes = True
        while changes:
            changes = sum(self._settle(node) for node in self.nodes) > 0
        if self.status == "running" and all(node.done for node in self.nodes):
            outcomes = {node.outcome for node in self.nodes}
            broken = next((outcome for outcome in ("failed", "cancelled") if outcome in outcomes), "completed")
            self.status = "cancelled" if self.cancelled else broken

    def _settle(self, node: Node) -> bool:
        before = dataclasses.replace(node, jobs=list(node.jobs))
        if (
            node.outcome is None
            and not node.is_open
            and node.preset is None
            and all(each.done for each in node.parents)
        ):
            if node.when == "always" or (node.runs and not self.cancelled):
                node.is_open = True
            else:
                node.preset = "cancelled" if self.cancelled else "skipped"
        if node.is_open:
            node.jobs = ["pending" if job == "waiting" else job for job in node.jobs]
        elif node.preset is not None:
            node.jobs = ["cancelled" if job == "waiting" else job for job in node.jobs]
        ended = all(job in ENDS for job in node.jobs) and (
            (node.jobs and not node.is_empty) or node.is_open or node.preset is not None
        )
        if node.outcome is None and ended:
            kinds = ["cancelled" if job == "gone" else job for job in node.jobs]
            found = next((kind for kind in ("failed", "cancelled") if kind in kinds), "completed")
            node.outcome, node.is_open = node.preset or found, False
        return node != before

    def cancel(self) -> None:
        if self.status != "running" or self.cancelled:
            return
        self.cancelled = True
        for node in self.nodes:
            if node.when != "always" and node.outcome is None and node.preset is None:
                if not node.is_open:
                    node.preset = "cancelled"
                node.jobs = ["cancelled" if job in ("waiting", "pending") else job for job in node.jobs]

    def retry(self) -> None:
        if self.status == "running" and self.cancelled:
            return
        broken = {node.name for node in self.nodes if node.outcome in ("failed", "cancelled")}
        for node in self.nodes:
            if any(parent.name in broken for parent in node.parents):
                broken.add(node.name)
        again = [node for node in self.nodes if node.name in broken and node.outcome not in (None, "completed")]
        for node in again:
            node.jobs = ["waiting" if job in ("failed", "cancelled") else job for job in node.jobs]
            node.is_empty = "waiting" not in node.jobs
            node.outcome, node.preset, node.is_open = None, None, False
        if again:
            self.cancelled, self.status = False, "running"

    def states(self) -> dict[str, str]:
        return {node.name: node.outcome or ("running" if node.is_open else "waiting") for node in self.nodes}

    def counts(self) -> tuple[int, ...]:
        jobs = list(itertools.chain.from_iterable(node.jobs for node in self.nodes))
        ended = [jobs.count("completed"), jobs.count("failed"), jobs.count("cancelled") + jobs.count("gone")]
        return (len(jobs) - sum(ended), *ended)


class World:
    """The same workflow in the database, and what happens to both."""

    def __init__(self, db: Db, shapes: list[tuple[str, int, list[int]]]) -> None:
        db.execute(EMPTY)
        self.db, self.model = db, Model(shapes)
        nodes = self.model.nodes
        self.id = workflow(
            db,
            {node.name: len(node.jobs) for node in nodes},
            {node.name: [parent.name for parent in node.parents] for node in nodes},
            whens={node.name: node.when for node in nodes},
        )
        self.check()

    def do(self, word: str, node_no: int, job_no: int) -> None:
        model, node = self.model, self.model.nodes[node_no % len(self.model.nodes)]
        match word:
            case "cancel":
                self.db.execute("SELECT cancel_workflow(%s)", (self.id,))
                model.cancel()
            case "retry":
                if not (model.status == "running" and model.cancelled):
                    self.db.execute("SELECT retry_workflow(%s)", (self.id,))
                model.retry()
            case "run":
                for each in model.nodes:
                    each.jobs = ["completed" if job == "pending" else job for job in each.jobs]
                complete(self.db, claim(self.db, *(each.name for each in model.nodes)))
            case "complete" | "fail" | "rollback" if "pending" in node.jobs:
                self._end(node, word)
            case "cancel job" | "delete" | "retry job" if node.jobs:
                self._change(node, word, job_no % len(node.jobs))
        advance(self.db)
        model.settle()
        self.check()

    def _end(self, node: Node, word: str) -> None:
        held = claim(self.db, node.name, most=1)
        (job,) = self.db.execute("SELECT place FROM live WHERE id = ANY (%(ids)s)", held).fetchall()
        if word == "rollback":
            with self.db.transaction(force_rollback=True):
                complete(self.db, held)
            self.db.execute("SELECT release(%(ids)s, %(tokens)s, true)", held)
            return
        (complete if word == "complete" else fail)(self.db, held)
        node.jobs[self._place(node, job["place"])] = "completed" if word == "complete" else "failed"

    def _place(self, node: Node, place: int) -> int:
        """Gone jobs of an earlier run have no place in the model."""
        return self.places(node).index(place)

    def places(self, node: Node) -> list[int]:
        rows = self.db.execute(
            "SELECT place FROM live WHERE job_type = %(type)s UNION SELECT place FROM archive WHERE job_type = %(type)s",
            {"type": node.name},
        ).fetchall()
        return sorted(row["place"] for row in rows)

    def _change(self, node: Node, word: str, number: int) -> None:
        if "gone" in node.jobs or node.outcome is not None:
            return
        (row,) = self.db.execute(
            "SELECT id FROM job_details WHERE job_type = %s AND place = %s", (node.name, self.places(node)[number])
        ).fetchall()
        job = node.jobs[number]
        if word == "cancel job" and job in ("waiting", "pending"):
            self.db.execute("SELECT cancel(ARRAY[%(id)s])", row)
            node.jobs[number] = "cancelled"
        elif word == "delete" and job in ("waiting", "pending") and len(node.jobs) == 1:
            self.db.execute("DELETE FROM jobs WHERE id = %(id)s", row)
            node.jobs[number] = "gone"
        elif word == "retry job" and job in ("failed", "cancelled", "completed") and not self.model.cancelled:
            self.db.execute("SELECT retry(ARRAY[%(id)s])", row)
            node.jobs[number] = "pending" if node.is_open else "waiting"

    def check(self) -> None:
        assert states(self.db, self.id) == self.model.states()
        assert (status(self.db, self.id), counts(self.db, self.id)) == (self.model.status, self.model.counts())

    def finish(self) -> None:
        """Whatever has happened, it comes to its end."""
        for _ in range(4 * len(self.model.nodes) + 4):
            self.do("run", 0, 0)
        assert self.model.status != "running"
        assert self.db.execute("SELECT FROM workflow_deltas").fetchall() == []
        assert self.db.execute("SELECT FROM workflow_nodes WHERE step IS NOT NULL").fetchall() == []


shapes = st.lists(
    st.tuples(st.sampled_from(WHENS), st.integers(0, 3), st.lists(st.integers(0, 20), max_size=3)),
    min_size=1,
    max_size=8,
)
words = st.sampled_from(
    ["run", "complete", "complete", "fail", "rollback", "cancel job", "delete", "retry job", "retry", "cancel"]
)
operations: Any = st.lists(st.tuples(words, st.integers(0, 7), st.integers(0, 2)), max_size=15)


@given(shapes, operations)
@settings(max_examples=40)
def test_a_workflow_matches_the_model(db: Db, shapes: Any, operations: Any) -> None:
    world = World(db, shapes)
    for operation in operations:
        world.do(*operation)
    world.finish()
