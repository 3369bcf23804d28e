"""Ids that sort by the time at which they were made."""

from __future__ import annotations

import threading
import time
import uuid
from itertools import pairwise

import pytest

from howdah.model import ids
from howdah.model.ids import new_id


def test_ids_strictly_increase() -> None:
    made = [new_id() for _ in range(20_000)]
    assert all(earlier < later for earlier, later in pairwise(made))
    assert [str(each) for each in made] == sorted(str(each) for each in made)


def test_ids_of_all_threads_are_different_and_increase_in_each() -> None:
    made: list[list[uuid.UUID]] = [[] for _ in range(8)]
    together = threading.Barrier(8)

    def make(mine: list[uuid.UUID]) -> None:
        together.wait()
        mine.extend(new_id() for _ in range(5_000))

    threads = [threading.Thread(target=make, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(earlier < later for mine in made for earlier, later in pairwise(mine))
    # Also without the random bits: what counts up is the time.
    assert len({each.int >> 64 for mine in made for each in mine}) == 40_000


def test_an_id_is_a_uuid_of_version_7() -> None:
    made = [new_id() for _ in range(1_000)]
    assert {each.version for each in made} == {7}
    assert {each.variant for each in made} == {uuid.RFC_4122}
    assert len({each.int & (1 << 62) - 1 for each in made}) == 1_000


@pytest.fixture
def fresh_ids(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(ids, "_last", 0)
    return monkeypatch


def test_an_id_begins_with_the_milliseconds_of_its_making(fresh_ids: pytest.MonkeyPatch) -> None:
    fresh_ids.setattr(time, "time_ns", lambda: 1_800_000_000_123_500_000)
    made = new_id()
    assert made.int >> 80 == 1_800_000_000_123
    assert made.int >> 64 & 0xFFF == 2048


def test_ids_increase_while_the_clock_stands_still_or_goes_back(fresh_ids: pytest.MonkeyPatch) -> None:
    readings = iter([2_000_000_000, 2_000_000_000, 1_000_000_000, 1_000_000_000, 3_000_000_000])
    fresh_ids.setattr(time, "time_ns", lambda: next(readings))
    made = [new_id() for _ in range(5)]
    assert all(earlier < later for earlier, later in pairwise(made))
    assert made[-1].int >> 80 == 3_000


def test_more_ids_than_a_millisecond_has_room_for_go_on_in_the_next(fresh_ids: pytest.MonkeyPatch) -> None:
    fresh_ids.setattr(time, "time_ns", lambda: 5_000_000_000)
    made = [new_id() for _ in range(5_000)]
    assert all(earlier < later for earlier, later in pairwise(made))
    assert {each.version for each in made} == {7}
    assert made[-1].int >> 80 == 5_001
