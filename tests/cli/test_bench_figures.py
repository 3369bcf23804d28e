"""The figures of a bench: medians, percentiles, and how they are written."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from howdah.cli.commands.bench.figures import Figure, percentile, shown

NUMBERS = st.floats(min_value=1e-6, max_value=1e12)
ROUNDS = st.lists(NUMBERS, min_size=1, max_size=50)
SHARES = st.floats(min_value=0, max_value=1)


@given(ROUNDS)
def test_a_figure_is_the_median_of_its_rounds_with_the_lowest_and_the_highest(rounds: list[float]) -> None:
    figure = Figure("x", "jobs/s", tuple(rounds))
    assert figure.low <= figure.median <= figure.high
    assert {figure.low, figure.high} <= set(rounds)
    assert figure.as_data() == {
        "name": "x",
        "unit": "jobs/s",
        "median": statistics.median(rounds),
        "min": min(rounds),
        "max": max(rounds),
        "rounds": rounds,
    }


@given(ROUNDS, SHARES, SHARES)
def test_a_percentile_lies_among_the_values_and_grows_with_its_share(
    values: list[float], one: float, other: float
) -> None:
    least, most = sorted((one, other))
    assert min(values) <= percentile(values, least) <= percentile(values, most) <= max(values)


@given(ROUNDS)
def test_percentiles_at_the_ends_and_in_the_middle(values: list[float]) -> None:
    assert percentile(values, 0) == min(values)
    assert percentile(values, 1) == max(values)
    assert percentile(values, 0.5) == pytest.approx(statistics.median(values))


def test_a_percentile_between_two_values_is_in_proportion() -> None:
    assert percentile([30, 10, 20], 0.75) == 25
    assert percentile(range(101), 0.99) == 99


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.03571, "0.0357"),
        (0.9996, "1.00"),
        (1, "1.00"),
        (12.34, "12.3"),
        (99.96, "100"),
        (999.7, "1,000"),
        (1_234, "1,230"),
        (41_234.5, "41,200"),
        (1_234_567, "1,230,000"),
    ],
)
def test_three_digits_are_shown(value: float, text: str) -> None:
    assert shown(value) == text


@given(NUMBERS)
def test_what_is_shown_is_close_to_the_value(value: float) -> None:
    assert float(shown(value).replace(",", "")) == pytest.approx(value, rel=0.0051)
