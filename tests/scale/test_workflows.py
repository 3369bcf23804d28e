"""A workflow of random shape, run by workers that are killed again and again: it ends as a simple model predicts, and so does its retry."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

from howdah import Flow, JobQueue
from tests.size import FULL
from tests.worker import handlers_graph
from tests.worker.processes import Fleet, until

NODES = 10_000 if FULL else 120
KILLS = 20 if FULL else 3


@dataclasses.dataclass
class Shape:
    """A node, and its state in the model."""

    kind: str
    when: str
    parents: list[int]
    fails: bool
    count: int
    outcome: str = ""


def shapes(chance: random.Random) -> list[Shape]:
    made: list[Shape] = []
    for number in range(NODES):
        parents = sorted(
            {chance.randrange(max(number - 50, 0), number) for _ in range(chance.choice((0, 1, 1, 2, 3)))}
            if number
            else set()
        )
        when = chance.choice(("success",) * 6 + ("always", "always", "failure")) if parents else "success"
        kind = chance.choice(("step", "step", "step", "map"))
        made.append(Shape(kind, when, parents, chance.random() < 0.03, chance.randrange(6)))
    return made


def decide(made: list[Shape], again: set[int] | None = None) -> None:
    """How each node ends; again: of a retry, the nodes that run again. A node that has failed does not fail again."""
    for number, shape in enumerate(made):
        if again is not None and number not in again:
            continue
        outcomes = [made[parent].outcome for parent in shape.parents]
        runs = {
            "success": all(outcome == "completed" for outcome in outcomes),
            "failure": "failed" in outcomes,
            "always": True,
        }[shape.when]
        fails = shape.fails and shape.outcome != "failed"
        shape.outcome = ("failed" if fails else "completed") if runs else "skipped"


def broken(made: list[Shape]) -> set[int]:
    """The nodes that a retry lets run again."""
    reached = {number for number, shape in enumerate(made) if shape.outcome == "failed"}
    for number, shape in enumerate(made):
        if reached & set(shape.parents):
            reached.add(number)
    return {number for number in reached if made[number].outcome in ("failed", "skipped")}


def enqueue(queue: JobQueue, made: list[Shape]) -> Flow:
    """A map is two nodes: its items, and the map itself, which has no part in the model, and nothing depends on it."""
    with queue.workflow("random") as flow:
        handles: list[Any] = []
        for number, shape in enumerate(made):
            given = {"number": number, "fails": shape.fails, "before": [handles[parent] for parent in shape.parents]}
            handler = handlers_graph.step if shape.kind == "step" else handlers_graph.numbers
            extra = {} if shape.kind == "step" else {"count": shape.count}
            handle = flow.add(handler, when=shape.when, name=f"n{number}", **given, **extra)  # type: ignore[arg-type]
            if shape.kind == "map":
                flow.map(handlers_graph.part, handle, name=f"m{number}")
            handles.append(handle)
    return flow


def outcomes(flow: Flow, made: list[Shape]) -> dict[str, str]:
    """What differs from the model."""
    found = {node.name: node for node in flow.nodes()}
    expected = {f"n{number}": shape.outcome for number, shape in enumerate(made)}
    for number, shape in enumerate(made):
        if shape.kind == "map":
            expected[f"m{number}"] = "completed" if shape.outcome == "completed" else "skipped"
            if shape.outcome == "completed" and found[f"m{number}"].progress.completed != shape.count:
                expected[f"m{number}"] = f"{shape.count} jobs"
    return {name: found[name].status for name, outcome in expected.items() if found[name].status != outcome}


def await_some(flow: Flow) -> None:
    enough = flow.progress().ended + max(NODES // (2 * KILLS), 5)
    until(lambda: flow.progress().ended >= enough or flow.get().ended, "some jobs have ended")


def status_of(made: list[Shape]) -> str:
    return "failed" if any(shape.outcome == "failed" for shape in made) else "completed"


def run(fleet: Fleet, flow: Flow, kills: int) -> str:
    """Until the workflow has ended; now and then, a worker is killed and another one starts."""
    workers = fleet.start_all(*(f"w{flow.progress().ended}-{n}" for n in range(3)), concurrency=20)
    for number in range(kills):
        await_some(flow)
        workers.pop(0).kill()
        workers.append(fleet.start(f"r{flow.progress().ended}-{number}", concurrency=20))
    until(lambda: flow.get().ended, "the workflow has ended")
    for worker in workers:
        worker.stop()
    return flow.status()


def test_it_ends_as_the_model_predicts_after_any_crash(dsn: str, queue: JobQueue, tmp_path: Path) -> None:
    made = shapes(random.Random(7))
    decide(made)
    handlers_graph.queue.connect_to(dsn)
    flow = enqueue(handlers_graph.queue, made)
    with Fleet(dsn, tmp_path, "handlers_graph") as fleet:
        assert run(fleet, flow, KILLS) == status_of(made)
        assert outcomes(flow, made) == {}
        while again := broken(made):
            decide(made, again)
            assert flow.retry() >= len(again)
            assert run(fleet, flow, 1) == status_of(made)
            assert outcomes(flow, made) == {}
        assert flow.progress().remaining == 0
    handlers_graph.queue.close()
