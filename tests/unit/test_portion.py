"""How much goes into one statement, where the server cuts long ones short."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from howdah.db.batch_size import TRUST_AFTER, Portion


def wasted(most: int, allowed: int, statements: int, pause: float) -> tuple[Portion, int, int]:
    """So many statements, each as large as may be, where the server lets ``allowed`` pass: how many were cut short, and the
    least that passed in the last tenth."""
    now = 0.0
    portion = Portion(most, lambda: now)
    cut, least = 0, most
    for number in range(statements):
        now += pause
        if portion.size > allowed:
            cut += 1
            portion.was_cut_short(portion.size)
        else:
            if number > 0.9 * statements:
                least = min(least, portion.size)
            portion.went_well(portion.size)
    return portion, cut, least


@given(st.integers(1, 100_000), st.integers(1, 100_000))
def test_it_finds_a_size_that_passes_and_few_statements_are_wasted(most: int, allowed: int) -> None:
    _, cut, least = wasted(most, allowed, 2_000, 0.05)
    assert cut <= 17 + 2 * 2_000 * 0.05 / TRUST_AFTER
    assert least >= min(most, max(allowed // 3, 1))


def test_it_is_as_large_as_before_once_nothing_is_cut_short_any_more() -> None:
    now = 0.0
    portion = Portion(2_000, lambda: now)
    while portion.size > 1:
        portion.was_cut_short(portion.size)
    for _ in range(60):
        now += 1.5
        portion.went_well(portion.size)
    assert portion.size == 2_000


def test_small_statements_say_nothing_about_large_ones() -> None:
    now = 0.0
    portion = Portion(2_000, lambda: now)
    portion.was_cut_short(1_000)
    now = 1_000.0
    portion.went_well(499)
    assert portion.size == 500
