"""Rates as texts and as objects."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from howdah import InvalidOption, JobQueue, Rate
from howdah.model.rate import parsed_rate


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("50/s", Rate(50)),
        ("100/min", Rate(100, 60)),
        (" 10 / h ", Rate(10, 3600)),
        ("5/10s", Rate(5, 10)),
        ("3/2.5 min", Rate(3, 150)),
        ("1000/d", Rate(1000, 86_400)),
        ("1/500ms", Rate(1, 0.5)),
    ],
)
def test_a_text_means_a_rate(text: str, rate: Rate) -> None:
    assert parsed_rate(text).stored == rate.stored


@given(st.integers(1, 1_000_000), st.sampled_from([0.001, 1, 60, 3600, 86_400, 2.5, 90]))
def test_the_text_of_a_rate_means_the_same(jobs: int, seconds: float) -> None:
    rate = Rate(jobs, seconds)
    assert parsed_rate(str(rate)).stored == rate.stored


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Rate(0),
        lambda: Rate(True),
        lambda: Rate(1.5),  # type: ignore[arg-type]
        lambda: Rate(1, 0),
        lambda: Rate(1, float("nan")),
        lambda: Rate(1, "1"),  # type: ignore[arg-type]
        lambda: Rate(1, timedelta(days=1000)),
        lambda: Rate(1, 1, 0),
        lambda: parsed_rate("1/year"),
        lambda: parsed_rate("99999999/s"),
        lambda: parsed_rate(None),
    ],
)
def test_what_is_no_rate_is_refused_with_an_example(wrong: Any) -> None:
    with pytest.raises(InvalidOption, match="rate"):
        wrong()


def test_a_handler_declares_its_rate_and_cost() -> None:
    queue = JobQueue("postgresql://nowhere")

    @queue.job(rate=Rate(5, timedelta(minutes=1)), cost=3)
    def call() -> None: ...

    assert (call.declaration["rate"], call.declaration["cost"]) == ({"jobs": 5, "seconds": 60.0, "burst": 5}, 3)
    with pytest.raises(InvalidOption, match="cost"):
        queue.job(cost=0)(lambda: None)
