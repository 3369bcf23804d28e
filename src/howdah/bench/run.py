"""Plays scenarios: one round that does not count, and as many as were asked for that do."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

from howdah.bench.arena import Arena
from howdah.bench.measured import Figure
from howdah.bench.scenario import Options, Round, Scenario


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """What a scenario came to."""

    scenario: Scenario
    warm_up: Round
    rounds: tuple[Round, ...]

    @property
    def figures(self) -> list[Figure]:
        return [
            Figure(name, unit, tuple(each.values[name] for each in self.rounds))
            for name, unit in self.scenario.units.items()
        ]

    def as_data(self) -> dict[str, Any]:
        return {
            "what": self.scenario.what,
            "how": self.scenario.how,
            "meaning": self.scenario.meaning,
            "figures": [figure.as_data() for figure in self.figures],
            "warm_up": dataclasses.asdict(self.warm_up),
            "rounds": [dataclasses.asdict(each) for each in self.rounds],
        }


class Listener(Protocol):
    """Who is told how far it is. Never while something is measured."""

    def begins(self, scenario: Scenario) -> None: ...

    def played(self, scenario: Scenario, number: int, played: Round) -> None:
        """A round is over. The number of the one that does not count is 0."""


def run(scenarios: Sequence[Scenario], arena: Arena, options: Options, listener: Listener) -> list[Result]:
    return [_played(scenario, arena, options, listener) for scenario in scenarios]


def _played(scenario: Scenario, arena: Arena, options: Options, listener: Listener) -> Result:
    listener.begins(scenario)
    # What another scenario has left would be in the way of this one.
    arena.renew()
    with scenario.opened(arena, options) as play:
        warm_up = play(_within(scenario, min(scenario.few, options.jobs or scenario.few)))
        listener.played(scenario, 0, warm_up)
        jobs = jobs_of_a_round(scenario, options, warm_up)
        rounds = []
        for number in range(1, options.rounds + 1):
            rounds.append(play(jobs))
            listener.played(scenario, number, rounds[-1])
    return Result(scenario, warm_up, tuple(rounds))


def jobs_of_a_round(scenario: Scenario, options: Options, warm_up: Round) -> int:
    """As many as were asked for, or as the scenario always has, or as many as take some seconds here."""
    if options.jobs is not None:
        return _within(scenario, options.jobs)
    if scenario.usual is not None:
        return scenario.usual
    return _within(scenario, max(scenario.few, int(scenario.seconds * warm_up.jobs / warm_up.seconds)))


def _within(scenario: Scenario, jobs: int) -> int:
    return min(max(jobs, scenario.least), scenario.most)
