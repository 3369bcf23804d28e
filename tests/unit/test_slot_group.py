"""What a slot group asks for: how many jobs ahead of their slots, and whether their claim starts them."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from howdah import JobQueue
from howdah.worker.calls import Claim, Demand
from howdah.worker.run.slot_group import SlotGroup
from tests.unit.test_throughput import NOON, job_of

SLOTS = 50
MANY = 200


def group_of(seconds: Mapping[str, float]) -> SlotGroup:
    """Types that are known to take so long, on average."""
    queue = JobQueue("postgresql://nowhere")

    async def handle() -> None: ...

    for name in seconds:
        queue.job(name=name)(handle)
    group = SlotGroup("the loop", SLOTS, list(queue.handlers.values()))
    for name, each in seconds.items():
        group.release([job_of(name, NOON)], each)
    return group


def demand_after(group: SlotGroup, *claimed: str) -> Demand:
    """What it asks for after a claim that found jobs of these types."""
    first = group.demand(100_000)
    assert first is not None
    group.take([job_of(name, NOON) for name in claimed], Claim([], False, 0), by_age=False)
    found = group.demand(100_000)
    assert found is not None
    return found


def instant(types: int) -> dict[str, float]:
    return {f"type_{n}": 0.00001 for n in range(types)}


def test_jobs_of_instant_types_are_started_by_their_claim() -> None:
    found = demand_after(group_of(instant(MANY)), "type_1", "type_2")
    assert found.start_ahead
    assert found.batch_size == 1_000


@pytest.mark.parametrize(("types", "starts"), [(MANY, True), (20, False)])
def test_of_many_types_a_few_may_seem_slower(types: int, starts: bool) -> None:
    found = demand_after(group_of({**instant(types), "seems_slower": 0.002}), "type_1")
    assert found.start_ahead == starts


def test_no_more_of_such_a_type_waits_than_begins_within_milliseconds() -> None:
    found = demand_after(group_of({**instant(MANY), "seems_slower": 0.01}), "type_1", "seems_slower")
    assert found.start_ahead
    assert found.batch_size <= SLOTS * 0.025 / 0.01


@pytest.mark.parametrize("slow", [{"slow": 0.05}, {f"slow_{n}": 0.002 for n in range(5)}], ids=["slow", "several"])
def test_slow_types_are_not_started_ahead(slow: dict[str, float]) -> None:
    assert not demand_after(group_of({**instant(MANY), **slow}), "type_1").start_ahead


def test_an_unknown_type_is_not_started_ahead() -> None:
    group = group_of(instant(MANY))
    group.handlers = {**group.handlers, "unknown": group.handlers["type_1"]}
    found = demand_after(group, "type_1")
    assert found.ahead_types is not None
    assert "unknown" not in found.ahead_types


@pytest.mark.parametrize(("a_second", "in_hand"), [(20_000, 500), (10, 100), (1_000_000, 2_000)])
def test_no_more_waits_than_leaves_the_line_within_milliseconds(
    monkeypatch: pytest.MonkeyPatch, a_second: int, in_hand: int
) -> None:
    """An urgent job waits for the next claim, which comes when the jobs of the last one have begun."""
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    group = group_of(instant(1))
    group.wait([job_of("type_0", NOON)] * 1_000)
    while group.next_call():
        group.busy -= 1
        clock[0] += 1 / a_second
    assert demand_after(group, "type_0").batch_size == in_hand // 2


def test_a_call_that_took_long_does_not_make_the_line_look_stuck_when_it_ends() -> None:
    group = group_of(instant(1))
    group.busy = SLOTS
    began = time.monotonic()
    group.call_began(began + 3600)
    group.call_began(began - 3600)
    assert not group.is_stuck()
