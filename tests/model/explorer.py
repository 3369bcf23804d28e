"""The explorer: breadth first through every state that can be reached, so that the first counterexample is a shortest one."""

from __future__ import annotations

import dataclasses
import time
from array import array
from collections.abc import Callable, Sequence

from tests.model.properties import NO_ORPHAN, Property
from tests.model.protocol import Protocol, Step, is_drained, some_process_receives
from tests.model.state import State

LOOK_EVERY = 20_000


@dataclasses.dataclass
class Counterexample:
    """Steps from the beginning to where a property does not hold, and what is wrong there."""

    property: Property
    wrong: str
    beginning: State
    steps: list[Step]


@dataclasses.dataclass
class Explored:
    states: int = 0
    transitions: int = 0
    depth: int = 0
    seconds: float = 0.0
    counterexamples: dict[str, Counterexample] = dataclasses.field(default_factory=dict)


class Explorer:
    """Explores one protocol for some properties; stops when each of them is refuted, or nothing is left to see."""

    def __init__(
        self,
        protocol: Protocol,
        properties: Sequence[Property],
        progress: Callable[[Explored], None] = lambda explored: None,
    ) -> None:
        self._protocol = protocol
        self._progress = progress
        self._open = {each.name: each for each in properties}
        self._drains = NO_ORPHAN.name in self._open
        self._states: list[State] = []
        self._index: dict[State, int] = {}
        self._parents = array("l")
        # Steps that need no luck and no help, from and to: by these everything must be able to end.
        self._from, self._to = array("l"), array("l")
        self.explored = Explored()

    def run(self) -> Explored:
        began = time.monotonic()
        self._see(self._protocol.initial(), -1)
        layer_end, place = 1, 0
        while place < len(self._states) and self._open:
            if place == layer_end:
                layer_end = len(self._states)
                self.explored.depth += 1
            self._expand(place)
            place += 1
            if place % LOOK_EVERY == 0:
                self._count(began)
                self._progress(self.explored)
        if self._drains and NO_ORPHAN.name in self._open:
            self._look_for_orphans()
        self._count(began)
        return self.explored

    def _count(self, began: float) -> None:
        self.explored.states = len(self._states)
        self.explored.seconds = time.monotonic() - began

    def _see(self, state: State, parent: int) -> int:
        known = self._index.get(state)
        if known is not None:
            return known
        number = self._index[state] = len(self._states)
        self._states.append(state)
        self._parents.append(parent)
        return number

    def _expand(self, place: int) -> None:
        state = self._states[place]
        alone = not some_process_receives(state)
        for step in self._protocol.steps(state):
            self.explored.transitions += 1
            seen = len(self._states)
            number = self._see(self._protocol.canonical(step.state), place)
            if self._drains and number != place and not step.is_surprise and (alone or not step.is_repair):
                self._from.append(place)
                self._to.append(number)
            for each in list(self._open.values()):
                # A property of a state is checked once only.
                wrong = each.look(self._protocol, state, step, number == seen)
                if wrong:
                    self._refute(each, wrong, place, step)

    def _refute(self, refuted: Property, wrong: str, place: int, last: Step | None) -> None:
        del self._open[refuted.name]
        steps = self._steps_to(place)
        if last:
            state = steps[-1].state if steps else self._states[0]
            end = self._protocol.canonical(last.state)
            steps.append(self._step_to(state, end, lambda step: refuted.look(self._protocol, state, step, True)))
        self.explored.counterexamples[refuted.name] = Counterexample(refuted, wrong, self._states[0], steps)

    def _steps_to(self, place: int) -> list[Step]:
        """The steps to a state, found out again, with the numbers and names that they had before they were changed."""
        path: list[int] = []
        while self._parents[place] >= 0:
            path.append(place)
            place = self._parents[place]
        state, steps = self._states[0], list[Step]()
        for number in reversed(path):
            steps.append(self._step_to(state, self._states[number]))
            state = steps[-1].state
        return steps

    def _step_to(
        self, state: State, end: State, is_it: Callable[[Step], str | bool | None] = lambda step: True
    ) -> Step:
        found = (step for step in self._protocol.steps(state) if self._protocol.canonical(step.state) == end)
        return next(step for step in found if is_it(step))

    def _look_for_orphans(self) -> None:
        """Backwards from where everything has ended: what is not reached cannot get there."""
        before: list[list[int]] = [[] for _ in self._states]
        for start, end in zip(self._from, self._to, strict=True):
            before[end].append(start)
        ended = [number for number, state in enumerate(self._states) if is_drained(state)]
        drains = bytearray(len(self._states))
        for number in ended:
            drains[number] = 1
        while ended:
            for number in before[ended.pop()]:
                if not drains[number]:
                    drains[number] = 1
                    ended.append(number)
        stuck = drains.find(0)
        if stuck >= 0:
            self._refute(NO_ORPHAN, "whatever happens now, without more surprises, it never ends", stuck, None)
