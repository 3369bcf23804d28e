"""The graph of a workflow as a drawing: layers from left to right, many like nodes as one box, edges around the boxes between."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import unicodedata
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from howdah.model.workflow import NodeStatus, When, WorkflowProgress

FEW: Final = 5
"""So many nodes with the same type, parents and children are drawn as one box."""
WIDTH: Final = 164
HEIGHT: Final = 50
_GAP_X, _GAP_Y, _MARGIN = 44, 14, 8
_BEND_HEIGHT: Final = 10
_SWEEPS: Final = 6
_MOST_BENDS: Final = 2_000
_MOST_EDGES: Final = 2_000
"""Of more, no eye follows one, and a page of 500 nodes could have 124,750."""
_MOST_TEXT: Final = 17
_WORST_FIRST: Final[Sequence[NodeStatus]] = ("failed", "running", "cancelled", "waiting", "completed", "skipped")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FlowNode(WorkflowProgress):
    """A node of a workflow, as ``web/nodes`` reads it. Its parents are numbers of nodes."""

    number: int
    name: str
    kind: Literal["job", "group", "map"]
    when: When
    status: NodeStatus
    job_type: str
    parents: Sequence[int]
    first_id: uuid.UUID | None
    jobs: int
    opened_at: datetime | None
    ended_at: datetime | None
    error: str | None

    @property
    def end_id(self) -> uuid.UUID | None:
        """The id after the last of its own jobs; None if its jobs have spawned others, which can be anywhere."""
        if self.first_id is None or self.total > self.jobs:
            return None
        return uuid.UUID(int=self.first_id.int + self.jobs)


@dataclasses.dataclass(frozen=True, slots=True)
class Box:
    """A node, or several like ones, with the place of its drawing."""

    node: FlowNode
    number_of_nodes: int
    x: float
    y: float

    @property
    def title(self) -> str:
        if self.number_of_nodes > 1:
            times = f" × {self.number_of_nodes:,} nodes"
            return cut(self.node.job_type, _MOST_TEXT - len(times)) + times
        return label(self.node)

    @property
    def has_bar(self) -> bool:
        return self.node.total > 1 or self.node.kind != "job"

    @property
    def bars(self) -> list[tuple[str, float, float]]:
        """The parts of its bar: the kind, where it begins, how long it is."""
        made, at = [], 0.0
        for kind in ("completed", "failed", "cancelled"):
            length = round(getattr(self.node, kind) / max(self.node.total, 1) * (WIDTH - 24), 1)
            if length:
                made.append((kind, at, length))
                at += length
        return made


@dataclasses.dataclass(frozen=True, slots=True)
class Drawing:
    """Boxes, and edges as SVG paths, each with whether its parent has ended."""

    boxes: Sequence[Box]
    edges: Sequence[tuple[str, bool]]
    width: float
    height: float
    left_out: int
    """How many edges are not drawn, because there are too many."""


def label(node: FlowNode) -> str:
    """Its name, and how many jobs it has if they are many: parse × 100,000."""
    if node.kind == "job" and node.total < 2:
        return cut(node.name)
    times = f" × {node.total:,}" if node.total else " × ?"
    return cut(node.name, _MOST_TEXT - len(times)) + times


def standing(node: FlowNode) -> str:
    """How far it is, in a few words."""
    if node.kind == "job" and node.total < 2:
        return node.status
    if not node.total:
        return node.status if node.status != "waiting" or node.kind != "map" else "waiting for its items"
    if node.status == "failed" and not node.remaining:
        return f"{node.failed:,} of {node.total:,} failed"
    said = f"{node.percent:.0f}%" if node.status == "running" or 0 < node.ended < node.total else node.status
    return f"{said}, {node.failed:,} failed" if node.failed else said


def waits_for(node: FlowNode, known: Mapping[int, FlowNode]) -> list[str]:
    """The parents that have not ended, with how far they are."""
    if node.status != "waiting":
        return []
    open_ones = []
    for number in node.parents:
        parent = known.get(number)
        if parent is None:
            open_ones.append(f"node {number}")
        elif parent.ended_at is None:
            open_ones.append(f"{parent.name} ({standing(parent)})")
    return open_ones


def cut(text: str, most: int = _MOST_TEXT) -> str:
    """As much of a text as fits: a wide character takes the room of two."""
    room = most
    for place, each in enumerate(text):
        room -= 2 if unicodedata.east_asian_width(each) in "WF" else 1
        if room < 0:
            return f"{text[: max(place - 1, 0)]}…"
    return text


def drawing(nodes: Sequence[FlowNode]) -> Drawing:
    """Places the nodes. Edges from nodes that are not among them are left out, and of very many the long ones."""
    shown, counts, parents = _collapsed(nodes)
    layer_of = _layers(parents)
    edges_of = _shortest(layer_of, parents)
    left_out = sum(map(len, parents.values())) - sum(map(len, edges_of.values()))
    layers, chains = _with_bends(layer_of, edges_of)
    neighbours = _neighbours(chains)
    _order(layers, neighbours)
    y_of = _heights(layers, neighbours)
    x_of = {each: _MARGIN + place * (WIDTH + _GAP_X) for place, layer in enumerate(layers) for each in layer}
    boxes = [Box(node, counts[number], x_of[number], y_of[number]) for number, node in shown.items()]
    edges = [(_path(chain, x_of, y_of), shown[chain[0]].ended_at is not None) for chain in chains]
    height = max((y_of[each] + _height(each) for each in y_of), default=0.0) + _MARGIN
    width = 2 * _MARGIN + len(layers) * (WIDTH + _GAP_X) - _GAP_X
    return Drawing(boxes, edges, max(width, 0), round(height, 1), left_out)


def _collapsed(nodes: Sequence[FlowNode]) -> tuple[dict[int, FlowNode], dict[int, int], dict[int, list[int]]]:
    """The nodes to be drawn, how many each stands for, and the parents of each."""
    known = {node.number for node in nodes}
    children: dict[int, list[int]] = defaultdict(list)
    for node in nodes:
        for parent in node.parents:
            children[parent].append(node.number)
    alike: dict[Any, list[FlowNode]] = defaultdict(list)
    for node in nodes:
        alike[node.job_type, node.kind, node.when, tuple(node.parents), tuple(children[node.number])].append(node)
    stands_for: dict[int, int] = {}
    shown: dict[int, FlowNode] = {}
    counts: dict[int, int] = {}
    for some in alike.values():
        for members in [some] if len(some) >= FEW else [[each] for each in some]:
            first = members[0].number
            shown[first] = members[0] if len(members) == 1 else _joint(members)
            counts[first] = len(members)
            stands_for |= {each.number: first for each in members}
    shown = dict(sorted(shown.items()))
    return shown, counts, {
        number: list(dict.fromkeys(stands_for[parent] for parent in node.parents if parent in known))
        for number, node in shown.items()
    }  # fmt: skip


def _joint(members: Sequence[FlowNode]) -> FlowNode:
    statuses = {each.status for each in members}
    sums = {name: sum(getattr(each, name) for each in members) for name in ("remaining", "completed", "failed", "cancelled")}  # fmt: skip
    is_over = all(each.ended_at is not None for each in members)
    return dataclasses.replace(
        members[0],
        kind="group",
        status=next(status for status in _WORST_FIRST if status in statuses),
        ended_at=members[0].ended_at if is_over else None,
        **sums,
    )


def _layers(parents: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """The layer of each node: one more than that of its last parent."""
    children: dict[int, list[int]] = defaultdict(list)
    left = {}
    for node, its in parents.items():
        left[node] = len(its)
        for parent in its:
            children[parent].append(node)
    layer_of = {node: 0 for node, count in left.items() if not count}
    ready = list(layer_of)
    for node in ready:
        for child in children[node]:
            layer_of[child] = max(layer_of.get(child, 0), layer_of[node] + 1)
            left[child] -= 1
            if not left[child]:
                ready.append(child)
    return layer_of


def _shortest(layer_of: Mapping[int, int], parents: Mapping[int, Sequence[int]]) -> Mapping[int, Sequence[int]]:
    """The parents to which an edge is drawn: all, or those of the shortest edges."""
    edges = [(layer_of[child] - layer_of[parent], child, parent) for child, its in parents.items() for parent in its]
    if len(edges) <= _MOST_EDGES:
        return parents
    kept: dict[int, list[int]] = defaultdict(list)
    for _, child, parent in heapq.nsmallest(_MOST_EDGES, edges):
        kept[child].append(parent)
    return kept


# A bend is where an edge passes a layer: its place is a tuple, that of a node is a number.


def _with_bends(
    layer_of: Mapping[int, int], parents: Mapping[int, Sequence[int]]
) -> tuple[list[list[Any]], list[list[Any]]]:
    """The layers with the bends of long edges, and each edge as the places that it passes."""
    layers: list[list[Any]] = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    for node, layer in layer_of.items():
        layers[layer].append(node)
    chains, bends = [], 0
    for child, its in parents.items():
        for parent in its:
            between = range(layer_of[parent] + 1, layer_of[child])
            if bends + len(between) > _MOST_BENDS:
                between = range(0)
            passed = [(parent, child, layer) for layer in between]
            for each in passed:
                layers[each[2]].append(each)
            bends += len(passed)
            chains.append([parent, *passed, child])
    return layers, chains


def _neighbours(chains: Iterable[Sequence[Any]]) -> tuple[dict[Any, list[Any]], dict[Any, list[Any]]]:
    """What is to the left of each place, and what is to its right."""
    lefts: dict[Any, list[Any]] = defaultdict(list)
    rights: dict[Any, list[Any]] = defaultdict(list)
    for chain in chains:
        for one, other in itertools.pairwise(chain):
            lefts[other].append(one)
            rights[one].append(other)
    return lefts, rights


def _order(layers: Sequence[list[Any]], neighbours: Sequence[Mapping[Any, Sequence[Any]]]) -> None:
    """Sorts each layer by the middle of its neighbours, to and fro: few edges cross then."""
    place_of = {each: float(place) for layer in layers for place, each in enumerate(layer)}
    for sweep in range(_SWEEPS):
        sides = neighbours[sweep % 2]
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            layer.sort(key=lambda each: _mean([place_of[other] for other in sides.get(each, ())], place_of[each]))
            place_of |= {each: float(place) for place, each in enumerate(layer)}


def _heights(layers: Sequence[list[Any]], neighbours: Sequence[Mapping[Any, Sequence[Any]]]) -> dict[Any, float]:
    """Where each place begins: beside the middle of its neighbours, as far as there is room."""
    y_of: dict[Any, float] = {}
    for layer in layers:
        y = -sum(_height(each) + _GAP_Y for each in layer) / 2
        for each in layer:
            y_of[each] = y
            y += _height(each) + _GAP_Y

    def middle(each: Any) -> float:
        return y_of[each] + _height(each) / 2

    for sweep in range(_SWEEPS):
        sides = neighbours[sweep % 2]
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted = [_mean([middle(other) for other in sides.get(each, ())], middle(each)) - _height(each) / 2 for each in layer]  # fmt: skip
            placed, free = [], float("-inf")
            for each, y in zip(layer, wanted, strict=True):
                placed.append(max(y, free))
                free = placed[-1] + _height(each) + _GAP_Y
            # What had to give way moved down: all of the layer moves up by the mean of that.
            shift = _mean([is_ - y for is_, y in zip(placed, wanted, strict=True)], 0.0)
            y_of |= {each: y - shift for each, y in zip(layer, placed, strict=True)}
    top = min(y_of.values(), default=0.0) - _MARGIN
    return {each: round(y - top, 1) for each, y in y_of.items()}


def _path(chain: Sequence[Any], x_of: Mapping[Any, float], y_of: Mapping[Any, float]) -> str:
    """From the right side of the parent to the left side of the child, past the bends."""

    def middle(each: Any) -> float:
        return round(y_of[each] + _height(each) / 2, 1)

    x, y = x_of[chain[0]] + WIDTH, middle(chain[0])
    parts = [f"M{x} {y}"]
    for each in chain[1:]:
        half, next_y = (x + x_of[each]) / 2, middle(each)
        parts.append(f"C{half} {y} {half} {next_y} {x_of[each]} {next_y}")
        x, y = x_of[each] + WIDTH, next_y
        if isinstance(each, tuple):
            parts.append(f"H{x}")
    return "".join(parts)


def _height(each: Any) -> int:
    return _BEND_HEIGHT if isinstance(each, tuple) else HEIGHT


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def summary(nodes: Sequence[FlowNode]) -> str:
    """The nodes in words, for the caption of the drawing: 2 completed, 1 running, 1 waiting."""
    said = [f"{number} {status}" for status in ("completed", "failed", "cancelled", "skipped", "running", "waiting") if (number := sum(node.status == status for node in nodes))]  # fmt: skip
    return f"{len(nodes):,} {'node' if len(nodes) == 1 else 'nodes'}: {', '.join(said)}"
