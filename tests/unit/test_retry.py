"""Retry rules: how they are recognised, and which delays they give."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from howdah import InvalidOption
from howdah.handlers.retry import Exponential, Fixed, Immediately, Linear, as_data, delay_of, retries

NUMBER = st.floats(0, 1e6) | st.integers(0, 10**6)
POLICY = st.one_of(
    st.builds(Exponential, delay=NUMBER, factor=st.floats(1, 1000), max=NUMBER, jitter=st.just(0)),
    st.builds(Fixed, delay=NUMBER),
    st.builds(Linear, delay=NUMBER, max=NUMBER),
    st.just(Immediately()),
    st.lists(NUMBER | st.timedeltas(timedelta(0), timedelta(days=365)), min_size=1, max_size=5),
)


def test_a_policy_is_stored_and_a_rule_that_needs_the_exception_is_not() -> None:
    assert retries(None).stored is None
    assert retries(Fixed(5)).stored == {"kind": "fixed", "delay": 5, "jitter": 0}
    assert retries({"kind": "linear", "delay": 5}).stored == {"kind": "linear", "delay": 5}
    delays = {"kind": "delays", "delays": [1, 10, 7200]}
    assert (
        retries([1, 10, timedelta(hours=2)]).stored == retries((1, 10, 7200)).stored == retries(delays).stored == delays
    )
    rules: Any = {ValueError: Fixed(5), OSError: Immediately()}
    by_class = retries(rules)
    assert (by_class.stored, by_class.decide) == (None, None)
    assert by_class.by_class == {ValueError: as_data(Fixed(5)), OSError: {"kind": "none"}}

    def decide(job: Any, error: BaseException) -> float:
        return 1

    assert (retries(decide).decide, retries(decide).stored) == (decide, None)


@pytest.mark.parametrize(
    "rule",
    [
        5,
        "fixed",
        [Fixed(5)],
        [],
        [-1],
        ["1"],
        [True],
        [1e10],
        [1] * 101,
        {"kind": "delays"},
        {ValueError: 5},
        {ValueError: Fixed(5), "kind": "fixed"},
        {int: Fixed(5)},
    ],
    ids=repr,
)
def test_what_is_no_rule_is_refused(rule: Any) -> None:
    with pytest.raises(InvalidOption):
        retries(rule)


@pytest.mark.parametrize("give_up", [[5], ["ValueError"], [ValueError()], [int], "ab"], ids=repr)
def test_give_up_is_a_list_of_exception_classes(give_up: Any) -> None:
    with pytest.raises(InvalidOption, match="give_up"):
        retries(None, give_up)


@pytest.mark.parametrize(
    "policy",
    [
        Fixed(-1),
        Fixed(float("nan")),
        Linear(float("inf")),
        Exponential(factor=0.1),
        Exponential(jitter=5),
        {"kind": "fxied", "delay": 5},
        {"kind": "fixed"},
        {"kind": "fixed", "delay": "5"},
    ],
    ids=repr,
)
def test_a_policy_by_class_that_makes_no_sense_is_refused(policy: Any) -> None:
    rules: Any = {ValueError: policy}
    with pytest.raises(InvalidOption):
        retries(rules)


@given(policy=POLICY, attempts=st.integers(1, 2000))
def test_a_delay_is_never_negative_and_never_longer_than_its_limit(policy: Any, attempts: int) -> None:
    seconds = delay_of(as_data(policy), attempts)
    assert 0 <= seconds <= max(getattr(policy, "max", 366 * 86400 if isinstance(policy, list) else 3600), 0)


@given(jitter=st.floats(0, 1), delay=st.floats(0, 1000))
def test_jitter_stays_within_its_share(jitter: float, delay: float) -> None:
    seconds = delay_of(as_data(Fixed(delay, jitter=jitter)), 1)
    # The delay is rounded to a millionth.
    assert delay * (1 - jitter) - 1e-6 <= seconds <= delay * (1 + jitter) + 2e-6


def test_the_database_comes_to_the_same_delay(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:

        @given(policy=POLICY, attempts=st.integers(1, 200))
        def same(policy: Any, attempts: int) -> None:
            data = as_data(policy)
            row = conn.execute(
                "SELECT extract(epoch FROM howdah.retry_delay(%s, %s))::float8",
                (psycopg.types.json.Jsonb(data), attempts),
            ).fetchone()
            assert row is not None
            assert row[0] == pytest.approx(delay_of(data, attempts), abs=1e-3, rel=1e-6)

        same()
