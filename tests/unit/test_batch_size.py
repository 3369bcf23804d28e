"""How much goes into one statement, where the server cuts long ones short."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from howdah.db.batch_size import TRUST_AFTER, BatchSize


def wasted(most: int, allowed: int, statements: int, pause: float) -> tuple[BatchSize, int, int]:
    """So many statements, each as large as may be, where the server lets ``allowed`` pass: how many were cut short, and the
    least that passed in the last tenth."""
    now = 0.0
    batch_size = BatchSize(most, lambda: now)
    cut, least = 0, most
    for number in range(statements):
        now += pause
        if batch_size.size > allowed:
            cut += 1
            batch_size.was_cut_short(batch_size.size)
        else:
            if number > 0.9 * statements:
                least = min(least, batch_size.size)
            batch_size.went_well(batch_size.size)
    return batch_size, cut, least


@given(st.integers(1, 100_000), st.integers(1, 100_000))
def test_it_finds_a_size_that_passes_and_few_statements_are_wasted(most: int, allowed: int) -> None:
    _, cut, least = wasted(most, allowed, 2_000, 0.05)
    assert cut <= 17 + 2 * 2_000 * 0.05 / TRUST_AFTER
    assert least >= min(most, max(allowed // 3, 1))


def test_it_is_as_large_as_before_once_nothing_is_cut_short_any_more() -> None:
    now = 0.0
    batch_size = BatchSize(2_000, lambda: now)
    while batch_size.size > 1:
        batch_size.was_cut_short(batch_size.size)
    for _ in range(60):
        now += 1.5
        batch_size.went_well(batch_size.size)
    assert batch_size.size == 2_000


def test_the_success_of_small_statements_does_not_raise_the_size() -> None:
    now = 0.0
    batch_size = BatchSize(2_000, lambda: now)
    batch_size.was_cut_short(1_000)
    now = 1_000.0
    batch_size.went_well(499)
    assert batch_size.size == 500
